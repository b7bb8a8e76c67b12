"""One congestion control unit, fed by hand."""

import dataclasses
import math

from railweave._native import CcProbe
from railweave.qos import _algorithms as cc

US = 1_000_000  # ps
PACKET = 1000


def probe(name: str, *, line_Bps=5e9, rtt_ps=10 * US, hops=0, packet=PACKET, **changes) -> CcProbe:
    control = dataclasses.replace(cc.algorithm(name, line_Bps * 8), **changes)
    return CcProbe(control.kind, control.parameters(), line_Bps, rtt_ps, packet, hops)


class Feed:
    """Acknowledges packet after packet of a sender that keeps its window in flight."""

    def __init__(self, unit: CcProbe, rtt_ps: int = 10 * US) -> None:
        self.unit, self.rtt_ps, self.now, self.psn = unit, rtt_ps, 0, 0

    def ack(self, *, marked=False, rtt_ps=None, step_ps=1000, packets=1, in_flight=None):
        self.now += step_ps
        self.psn += packets
        window = self.unit.window_bytes
        held = window - packets * PACKET if math.isfinite(window) else 1e6
        held = max(held, 0) if in_flight is None else in_flight
        self.unit.ack(
            self.now,
            self.rtt_ps if rtt_ps is None else rtt_ps,
            self.psn,
            self.psn + int(held // PACKET),
            packets * PACKET,
            packets,
            packets if marked else 0,
            held,
        )

    def window(self, *, marked=False, rtt_ps=None):
        """One window of data in one round trip."""
        n = max(int(self.unit.window_bytes // PACKET), 1)
        rtt = self.rtt_ps if rtt_ps is None else rtt_ps
        for _ in range(n):
            self.ack(marked=marked, rtt_ps=rtt_ps, step_ps=rtt // n)
