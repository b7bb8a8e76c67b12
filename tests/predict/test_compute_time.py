from dataclasses import replace

import pytest
from training import A100, CATALOG, H100, LLAMA_405B, MIXTRAL, plan

from railweave.errors import InputError
from railweave.predict.compute import (
    BEST_GEMM,
    MEMORY_EFFICIENCY,
    SUSTAINED,
    gemm_efficiency,
    head_time,
    layer_time,
    optimizer_time,
    require_precision,
)
from railweave.predict.step import Precision, Recompute


def test_one_efficiency_a_generation_and_precision():
    for gpu in CATALOG.gpus():
        best = BEST_GEMM[gpu.generation]
        assert gemm_efficiency(gpu, Precision.BF16) == SUSTAINED * best[0]
        assert 0.3 < gemm_efficiency(gpu, Precision.BF16) < 0.8
    assert gemm_efficiency(H100, Precision.BF16) == gemm_efficiency(
        CATALOG.gpu("h200"), Precision.BF16
    )


def test_backward_is_twice_forward_and_recomputes():
    none = layer_time(plan(recompute=Recompute.NONE), H100, sparse=False)
    some = layer_time(plan(), H100, sparse=False)
    full = layer_time(plan(recompute=Recompute.FULL), H100, sparse=False)
    assert none.backward_s == pytest.approx(2 * none.forward_s)
    assert full.backward_s == pytest.approx(3 * none.forward_s)
    assert none.backward_s < some.backward_s < full.backward_s
    assert full.flops == pytest.approx(none.flops * 4 / 3)


def test_a_layer_takes_its_flops_and_its_operands():
    of = plan(LLAMA_405B, t=8)
    time = layer_time(of, H100, sparse=False)
    rate = 989e12 * SUSTAINED * 0.80
    ideal = 2 * 3.19e9 * 8192 / 8 / rate
    assert ideal < time.forward_s < 1.35 * ideal


def test_thin_products_are_less_efficient():
    """Twice the tensor ranks less than halve a layer's time."""
    wide = layer_time(plan(t=1, sequence=1024), H100, sparse=False).forward_s
    thin = layer_time(plan(t=8, sequence=1024), H100, sparse=False).forward_s
    assert thin > wide / 8 * 1.02
    few = layer_time(plan(MIXTRAL, sequence=64, e=1), H100, sparse=True).expert_forward_s
    weights = 8 * 3 * 4096 * 14336 * 2
    assert few > weights / (3.35e12 * MEMORY_EFFICIENCY)


def test_fp8_is_faster_where_there_is_some():
    bf16 = layer_time(plan(), H100, sparse=False).forward_s
    fp8 = layer_time(plan(precision=Precision.FP8), H100, sparse=False).forward_s
    assert 0.5 * bf16 < fp8 < bf16
    require_precision(H100, Precision.FP8)
    with pytest.raises(InputError, match=r"a100-80g has no FP8 arithmetic; allowed: bf16"):
        require_precision(A100, Precision.FP8)


def test_more_bandwidth_helps_what_memory_binds():
    fast = H100.model_copy(update={"hbm_bandwidth_Bps": 2 * H100.hbm_bandwidth_Bps})
    slow_time, fast_time = (layer_time(plan(), gpu, sparse=False) for gpu in (H100, fast))
    assert fast_time.forward_s < slow_time.forward_s
    assert fast_time.attention_forward_s == slow_time.attention_forward_s
    assert optimizer_time(fast, 1e9) == pytest.approx(optimizer_time(H100, 1e9) / 2)
    assert optimizer_time(H100, 1e9) == pytest.approx(30e9 / (3.35e12 * MEMORY_EFFICIENCY))


def test_head_is_shared_out_over_tensor_ranks():
    one, eight = head_time(plan(), H100), head_time(replace(plan(t=8)), H100)
    assert eight[2] * 8 == pytest.approx(one[2])
    assert one[2] == 6 * 8192 * 4096 * 128256
