"""The Python interface: the chain, its names and where they are documented."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import railweave
from railweave.design.models import Algorithm, Collective, PlacementName, RoutingScheme

ROOT = Path(__file__).parents[1]
SMALL = ROOT / "tests/golden/small.yaml"


@pytest.fixture(scope="module")
def small() -> railweave.BuiltDesign:
    return railweave.load(SMALL).build()


def test_the_chain():
    frame = railweave.load(SMALL).build().simulate(engine="flow").frame()
    assert {"label", "start_s", "finish_s", "duration_s", "bytes", "streams"} <= set(frame.columns)
    assert frame.height > 0
    assert (frame["finish_s"] >= frame["start_s"]).all()


def test_engines_are_of_one_kind(small):
    flow, analytic = small.simulate("flow"), small.simulate("analytic")
    assert type(flow) is type(analytic)
    assert flow.explain()
    packet = small.simulate("packet")
    assert isinstance(packet, type(flow))
    assert packet.makespan_s == pytest.approx(flow.makespan_s, rel=0.2)
    with pytest.raises(railweave.InputError, match="analytic, flow, packet"):
        small.simulate("fluid")


def test_failures_narrow_a_copy(small):
    broken = small.fail(["leaf-1"])
    assert broken is not small
    assert broken.failed == ("leaf-1",)
    assert small.failed == ()
    assert small.fabric.link_up.all()
    assert not broken.fabric.link_up.all()
    assert broken.fail(["spine-1"]).failed == ("leaf-1", "spine-1")
    assert small.fail([]) is small
    assert broken.summary().backend.capacity.bisection_bps < (
        small.summary().backend.capacity.bisection_bps
    )
    assert small.what_if(["leaf-1"]).gpus_cut_off > 0
    with pytest.raises(railweave.InputError, match="nothing-like-it"):
        small.fail(["nothing-like-it"])


def test_seed_of_the_design_is_that_of_the_draws(small):
    assert small.monte_carlo(1, 5).to_json() == small.monte_carlo(1, 5).to_json()


def test_seed_and_routing_reach_the_simulation(small):
    traffic = small.workload().traffic
    other = small.workload(seed=5).traffic
    assert traffic.n_streams != other.n_streams or (traffic.chunk_bytes != other.chunk_bytes).any()
    sprayed = small.simulate(routing=RoutingScheme.SPRAY)
    assert sprayed.paths is not None
    assert sprayed.paths.weight is not None


def test_a_collective_replaces_the_traffic_of_the_design(small):
    outcome = small.collective(Collective.ALL_REDUCE, 2**26, ranks=16, algorithm=Algorithm.RING)
    assert outcome.ranks == 16
    assert outcome.algorithm == "ring"
    assert outcome.size_bytes == 2**26
    assert outcome.time_s >= outcome.analytic_s * 0.99
    everyone = small.collective(Collective.ALL_TO_ALL, 2**20)
    assert everyone.ranks == 32
    assert everyone.algorithm == "direct"
    spread = small.collective(
        Collective.ALL_REDUCE, 2**26, ranks=16, placement=PlacementName.SPREAD
    )
    assert spread.share_server < outcome.share_server
    assert [job.name for job in small.design.jobs] == ["gradients"]
    with pytest.raises(railweave.InputError, match="1…32"):
        small.collective(Collective.ALL_REDUCE, 2**20, ranks=33)


def test_the_library_picks_for_the_same_ranks_as_a_collective(small):
    choice = small.library_choice(Collective.ALL_REDUCE, 2**28, ranks=16)
    assert (choice.ranks, choice.size_bytes) == (16, 2**28)
    assert choice.busbw_low_Bps < choice.busbw_Bps < choice.busbw_high_Bps
    assert choice.network.engine == "flow"
    with pytest.raises(railweave.InputError, match="1…32"):
        small.library_choice(Collective.ALL_REDUCE, 2**20, ranks=33)


def test_a_plan_is_for_the_design(small):
    study = small.plan("llama3-8b", gpus=16, batch=32, fixed={"tensor": 2, "context": 1})
    assert study.best.plan.ranks == 16
    assert study.best.plan.sequences_per_step == 32
    assert study.search.refined > 0
    with pytest.raises(railweave.InputError, match="did you mean"):
        small.plan("llama3-9b")


def test_run_reports_progress_that_only_grows(small):
    steps: list[tuple[str, float]] = []
    record = small.run(progress=lambda step, fraction: steps.append((step, fraction)))
    fractions = [fraction for _, fraction in steps]
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] <= fractions[-1] <= 1
    assert {"check", "simulate"} <= {step for step, _ in steps}
    assert record.what_ifs
    assert not small.run(what_ifs=False).what_ifs


def test_progress_may_end_a_run(small):
    def stop(step: str, fraction: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small.run(progress=stop)


def test_parse_reads_text_and_names_it_in_errors():
    assert railweave.parse(SMALL.read_text()).design.name == "small"
    with pytest.raises(railweave.DesignError, match=r"^mine:1:\d+: "):
        railweave.parse("railweave: 2\n", file="mine")


def test_defaults_are_a_design_again():
    loaded = railweave.load(SMALL)
    again = railweave.parse(loaded.with_defaults())
    assert again.with_defaults() == loaded.with_defaults()


def test_public_names_are_those_of_the_reference():
    """The table of contents of the reference names every public object, and no other."""
    page = (ROOT / "docs/reference/python.md").read_text("utf-8")
    named = set(re.findall(r"^## `(\w+)`$", page, flags=re.MULTILINE))
    assert named == set(railweave.__all__) - {"__version__"}
    for name in ("LoadedDesign", "BuiltDesign"):
        start = page.index(f"## `{name}`")
        end = page.find("\n## ", start + 1)
        section = page[start : end if end > 0 else None]
        members = {
            member
            for member, _ in inspect.getmembers(getattr(railweave, name))
            if not member.startswith("_")
        } | set(getattr(railweave, name).__dataclass_fields__)
        assert set(re.findall(r"^\| `(\w+)", section, flags=re.MULTILINE)) == members


def test_unknown_names_say_so():
    assert set(railweave.__all__) == set(dir(railweave))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        railweave.nothing  # noqa: B018


def test_a_fabric_that_cannot_be_sized_says_where(tmp_path):
    text = (
        "railweave: 1\nname: x\ncluster: {servers: {model: dgx-h100, count: 100}}\nplanes:\n"
        "  backend:\n    transport: infiniband\n    topology: rail-optimized\n"
        "    switch: qm9700\n    counts: {spine: 15}\n"
    )
    with pytest.raises(railweave.InputError) as caught:
        railweave.parse(text, "wrong.yaml").build()
    assert str(caught.value).startswith("wrong.yaml:9:14: planes.backend.counts.spine: 15 spines")
