"""Lab 4's inputs, what they run, and what a visitor chooses from. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from railweave.errors import InputError
from railweave.transport.codec import Carrier, Envelope
from railweave.transport.packets import BTH_AND_ICRC_BYTES, MTU_BYTES, IbPacket, Service
from railweave.transport.verbs import AdapterTiming
from railweave.transport.verbs.operation import (
    ATOMIC_BYTES,
    Fault,
    Operation,
    OperationCase,
    OperationRun,
    applicable_faults,
    expected_packets,
    run_operation,
)
from railweave.units import parse_quantity

if TYPE_CHECKING:
    from railweave.transport.journey import JourneyCase, PacketJourney

__all__ = [
    "MOST_PACKETS",
    "Network",
    "PlaneName",
    "Played",
    "ServiceName",
    "State",
    "Where",
    "bare",
    "ends_of",
    "envelopes",
    "fitting",
    "journey_case",
    "operation_case",
    "played",
    "timing_of",
]

#: packets of one message that the lab lists, and bytes of one that it keeps
MOST_PACKETS: Final = 16_384
MOST_BYTES: Final = 16 * 1024**2
_ATOMICS: Final = (Operation.COMPARE_SWAP, Operation.FETCH_ADD)
_IPV6_MORE: Final = 20


class Network(StrEnum):
    """What carries the packets between two hosts on a wire."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"
    INFINIBAND = "infiniband"


class Where(StrEnum):
    """What is between the two hosts."""

    WIRE = "wire"
    DESIGN = "design"


class ServiceName(StrEnum):
    """Transport services."""

    RC = "rc"
    UC = "uc"
    UD = "ud"


class PlaneName(StrEnum):
    """Planes of a design."""

    BACKEND = "backend"
    FRONTEND = "frontend"
    STORAGE = "storage"
    MANAGEMENT = "management"


@dataclass(frozen=True, slots=True)
class State:
    """The lab's inputs, and what is selected: ``step`` of the trace, ``packet``, ``field`` of it.

    ``rnr`` is below 7, with which a sender waits for a receive without end. ``at`` is the port of
    the design at which packets are seen; "" is the sender's.
    """

    operation: Operation = Operation.WRITE
    size: str = "16 KiB"
    mtu: int = 4096
    service: ServiceName = ServiceName.RC
    fault: Fault = Fault.NONE
    lost: int = 1
    retries: int = 7
    timeout: int = 14
    rnr: int = 6
    rnr_timer: int = 12
    network: Network = Network.IPV4
    where: Where = Where.WIRE
    plane: PlaneName = PlaneName.BACKEND
    source: str = ""
    target: str = ""
    at: str = ""
    step: int = 0
    packet: int = 0
    field: str = ""


def bare(state: State) -> State:
    """Return the inputs without what is selected: runs do not depend on it."""
    return replace(state, step=0, packet=0, field="")


def fitting(state: State) -> tuple[State, tuple[str, ...]]:
    """Return the nearest inputs that can be, and what had to be changed.

    Only choices are looked at; numbers out of their range are refused where they are used.
    """
    said = []
    served: Mapping[ServiceName, tuple[Operation, ...]] = services_of()
    if state.operation not in served[state.service]:
        name = state.service.value.upper()
        said.append(f"{name} has no {state.operation.value}: the service is RC instead.")
        state = replace(state, service=ServiceName.RC)
    faults = applicable_faults(state.operation, Service[state.service.name])
    if state.fault not in faults:
        said.append(f"The fault {state.fault.value} is none of {state.operation.value}: left out.")
        state = replace(state, fault=Fault.NONE)
    if state.mtu not in MTU_BYTES:
        said.append(f"A path MTU of {state.mtu} B cannot be: 4096 B instead.")
        state = replace(state, mtu=4096)
    if state.where is Where.DESIGN and state.network is Network.INFINIBAND:
        state = replace(state, network=Network.IPV4)  # there the plane decides
    return state, tuple(said)


@lru_cache(maxsize=1)
def services_of() -> Mapping[ServiceName, tuple[Operation, ...]]:
    """Return the operations of each service, as the model has them."""
    found: dict[ServiceName, tuple[Operation, ...]] = {}
    for name in ServiceName:
        served = []
        for operation in Operation:
            size = ATOMIC_BYTES if operation in _ATOMICS else 1
            try:
                OperationCase(operation, size, service=Service[name.name])
            except InputError:
                continue
            served.append(operation)
        found[name] = tuple(served)
    return found


def operation_case(state: State) -> OperationCase:
    """Return what is to be run; an atomic moves 8 bytes whatever the size says.

    Raises:
        InputError: a size that cannot be read or is too much for the lab, a number out of range.
    """
    atomic = state.operation in _ATOMICS
    size = parse_quantity(state.size, "size")
    if not atomic and (size != int(size) or not 0 <= size <= MOST_BYTES):
        raise InputError(
            f"size {state.size}: the lab takes whole bytes from 0 B to {MOST_BYTES >> 20} MiB; "
            "railweave.transport.verbs.operation takes up to 64 MiB"
        )
    case = OperationCase(
        operation=state.operation,
        size_bytes=ATOMIC_BYTES if atomic else int(size),
        mtu_bytes=state.mtu,
        service=Service[state.service.name],
        fault=state.fault,
        lost_packet=state.lost if state.fault is Fault.LOST_PACKET else 0,
        retry_count=state.retries,
        rnr_retry=state.rnr,
        timeout=state.timeout,
        min_rnr_timer=state.rnr_timer,
    )
    count = expected_packets(case)
    if count > MOST_PACKETS:
        raise InputError(
            f"{state.size} at an MTU of {state.mtu} B are {count:,} packets, more than the lab "
            f"lists ({MOST_PACKETS:,}); take a larger MTU or a smaller message"
        )
    return case


# ---------------------------------------------------------------- two hosts on a wire


def timing_of(network: Network) -> AdapterTiming:
    """Return the adapters' timing: the model's own, with the bytes of this network's headers."""
    from railweave.design.models import Transport
    from railweave.fabric.wire import framing, least_wire_bytes

    infiniband = network is Network.INFINIBAND
    parts = framing(Transport.INFINIBAND if infiniband else Transport.ROCEV2)
    more = _IPV6_MORE if network is Network.IPV6 else 0
    return AdapterTiming(
        overhead_bytes=parts.overhead_bytes - BTH_AND_ICRC_BYTES + more,
        least_bytes=least_wire_bytes(parts),
    )


def envelopes(network: Network) -> tuple[Envelope, Envelope]:
    """Return what is below the transport, there and back, for two hosts on a wire."""
    there = Envelope()
    if network is Network.INFINIBAND:
        there = Envelope(carrier=Carrier.INFINIBAND)
    elif network is Network.IPV6:
        there = Envelope(source_ip="fd00::1", target_ip="fd00::2")
    back = replace(
        there,
        source_mac=there.target_mac,
        target_mac=there.source_mac,
        source_ip=there.target_ip,
        target_ip=there.source_ip,
        source_lid=there.target_lid,
        target_lid=there.source_lid,
    )
    return there, back


# ---------------------------------------------------------------- on the design


def ends_of(state: State, text: str) -> tuple[str, str]:
    """Return the names of both ends on a design: those asked for, or its farthest two GPUs."""
    from railweave.studio.designs import built_design
    from railweave.studio.labs._fabric_path import two_gpus

    if state.source and state.target:
        return state.source, state.target
    first, last = two_gpus(built_design(text).fabric)
    return state.source or first, state.target or last


def journey_case(state: State, text: str) -> JourneyCase:
    """Return the journey that is to be made through a design."""
    from railweave.fabric import PlaneId
    from railweave.transport.journey import JourneyCase

    source, target = ends_of(state, text)
    return JourneyCase(
        operation_case(state),
        source,
        target,
        plane=PlaneId[state.plane.name],
        mtu_bytes=state.mtu,
        ip_version=6 if state.network is Network.IPV6 else 4,
    )


# ---------------------------------------------------------------- a run


@dataclass(frozen=True, eq=False)
class Played:
    """A run with what the lab shows of it.

    ``packets`` are as they were sent, ``wire_bytes`` what each took on a link. ``journey`` is None
    where the hosts are on a wire. ``names`` are those of the hosts, ``fabric`` lines that say what
    is between them.
    """

    run: OperationRun
    packets: tuple[IbPacket, ...]
    wire_bytes: tuple[int, ...]
    journey: PacketJourney | None
    names: tuple[str, str]
    fabric: tuple[str, ...]


@lru_cache(maxsize=4)
def played(state: State, text: str) -> Played:
    """Run an operation, on a wire or through a design.

    Args:
        state: of :func:`bare`.
        text: the design; "" for a wire.

    Raises:
        InputError: what cannot be run; says what is allowed.
    """
    if state.where is Where.DESIGN:
        return _through(state, text)
    timing = timing_of(state.network)
    run = run_operation(operation_case(state), timing=timing)
    packets = tuple(one.packet for one in run.sent)
    sizes = tuple(timing.wire_bytes(packet) for packet in packets)
    return Played(run, packets, sizes, None, ("host 0", "host 1"), ("a wire",))


def _through(state: State, text: str) -> Played:
    from railweave.studio.designs import built_design
    from railweave.transport.journey import packet_journey

    journey = packet_journey(journey_case(state, text), built_design(text))
    run = journey.run
    source, target = journey.ends.source_name, journey.ends.target_name
    if not isinstance(run, OperationRun):
        plane = state.plane.value
        why = (
            f"{source} and {target} share a scale-up domain: their bytes are no packets of the "
            "network; choose ends in different servers"
            if journey.inside
            else f"the {plane} plane is TCP, which has no RDMA; choose a plane of RoCEv2 or "
            "InfiniBand (lab 1 and railweave packet journey show TCP)"
        )
        raise InputError(why)
    way = journey.ways[0]
    switches = tuple(hop.target for hop in way.hops if hop.is_switch)
    sizes = tuple(int(size) for size in journey.times.wire_bytes)
    return Played(run, journey.packets, sizes, journey, (source, target), switches)
