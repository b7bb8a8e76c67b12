"""Lesson of the traffic lab: link speed alone does not say which parallel strategy costs most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from railweave.design.models import PlacementName
from railweave.engine.flow import simulate_flow
from railweave.experiments._bench import series
from railweave.experiments._model import Chart, Experiment, Outcome
from railweave.workload.patterns import (
    PatternCase,
    Strategy,
    pattern_network,
    pattern_ranks,
    pattern_traffic,
)

__all__ = ["STRATEGIES", "strategies"]

_GRADIENTS: Final = 256_000_000
_LATENCY_S: Final = 10e-6
#: of the strategy held against data parallelism: exchanges a step, and what they are of its payload
_EXCHANGES: Final = {Strategy.TENSOR: 16, Strategy.EXPERT: 8}
_PART: Final = {Strategy.TENSOR: 32, Strategy.EXPERT: 16}


@dataclass(frozen=True, slots=True)
class _State:
    """One setting: the time of a strategy and of data parallelism, in s."""

    strategy_s: float
    data_s: float

    @property
    def ratio(self) -> float:
        return self.strategy_s / self.data_s


def _time_s(strategy: Strategy, payload_bytes: int, **more: Any) -> float:  # noqa: ANN401
    """Return what one step's exchanges of four GPUs take; ``more`` are fields of the case."""
    latency_s = more.pop("latency_s", _LATENCY_S)
    case = PatternCase(strategy, 4, payload_bytes, latency_s=latency_s, **more)
    network = pattern_network(case)
    traffic = pattern_traffic(case, pattern_ranks(case, network.fabric))
    return simulate_flow(network.fabric, traffic, network.routing).makespan_s


def _held(strategy: Strategy, gradients: int, latency_s: float) -> _State:
    """Hold a strategy of several smaller exchanges against one all-reduce of the gradients."""
    part = max(1, gradients // _PART[strategy])
    return _State(
        _time_s(strategy, part, exchanges=_EXCHANGES[strategy], latency_s=latency_s),
        _time_s(Strategy.DATA, gradients, latency_s=latency_s),
    )


def _pipelined(micro_batches: int) -> _State:
    """Return a pipeline that hands on half as many bytes as there are gradients."""
    payload = _GRADIENTS // 2 // micro_batches
    return _State(
        _time_s(Strategy.PIPELINE, payload, exchanges=micro_batches),
        _time_s(Strategy.DATA, _GRADIENTS),
    )


def _placed(tensor: PlacementName, data: PlacementName) -> _State:
    """Return tensor and data exchanges of as many bytes on four servers of four GPUs."""
    count = _EXCHANGES[Strategy.TENSOR]
    hosts = {"gpus_per_server": 4, "servers": 4}
    return _State(
        _time_s(Strategy.TENSOR, _GRADIENTS // count, exchanges=count, placement=tensor, **hosts),
        _time_s(Strategy.DATA, _GRADIENTS, placement=data, **hosts),
    )


def strategies(
    micro_batches: tuple[int, int] = (1, 64),
    gradients_bytes: tuple[int, int] = (256_000, _GRADIENTS),
    latencies_s: tuple[float, float] = (1e-6, 50e-6),
    placements: tuple[PlacementName, PlacementName] = (
        PlacementName.PACKED,
        PlacementName.SPREAD,
    ),
) -> Outcome:
    """Change one thing at a time and see whether a strategy and data parallelism change places.

    Args:
        micro_batches: messages into which a pipeline's bytes are cut.
        gradients_bytes: size of the gradients; the exchanges of tensor parallelism go with it.
        latencies_s: of a message, with gradients of 2.56 MB.
        placements: of the tensor group; the data group has the other one.
    """
    first, second = placements
    cases = {
        "message_count": (Strategy.PIPELINE, [_pipelined(count) for count in micro_batches]),
        "size": (
            Strategy.TENSOR,
            [_held(Strategy.TENSOR, size, _LATENCY_S) for size in gradients_bytes],
        ),
        "latency": (
            Strategy.EXPERT,
            [_held(Strategy.EXPERT, _GRADIENTS // 100, latency) for latency in latencies_s],
        ),
        "placement": (Strategy.TENSOR, [_placed(first, second), _placed(second, first)]),
    }
    values: dict[str, float] = {}
    bars: dict[str, tuple[list[str], list[float]]] = {"first": ([], []), "second": ([], [])}
    for case, (strategy, states) in cases.items():
        for state, held in zip(bars, states, strict=True):
            values[f"{case}_{state}_{strategy.value}_s"] = held.strategy_s
            values[f"{case}_{state}_data_s"] = held.data_s
            bars[state][0].append(f"{case.replace('_', ' ')}, {strategy.value}")
            bars[state][1].append(held.ratio)
    ratios = {case: [held.ratio for held in states] for case, (_, states) in cases.items()}
    turned = [case for case, pair in ratios.items() if min(pair) < 0.9 and max(pair) > 1.1]
    values["cases"], values["cases_reordered"] = float(len(cases)), float(len(turned))
    chart = Chart(
        "against-data",
        series((f"{state} setting", x, y) for state, (x, y) in bars.items()),
        "",
        "time / time of data parallelism",
        kind="bar",
        log_y=True,
    )
    names = {case: strategy.value for case, (strategy, _) in cases.items()}
    return Outcome(values, (chart,), len(turned) == len(cases), _reading(names, ratios, turned))


def _reading(names: Mapping[str, str], ratios: Mapping[str, list[float]], turned: list[str]) -> str:
    said = [
        f"{case.replace('_', ' ')} ({names[case]}) {before:.2g}, then {after:.2g}"
        for case, (before, after) in ratios.items()
    ]
    return (
        f"All network links have 100 Gb/s, and {len(turned)} of {len(said)} changes make two "
        f"strategies change places. Time against data parallelism: {'; '.join(said)}."
    )


STRATEGIES: Final = Experiment(
    "lesson-strategies",
    "At one link speed, four ways to reorder the strategies",
    "Message count, size, latency and placement each turn whether a strategy takes longer than "
    "data parallelism, with every network link at 100 Gb/s.",
    {
        "network": "4 GPUs, 100 Gb/s and 10 µs a message; no headers",
        "data": "one ring all-reduce of the gradients, 256 MB where nothing else is said",
        "message count": "pipeline: 128 MB of activations in 1, then in 64 micro-batches",
        "size": "tensor: 16 exchanges of 1/32 of the gradients; gradients of 256 kB, then 256 MB",
        "latency": "expert: 8 exchanges of 1/16 of the gradients, 2.56 MB; 1 µs, then 50 µs",
        "placement": "4 servers of 4 GPUs, NVLink of 3.6 Tb/s; tensor (16 exchanges of 16 MB) in a "
        "server and data across, then the other way round",
        "engine": "flow",
    },
    strategies,
)
