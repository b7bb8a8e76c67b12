"""``railweave headroom``: PFC headroom and ECN thresholds, of one port or of a whole design."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railweave.cli._options import Json, Strict
from railweave.cli._output import exit_code, print_findings, print_json, print_table, print_text

if TYPE_CHECKING:
    from railweave.fabric.lossless import HeadroomReport

__all__ = ["register"]

Design = Annotated[
    Path | None,
    typer.Argument(metavar="[DESIGN]", help="Design file; or give --switch and --length."),
]
SwitchName = Annotated[
    str | None, typer.Option("--switch", help="A switch of the catalog; not with DESIGN.")
]
Speed = Annotated[
    str | None, typer.Option("--speed", help="Of the port; default: the switch's port speed.")
]
Length = Annotated[str | None, typer.Option("--length", help="Of the cable, such as 40m.")]
Mtu = Annotated[
    str | None, typer.Option("--mtu", help="Largest frame, such as 9216 B; default 9100 B.")
]


def _one_port(switch: str, speed: str | None, length: str, mtu: str | None) -> HeadroomReport:
    from railweave.catalog import default_catalog
    from railweave.fabric.lossless import switch_report
    from railweave.qos import DEFAULT_MTU_BYTES
    from railweave.units import parse_bps, parse_bytes, parse_metres

    part = default_catalog().switch(switch)
    return switch_report(
        part,
        part.port_speed_bps if speed is None else parse_bps(_rate(speed)),
        parse_metres(length),
        mtu_bytes=DEFAULT_MTU_BYTES if mtu is None else parse_bytes(_size(mtu)),
    )


def _rate(text: str) -> str:
    """Take ``400G`` for 400 Gb/s, as speeds of ports are written."""
    return f"{text.strip()}b/s" if text.strip()[-1:] in "kMGT" else text


def _size(text: str) -> str:
    """Take ``9100`` for 9100 B, as an MTU is written."""
    return f"{text} B" if text.strip().isdigit() else text


def _tell(report: HeadroomReport, *, one: bool) -> None:
    from railweave.report.lossless import lossless_tables, term_table

    tables = list(lossless_tables(report))
    if one:
        tables[1] = term_table(report.rows[0].headroom)
    if not tables:
        print_text("No plane has a lossless class: there is no headroom to set.")
    for table in tables:
        print_table(table)
        print_text("")
    print_findings(report.findings)


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def headroom(  # noqa: PLR0917 - the options of a command
        design: Design = None,
        switch: SwitchName = None,
        speed: Speed = None,
        length: Length = None,
        mtu: Mtu = None,
        strict: Strict = False,
        json: Json = False,
    ) -> None:
        """PFC headroom by SONiC's rule with every term, ECN thresholds, and whether they fit.

        Example: railweave headroom --switch sn5600 --speed 400G --length 40m
        """
        from railweave.errors import InputError

        alone = {"--switch": switch, "--speed": speed, "--length": length, "--mtu": mtu}
        if design is not None:
            given = [option for option, value in alone.items() if value is not None]
            if given:
                raise InputError(
                    f"{', '.join(given)} and a design: the design has its own switches and cables;"
                    " leave one of both out"
                )
            from railweave.api import load

            report = load(design).build().headroom()
        elif switch is None or length is None:
            raise InputError(
                "name a design, or a switch and a length: --switch sn5600 --length 40m"
            )
        else:
            report = _one_port(switch, speed, length, mtu)
        if json:
            print_json(report.to_json())
        else:
            _tell(report, one=design is None)
        raise typer.Exit(exit_code(report.findings, strict=strict))
