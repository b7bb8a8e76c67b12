"""``railweave packet journey``: one RDMA operation followed hop by hop through a design."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from railweave.cli._options import Fail, Json, Seed
from railweave.cli._output import print_json
from railweave.errors import InputError

__all__ = ["register"]

_EVENTS: Final = 16
_ATOMIC_BYTES: Final = "8 B"


class OperationName(StrEnum):
    """Operations of ``railweave.transport.verbs.operation``, which loads later than this."""

    SEND = "send"
    SEND_IMMEDIATE = "send-imm"
    WRITE = "write"
    WRITE_IMMEDIATE = "write-imm"
    READ = "read"
    COMPARE_SWAP = "cas"
    FETCH_ADD = "faa"


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


class FaultName(StrEnum):
    """Faults of :mod:`railweave.transport.verbs.operation`."""

    NONE = "none"
    BAD_RKEY = "bad-rkey"
    NO_RIGHT = "no-right"
    OUT_OF_BOUNDS = "out-of-bounds"
    LOST_PACKET = "lost-packet"
    LOST_ACK = "lost-ack"
    NO_RECEIVE = "no-receive"
    SHORT_RECEIVE = "short-receive"
    WRONG_STATE = "wrong-state"
    BAD_LKEY = "bad-lkey"
    WRONG_PD = "wrong-pd"
    DEAD_PEER = "dead-peer"


class IpVersion(StrEnum):
    """Versions of IP."""

    FOUR = "4"
    SIX = "6"


Operation = Annotated[
    OperationName, typer.Option("--op", help="What is posted; cas and faa are the atomics.")
]
Size = Annotated[
    str | None, typer.Option("--size", help="Of the message, such as 64KiB; atomics: 8 B.")
]
Mtu = Annotated[
    int | None,
    typer.Option("--mtu", help="Payload of a packet: 256 to 4096; default: the plane's."),
]
Source = Annotated[str, typer.Option("--from", help="Who posts it, such as node001/gpu0.")]
Target = Annotated[str, typer.Option("--to", help="The other end, such as node002/gpu3.")]
Pcap = Annotated[
    Path | None,
    typer.Option(
        "--pcap",
        help="Write a capture: NAME.pcap holds one port, NAME.pcapng every hop as an interface.",
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at", help="Port that the capture is of: leaf-1:port-3, or an end. Default: the sender's."
    ),
]
Plane = Annotated[PlaneName, typer.Option("--plane", help="Whose network and transport.")]
TheService = Annotated[ServiceName, typer.Option("--service", help="Of the queue pair.")]
IpVersionOption = Annotated[
    IpVersion, typer.Option("--ip-version", help="6: unique local addresses from the IPv4 ones.")
]
QueuePair = Annotated[
    int,
    typer.Option("--queue-pair", min=0, help="Which of the connection's, where it has several."),
]
TheFault = Annotated[FaultName, typer.Option("--fault", help="What goes wrong.")]
LostPacket = Annotated[
    int | None,
    typer.Option(
        "--lost-packet", min=0, help="With the fault lost-packet: which one, from 0. Default 0."
    ),
]
LostAt = Annotated[
    str | None,
    typer.Option(
        "--lost-at", help="Port or device on whose link it is lost. Default: the first link."
    ),
]
Retries = Annotated[
    int, typer.Option("--retries", min=0, max=7, help="After a time-out or a sequence error.")
]
RnrRetries = Annotated[
    int,
    typer.Option(
        "--rnr-retries", min=0, max=7, help="While the peer has no receive posted; 7 has no end."
    ),
]
Timeout = Annotated[
    int,
    typer.Option(
        "--timeout", min=0, max=31, help="ACK timeout of 4.096 us x 2^code; 14 is 67 ms, 0 never."
    ),
]
Congested = Annotated[
    str | None,
    typer.Option(
        "--congested",
        help="Port or device where a queue of others stands, by which packets are marked.",
    ),
]
Queue = Annotated[
    str | None,
    typer.Option("--queue", help="Size of that queue. Default: just above Kmax, all are marked."),
]
Packet = Annotated[
    int | None,
    typer.Option("--packet", min=0, help="Whose hops are shown. Default: the first with payload."),
]
Events = Annotated[
    int, typer.Option("--events", min=2, help="Most steps to print of each part of the trace.")
]


def _bytes(option: str, text: str) -> int:
    from railweave.units import parse_bytes

    try:
        return parse_bytes(text)
    except InputError as error:
        raise InputError(f"{option} {text}: {error}") from None


def register(group: typer.Typer) -> None:
    """Add the command to the group ``railweave packet``."""

    @group.command()
    def journey(  # noqa: PLR0917 - the options of a command
        design: Annotated[
            Path, typer.Option("--design", help="Design file (YAML) whose network it crosses.")
        ],
        source: Source,
        target: Target,
        operation: Operation = OperationName.WRITE,
        size: Size = None,
        mtu: Mtu = None,
        plane: Plane = PlaneName.BACKEND,
        service: TheService = ServiceName.RC,
        ip_version: IpVersionOption = IpVersion.FOUR,
        queue_pair: QueuePair = 0,
        pcap: Pcap = None,
        at: At = None,
        fault: TheFault = FaultName.NONE,
        lost_packet: LostPacket = None,
        lost_at: LostAt = None,
        retries: Retries = 7,
        rnr_retries: RnrRetries = 7,
        timeout: Timeout = 14,
        congested: Congested = None,
        queue: Queue = None,
        packet: Packet = None,
        events: Events = _EVENTS,
        seed: Seed = None,
        fail: Fail = None,
        json: Json = False,
    ) -> None:
        """Follow an RDMA operation hop by hop: trace, time on each hop, headers, a capture.

        Example: railweave packet journey --op write --size 64KiB --mtu 4096 --design
        examples/juniper-16-leaf.yaml --from node001/gpu0 --to node002/gpu3 --pcap out.pcap
        """
        from railweave.api import load
        from railweave.fabric import PlaneId
        from railweave.transport.journey import JourneyCase, packet_journey
        from railweave.transport.packets import Service
        from railweave.transport.verbs.operation import Fault, OperationCase
        from railweave.transport.verbs.operation import Operation as Kind

        _check(pcap, at, fault, lost_packet, congested, queue)
        atomic = operation in (OperationName.COMPARE_SWAP, OperationName.FETCH_ADD)
        case = OperationCase(
            operation=Kind(operation.value),
            size_bytes=_bytes("--size", size or (_ATOMIC_BYTES if atomic else "64 KiB")),
            mtu_bytes=mtu if mtu in _QP_MTUS else _QP_MTUS[-1],
            service=Service[service.name],
            fault=Fault(fault.value),
            lost_packet=lost_packet or 0,
            retry_count=retries,
            rnr_retry=rnr_retries,
            timeout=timeout,
        )
        built = load(design).build().fail(fail or ())
        found = packet_journey(
            JourneyCase(
                case,
                source,
                target,
                plane=PlaneId[plane.name],
                mtu_bytes=mtu,
                ip_version=int(ip_version.value),
                queue_pair=queue_pair,
                congested=congested,
                queue_bytes=None if queue is None else _bytes("--queue", queue),
                lost_at=lost_at,
                seed=seed,
            ),
            built,
        )
        if packet is not None:
            found.hop_times(packet)  # refuses a packet that is not there before anything is written
        written = None if pcap is None else found.write(pcap, at or "")
        if json:
            document = found.to_json(packet)
            document["capture"] = (
                None
                if written is None
                else {"file": str(pcap), "packets": written[0], "ports": list(written[1])}
            )
            print_json(document)
            return
        from railweave.cli._packet_journey_text import tell_capture, tell_journey

        tell_journey(found, packet, events)
        if written is not None:
            tell_capture(*written, str(pcap))


#: path MTUs that a queue pair can have; on TCP a segment can have any
_QP_MTUS: Final = (256, 512, 1024, 2048, 4096)


def _check(  # noqa: PLR0917 - options that speak of each other
    pcap: Path | None,
    at: str | None,
    fault: FaultName,
    lost_packet: int | None,
    congested: str | None,
    queue: str | None,
) -> None:
    """Refuse options that would do nothing.

    Raises:
        InputError: one that speaks of another which is not given.
    """
    if pcap is not None:
        from railweave.transport.journey._capture import check_capture_name

        check_capture_name(pcap)
    elif at is not None:
        raise InputError("--at says which port the capture is of; add --pcap FILE, or leave it out")
    if lost_packet is not None and fault is not FaultName.LOST_PACKET:
        raise InputError(
            f"--lost-packet with --fault {fault.value}: allowed with --fault lost-packet"
        )
    if queue is not None and congested is None:
        raise InputError("--queue says how much stands at a hop; add --congested PORT")
