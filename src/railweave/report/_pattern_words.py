"""What the numbers of a pattern mean, in sentences and formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railweave.design.models import Algorithm
from railweave.engine.metrics import collective_bandwidth
from railweave.engine.result import Explanation
from railweave.units import counted, format_bits_rate, format_bytes, format_seconds
from railweave.workload.patterns import PatternVolume, Strategy

if TYPE_CHECKING:
    from railweave.report.patterns import PatternStudy
    from railweave.report.patterns_groups import Spread

__all__ = ["explain_pattern", "interpret_pattern", "strategy_title", "where_words"]

_MATTERS = 0.01


def strategy_title(strategy: Strategy) -> str:
    """Return the strategy as the start of a sentence: ``Data parallel``."""
    return f"{strategy.value.capitalize()} parallel"


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count:,} times"


def interpret_pattern(study: PatternStudy) -> tuple[str, ...]:
    """Return sentences, each of which follows from the numbers of this study."""
    return tuple(
        text
        for text in (
            _what(study),
            _who(study),
            where_words(study),
            _binding(study),
            _turning_point(study),
            _rate(study),
            _hot(study),
            _handed_over(study),
            _engines(study),
        )
        if text
    )


def _what(study: PatternStudy) -> str:
    case = study.case
    size = format_bytes(case.payload_bytes)
    does = {
        Strategy.DATA: f"all-reduce {size} of gradients",
        Strategy.TENSOR: f"all-reduce {size} of activations",
        Strategy.CONTEXT: f"gather {size} of keys and values twice and scatter their gradients",
        Strategy.PIPELINE: f"hand {size} of activations to the next stage and as much in gradients "
        "back",
        Strategy.EXPERT: f"dispatch {size} of tokens each to the experts and combine the outcome",
    }[case.strategy]
    by = f" ({case.chosen_algorithm.value})" if case.chosen_algorithm else ""
    most = "Each GPU sends" if _even(study) else "The GPU that sends most sends"
    return (
        f"{strategy_title(case.strategy)}: {case.gpus:,} GPUs {does}{by}, "
        f"{_times(case.exchanges)} a step. {most} {format_bytes(study.bytes_sent_per_gpu)}, all "
        f"together {format_bytes(study.total_bytes)} in {counted(study.messages, 'message')}, "
        f"{study.steps:,} of which follow each other."
    )


def _even(study: PatternStudy) -> bool:
    sent = study.sent_bytes
    return bool(sent.max() - sent.min() <= 1e-9 * sent.max())


def _who(study: PatternStudy) -> str:
    peers = (study.matrix_bytes > 0).sum(axis=1)
    low, high = int(peers.min()), int(peers.max())
    others = study.case.gpus - 1
    if low == high == others and others > 1:
        return "Every GPU sends to every other."
    if low == high:
        return f"Every GPU sends to {'one other' if low == 1 else f'{low:,} others'}."
    return f"A GPU sends to {low:,} to {high:,} others."


def where_words(study: Spread) -> str:
    """Say how far the bytes go."""
    parts = [
        (study.share_server, "stay inside a server"),
        (study.share_leaf, "cross no more than a leaf"),
        (study.share_spine, "cross a spine"),
        (study.share_core, "cross a core switch"),
    ]
    said = [(share, text) for share, text in parts if share > 0]
    if len(said) == 1:
        return f"All bytes {said[0][1]}."
    first, *rest = (f"{share:.1%} {text}" for share, text in said)
    return (
        f"Of the bytes, {first}"
        + "".join(f"{' and' if i == len(rest) - 1 else ','} {text}" for i, text in enumerate(rest))
        + "."
    )


def _binding(study: PatternStudy) -> str:
    bandwidth, latency = study.bandwidth_s, study.latency_s
    total = f"By closed form a step takes {format_seconds(study.analytic_s)}: "
    if latency <= 0:
        return (
            f"{total}all of it is bytes on links, so bandwidth binds; links twice as fast would "
            f"halve it."
        )
    halves = (
        f"{format_seconds(bandwidth)} of bytes on links and {format_seconds(latency)} of latency, "
    )
    faster, prompter = bandwidth / 2 + latency, bandwidth + latency / 2
    return (
        f"{total}{halves}so {study.bound} binds; all links twice as fast would give "
        f"{format_seconds(faster)}, half the latency {format_seconds(prompter)}."
    )


def _turning_point(study: PatternStudy) -> str:
    """Say at which payload latency and bandwidth weigh the same; the bytes' time must be linear."""
    if study.latency_s <= 0 or study.case.chosen_algorithm is Algorithm.TREE:
        return ""
    even = study.case.payload_bytes * study.latency_s / study.bandwidth_s
    return f"The two weigh about the same at a payload of {_about(even)}."


def _about(size_bytes: float) -> str:
    return format_bytes(float(f"{size_bytes:.3g}"))


def _rate(study: PatternStudy) -> str:
    """Say at which rate the busiest GPU sends on average, against its link."""
    rate = 8.0 * study.bytes_sent_per_gpu / study.time_s
    text = f"Over the step the busiest GPU sends {format_bits_rate(float(f'{rate:.3g}'))}"
    if study.link_bps > 0 and study.share_server == 0:
        text += f", {rate / study.link_bps:.0%} of its link"
    op = study.case.collective
    if op is None or study.case.skew:
        return f"{text}."
    times = study.case.exchanges * len(study.volume.parts)
    busbw = collective_bandwidth(
        op, study.case.gpus, study.case.payload_bytes, study.time_s / times
    )[1]
    name = " and ".join(
        dict.fromkeys(part.collective.value for part in study.volume.parts if part.collective)
    )
    return f"{text}; the bus bandwidth of the {name} is {busbw / 1e9:.4g} GB/s."


def _hot(study: PatternStudy) -> str:
    received = study.matrix_bytes.sum(axis=0)
    mean = float(received.mean())
    hot = int(np.argmax(received))
    if study.case.strategy is not Strategy.EXPERT or received[hot] <= mean * (1 + _MATTERS):
        return ""
    return (
        f"Rank {hot} takes in {received[hot] / mean:.3g} times what a GPU does on average, "
        f"{format_bytes(float(received[hot]))}: all others send into its one link (incast)."
    )


def _handed_over(study: PatternStudy) -> str:
    more = study.total_bytes / study.volume.total_bytes - 1.0
    if more <= _MATTERS:
        return ""
    return (
        "Hand-overs inside servers, to the GPU whose NIC the bytes leave by, add "
        f"{more:.1%} to the algorithm's own volume."
    )


def _engines(study: PatternStudy) -> str:
    ratio = study.time_s / study.analytic_s - 1.0
    if abs(ratio) < _MATTERS:
        return f"The flow engine agrees with the closed form: {format_seconds(study.time_s)}."
    way = "longer than" if ratio > 0 else "shorter than"
    return (
        f"The flow engine says {format_seconds(study.time_s)}, {abs(ratio):.1%} {way} the closed "
        "form, which knows no more of a task than its busiest link and its longest latency."
    )


# ---------------------------------------------------------------- formulas


def explain_pattern(study: PatternStudy, volume: PatternVolume) -> tuple[Explanation, ...]:
    """Return the formula, the inputs and the source of each headline number."""
    case = study.case
    inputs = {
        "gpus n": float(case.gpus),
        "payload_bytes S": float(case.payload_bytes),
        "exchanges E": float(case.exchanges),
    }
    if case.skew:
        inputs["skew"] = case.skew
    own = "this study's traffic"
    return (
        Explanation(
            "bytes a GPU",
            volume.bytes_sent_per_gpu,
            "B",
            volume.formula,
            inputs,
            volume.source,
        ),
        Explanation(
            "bytes in all",
            study.total_bytes,
            "B",
            "sum of all messages, hand-overs inside servers included",
            {"messages": float(study.messages)},
            own,
        ),
        Explanation(
            "time",
            study.analytic_s,
            "s",
            "bandwidth time + latency time",
            {"bandwidth_s": study.bandwidth_s, "latency_s": study.latency_s},
            "alpha–beta model on routed paths",
        ),
        Explanation(
            "bandwidth time",
            study.bandwidth_s,
            "s",
            "the time on the same paths if no link had a delay",
            {"steps": float(study.steps)},
            "alpha–beta model on routed paths",
        ),
        Explanation(
            "engine time",
            study.time_s,
            "s",
            "max-min fair flows, event by event",
            {"events": float(study.result.events)},
            "flow engine",
        ),
    )
