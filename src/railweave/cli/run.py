"""``railweave run``: the main job, from a design file to a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railweave.cli._options import DesignFile, Engine, Fail, Json, Routing, Seed, Strict, Tolerance
from railweave.cli._output import console, exit_code, print_json

if TYPE_CHECKING:
    from railweave.report.record import RunRecord

__all__ = ["register"]


def _tell(record: RunRecord, report: Path) -> None:
    """Say in a few lines what came out and where it lies."""
    from railweave.units import format_bits_rate, format_seconds

    out = console()
    plane = record.summary.backend
    switches = ", ".join(f"{n:,} {tier}" for tier, n in plane.counts.switches)
    out.print(f"[bold]{record.name}[/]: {plane.counts.servers:,} servers, {plane.counts.gpus:,} GPUs, {switches}")
    out.print(f"  bisection {format_bits_rate(plane.capacity.bisection_bps)}, host capacity "
              f"{format_bits_rate(plane.capacity.host_bps)}, {plane.capacity.ecmp_paths:,.0f} equal-cost paths")
    for job in record.jobs:
        busbw = f", busbw {job.busbw_Bps / 1e9:.4g} GB/s" if job.busbw_Bps == job.busbw_Bps else ""
        out.print(f"  {job.name}: {job.what} over {job.ranks:,} ranks takes {format_seconds(job.time_s)}{busbw}")
    grave = [finding for finding in record.findings if finding.severity.value != "info"]
    for finding in grave:
        out.print(f"  {finding.severity.value}: {finding.id}: {finding.message}", markup=False)
    out.print(f"Report: {report}", markup=False)


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def run(
        design: DesignFile,
        out: Annotated[Path, typer.Option("--out", help="Folder for report.html, result.json and tables.")] = Path("out"),
        engine: Engine = "flow",
        routing: Routing = None,
        seed: Seed = None,
        tolerance: Tolerance = 0.0,
        fail: Fail = None,
        strict: Strict = False,
        json: Json = False,
    ) -> None:
        """Build, check and simulate a design, and write its report.

        Example: railweave run examples/superpod-h100-4su.yaml --out out
        """
        from railweave.api import load
        from railweave.cli._progress import progress
        from railweave.report.output import record_json, write_outputs

        built = load(design).build().fail(fail or ())
        with progress(quiet=json) as report_step:
            record = built.run(
                engine=engine, routing=routing, seed=seed, tolerance=tolerance, progress=report_step
            )
            report_step("report", 0.95)
            report = write_outputs(record, out)
        if json:
            print_json(record_json(record))
        else:
            _tell(record, report)
        raise typer.Exit(exit_code(record.findings, strict=strict))
