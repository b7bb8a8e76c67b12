import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training import (
    A100,
    DEEPSEEK,
    GPT_175B,
    H100,
    LINKS,
    LLAMA_8B,
    LLAMA_405B,
    MIXTRAL,
    PUBLISHED,
    links_costs,
    plan,
)

from railweave.design.models import Collective
from railweave.errors import InputError
from railweave.predict._schedule import StageTimes, estimate, play, rank_order, warm_up
from railweave.predict._step_parts import StepParts
from railweave.predict.step import (
    IDLE_REASONS,
    Precision,
    Recompute,
    check_plan,
    estimate_step,
    plan_problems,
)
from railweave.predict.training_costs import costs_of_links, costs_of_system, links_of


def step(of, gpu=H100, **options):
    return estimate_step(of, gpu, links_costs(of), **options)


def times(forward, backward, *, hop=0.0, gate=None, reduce=None, tail=None, p=None):
    forward, backward = np.asarray(forward, float), np.asarray(backward, float)
    none = np.zeros(len(forward))
    return StageTimes(
        forward,
        backward,
        np.full(p or len(forward), hop),
        none if gate is None else np.asarray(gate, float),
        none if reduce is None else np.asarray(reduce, float),
        np.ones(len(forward), dtype=np.int64),
        np.zeros(p or len(forward)) if tail is None else np.asarray(tail, float),
    )


# ---------------------------------------------------------------- the schedule


@pytest.mark.parametrize(("p", "m"), [(1, 4), (2, 1), (4, 8), (8, 32), (3, 2)])
def test_1f1b_of_equal_stages_has_the_textbook_bubble(p, m):
    done = play(p, 1, m, times([1.0] * p, [2.0] * p))
    assert done.makespan_s == pytest.approx(m * 3 + (p - 1) * 3)
    assert estimate(p, 1, m, done.times).makespan_s == pytest.approx(done.makespan_s)


@pytest.mark.parametrize(("p", "v", "m"), [(2, 2, 4), (4, 2, 8), (4, 4, 16), (8, 3, 24)])
def test_interleaving_cuts_the_bubble_by_the_chunks(p, v, m):
    done = play(p, v, m, times([1 / v] * p * v, [2 / v] * p * v, p=p))
    assert done.makespan_s == pytest.approx(m * 3 + (p - 1) * 3 / v)
    assert estimate(p, v, m, done.times).makespan_s == pytest.approx(done.makespan_s)


def test_warm_up_is_megatrons():
    """2·(P − p − 1) + (V − 1)·P forward passes before the first backward one, P − p − 1 without
    chunks, and all where there is one round of micro-batches."""
    assert [warm_up(4, 2, 8, rank) for rank in range(4)] == [10, 8, 6, 4]
    assert [warm_up(4, 1, 8, rank) for rank in range(4)] == [3, 2, 1, 0]
    assert [warm_up(4, 2, 4, rank) for rank in range(4)] == [8] * 4
    assert rank_order(2, 2, 4, 1)[:4] == [(False, 0, 0), (False, 0, 1), (False, 1, 0), (True, 1, 0)]


@given(
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 4),
    st.lists(st.floats(0.1, 2.0), min_size=36, max_size=36),
    st.floats(0, 0.5),
)
@settings(max_examples=60, deadline=None)
def test_every_schedule_is_one(p, v, rounds, numbers, hop):
    """No rank does two things at once, nothing starts before what it needs, bounds hold."""
    m, count = rounds * p, p * v
    given_times = times(numbers[:count], numbers[18 : 18 + count], hop=hop, p=p)
    done = play(p, v, m, given_times)
    assert np.isfinite(done.end).all()
    for rank in range(p):
        own = slice(rank, None, p)
        begin, end = done.begin[:, own].ravel(), done.end[:, own].ravel()
        order = np.argsort(begin, kind="stable")
        assert (begin[order][1:] >= end[order][:-1] - 1e-12).all()
    wait = hop if p > 1 else 0.0
    assert (done.begin[0, 1:] >= done.end[0, :-1] + wait - 1e-12).all()
    assert (done.begin[1, :-1] >= done.end[1, 1:] + wait - 1e-12).all()
    assert (done.begin[1] >= done.end[0] - 1e-12).all()
    work = (given_times.forward_s + given_times.backward_s).reshape(v, p).sum(axis=0)
    assert done.makespan_s >= m * work.max() - 1e-9


def test_slow_hand_overs_stretch_every_round_without_chunks():
    """P micro-batches under way must cover the way there and back."""
    p, m = 4, 64
    done = play(p, 1, m, times([1.0] * p, [2.0] * p, hop=0.5))
    assert done.makespan_s == pytest.approx(estimate(p, 1, m, done.times).makespan_s, rel=0.03)
    assert done.makespan_s > (m + p - 1) * 3 * 1.15


def test_gradients_are_reduced_behind_the_last_pass_and_weights_gathered_ahead():
    done = play(2, 1, 4, times([1.0, 1.0], [2.0, 2.0], gate=[3.0, 1.0], reduce=[5.0, 1.0]))
    plain = play(2, 1, 4, times([1.0, 1.0], [2.0, 2.0]))
    # the one layer's pass begins when its weights are there: 3 s; its reduction takes 5 s after
    assert done.gated_s.tolist() == [3.0, 0.0]
    assert done.makespan_s == pytest.approx(plain.makespan_s + 3 + 5)
    assert done.busy_until[1] < done.busy_until[0]  # the last stage reduces in the bubble


# ---------------------------------------------------------------- published figures


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_figures_within_ten_percent(name):
    of, gpu, system, published = PUBLISHED[name]
    for costs in (
        costs_of_system(system, of.degrees),
        costs_of_links(of.degrees, links_of(system)),
    ):
        got = estimate_step(of, gpu, costs)
        assert got.flops_per_gpu == pytest.approx(published, rel=0.10)
        quick = estimate_step(of, gpu, costs, exact=False)
        assert quick.step_s == pytest.approx(got.step_s, rel=0.03)


def test_16m_tokens_a_step():
    for name in ("llama3-405b on 8,192", "llama3-405b on 16,384"):
        assert PUBLISHED[name][0].tokens_per_step == 2048 * 8192


# ---------------------------------------------------------------- where the time goes


PLANS = {
    "dense": plan(t=4, p=4, d=8, micro_batches=8, zero=1),
    "interleaved": plan(t=2, p=4, d=8, micro_batches=8, interleave=4, zero=1),
    "fsdp": plan(d=64, zero=3, micro_batches=2),
    "context": plan(c=4, t=2, d=4, sequence=65536, micro_batches=4),
    "mixture": plan(MIXTRAL, t=2, d=16, e=8, micro_batches=4, zero=1),
    "deepseek": plan(DEEPSEEK, p=8, d=32, e=32, micro_batches=32, zero=1),
    "full": plan(GPT_175B, t=8, p=8, d=4, micro_batches=16, recompute=Recompute.FULL),
    "alone": plan(),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("exact", [True, False])
def test_arithmetic_and_idle_time_add_up_on_every_stage(name, exact):
    got = step(PLANS[name], exact=exact, input_s=0.0)
    total = got.compute_by_stage + sum(got.idle_by_stage.values())
    np.testing.assert_allclose(total, got.step_s, rtol=1e-9)
    assert set(got.idle_by_stage) == set(IDLE_REASONS)
    assert all((by >= -1e-12).all() for by in got.idle_by_stage.values())
    assert got.idle_s["input"] == 0
    assert 0 < got.mfu < 1
    assert got.executed_flops >= 0.98 * got.flops
    for item in got.communications:
        assert item.exposed_s + item.overlapped_s == pytest.approx(item.time_s)
    assert got.tokens_per_s == pytest.approx(got.plan.tokens_per_step / got.step_s)
    assert {line.quantity for line in got.explanations} >= {"step time", "model FLOPs", "MFU"}
    assert any("matrix products" in said.subject for said in got.assumptions)


def test_without_communication_only_the_pipeline_waits():
    of = plan(p=4, d=2, micro_batches=16)
    free = costs_of_links(of.degrees, LINKS)
    free = type(free)(of.degrees, {}, "free")
    got = estimate_step(of, H100, free)
    assert got.exposed_s == 0
    assert got.network_share == 0
    assert got.bubble_s > 0
    assert got.step_s == pytest.approx(
        got.compute_s + got.idle_by_stage["bubble"][-1] + got.idle_by_stage["slowest rank"][-1]
    )


def test_unequal_stages_wait_for_the_slowest():
    small_head = LLAMA_8B.model_copy(update={"vocabulary": 1000})
    even, uneven = (step(plan(small_head, p=p, micro_batches=32)) for p in (4, 5))
    assert uneven.idle_s["slowest rank"] / uneven.step_s > 0.05  # 7 layers against 6.4
    assert even.idle_s["slowest rank"] / even.step_s < 0.01


def test_skewed_routing_costs_time():
    of = PLANS["mixture"]
    fair, skewed = step(of), step(of, skew=1.5)
    assert skewed.step_s > fair.step_s
    assert skewed.idle_s["exposed expert"] == pytest.approx(
        1.5 * fair.idle_s["exposed expert"], rel=0.05
    )
    assert skewed.idle_s["slowest rank"] > fair.idle_s["slowest rank"]
    assert step(PLANS["dense"], skew=3).step_s == step(PLANS["dense"]).step_s


def test_one_slow_gpu_slows_everybody():
    of = PLANS["dense"]
    fair, slow = step(of), step(of, slow={5: 1.2})
    assert fair.step_s < slow.step_s < 1.2 * fair.step_s
    assert slow.idle_s["slowest rank"] > fair.idle_s["slowest rank"]
    busy, idle = slow.compute_of_ranks(), slow.idle_of_ranks()
    np.testing.assert_allclose(busy + sum(idle.values()), slow.step_s, rtol=1e-9)
    assert busy[5] == pytest.approx(1.2 * busy[4])
    assert sum(by[5] for by in idle.values()) < sum(by[4] for by in idle.values())


def test_slow_input_is_waited_for():
    of = PLANS["dense"]
    fair = step(of)
    assert step(of, input_s=fair.step_s / 2).step_s == fair.step_s
    late = step(of, input_s=2 * fair.step_s)
    assert late.step_s == pytest.approx(2 * fair.step_s)
    assert late.idle_s["input"] == pytest.approx(fair.step_s)


def test_servers_without_nvlink_expose_tensor_communication():
    of = plan(t=8, d=4, micro_batches=4)
    nvlink = estimate_step(of, A100, costs_of_links(of.degrees, LINKS))
    pcie = type(LINKS)(8, 25e9 * 0.8, 25e9)
    slow = estimate_step(of, A100, costs_of_links(of.degrees, pcie))
    assert slow.idle_s["exposed tensor"] > 10 * nvlink.idle_s["exposed tensor"]
    assert slow.mfu < 0.6 * nvlink.mfu


def test_fp8_and_its_peak():
    bf16, fp8 = step(plan()), step(plan(precision=Precision.FP8))
    assert fp8.step_s < bf16.step_s
    assert fp8.mfu < bf16.mfu  # of twice the peak
    with pytest.raises(InputError, match="no FP8"):
        step(plan(precision=Precision.FP8), A100)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_more_sharding_never_sends_less(zero):
    sent = [
        sum(c.bytes_sent for c in step(plan(d=16, zero=z, micro_batches=2)).communications)
        for z in (max(zero - 1, 0), zero)
    ]
    assert sent[1] >= sent[0]


@pytest.mark.parametrize("p", [1, 4])
def test_sharding_exposes_the_first_layers_gather_and_the_last_ones_reduction(p):
    """Nothing runs before the one and behind the other, however well the passes hide the rest."""
    layers = LLAMA_8B.layers // p
    for zero, gathers in ((2, 0), (3, 1)):
        got = step(plan(d=64, p=p, micro_batches=p, zero=zero, sequence=8192))
        parts = StepParts(got.plan, H100, got.costs)
        one = gathers * parts.first_gather[0] + parts.reduce_gradients[0] / layers
        assert parts.reduce_gradients[0] < parts.compute_backward[0]  # the passes could hide all
        if zero == 3:
            assert got.idle_by_stage["exposed data"][0] == pytest.approx(one)
        else:
            assert got.idle_by_stage["exposed data"][0] >= one * (1 - 1e-9)


def test_gathering_what_the_bubble_hides_is_not_exposed():
    of = plan(LLAMA_405B, t=8, p=16, d=8, micro_batches=32, interleave=8, zero=1)
    got = step(of)
    data = [item for item in got.communications if item.kind == "data"]
    assert sum(item.overlapped_s for item in data) > sum(item.exposed_s for item in data)


# ---------------------------------------------------------------- volumes by the textbook


def sent(of, kind, purpose=None):
    found = [
        item
        for item in step(of, exact=False).communications
        if item.kind == kind and (purpose is None or item.purpose == purpose)
    ]
    return sum(item.bytes_sent for item in found)


@pytest.mark.parametrize("t", [2, 4, 8])
@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("full", [True, False])
def test_tensor_volume(t, parallel, full):
    """Four all-reduces of 2·b·s·h a layer and micro-batch, six where the forward is repeated."""
    how = Recompute.FULL if full else Recompute.SELECTIVE
    of = plan(t=t, micro_batch=2, micro_batches=3, recompute=how, sequence_parallel=parallel)
    reduce = 2 * (t - 1) / t * 2 * 2 * 8192 * 4096
    book = (6 if full else 4) * reduce * 32 * 3
    assert sent(of, "tensor", "layers") == pytest.approx(book, rel=1e-12)


@pytest.mark.parametrize(("p", "v"), [(2, 1), (4, 1), (4, 2)])
def test_pipeline_volume(p, v):
    """2·b·s·h/t a hop, forward and backward; an inner rank has 2·V·M of them."""
    of = plan(t=2, p=p, micro_batches=8, interleave=v)
    most = 8 * (2 * v - 1) if p == 2 else 8 * 2 * v
    assert sent(of, "pipeline") == pytest.approx(most * 2 * 8192 * 4096 / 2, rel=1e-12)


@pytest.mark.parametrize("c", [2, 4, 8])
def test_context_volume(c):
    """Ring attention: keys and values go round forward and backward, their gradients once."""
    of = plan(t=2, c=c, micro_batches=2, d=2)
    local = 2 * 2 * (8192 / c) * 8 * 128 / 2
    assert sent(of, "context") == pytest.approx(3 * (c - 1) * local * 32 * 2, rel=1e-12)


@pytest.mark.parametrize("e", [2, 8])
def test_expert_volume(e):
    """Dispatch and combine b·s·top_k·h/t elements, forward and backward; 1/e stays."""
    of = plan(MIXTRAL, t=2, d=8, e=e, micro_batches=2)
    each = 2 * MIXTRAL.sequence * 2 * 4096 / 2 * (e - 1) / e
    assert sent(of, "expert") == pytest.approx(4 * each * 32 * 2, rel=1e-12)


@pytest.mark.parametrize(("zero", "times_sent"), [(0, 2), (1, 2), (2, 4 + 1), (3, 3 * 4)])
def test_data_volume(zero, times_sent):
    """All-reduce 2(d−1)/d·G; ZeRO 1 the same; 2 and 3 in every of four micro-batches."""
    of = plan(t=2, d=4, c=2, zero=zero, micro_batches=4)
    book = times_sent * 7 / 8 * 2 * LLAMA_8B.parameters / 2
    assert sent(of, "data") == pytest.approx(book, rel=1e-12)


def test_expert_gradients_go_round_those_with_the_same_experts():
    of = plan(MIXTRAL, d=16, e=4)
    expert = 8 * 3 * 4096 * 14336 * 32
    dense = MIXTRAL.parameters - expert
    assert sent(of, "data") == pytest.approx(2 * 15 / 16 * 2 * dense)
    assert sent(of, "expert-data") == pytest.approx(2 * 3 / 4 * 2 * expert / 4)
    kinds = {item.kind: item.op for item in step(of).communications}
    assert kinds["expert"] is Collective.ALL_TO_ALL


def test_fp32_gradients_are_twice_as_many_bytes():
    assert sent(plan(d=4, gradient_bytes=4), "data") == 2 * sent(plan(d=4), "data")


# ---------------------------------------------------------------- wrong plans


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (plan(t=3), r"tensor: 3 does not divide the 32 attention heads; .* nearest: 4"),
        (plan(t=64), r"64 does not divide the 32 attention heads; .* nearest: 32"),
        (plan(p=40), r"pipeline: 40 stages for 32 layers; allowed: at most 32; nearest: 32"),
        (plan(p=8, interleave=8, micro_batches=8), r"interleave: 8 stages × 8 .* nearest: 4"),
        (plan(interleave=2), r"interleave: one stage has nothing to interleave with"),
        (plan(p=4, interleave=2, micro_batches=6), r"micro_batches: 6 .* nearest: 8"),
        (plan(MIXTRAL, d=16, e=16), r"expert: 16 does not divide the 8 experts .* nearest: 8"),
        (plan(MIXTRAL, d=6, e=4), r"expert: 4 does not divide the 6 data ranks; .* nearest: 2"),
        (plan(c=3), r"context: 3 does not divide the 8192 tokens of a sequence; .* nearest: 4"),
        (plan(t=8, sequence=12), r"sequence_parallel: 8 tensor ranks do not divide the 12"),
        (plan(zero=4), r"zero: there is no ZeRO stage 4; allowed: 0 to 3; nearest: 3"),
        (plan(d=0), r"data: 0 is not allowed; allowed: 1 or more; nearest: 1"),
    ],
)
def test_wrong_degrees_are_answered_with_the_nearest(of, text):
    with pytest.raises(InputError, match=text):
        check_plan(of)
    assert plan_problems(of)


def test_too_few_gpus():
    with pytest.raises(InputError, match=r"data: .* = 64 ranks on 40 GPUs; .* nearest: 5"):
        check_plan(plan(t=8, d=8), gpus=40)
    with pytest.raises(InputError, match=r"pipeline: .* = 64 ranks hold one copy .* nearest: 5"):
        check_plan(plan(t=8, p=8), gpus=40)
    check_plan(plan(t=8, d=5), gpus=40)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"skew": 0.5}, "skew: 0.5 is not allowed"),
        ({"slow": {999: 2.0}}, "slow: rank 999 does not exist"),
        ({"slow": {0: 0.5}}, "slow: 0.5 for rank 0 is not allowed"),
        ({"input_s": -1.0}, "input: -1 s is not allowed"),
    ],
)
def test_wrong_options(options, text):
    with pytest.raises(InputError, match=text):
        step(plan(), **options)


def test_costs_must_be_of_the_plan():
    with pytest.raises(InputError, match="make them for the plan's degrees"):
        estimate_step(plan(t=2), H100, links_costs(plan(t=4)))
