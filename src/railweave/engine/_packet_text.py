"""What a packet run says of itself: what it assumes, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railweave.findings import Finding, Severity
from railweave.provenance import Assumption, Certainty

if TYPE_CHECKING:
    from railweave.engine.packet import PacketRun

__all__ = ["assumptions", "end_findings"]

_MODEL = (
    (
        "packets",
        "each packet is queued, marked and scheduled singly; it counts in a switch's buffer from "
        "its arrival at the memory management unit until its transmission begins",
    ),
    (
        "forwarding latency",
        "the port-to-port latency of a switch lies before its egress queue; pauses are decided "
        "when the packet leaves the ingress pipeline",
    ),
    (
        "replies",
        "ACKs, NAKs and notifications travel back over the links of their flow's own way",
    ),
    (
        "memory",
        "PCIe between GPU and NIC holds packets back only where it is slower than the NIC's ports; "
        "memory and the GPU's copy engines are no bottleneck",
    ),
    (
        "scale-up",
        "transfers inside a scale-up domain move in segments of 1/64 of a message (4 KiB at "
        "least), share their links turn by turn, and are never held back or lost",
    ),
    (
        "queue pairs",
        "each stream has queue pairs of its own, whose congestion control begins at the line rate",
    ),
)


def assumptions(run: PacketRun) -> tuple[Assumption, ...]:
    """Return what the engine assumes, and what the settings of the devices rest on."""
    found = [Assumption(subject, text, Certainty.ASSUMED) for subject, text in _MODEL]
    seen = {item.subject for item in found}
    for qos in run.settings.qos.values():
        for switch in qos.switches.values():
            for item in switch.assumptions:
                if item.subject not in seen:
                    seen.add(item.subject)
                    found.append(item)
    if np.any(run.traffic.chunk_bytes != np.floor(run.traffic.chunk_bytes)):
        found.append(
            Assumption("whole bytes", "messages are rounded up to whole bytes", Certainty.ASSUMED)
        )
    return tuple(found)


def end_findings(run: PacketRun) -> tuple[Finding, ...]:
    """Say how a run ended that did not deliver everything."""
    from railweave.engine.packet import End
    from railweave.fabric.deadlock import name_cycle

    end = int(run._sim.end)
    label = run.fabric.name
    left = int(np.isnan(run._sim.task_finish_s).sum())
    failed = run._sim.failed_flows
    found: list[Finding] = []
    if len(failed):
        found.append(
            Finding(
                "messages-failed",
                Severity.ERROR,
                label,
                f"{len(failed)} queue pairs gave up after their last retry; "
                + (
                    f"{left} tasks never end" if left else "all had arrived, only answers were lost"
                ),
                f"first: queue pair {int(failed[0])}, stream {int(run.table.stream[failed[0]])}",
                "find out why their packets are lost or stopped; a longer timeout or more retries "
                "only hide it",
            )
        )
    if end == End.DEADLOCK:
        found.append(
            Finding(
                "deadlock",
                Severity.ERROR,
                label,
                f"at {run.now_s:.6f} s ports wait for each other in a circle; {left} tasks never "
                "end",
                name_cycle(run.fabric, [int(link) for link in run._sim.cycle]),
                "route up and down only, or break the circle with a second lossless class; a PFC "
                "watchdog ends it at the cost of dropped packets",
            )
        )
    if end == End.STUCK and not len(failed):
        found.append(
            Finding(
                "stuck",
                Severity.ERROR,
                label,
                f"nothing moves any more at {run.now_s:.6f} s; {left} tasks never end",
                "no circle of waiting ports: a receiver or a link holds everything up",
                "look at the paused ports and at what they wait for",
            )
        )
    return tuple(found)
