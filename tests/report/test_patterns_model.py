"""Whole models on a network: the groups' bytes, how far they go, and degrees that cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import railweave
from railweave.catalog import default_catalog
from railweave.design.models import PlacementName, Recompute
from railweave.errors import InputError
from railweave.predict.step import plan_problems
from railweave.report.interference_figures import draw_slowdowns
from railweave.report.patterns import study_pattern
from railweave.report.patterns_figures import draw_chord, draw_matrix, draw_shares
from railweave.report.patterns_model import (
    ModelCase,
    ModelRefused,
    model_step,
    nearest_models,
    study_model,
)
from railweave.report.patterns_placement import placement_json, placement_shares
from railweave.report.patterns_spread import draw_groups, draw_placements
from railweave.report.patterns_tables import group_table, placement_table
from railweave.workload.groups import byte_shares
from railweave.workload.patterns import PatternCase, Strategy
from railweave.workload.training import step_volume

DESIGN = Path(__file__).parents[1] / "golden" / "small.yaml"
ON = PatternCase(gpus=32, gpus_per_server=8, servers_per_leaf=2)
CASE = ModelCase("mixtral-8x7b", ON, tensor=2, context=2, pipeline=2, expert=2, sequence=8192)


@pytest.fixture(scope="module")
def built():
    return railweave.load(DESIGN).build()


@pytest.fixture(scope="module")
def study():
    return study_model(CASE)


def test_groups_add_up_to_the_whole(study):
    volume = step_volume(model_step(CASE))
    kinds = {group.kind: group for group in study.groups}
    assert set(kinds) == {"tensor", "context", "data", "pipeline", "expert", "expert-data"}
    assert kinds["tensor"].bytes_sent_per_gpu == pytest.approx(volume.tensor_bytes.max())
    assert kinds["context"].bytes_sent_per_gpu == pytest.approx(volume.context_bytes.max())
    assert kinds["data"].bytes_sent_per_gpu == pytest.approx(volume.data_bytes.max())
    assert sum(group.total_bytes for group in study.groups) == pytest.approx(study.total_bytes)
    assert sum(group.share for group in study.groups) == pytest.approx(1)
    assert study.matrix_bytes.sum() == pytest.approx(study.total_bytes)
    assert study.bytes_sent_per_gpu == pytest.approx(study.matrix_bytes.sum(axis=1).max())
    by_bytes = [group.total_bytes for group in study.groups]
    assert by_bytes == sorted(by_bytes, reverse=True)
    assert study.largest is study.groups[0]


def test_places_are_of_the_ranks_own_groups(study):
    whole = byte_shares(
        study.fabric,
        study.nodes[np.nonzero(study.matrix_bytes)[0]],
        study.nodes[np.nonzero(study.matrix_bytes)[1]],
        study.matrix_bytes[np.nonzero(study.matrix_bytes)],
        rail_aware=False,
    )
    assert study.share_spine == pytest.approx(whole.spine_bytes / whole.total_bytes)
    for place in ("server", "leaf", "spine", "core"):
        parts = sum(g.total_bytes * getattr(g, f"share_{place}") for g in study.groups)
        assert parts / study.total_bytes == pytest.approx(getattr(study, f"share_{place}"))
    kinds = {group.kind: group for group in study.groups}
    # tensor, context and expert ranks fill a server of eight; stages are under other leaves
    assert kinds["tensor"].share_server == kinds["context"].share_server == 1
    assert kinds["expert"].share_server == 1
    assert kinds["pipeline"].share_spine == 1


def test_one_kind_alone(study):
    only = study.only("pipeline")
    assert [group.kind for group in only.groups] == ["pipeline"]
    assert only.total_bytes == pytest.approx(
        next(g.total_bytes for g in study.groups if g.kind == "pipeline")
    )
    assert (only.share_server, only.share_spine) == (0, 1)
    assert (only.matrix_bytes <= study.matrix_bytes + 1e-6).all()


def test_numbers_explain_themselves(study):
    said = " ".join(study.interpretation)
    assert f"Most bytes are sent by {study.groups[0].kind} groups" in said
    assert "of the 81.6 GB that h100 can use: it fits" in said
    names = [item.quantity for item in study.explanations]
    assert names == [f"{group.kind}: bytes a GPU" for group in study.groups] + ["bytes in all"]
    assert all(item.formula and item.source for item in study.explanations)
    document = json.loads(json.dumps(study.to_json()))
    assert document["largest"] == study.groups[0].kind
    assert document["memory"]["fits"] is True
    assert document["groups"][0]["operations"] == ["reduce-scatter", "all-gather"]


# ---------------------------------------------------------------- degrees


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tensor": 3}, "3 does not divide the 32 attention heads"),
        ({"pipeline": 5}, "pipeline 5 = 20 does not divide the 32 GPUs"),
        ({"tensor": 8, "pipeline": 8}, "128 ranks hold one copy of the model, on 32 GPUs"),
        ({"expert": 3}, "3 does not divide the 8 experts"),
        ({"data": 2}, "data 2 = 16, not the 32 GPUs"),
        ({"interleave": 3, "micro_batches": 7}, "do not come in rounds of 2 stages"),
    ],
)
def test_degrees_that_cannot_be_get_the_nearest_that_would(change, said):
    with pytest.raises(ModelRefused) as refused:
        study_model(replace(CASE, **change))
    text = str(refused.value)
    assert said in text
    assert "nearest that would:" in text
    assert refused.value.nearest
    for near in refused.value.nearest:
        assert near.estimate.memory.fits
        assert plan_problems(near.estimate.plan, gpus=near.estimate.plan.ranks) == ()
        assert near.changes != ("as asked",)


def test_less_than_one_of_a_thing_is_refused():
    with pytest.raises(ModelRefused, match="micro_batch: 0 is not allowed; allowed: 1 or more"):
        study_model(replace(CASE, micro_batch=0))


def test_what_does_not_fit_the_memory_is_studied_and_said():
    on = PatternCase(gpus=8, gpus_per_server=8)
    big = ModelCase("llama3-70b", on, tensor=8)
    study = study_model(big)
    assert not study.memory.fits
    assert "It does not fit: the fullest GPU would hold 159.7 GB" in " ".join(study.interpretation)
    near = nearest_models(big)
    assert near[0].estimate.memory.fits
    roomier = study_model(replace(big, gpu="b200", recompute=Recompute.FULL))
    assert roomier.memory.usable_bytes > 2 * study.memory.usable_bytes


def test_what_does_not_exist_is_refused():
    with pytest.raises(InputError, match="llama9"):
        study_model(replace(CASE, model="llama9"))
    with pytest.raises(InputError, match="h9000"):
        study_model(replace(CASE, gpu="h9000"))


def test_on_a_design(built):
    on = PatternCase(gpus=32)
    case = ModelCase("llama3-8b", on, tensor=4, pipeline=2)
    study = study_model(case, built)
    assert built.design.name in study.network
    assert study.total_bytes == pytest.approx(
        study_model(replace(case, on=replace(ON, gpus=32))).total_bytes
    )
    odd = replace(case, tensor=3, on=replace(on, placement=PlacementName.OPTIMIZED))
    with pytest.raises(ModelRefused, match="nearest that would"):
        study_model(odd, built)
    with pytest.raises(InputError, match="100 are wanted"):
        study_model(replace(case, on=replace(on, gpus=100), tensor=4, pipeline=1), built)


def test_a_catalog_model_of_one_gpu_sends_nothing():
    case = ModelCase("llama3-8b", PatternCase(gpus=2), pipeline=2)
    assert [g.kind for g in study_model(case).groups] == ["pipeline"]
    assert default_catalog().model("llama3-8b").layers == 32


# ---------------------------------------------------------------- placement


@pytest.mark.parametrize(
    "case",
    [
        CASE,
        replace(ON, strategy=Strategy.DATA),
        replace(ON, strategy=Strategy.PIPELINE, exchanges=3),
        replace(ON, strategy=Strategy.EXPERT, skew=0.3, exchanges=2),
        replace(ON, strategy=Strategy.CONTEXT),
    ],
)
def test_rules_have_the_shares_of_their_studies(case):
    found = placement_shares(case)
    assert [one.placement for one in found] == list(PlacementName)
    for one in found:
        if isinstance(case, ModelCase):
            there = study_model(replace(case, on=replace(case.on, placement=one.placement)))
        else:
            there = study_pattern(replace(case, placement=one.placement))
        assert one.shares.total_bytes == pytest.approx(there.total_bytes)
        for place in ("server", "leaf", "spine", "core"):
            assert one.share(place) == pytest.approx(getattr(there, f"share_{place}")), one
    crossing = {one.placement: one.crossing for one in found}
    assert crossing[PlacementName.OPTIMIZED] <= crossing[PlacementName.PACKED] + 1e-12


def test_a_rule_that_an_algorithm_cannot_use_is_said():
    from railweave.design.models import Algorithm

    on = PatternCase(
        Strategy.DATA, gpus=12, gpus_per_server=4, servers=6, algorithm=Algorithm.HIERARCHICAL
    )
    found = {one.placement: one for one in placement_shares(on)}
    assert not found[PlacementName.PACKED].problem
    table = placement_table(tuple(found.values()))
    for one, row in zip(found.values(), table.rows, strict=True):
        assert (row[1] == "–") == bool(one.problem)
    assert len(placement_json(tuple(found.values()))) == len(PlacementName)


# ---------------------------------------------------------------- figures and tables


def test_figures_show_the_numbers(study):
    table = group_table(study)
    assert [row[0] for row in table.rows] == [group.kind for group in study.groups]
    bars = draw_groups(study)
    total = sum(sum(trace.x) for trace in bars.data)
    unit = {"TB": 1e12, "GB": 1e9}[bars.layout.title.text.rpartition(" ")[2]]
    assert total * unit == pytest.approx(study.total_bytes)
    rules = draw_placements(placement_shares(CASE))
    assert sum(sum(trace.x) for trace in rules.data) == pytest.approx(100 * len(PlacementName))
    for figure in (draw_matrix(study, picked=3), draw_chord(study), draw_shares(study)):
        assert figure.data


def test_slowdowns_are_drawn_by_placement():
    found = [
        {"placement": rule, "jobs": [{"name": "a", "slowdown": 1.5}, {"name": "b", "slowdown": 1}]}
        for rule in ("as designed", "optimized")
    ]
    figure = draw_slowdowns(found)
    assert [trace.name for trace in figure.data] == ["as designed", "optimized"]
    assert list(figure.data[0].y) == [1.5, 1]
