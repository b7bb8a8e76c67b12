"""Runs of a pattern: what is simulated of a step, and how the step's time follows from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Algorithm
from railweave.engine.analytic import simulate_split
from railweave.engine.flow import EXACT_MESSAGES, simulate_flow
from railweave.engine.result import Result
from railweave.fabric import Fabric
from railweave.fabric.routing import RoutingSet
from railweave.provenance import Assumption
from railweave.workload import Communicator, Traffic
from railweave.workload.patterns import PatternCase, Strategy, pattern_traffic

__all__ = ["PatternRun", "run_pattern"]

I64 = npt.NDArray[np.int64]

#: messages of an exchange up to which each is simulated and traced on its own
_TRACED: Final = 1_000
#: messages up to which coupled tasks are exact, of small patterns (sliders) and of large ones
_EXACT, _EXACT_LARGE, _SMALL = 20_000, 60_000, 64
#: fewest rounds of a pipelined task that is not simulated to its end
_FEWEST_ROUNDS, _FEWEST_ROUNDS_LARGE = 8, 32
#: messages of a direct all-to-all up to which each travels on its own
_DIRECT: Final = 30_000


@dataclass(frozen=True, eq=False)
class PatternRun:
    """What the engines said.

    ``result`` is of the flow engine; ``traced`` tells that it has every message of the first
    exchange (of all in a pipeline) as a task, with ``stream`` and ``chunk`` of each in ``traffic``.
    ``blocks`` are those by which messages travelled together, None where each is its own. Times
    are of a whole step.
    """

    traffic: Traffic
    result: Result
    time_s: float
    analytic_s: float
    bandwidth_s: float
    repeats: int
    traced: bool
    stream: I64
    chunk: I64
    blocks: I64 | None
    assumptions: tuple[Assumption, ...]


def run_pattern(
    case: PatternCase,
    comm: Communicator,
    fabric: Fabric,
    routing: RoutingSet,
    blocks: I64 | None,
) -> PatternRun:
    """Simulate one exchange, or all that overlap, and take it as often as a step has it.

    ``blocks`` are ranks whose messages may travel together where there are very many.

    Raises:
        InputError: an algorithm that cannot do the placement.
        EngineError: ranks without a way to each other.
    """
    overlaps = case.strategy is Strategy.PIPELINE
    direct = case.chosen_algorithm is Algorithm.DIRECT and case.gpus**2 > _DIRECT
    used = blocks if direct else None
    traffic = pattern_traffic(case, comm, exchanges=None if overlaps else 1, blocks=used)
    repeats = 1 if overlaps else case.exchanges
    notes = []
    if repeats > 1:
        notes.append(
            Assumption(
                "exchanges", "each begins when the one before is over on all GPUs; one is simulated"
            )
        )
    if used is not None:
        notes.append(
            Assumption(
                "messages",
                "what a GPU has for the GPUs of another server (where servers have one GPU: leaf) "
                "is simulated as one message, to one of them in turn",
            )
        )
    split, bandwidth_s = simulate_split(fabric, traffic, routing)
    rounds = traffic.task_rounds[traffic.stream_task].astype(np.int64)
    if int(rounds.sum()) <= _TRACED:
        result = simulate_flow(fabric, traffic.expand(), routing)
        time_s, traced = result.makespan_s, True
        stream = np.repeat(np.arange(traffic.n_streams), rounds)
        chunk = np.arange(len(stream)) - np.repeat(np.cumsum(rounds) - rounds, rounds)
    else:
        time_s, result, more = _long_run(case, fabric, traffic, routing)
        notes += more
        traced, stream = False, np.arange(traffic.n_streams)
        chunk = np.zeros_like(stream)
    return PatternRun(
        traffic,
        result,
        time_s * repeats,
        split.makespan_s * repeats,
        bandwidth_s * repeats,
        repeats,
        traced,
        stream,
        chunk,
        used,
        tuple(dict.fromkeys((*notes, *result.assumptions))),
    )


def _long_run(
    case: PatternCase, fabric: Fabric, traffic: Traffic, routing: RoutingSet
) -> tuple[float, Result, list[Assumption]]:
    """Simulate very many messages; a long pipeline only until it is in its stride."""
    small = case.gpus <= _SMALL
    budget = _EXACT if small else _EXACT_LARGE
    rounds = int(traffic.task_rounds.max(initial=1))
    most = max(
        _FEWEST_ROUNDS if small else _FEWEST_ROUNDS_LARGE, budget // max(traffic.n_streams, 1)
    )
    pipelined = bool(traffic.pred_lag.size) and not bool((traffic.pred_lag > 0).any())
    if not pipelined or rounds <= most:
        # trees must not share links by their average rates: they come in bursts
        exact = EXACT_MESSAGES if pipelined else budget
        result = simulate_flow(fabric, traffic, routing, exact_messages=exact)
        return result.makespan_s, result, []
    half = most // 2
    before = simulate_flow(fabric, _cut(traffic, half), routing)
    result = simulate_flow(fabric, _cut(traffic, most), routing)
    pace_s = (result.makespan_s - before.makespan_s) / (most - half)
    note = Assumption(
        "pipeline",
        f"{most} of {rounds:,} rounds are simulated; the others are taken to follow at the pace of "
        f"rounds {half + 1} to {most} (measured: within 2 % up to 64 GPUs, 5 % beyond)",
    )
    return result.makespan_s + (rounds - most) * pace_s, result, [note]


def _cut(traffic: Traffic, rounds: int) -> Traffic:
    """Return the traffic with no more than so many rounds of each task."""
    short = np.minimum(traffic.task_rounds, rounds).astype(np.int32)
    return replace(traffic, task_rounds=short)
