"""The slice packet by packet: a message, a permutation, an incast with a bystander, a lossy cable.

Bursts are long enough that their ratios hardly depend on the length. A DCQCN sender is cut to a
fraction at the first marks and gains its share back over milliseconds, so a burst of 200 µs says
how it starts, and not what congestion that lasts costs: both are measured, the lasting is scored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.design.models import Transport
from railweave.engine.faults import BitErrors
from railweave.engine.packet import PacketResult, simulate_packet
from railweave.fabric import LinkLayer, NodeKind, PlaneId
from railweave.fabric.wire import framing, wire_bytes
from railweave.qos import Retry
from railweave.transport.compare._slice import Slice
from railweave.transport.compare._technologies import Technology
from railweave.transport.compare._types import CompareCase
from railweave.workload import TrafficBuilder

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = ["BURST_S", "SHORT_S", "TCP_TIMER", "Congestion", "PacketBench"]

#: how long a NIC sends in the permutation and in the incast (each sender), and the least it sends:
#: a buffer's content must not be most of it
BURST_S: Final = 4e-3
_LEAST_BYTES: Final = 100e6
#: the burst that shows how senders start
SHORT_S: Final = 200e-6
_LOSSY_PACKETS: Final = 60_000
_QUICK: Final = 0.25
#: simulated time after which a run of messages is ended, in bursts one after the other: a retry
#: timer of seconds is not waited for
_PATIENCE: Final = 8.0
_MESSAGE_BYTES: Final = 8.0
#: TCP's timer is not the verbs' one of seconds: a tail loss probe (RFC 8985) goes out two round
#: trips after the last ACK, here of 4.096 us × 2^10 = 4.2 ms, more than the round trip through a
#: full buffer (assumed); it repeats as often as the kernel's default (15)
TCP_TIMER: Final = Retry(10, 15, 0.0, 0)


@dataclass(frozen=True, slots=True)
class Congestion:
    """What bursts at once cost; as in :class:`railweave.transport.compare.Measured`."""

    permutation_ratio: float
    short_ratio: float
    incast_ratio: float
    bystander_ratio: float
    dropped_bytes: float
    marks: int
    pauses: int
    unfinished: int


@dataclass(frozen=True, eq=False)
class PacketBench:
    """One technology's cluster for the packet engine, and the slice of it that sends."""

    built: BuiltDesign
    technology: Technology
    case: CompareCase
    part: Slice

    def run(
        self,
        pairs: Sequence[tuple[int, int]],
        size_bytes: float,
        *,
        until_s: float = math.inf,
        faults: tuple[BitErrors, ...] = (),
    ) -> PacketResult:
        """Send one message for each pair at once."""
        builder = TrafficBuilder()
        ends = np.array(pairs)
        builder.plain_tasks(
            ends[:, 0],
            ends[:, 1],
            size_bytes,
            label="message",
            queue_pairs=self.built.design.planes.backend.routing.queue_pairs,
            connection=np.arange(len(pairs)),
        )
        settings = replace(self.built.packet_settings(), faults=faults)
        if self.technology is Technology.TCP:
            qos = settings.qos[PlaneId.BACKEND]
            timer = {"timeout": TCP_TIMER.timeout, "retries": TCP_TIMER.retries}
            qos = replace(qos, spec=qos.spec.model_copy(update=timer))
            settings = replace(settings, qos={**settings.qos, PlaneId.BACKEND: qos})
        return simulate_packet(
            self.built.fabric,
            builder.build(),
            self.built.routing(),
            settings=settings,
            seed=self.built.design.seed,
            until_s=until_s,
        )

    def message_s(self) -> float:
        """Return the time of one small message on the idle fabric."""
        return self.run([self.part.pairs[0]], _MESSAGE_BYTES).makespan_s

    def burst_bytes(self) -> float:
        """Return what each sender sends in the long bursts."""
        return max(_LEAST_BYTES, self.part.host_bps / 8 * BURST_S)

    def congestion(self) -> Congestion:
        """Measure the permutation, long and short, and the incast with its bystander."""
        burst = self.burst_bytes()
        long, ratio = self.permutation(burst)
        _, short = self.permutation(max(4096.0, self.part.host_bps / 8 * SHORT_S))
        incast, incast_ratio, bystander = self.incast(burst)
        counted = [run for run in (long, incast) if run is not None]
        return Congestion(
            permutation_ratio=ratio,
            short_ratio=short,
            incast_ratio=incast_ratio,
            bystander_ratio=bystander,
            dropped_bytes=float(sum(run.bytes_dropped for run in counted)),
            marks=sum(_count(run, "marked") for run in counted),
            pauses=sum(_pauses(run) for run in counted),
            unfinished=sum(int(np.isnan(run.stream_finish_s).sum()) for run in counted),
        )

    def permutation(self, size_bytes: float) -> tuple[PacketResult, float]:
        """Return the run, and the time of the last message over that of one alone."""
        limit = self._limit_s(size_bytes)
        run = self.run(self.part.pairs, size_bytes, until_s=limit)
        return run, _last_s(run, slice(None), limit) / float(run.stream_ideal_s.max())

    def incast(self, size_bytes: float) -> tuple[PacketResult | None, float, float]:
        """Return the run, the incast's time over that of all its bytes at the receiver's port, and
        what the bystander takes over being alone."""
        part = self.part
        if len(part.senders) < 2:
            return None, 1.0, 1.0
        pairs = [(sender, part.receiver) for sender in part.senders]
        count, limit = len(pairs), self._limit_s(size_bytes)
        ideal = self.incast_ideal_s(pairs, size_bytes)
        if part.bystander is not None:
            pairs.append(part.bystander)
        run = self.run(pairs, size_bytes, until_s=limit)
        ratio = _last_s(run, slice(0, count), limit) / ideal
        if part.bystander is None:
            return run, ratio, 1.0
        own = float(run.stream_ideal_s[-1])
        return run, ratio, _last_s(run, slice(count, None), limit) / own

    def incast_ideal_s(self, pairs: Sequence[tuple[int, int]], size_bytes: float) -> float:
        """Return how long all messages take through the receiver's busiest port, and one latency.

        No way of sharing is faster, as the port's wire is never idle and the first bits must come.
        """
        fabric, routing = self.built.fabric, self.built.routing()
        ends = np.array(pairs, dtype=np.int32)
        paths = routing.paths(
            ends[:, 0],
            ends[:, 1],
            queue_pairs=self.built.design.planes.backend.routing.queue_pairs,
            connection=np.arange(len(pairs), dtype=np.int32),
            size_bytes=size_bytes,
        )
        frame = routing.frames()[int(PlaneId.BACKEND)]
        wire = np.repeat(wire_bytes(size_bytes * paths.share, frame), np.diff(paths.ptr))
        crossed = np.ones(len(paths.link)) if paths.weight is None else paths.weight
        load = np.bincount(paths.link, wire * crossed, minlength=len(fabric.link_src))
        into = (fabric.link_layer == LinkLayer.HOST_LEAF) & (load > 0)
        into &= fabric.node_kind[fabric.link_dst] != NodeKind.SWITCH
        port_s = float((load[into] * 8 / fabric.usable_bps[into]).max())
        latency = np.add.reduceat(fabric.link_delay_s[paths.link] * crossed, paths.ptr[:-1])
        return port_s + float(latency.min())

    def _limit_s(self, size_bytes: float) -> float:
        one_by_one = size_bytes * 8 / self.part.host_bps
        one_by_one *= max(len(self.part.pairs), len(self.part.senders))
        return _PATIENCE * max(SHORT_S, one_by_one)

    def loss_share(self) -> float:
        """Return the goodput behind a cable that loses packets, over that behind a whole one."""
        scale = _QUICK if self.case.quick else 1.0
        frame = framing(self.built.design.planes.backend.transport or Transport.TCP)
        packet_s = (frame.mtu_bytes + frame.overhead_bytes) * 8 / self.part.host_bps
        until_s = _LOSSY_PACKETS * scale * packet_s
        size = self.part.host_bps / 8 * until_s * 4  # outlasts the run
        pair = [self.part.pairs[0]]
        whole = self.run(pair, size, until_s=until_s)
        fault = BitErrors(self.part.host_port, loss=self.case.loss, way="out")
        lossy = self.run(pair, size, until_s=until_s, faults=(fault,))
        return min(1.0, _acknowledged(lossy) / max(_acknowledged(whole), 1.0))


def _last_s(run: PacketResult, streams: slice, limit_s: float) -> float:
    """Return when the last of some messages was there; the rest as if they ended with the run."""
    return float(np.nan_to_num(run.stream_finish_s[streams], nan=limit_s).max())


def _acknowledged(run: PacketResult) -> float:
    assert run.record is not None  # the packet engine always writes one
    return float(run.record.flow_counters["acked_packets"].sum())


def _count(run: PacketResult, name: str) -> int:
    assert run.record is not None
    return int(run.record.flow_counters[name].sum())


def _pauses(run: PacketResult) -> int:
    assert run.record is not None
    return len(run.record.pause_intervals["from_s"])
