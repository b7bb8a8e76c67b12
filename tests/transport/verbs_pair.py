"""Two hosts for the tests of the verbs model: connected pairs, wires that misbehave, snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from railweave.transport.packets import IbPacket, Service
from railweave.transport.verbs import (
    Access,
    Arrival,
    Connection,
    DirectWire,
    MemoryRegion,
    Network,
    QpCapabilities,
    QpState,
    ReceiveRequest,
    SendOpcode,
    SendRequest,
    WcStatus,
    Wire,
    WorkCompletion,
    connect,
)

ALL = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC


class LossyWire:
    """A cable that loses packet n where ``lose(n, packet, source)`` is true, and marks others."""

    def __init__(
        self, lose: Callable[[int, IbPacket, int], bool], mark: Iterable[int] = ()
    ) -> None:
        self._lose = lose
        self._mark = set(mark)
        self._below = DirectWire()
        self._count = 0
        self.lost: list[IbPacket] = []

    def carry(self, packet: IbPacket, source: int, now_s: float) -> Arrival | None:
        number = self._count
        self._count += 1
        arrival = self._below.carry(packet, source, now_s)
        assert arrival is not None
        if self._lose(number, packet, source):
            self.lost.append(packet)
            return None
        if number in self._mark:
            marked = replace(packet, bth=replace(packet.bth, fecn=True))
            return Arrival(arrival.time_s, marked)
        return arrival


class Pair:
    """A connected queue pair on each of two hosts, with one region each of ``size`` bytes."""

    def __init__(
        self,
        service: Service = Service.RC,
        *,
        size: int = 16384,
        wire: Wire | None = None,
        access: Access = ALL,
        connection: Connection | None = None,
        capabilities: QpCapabilities | None = None,
        cq_entries: int = 1024,
        pkeys: tuple[int, ...] = (0xFFFF,),
        up: bool = True,
    ) -> None:
        connection = connection or Connection(mtu_bytes=256)
        mtu = connection.mtu_bytes if service is Service.UD else 4096
        self.service = service
        self.network = Network(wire, port_mtu_bytes=mtu, pkeys=pkeys)
        self.hosts = self.network.hosts
        self.pds = [host.alloc_pd() for host in self.hosts]
        self.buffers = [host.allocate(size) for host in self.hosts]
        self.regions = [
            host.reg_mr(pd, buffer, access)
            for host, pd, buffer in zip(self.hosts, self.pds, self.buffers, strict=True)
        ]
        self.cqs = [host.create_cq(cq_entries) for host in self.hosts]
        self.qps = [
            host.create_qp(service, pd, cq, capabilities=capabilities)
            for host, pd, cq in zip(self.hosts, self.pds, self.cqs, strict=True)
        ]
        if up:
            connect(self.qps[0], self.qps[1], connection)

    def fill(self, host: int, data: bytes, offset: int = 0) -> None:
        self.hosts[host].memory.write(self.buffers[host].address + offset, data)

    def data(self, host: int, offset: int = 0, length: int | None = None) -> bytes:
        buffer = self.buffers[host]
        length = buffer.length - offset if length is None else length
        return self.hosts[host].memory.read(buffer.address + offset, length)

    def send(
        self,
        opcode: SendOpcode,
        offset: int,
        length: int,
        to: int = 0,
        *,
        wr_id: int = 1,
        **other: object,
    ) -> None:
        """Post a request of host 0 on ``length`` bytes from ``offset`` on, at ``to`` of host 1."""
        values: dict[str, object] = {
            "remote_address": self.regions[1].address + to,
            "rkey": self.regions[1].rkey,
        }
        if self.service is Service.UD:
            values |= {"remote_qpn": self.qps[1].number, "remote_qkey": 0x1111_1111}
        values |= other
        sges = (self.regions[0].sge(offset, length),) if length else ()
        values.setdefault("sges", sges)
        self.qps[0].post_send(SendRequest(wr_id, opcode, **values))  # type: ignore[arg-type]

    def receive(self, offset: int, length: int, *, wr_id: int = 100) -> None:
        self.qps[1].post_recv(ReceiveRequest(wr_id, (self.regions[1].sge(offset, length),)))

    def run(self) -> tuple[list[WorkCompletion], list[WorkCompletion]]:
        """Let everything happen; gives the completions of host 0 and host 1."""
        self.network.run()
        return self.cqs[0].poll(1024), self.cqs[1].poll(1024)

    def ended(self) -> tuple[list[WcStatus], list[WcStatus]]:
        """Let everything happen; gives the statuses of host 0 and host 1."""
        one, two = self.run()
        return [each.status for each in one], [each.status for each in two]

    def opcodes(self, source: int) -> list[str]:
        """Name what a host sent."""
        return [
            each.packet.operation.name if each.packet.operation is not None else "CNP"
            for each in self.network.sent
            if each.source == source
        ]

    def says(self, text: str) -> bool:
        """Tell whether the trace has a sentence with this in it."""
        return any(text in event.what for event in self.network.events)


def outside(network: Network, *regions: MemoryRegion) -> tuple[bytes, ...]:
    """Copy all memory of both hosts with the named regions zeroed."""
    copies = []
    for host in network.hosts:
        memory = host.memory
        data = bytearray(memory.read(memory.base, len(memory)))
        for region in regions:
            if region.pd.host == host.number:
                start = region.address - memory.base
                data[start : start + region.length] = bytes(region.length)
        copies.append(bytes(data))
    return tuple(copies)


class ShakyWire:
    """A cable on which packets are lost, and overtake each other, as two lists of numbers say."""

    def __init__(self, lost: frozenset[int], late: frozenset[int], late_s: float = 3e-6) -> None:
        self._lost, self._late, self._late_s = lost, late, late_s
        self._below = DirectWire()
        self._count = 0

    def carry(self, packet: IbPacket, source: int, now_s: float) -> Arrival | None:
        number = self._count
        self._count += 1
        arrival = self._below.carry(packet, source, now_s)
        if number in self._lost or arrival is None:
            return None
        return Arrival(arrival.time_s + (number in self._late) * self._late_s, arrival.packet)


def state_of(pair: Pair) -> tuple[QpState, QpState]:
    return pair.qps[0].state, pair.qps[1].state
