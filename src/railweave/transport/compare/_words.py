"""The recommendation in words: why this one, what it costs, what to benchmark first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from railweave.design.models import Collective
from railweave.transport.compare._technologies import Technology, technology_facts
from railweave.transport.compare._types import (
    Exclusion,
    Flip,
    Measurements,
    Score,
    Term,
)
from railweave.units import format_bytes, format_seconds
from railweave.workload import bus_factor

__all__ = ["benchmarks_for", "flip_text", "reasons_for"]

_MOST_REASONS: Final = 3
#: a share of the total below which an advantage is not worth a sentence
_SMALL: Final = 0.002
_LESS: Final = 2
#: the programs of nccl-tests
_TESTS: Final = {
    "all-reduce": "all_reduce_perf",
    "all-gather": "all_gather_perf",
    "reduce-scatter": "reduce_scatter_perf",
    "broadcast": "broadcast_perf",
    "reduce": "reduce_perf",
    "all-to-all": "alltoall_perf",
    "send-recv": "sendrecv_perf",
}


def reasons_for(  # noqa: PLR0917 - the parts of a comparison in their order
    ranking: tuple[Technology, ...],
    scores: Mapping[Technology, tuple[Score, ...]],
    totals: Mapping[Technology, float],
    weights: tuple[Term, ...],
    flips: tuple[Flip, ...],
    excluded: tuple[Exclusion, ...],
) -> tuple[str, ...]:
    """Return the sentences of the recommendation, the answer first."""
    if not ranking:
        return (
            "None of the four meets every requirement: "
            + "; ".join(f"{one.technology.label}: {one.reason}" for one in excluded)
            + ".",
            "Give up one of the requirements, or split the traffic over planes of different kinds.",
        )
    best = ranking[0]
    said = []
    if len(ranking) == 1:
        said.append(f"{best.label}: the only one that meets every requirement.")
    else:
        second = ranking[1]
        said.append(
            f"{best.label} with {totals[best]:.3f}, before {second.label} with "
            f"{totals[second]:.3f}."
        )
        said += _differences(best, second, scores, weights)
        said += _nearest_flip(flips)
    said += [f"{one.technology.label} is out: {one.reason}." for one in excluded]
    return tuple(said)


def _differences(
    best: Technology,
    second: Technology,
    scores: Mapping[Technology, tuple[Score, ...]],
    weights: tuple[Term, ...],
) -> list[str]:
    """Say where the best gains most on the second, and where it gives away most."""
    whole = sum(term.weight for term in weights) or 1.0
    gains = []
    for at, term in enumerate(weights):
        mine, other = scores[best][at], scores[second][at]
        gains.append((term.weight * (mine.value - other.value) / whole, term, mine, other))
    gains.sort(key=lambda gain: -gain[0])
    said = []
    for gain, term, mine, other in gains[:_MOST_REASONS]:
        if gain > _SMALL:
            said.append(
                f"It gains {gain:.3f} on {_title(term.criterion)}: {mine.value:.2f} "
                f"[{mine.arithmetic}] against {other.value:.2f} [{other.arithmetic}], "
                f"weight {term.weight:g}."
            )
    for gain, term, mine, other in reversed(gains[-_LESS:]):
        if gain < -_SMALL:
            said.append(
                f"It gives away {-gain:.3f} on {_title(term.criterion)}: {mine.value:.2f} against "
                f"{other.value:.2f}, weight {term.weight:g}."
            )
    return said


def _title(key: str) -> str:
    title = technology_facts().criteria[key].title
    return title[0].lower() + title[1:]


def _nearest_flip(flips: tuple[Flip, ...]) -> list[str]:
    able = [flip for flip in flips if flip.within]
    if not able:
        return ["No single weight between 0 and 10 changes the answer."]
    nearest = min(able, key=lambda flip: abs(flip.at - flip.now))
    return [f"The answer is nearest to turning here: {flip_text(nearest)}."]


def flip_text(flip: Flip) -> str:
    """Say where one weight turns the answer."""
    way = "above" if flip.at >= flip.now else "below"
    return (
        f"{_title(flip.criterion)} {way} {flip.at:.3g} (now {flip.now:g}) makes it {flip.to.label}"
    )


# ---------------------------------------------------------------- benchmarks


def benchmarks_for(
    ranking: tuple[Technology, ...],
    found: Measurements,
    weights: tuple[Term, ...],
    flips: tuple[Flip, ...],
) -> tuple[str, ...]:
    """Return what to measure before ordering, the most telling first.

    What decides nearest to where the answer turns comes first, then by weight.
    """
    if not ranking:
        return ()
    tests = {
        "bandwidth": _collective_test,
        "latency": _latency_test,
        "congestion": _congestion_test,
        "resilience": _fault_test,
        "cpu": _cpu_test,
    }
    near = {
        key: min((abs(f.at - f.now) for f in flips if f.criterion == key and f.within), default=1e9)
        for key in tests
    }
    weight = {term.criterion: term.weight for term in weights}
    order = sorted(tests, key=lambda key: (near[key] / max(weight[key], 1e-9), -weight[key]))
    said = [tests[key](ranking[0], found) for key in order if weight[key] > 0]
    return (
        *said,
        "Last, and decisive: the job itself on two or more servers of each candidate, step time "
        "beside the collectives' time.",
    )


def _collective_test(technology: Technology, found: Measurements) -> str:
    own = found.measured[technology].large[0]
    rate = own.size_bytes / own.time_s * bus_factor(Collective(own.operation), found.ranks)
    model = found.measured[technology].library_busbw_Bps
    also = f"; the fitted library model says {model / 1e9:.0f} GB/s" if model else ""
    return (
        f"{_TESTS[own.operation]} at {format_bytes(own.size_bytes)} over {found.ranks:,} GPUs: "
        f"{format_seconds(own.time_s)} by the engine, busbw {rate / 1e9:.0f} GB/s at most{also}."
    )


def _latency_test(technology: Technology, found: Measurements) -> str:
    own = found.measured[technology]
    tool = "sockperf ping-pong" if technology is Technology.TCP else "ib_write_lat"
    return (
        f"{tool} with 8 B between servers under different leaves: about "
        f"{format_seconds(own.message_s)} one way, of which the network is "
        f"{format_seconds(own.message_network_s)}."
    )


def _congestion_test(technology: Technology, found: Measurements) -> str:
    own = found.measured[technology]
    counters = {
        Technology.TCP: "retransmissions and drops",
        Technology.ROCEV2: "ECN marks, CNPs and pauses",
        Technology.INFINIBAND: "PortXmitWait",
        Technology.ADAPTIVE: "ECN marks, trims and reordering",
    }[technology]
    return (
        f"A permutation of {found.flows} pairs out of one leaf, and an incast, with "
        f"{counters} beside it: {own.permutation_ratio:.2f} and {own.incast_ratio:.2f} times the "
        f"ideal time, a bystander {own.bystander_ratio:.2f} times its own."
    )


def _fault_test(technology: Technology, found: Measurements) -> str:
    own = found.measured[technology]
    lossy = f"a lossy cable leaves {100 * own.loss_share:.0f} % of its speed"
    if own.failed_share is None:
        return f"A cable that loses packets, on purpose: {lossy}."
    return (
        f"The uplink {found.failed} pulled under load, and timed: "
        f"{100 * own.failed_share:.0f} % of the speed remains; {lossy}."
    )


def _cpu_test(technology: Technology, found: Measurements) -> str:
    own = found.measured[technology]
    return (
        f"Processor load while the collectives run: {own.cores_needed:.3g} of {found.cores} cores "
        "at the NICs' full rate, by stated cycles a byte."
    )
