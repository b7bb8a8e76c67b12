"""The counters of a packet run under the names that real devices use.

A *port* is one end of a cable. Below, ``out`` is the directed link that leaves it, ``in`` the one
that arrives; P is a priority. Only what the engine counts is given; counts are since the start.

Ethernet adapters (``ethtool -S`` of mlx5), by port:

===============================  ===================================================================
rx_prioP_pause                   PFC frames for P that the switch sent: pauses and resumptions
rx_prioP_pause_transition        resumptions among them
rx_prioP_pause_duration          µs that P was paused at ``out``
tx_prioP_pause, …_duration       the same of what the adapter sent and its switch obeyed
rx_prioP_discards                packets without room in the adapter, P being the data's priority
rx_discards_phy                  the same, all priorities
rx_out_of_buffer                 TCP only: packets without a posted receive
rx_crc_errors_phy                packets lost at random on ``in``: FEC could not mend them
link_down_events_phy             times the cable went down
tx_bytes_phy, tx_packets_phy     sent over ``out``; preamble and gap (20 B) do not count
rx_bytes_phy, rx_packets_phy     sent over ``in`` and not lost on it; the last of them may be on
                                 their way
===============================  ===================================================================

RDMA adapters (``hw_counters``), by port, summed over its queue pairs:

===============================  ===================================================================
out_of_sequence                  packets later than the one expected (go-back-N receivers)
duplicate_request                packets received before
packet_seq_err                   sequence NAKs received
local_ack_timeout_err            retry timers that ran out
rnr_nak_retry_err                RNR NAKs that the other end sent
out_of_buffer                    packets refused because no receive was posted
np_ecn_marked_roce_packets       packets that arrived marked
np_cnp_sent                      CNPs sent
rp_cnp_handled, rp_cnp_ignored   CNPs received and heeded, received and not heeded
req_transport_retries_exceeded   queue pairs that gave up after timeouts
req_rnr_retries_exceeded         queue pairs that gave up though no timer ran out
===============================  ===================================================================

Ethernet switches (SONiC, SAI names), by port, and by queue or priority group P (column ``queue``):

=======================================================  ===========================================
SAI_PORT_STAT_PFC_P_RX_PKTS, …_TX_PKTS                   PFC frames, as rx_prioP_pause above
SAI_PORT_STAT_PFC_P_RX_PAUSE_DURATION_US                 as rx_prioP_pause_duration
SAI_PORT_STAT_IF_OUT_OCTETS, …_IN_OCTETS, …_UCAST_PKTS   as tx_bytes_phy and so on
SAI_PORT_STAT_IF_IN_ERRORS                               as rx_crc_errors_phy
SAI_PORT_STAT_IF_IN_DISCARDS                             packets for which the switch has no route
SAI_PORT_STAT_IF_OUT_DISCARDS                            packets dropped at this egress: buffer,
                                                         headroom, MTU, watchdog, link down, reboot
SAI_QUEUE_STAT_DROPPED_PACKETS                           packets that the queue refused or lost
SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS                   packets marked in the queue
SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES                    longest queue, reserve and shared room
PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED, …_RESTORED         storms that the watchdog found, and ended
SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS          packets beyond the headroom
SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES   most in reserve and shared room, in cells
SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_…    most in the headroom, in cells
=======================================================  ===========================================

InfiniBand, by port of switches and adapters (adapters have the RDMA counters above too):

===============================  ===================================================================
PortXmitData, PortRcvData        bytes sent, or received, over 4: octets in units of 4
PortXmitPkts, PortRcvPkts        packets
PortXmitWait                     time with something to send and no credit, summed over the virtual
                                 lanes, in ticks of 4 octets at the link's speed (an assumption:
                                 the specification leaves the tick to the device)
PortXmitDiscards                 packets dropped at this egress
PortRcvErrors                    packets lost at random on ``in``
LinkDownedCounter                times the cable went down
===============================  ===================================================================

Real devices repeat a pause as long as it holds, the engine sends one frame for each beginning and
end: compare durations, and whether a counter moves, rather than numbers of frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Transport
from railweave.engine.packet import PacketResult
from railweave.engine.packet_record import Columns, PacketRecord
from railweave.engine.result import Result
from railweave.errors import EngineError
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric.names import node_name
from railweave.fabric.routing import Paths

if TYPE_CHECKING:
    import polars as pl

__all__ = ["NOT_COUNTED", "device_counters"]

I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Values = npt.NDArray[Any]

#: counters of real devices that the engine does not model, and why
NOT_COUNTED: Final[dict[str, str]] = {
    "rx_pcs_symbol_err_phy, rx_corrected_bits_phy, SAI_PORT_STAT_IF_IN_FEC_*, SymbolErrorCounter": (
        "bit errors are modelled as lost packets, not as symbols or codewords"
    ),
    "rx_oversize_pkts_phy": "packets above the MTU are dropped by switches, at their egress",
    "tx_pause_storm_warning_events, tx_pause_storm_error_events": (
        "adapters have no watchdog on the pauses that they send"
    ),
    "outbound_pci_stalled_wr": "PCIe is a server of one rate, without stalls of its own",
    "implied_nak_seq_err": "only writes and sends are modelled, no reads and atomics",
    "roce_adp_retrans, roce_slow_restart": (
        "adaptive retransmission and slow restart of adapters are not modelled"
    ),
    "LinkErrorRecovery, PortRcvRemotePhysicalErrors, VL15Dropped": (
        "link retraining, bad packets passed on, and management traffic are not modelled"
    ),
}

_GAP_BYTES = 20
_PRIORITIES = 8
_EGRESS_DROPS = ("no_buffer", "headroom", "mtu", "watchdog", "link_down", "reboot")


@dataclass(frozen=True, eq=False)
class _Ends:
    """Ports of one kind of device: the link out of each, and into it."""

    out: I64

    @property
    def into(self) -> I64:
        return self.out ^ 1


#: a counter: its name, links out of the ports, values, and the queue (−1: of the whole port)
_Part = tuple[str, I64, Values, int]


class _Reader:
    """The engine's columns, by link, by (priority, link) and summed over flows."""

    def __init__(self, record: PacketRecord, fabric: Fabric) -> None:
        self.record = record
        self.n_links = fabric.n_links

    def port(self, name: str) -> I64:
        column: I64 = self.record.port_counters[name].astype(np.int64)
        return column

    def dropped(self, *reasons: str) -> I64:
        total = np.zeros(self.n_links, dtype=np.int64)
        for reason in reasons:
            total += self.port(f"dropped_{reason}")
        return total

    def pause(self, name: str, priority: int) -> Values:
        return self._of(self.record.pause_counters, name, priority)

    def queue(self, name: str, priority: int) -> Values:
        return self._of(self.record.queue_counters, name, priority)

    def group(self, name: str, priority: int) -> Values:
        return self._of(self.record.group_counters, name, priority)

    def _of(self, columns: Columns, name: str, priority: int) -> Values:
        start = priority * self.n_links  # rows of priority 0 stand first
        return columns[name][start : start + self.n_links]

    def frames(self, priority: int) -> I64:
        """PFC frames that a link's destination sent about it."""
        sent = self.pause("pauses_sent", priority).astype(np.int64)
        return sent + self.pause("resumes_sent", priority).astype(np.int64)

    def paused_us(self, priority: int) -> I64:
        return np.floor(self.pause("paused_s", priority) * 1e6).astype(np.int64)

    def arrived(self) -> I64:
        kept: I64 = np.maximum(0, self.port("tx_packets") - self.dropped("corrupt"))
        return kept

    def octets(self, packets: I64, around: int) -> I64:
        """Bytes of so many of the packets that each link has carried, without what is around."""
        mean = self.port("tx_bytes") / np.maximum(1, self.port("tx_packets"))
        return np.rint(packets * (mean - around)).astype(np.int64)


def device_counters(result: Result, fabric: Fabric) -> pl.DataFrame:
    """Return what devices would show at the end of a run, one row a counter.

    Args:
        result: of the packet engine.
        fabric: that it ran on.

    Returns:
        Columns ``device``, ``port`` (``port-3``), ``queue`` (queue, priority group or null),
        ``counter``, ``value``. Counters at 0 are there, as on a real device; those that the engine
        does not model are not: :data:`NOT_COUNTED` lists them.

    Raises:
        EngineError: a result without the packet engine's record.
    """
    record = result.record if isinstance(result, PacketResult) else None
    if record is None or result.paths is None:
        raise EngineError(
            "device counters: the result has no record of queues and adapters; allowed: a result "
            "of engine 'packet'"
        )
    reader = _Reader(record, fabric)
    network = fabric.link_layer >= LinkLayer.HOST_LEAF
    of_switch = fabric.node_kind[fabric.link_src] == NodeKind.SWITCH
    parts: list[_Part] = []
    for plane, qos in record.settings.qos.items():
        here = network & (fabric.link_plane == plane)
        hosts, switches = (
            _Ends(np.flatnonzero(here & ~of_switch)),
            _Ends(np.flatnonzero(here & of_switch)),
        )
        nic = qos.nic(400e9, 3.0)  # priorities do not depend on the port
        if qos.transport is Transport.INFINIBAND:
            both = _Ends(np.flatnonzero(here))
            parts += _infiniband(reader, both, fabric)
        else:
            parts += _ethtool(reader, hosts, nic.data_priority, qos.transport)
            parts += _sonic(reader, switches)
        if qos.transport is not Transport.TCP:
            parts += _rdma(reader, hosts, _flow_ends(result.paths, fabric, plane))
    return _frame(parts, fabric)


def _flow_ends(paths: Paths, fabric: Fabric, plane: PlaneId) -> tuple[I64, I64, I64]:
    """Return the flows of a plane, and the links by which each leaves and arrives at first."""
    length = np.diff(paths.ptr)
    used = np.flatnonzero(length > 0)  # as the engine numbers them
    row = np.repeat(np.arange(len(length)), length)
    place = np.flatnonzero(
        (fabric.link_layer[paths.link] >= LinkLayer.HOST_LEAF)
        & (fabric.link_plane[paths.link] == plane)
    )
    first, last = np.full(len(length), -1), np.full(len(length), -1)
    first[row[place[::-1]]] = paths.link[place[::-1]]
    last[row[place]] = paths.link[place]
    flow = np.flatnonzero(first[used] >= 0)
    return flow, first[used][flow], last[used][flow]


def _ethtool(r: _Reader, at: _Ends, data: int, transport: Transport) -> Iterator[_Part]:
    out, into = at.out, at.into
    for p in range(_PRIORITIES):
        for name, link in (("rx", out), ("tx", into)):
            yield f"{name}_prio{p}_pause", out, r.frames(p)[link], -1
            yield f"{name}_prio{p}_pause_duration", out, r.paused_us(p)[link], -1
        yield f"rx_prio{p}_pause_transition", out, r.pause("resumes_sent", p)[out], -1
        lost = r.dropped("rx_overflow")[into]
        yield f"rx_prio{p}_discards", out, lost if p == data else np.zeros_like(lost), -1
    yield "rx_discards_phy", out, r.dropped("rx_overflow")[into], -1
    if transport is Transport.TCP:
        yield "rx_out_of_buffer", out, r.dropped("not_ready")[into], -1
    yield "rx_crc_errors_phy", out, r.dropped("corrupt")[into], -1
    yield "link_down_events_phy", out, r.port("downs")[out], -1
    sent, got = r.port("tx_packets"), r.arrived()
    yield "tx_packets_phy", out, sent[out], -1
    yield "tx_bytes_phy", out, r.octets(sent, _GAP_BYTES)[out], -1
    yield "rx_packets_phy", out, got[into], -1
    yield "rx_bytes_phy", out, r.octets(got, _GAP_BYTES)[into], -1


def _rdma(r: _Reader, at: _Ends, flows: tuple[I64, I64, I64]) -> Iterator[_Part]:
    flow, first, last = flows

    def total(column: Values, link: I64) -> Values:
        by_link = np.bincount(link, weights=column[flow], minlength=r.n_links)
        return by_link.astype(np.int64)

    count = r.record.flow_counters
    received = {
        "out_of_sequence": "out_of_order",
        "duplicate_request": "duplicates",
        "np_ecn_marked_roce_packets": "marked",
        "np_cnp_sent": "cnp_sent",
    }
    sending = {
        "packet_seq_err": "naks_received",
        "local_ack_timeout_err": "timeouts",
        "rnr_nak_retry_err": "rnr_naks",
        "rp_cnp_handled": "cnp_handled",
        "rp_cnp_ignored": "cnp_ignored",
    }
    for name, column in received.items():
        yield name, at.out, total(count[column], last)[at.into], -1
    for name, column in sending.items():
        yield name, at.out, total(count[column], first)[at.out], -1
    yield "out_of_buffer", at.out, r.dropped("not_ready")[at.into], -1
    late = count["timeouts"] > 0
    failed = count["failed"].astype(bool)
    timed, refused = total(failed & late, first), total(failed & ~late, first)
    yield "req_transport_retries_exceeded", at.out, timed[at.out], -1
    yield "req_rnr_retries_exceeded", at.out, refused[at.out], -1


def _sonic(r: _Reader, at: _Ends) -> Iterator[_Part]:
    out, into = at.out, at.into
    port, queue = "SAI_PORT_STAT", "SAI_QUEUE_STAT"
    group, watchdog = "SAI_INGRESS_PRIORITY_GROUP_STAT", "PFC_WD_QUEUE_STATS_DEADLOCK"
    sent, got = r.port("tx_packets"), r.arrived()
    yield f"{port}_IF_OUT_UCAST_PKTS", out, sent[out], -1
    yield f"{port}_IF_OUT_OCTETS", out, r.octets(sent, _GAP_BYTES)[out], -1
    yield f"{port}_IF_OUT_DISCARDS", out, r.dropped(*_EGRESS_DROPS)[out], -1
    yield f"{port}_IF_IN_UCAST_PKTS", out, got[into], -1
    yield f"{port}_IF_IN_OCTETS", out, r.octets(got, _GAP_BYTES)[into], -1
    yield f"{port}_IF_IN_ERRORS", out, r.dropped("corrupt")[into], -1
    yield f"{port}_IF_IN_DISCARDS", out, r.dropped("no_route")[into], -1
    for p in range(_PRIORITIES):
        yield f"{port}_PFC_{p}_RX_PKTS", out, r.frames(p)[out], -1
        yield f"{port}_PFC_{p}_TX_PKTS", out, r.frames(p)[into], -1
        yield f"{port}_PFC_{p}_RX_PAUSE_DURATION_US", out, r.paused_us(p)[out], -1
        yield f"{queue}_DROPPED_PACKETS", out, r.queue("dropped", p)[out], p
        yield f"{queue}_WRED_ECN_MARKED_PACKETS", out, r.queue("marked", p)[out], p
        yield f"{queue}_SHARED_WATERMARK_BYTES", out, r.queue("peak_bytes", p)[out], p
        yield f"{watchdog}_DETECTED", out, r.pause("storms", p)[out], p
        yield f"{watchdog}_RESTORED", out, r.pause("restores", p)[out], p
        yield f"{group}_DROPPED_PACKETS", out, r.group("dropped", p)[into], p
        yield f"{group}_SHARED_WATERMARK_BYTES", out, r.group("peak_bytes", p)[into], p
        yield f"{group}_XOFF_ROOM_WATERMARK_BYTES", out, r.group("peak_headroom_bytes", p)[into], p


def _infiniband(r: _Reader, at: _Ends, fabric: Fabric) -> Iterator[_Part]:
    out, into = at.out, at.into
    sent, got = r.port("tx_packets"), r.arrived()
    waited = sum((r.pause("credit_wait_s", p) for p in range(_PRIORITIES)), np.zeros(r.n_links))
    ticks = np.floor(waited * fabric.link_capacity_bps / 32).astype(np.int64)
    yield "PortXmitData", out, r.octets(sent, 0)[out] // 4, -1
    yield "PortXmitPkts", out, sent[out], -1
    yield "PortRcvData", out, r.octets(got, 0)[into] // 4, -1
    yield "PortRcvPkts", out, got[into], -1
    yield "PortXmitWait", out, ticks[out], -1
    yield "PortXmitDiscards", out, r.dropped(*_EGRESS_DROPS)[out], -1
    yield "PortRcvErrors", out, r.dropped("corrupt")[into], -1
    yield "LinkDownedCounter", out, r.port("downs")[out], -1


def _frame(parts: list[_Part], fabric: Fabric) -> pl.DataFrame:
    import polars as pl

    schema = {"device": pl.String, "port": pl.String, "queue": pl.Int8}
    empty = pl.DataFrame(schema={**schema, "counter": pl.String, "value": pl.Int64})
    parts = [part for part in parts if len(part[1])]
    if not parts:
        return empty
    links = np.unique(np.concatenate([link for _, link, _, _ in parts]))
    ends = pl.DataFrame(
        {
            "link": links,
            "device": [node_name(fabric, int(n)) for n in fabric.link_src[links]],
            "port": [f"port-{int(n)}" for n in fabric.link_src_port[links]],
        }
    )
    size = [len(link) for _, link, _, _ in parts]
    rows = pl.DataFrame(
        {
            "link": np.concatenate([link for _, link, _, _ in parts]),
            "counter": np.repeat(np.array([name for name, *_ in parts]), size),
            "queue": np.repeat(np.array([q for *_, q in parts], dtype=np.int8), size),
            "value": np.concatenate([value.astype(np.int64) for _, _, value, _ in parts]),
        }
    )
    queue = pl.when(pl.col("queue") >= 0).then(pl.col("queue")).alias("queue")
    joined = rows.join(ends, on="link", how="left", maintain_order="left")
    return joined.select("device", "port", queue, "counter", "value")
