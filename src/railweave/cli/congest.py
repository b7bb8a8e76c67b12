"""``railweave congest``: one congested switch on a time axis, and sweeps of its thresholds."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from railweave.cli._options import Json
from railweave.cli._output import exit_code, print_findings, print_json, print_table, print_text

if TYPE_CHECKING:
    from railweave.engine.congest import CongestCase, CongestOutcome
    from railweave.engine.congest_sweep import SweepPoint
    from railweave.qos import EcnThresholds

__all__ = ["register"]

_WIDTH: Final = 80
_ECN: Final = "40%"
_PFC: Final = "80%"
_PROFILE: Final = "dcqcn-firmware"
_GRID_ECN: Final = "5%,20%,40%,60%"
_GRID_PFC: Final = "20%,50%,80%"
_GRID_PROFILES: Final = "dcqcn-firmware,dcqcn-paper,dcqcn-simulator"

Senders = Annotated[int, typer.Option("--senders", help="How many, each with a port of its own.")]
SenderSpeed = Annotated[str, typer.Option("--sender-speed", help="Of each sender's port.")]
EgressSpeed = Annotated[str, typer.Option("--egress-speed", help="Of the port they all send to.")]
Buffer = Annotated[str, typer.Option("--buffer", help="Of the switch, headroom included.")]
Ecn = Annotated[
    str | None,
    typer.Option(
        "--ecn",
        help=f"Queue from which packets are marked: 40% of the buffer, 6.4MB, 5%..20% (Kmin to"
        f" Kmax) or off; with --sweep several, by commas. Default {_ECN}; {_GRID_ECN} in a sweep.",
    ),
]
Pmax = Annotated[
    float, typer.Option("--pmax", help="Probability of a mark just below Kmax, above 0 to 1.")
]
Pfc = Annotated[
    str | None,
    typer.Option(
        "--pfc",
        help=f"Queue at which senders are paused: 80% of the buffer, 12.8MB or off; with --sweep"
        f" several. Default {_PFC}, or what headroom leaves; {_GRID_PFC} in a sweep.",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help=f"The senders' congestion control: none, {_GRID_PROFILES.replace(',', ', ')}, hpcc,"
        " timely, swift, dctcp, cubic, nscc, receiver-driven, ib-cc; with --sweep several."
        f" Default {_PROFILE}; the three of DCQCN in a sweep.",
    ),
]
Compare = Annotated[str | None, typer.Option("--compare", help="Another profile, shown beside it.")]
Size = Annotated[
    str | None, typer.Option("--size", help="Each sender sends so much; not with --duration.")
]
Duration = Annotated[
    str | None, typer.Option("--duration", help="Senders send for so long. Default 20ms.")
]
CableLength = Annotated[str, typer.Option("--cable", help="Length of every cable.")]
Mtu = Annotated[str, typer.Option("--mtu", help="Payload of a full packet.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of marking between Kmin and Kmax.")]
Sweep = Annotated[
    bool, typer.Option("--sweep", help="Simulate every combination of --ecn, --pfc, --profile.")
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Processes of a sweep. Default: one for each core."),
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the figure (HTML) and tables.")]


class _Asked(NamedTuple):
    """What the options ask for, thresholds in bytes.

    ``lowered`` is the text of PFC's where headroom lowered them.
    """

    base: CongestCase
    ecn: list[EcnThresholds | None]
    pfc: list[int | None]
    profiles: list[str]
    lowered: str


def _bytes(option: str, text: str, buffer_bytes: int) -> int:
    """Read a size, or a part of the buffer.

    Raises:
        InputError: it is neither, or above the buffer.
    """
    from railweave.errors import InputError
    from railweave.units import parse_bytes

    text = text.strip()
    allowed = f"allowed: 1% to 100% of the buffer, a size up to {buffer_bytes:,} B, or off"
    if text.endswith("%"):
        try:
            size = float(text[:-1]) / 100 * buffer_bytes
        except ValueError:
            raise InputError(f"{option} {text}: not a number before %; {allowed}") from None
    elif text[:1].isdigit() or text[:1] == ".":
        size = float(parse_bytes(text))
    else:
        raise InputError(f"{option} {text}: neither a percentage nor a size; {allowed}")
    if not 1 <= size <= buffer_bytes:
        raise InputError(f"{option} {text}: out of range; {allowed}")
    return round(size)


def _marks(text: str, pmax: float, buffer_bytes: int) -> EcnThresholds | None:
    from railweave.qos import EcnThresholds

    if text.strip() == "off":
        return None
    low, _, high = text.partition("..")
    kmin = _bytes("--ecn", low, buffer_bytes)
    return EcnThresholds(kmin, _bytes("--ecn", high, buffer_bytes) if high else kmin, pmax)


def _several(option: str, text: str, sweep: bool) -> list[str]:
    """Split a list by commas; without a sweep there is one value.

    Raises:
        InputError: several values without a sweep, or none.
    """
    from railweave.errors import InputError

    values = [value.strip() for value in text.split(",") if value.strip()]
    if not values:
        raise InputError(f"{option}: nothing is named; leave it out for the default")
    if len(values) > 1 and not sweep:
        raise InputError(f"{option} {text}: several values need --sweep; name one, or add --sweep")
    return list(dict.fromkeys(values))


def _base(  # noqa: PLR0917 - as many as the case has
    senders: int,
    speeds: tuple[str, str],
    buffer: str,
    size: str | None,
    duration: str | None,
    cable: str,
    mtu: str,
    seed: int,
) -> CongestCase:
    """Return the case without thresholds."""
    from railweave.engine.congest import DEFAULT_DURATION_S, CongestCase
    from railweave.errors import InputError
    from railweave.units import parse_bps, parse_bytes, parse_metres, parse_seconds

    if size is not None and duration is not None:
        raise InputError("--size and --duration: a run ends by one of them; leave the other out")
    return CongestCase(
        senders=senders,
        sender_bps=parse_bps(speeds[0]),
        egress_bps=parse_bps(speeds[1]),
        buffer_bytes=int(parse_bytes(buffer)),
        ecn=None,
        pfc_bytes=None,
        profile="none",
        size_bytes=None if size is None else parse_bytes(size),
        duration_s=DEFAULT_DURATION_S if duration is None else parse_seconds(duration),
        cable_m=parse_metres(cable),
        mtu_bytes=int(parse_bytes(f"{mtu} B" if mtu.strip().isdigit() else mtu)),
        seed=seed,
    )


def _thresholds(
    base: CongestCase,
    *,
    ecn: str | None,
    pmax: float,
    pfc: str | None,
    profile: str | None,
    sweep: bool,
) -> _Asked:
    """Read the thresholds and profiles; a PFC threshold by default is what headroom allows."""
    from railweave.engine.congest import most_pfc_bytes

    buffer = base.buffer_bytes
    marks = _several("--ecn", ecn or (_GRID_ECN if sweep else _ECN), sweep)
    pauses = _several("--pfc", pfc or (_GRID_PFC if sweep else _PFC), sweep)
    profiles = _several("--profile", profile or (_GRID_PROFILES if sweep else _PROFILE), sweep)
    limits = [None if text == "off" else _bytes("--pfc", text, buffer) for text in pauses]
    lowered = ""
    if pfc is None:
        most = most_pfc_bytes(base)
        fitting = [min(limit, most) for limit in limits if limit is not None]
        lowered = "" if fitting == limits else ",".join(pauses)
        limits = list(dict.fromkeys(fitting))
    return _Asked(base, [_marks(text, pmax, buffer) for text in marks], limits, profiles, lowered)


# ---------------------------------------------------------------- what is printed


def _tell(outcomes: list[CongestOutcome]) -> None:
    from railweave.report.congest import case_text, moment_table, result_table, time_axis

    top = max(float(outcome.queue_bytes.max()) for outcome in outcomes) or None
    for outcome in outcomes:
        for line in textwrap.wrap(case_text(outcome.case), _WIDTH, break_on_hyphens=False):
            print_text(line, style="bold")
        print_text("")
        # The axis must not be broken at words: its lines are whole.
        for line in time_axis(outcome, queue_top_bytes=top).splitlines():
            print_text(line)
        print_text("")
        print_table(moment_table(outcome))
        print_text("")
    print_table(result_table(outcomes))
    found = list(dict.fromkeys(f for outcome in outcomes for f in outcome.findings))
    if found:
        print_text("")
        print_findings(found)


def _say_lowered(asked: _Asked) -> None:
    from railweave.units import format_bytes

    limits = ", ".join(format_bytes(limit or 0) for limit in asked.pfc)
    print_text(f"PFC at {limits}, not {asked.lowered}: that is what the headroom of")
    print_text(f"{asked.base.senders + 1} ports leaves of the buffer.")


def _tell_sweep(points: tuple[SweepPoint, ...]) -> None:
    from railweave.engine.congest_sweep import read_sweep
    from railweave.report.congest import sweep_table

    print_table(sweep_table(points))
    print_text("")
    for line in read_sweep(points):
        for piece in textwrap.wrap(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False):
            print_text(piece)


def _run_sweep(asked: _Asked, workers: int | None, out: Path | None, json: bool) -> None:
    from railweave.cli._progress import progress
    from railweave.engine.congest_sweep import grid
    from railweave.report.congest import sweep_json, write_sweep
    from railweave.runs import Executor, InProcessExecutor, ProcessPool
    from railweave.runs.congest import sweep

    cases = grid(asked.base, asked.ecn, asked.pfc, asked.profiles)
    count = min(workers or os.cpu_count() or 1, len(cases))
    executor: Executor = InProcessExecutor() if count == 1 else ProcessPool(count)
    with progress(quiet=json) as step:
        points = sweep(cases, executor, progress=lambda part: step("sweep", part))
    page = None if out is None else write_sweep(points, out)
    if json:
        print_json(sweep_json(points))
        return
    if asked.lowered:
        _say_lowered(asked)
    _tell_sweep(points)
    if page is not None:
        print_text(f"Figure: {page}")


def _run(asked: _Asked, compare: str | None, out: Path | None, json: bool) -> int:
    from dataclasses import replace
    from functools import partial

    from railweave.cli._progress import progress
    from railweave.engine.congest import simulate_congest
    from railweave.errors import InputError
    from railweave.report.congest import congest_json, write_congest

    profiles = asked.profiles + ([] if compare is None else [compare])
    if len(set(profiles)) < len(profiles):
        raise InputError(f"--compare {compare}: that is the profile itself; name another one")
    cases = [
        replace(asked.base, ecn=asked.ecn[0], pfc_bytes=asked.pfc[0], profile=name)
        for name in profiles
    ]
    with progress(quiet=json) as step:
        outcomes = [simulate_congest(case, progress=partial(step, case.profile)) for case in cases]
    page = None if out is None else write_congest(outcomes, out)
    if json:
        print_json(congest_json(outcomes))
    else:
        if asked.lowered:
            _say_lowered(asked)
        _tell(outcomes)
        if page is not None:
            print_text(f"Figure: {page}")
    return exit_code([f for outcome in outcomes for f in outcome.findings], strict=False)


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def congest(  # noqa: PLR0917 - the options of a command
        senders: Senders = 1,
        sender_speed: SenderSpeed = "120 Gb/s",
        egress_speed: EgressSpeed = "100 Gb/s",
        buffer: Buffer = "16 MB",
        ecn: Ecn = None,
        pmax: Pmax = 1.0,
        pfc: Pfc = None,
        profile: Profile = None,
        compare: Compare = None,
        size: Size = None,
        duration: Duration = None,
        cable: CableLength = "5 m",
        mtu: Mtu = "4096 B",
        seed: Seed = 0,
        sweep: Sweep = False,
        workers: Workers = None,
        out: Out = None,
        json: Json = False,
    ) -> None:
        """One congested switch: queue, sender rate, ECN marks and PFC pauses on a time axis.

        Senders that are faster than the egress fill a shared buffer; marks slow them down by their
        congestion control, pauses stop them. With --sweep, thresholds against profiles.

        Example: railweave congest --senders 4 --ecn 20% --pfc 80% --compare none --out out
        """
        from railweave.errors import InputError
        from railweave.formats.files import require_folder

        if sweep and compare is not None:
            raise InputError("--compare and --sweep: name several profiles with --profile instead")
        if workers is not None and not sweep:
            raise InputError("--workers speaks of a sweep; add --sweep or leave it out")
        if out is not None:
            require_folder(out)
        base = _base(
            senders, (sender_speed, egress_speed), buffer, size, duration, cable, mtu, seed
        )
        asked = _thresholds(base, ecn=ecn, pmax=pmax, pfc=pfc, profile=profile, sweep=sweep)
        if sweep:
            _run_sweep(asked, workers, out, json)
            return
        raise typer.Exit(_run(asked, compare, out, json))
