import pytest
from training import A100, GPT_530B, H100, LLAMA_8B, LLAMA_405B, MIXTRAL, PUBLISHED, plan

from railweave.errors import InputError
from railweave.predict._schedule import in_flight, rank_order
from railweave.predict.memory import memory_use, nearest_fit, require_fit
from railweave.predict.step import Recompute, plan_problems
from railweave.predict.transformer import activation_bytes


@pytest.mark.parametrize(
    ("zero", "each"),
    [
        (0, (2, 2, 12)),
        (1, (2, 2, 12 / 16)),
        (2, (2, 2 / 16, 12 / 16)),
        (3, (2 / 16, 2 / 16, 12 / 16)),
    ],
)
def test_zero_shards_the_16_bytes_of_a_parameter(zero, each):
    use = memory_use(plan(t=2, d=8, c=2, zero=zero), H100)
    held = LLAMA_8B.parameters / 2
    got = (use.weights_bytes, use.gradients_bytes, use.optimizer_bytes)
    assert got == pytest.approx([held * part for part in each], rel=1e-12)
    assert use.total_bytes == pytest.approx(
        sum(got) + use.activations_bytes + use.fullest.workspace_bytes
    )


def test_experts_are_sharded_over_those_with_the_same_ones():
    one = memory_use(plan(MIXTRAL, d=8, e=8, zero=1), H100)
    expert = 8 * 3 * 4096 * 14336 * 32
    dense = MIXTRAL.parameters - expert
    assert one.weights_bytes == pytest.approx(2 * (dense + expert / 8))
    assert one.optimizer_bytes == pytest.approx(12 * (dense / 8 + expert / 8))


@pytest.mark.parametrize("p", [1, 2, 4, 8])
@pytest.mark.parametrize("m", [2, 8, 32])
def test_1f1b_holds_as_many_micro_batches_as_stages_follow(p, m):
    for rank in range(p):
        assert in_flight(p, 1, m, rank, [1.0]) == min(m, p - rank)


@pytest.mark.parametrize(("p", "v", "m"), [(4, 2, 8), (4, 3, 4), (2, 4, 6), (8, 2, 64)])
def test_in_flight_is_what_the_order_keeps(p, v, m):
    sizes = [1.0 + 0.25 * chunk for chunk in range(v)]
    for rank in range(p):
        held = most = 0.0
        for back, chunk, _ in rank_order(p, v, m, rank):
            held += -sizes[chunk] if back else sizes[chunk]
            most = max(most, held)
        assert held == pytest.approx(0)
        assert in_flight(p, v, m, rank, sizes) == pytest.approx(most)


def test_first_stage_of_a_pipeline_keeps_most():
    use = memory_use(plan(GPT_530B, t=8, p=35, micro_batches=70), A100)
    layer = activation_bytes(plan(GPT_530B, t=8), sparse=False)
    kept = [stage.activations_bytes for stage in use.stages]
    assert kept[0] == pytest.approx(35 * 3 * layer)
    assert kept == sorted(kept, reverse=True)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_runs_fit(name):
    of, gpu, _, _ = PUBLISHED[name]
    use = memory_use(of, gpu)
    assert use.fits
    assert use.total_bytes > 0.4 * use.capacity_bytes


def test_recomputation_spares_memory():
    use = {how: memory_use(plan(recompute=how), H100).activations_bytes for how in Recompute}
    assert use[Recompute.NONE] > use[Recompute.SELECTIVE] > use[Recompute.FULL]


def test_what_does_not_fit_is_answered_with_what_would():
    of = plan(LLAMA_405B, t=8, p=1, d=32)
    with pytest.raises(InputError, match=r"h100 has 81\.6 GB for it; the nearest that fits: TP 8"):
        require_fit(of, H100)
    near = nearest_fit(of, H100)
    assert near.ranks == of.ranks
    assert memory_use(near, H100).fits
    assert plan_problems(near) == ()
    assert near.sequences_per_step == of.sequences_per_step
    small = plan(d=8)
    assert nearest_fit(small, H100).degrees == small.degrees  # ZeRO 1 is enough
    assert nearest_fit(small, H100).zero == 1
    assert nearest_fit(plan(LLAMA_405B, t=8), H100) is None
    with pytest.raises(InputError, match=r"nothing on 8 GPUs fits"):
        require_fit(plan(LLAMA_405B, t=8), H100)
    assert require_fit(plan(d=8, zero=1), H100).fits
