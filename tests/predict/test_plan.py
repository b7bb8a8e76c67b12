"""The search finds what trying everything finds; its bounds are bounds; it says what would do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.catalog import default_catalog
from railweave.errors import InputError
from railweave.predict._plan_bounds import least_memory, least_step, least_time
from railweave.predict.memory import memory_use
from railweave.predict.plan import NoPlanError, nearest_plans, refine, search_plans
from railweave.predict.plan_space import PlanSpace, valid_plans
from railweave.predict.step import estimate_step
from railweave.predict.training_costs import ClusterLinks, costs_of_links

CATALOG = default_catalog()
H100 = CATALOG.gpu("h100")
LLAMA8 = CATALOG.model("llama3-8b")
LLAMA70 = CATALOG.model("llama3-70b")
MIXTRAL = CATALOG.model("mixtral-8x7b")
DEEPSEEK = CATALOG.model("deepseek-v3")
LINKS = ClusterLinks(8, 360e9, 47e9)


def costs_of(degrees, links=LINKS):
    return costs_of_links(degrees, links)


# ---------------------------------------------------------------- bounds


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_bounds_are_below_what_is_played(data):
    shape = data.draw(st.sampled_from([LLAMA8, LLAMA70, MIXTRAL, DEEPSEEK]))
    gpus = data.draw(st.sampled_from([8, 48, 256]))
    fixed = {
        "tensor": data.draw(st.sampled_from([1, 2, 8])),
        "zero": data.draw(st.integers(1, 3)),
        "pipeline": data.draw(st.sampled_from([1, 2, 4])),
    }
    table = valid_plans(PlanSpace(shape, gpus, 8, 48, 4096, fixed=fixed))
    if not len(table):
        return
    some = table.take(np.array([data.draw(st.integers(0, len(table) - 1))]))
    plan = some.plan(0)
    found = estimate_step(plan, H100, costs_of(plan.degrees))
    bound = least_time(plan, H100, costs_of(plan.degrees))
    slack = 1 + 1e-9
    assert least_step(some, H100, costs_of)[0] <= bound * slack
    assert bound <= found.step_s * slack
    assert least_memory(some)[0] <= found.memory.total_bytes * slack


def test_the_bound_is_the_step_where_stages_are_alike():
    space = PlanSpace(LLAMA70, 64, 8, 64, 8192, fixed={"tensor": 8, "pipeline": 1, "zero": 0})
    table = valid_plans(space)
    plan = table.plan(0)
    found = estimate_step(plan, H100, costs_of(plan.degrees))
    assert least_time(plan, H100, costs_of(plan.degrees)) == pytest.approx(found.step_s, rel=0.01)


# ---------------------------------------------------------------- the search


@pytest.mark.parametrize(
    "space",
    [
        PlanSpace(LLAMA8, 8, 8, 8, 8192),
        PlanSpace(MIXTRAL, 16, 8, 16, 4096, fixed={"tensor": 2, "context": 1, "zero": 1}),
        PlanSpace(
            LLAMA70,
            64,
            8,
            16,
            4096,
            fixed={"interleave": 1, "sequence-parallel": 1, "recompute": 1},
        ),
    ],
)
def test_the_search_finds_what_trying_everything_finds(space):
    table = valid_plans(space)
    best: dict[object, float] = {}
    for row in range(len(table)):
        plan = table.plan(row)
        if memory_use(plan, H100).fits:
            step = estimate_step(plan, H100, costs_of(plan.degrees)).step_s
            best[plan.degrees] = min(step, best.get(plan.degrees, step))
    found = search_plans(space, H100, costs_of, top=4)
    wanted = sorted(best.values())[:4]
    assert [item.step_s for item in found.ranked] == pytest.approx(wanted, rel=1e-12)
    assert all(item.memory.fits for item in found.ranked)
    assert found.valid == len(table)
    assert found.played < found.valid / 10


def test_llama_70b_on_1024_gpus():
    found = search_plans(PlanSpace(LLAMA70, 1024, 8, 512, 8192), H100, costs_of, top=5)
    assert found.valid > 50_000
    assert found.played < 500
    steps = [item.step_s for item in found.ranked]
    assert steps == sorted(steps)
    assert 0.3 < found.best.mfu < 0.6
    assert len({item.plan.degrees for item in found.ranked}) == 5


def test_where_all_degrees_are_fixed_the_rest_is_ranked():
    fixed = {"tensor": 8, "context": 1, "pipeline": 4, "data": 2, "expert": 1}
    found = search_plans(PlanSpace(LLAMA70, 64, 8, 64, 8192, fixed=fixed), H100, costs_of, top=3)
    assert len({item.plan.describe() for item in found.ranked}) == 3
    assert len({item.plan.degrees for item in found.ranked}) == 1


def test_a_slower_network_ranks_by_what_it_carries():
    space = PlanSpace(LLAMA70, 256, 8, 256, 8192)
    slow = ClusterLinks(8, 360e9, 2e9)
    fast = search_plans(space, H100, costs_of, top=1).best
    found = search_plans(space, H100, lambda degrees: costs_of(degrees, slow), top=1).best
    assert found.step_s > fast.step_s
    on_slow = estimate_step(fast.plan, H100, costs_of(fast.plan.degrees, slow))
    assert found.step_s < on_slow.step_s  # another plan suits it better


def test_refining_takes_the_other_costs_and_orders_by_them():
    space = PlanSpace(LLAMA70, 256, 8, 256, 8192)
    search = search_plans(space, H100, costs_of, top=4)
    slow = ClusterLinks(8, 360e9, 2e9)
    again = refine(search, lambda degrees: costs_of(degrees, slow), top=3)
    steps = [item.step_s for item in again.ranked[:3]]
    assert (search.refined, again.refined) == (0, 3)
    assert steps == sorted(steps)
    assert steps[0] > search.best.step_s
    before, after = (sorted(item.plan.describe() for item in one.ranked) for one in (search, again))
    assert before == after
    assert again.ranked[3] is search.ranked[3]  # it was not estimated again


def test_skewed_experts_cost_time():
    space = PlanSpace(MIXTRAL, 16, 8, 16, 4096, fixed={"tensor": 1, "context": 1, "expert": 8})
    even = search_plans(space, H100, costs_of, top=1).best
    skewed = search_plans(space, H100, costs_of, top=1, skew=1.5).best
    assert skewed.step_s > even.step_s
    assert skewed.skew == 1.5


# ---------------------------------------------------------------- the nearest


@pytest.mark.parametrize(
    ("fixed", "first"),
    [
        ({"tensor": 3}, "tensor 4 instead of 3"),
        ({"tensor": 16}, "tensor 8 instead of 16"),
        ({"tensor": 8, "pipeline": 4, "data": 64}, "instead of"),
        ({"pipeline": 3}, "pipeline 4 instead of 3"),
    ],
)
def test_wrong_degrees_are_answered_with_the_nearest(fixed, first):
    space = PlanSpace(LLAMA70, 256, 8, 256, 8192, fixed=fixed)
    near = nearest_plans(space, H100, costs_of)
    assert near
    assert first in near[0].describe()
    for plan in (item.estimate.plan for item in near):
        assert plan.ranks == 256
        assert memory_use(plan, H100).fits
    with pytest.raises(InputError, match=r"(?s)allowed: |256 GPUs.*nearest that would"):
        search_plans(space, H100, costs_of)


def test_what_does_not_fit_is_answered_with_what_does():
    fixed = {"tensor": 1, "pipeline": 1, "zero": 0}
    space = PlanSpace(LLAMA70, 64, 8, 64, 8192, fixed=fixed)
    with pytest.raises(InputError) as told:
        search_plans(space, H100, costs_of)
    text = str(told.value)
    assert "none of the" in text
    assert "h100 has 81.6 GB" in text
    assert "zero 3 instead of 0" in text or "pipeline" in text.partition("nearest")[2]


def test_too_few_gpus_are_answered_with_more():
    near = nearest_plans(PlanSpace(LLAMA70, 2, 8, 64, 8192), H100, costs_of)
    assert "GPUs instead of 2" in near[0].describe()
    assert near[0].estimate.plan.ranks > 2
    with pytest.raises(InputError, match=r"at least .* GB a GPU are needed"):
        search_plans(PlanSpace(LLAMA70, 2, 8, 64, 8192), H100, costs_of)


def test_a_batch_that_does_not_divide_is_answered_with_one_that_does():
    space = PlanSpace(LLAMA70, 8 * 127, 8, 500, 8192, fixed={"pipeline": 1, "tensor": 8})
    near = nearest_plans(space, H100, costs_of)
    assert near[0].changes[0] == "a batch of 508 sequences instead of 500"


def test_what_would_do_is_its_own_nearest():
    space = PlanSpace(LLAMA8, 16, 8, 16, 8192, fixed={"tensor": 2})
    near = nearest_plans(space, H100, costs_of, count=1)
    assert near[0].changes == ("as asked",)
    assert near[0].estimate.step_s == search_plans(space, H100, costs_of).best.step_s


def test_options_that_mean_nothing_are_refused():
    space = PlanSpace(LLAMA8, 16, 8, 16, 8192)
    with pytest.raises(InputError, match="top: 0"):
        search_plans(space, H100, costs_of, top=0)
    from railweave.predict._training_types import Precision

    with pytest.raises(InputError, match="FP8"):
        search_plans(
            PlanSpace(LLAMA8, 16, 8, 16, 8192, Precision.FP8), CATALOG.gpu("a100-80g"), costs_of
        )


def test_a_refusal_carries_its_reasons_and_the_nearest_plans():
    with pytest.raises(NoPlanError) as error:
        search_plans(PlanSpace(LLAMA8, 8, 8, 8, 8192, fixed={"tensor": 3}), H100, costs_of)
    refusal = error.value
    assert len(refusal.reasons) == 1
    assert refusal.reasons[0] in str(refusal)
    assert refusal.nearest
    assert all(plan.describe() in str(refusal) for plan in refusal.nearest)
