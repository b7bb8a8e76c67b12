"""``railweave simulate``: the design's jobs on its fabric."""

from __future__ import annotations

import typer

from railweave.cli._options import DesignFile, Engine, Fail, Json, Routing, Seed, Tolerance
from railweave.cli._output import console, print_json, print_table

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def simulate(
        design: DesignFile,
        engine: Engine = "flow",
        routing: Routing = None,
        seed: Seed = None,
        tolerance: Tolerance = 0.0,
        fail: Fail = None,
        json: Json = False,
    ) -> None:
        """Simulate the design's jobs, background and storage traffic.

        Example: railweave simulate examples/superpod-h100-1su.yaml --engine flow --fail spine-1
        """
        from railweave.api import load
        from railweave.report.output import record_json
        from railweave.report.tables import completion_rows, job_rows

        record = load(design).build().fail(fail or ()).run(
            engine=engine, routing=routing, seed=seed, tolerance=tolerance, what_ifs=False
        )
        if json:
            print_json(record_json(record))
            return
        print_table("Jobs", ("job", "what", "ranks", "size", "time", "closed form", "algbw", "busbw"), job_rows(record))
        print_table(
            "Completion", ("traffic", "streams", "p50", "p99", "max", "slowdown p50", "slowdown p99"),
            completion_rows(record),
        )
        for item in record.assumptions:
            console().print(f"{item.subject}: {item.statement}", style="dim", markup=False)
