"""``railweave run``: the main job, from a design file to a report."""

from __future__ import annotations

from pathlib import Path
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
    Strict,
    Tolerance,
    check_tolerance,
    settings_with,
)
from railweave.cli._output import exit_code, print_json, print_text

if TYPE_CHECKING:
    from railweave.report.record import RunRecord

__all__ = ["register"]


def _tell(record: RunRecord, report: Path) -> None:
    """Say in a few lines what came out and where it lies."""
    import math

    from railweave.report.predicted_tables import collective_line, step_line
    from railweave.units import format_bits_rate, format_seconds

    expected = {item.job: collective_line(item) for item in record.collectives}
    expected |= {item.job: step_line(item) for item in record.training}
    plane = record.summary.backend
    capacity = plane.capacity
    switches = ", ".join(f"{n:,} {tier}" for tier, n in plane.counts.switches) or "no switches"
    print_text(
        f"{record.name}: {plane.counts.servers:,} servers, {plane.counts.gpus:,} GPUs, {switches}",
        style="bold",
    )
    print_text(
        f"  bisection {format_bits_rate(capacity.bisection_bps)}, host capacity "
        f"{format_bits_rate(capacity.host_bps)}, {capacity.ecmp_paths:,.0f} equal-cost paths"
    )
    for job in record.jobs:
        takes = f"takes {format_seconds(job.time_s)}" if math.isfinite(job.time_s) else "never ends"
        busbw = f", busbw {job.busbw_Bps / 1e9:.4g} GB/s" if math.isfinite(job.busbw_Bps) else ""
        print_text(f"  {job.name}: {job.what} over {job.ranks:,} ranks {takes}{busbw}")
        print_text(f"    {expected[job.name]}")
    for finding in record.findings:
        if finding.severity.value != "info":
            print_text(f"  {finding.severity.value}: {finding.id}: {finding.message}")
    print_text(f"Report: {report}")


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def run(  # noqa: PLR0917 - the options of a command
        design: DesignFile,
        out: Annotated[
            Path, typer.Option("--out", help="Folder for report.html, result.json and tables.")
        ] = Path("out"),
        engine: Engine = EngineName.FLOW,
        routing: Routing = None,
        seed: Seed = None,
        tolerance: Tolerance = 0.0,
        fail: Fail = None,
        fault: Faults = None,
        strict: Strict = False,
        json: Json = False,
    ) -> None:
        """Build, check and simulate a design, and write its report.

        Example: railweave run examples/superpod-h100-4su.yaml --out out
        """
        from railweave.api import load
        from railweave.cli._progress import progress
        from railweave.formats.files import require_folder
        from railweave.report.output import record_json, write_outputs

        check_tolerance(engine, tolerance)
        loaded = load(design)
        require_folder(out)
        with progress(quiet=json) as report_step:
            report_step("build", 0.02)
            built = loaded.build().fail(fail or ())
            record = built.run(
                engine=engine.value,
                routing=routing,
                seed=seed,
                tolerance=tolerance,
                settings=settings_with(built, engine, fault),
                progress=report_step,
            )
            report_step("report", 0.95)
            report = write_outputs(record, out)
        if json:
            print_json(record_json(record))
        else:
            _tell(record, report)
        raise typer.Exit(exit_code(record.findings, strict=strict))
