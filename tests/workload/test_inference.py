"""Inference traffic against closed forms: bytes by rank, caches, requests; what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.catalog import default_catalog
from railweave.design.models import Precision
from railweave.errors import InputError
from railweave.workload import TrafficBuilder
from railweave.workload.inference import (
    InferencePlan,
    KvTransfers,
    Lengths,
    RequestLoad,
    append_forward,
    append_kv_transfers,
    draw_requests,
    expert_shares,
    forward_traffic,
    forward_volume,
    inference_assumptions,
    kv_bytes_per_token,
    kv_rank_bytes_per_token,
    kv_transfer_bytes,
)

CATALOG = default_catalog()
LLAMA, MIXTRAL, DEEPSEEK = (
    CATALOG.model(name) for name in ("llama3-70b", "mixtral-8x7b", "deepseek-v3")
)


def sent_by(traffic, n):
    return np.bincount(traffic.src, weights=traffic.stream_bytes, minlength=n)


def got_by(traffic, n):
    return np.bincount(traffic.dst, weights=traffic.stream_bytes, minlength=n)


# ---------------------------------------------------------------- bytes of a pass


@given(st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 4096))
@settings(max_examples=30, deadline=None)
def test_dense_model_all_reduces_twice_a_layer(tensor, tokens):
    traffic = forward_traffic(np.arange(tensor), InferencePlan(LLAMA, tensor), tokens)
    size = tokens * LLAMA.hidden * 2
    one = 2 * LLAMA.layers * 2 * (tensor - 1) / tensor * size
    assert sent_by(traffic, tensor) == pytest.approx(np.full(tensor, one), rel=1e-12)
    assert got_by(traffic, tensor) == pytest.approx(np.full(tensor, one), rel=1e-12)


@given(
    st.sampled_from([(1, 2), (2, 4), (2, 8), (1, 8), (4, 8)]),
    st.integers(1, 512),
    st.sampled_from(list(Precision)),
)
@settings(max_examples=30, deadline=None)
def test_experts_dispatch_and_combine(degrees, tokens, dispatch):
    t, e = degrees
    traffic = forward_traffic(np.arange(e), InferencePlan(MIXTRAL, t, e, dispatch=dispatch), tokens)
    elements = MIXTRAL.layers * tokens / t * MIXTRAL.top_k * MIXTRAL.hidden * (e - 1) / e
    width = 1 if dispatch is Precision.FP8 else 2
    # one all-reduce a mixture layer is left to the tensor ranks
    ring = MIXTRAL.layers * 2 * (t - 1) / t * tokens * MIXTRAL.hidden * 2
    expected = ring + elements * (width + 2)
    assert sent_by(traffic, e) == pytest.approx(np.full(e, expected), rel=1e-12)


def test_dense_layers_of_a_mixture_all_reduce_twice():
    assert InferencePlan(DEEPSEEK, 4, 32).reductions == 2 * 3 + 58
    assert InferencePlan(DEEPSEEK, 8).reductions == 2 * 61


@given(st.floats(1, 8), st.integers(1, 200))
@settings(max_examples=30, deadline=None)
def test_hot_rank_gets_its_skew_and_nothing_is_lost(skew, tokens):
    shares = expert_shares(8, skew)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[0] == pytest.approx(skew / 8)
    even = forward_volume(InferencePlan(MIXTRAL, 1, 8), tokens)
    plan = InferencePlan(MIXTRAL, 1, 8, skew=skew)
    assert forward_volume(plan, tokens).expert_total_bytes == pytest.approx(even.expert_total_bytes)
    traffic = forward_traffic(np.arange(8), plan, tokens)
    assert traffic.total_bytes == pytest.approx(even.expert_total_bytes)
    elements = MIXTRAL.layers * tokens * MIXTRAL.top_k * MIXTRAL.hidden
    # dispatched to it by seven, and what its own tokens get back from the others
    hot = 7 * elements * skew / 8 * 2 + elements * (1 - skew / 8) * 2
    assert got_by(traffic, 8)[0] == pytest.approx(hot)


@given(
    st.sampled_from([(4, 1), (2, 8), (1, 8)]),
    st.integers(1, 50),
    st.integers(2, 300),
    st.sampled_from([None, 1, 3]),
)
@settings(max_examples=25, deadline=None)
def test_folding_keeps_bytes_and_compute(degrees, times, rounds, shifts):
    plan = InferencePlan(MIXTRAL, *degrees)
    builder = TrafficBuilder()
    task = append_forward(
        builder,
        np.arange(plan.gpus),
        plan,
        16,
        label="steps",
        times=times,
        rounds=rounds,
        compute_s=2.0,
        shifts=shifts,
    )
    traffic = builder.build()
    one = forward_traffic(np.arange(plan.gpus), plan, 16)
    assert traffic.task_rounds[task] == rounds
    n = plan.gpus
    assert traffic.total_bytes == pytest.approx(times * one.total_bytes, rel=1e-12)
    assert got_by(traffic, n) == pytest.approx(times * got_by(one, n), rel=1e-12)
    assert traffic.chunk_delay_s.max() * rounds == pytest.approx(2.0)


def test_a_rank_waits_for_all_that_it_needs():
    plan = InferencePlan(MIXTRAL, 1, 4)
    traffic = forward_traffic(np.arange(4), plan, 4)
    for stream in range(traffic.n_streams):
        waits = traffic.pred_stream[traffic.pred_ptr[stream] : traffic.pred_ptr[stream + 1]]
        lags = traffic.pred_lag[traffic.pred_ptr[stream] : traffic.pred_ptr[stream + 1]]
        src, dst = traffic.src[stream], traffic.dst[stream]
        if stream < 12:  # dispatch: the last layer's answers to the sender
            assert set(traffic.src[waits]) == set(range(4)) - {src}
            assert set(traffic.dst[waits]) == {src}
            assert set(lags) == {1}
        else:  # combine: what this sender got from that receiver
            assert [(traffic.src[w], traffic.dst[w]) for w in waits] == [(dst, src)]
            assert set(lags) == {0}


def test_one_gpu_only_computes():
    traffic = forward_traffic([5], InferencePlan(CATALOG.model("llama3-8b")), 1, compute_s=0.25)
    assert traffic.n_streams == 0
    assert traffic.task_delay_s.tolist() == [0.25]


# ---------------------------------------------------------------- KV cache


def test_cache_of_a_token():
    assert kv_bytes_per_token(InferencePlan(LLAMA)) == 2 * 80 * 8 * 128 * 2
    assert kv_bytes_per_token(InferencePlan(DEEPSEEK)) == 61 * (512 + 64) * 2
    # DeepSeek-AI, "Insights into DeepSeek-V3", 2025, table 1: KB of a token in BF16
    assert kv_bytes_per_token(InferencePlan(DEEPSEEK)) == 70_272
    assert kv_bytes_per_token(InferencePlan(CATALOG.model("llama3-405b"))) == 516_096
    fp8 = InferencePlan(DEEPSEEK, kv_precision=Precision.FP8)
    assert kv_bytes_per_token(fp8) == 61 * (512 + 64)


@pytest.mark.parametrize(
    ("shape", "tensor", "part"),
    [(LLAMA, 4, 1 / 4), (LLAMA, 8, 1 / 8), (LLAMA, 16, 1 / 8), (DEEPSEEK, 8, 1)],
)
def test_cache_of_a_rank(shape, tensor, part):
    plan = InferencePlan(shape, tensor)
    assert kv_rank_bytes_per_token(plan) == kv_bytes_per_token(plan) * part
    said = {item.subject for item in inference_assumptions(plan)}
    assert ("KV heads" in said) == (tensor > 8)


@given(
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.lists(st.integers(1, 5000), min_size=1, max_size=5),
)
@settings(max_examples=40, deadline=None)
def test_transfers_bring_each_decode_rank_its_cache(senders, receivers, prompts):
    decode = InferencePlan(LLAMA, receivers)
    n = len(prompts)
    transfers = KvTransfers(
        np.tile(np.arange(senders, dtype=np.int32), (n, 1)),
        np.tile(np.arange(100, 100 + receivers, dtype=np.int32), (n, 1)),
        np.array(prompts),
        np.arange(n, dtype=np.float64),
    )
    builder = TrafficBuilder()
    tasks = append_kv_transfers(builder, transfers, decode)
    traffic = builder.build()
    total = sum(prompts)
    assert list(tasks) == list(range(n))
    assert traffic.task_start_s.tolist() == list(range(n))
    each = total * kv_rank_bytes_per_token(decode)
    assert got_by(traffic, 200)[100 : 100 + receivers] == pytest.approx(np.full(receivers, each))
    assert traffic.total_bytes == pytest.approx(kv_transfer_bytes(decode, total))
    assert sent_by(traffic, senders)[:senders] == pytest.approx(
        np.full(senders, traffic.total_bytes / senders)
    )
    # tensor rank to tensor rank: equal degrees pair up one to one
    if senders == receivers:
        assert (traffic.dst - traffic.src == 100).all()


def test_pools_must_not_share_a_gpu():
    both = np.zeros((1, 1), dtype=np.int32)
    with pytest.raises(InputError, match="both prefills and decodes"):
        append_kv_transfers(
            TrafficBuilder(),
            KvTransfers(both, both, np.array([1]), np.array([0.0])),
            InferencePlan(LLAMA),
        )


# ---------------------------------------------------------------- requests


def test_requests_follow_from_the_seed():
    load = RequestLoad(10.0, 50, Lengths(1000, 0.5), Lengths(100, 1.0), seed=3)
    one, two = draw_requests(load), draw_requests(load)
    other = draw_requests(RequestLoad(10.0, 50, Lengths(1000, 0.5), Lengths(100, 1.0), seed=4))
    for name in ("arrival_s", "prompt_tokens", "output_tokens"):
        assert (getattr(one, name) == getattr(two, name)).all()
        assert (getattr(one, name) != getattr(other, name)).any()


def test_each_use_of_chance_has_its_own_stream():
    one = draw_requests(RequestLoad(10.0, 50, Lengths(1000, 0.5), Lengths(100, 0.5)))
    two = draw_requests(RequestLoad(10.0, 50, Lengths(10), Lengths(100, 0.5)))
    assert (one.arrival_s == two.arrival_s).all()
    assert (one.output_tokens == two.output_tokens).all()
    assert set(two.prompt_tokens.tolist()) == {10}


def test_arrivals_are_poisson_and_lengths_have_their_mean_and_spread():
    drawn = draw_requests(RequestLoad(20.0, 40_000, Lengths(2000, 0.5), Lengths(300, 1.0), seed=1))
    gaps = np.diff(drawn.arrival_s)
    assert (gaps > 0).all()
    assert gaps.mean() == pytest.approx(1 / 20, rel=0.03)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.03)
    for values, mean, spread in ((drawn.prompt_tokens, 2000, 0.5), (drawn.output_tokens, 300, 1.0)):
        assert values.mean() == pytest.approx(mean, rel=0.03)
        assert values.std() / values.mean() == pytest.approx(spread, rel=0.05)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: InferencePlan(LLAMA, 6), "allowed: 1, 2, 4, 8, 16, 32, 64; nearest: 4"),
        (lambda: InferencePlan(LLAMA, 100), "nearest: 64"),
        (lambda: InferencePlan(LLAMA, 8, 8), "no experts"),
        (lambda: InferencePlan(DEEPSEEK, 4, 6), "nearest: 4"),
        (lambda: InferencePlan(DEEPSEEK, 4, 48), "nearest: 32"),
        (lambda: InferencePlan(MIXTRAL, 1, 4, skew=5), "allowed: 1 .even. to 4"),
        (lambda: InferencePlan(MIXTRAL, 1, 4, skew=math.nan), "skew"),
        (lambda: Lengths(0), "1 or more"),
        (lambda: Lengths(10, -1), "spread"),
        (lambda: RequestLoad(0, 10), "more than 0"),
        (lambda: RequestLoad(1, 0), "allowed: 1"),
        (lambda: forward_traffic([1, 2], InferencePlan(LLAMA, 4), 1), "2 GPUs for the 4 ranks"),
    ],
)
def test_refusals_name_what_would_do(make, text):
    with pytest.raises(InputError, match=text):
        make()
