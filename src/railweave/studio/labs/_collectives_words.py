"""Lab 7 in words: what the numbers mean, what reproduces them, and what they leave out."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from railweave.errors import InputError
from railweave.studio.content import learn
from railweave.studio.lab import Number, Reproduce
from railweave.studio.labs._collectives import (
    ALGORITHM_NAMES,
    BY_SERVER,
    Closed,
    Slow,
    State,
    Where,
    byte_rate,
    bytes_text,
    closed_numbers,
    describe,
    number,
    volume_numbers,
)
from railweave.studio.labs._collectives_curves import Curves, crossing_sentence
from railweave.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from railweave.engine.analytic import AnalyticResult
    from railweave.studio.labs._collectives_run import Run

__all__ = ["limits", "numbers", "reproduce", "slow_name", "sweep_words", "words"]

_NEAR = 0.005


def numbers(closed: Closed, run: Run | None, where: Where) -> tuple[Number, ...]:
    """Return the tiles; what the engine has not said yet is open."""
    engine_s = run.time_s if run else math.nan
    if where is Where.IDEAL:
        tiles = closed_numbers(closed, engine_s)
    else:
        tiles = _fabric_numbers(closed, run)
    if closed.inputs.slow is None:
        return tiles
    factor = run.time_s / run.healthy_s if run and run.healthy_s > 0 else math.nan
    healthy = run.healthy_s if run else math.nan
    return (
        *tiles,
        number("ideal_time", "Without the slow rank", format_seconds(healthy), healthy),
        number("slowdown", "Slowdown", f"{factor:.3g}×", factor),
    )


def _fabric_numbers(closed: Closed, run: Run | None) -> tuple[Number, ...]:
    outcome = run.outcome if run else None
    if outcome is None or run is None:
        return volume_numbers(closed.volume)
    return (
        *volume_numbers(closed.volume),
        number("engine_time", "Time, flow engine", format_seconds(run.time_s), run.time_s),
        number(
            "closed_form_time",
            "Time, closed form",
            format_seconds(outcome.analytic_s),
            outcome.analytic_s,
        ),
        number("algbw", "Algorithm bandwidth", byte_rate(outcome.algbw_Bps), outcome.algbw_Bps),
        number("busbw", "Bus bandwidth", byte_rate(outcome.busbw_Bps), outcome.busbw_Bps),
        *(
            number(key, label, f"{value:.1%}", value)
            for key, label, value in (
                ("share_server", "In the server", outcome.share_server),
                ("share_leaf", "Under a leaf", outcome.share_leaf),
                ("share_spine", "Over a spine", outcome.share_spine),
            )
        ),
    )


def words(closed: Closed, found: Curves | None, run: Run | None, where: Where) -> tuple[str, ...]:
    """Say what the numbers mean."""
    said = [_volume_words(closed, where)]
    if where is Where.IDEAL:
        said += _ideal_words(closed, found)
        if run is not None:
            said.append(_engine_words(closed, run))
    elif run is not None and run.outcome is not None:
        said += _fabric_words(run)
    if closed.inputs.slow is not None and run is not None:
        said.append(_slow_words(run))
    return tuple(said)


def _volume_words(closed: Closed, where: Where) -> str:
    volume = closed.volume
    steps = "1 round" if volume.steps == 1 else f"{volume.steps:,} rounds"
    most = closed.inputs.ranks * float(volume.bytes_sent_per_rank)
    even = math.isclose(most, float(volume.total_bytes), rel_tol=1e-9)
    who = "each GPU sends" if even else "the busiest GPU sends"
    return (
        f"{describe(closed.inputs, where)}: {steps}, {who} "
        f"{bytes_text(float(volume.bytes_sent_per_rank))}."
    )


def _ideal_words(closed: Closed, found: Curves | None) -> list[str]:
    result = closed.result
    over = result.time_s / result.lower_bound_s if result.lower_bound_s > 0 else math.inf
    share = closed.latency_share
    bound = (
        "It reaches the lower bound: no algorithm is faster on these links."
        if over < 1 + _NEAR
        else f"That is {over:.3g} times the lower bound of {format_seconds(result.lower_bound_s)}."
    )
    if closed.inputs.latency_s == 0:
        kind = "With no latency only bytes count."
    elif share > 0.5:
        kind = f"It is latency-bound: {share:.0%} of its time would be gone without latency."
    else:
        kind = f"It is bandwidth-bound: only {share:.1%} of its time would be gone without latency."
    said = [f"It takes {format_seconds(result.time_s)}. {bound} {kind}", _choice_words(closed)]
    if found is not None:
        said += [crossing_sentence(crossing) for crossing in found.crossings]
    return [text for text in said if text]


def _choice_words(closed: Closed) -> str:
    mine = closed.result
    rest = [other for other in closed.others if other.algorithm is not mine.algorithm]
    if not rest:
        return ""
    best = min(rest, key=lambda other: other.time_s)
    name, other = ALGORITHM_NAMES[mine.algorithm], ALGORITHM_NAMES[best.algorithm]
    if math.isclose(best.time_s, mine.time_s, rel_tol=1e-9):
        slower = [r for r in rest if r.time_s > mine.time_s * (1 + _NEAR)]
        return f"{other.capitalize()} is as fast here{_slower(mine, slower)}."
    if best.time_s < mine.time_s:
        return (
            f"{other.capitalize()} would be faster here: {format_seconds(best.time_s)}, "
            f"{mine.time_s / best.time_s:.3g} times as fast."
        )
    return f"{name.capitalize()} is the fastest here{_slower(mine, rest)}."


def _slower(mine: AnalyticResult, others: list[AnalyticResult]) -> str:
    return "".join(
        f"; {ALGORITHM_NAMES[o.algorithm]} would take {format_seconds(o.time_s)} "
        f"({o.time_s / mine.time_s:.3g}×)"
        for o in others
    )


def _engine_words(closed: Closed, run: Run) -> str:
    ratio = run.healthy_s / closed.result.time_s if closed.result.time_s > 0 else math.nan
    why = "it counts packet headers too, and links that messages share"
    return (
        f"The flow engine takes {format_seconds(run.healthy_s)} ({ratio - 1:+.1%} on the closed "
        f"form): {why}."
    )


def _fabric_words(run: Run) -> list[str]:
    outcome = run.outcome
    assert outcome is not None
    said = [
        f"On {run.fabric.name} it takes {format_seconds(outcome.time_s)} by the flow engine, "
        f"{format_seconds(outcome.analytic_s)} by the closed form over the same paths; its bus "
        f"bandwidth is {byte_rate(outcome.busbw_Bps)}."
    ]
    spine, inside = outcome.share_spine + outcome.share_core, outcome.share_server
    said.append(
        f"{inside:.0%} of the bytes stay in servers, {outcome.share_leaf:.0%} under a leaf, "
        f"{spine:.0%} cross spines."
    )
    share = run.latency_share
    kind = "latency-bound" if share > 0.5 else "bandwidth-bound"
    said.append(f"It is {kind} here: {share:.1%} of the closed form's time is latency.")
    ratio = outcome.time_s / outcome.analytic_s if outcome.analytic_s > 0 else 1.0
    if ratio > 1 + 4 * _NEAR:
        said.append(
            f"The engine is {ratio - 1:.0%} above the closed form: streams meet on links that the "
            "closed form gives to each task alone."
        )
    return said


def sweep_words(points: Sequence[Mapping[str, Any]]) -> str:
    """Say which algorithm is the fastest at the smallest, the middle and the largest size."""
    sizes = sorted({int(p["size"]) for p in points})
    said = []
    for size in dict.fromkeys((sizes[0], sizes[len(sizes) // 2], sizes[-1])) if sizes else ():
        here = sorted((float(p["time_s"]), p["algorithm"]) for p in points if p["size"] == size)
        (best, name), rest = here[0], here[1:]
        others = ", ".join(f"{other} {time / best:.2f}×" for time, other in rest)
        said.append(
            f"{format_bytes(size)}: {name} {format_seconds(best)}"
            + (f" ({others} as long)" if others else "")
        )
    return "Fastest at " + "; ".join(said) + "." if said else ""


def _slow_words(run: Run) -> str:
    slow = run.inputs.slow
    assert slow is not None
    factor = run.time_s / run.healthy_s if run.healthy_s > 0 else math.nan
    what = (
        f"its link at {slow.link_share:.0%} of its speed"
        if slow.link_share < 1
        else f"{format_seconds(slow.delay_s)} late with each message"
    )
    return (
        f"With GPU {slow.rank} slow ({what}) all {run.inputs.ranks:,} GPUs take "
        f"{format_seconds(run.time_s)} instead of {format_seconds(run.healthy_s)}, {factor:.3g} "
        "times as long: the others wait for what it has to pass on."
    )


# ---------------------------------------------------------------- outside the studio


def reproduce(state: State, closed: Closed, design_name: str) -> Reproduce:
    """Return the command and the Python that give the same numbers."""
    given = closed.inputs
    options = ["--ranks", str(given.ranks), "--size", state.size]
    options += ["--algorithm", given.algorithm.value]
    if state.where is Where.IDEAL:
        options += ["--bandwidth", state.bandwidth, "--latency", state.latency]
        if given.algorithm in BY_SERVER:
            options += ["--ranks-per-server", str(given.per_server)]
    else:
        options += ["--design", design_name, "--placement", state.placement.value]
    command = " ".join(["railweave", "collective", given.op.value, *map(shlex.quote, options)])
    if given.slow is not None:
        command += "\n# the slow rank: see the Python"
    python = _ideal_python(state, closed) if state.where is Where.IDEAL else _design_python(
        state, closed, design_name
    )  # fmt: skip
    return Reproduce(command, python)


def _enum(value: object) -> str:
    """Write an enum as Python reads it."""
    return f"{type(value).__name__}.{value.name}"  # type: ignore[attr-defined]


def _slow_python(closed: Closed) -> str:
    slow = closed.inputs.slow
    return (
        ""
        if slow is None
        else f"slow = SlowRank({slow.rank}, link_share={slow.link_share!r}, "
        f"delay_s={slow.delay_s!r})\n"
    )


def _ideal_python(state: State, closed: Closed) -> str:
    given = closed.inputs
    servers = f", ranks_per_server={given.per_server}" if given.per_server > 1 else ""
    slow = _slow_python(closed)
    applied = "fabric, traffic = slow.apply(fabric, traffic, network.comm)\n" if slow else ""
    return (
        "from railweave.design.models import Algorithm, Collective\n"
        "from railweave.engine import simulate\n"
        "from railweave.engine.analytic import collective_time\n"
        f"from railweave.engine.ideal import {'SlowRank, ' if slow else ''}ideal_network\n\n"
        f"op, algorithm = {_enum(given.op)}, {_enum(given.algorithm)}\n"
        f"ranks, size, bandwidth, latency = {given.ranks}, {given.size_bytes}, "
        f"{given.bandwidth_bps!r}, {given.latency_s!r}\n"
        "print(collective_time(op, algorithm, ranks, size, bandwidth, latency" + servers + "))\n\n"
        f"network = ideal_network(ranks, bandwidth, latency{servers})\n"
        "fabric, traffic = network.fabric, network.traffic(op, algorithm, size)\n"
        f"{slow}{applied}"
        "print(simulate(fabric, traffic, network.routing).makespan_s)\n"
    )


def _design_python(state: State, closed: Closed, design_name: str) -> str:
    given = closed.inputs
    arguments = (
        f"{_enum(given.op)}, {given.size_bytes}, ranks={given.ranks}, "
        f"algorithm={_enum(given.algorithm)}, placement={_enum(state.placement)}"
    )
    slow = _slow_python(closed)
    text = (
        "import railweave\n"
        "from railweave.design.models import Algorithm, Collective, PlacementName\n\n"
        f"built = railweave.load({design_name!r}).build()\n"
        f"print(built.collective({arguments}))\n"
    )
    if slow:
        text += (
            "\nfrom railweave.engine import simulate\n"
            "from railweave.engine.ideal import SlowRank\n"
            "from railweave.workload import Communicator\n\n"
            f"only = built.with_collective({arguments})\n"
            "work = only.workload()\n"
            "comm = Communicator.from_fabric(only.fabric, work.jobs[0].nodes)\n"
            f"{slow}"
            "fabric, traffic = slow.apply(only.fabric, work.traffic, comm)\n"
            "print(simulate(fabric, traffic, only.routing().on(fabric)).makespan_s)\n"
        )
    return text


def limits(closed: Closed, run: Run | None) -> tuple[str, ...]:
    """Return what the results leave out."""
    try:
        said = list(learn("collectives").limits)
    except InputError:
        said = []
    said += [f"{a.subject}: {a.statement}" for a in closed.result.assumptions]
    if run is not None:
        said += [f"{a.subject} (flow engine): {a.statement}" for a in run.assumptions]
        if run.schedule is not None:
            said += [f"Drawing: {note}" for note in run.schedule.notes]
    return tuple(dict.fromkeys(said))


def slow_name(slow: Slow) -> str:
    """Name what is slow."""
    return {Slow.NONE: "none", Slow.LINK: "slow link", Slow.DELAY: "late with each message"}[slow]
