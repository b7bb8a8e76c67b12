"""Lab 7 without a browser: its inputs, and what the closed forms say about them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from railweave.design.models import ALGORITHMS, Algorithm, Collective, PlacementName
from railweave.engine.analytic import AnalyticResult, collective_time
from railweave.engine.ideal import SlowRank
from railweave.errors import InputError
from railweave.studio.lab import Number
from railweave.units import (
    format_bits_rate,
    format_bytes,
    format_seconds,
    format_si,
    parse_bps,
    parse_bytes,
    parse_seconds,
)
from railweave.workload import CollectiveVolume, collective_volume, require_algorithm

__all__ = [
    "ALGORITHM_NAMES",
    "BY_SERVER",
    "MOST_RANKS",
    "OPERATION_NAMES",
    "PIECES",
    "Closed",
    "Drawing",
    "Inputs",
    "Slow",
    "State",
    "Where",
    "bytes_text",
    "closed_numbers",
    "describe",
    "of_points",
    "read",
    "study",
    "try_algorithms",
    "undrawn",
]

#: ranks of the lab, on the ideal network
MOST_RANKS: Final = 1024
#: pieces that trees and chains are drawn with; the engine cuts into 512 KiB
PIECES: Final = 4
#: what works by server
BY_SERVER: Final = (Algorithm.HIERARCHICAL, Algorithm.RAIL_ALIGNED)

OPERATION_NAMES: Final[dict[Collective, str]] = {
    Collective.ALL_REDUCE: "AllReduce",
    Collective.ALL_GATHER: "AllGather",
    Collective.REDUCE_SCATTER: "ReduceScatter",
    Collective.BROADCAST: "Broadcast",
    Collective.REDUCE: "Reduce",
    Collective.ALL_TO_ALL: "AllToAll",
    Collective.SEND_RECV: "Send and receive",
}
ALGORITHM_NAMES: Final[dict[Algorithm, str]] = {
    Algorithm.RING: "ring",
    Algorithm.TREE: "tree",
    Algorithm.HALVING_DOUBLING: "halving-doubling",
    Algorithm.HIERARCHICAL: "hierarchical",
    Algorithm.DIRECT: "direct",
    Algorithm.RAIL_ALIGNED: "rail-aligned",
}


class Where(StrEnum):
    """What network the collective runs on."""

    IDEAL = "ideal"
    DESIGN = "design"


class Slow(StrEnum):
    """What is wrong with the slow rank."""

    NONE = "none"
    LINK = "link"
    DELAY = "delay"


class Drawing(StrEnum):
    """Which drawing the chunks move on."""

    LOGICAL = "logical"
    FABRIC = "fabric"


@dataclass(frozen=True, slots=True)
class State:
    """The lab's inputs, as they stand in the page's address."""

    operation: Collective = Collective.ALL_REDUCE
    algorithm: Algorithm | None = None
    ranks: int = 4
    size: str = "256 MB"
    bandwidth: str = "100 Gb/s"
    latency: str = "0 s"
    per_server: int = 1
    where: Where = Where.IDEAL
    placement: PlacementName = PlacementName.PACKED
    slow: Slow = Slow.NONE
    slow_rank: int = 1
    slow_link: int = 50
    slow_delay: str = "100 us"
    drawing: Drawing = Drawing.LOGICAL
    servers: str = ""  #: of NCCL's choice: a server of the catalog; "": the visitor's own design
    network: str = ""  #: between those servers; "": the usual one
    sharp: bool = False


def undrawn(state: State) -> State:
    """Return the state without what no number of the drawn collective depends on."""
    return replace(state, drawing=Drawing.LOGICAL, servers="", network="", sharp=False)


def of_points(state: State) -> State:
    """Return the state without what the curves' points do not depend on."""
    return replace(undrawn(state), slow=Slow.NONE)


@dataclass(frozen=True, slots=True)
class Inputs:
    """The state as plain SI numbers; ``algorithm`` is the operation's default where none is named.

    ``size_text`` is the size as it was written. ``per_server`` is 1 for algorithms that do not
    work by server.
    """

    op: Collective
    algorithm: Algorithm
    ranks: int
    size_bytes: int
    bandwidth_bps: float
    latency_s: float
    per_server: int
    slow: SlowRank | None
    size_text: str = ""

    @property
    def name(self) -> str:
        """What runs, in words."""
        return f"{OPERATION_NAMES[self.op]} by {ALGORITHM_NAMES[self.algorithm]}"


def read(state: State) -> Inputs:
    """Read a state.

    Raises:
        InputError: a value that cannot be; says which, and what is allowed.
    """
    algorithm = require_algorithm(state.operation, state.algorithm)
    if not 2 <= state.ranks <= MOST_RANKS:
        raise InputError(f"ranks: {state.ranks} is not allowed; give 2 to {MOST_RANKS:,}")
    size_bytes = parse_bytes(state.size)
    if not 1 <= size_bytes <= 1 << 40:
        raise InputError(f"size: {state.size} is not allowed; give 1 B to 1 TiB")
    bandwidth_bps, latency_s = parse_bps(state.bandwidth), parse_seconds(state.latency)
    if not bandwidth_bps > 0:
        raise InputError(f"bandwidth: {state.bandwidth} is not allowed; give more than 0")
    if not 0 <= latency_s <= 1:
        raise InputError(f"latency: {state.latency} is not allowed; give 0 s to 1 s")
    by_server = algorithm in BY_SERVER and state.where is Where.IDEAL
    return Inputs(
        state.operation,
        algorithm,
        state.ranks,
        size_bytes,
        bandwidth_bps,
        latency_s,
        state.per_server if by_server else 1,
        _slow_rank(state),
        state.size.strip(),
    )


def _slow_rank(state: State) -> SlowRank | None:
    if state.slow is Slow.NONE:
        return None
    if not 0 <= state.slow_rank < state.ranks:
        raise InputError(
            f"slow rank: {state.slow_rank} is no rank; allowed: 0 to {state.ranks - 1}"
        )
    if state.slow is Slow.LINK:
        return SlowRank(state.slow_rank, link_share=state.slow_link / 100)
    return SlowRank(state.slow_rank, delay_s=parse_seconds(state.slow_delay))


@dataclass(frozen=True)
class Closed:
    """What the closed forms say.

    ``others`` are the results of every algorithm that can do the operation here, this one
    included; ``latency_free_s`` the time without latency, which tells how much of it is latency.
    """

    inputs: Inputs
    result: AnalyticResult
    volume: CollectiveVolume
    others: tuple[AnalyticResult, ...]
    latency_free_s: float

    @property
    def latency_share(self) -> float:
        """The part of the time that would be gone without latency."""
        time_s = self.result.time_s
        return 1 - self.latency_free_s / time_s if time_s > 0 else 0.0


def time_of(
    given: Inputs, *, algorithm: Algorithm | None = None, size_bytes: int | None = None,
    ranks: int | None = None, latency_s: float | None = None,
) -> AnalyticResult:  # fmt: skip
    """Return the closed form's result for these inputs, some of them replaced."""
    chosen = algorithm or given.algorithm
    return collective_time(
        given.op,
        chosen,
        given.ranks if ranks is None else ranks,
        given.size_bytes if size_bytes is None else size_bytes,
        given.bandwidth_bps,
        given.latency_s if latency_s is None else latency_s,
        ranks_per_server=given.per_server if chosen in BY_SERVER else 1,
    )


def try_algorithms(op: Collective, per_server: int) -> tuple[Algorithm, ...]:
    """Return the algorithms to compare; those that work by server only where there are servers."""
    able = ALGORITHMS[op]
    return tuple(a for a in able if a not in BY_SERVER or per_server > 1)


def study(state: State) -> Closed:
    """Return what the closed forms say about a state.

    Raises:
        InputError: a value that cannot be.
    """
    given = read(state)
    result = time_of(given)
    others = [a for a in try_algorithms(given.op, given.per_server) if a is not given.algorithm]
    return Closed(
        given,
        result,
        collective_volume(
            given.op,
            given.algorithm,
            given.ranks,
            given.size_bytes,
            ranks_per_server=given.per_server,
        ),
        (result, *(time_of(given, algorithm=other) for other in others)),
        time_of(given, latency_s=0.0).time_s,
    )


def number(key: str, label: str, text: str, value: float) -> Number:
    """Return a quantity; NaN where it is not known (yet)."""
    return Number(key, label, text if not math.isnan(value) else "…", value)


def byte_rate(value: float) -> str:
    """Write byte/s with a decimal prefix, as nccl-tests' GB/s."""
    return format_si(value, "B/s")


def bytes_text(value: float) -> str:
    """Write bytes with a binary prefix where that gives a whole number, else a decimal one."""
    text = format_bytes(value)
    return format_si(value, "B") if "i" in text and "." in text else text


def volume_numbers(volume: CollectiveVolume) -> tuple[Number, ...]:
    """Return the tiles of what is sent."""
    sent, total = float(volume.bytes_sent_per_rank), float(volume.total_bytes)
    return (
        number("rounds", "Rounds", f"{volume.steps:,}", float(volume.steps)),
        number("bytes_per_gpu", "Bytes a GPU", bytes_text(sent), sent),
        number("total_volume", "Total volume", bytes_text(total), total),
    )


def closed_numbers(closed: Closed, engine_s: float = math.nan) -> tuple[Number, ...]:
    """Return the tiles of the ideal network; the engine's is open until it is known."""
    result = closed.result
    return (
        *volume_numbers(closed.volume),
        number(
            "closed_form_time",
            "Time, closed form",
            format_seconds(result.time_s),
            result.time_s,
        ),
        number("engine_time", "Time, flow engine", format_seconds(engine_s), engine_s),
        number(
            "lower_bound", "Lower bound", format_seconds(result.lower_bound_s), result.lower_bound_s
        ),
        number("algbw", "Algorithm bandwidth", byte_rate(result.algbw_Bps), result.algbw_Bps),
        number("busbw", "Bus bandwidth", byte_rate(result.busbw_Bps), result.busbw_Bps),
    )


def describe(given: Inputs, where: Where) -> str:
    """Say what runs; on a design, the speed of links is the design's."""
    what = f"{given.name} of {given.size_text} over {given.ranks:,} GPUs"
    return what if where is Where.DESIGN else f"{what} at {format_bits_rate(given.bandwidth_bps)}"
