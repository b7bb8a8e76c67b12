"""What pauses do: to shares, to flows that have no part in the congestion, to other classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from railweave.engine.faults import StuckReceiver
from railweave.engine.packet import PacketResult
from railweave.experiments._bench import (
    F64,
    GBPS,
    PAPER,
    Flow,
    congestion,
    into_switch,
    jain,
    leaf_spine,
    long_flows,
    paused_s,
    rate_series,
    rates_bps,
    record_of,
    routed,
    run,
    series,
    settings_of,
)
from railweave.experiments._memory import with_memory
from railweave.experiments._model import Chart, Experiment, Outcome
from railweave.fabric import Fabric
from railweave.fabric.names import node_name
from railweave.fabric.small import Cable, small_fabric

__all__ = ["EXPERIMENTS"]

_SCHEMES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("pfc", {"scheme": "pfc"}),
    ("dcqcn", PAPER),
)
_LABEL: Final = {"pfc": "PFC only", "dcqcn": "PFC and DCQCN"}


def _pauses(result: PacketResult) -> int:
    return len(record_of(result).pause_intervals["link"])


# ---------------------------------------------------------------- parking lot


def _lot(behind: tuple[int, ...]) -> tuple[Fabric, list[Flow]]:
    """Return a switch with the receiver and, at each other port, a switch with so many senders.

    One sender alone stands at the switch itself.
    """
    senders = sum(behind)
    receiver, root = senders, senders + 1
    cables, host, tier = [Cable(receiver, root, 40 * GBPS)], 0, [1]
    for count in behind:
        at = root
        if count > 1:
            at = root + len(tier)
            tier.append(1)
            cables.append(Cable(at, root, 40 * GBPS))
        cables += [Cable(host + k, at, 40 * GBPS) for k in range(count)]
        host += count
    fabric = small_fabric("parking-lot", senders + 1, (-1,) * len(tier), cables)
    return fabric, [(h, receiver) for h in range(senders)]


_LOTS: Final = {
    "two behind each of two ports": (2, 2),
    "two behind one port, two at ports of their own": (2, 1, 1),
    "three behind one port, one at its own": (3, 1),
}


def _shares(behind: tuple[int, ...], spec: Mapping[str, Any]) -> tuple[F64, int]:
    fabric, flows = _lot(behind)
    result = run(
        fabric,
        long_flows(flows),
        routed(fabric),
        congestion(**spec),
        until_s=0.1,
        sample_s=100e-6,
    )
    return rates_bps(result, 0.05, 0.1), _pauses(result)


def _parking() -> Outcome:
    values: dict[str, float] = {}
    rows: dict[str, tuple[list[str], list[float]]] = {label: ([], []) for label in _LABEL.values()}
    for behind in _LOTS.values():
        key = "_".join(str(k) for k in behind)
        for scheme, spec in _SCHEMES:
            rates, pauses = _shares(behind, spec)
            values |= {
                f"{scheme}_{key}_jain": jain(rates),
                f"{scheme}_{key}_most_over_least": float(rates.max() / rates.min()),
                f"{scheme}_{key}_pauses": pauses,
            }
            x, y = rows[_LABEL[scheme]]
            x += [f"{key.replace('_', '+')}: {k + 1}" for k in range(len(rates))]
            y += (rates / 1e9).tolist()
    chart = Chart(
        "shares",
        series((label, x, y) for label, (x, y) in rows.items()),
        "senders behind each port: sender",
        "goodput [Gb/s]",
        kind="bar",
    )
    uneven = [f"{key}_most_over_least" for key in ("2_1_1", "3_1")]
    good = all(values[f"pfc_{key}"] >= 1.8 for key in uneven) and all(
        values[f"dcqcn_{k}_jain"] >= 0.95 for k in ("2_2", "2_1_1", "3_1")
    )
    return Outcome(
        values,
        (chart,),
        good,
        "Pauses share by port, not by flow: who is alone at a port gets as much as all behind "
        f"another together ({values['pfc_3_1_most_over_least']:.1f} times a flow's share at 3 + 1, "
        f"{values['pfc_2_1_1_most_over_least']:.1f} times at 2 + 1 + 1; at 2 + 2 nobody is worse "
        "off). DCQCN shares by flow and needs no pauses.",
    )


# ---------------------------------------------------------------- victim


def _victim() -> Outcome:
    """Four hosts of a leaf send to one receiver, and up to two more; a fifth to somebody else."""
    fabric = leaf_spine(4, 6, 1, 40 * GBPS, 100 * GBPS)
    routing = routed(fabric)
    values: dict[str, float] = {}
    rows = []
    for scheme, spec in _SCHEMES:
        victim = []
        for extra in (0, 1, 2):
            far = [(12, 18), (13, 18)][:extra]
            flows = [(4, 6), *((h, 18) for h in range(4)), *far]
            result = run(
                fabric,
                long_flows(flows),
                routing,
                congestion(**spec),
                until_s=0.1,
                sample_s=100e-6,
            )
            rates = rates_bps(result, 0.05, 0.1)
            victim.append(rates[0] / 1e9)
            values[f"{scheme}_{extra}_victim_bps"] = float(rates[0])
            values[f"{scheme}_{extra}_pauses"] = _pauses(result)
        rows.append((_LABEL[scheme], ["4", "4 + 1 elsewhere", "4 + 2 elsewhere"], victim))
    chart = Chart(
        "victim", series(rows), "senders to the receiver", "victim's goodput [Gb/s]", kind="bar"
    )
    alone = 40 * GBPS * 4096 / 4178
    good = all(
        values[f"pfc_{k}_victim_bps"] < 0.5 * alone
        and values[f"dcqcn_{k}_victim_bps"] > 0.9 * alone
        for k in (0, 1, 2)
    )
    return Outcome(
        values,
        (chart,),
        good,
        f"The victim crosses no full link, yet PFC alone holds it at "
        f"{values['pfc_0_victim_bps'] / 1e9:.1f} Gb/s, and at "
        f"{values['pfc_2_victim_bps'] / 1e9:.1f} Gb/s once two more send from another leaf; "
        f"with DCQCN it has {values['dcqcn_2_victim_bps'] / 1e9:.1f} Gb/s.",
    )


# ---------------------------------------------------------------- pause storm

_STUCK_S, _DETECT_S, _END_S = 2e-3, 8e-3, 25e-3
_STORM: Final = (
    "to the stuck receiver",
    "unrelated, same sending leaf",
    "unrelated, same receiving leaf",
)


def _storm() -> Outcome:
    fabric = with_memory(leaf_spine(3, 2, 1, 100 * GBPS, 200 * GBPS), [4], 100 * GBPS)
    memory = fabric.n_nodes - 1
    routing = routed(fabric)
    flows = [(0, memory), (1, 2), (3, 5)]
    fault = StuckReceiver(node_name(fabric, memory), at_s=_STUCK_S)
    values, charts = dict[str, float](), []
    for key, watchdog in (
        ("off", "off"),
        ("on", {"detect": "8 ms", "restore": "8 ms", "poll": "1 ms"}),
    ):
        result = run(
            fabric,
            long_flows(flows),
            routing,
            congestion(scheme="pfc", watchdog=watchdog),
            until_s=_END_S,
            sample_s=100e-6,
            faults=(fault,),
        )
        before = rates_bps(result, 0, _STUCK_S)
        during = rates_bps(result, 7e-3, _DETECT_S)
        after = rates_bps(result, 20e-3, _END_S)
        ledger, pauses = record_of(result).ledger, record_of(result).pause_counters
        values |= {
            f"{key}_unrelated_before_bps": float(before[1:].min()),
            f"{key}_unrelated_during_bps": float(during[1:].max()),
            f"{key}_unrelated_after_bps": float(after[1:].min()),
            f"{key}_unrelated_senders_paused_s": min(paused_s(result, 2), paused_s(result, 6)),
            f"{key}_dropped_packets": float(ledger["dropped_packets_watchdog"][0]),
            f"{key}_storms": float(pauses["storms"].sum()),
        }
        rows = []
        for flow, name in enumerate(_STORM):
            time, rate = rate_series(result, flow, 5)
            rows.append((name, time * 1e3, rate / 1e9))
        charts.append(Chart(f"watchdog-{key}", series(rows), "time [ms]", "goodput [Gb/s]"))
    good = (
        values["off_unrelated_after_bps"] < 0.01 * values["off_unrelated_before_bps"]
        and values["on_unrelated_during_bps"] < 0.01 * values["on_unrelated_before_bps"]
        and values["on_unrelated_after_bps"] > 0.95 * values["on_unrelated_before_bps"]
    )
    return Outcome(
        values,
        tuple(charts),
        good,
        "Pauses go back from the receiver to its leaf, the spine and the other leaves, and stop "
        "senders that have nothing to do with it. The watchdog drops what waits for the stuck "
        "receiver, and all others run again.",
    )


# ---------------------------------------------------------------- one priority paused


def _class() -> Outcome:
    """A stuck receiver pauses priority 3 on the cable between two switches."""
    left, right = 4, 5
    cables = [Cable(h, left if h < 2 else right, 100 * GBPS) for h in range(4)]
    cables.append(Cable(left, right, 200 * GBPS, 20.0))
    plain = small_fabric("two-classes", 4, (-1, -1), cables)
    fabric = with_memory(plain, [2], 100 * GBPS)
    memory = fabric.n_nodes - 1
    routing = routed(fabric)
    spec = congestion(scheme="pfc", watchdog="off")
    nic = next(iter(settings_of(fabric, routing, spec).qos.values())).nic(100 * GBPS, 5.0)
    middle = into_switch(fabric, left, right)
    values, rows = dict[str, float](), []
    for label, key, priority in (
        ("other flow in priority 0", "other_priority", 0),
        ("other flow in priority 3 too", "same_priority", 3),
    ):
        result = run(
            fabric,
            long_flows([(0, memory), (1, 3)]),
            routing,
            spec,
            until_s=0.02,
            sample_s=100e-6,
            nics={1: replace(nic, data_priority=priority, ack_priority=priority)},
            faults=(StuckReceiver(node_name(fabric, memory), at_s=5e-3),),
        )
        values[f"{key}_before_bps"] = float(rates_bps(result, 2e-3, 5e-3)[1])
        values[f"{key}_paused_bps"] = float(rates_bps(result, 15e-3, 20e-3)[1])
        values[f"{key}_middle_paused_s"] = paused_s(result, middle)
        time, rate = rate_series(result, 1, 5)
        rows.append((label, time * 1e3, rate / 1e9))
    chart = Chart("other-class", series(rows), "time [ms]", "goodput of the other flow [Gb/s]")
    full = 100 * GBPS * 4096 / 4178
    good = (
        values["other_priority_paused_bps"] > 0.99 * full
        and values["other_priority_middle_paused_s"] > 5e-3
        and values["same_priority_paused_bps"] < 0.01 * full
    )
    return Outcome(
        values,
        (chart,),
        good,
        "While priority 3 stands still on the cable that both flows use, the flow in priority 0 "
        "keeps its full rate; in the same priority it would stand still as well.",
    )


EXPERIMENTS: Final = (
    Experiment(
        "pfc-parking-lot",
        "PFC alone shares by port",
        "With PFC alone a sender alone at a port gets about as much as all those behind another "
        "port together; DCQCN gives every flow the same.",
        {
            "fabric": "a switch with the receiver; senders at it or behind one more switch; "
            "40 Gb/s everywhere",
            "cases": "; ".join(_LOTS),
            "schemes": "PFC only; PFC and DCQCN with the paper's profile and marking",
            "measured": "50 to 100 ms",
        },
        _parking,
    ),
    Experiment(
        "pfc-victim",
        "PFC alone harms a flow without a share in the congestion",
        "With PFC alone a flow that crosses no full link gets less than half of its rate; with "
        "DCQCN at least nine tenths.",
        {
            "fabric": "4 leaves of 6 hosts at 40 Gb/s, one spine, uplinks of 100 Gb/s",
            "traffic": "4 hosts of leaf 1 (and 1 or 2 of leaf 3) to one host of leaf 4; the victim "
            "from leaf 1 to leaf 2",
            "schemes": "PFC only; PFC and DCQCN with the paper's profile and marking",
            "measured": "50 to 100 ms",
        },
        _victim,
    ),
    Experiment(
        "pause-storm",
        "A stuck receiver, and the watchdog",
        "A receiver that takes nothing more stops unrelated senders; the PFC watchdog ends it.",
        {
            "fabric": "3 leaves of 2 hosts at 100 Gb/s, one spine, uplinks of 200 Gb/s",
            "traffic": "leaf 1 to the stuck receiver on leaf 3; leaf 1 to leaf 2; leaf 2 to leaf 3",
            "fault": "the receiver stops at 2 ms",
            "scheme": "PFC only",
            "watchdog": "off; detection and restoration after 8 ms, drop (SONiC's defaults are "
            "200 ms)",
        },
        _storm,
    ),
    Experiment(
        "paused-priority",
        "A paused priority leaves the others alone",
        "A flow in another priority keeps its full rate over a cable on which priority 3 is "
        "paused.",
        {
            "fabric": "two switches with two hosts each at 100 Gb/s, a cable of 200 Gb/s between "
            "them",
            "traffic": "priority 3 to a receiver that stops at 5 ms; a second flow over the same "
            "cable in priority 0, or 3",
            "scheme": "PFC only, no watchdog",
        },
        _class,
    ),
)
