"""``railweave packet decode``: what a capture of RDMA traffic tells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from railweave.cli._options import Json, Strict
from railweave.cli._output import exit_code, print_json
from railweave.errors import InputError

if TYPE_CHECKING:
    from railweave.transport.capture import CaptureStudy

__all__ = ["register"]

_SHOWN: Final = 20
_IN_JSON: Final = 1_000
_MOST_QP: Final = (1 << 24) - 1

File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Capture: pcap or pcapng, packed by gzip or not."),
]
Number = Annotated[
    int | None,
    typer.Option("--packet", metavar="N", min=1, help="Print this packet, header by header."),
]
Packets = Annotated[bool, typer.Option("--packets", help="List the packets, one a line.")]
Start = Annotated[
    int | None,
    typer.Option("--start", metavar="N", min=1, help="--packets: the first one. Default 1."),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        min=0,
        help=f"Queue pairs, messages or packets to list. Default {_SHOWN}; of messages and packets "
        f"in JSON {_IN_JSON:,}.",
    ),
]
TheQp = Annotated[
    str | None,
    typer.Option("--qp", metavar="NUMBER", help="Only this queue pair: 291 or 0x123."),
]


def _qp(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number <= _MOST_QP:
        raise InputError(
            f"--qp {text}: is no queue pair number; allowed: 0 to {_MOST_QP:,}, or 0x0 to "
            f"0x{_MOST_QP:x}"
        )
    return number


def _check(number: int | None, packets: bool, start: int | None, others: dict[str, bool]) -> None:
    """Refuse options that speak of different things."""
    if number is not None:
        given = [name for name, there in others.items() if there]
        if packets:
            given.insert(0, "--packets")
        if given:
            raise InputError(f"{', '.join(given)} and --packet: that prints one packet; take one")
    if start is not None and not packets:
        raise InputError("--start speaks of the list of packets; add --packets")
    if packets and others["--strict"]:
        raise InputError("--strict speaks of findings, and --packets makes none; take one")


def _explain(file: Path, qp: int | None, *, quiet: bool) -> CaptureStudy:
    from dataclasses import replace

    from railweave.cli._progress import progress
    from railweave.transport.capture import explain_capture

    with progress(quiet=quiet) as report_step:
        study = explain_capture(file, progress=lambda part: report_step("reading packets", part))
    if qp is None:
        return study
    pairs = [p for p in study.queue_pairs if qp in {p.target_qp, p.source_qp}]
    if not pairs:
        raise InputError(
            f"--qp {qp}: no packet of {file} goes to queue pair 0x{qp:x}; leave --qp out to see "
            "those that are there"
        )
    numbers = {pair.number for pair in pairs}
    messages = tuple(m for m in study.messages if m.flow in numbers)
    return replace(study, queue_pairs=tuple(pairs), messages=messages)


def register(group: typer.Typer) -> None:
    """Add the command to the group."""

    @group.command()
    def decode(  # noqa: PLR0917 - the options of a command
        file: File,
        packet: Number = None,
        packets: Packets = False,
        start: Start = None,
        limit: Limit = None,
        qp: TheQp = None,
        strict: Strict = False,
        json: Json = False,
    ) -> None:
        """Explain a capture: queue pairs, messages, losses, NAKs, congestion, wrong ICRCs.

        Example: railweave packet decode capture.pcapng --qp 0x11
        """
        from railweave.cli import _packet_decode_text as text

        number = _qp(qp)
        others = {"--limit": limit is not None, "--qp": qp is not None, "--strict": strict}
        _check(packet, packets, start, others)
        if packet is not None:
            text.show_packet(file, packet, json=json)
            return
        most = limit if limit is not None else _IN_JSON if json else _SHOWN
        if packets:
            text.show_list(file, start or 1, most, number, json=json)
            return
        study = _explain(file, number, quiet=json)
        if json:
            print_json(study.to_json(most))
        else:
            text.show_study(study, most)
        raise typer.Exit(exit_code(study.findings, strict=strict))
