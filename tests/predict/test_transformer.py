import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training import DEEPSEEK, GPT_175B, GPT_530B, LLAMA_8B, LLAMA_405B, MIXTRAL, plan

from railweave.predict.step import Recompute
from railweave.predict.transformer import activation_bytes, layer_work, model_flops, parts_of
from railweave.workload.training import stage_parts


@pytest.mark.parametrize("shape", [GPT_175B, GPT_530B], ids=lambda s: s.name)
def test_flops_are_the_textbook_ones_of_a_gpt(shape):
    """72·B·s·L·h²·(1 + s/6h + V/12Lh), with the attention's term halved for causality."""
    layers, h, s, v = shape.layers, shape.hidden, shape.sequence, shape.vocabulary
    book = 72 * s * layers * h * h * (1 + s / (6 * h) / 2 + v / (12 * layers * h))
    assert model_flops(shape, s) == pytest.approx(book, rel=1e-3)  # norms are weights too


def test_attention_is_4_percent_of_a_long_sequence():
    tokens = 8192
    attention = 6 * 126 * 16384 * 8192 * tokens
    assert 0.04 < attention / model_flops(LLAMA_405B, tokens) < 0.08
    longer = model_flops(LLAMA_405B, tokens, sequence=16384)
    assert longer - model_flops(LLAMA_405B, tokens) == pytest.approx(attention)


def test_mixtures_count_only_the_experts_a_token_uses():
    weights = MIXTRAL.active_parameters - MIXTRAL.vocabulary * MIXTRAL.hidden
    attention = 6 * MIXTRAL.layers * 4096 * MIXTRAL.sequence
    assert model_flops(MIXTRAL, 1) == pytest.approx(6 * weights + attention)


def test_126_layers_on_16_stages_make_room_for_embedding_and_head():
    parts = stage_parts(LLAMA_405B, 16)
    assert parts.layers.tolist() == [7, *[8] * 14, 7]
    assert stage_parts(LLAMA_405B, 16, 8).layers.tolist() == [0, *[1] * 126, 0]
    assert stage_parts(LLAMA_405B, 18).layers.tolist() == [7] * 18
    assert stage_parts(LLAMA_405B, 4).layers.tolist() == [31, 32, 32, 31]
    assert stage_parts(LLAMA_405B, 5).layers.tolist() == [26, 25, 25, 25, 25]


@given(st.integers(1, 40), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_every_layer_stands_once(p, v):
    if p * v > DEEPSEEK.layers:
        return
    parts = stage_parts(DEEPSEEK, p, v)
    assert parts.layers.sum() == DEEPSEEK.layers
    assert parts.dense.sum() == DEEPSEEK.dense_layers
    assert (parts.dense + parts.sparse == parts.layers).all()
    assert parts.layers.max() - parts.layers.min() <= 1


@pytest.mark.parametrize("t", [1, 8])
@pytest.mark.parametrize("b", [1, 4])
def test_activations_are_those_of_the_paper(t, b):
    """Korthikanti et al., 2022, table 2."""
    s, h, a = GPT_530B.sequence, GPT_530B.hidden, GPT_530B.heads
    sbh, scores = s * b * h, 5 * a * s / h
    for recompute, parallel, book in (
        (Recompute.NONE, False, sbh * (10 + 24 / t + scores / t)),
        (Recompute.NONE, True, sbh / t * (34 + scores)),
        (Recompute.SELECTIVE, False, sbh * (10 + 24 / t)),
        (Recompute.SELECTIVE, True, sbh / t * 34),
        (Recompute.FULL, False, 2 * sbh),
    ):
        of = plan(GPT_530B, t=t, micro_batch=b, recompute=recompute, sequence_parallel=parallel)
        assert activation_bytes(of, sparse=False) == pytest.approx(book, rel=1e-12)


@pytest.mark.parametrize("shape", [LLAMA_8B, GPT_175B, MIXTRAL, DEEPSEEK], ids=lambda s: s.name)
@pytest.mark.parametrize("t", [1, 4])
def test_layers_multiply_what_the_model_counts(shape, t):
    """The products of all layers are 2 FLOPs an active weight and token."""
    of = plan(shape, t=t, sequence=2048)
    parts, total = parts_of(of), 0.0
    for sparse, count in ((False, parts.dense.sum()), (True, parts.sparse.sum())):
        work = layer_work(of, sparse=sparse)
        total += count * sum(gemm.flops for gemm in (*work.gemms, *work.experts)) * t
    tables = shape.embedding_parameters
    weights = shape.active_parameters - tables
    assert total == pytest.approx(2 * 2048 * weights, rel=2e-4)


def test_context_and_tensor_ranks_share_the_work():
    whole = layer_work(plan(), sparse=False)
    part = layer_work(plan(t=4, c=2), sparse=False)
    assert part.attention_flops * 8 == pytest.approx(whole.attention_flops)
    assert sum(g.flops for g in part.gemms) * 8 == pytest.approx(sum(g.flops for g in whole.gemms))
    assert part.moved_bytes * 8 == pytest.approx(whole.moved_bytes)
    alone = layer_work(plan(t=4, c=2, sequence_parallel=False), sparse=False)
    assert alone.moved_bytes > part.moved_bytes
