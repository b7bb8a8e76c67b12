"""Lesson of lab 4: a missing right or receive fails an operation though every ping is answered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from railweave.experiments import Chart, Experiment, Outcome
from railweave.transport.packets import Service
from railweave.transport.verbs import (
    GRH_BYTES,
    Access,
    Connection,
    DirectWire,
    MemoryRegion,
    Network,
    QueuePair,
    ReceiveRequest,
    SendOpcode,
    SendRequest,
    WcStatus,
    Wire,
    connect,
)

__all__ = ["REACHABLE", "reachable"]

_PING_BYTES: Final = 56
_MESSAGE_BYTES: Final = 65_536
_RNR_RETRIES: Final = 3
_PINGS: Final = 2  #: for each case: before it and after it
_QKEY: Final = 0x1111_1111


class _Pings:
    """An echo service on host 1 and a program on host 0 that uses it, over datagrams.

    The service always has a receive posted, as ``ibping`` or a kernel that answers a ping has.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.pairs: list[QueuePair] = []
        self.regions: list[MemoryRegion] = []
        for host in network.hosts:
            domain = host.alloc_pd()
            buffer = host.allocate(GRH_BYTES + _PING_BYTES)
            queue = host.create_cq(64)
            self.regions.append(host.reg_mr(domain, buffer, Access.LOCAL_WRITE))
            self.pairs.append(host.create_qp(Service.UD, domain, queue))
        connect(self.pairs[0], self.pairs[1], Connection(qkey=_QKEY))

    def ping(self) -> float:
        """Send a datagram and wait for its echo; the round trip in seconds, NaN for none."""
        network = self.network
        start_s = network.now_s
        arrival_s = start_s
        for asker, answerer in ((0, 1), (1, 0)):
            region = self.regions[answerer]
            self.pairs[answerer].post_recv(ReceiveRequest(1, (region.sge(),)))
            self.pairs[asker].post_send(
                SendRequest(
                    2,
                    SendOpcode.SEND,
                    (self.regions[asker].sge(0, _PING_BYTES),),
                    remote_qpn=self.pairs[answerer].number,
                    remote_qkey=_QKEY,
                )
            )
            network.run()
            came = [
                done
                for done in self.pairs[answerer].recv_cq.poll(64)
                if done.wr_id == 1 and done.status is WcStatus.SUCCESS
            ]
            if not came:
                return math.nan
            arrival_s = came[0].time_s
        return arrival_s - start_s


@dataclass(frozen=True, slots=True)
class _Case:
    """One operation: its kind, the right that the responder's region has, the receives posted."""

    name: str
    opcode: SendOpcode
    right: Access
    receives: int = 0


def _operate(network: Network, case: _Case, number: int) -> tuple[WcStatus | None, int]:
    """Run one operation on a connection of its own: the requester's status, bytes that moved."""
    pairs, regions = [], []
    for host in network.hosts:
        domain = host.alloc_pd()
        buffer = host.allocate(_MESSAGE_BYTES)
        access = Access.LOCAL_WRITE | case.right if host.number else Access.NONE
        regions.append(host.reg_mr(domain, buffer, access))
        pairs.append(host.create_qp(Service.RC, domain, host.create_cq(16)))
    data = bytes(1 + (number + k) % 255 for k in range(_MESSAGE_BYTES))  # no byte is zero
    network.hosts[0].memory.write(regions[0].address, data)
    connect(pairs[0], pairs[1], Connection(rnr_retry=_RNR_RETRIES))
    for _ in range(case.receives):
        pairs[1].post_recv(ReceiveRequest(1, (regions[1].sge(),)))
    named = case.opcode is SendOpcode.RDMA_WRITE
    pairs[0].post_send(
        SendRequest(
            2,
            case.opcode,
            (regions[0].sge(),),
            remote_address=regions[1].address if named else 0,
            rkey=regions[1].rkey if named else 0,
        )
    )
    network.run()
    done = pairs[0].send_cq.poll(1)
    held = network.hosts[1].memory.read(regions[1].address, _MESSAGE_BYTES)
    moved = sum(a == b for a, b in zip(data, held, strict=True))
    return (done[0].status if done else None), moved


def reachable(right: Access = Access.NONE, receives: int = 0, wire: Wire | None = None) -> Outcome:
    """Run two good operations and two spoiled ones on one network, with pings between them.

    Args:
        right: that the second region gives to the network, beside what it gives its own host.
        receives: that are posted for the second SEND.
        wire: between the hosts; a cable of 1 µs where none is given.
    """
    network = Network(wire or DirectWire())
    pings = _Pings(network)
    cases = {
        "good_write": _Case("WRITE", SendOpcode.RDMA_WRITE, Access.REMOTE_WRITE),
        "no_right": _Case("WRITE, no right", SendOpcode.RDMA_WRITE, right),
        "good_send": _Case("SEND", SendOpcode.SEND, Access.NONE, receives=1),
        "no_receive": _Case("SEND, no receive", SendOpcode.SEND, Access.NONE, receives),
    }
    values: dict[str, float] = {}
    ended: dict[str, WcStatus | None] = {}
    for number, (key, case) in enumerate(cases.items()):
        trips = [pings.ping()]
        ended[key], moved = _operate(network, case, number)
        trips.append(pings.ping())
        answered = [trip for trip in trips if not math.isnan(trip)]
        values[f"{key}_pings_answered"] = float(len(answered))
        values[f"{key}_ping_s"] = max(answered, default=0.0)
        values[f"{key}_moved_bytes"] = float(moved)
        status = ended[key]
        values[f"{key}_status"] = -1.0 if status is None else float(status)
    wanted = {
        "good_write": (WcStatus.SUCCESS, _MESSAGE_BYTES),
        "no_right": (WcStatus.REM_ACCESS_ERR, 0),
        "good_send": (WcStatus.SUCCESS, _MESSAGE_BYTES),
        "no_receive": (WcStatus.RNR_RETRY_EXC_ERR, 0),
    }
    holds = all(
        values[f"{key}_pings_answered"] == _PINGS
        and (ended[key], values[f"{key}_moved_bytes"]) == wanted[key]
        for key in cases
    )
    return Outcome(values, (_chart(cases, values),), holds, _reading(cases, values, ended))


def _chart(cases: Mapping[str, _Case], values: Mapping[str, float]) -> Chart:
    from railweave.experiments._bench import series

    names = [case.name for case in cases.values()]
    pinged = [100 * values[f"{key}_pings_answered"] / _PINGS for key in cases]
    moved = [100 * values[f"{key}_moved_bytes"] / _MESSAGE_BYTES for key in cases]
    frame = series([("pings answered", names, pinged), ("bytes moved", names, moved)])
    return Chart("pings-and-bytes", frame, "", "%", kind="bar")


def _reading(
    cases: Mapping[str, _Case],
    values: Mapping[str, float],
    ended: Mapping[str, WcStatus | None],
) -> str:
    told = "; ".join(
        f"{case.name}: {_name(ended[key])}, {values[f'{key}_moved_bytes']:,.0f} B moved"
        for key, case in cases.items()
    )
    count = sum(values[f"{key}_pings_answered"] for key in cases)
    return (
        f"{count:.0f} of {_PINGS * len(cases)} pings were answered, before and after each "
        f"operation. {told}."
    )


def _name(status: WcStatus | None) -> str:
    return "no completion" if status is None else status.name


REACHABLE: Final = Experiment(
    "lesson-reachable",
    "A missing right and a missing receive on a network that answers every ping",
    "Every ping is answered before and after each operation, and yet the WRITE without the right "
    "and the SEND without a receive fail and move no byte, where the same with both succeed.",
    {
        "network": "two hosts, one wire of 1 µs at 400 Gb/s; all runs on it one after the other",
        "pings": "a datagram of 56 B to an echo service that always has a receive posted",
        "operations": "WRITE and SEND of 64 KiB on reliable connections, 3 RNR retries",
        "spoiled": "the region lacks remote write; no receive is posted",
    },
    reachable,
)
