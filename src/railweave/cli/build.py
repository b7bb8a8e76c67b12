"""``railweave build``: the fabric of a design in numbers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from railweave.cli._options import DesignFile, Fail, Json
from railweave.cli._output import print_findings, print_json, print_table, print_text

if TYPE_CHECKING:
    from railweave.fabric.summary import BuildSummary

__all__ = ["register"]

MonteCarlo = Annotated[
    int,
    typer.Option(
        "--monte-carlo",
        min=0,
        metavar="K",
        help="Also fail K random switches or links, many times.",
    ),
]
Draws = Annotated[
    int | None,
    typer.Option("--draws", min=1, max=10_000, help="Draws of --monte-carlo; default 100."),
]
ShowDefaults = Annotated[
    bool,
    typer.Option("--show-defaults", help="Print the whole design with every default, and stop."),
]


def _tell(summary: BuildSummary, *, cables: bool) -> None:
    from railweave.report.tables import plane_tables

    for number, table in enumerate(plane_tables(summary)):
        if table.id != "cables" or cables:
            print_text("") if number else None
            print_table(table)
    print_text("")


def _show_defaults(text: str, *, json: bool) -> None:
    """Print a whole design, as YAML with its comments or as JSON; both are design files."""
    from railweave.formats.yaml_source import parse_yaml

    if json:
        print_json(parse_yaml(text, "design").data)
    else:
        sys.stdout.write(text)


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def build(  # noqa: PLR0917 - the options of a command
        design: DesignFile,
        fail: Fail = None,
        monte_carlo: MonteCarlo = 0,
        draws: Draws = None,
        cables: Annotated[
            bool, typer.Option("--cables", help="Also print the cable bill, part by part.")
        ] = False,
        show_defaults: ShowDefaults = False,
        json: Json = False,
    ) -> None:
        """Build the fabric: counts, cables, capacity, bisection, paths, power.

        Example: railweave build examples/juniper-16-leaf.yaml --fail spine-3
        """
        from railweave.api import load
        from railweave.errors import InputError
        from railweave.report.documents import build_json

        if draws is not None and not monte_carlo:
            raise InputError("--draws speaks of --monte-carlo K; give it too, or leave --draws out")
        loaded = load(design)
        if show_defaults:
            _show_defaults(loaded.with_defaults(), json=json)
            return
        built = loaded.build()
        what_if = built.what_if(fail) if fail else None
        failed = built.fail(fail or ())
        summary = failed.summary()
        draw = failed.monte_carlo(monte_carlo, draws or 100) if monte_carlo else None
        if json:
            print_json(build_json(summary, what_if, draw))
            return
        _tell(summary, cables=cables)
        for text in (what_if, draw):
            if text:
                print_text(text.describe())
        print_findings(failed.built.findings)
        print_text("These are findings of sizing only; railweave check has the rest.", style="dim")
