"""The enumeration has every valid plan and no other; what is wrong is said with what is allowed."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.catalog import default_catalog
from railweave.errors import InputError
from railweave.predict._plan_checks import plan_problems
from railweave.predict._training_types import Recompute
from railweave.predict.plan_space import (
    COLUMNS,
    PlanSpace,
    objections,
    parse_fixed,
    plan_values,
    valid_plans,
)

LLAMA = default_catalog().model("llama3-70b")
MIXTRAL = default_catalog().model("mixtral-8x7b")
TINY = LLAMA.model_copy(update={"layers": 6, "heads": 12, "kv_heads": 4, "ffn": 24, "hidden": 96})
TINY_EXPERTS = TINY.model_copy(update={"experts": 6, "top_k": 2, "expert_ffn": 12})


def is_valid(space: PlanSpace, row) -> bool:  # noqa: PLR0911 - one line a rule
    """Tell by the rules, one by one, whether a row is a plan."""
    t, c, p, d, e, micro, v, zero, _, split = row
    shape = space.shape
    if t * c * p * d != space.gpus or min(space.domain_gpus, space.gpus) % t:
        return False
    if shape.heads % t or (shape.kv_heads % t and t % shape.kv_heads) or shape.ffn % t:
        return False
    if (shape.expert_ffn or shape.ffn) % t or p > shape.layers or shape.experts % e or d % e:
        return False
    if c > 1 and space.sequence % (2 * c):
        return False
    if space.batch % (d * micro):
        return False
    rounds = space.batch // (d * micro)
    layers_fit = any((shape.layers + more) % (p * v) == 0 for more in (0, 2))
    if v > 1 and (p == 1 or rounds % p or not layers_fit):
        return False
    if split and (t == 1 or space.sequence % (c * t)):
        return False
    return not (zero and d * c == 1)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([TINY, TINY_EXPERTS]),
    st.integers(1, 24),
    st.sampled_from([2, 4, 6, 8]),
    st.integers(1, 12),
    st.sampled_from([7, 8, 48]),
)
def test_the_enumeration_is_exactly_the_rules(shape, gpus, domain, batch, sequence):
    space = PlanSpace(shape, gpus, domain, batch, sequence)
    found = [tuple(row) for row in valid_plans(space).values.tolist()]
    assert len(found) == len(set(found))
    degrees = range(1, gpus + 1)
    wanted = {
        (t, c, p, gpus // (t * c * p), e, micro, v, z, r, s)
        for t, c, p in product(degrees, repeat=3)
        if gpus % (t * c * p) == 0 and batch % (gpus // (t * c * p)) == 0
        for e, micro, v in product(range(1, 7), range(1, batch + 1), range(1, 7))
        for z, r, s in product(range(4), range(3), (0, 1))
        if is_valid(space, (t, c, p, gpus // (t * c * p), e, micro, v, z, r, s))
    }
    assert set(found) == wanted


def test_llama_on_1024_gpus_has_the_plans_people_use():
    table = valid_plans(PlanSpace(LLAMA, 1024, 8, 512, 8192))
    assert len(table) > 10_000
    rows = {tuple(row) for row in table.values[:, :4].tolist()}
    assert {(8, 1, 4, 32), (4, 2, 4, 32), (8, 1, 1, 128), (1, 1, 64, 16)} <= rows


def test_the_published_405b_plan_is_there():
    """One layer a chunk: embedding and head have the first and the last one to themselves."""
    shape = default_catalog().model("llama3-405b")
    fixed = {"tensor": 8, "context": 1, "pipeline": 16, "data": 128}
    table = valid_plans(PlanSpace(shape, 16_384, 8, 2048, 8192, fixed))
    assert 8 in table.column("interleave")


@pytest.mark.parametrize("row", [0, 777, -1])
def test_a_row_is_a_plan_and_back(row):
    space = PlanSpace(LLAMA, 1024, 8, 512, 8192)
    table = valid_plans(space)
    plan = table.plan(row)
    assert plan.ranks == 1024
    assert plan.sequences_per_step == 512
    assert plan.tokens_per_step == space.tokens_per_step
    assert list(plan_values(plan).values()) == table.values[row].tolist()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_what_is_enumerated_can_run(data):
    shape = data.draw(st.sampled_from([LLAMA, MIXTRAL, TINY, TINY_EXPERTS]))
    gpus = data.draw(st.sampled_from([1, 6, 8, 48, 64]))
    table = valid_plans(PlanSpace(shape, gpus, 8, 48, data.draw(st.sampled_from([96, 4096]))))
    row = data.draw(st.integers(0, len(table) - 1))
    assert plan_problems(table.plan(row), gpus=gpus) == ()


def test_fixed_values_narrow_the_space():
    space = PlanSpace(MIXTRAL, 64, 8, 256, 32768)
    all_of_them = valid_plans(space)
    fixed = {"tensor": 2, "expert": 4, "recompute": 2}
    some = valid_plans(PlanSpace(MIXTRAL, 64, 8, 256, 32768, fixed=fixed))
    keep = (
        (all_of_them.column("tensor") == 2)
        & (all_of_them.column("expert") == 4)
        & (all_of_them.column("recompute") == 2)
    )
    assert some.values.tolist() == all_of_them.take(keep).values.tolist()
    assert some.plan(0).recompute is Recompute.FULL


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("tensor=8,pipeline=4", {"tensor": 8, "pipeline": 4}),
        (" zero = 3 ", {"zero": 3}),
        ("recompute=selective", {"recompute": 1}),
        ("sequence-parallel=off,micro-batch=2", {"sequence-parallel": 0, "micro-batch": 2}),
    ],
)
def test_fixed_values_are_read(text, values):
    assert parse_fixed(text) == values


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tensr=8", "did you mean 'tensor'"),
        ("tensor", "NAME=VALUE"),
        ("tensor=8,tensor=4", "twice"),
        ("tensor=0", "1 or more"),
        ("tensor=8.5", "1 or more"),
        ("recompute=some", "none, selective, full"),
        ("sequence-parallel=perhaps", "on, off"),
        ("zero=x", "0, 1, 2, 3"),
        (" , ", "nothing is named"),
    ],
)
def test_fixed_values_that_mean_nothing_are_refused(text, words):
    with pytest.raises(InputError, match=words):
        parse_fixed(text)


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({"tensor": 3}, "tensor 3 does not divide the 1,024 GPUs; allowed: 1, 2, 4, 8"),
        ({"tensor": 16}, "tensor 16 exceeds the scale-up domain of 8 GPUs; allowed: 1, 2, 4, 8"),
        ({"pipeline": 128}, "more stages than the model's 80 layers"),
        ({"pipeline": 2048}, "pipeline 2048 exceeds the 1,024 GPUs"),
        ({"data": 1024}, "data 1024 does not divide the batch of 512 sequences"),
        ({"expert": 8}, "expert 8 does not divide the model, which has no experts; allowed: 1"),
        ({"micro-batch": 3}, "does not divide the batch"),
        ({"zero": 4}, "zero 4 is no ZeRO stage; allowed: 0, 1, 2, 3"),
        (
            {"tensor": 8, "pipeline": 8, "data": 32},
            "tensor 8 × pipeline 8 × data 32 = 2,048 exceeds the 1,024 GPUs",
        ),
        (
            {"tensor": 8, "context": 1, "pipeline": 8, "data": 8},
            "tensor 8 × context 1 × pipeline 8 × data 8 = 512, not the 1,024 GPUs",
        ),
        ({"pipeline": 4, "interleave": 7}, "whole rounds of stages"),
    ],
)
def test_what_is_wrong_is_said_with_what_is_allowed(fixed, words):
    (found,) = objections(PlanSpace(LLAMA, 1024, 8, 512, 8192, fixed=fixed))
    assert words in found


def test_each_wrong_value_is_named():
    fixed = {"tensor": 3, "pipeline": 100, "zero": 1}
    assert len(objections(PlanSpace(LLAMA, 1024, 8, 512, 8192, fixed=fixed))) == 2


def test_nothing_is_wrong_with_what_has_plans():
    assert objections(PlanSpace(LLAMA, 1024, 8, 512, 8192, fixed={"tensor": 8})) == ()


def test_sequences_that_cannot_be_cut_have_no_context():
    space = PlanSpace(LLAMA, 64, 8, 64, 8191)
    assert set(valid_plans(space).column("context").tolist()) == {1}


@pytest.mark.parametrize("name", ["gpus", "batch", "sequence"])
def test_spaces_that_mean_nothing_are_refused(name):
    given = {"gpus": 8, "batch": 8, "sequence": 8, name: 0}
    with pytest.raises(InputError, match=f"{name}: 0"):
        valid_plans(PlanSpace(LLAMA, domain_gpus=8, **given))
    with pytest.raises(InputError, match="nothing that a plan chooses"):
        valid_plans(PlanSpace(LLAMA, 8, 8, 8, 8, fixed={"tensors": 1}))


def test_columns_are_named_as_a_plan_has_them():
    assert set(plan_values(valid_plans(PlanSpace(LLAMA, 8, 8, 8, 8)).plan(0))) == set(COLUMNS)
