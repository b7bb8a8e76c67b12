from types import SimpleNamespace

import numpy as np
import pytest

from minifabric import clos
from railweave.design.models import Algorithm, Design, PlaneName
from railweave.errors import InputError
from railweave.fabric import PlaneId
from railweave.workload import design_workload, job_traffic, network_plane, place_jobs

FABRIC = clos(servers=4, gpus=4, spines=2)[0]
BUILT = SimpleNamespace(fabric=FABRIC)
REDUCE = {"name": "gradients", "collective": "all-reduce", "size": "16 MB"}
TRAIN = {"name": "train", "model": "llama3-8b", "parallelism": {"tensor": 4}}


def design(*jobs, **more):
    planes = {"backend": {"transport": "rocev2", "switch": "sn5600"}, **more.pop("planes", {})}
    return Design(
        railweave=1,
        name="test",
        cluster={"servers": ({"model": "dgx-h100", "count": 4},)},
        planes=planes,
        jobs=jobs,
        **more,
    )


def test_a_collective_job_uses_all_gpus_and_its_own_name(catalog):
    made = design(REDUCE)
    traffic = job_traffic(made.jobs[0], BUILT, made, catalog)
    assert traffic.labels == ("gradients/all-reduce/ring#0",)
    assert traffic.n_tasks == 4  # a channel a rail
    assert len(np.unique(traffic.dst)) == 16
    traffic.validate(FABRIC.n_nodes)


@pytest.mark.parametrize(
    ("field", "value", "effect"),
    [
        ("ranks", 4, lambda t: len(np.unique(t.src)) == 4),
        ("size", "32 MB", lambda t: t.chunk_bytes[0] == 32e6 / 4 / 16),
        ("channels", 2, lambda t: t.n_tasks == 2),
        ("algorithm", "tree", lambda t: t.labels[0] == "gradients/all-reduce/tree#0"),
        ("iterations", 3, lambda t: len(t.labels) == 3 and t.n_tasks == 3 * 4 + 2),
        ("start", "2 s", lambda t: bool((t.task_start_s == 2.0).all())),
        ("placement", (3, 2, 1), lambda t: set(t.src.tolist()) == set(FABRIC.gpus[1:4].tolist())),
        ("collective", "all-gather", lambda t: t.task_rounds[0] == 15),
    ],
)
def test_every_field_of_a_collective_job_has_an_effect(catalog, field, value, effect):
    made = design({**REDUCE, field: value})
    assert effect(job_traffic(made.jobs[0], BUILT, made, catalog))
    plain = design(REDUCE)
    assert not effect(job_traffic(plain.jobs[0], BUILT, plain, catalog))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "llama3-70b"),
        ("parallelism", {"tensor": 2, "pipeline": 2}),
        ("micro_batches", 4),
        ("micro_batch", 2),
        ("iterations", 2),
    ],
)
def test_every_field_of_a_model_job_has_an_effect(catalog, field, value):
    plain, changed = design(TRAIN), design({**TRAIN, field: value})
    before = job_traffic(plain.jobs[0], BUILT, plain, catalog)
    after = job_traffic(changed.jobs[0], BUILT, changed, catalog)
    assert after.total_bytes != pytest.approx(before.total_bytes, rel=1e-3)


def test_stragglers_delay_what_they_send(catalog):
    made = design(REDUCE, stragglers=({"gpu": 5, "delay": "1 ms"},))
    traffic = job_traffic(made.jobs[0], BUILT, made, catalog)
    slow = traffic.src == FABRIC.gpus[5]
    assert bool((traffic.chunk_delay_s[slow] == 1e-3).all())
    assert traffic.chunk_delay_s[~slow].sum() == 0
    wrong = design(REDUCE, stragglers=({"gpu": 99, "delay": "1 ms"},))
    with pytest.raises(InputError, match=r"GPU 99 does not exist; allowed: 0…15"):
        job_traffic(wrong.jobs[0], BUILT, wrong, catalog)


def test_jobs_with_counts_take_gpus_of_their_own():
    made = design(
        {**REDUCE, "name": "a", "ranks": 6},
        {**REDUCE, "name": "b", "ranks": 8},
        {**REDUCE, "name": "c", "ranks": 4},
    )
    placed, notes = place_jobs(made.jobs, FABRIC, 0)
    assert not set(placed[0].tolist()) & set(placed[1].tolist())
    assert [note.subject for note in notes] == ["job c"]
    assert "4 of its GPUs" in notes[0].statement


def test_a_whole_design_is_merged(catalog):
    made = design(
        {**REDUCE, "ranks": 8},
        {**TRAIN, "ranks": 8, "tenant": "blue"},
        background=({"name": "web", "plane": "backend", "load": 0.1, "duration": "1 ms"},),
        seed=4,
    )
    work = design_workload(BUILT, made, catalog)
    assert [plan.name for plan in work.jobs] == ["gradients", "train"]
    assert work.jobs[0].algorithm is Algorithm.RING
    assert work.jobs[1].degrees.data == 2
    assert set(work.jobs[1].shares) == {"tensor", "data"}
    alone = sum(plan.traffic.total_bytes for plan in work.jobs)
    assert work.traffic.total_bytes > alone
    assert {label.split("/")[0] for label in work.traffic.labels} == {"gradients", "train", "web"}
    assert any("web-search" in note.subject for note in work.assumptions)
    again = design_workload(BUILT, made, catalog)
    assert np.array_equal(work.traffic.task_start_s, again.traffic.task_start_s)


def test_shared_planes_are_followed():
    made = design(
        REDUCE,
        planes={
            "frontend": {"transport": "tcp", "switch": "sn4700"},
            "storage": {"shares": "frontend"},
        },
    )
    assert network_plane(made, PlaneName.STORAGE) is PlaneId.FRONTEND
    assert network_plane(made, PlaneName.BACKEND) is PlaneId.BACKEND
    assert network_plane(made, PlaneName.MANAGEMENT) is PlaneId.MANAGEMENT
    circle = design(
        REDUCE, planes={"frontend": {"shares": "storage"}, "storage": {"shares": "frontend"}}
    )
    with pytest.raises(InputError, match="goes in a circle"):
        network_plane(circle, PlaneName.STORAGE)


def test_a_job_needs_work(catalog):
    made = design({"name": "idle"})
    with pytest.raises(InputError, match="job idle: needs 'collective' with 'size', or 'model'"):
        job_traffic(made.jobs[0], BUILT, made, catalog)
