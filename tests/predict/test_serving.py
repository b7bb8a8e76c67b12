"""Serving: passes against hand arithmetic, queues by hand, transfers on a fabric, percentiles."""

import dataclasses
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training import CATALOG, H100

import railweave
from railweave.design.models import Precision
from railweave.engine.choice import EngineChoice
from railweave.errors import InputError
from railweave.fabric import LinkLayer
from railweave.fabric.names import port_name
from railweave.predict._serving_clock import Exchanges, PassClock, weights_of
from railweave.predict._serving_network import Pool, serving_traffic
from railweave.predict._serving_queues import Activity, decode_queue, prefill_queue
from railweave.predict.compute import gemm_efficiency
from railweave.predict.serving import PassTime, Percentiles, ServingQuestion, estimate_serving
from railweave.workload.inference import (
    InferencePlan,
    KvTransfers,
    Lengths,
    RequestLoad,
    Requests,
    forward_volume,
    kv_transfer_bytes,
)

LLAMA, MIXTRAL = CATALOG.model("llama3-8b"), CATALOG.model("mixtral-8x7b")
DEEPSEEK = CATALOG.model("deepseek-v3")
#: four servers of two GPUs on two leaves with one spine; half of what hosts send can go up
DESIGN = """\
railweave: 1
name: serving
cluster:
  servers:
    count: 4
    inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}
planes:
  backend:
    transport: rocev2
    topology: leaf-spine
    switch: {radix: 6, speed: 100 Gb/s}
    oversubscription: 2
"""


@cache
def built():
    return railweave.parse(DESIGN).build()


def question(shape=LLAMA, p=(2, 1), d=(2, 1), *, rate=20.0, count=40, batch=16, **changes):
    base = {
        "prefill": InferencePlan(shape, *p),
        "decode": InferencePlan(shape, *d),
        "prefill_gpus": 4,
        "decode_gpus": 4,
        "batch": batch,
        "load": RequestLoad(rate, count, Lengths(1000, 0.5), Lengths(50, 0.5), seed=1),
    }
    return ServingQuestion(**{**base, **changes})


# ---------------------------------------------------------------- one pass


def test_decode_step_by_hand():
    clock = PassClock(InferencePlan(LLAMA, 2), H100, Exchanges())
    took = clock.decode(8, 8 * 1000)
    multiplied = LLAMA.parameters - LLAMA.vocabulary * LLAMA.hidden  # all but the look-up
    bandwidth = H100.hbm_bandwidth_Bps * 0.85
    assert took.weights_s == pytest.approx(2 * multiplied / 2 / bandwidth)
    assert took.cache_s == pytest.approx(8000 * 2 * 32 * 8 * 128 * 2 / 2 / bandwidth)
    rate = H100.bf16_flops * gemm_efficiency(H100, Precision.BF16)
    scores = 4 * 8000 * 32 * 32 * 128 / 2 / (rate * 0.5)
    assert took.arithmetic_s == pytest.approx(2 * 8 * multiplied / 2 / rate + scores)
    assert took.communication_s == 0


def test_mixture_touches_more_experts_with_more_tokens():
    clock = PassClock(InferencePlan(MIXTRAL, 2, 8), H100, Exchanges())
    dense, routed = weights_of(clock.plan)
    assert dense * 2 + routed * 8 == pytest.approx(MIXTRAL.parameters, rel=1e-12)
    few, many = clock.decode(1, 0), clock.decode(64, 0)
    look_up = MIXTRAL.vocabulary * MIXTRAL.hidden / 2
    bandwidth = H100.hbm_bandwidth_Bps * 0.85
    assert many.weights_s == pytest.approx(2 * (dense - look_up + routed) / bandwidth, rel=1e-6)
    touched = 1 - (1 - 2 / 8) ** 4
    assert few.weights_s == pytest.approx(2 * (dense - look_up + routed * touched) / bandwidth)
    # with one sequence in the whole instance only its two experts are touched
    lone = clock.decode(1, 0, 1)
    assert lone.weights_s == pytest.approx(2 * (dense - look_up + routed * 2 / 8) / bandwidth)
    rate = H100.bf16_flops * gemm_efficiency(H100, Precision.BF16)
    assert few.arithmetic_s == pytest.approx(
        2 * (dense - look_up + 4 * routed * 2 / 8) / rate, rel=1e-9
    )


def test_latent_cache_is_read_whole_by_every_rank():
    one = PassClock(InferencePlan(DEEPSEEK, 1, 64), H100, Exchanges()).decode(1, 1e5)
    eight = PassClock(InferencePlan(DEEPSEEK, 8, 64), H100, Exchanges()).decode(1, 1e5)
    assert one.cache_s == eight.cache_s > 0
    assert one.arithmetic_s > 4 * eight.arithmetic_s


def test_prefill_grows_faster_than_its_tokens():
    clock = PassClock(InferencePlan(LLAMA, 2), H100, Exchanges())
    short, long = clock.prefill(4000).total_s, clock.prefill(8000).total_s
    assert 2 * short < long < 4 * short
    # at least what the weights' arithmetic takes
    weights = LLAMA.parameters - 2 * LLAMA.vocabulary * LLAMA.hidden
    rate = H100.bf16_flops * gemm_efficiency(H100, Precision.BF16)
    assert short > 2 * weights * 4000 / 2 / rate


def test_prefill_of_few_replicas_still_reads_the_experts_weights():
    clock = PassClock(InferencePlan(MIXTRAL, 1, 8), H100, Exchanges())
    full, half, one = (clock.prefill(2000, share).compute_s for share in (1.0, 0.5, 1 / 8))
    assert full - half == pytest.approx((half - one) * 0.5 / 0.375)  # linear in the tokens
    read = 2 * weights_of(clock.plan)[1] / (H100.hbm_bandwidth_Bps * 0.85)
    assert clock.prefill(2000, 0.0).compute_s > read


# ---------------------------------------------------------------- queues


class Fixed:
    """A clock whose prefill takes a millisecond a token, and whose step takes one second."""

    def __init__(self, expert=1):
        self.plan = InferencePlan(MIXTRAL, 1, expert)

    def prefill(self, tokens, share=1.0):
        return _took(tokens / 1000)

    def decode(self, sequences, context, total=None):
        return _took(1.0)


def _took(seconds):
    return PassTime(0.0, 0.0, seconds, 0.0, 0.0)


def requests(arrivals, prompts, outputs):
    return Requests(np.array(arrivals, dtype=float), np.array(prompts), np.array(outputs))


def test_prefill_first_come_first_served():
    run = prefill_queue(requests([0, 0.5, 0.6], [1000, 2000, 1000], [1, 1, 1]), Fixed(), 2)
    assert run.start_s.tolist() == [0, 0.5, 1.0]
    assert run.done_s.tolist() == [1.0, 2.5, 2.0]
    assert run.instance.tolist() == [0, 1, 0]


def test_replicas_prefill_together_as_long_as_the_longest():
    waiting = requests([0, 0.1, 0.2, 0.3], [1000, 500, 3000, 100], [1] * 4)
    run = prefill_queue(waiting, Fixed(expert=2), 1)
    assert run.start_s.tolist() == [0, 1, 1, 4]
    assert run.done_s.tolist() == [1, 4, 4, 4.1]
    assert run.replica.tolist() == [0, 0, 1, 0]


def test_decode_joins_and_leaves_at_steps():
    three = requests([0, 0, 0], [10, 10, 10], [3, 4, 2])
    one = np.zeros(3, dtype=np.int64)
    ready = np.array([0.0, 0.5, 0.6])
    run = decode_queue(three, ready, Fixed(), instance=one, replica=one, instances=1, batch=2)
    # the first: steps at 0 and 1; the second joins at 1; the third waits for room until 2
    assert run.admitted_s.tolist() == [0, 1, 2]
    assert run.finish_s.tolist() == [2, 4, 3]
    assert run.mean_batch == pytest.approx((1 + 2 + 2 + 1) / 4)


def test_answers_of_one_token_need_no_decoding():
    run = decode_queue(
        requests([0], [10], [1]),
        np.array([0.7]),
        Fixed(),
        instance=np.array([0]),
        replica=np.array([0]),
        instances=1,
        batch=1,
    )
    assert run.finish_s.tolist() == [0.7]
    assert run.activity[0].passes == 0


@given(st.integers(0, 1000), st.sampled_from([1, 2, 4]), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_passes_hold_every_token(seed, width, instances):
    chance = np.random.default_rng(seed)
    drawn = requests(
        np.sort(chance.uniform(0, 5, 30)), chance.integers(1, 3000, 30), chance.integers(1, 9, 30)
    )
    clock = Fixed(expert=width)
    run = prefill_queue(drawn, clock, instances)
    worked = sum(did.passes * did.tokens * clock.plan.replicas for did in run.activity)
    assert worked == pytest.approx(drawn.prompt_tokens.sum())
    slot = np.arange(30) % (instances * width)
    after = decode_queue(
        drawn,
        run.done_s,
        clock,
        instance=slot % instances,
        replica=slot // instances,
        instances=instances,
        batch=2 * width,
    )
    answered = sum(did.passes * did.tokens * width for did in after.activity)
    assert answered == pytest.approx((drawn.output_tokens - 1).sum())


@given(st.integers(0, 1000), st.integers(1, 40), st.integers(1, 3), st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_queues_keep_order_room_and_count(seed, count, instances, batch):
    chance = np.random.default_rng(seed)
    drawn = requests(
        np.sort(chance.uniform(0, 5, count)),
        chance.integers(1, 3000, count),
        chance.integers(1, 9, count),
    )
    run = prefill_queue(drawn, Fixed(), instances)
    assert (np.diff(run.start_s) >= 0).all()
    assert (run.start_s >= drawn.arrival_s).all()
    assert run.done_s == pytest.approx(run.start_s + drawn.prompt_tokens / 1000)
    where = np.arange(count) % instances
    zero = np.zeros(count, dtype=np.int64)
    after = decode_queue(
        drawn,
        run.done_s,
        Fixed(),
        instance=where,
        replica=zero,
        instances=instances,
        batch=batch,
    )
    steps = drawn.output_tokens - 1
    assert after.finish_s == pytest.approx(after.admitted_s + steps)
    assert (after.admitted_s >= run.done_s).all()
    for number in range(instances):
        mine = (where == number) & (steps > 0)
        for moment in after.admitted_s[mine]:
            inside = (after.admitted_s[mine] <= moment) & (moment < after.finish_s[mine])
            assert inside.sum() <= batch


# ---------------------------------------------------------------- on a fabric


def test_estimate_is_the_same_each_time_and_adds_up():
    one, two = (estimate_serving(built(), question()) for _ in range(2))
    for field in dataclasses.fields(one.times):
        first, second = getattr(one.times, field.name), getattr(two.times, field.name)
        assert np.array_equal(first, second, equal_nan=True)
    times = one.times
    there = times.arrival_s + times.wait_s + times.prefill_s + times.kv_s
    assert times.first_token_s == pytest.approx(there - times.arrival_s)
    decoded = times.per_token_s * (times.output_tokens - 1)
    more = times.output_tokens > 1
    assert (there + decoded)[more] == pytest.approx(times.finish_s[more])
    assert (times.admission_s >= 0).all()
    total = kv_transfer_bytes(one.question.decode, float(times.prompt_tokens.sum()))
    assert one.kv_bytes == pytest.approx(total)


def test_percentiles_rise():
    found = estimate_serving(built(), question(rate=60.0))
    for of in (found.first_token, found.per_token, found.kv):
        assert of.p50 <= of.p90 <= of.p95 <= of.p99
        assert of.count == 40


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=50))
def test_percentiles_are_monotone_and_within(values):
    of = Percentiles.of(values)
    assert min(values) <= of.p50 <= of.p90 <= of.p95 <= of.p99 <= max(values)


def test_a_lone_transfer_takes_its_bytes_over_the_nic():
    lone = question(p=(1, 1), d=(1, 1), count=1)
    for engine in ("analytic", "flow"):
        found = estimate_serving(built(), lone, EngineChoice(engine))
        tokens = int(found.times.prompt_tokens[0])
        floor = kv_transfer_bytes(lone.decode, tokens) / 12.5e9
        assert floor < found.times.kv_s[0] < 1.1 * floor


def test_transfers_slow_each_other_in_the_flow_engine_only():
    # one GPU a prompt, four at once into one decode GPU
    crowd = question(
        p=(1, 1), d=(1, 1), decode_gpus=1, load=RequestLoad(1e6, 4, Lengths(2000), Lengths(4))
    )
    flow = estimate_serving(built(), crowd)
    alone = estimate_serving(built(), crowd, EngineChoice("analytic"))
    assert alone.kv_slowdown == pytest.approx(1.0)
    assert flow.kv_slowdown > 1.5
    assert flow.first_token.mean > alone.first_token.mean


def test_exchanges_across_servers_meet_the_transfers():
    # four GPUs of two servers each: experts' bytes use the same NICs as the caches
    spread = question(MIXTRAL, (1, 4), (1, 4), rate=200.0, count=24)
    found = estimate_serving(built(), spread)
    quiet = dataclasses.replace(spread, load=dataclasses.replace(spread.load, count=1))
    assert found.kv_slowdown > 1.05
    assert found.stretch >= 1.0
    assert found.decode.typical.expert_s > 0
    assert "beside the exchanges of prefill and decode" in " ".join(
        item.statement for item in found.assumptions
    )
    assert estimate_serving(built(), quiet).times.kv_s[0] >= 0


def test_traffic_holds_every_byte_of_caches_and_passes():
    fabric = built().fabric
    plan = InferencePlan(MIXTRAL, 1, 4)
    nodes = fabric.gpus[:8].reshape(2, 4)
    did = Activity(7, 12.0, 0.5, 2.5, 0.5, 1.5)
    pools = [Pool("prefill", plan, nodes[:1], (did,)), Pool("decode", plan, nodes[1:], (did,))]
    transfers = KvTransfers(nodes[:1, :1], nodes[1:, :1], np.array([100]), np.array([0.1]))
    traffic, caches, tasks = serving_traffic(built(), transfers, pools)
    exchanged = 7 * forward_volume(plan, 12.0).expert_total_bytes
    whole = 2 * exchanged + kv_transfer_bytes(plan, 100)
    assert traffic.total_bytes == pytest.approx(whole, rel=1e-12)
    assert len(caches) == 1
    assert [idle for pool in tasks.values() for _, idle in pool] == [1.5, 1.5]
    result = EngineChoice("flow").simulate(fabric, traffic, built().routing())
    assert result.bytes_delivered == pytest.approx(result.bytes_sent)


def test_failures_count():
    whole = railweave.parse(f"{DESIGN}    routing: {{queue_pairs: 16}}\n").build()
    fabric = whole.fabric
    up = (fabric.link_layer == LinkLayer.LEAF_SPINE) & (fabric.node_tier[fabric.link_src] == 1)
    broken = whole.fail([port_name(fabric, int(np.flatnonzero(up)[0]))])
    crowd = question(p=(1, 1), d=(1, 1), load=RequestLoad(1e5, 16, Lengths(4000), Lengths(4)))
    # one of the leaf's two uplinks carries what both did
    assert estimate_serving(broken, crowd).kv.p99 > 1.5 * estimate_serving(whole, crowd).kv.p99


def test_skew_and_precision_act():
    plan = {"p": (1, 4), "d": (1, 4)}
    even = estimate_serving(built(), question(MIXTRAL, **plan, count=8))
    hot = InferencePlan(MIXTRAL, 1, 4, skew=3.0)
    uneven = estimate_serving(built(), question(MIXTRAL, **plan, count=8, prefill=hot, decode=hot))
    assert uneven.decode.typical.expert_s > even.decode.typical.expert_s
    low = InferencePlan(MIXTRAL, 1, 4, Precision.FP8, Precision.FP8, Precision.FP8)
    quick = estimate_serving(built(), question(MIXTRAL, **plan, count=8, prefill=low, decode=low))
    assert quick.kv_bytes == even.kv_bytes / 2
    assert quick.per_token.mean < even.per_token.mean


def test_more_load_waits_longer_and_says_so():
    calm, busy = (estimate_serving(built(), question(rate=rate)) for rate in (1.0, 1e4))
    assert busy.first_token.p99 > calm.first_token.p99
    assert not calm.notes
    assert busy.prefill.load > 1 > calm.prefill.load
    assert any("prefill pool cannot keep up" in note for note in busy.notes)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda: question(prefill_gpus=3), "allowed: multiples of 2; nearest: 4"),
        (lambda: question(prefill_gpus=6), "design has 8.*nearest: 4 and 4"),
        (lambda: question(MIXTRAL, (1, 4), (1, 4), batch=6), "multiples of 4; nearest: 8"),
        (lambda: question(batch=100_000), "nearest that fits: [1-9]"),
        (lambda: question(CATALOG.model("llama3-70b"), (1, 1), (1, 1)), "nearest that fits: TP 2"),
        (lambda: question(DEEPSEEK, (4, 1), (4, 1)), "nearest that fits: TP 4 · EP 32"),
    ],
)
def test_refusals_name_the_nearest(ask, text):
    with pytest.raises(InputError, match=text):
        estimate_serving(built(), ask())


def test_the_batch_that_is_named_fits():
    with pytest.raises(InputError) as refused:
        estimate_serving(built(), question(batch=100_000))
    named = int(str(refused.value).rsplit(": ", 1)[1])
    found = estimate_serving(built(), question(batch=named))
    assert found.decode.memory.fits
    with pytest.raises(InputError):
        estimate_serving(built(), question(batch=named + 1))


def test_packets_are_bounded():
    heavy = question(rate=1000.0, count=3000)
    with pytest.raises(InputError, match="engine packet"):
        estimate_serving(built(), heavy, EngineChoice("packet"))
