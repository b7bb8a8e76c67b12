"""A question is answered on a design and on catalog servers, with networks, failures and prices."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import railweave
from railweave.catalog import default_catalog
from railweave.design.models import PlacementName
from railweave.errors import InputError
from railweave.predict.plan_cluster import cluster_of_design, cluster_of_server
from railweave.predict.plan_study import (
    PlanQuestion,
    default_batch,
    parse_batch,
    parse_count,
    study_plan,
)
from railweave.workload.groups import Degrees

CATALOG = default_catalog()
LLAMA = CATALOG.model("llama3-8b")
TEXT = """\
railweave: 1
name: small
cluster:
  servers: {count: 8, inline: {gpus: 4, nics: 4, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}}
planes:
  backend:
    {transport: rocev2, topology: leaf-spine, switch: {radix: 16, speed: 100 Gb/s}, routing: spray}
"""


@pytest.fixture(scope="module")
def built():
    return railweave.parse(TEXT).build()


@pytest.fixture(scope="module")
def cluster(built):
    return cluster_of_design(built)


@pytest.fixture(scope="module")
def study(cluster):
    question = PlanQuestion(
        LLAMA,
        batch=64,
        fixed={"tensor": 2, "context": 1},
        top=3,
        oversubscription=(4.0,),
        fail=("spine-1",),
        placements=(PlacementName.SPREAD,),
        gpu_hour=3.0,
        tokens=1e9,
        counts=(16, 32),
    )
    return study_plan(question, cluster)


# ---------------------------------------------------------------- clusters


def test_a_design_is_a_cluster(cluster):
    assert (cluster.gpus, cluster.domain_gpus, cluster.gpu.name) == (32, 4, "h100")
    assert cluster.system.domains == 8
    assert "small: 8 × 4 hopper GPUs" in cluster.describe()


def test_some_gpus_of_a_design(built):
    some = cluster_of_design(built, 8, placement=PlacementName.SPREAD)
    assert (some.gpus, len(some.nodes), some.placement) == (8, 8, PlacementName.SPREAD)
    with pytest.raises(InputError, match=r"1…32"):
        cluster_of_design(built, 33)


def test_the_fabric_is_priced_by_the_flow_engine(cluster):
    degrees = Degrees(2, 16, 1, 1)
    assert "flow engine" in cluster.exact(degrees).source
    assert "flow engine" not in cluster.quick(degrees).source


def test_an_oversubscribed_network_is_slower_in_closed_forms_too(built):
    from railweave.predict.scaling import oversubscribed

    apart = cluster_of_design(built, placement=PlacementName.RANDOM)
    less = apart.on(oversubscribed(built, 3.0))
    assert less.links.network_Bps < apart.links.network_Bps


def test_more_gpus_than_the_design_has_are_on_a_larger_fabric(cluster):
    assert cluster.at(16).built is cluster.built
    larger = cluster.at(64)
    assert len(larger.built.fabric.gpus) == 64
    assert larger.gpus == 64


@pytest.mark.parametrize(
    ("server", "gpus", "domains", "inside", "network"),
    [
        ("dgx-h100", 64, 8, 8, "infiniband"),
        ("dgx-h100", 4, 1, 4, "none"),
        ("gb200-nvl72-tray", 144, 2, 72, "infiniband"),
        ("p5-h100-efa", 16, 2, 8, "efa"),
        ("mi300x-8gpu", 16, 2, 8, "rocev2"),
    ],
)
def test_catalog_servers_are_a_cluster(server, gpus, domains, inside, network):
    found = cluster_of_server(CATALOG, server, gpus)
    assert (found.system.domains, found.system.ranks_per_domain) == (domains, inside)
    assert found.system.network == network
    assert found.exact(Degrees(1, gpus, 1, 1)).source == found.quick(Degrees(1, gpus, 1, 1)).source
    with pytest.raises(InputError, match="no fabric"):
        found.at(gpus)


def test_links_are_those_of_the_design_of_such_servers():
    text = """\
railweave: 1
name: pair
cluster: {servers: {model: dgx-h100, count: 2}}
planes: {backend: {transport: infiniband, topology: rail-optimized, switch: qm9700}}
"""
    designed = cluster_of_design(railweave.parse(text).build())
    assert cluster_of_server(CATALOG, "dgx-h100", 16).links == designed.links


@pytest.mark.parametrize(
    ("server", "gpus", "words"),
    [("cpu-2s", 8, "no GPUs"), ("dgx-h100", 12, "nearest: 16"), ("dgx-h100", 0, "multiple of 8")],
)
def test_servers_that_cannot_be_are_refused(server, gpus, words):
    with pytest.raises(InputError, match=words):
        cluster_of_server(CATALOG, server, gpus)


def test_another_gpu_in_a_server():
    found = cluster_of_server(CATALOG, "dgx-h100", 8, gpu="h200")
    assert found.gpu.name == "h200"


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize(
    ("text", "batch"),
    [("2048", 2048), ("16Mi tokens", 2048), ("8192 tokens", 1), ("7 sequences", 7)],
)
def test_batches_are_read(text, batch):
    assert parse_batch(text, 8192) == batch


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("16M tokens", "nearest: 1,953 sequences"),
        ("0", "cannot be read"),
        ("many", "cannot be read"),
        ("4 cats", "cannot be read"),
        ("x tokens", "no whole number"),
    ],
)
def test_batches_that_mean_nothing_are_refused(text, words):
    with pytest.raises(InputError, match=words):
        parse_batch(text, 8192)


@pytest.mark.parametrize(
    ("text", "count"),
    [("4096", 4096), ("15T", 15 * 10**12), ("1.5B", 15 * 10**8), ("4Mi", 1 << 22)],
)
def test_counts_are_read(text, count):
    assert parse_count(text) == count


@pytest.mark.parametrize(
    ("gpus", "domain", "batch"), [(1024, 8, 512), (1016, 8, 508), (16384, 8, 2048), (4, 4, 512)]
)
def test_the_default_batch_gives_every_domain_its_share(gpus, domain, batch):
    assert default_batch(8192, gpus, domain) == batch


# ---------------------------------------------------------------- the study


def test_the_best_was_estimated_on_the_fabric(study):
    assert study.search.refined
    assert study.case.name == "as designed"
    assert study.case.step_s == study.best.step_s
    assert "flow engine" in study.best.costs.source
    assert study.timeline.step_s == study.best.step_s


def test_other_networks_are_no_quicker(study):
    names = [case.name for case in study.networks]
    assert names == ["as designed", "4:1 leaves", "without spine-1", "placed spread"]
    first, *others = study.networks
    assert all(case.step_s >= first.step_s * (1 - 1e-9) for case in others)
    assert others[0].lost_share > first.lost_share
    assert others[2].step_s > 1.1 * first.step_s  # tensor groups leave their servers


def test_the_curve_is_on_fabrics(study):
    assert [point.gpus for point in study.curve.points] == [16, 32]
    assert all("flow engine" in point.estimate.costs.source for point in study.curve.points)
    assert study.curve.by_closed_forms == ()


def test_prices_are_those_of_gpu_hours(study):
    cost = study.price(study.best)
    assert cost.step_price == pytest.approx(32 * study.best.step_s * 3 / 3600)
    assert cost.length.tokens >= 1e9
    assert sum(cost.lost.values()) < cost.step_price


def test_the_words_speak_of_the_winner_and_the_others(study):
    first, *others = study.why
    assert first.startswith("Quickest on the fabric: TP 2")
    assert "MFU" in first
    assert len(others) == 2
    assert all("longer" in line or "as quick" in line for line in others)


def test_without_a_fabric_closed_forms_speak():
    cluster = cluster_of_server(CATALOG, "dgx-h100", 16)
    study = study_plan(PlanQuestion(LLAMA, batch=32, fixed={"tensor": 1}, top=2), cluster)
    assert not study.search.refined
    assert study.why[0].startswith("Quickest by closed forms")
    assert (study.curve, study.networks, study.price(study.best)) == (None, (), None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 5}, "price of a GPU-hour"),
        ({"gpu_hour": math.inf}, "price of a GPU-hour: inf"),
        ({"oversubscription": (0.5,)}, "oversubscription: 0.5"),
        ({"oversubscription": (2.0, math.inf)}, "oversubscription: inf"),
        ({"oversubscription": (2.0,)}, "name a design"),
        ({"fail": ("spine-1",)}, "name a design"),
        ({"placements": (PlacementName.RANDOM,)}, "name a design"),
        ({"batch": 0}, "batch: 0"),
        ({"gpu_hour": 1.0, "steps": 5, "tokens": 5.0}, "leave the other out"),
    ],
)
def test_questions_that_mean_nothing_are_refused(changes, words):
    cluster = cluster_of_server(CATALOG, "dgx-h100", 16)
    with pytest.raises(InputError, match=words):
        study_plan(replace(PlanQuestion(LLAMA), **changes), cluster)


def test_placement_without_a_fabric_or_a_job_is_refused(cluster):
    with pytest.raises(InputError, match="optimized is for jobs"):
        study_plan(PlanQuestion(LLAMA, placements=(PlacementName.OPTIMIZED,)), cluster)
    with pytest.raises(InputError, match="no fabric"):
        cluster_of_server(CATALOG, "dgx-h100", 16).placed(PlacementName.RANDOM)
