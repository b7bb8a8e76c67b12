"""``railweave build``: the fabric of a design in numbers."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from railweave.cli._options import DesignFile, Fail, Json
from railweave.cli._output import console, print_findings, print_json, print_table

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def build(
        design: DesignFile,
        fail: Fail = None,
        monte_carlo: Annotated[int, typer.Option("--monte-carlo", min=0, metavar="K", help="Also fail K random switches or links, many times.")] = 0,
        draws: Annotated[int, typer.Option("--draws", min=1, max=10_000, help="Draws of --monte-carlo.")] = 100,
        show_defaults: Annotated[bool, typer.Option("--show-defaults", help="Print the whole design with every default, and stop.")] = False,
        json: Json = False,
    ) -> None:
        """Build the fabric: counts, cables, capacity, bisection, paths, power.

        Example: railweave build examples/juniper-16-leaf.yaml --fail spine-3
        """
        from railweave.api import load

        loaded = load(design)
        if show_defaults:
            sys.stdout.write(loaded.with_defaults())
            return
        built = loaded.build()
        what_if = built.what_if(fail) if fail else None
        failed = built.fail(fail or ())
        summary = failed.summary()
        draw = built.monte_carlo(monte_carlo, draws) if monte_carlo else None
        if json:
            document = summary.to_json()
            if what_if:
                document["what_if"] = what_if.to_json()
            if draw:
                document["monte_carlo"] = draw.to_json()
            print_json(document)
            return
        from railweave.report.tables import plane_tables

        for table in plane_tables(summary):
            print_table(table.title, table.header, table.rows)
            for note in table.notes:
                console().print(note, style="dim", markup=False)
        for text in (what_if, draw):
            if text:
                console().print(text.describe(), markup=False)
        print_findings(failed.built.findings)
