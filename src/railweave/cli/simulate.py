"""``railweave simulate``: the design's jobs on its fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from railweave.cli._options import (
    DesignFile,
    Engine,
    EngineName,
    Fail,
    Faults,
    Json,
    Routing,
    Seed,
    Tolerance,
    check_tolerance,
    settings_with,
)
from railweave.cli._output import print_json, print_table, print_text

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.design.models import RoutingScheme
    from railweave.engine.choice import EngineChoice

__all__ = ["register"]

Interference = Annotated[
    bool,
    typer.Option(
        "--interference",
        help="What the jobs do to each other: each alone, and all together, as they are placed and "
        "under packed, fragments and optimized.",
    ),
]


def _tell_interference(
    built: BuiltDesign,
    choice: EngineChoice,
    routing: RoutingScheme | None,
    seed: int | None,
    *,
    json: bool,
) -> None:
    """Print how the jobs slow each other, by placement rule."""
    from railweave.cli._progress import progress
    from railweave.predict.interference import compare_placements
    from railweave.report.interference import (
        interference_json,
        interference_table,
        shared_link_table,
    )

    with progress(quiet=json) as report_step:
        found = compare_placements(
            built,
            choice=choice,
            routing=built.routing(routing, seed),
            seed=seed,
            progress=report_step,
        )
    if json:
        print_json(interference_json(found))
        return
    print_table(interference_table(found))
    for one in found:
        table = shared_link_table(one)
        if table.rows:
            print_text("")
            print_table(table)
    print_text("")
    for item in dict.fromkeys(item for one in found for item in one.assumptions):
        print_text(f"{item.subject}: {item.statement}", style="dim")


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def simulate(  # noqa: PLR0917 - the options of a command
        design: DesignFile,
        engine: Engine = EngineName.FLOW,
        routing: Routing = None,
        seed: Seed = None,
        tolerance: Tolerance = 0.0,
        fail: Fail = None,
        fault: Faults = None,
        interference: Interference = False,
        json: Json = False,
    ) -> None:
        """Simulate the design's jobs, background and storage traffic.

        Example: railweave simulate examples/superpod-h100-1su.yaml --engine flow --fail spine-1
        """
        from railweave.api import load
        from railweave.cli._progress import progress
        from railweave.engine.choice import EngineChoice
        from railweave.report.output import record_json
        from railweave.report.run_tables import (
            completion_table,
            group_table,
            job_table,
            spread_table,
            storage_table,
        )

        check_tolerance(engine, tolerance)
        built = load(design).build().fail(fail or ())
        if interference:
            choice = EngineChoice(
                engine.value,
                tolerance,
                settings_with(built, engine, fault)
                or (built.packet_settings() if engine is EngineName.PACKET else None),
                built.design.seed if seed is None else seed,
            )
            _tell_interference(built, choice, routing, seed, json=json)
            return
        with progress(quiet=json) as report_step:
            record = built.run(
                engine=engine.value,
                routing=routing,
                seed=seed,
                tolerance=tolerance,
                settings=settings_with(built, engine, fault),
                what_ifs=False,
                progress=report_step,
            )
        if json:
            print_json(record_json(record))
            return
        makers = (job_table, group_table, completion_table, spread_table, storage_table)
        tables = [table for table in (make(record) for make in makers) if table.rows]
        for table in tables:
            print_table(table)
            print_text("")
        if not tables:
            print_text("The design states no traffic: give it jobs, background or storage_traffic.")
        of_fabric = set(record.summary.assumptions)
        for item in record.assumptions:
            if item in of_fabric:  # power, reliability: nothing of it was simulated
                continue
            print_text(f"{item.subject}: {item.statement}", style="dim")
