"""``railweave congest``: one congested switch on a time axis, and sweeps of its thresholds."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from railweave.cli._options import Json
from railweave.cli._output import exit_code, print_findings, print_json, print_table, print_text
from railweave.report.congest_options import (
    ECN,
    GRID_ECN,
    GRID_PFC,
    GRID_PROFILES,
    PFC,
    PROFILE,
    Asked,
    base_case,
    with_thresholds,
)

if TYPE_CHECKING:
    from railweave.engine.congest import CongestOutcome
    from railweave.engine.congest_sweep import SweepPoint

__all__ = ["register"]

_WIDTH: Final = 80

Senders = Annotated[int, typer.Option("--senders", help="How many, each with a port of its own.")]
SenderSpeed = Annotated[str, typer.Option("--sender-speed", help="Of each sender's port.")]
EgressSpeed = Annotated[str, typer.Option("--egress-speed", help="Of the port they all send to.")]
Buffer = Annotated[str, typer.Option("--buffer", help="Of the switch, headroom included.")]
Ecn = Annotated[
    str | None,
    typer.Option(
        "--ecn",
        help=f"Queue from which packets are marked: 40% of the buffer, 6.4MB, 5%..20% (Kmin to"
        f" Kmax) or off; with --sweep several, by commas. Default {ECN}; {GRID_ECN} in a sweep.",
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
        f" several. Default {PFC}, or what headroom leaves; {GRID_PFC} in a sweep.",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help=f"The senders' congestion control: none, {GRID_PROFILES.replace(',', ', ')}, hpcc,"
        " timely, swift, dctcp, cubic, nscc, receiver-driven, ib-cc; with --sweep several."
        f" Default {PROFILE}; the three of DCQCN in a sweep.",
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


def _say_lowered(asked: Asked) -> None:
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


def _run_sweep(asked: Asked, workers: int | None, out: Path | None, json: bool) -> None:
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


def _run(asked: Asked, compare: str | None, out: Path | None, json: bool) -> int:
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
        base = base_case(
            senders, (sender_speed, egress_speed), buffer, size, duration, cable, mtu, seed
        )
        asked = with_thresholds(base, ecn=ecn, pmax=pmax, pfc=pfc, profile=profile, sweep=sweep)
        if sweep:
            _run_sweep(asked, workers, out, json)
            return
        raise typer.Exit(_run(asked, compare, out, json))
