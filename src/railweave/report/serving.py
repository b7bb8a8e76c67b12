"""Tables of :mod:`railweave.predict.serving`, and its numbers as a document."""

from __future__ import annotations

import dataclasses
from typing import Any

from railweave.predict.serving import Percentiles, PoolUse, ServingEstimate
from railweave.report.page_table import PageTable, known
from railweave.units import format_bytes, format_seconds

__all__ = ["serving_headline", "serving_json", "serving_tables"]


def _seconds(value: float) -> str:
    return known(value, lambda found: format_seconds(float(f"{max(found, 0.0):.3g}")))


def _parts(found: ServingEstimate) -> tuple[tuple[str, Percentiles], ...]:
    times = found.times
    return (
        ("time to first token", found.first_token),
        ("  wait for prefill", Percentiles.of(times.wait_s)),
        ("  prefill", Percentiles.of(times.prefill_s)),
        ("  KV cache on the network", found.kv),
        ("time per output token", found.per_token),
        ("wait for the decode batch", Percentiles.of(times.admission_s)),
    )


def _times_table(found: ServingEstimate) -> PageTable:
    rows = tuple(
        (name, *(_seconds(value) for value in (of.p50, of.p90, of.p95, of.p99, of.mean)))
        for name, of in _parts(found)
    )
    return PageTable(
        "serving-times",
        f"Times over {found.times.arrival_s.size:,} requests",
        ("time", "p50", "p90", "p95", "p99", "mean"),
        rows,
        ("Percentiles of each row by itself: parts do not add up to those of the whole.",),
    )


def _pools_table(found: ServingEstimate) -> PageTable:
    rows = tuple(
        (
            use.name,
            f"{use.instances:,}",
            use.plan.describe(),
            f"{use.load:.0%}",
            f"{use.most_per_s:.3g}",
            f"{use.memory.weights_bytes / 1e9:.1f}",
            f"{use.memory.cache_bytes / 1e9:.1f}",
            f"{use.memory.usable_bytes / 1e9:.1f}",
        )
        for use in (found.prefill, found.decode)
    )
    return PageTable(
        "serving-pools",
        "Pools",
        ("pool", "instances", "instance", "load", "most/s", "weights", "KV", "GPU"),
        rows,
        (
            "Load: requests offered over what the pool carries (most/s). GB of one GPU: weights, "
            "KV cache at its fullest, and what may be used.",
        ),
        text_columns=("instance",),
    )


def _pass_row(use: PoolUse) -> tuple[str, ...]:
    took = use.typical
    cells = (took.weights_s, took.cache_s, took.arithmetic_s, took.tensor_s, took.expert_s)
    return (
        use.name,
        _seconds(took.total_s),
        *(_seconds(value) if value else "–" for value in cells),
        f"{use.communication:.0%}",
    )


def _pass_table(found: ServingEstimate) -> PageTable:
    both = (found.prefill, found.decode)
    return PageTable(
        "serving-passes",
        "One forward pass by its parts",
        ("pass", "whole", "weights", "KV", "arithmetic", "tensor", "expert", "exchanges"),
        tuple(_pass_row(use) for use in both),
        (
            *(f"{use.name}: {use.typical_text}." for use in both),
            "Weights and KV: through the memory (of a prefill in its arithmetic). Exchanges: share "
            "of the time of all passes in tensor and expert exchanges.",
        ),
    )


def serving_tables(found: ServingEstimate) -> tuple[PageTable, ...]:
    """Return the percentiles, the pools and one pass of each."""
    return _times_table(found), _pools_table(found), _pass_table(found)


def serving_headline(found: ServingEstimate) -> tuple[str, ...]:
    """Return what it comes to, in a few lines."""
    question, load = found.question, found.question.load
    shape = question.decode.shape
    lines = [
        f"{shape.title or shape.name}: {load.rate_per_s:g} requests/s, "
        f"{question.prefill_gpus} GPUs prefill, {question.decode_gpus} decode, "
        f"batch {question.batch}",
        f"First token after {_seconds(found.first_token.p50)} (p50), "
        f"{_seconds(found.first_token.p99)} (p99); then one every "
        f"{_seconds(found.per_token.p50)} (p50), {_seconds(found.per_token.p99)} (p99); "
        f"{found.tokens_per_s:,.0f} tokens/s with {found.mean_batch:.1f} sequences in a batch.",
        f"Network: {format_bytes(float(f'{found.kv_bytes:.4g}'))} of KV cache take "
        f"{found.kv_share:.1%} of the time to first token, {found.kv_slowdown:.2f} times as long "
        f"as alone; exchanges take {found.communication_share:.0%} of decoding"
        + (f", {found.stretch - 1:.1%} longer beside the caches." if found.stretch > 1 else "."),
    ]
    return (*lines, *found.notes)


def _pool(use: PoolUse) -> dict[str, Any]:
    return {
        "instances": use.instances,
        "gpus_per_instance": use.plan.gpus,
        "tensor": use.plan.tensor,
        "expert": use.plan.expert,
        "load": use.load,
        "most_per_s": use.most_per_s,
        "passes": use.passes,
        "communication_share": use.communication,
        "memory": dataclasses.asdict(use.memory),
        "pass": {
            "what": use.typical_text,
            "total_s": use.typical.total_s,
            **dataclasses.asdict(use.typical),
        },
    }


def serving_json(found: ServingEstimate) -> dict[str, Any]:
    """Return the numbers as one document."""
    question = found.question
    names = ("first_token", "wait", "prefill", "kv", "per_token", "admission")
    return {
        "model": question.decode.shape.name,
        "engine": found.engine,
        "requests": int(found.times.arrival_s.size),
        "rate_per_s": question.load.rate_per_s,
        "seed": question.load.seed,
        "batch": question.batch,
        **{
            f"{name}_s": dataclasses.asdict(of)
            for name, (_, of) in zip(names, _parts(found), strict=True)
        },
        "kv_bytes": found.kv_bytes,
        "kv_share": found.kv_share,
        "kv_slowdown": found.kv_slowdown,
        "communication_share": found.communication_share,
        "stretch": found.stretch,
        "tokens_per_s": found.tokens_per_s,
        "mean_batch": found.mean_batch,
        "prefill": _pool(found.prefill),
        "decode": _pool(found.decode),
        "notes": list(found.notes),
        "explanations": [dataclasses.asdict(item) for item in found.explanations],
        "assumptions": [dataclasses.asdict(item) for item in found.assumptions],
    }
