"""Two hosts with their adapters: where verbs objects are made and packets are handed out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from railweave.transport.packets import CNP_OPCODE, MTU_BYTES, Bth, IbPacket, Service
from railweave.transport.verbs._completions import CompletionQueue
from railweave.transport.verbs._memory import (
    Buffer,
    Memory,
    MemoryRegion,
    ProtectionDomain,
    RegionTable,
)
from railweave.transport.verbs._network import (
    AdapterTiming,
    DirectWire,
    EventLoop,
    Port,
    SentPacket,
    Trace,
    Wire,
)
from railweave.transport.verbs._queue_pair import QpCapabilities, QueuePair
from railweave.transport.verbs._types import Access, Actor, Part, Phase, VerbsError, VerbsEvent

__all__ = ["AsyncEvent", "Host", "Network"]

#: a notification point sends at most one CNP for a queue pair in this time (an assumption)
CNP_INTERVAL_S: Final = 50e-6
_MEMORY_BASES: Final = (0x7F00_0000_0000, 0x7FA0_0000_0000)


@dataclass(frozen=True, slots=True)
class AsyncEvent:
    """What an adapter tells software beside the completion queues; named as ``ibv_event_type``."""

    time_s: float
    name: str
    qp: int | None


def gid(host: int) -> bytes:
    """Give the 16-byte, link-local address of a host."""
    return bytes.fromhex("fe80000000000000020000fffe0000") + bytes([host + 1])


class Host:
    """One computer with one adapter of one port.

    ``pkeys`` is its partition table, ``port_mtu_bytes`` the longest payload that its port takes,
    ``gid`` its 16-byte address.
    """

    def __init__(
        self, number: int, trace: Trace, port_mtu_bytes: int, pkeys: tuple[int, ...]
    ) -> None:
        self.number = number
        self.trace = trace
        self.port_mtu_bytes = port_mtu_bytes
        self.pkeys = pkeys
        self.gid = gid(number)
        self.memory = Memory(_MEMORY_BASES[number])
        # Keys begin elsewhere on each host, so that one host's are not taken for the other's.
        self.regions = RegionTable(self.memory, count=0x10 * (number + 1))
        self.queue_pairs: dict[int, QueuePair] = {}
        self.async_events: list[AsyncEvent] = []
        self._domains = 0
        self._next_qp = 0x11
        self._cnp_at: dict[int, float] = {}
        self.port: Port

    def _register_event(self, actor: Actor, part: Part, what: str) -> None:
        self.trace.note(self.number, actor, part, Phase.REGISTER, what)

    def allocate(self, length: int) -> Buffer:
        """Give the application new, zeroed memory."""
        return self.memory.allocate(length)

    def alloc_pd(self) -> ProtectionDomain:
        """Make a protection domain."""
        self._domains += 1
        self._register_event(
            Actor.LIBRARY,
            Part.NIC,
            f"Protection domain {self._domains} is allocated (ibv_alloc_pd).",
        )
        return ProtectionDomain(self.number, self._domains)

    def reg_mr(self, pd: ProtectionDomain, buffer: Buffer, access: Access) -> MemoryRegion:
        """Register memory. Raises VerbsError (EINVAL, EFAULT)."""
        region = self.regions.register(pd, buffer.address, buffer.length, access)
        rights = (access.name or "").replace("|", ", ").replace("_", " ").lower()
        rights = rights if access else "local read only"
        self._register_event(
            Actor.LIBRARY,
            Part.MEMORY,
            f"The driver pins {buffer.length} B at {buffer.address:#x} and registers them "
            f"(ibv_reg_mr) with {rights}: lkey {region.lkey:#x}, rkey {region.rkey:#x}.",
        )
        self._register_event(
            Actor.ADAPTER,
            Part.NIC,
            f"The adapter has the region's addresses, bounds and rights in its table under "
            f"lkey {region.lkey:#x} and rkey {region.rkey:#x}.",
        )
        return region

    def dereg_mr(self, region: MemoryRegion) -> None:
        """Deregister memory; its keys name nothing from now on. Raises VerbsError."""
        self.regions.deregister(region)
        self._register_event(
            Actor.LIBRARY, Part.MEMORY, f"The region of lkey {region.lkey:#x} is deregistered."
        )

    def create_cq(self, capacity: int) -> CompletionQueue:
        """Make a completion queue. Raises VerbsError."""
        queue = CompletionQueue(self.number, capacity)
        self.trace.note(
            self.number,
            Actor.LIBRARY,
            Part.COMPLETION_QUEUE,
            Phase.CONNECT,
            f"A completion queue of {capacity} entries is made (ibv_create_cq).",
        )
        return queue

    def create_qp(
        self,
        service: Service,
        pd: ProtectionDomain,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue | None = None,
        *,
        capabilities: QpCapabilities | None = None,
        number: int | None = None,
    ) -> QueuePair:
        """Make a queue pair in RESET; ``number`` picks its 24-bit number.

        Raises:
            VerbsError: the domain or a completion queue is another host's, or the number is taken.
        """
        recv_cq = recv_cq or send_cq
        if pd.host != self.number or send_cq.host != self.number or recv_cq.host != self.number:
            raise VerbsError("protection domain and completion queues must be this host's")
        if number is None:
            number = self._next_qp
            while number in self.queue_pairs:
                number += 1
            self._next_qp = number + 1
        if number in self.queue_pairs or not 2 <= number < 2**24 - 1:
            raise VerbsError(f"queue pair number {number} is taken or reserved; allowed: another")
        pair = QueuePair(
            self,
            service,
            pd,
            send_cq,
            recv_cq,
            capabilities=capabilities or QpCapabilities(),
            number=number,
        )
        self.queue_pairs[number] = pair
        self.trace.note(
            self.number,
            Actor.LIBRARY,
            Part.QUEUE_PAIR,
            Phase.CONNECT,
            f"{service.name} queue pair {number:#x} is made (ibv_create_qp); it is in RESET.",
        )
        return pair

    def raise_event(self, name: str, qp: int | None, why: str) -> None:
        """Tell software something that is no completion."""
        self.async_events.append(AsyncEvent(self.trace.loop.now_s, name, qp))
        self.trace.adapter(
            self.number, Part.NIC, f"The adapter raises the asynchronous event {name}: {why}."
        )

    def route_header(self, packet: IbPacket) -> bytes:
        """Give the 40-byte GRH that a datagram from the other host has before its payload."""
        below = packet.transport_bytes
        first = (6 << 28).to_bytes(4, "big") + below.to_bytes(2, "big") + bytes((0x1B, 64))
        return first + gid(1 - self.number) + self.gid

    def receive(self, packet: IbPacket, index: int) -> None:
        """Take a packet off the wire and hand it to its queue pair, or drop it."""
        bth = packet.bth
        pair = self.queue_pairs.get(bth.dest_qp)
        if pair is None:
            self._drop(f"there is no queue pair {bth.dest_qp:#x} here", index)
        elif bth.opcode == CNP_OPCODE:
            self.trace.adapter(
                self.number,
                Part.NIC,
                f"A CNP for queue pair {bth.dest_qp:#x} arrives: its sender should slow down "
                "(the model does not change the rate).",
                index,
            )
        elif not self._same_partition(pair, bth.pkey):
            self._drop(f"P_Key {bth.pkey:#06x} is of another partition", index)
        else:
            if bth.fecn:
                self._notify_congestion(pair, packet)
            pair.receive(packet, index)

    def _drop(self, why: str, index: int) -> None:
        self.trace.adapter(self.number, Part.NIC, f"The adapter drops the packet: {why}.", index)

    def _same_partition(self, pair: QueuePair, pkey: int) -> bool:
        own = pair.pkey
        return (own ^ pkey) & 0x7FFF == 0 and bool((own | pkey) & 0x8000)

    def _notify_congestion(self, pair: QueuePair, packet: IbPacket) -> None:
        now_s = self.trace.loop.now_s
        last_s = self._cnp_at.get(pair.number)
        if last_s is not None and now_s - last_s < CNP_INTERVAL_S:
            return
        self._cnp_at[pair.number] = now_s
        to = packet.deth.source_qp if packet.deth else pair.attributes.dest_qpn or 0
        cnp = IbPacket(Bth(CNP_OPCODE, to, 0, migrated=False, pkey=pair.pkey, becn=True))
        self.port.send_first(cnp, "The packet came marked: the adapter sends a CNP to its sender.")


class Network:
    """Two hosts, 0 and 1, and the wire between them.

    Args:
        wire: what carries packets; a cable of 1 µs where none is given.
        timing: speed of the two adapters.
        port_mtu_bytes: longest payload of the ports.
        pkeys: the partition table of both hosts.

    ``events`` and ``sent`` grow as time runs on with :meth:`run`.
    """

    def __init__(
        self,
        wire: Wire | None = None,
        *,
        timing: AdapterTiming | None = None,
        port_mtu_bytes: int = 4096,
        pkeys: tuple[int, ...] = (0xFFFF,),
    ) -> None:
        if port_mtu_bytes not in MTU_BYTES:
            raise VerbsError(f"port MTU {port_mtu_bytes}; allowed: {MTU_BYTES}")
        timing = timing or AdapterTiming()
        self.loop = EventLoop()
        self.trace = Trace(self.loop)
        self.hosts = (
            Host(0, self.trace, port_mtu_bytes, pkeys),
            Host(1, self.trace, port_mtu_bytes, pkeys),
        )
        link = wire or DirectWire(timing=timing)
        for host in self.hosts:
            host.port = Port(host.number, self.trace, link, timing, self._deliver)

    @property
    def now_s(self) -> float:
        """Simulated time, seconds."""
        return self.loop.now_s

    @property
    def events(self) -> list[VerbsEvent]:
        """Steps so far."""
        return self.trace.events

    @property
    def sent(self) -> list[SentPacket]:
        """Packets so far, lost ones too."""
        return self.trace.sent

    def _deliver(self, host: int, packet: IbPacket, index: int) -> None:
        self.hosts[host].receive(packet, index)

    def run(self, until_s: float = float("inf")) -> None:
        """Let time run until nothing is left to do, or up to a time.

        With ``rnr_retry`` 7 and a receive that is never posted there is always something to do:
        give a time then.
        """
        self.loop.run(until_s)
