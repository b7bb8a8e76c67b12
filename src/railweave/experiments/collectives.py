"""What congestion control and slow messages do to whole collectives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from railweave.design.models import Collective, RoutingScheme, RoutingSpec
from railweave.engine.faults import Fault, LinkSlow
from railweave.engine.packet import PacketResult
from railweave.experiments._bench import (
    F64,
    GBPS,
    congestion,
    leaf_spine,
    messages,
    percent,
    ranks_of,
    record_of,
    routed,
    run,
    series,
)
from railweave.experiments._model import Chart, Experiment, Outcome
from railweave.fabric.names import port_name
from railweave.workload import Traffic, TrafficBuilder
from railweave.workload.collectives import collective_traffic

__all__ = ["EXPERIMENTS"]

_SPEED: Final = 400 * GBPS
_LEAVES, _HOSTS, _SPINES = 4, 6, 4
_BYTES: Final = 64e6
_STORAGE: Final = 23
_WRITERS: Final = (4, 5, 10, 11, 16)
_WRITTEN: Final = 60e6
#: neighbours in rank order stand under different leaves, so that rings cross the spines
_RANKS: Final = [leaf * _HOSTS + k for k in range(4) for leaf in range(_LEAVES)]
_OPS: Final = {"allreduce": Collective.ALL_REDUCE, "alltoall": Collective.ALL_TO_ALL}
_OP_NAME: Final = {"allreduce": "AllReduce", "alltoall": "AlltoAll"}
_RULES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "dcqcn": ("DCQCN", {"scheme": "pfc+dcqcn", "profile": "dcqcn-firmware"}),
    "pfc": ("PFC only", {"scheme": "pfc"}),
    "cts": ("PFC, clear-to-send", {"scheme": "pfc+receiver-driven"}),
}


def _traffic(op: Collective, incast: bool) -> Traffic:
    """Return the collective, and beside it five writers to one storage host."""
    builder = TrafficBuilder()
    builder.merge(collective_traffic(op, ranks_of(_RANKS), _BYTES, label="collective"))
    if incast:
        builder.merge(messages([(h, _STORAGE) for h in _WRITERS], _WRITTEN), prefix="write ")
    return builder.build()


def _run(
    op: Collective,
    scheme: RoutingScheme,
    rules: Mapping[str, Any],
    *,
    incast: bool = False,
    slow: bool = False,
) -> PacketResult:
    fabric = leaf_spine(_LEAVES, _HOSTS, _SPINES, _SPEED, _SPEED)
    # adaptive routing reorders: adapters repeat selectively and take nothing overtaken for lost
    apart = scheme is RoutingScheme.ADAPTIVE
    spec = {"selective_repeat": True, "reorder_packets": 4096} if apart else {}
    faults: tuple[Fault, ...] = (LinkSlow(port_name(fabric, 0), 0.5),) if slow else ()
    return run(
        fabric,
        _traffic(op, incast),
        routed(fabric, RoutingSpec(scheme=scheme)),
        congestion(**rules, **spec),
        faults=faults,
    )


def _collective_s(result: PacketResult) -> float:
    """Return when the collective was over on every rank."""
    mine = np.array([text == "collective" for text in result.traffic.labels])
    return float(result.task_finish_s[mine[result.traffic.task_label]].max())


def _durations(result: PacketResult) -> F64:
    """Return how long each of the collective's messages took, in s."""
    frame = result.messages()
    took: F64 = frame.filter(frame["label"] == "collective")["duration_s"].to_numpy()
    return took


# ---------------------------------------------------------------- DCQCN on or off

_PLACES: Final = (
    ("adaptive", RoutingScheme.ADAPTIVE, False, "adaptive"),
    ("ecmp", RoutingScheme.ECMP, False, "ECMP"),
    ("incast", RoutingScheme.ADAPTIVE, True, "beside an incast"),
)


def _schemes() -> Outcome:
    values: dict[str, float] = {}
    rows: dict[str, tuple[list[str], list[float]]] = {key: ([], []) for key in _RULES}
    for name, op in _OPS.items():
        for place, routing, incast, title in _PLACES:
            for key, (_, rules) in _RULES.items():
                result = _run(op, routing, rules, incast=incast)
                time = _collective_s(result)
                at = f"{name}_{place}_{key}"
                values |= {
                    f"{at}_s": time,
                    f"{at}_p99_message_s": float(np.percentile(_durations(result), 99)),
                    f"{at}_pauses": len(record_of(result).pause_intervals["link"]),
                    f"{at}_cnps": float(record_of(result).flow_counters["cnp_handled"].sum()),
                }
                rows[key][0].append(f"{_OP_NAME[name]}, {title}")
                rows[key][1].append(time * 1e3)
    chart = Chart(
        "times",
        series((_RULES[key][0], x, y) for key, (x, y) in rows.items()),
        "",
        "time of the collective [ms]",
        kind="bar",
    )
    good = all(
        max(values[f"{op}_ecmp_pfc_s"], values[f"{op}_ecmp_cts_s"])
        < 0.95 * values[f"{op}_ecmp_dcqcn_s"]
        and values[f"{op}_incast_cts_s"] < 0.95 * values[f"{op}_incast_dcqcn_s"]
        and values[f"{op}_incast_pfc_s"] > 1.05 * values[f"{op}_incast_dcqcn_s"]
        for op in _OPS
    )
    return Outcome(values, (chart,), good, _verdict(values))


def _verdict(values: Mapping[str, float]) -> str:
    """Say case by case how DCQCN compares with the better of the other two."""
    said = []
    for op in _OPS:
        for place, _, _, title in _PLACES:
            base = values[f"{op}_{place}_dcqcn_s"]
            off = {k: values[f"{op}_{place}_{k}_s"] / base - 1 for k in ("pfc", "cts")}
            said.append(
                f"{_OP_NAME[op]}, {title}: PFC only {percent(off['pfc'], sign=True)}, "
                f"clear-to-send {percent(off['cts'], sign=True)}"
            )
    return "Time against DCQCN: " + "; ".join(said) + "."


# ---------------------------------------------------------------- the slowest message

_STATES: Final = (
    ("healthy", "adaptive routing", RoutingScheme.ADAPTIVE, "pfc", False),
    ("ecmp", "ECMP", RoutingScheme.ECMP, "pfc", False),
    ("slow_nic", "one adapter at half speed", RoutingScheme.ADAPTIVE, "pfc", True),
    ("slow_nic_cts", "the same, clear-to-send", RoutingScheme.ADAPTIVE, "cts", True),
)


def _slowest() -> Outcome:
    values: dict[str, float] = {}
    charts = []
    for name, op in _OPS.items():
        rows = []
        for state, title, routing, rules, slow in _STATES:
            result = _run(op, routing, _RULES[rules][1], slow=slow)
            took, time = _durations(result), _collective_s(result)
            steps = float(result.traffic.task_rounds.max())
            median = float(np.median(took))
            at = f"{name}_{state}"
            values |= {
                f"{at}_p50_s": median,
                f"{at}_p99_s": float(np.percentile(took, 99)),
                f"{at}_max_s": float(took.max()),
                f"{at}_collective_s": time,
                f"{at}_over_median": time / (steps * median),
            }
            share = np.linspace(0, 100, 101)
            rows.append((title, np.percentile(took, share) * 1e6, share))
        charts.append(
            Chart(name, series(rows), f"completion, {_OP_NAME[name]} [µs]", "messages [%]")
        )
    good = all(
        values[f"{op}_{state}_collective_s"] > 1.2 * values[f"{op}_healthy_collective_s"]
        for op in _OPS
        for state in ("ecmp", "slow_nic")
        if op == "allreduce" or state == "slow_nic"
    )
    cts = values["alltoall_slow_nic_cts_p50_s"] / values["alltoall_healthy_p50_s"]
    ring = values["allreduce_ecmp_collective_s"] / values["allreduce_healthy_collective_s"]
    return Outcome(
        values,
        tuple(charts),
        good,
        "With one adapter of 16 at half speed AlltoAll takes "
        f"{values['alltoall_slow_nic_over_median']:.2f} times its median message, the ring "
        f"{values['allreduce_slow_nic_over_median']:.2f} times its steps' medians. With ECMP the "
        f"ring takes {ring:.2f} times as long as with adaptive routing, as each step waits for the "
        "slowest. With clear-to-send the slow adapter's grants fill the receivers' windows: the "
        f"median message of AlltoAll takes {cts:.2f} times as long too.",
    )


_FABRIC: Final = "4 leaves of 6 hosts, 4 spines, 400 Gb/s everywhere; 16 ranks, 4 under each leaf"

EXPERIMENTS: Final = (
    Experiment(
        "collectives-without-dcqcn",
        "400G AllReduce and AlltoAll: DCQCN, PFC only, PFC with clear-to-send",
        "Where ECMP makes flows collide, both collectives are faster without DCQCN. Beside an "
        "incast, PFC alone is slower than DCQCN, and clear-to-send faster.",
        {
            "fabric": _FABRIC,
            "traffic": "64 MB: ring AllReduce, direct AlltoAll; in one case beside five hosts that "
            f"write {_WRITTEN / 1e6:.0f} MB each to one storage host",
            "schemes": "DCQCN firmware profile with railweave's marking rule; PFC only; PFC with "
            "receiver-driven clear-to-send",
            "routing": "adaptive for each packet (selective repeat), also beside the incast; or "
            "ECMP (CRC32, seed 0)",
        },
        _schemes,
    ),
    Experiment(
        "slowest-message",
        "What the slowest message costs a collective",
        "One adapter of 16 at half speed, and for the ring a few colliding flows, make the whole "
        "collective at least a fifth slower.",
        {
            "fabric": _FABRIC,
            "traffic": "64 MB: ring AllReduce, direct AlltoAll",
            "scheme": "PFC only; in the last state PFC with clear-to-send",
            "states": "; ".join(state[1] for state in _STATES) + " (adaptive but for ECMP)",
        },
        _slowest,
    ),
)
