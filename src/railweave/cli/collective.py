"""``railweave collective``: volume, steps and time of one collective, with or without a fabric."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railweave.cli._options import EngineName, Json
from railweave.cli._output import print_json, print_text
from railweave.design.models import Algorithm, Collective, PlacementName

if TYPE_CHECKING:
    from railweave.engine.analytic import AnalyticResult
    from railweave.report.record import JobOutcome

__all__ = ["register"]

DEFAULT_BANDWIDTH = "400 Gb/s"
DEFAULT_RANKS = 8

Ranks = Annotated[
    int | None,
    typer.Option(
        "--ranks", min=2, help=f"Ranks; default {DEFAULT_RANKS}, or all GPUs of the design."
    ),
]
Bandwidth = Annotated[
    str | None,
    typer.Option(
        "--bandwidth", help=f"Of one rank, one way; not with --design. Default {DEFAULT_BANDWIDTH}."
    ),
]
Latency = Annotated[
    str | None,
    typer.Option("--latency", help="Of one message; not with --design. Default 0 s."),
]


def _tell_alone(result: AnalyticResult, bandwidth: str) -> None:
    """Print what the closed form says."""
    from railweave.units import format_bytes, format_seconds

    sent = result.bytes_sent_per_rank
    print_text(
        f"{result.op.value} ({result.algorithm.value}) over {result.ranks:,} ranks, "
        f"{format_bytes(result.size_bytes)} at {bandwidth}",
        style="bold",
    )
    for name, value in (
        ("sent by each rank", f"{format_bytes(sent)} ({sent:,.0f} B)"),
        ("steps", f"{result.steps}"),
        ("time", format_seconds(result.time_s)),
        ("algbw", f"{result.algbw_Bps / 1e9:.4g} GB/s"),
        ("busbw", f"{result.busbw_Bps / 1e9:.4g} GB/s"),
        ("lower bound", format_seconds(result.lower_bound_s)),
        ("formula", result.explanation.formula),
    ):
        print_text(f"  {name:<19} {value}")


def _tell_outcome(outcome: JobOutcome, design: Path, engine: EngineName) -> None:
    """Print what came out on a fabric."""
    from railweave.units import format_bytes, format_seconds

    print_text(
        f"{outcome.what} ({outcome.algorithm}) over {outcome.ranks:,} ranks, "
        f"{format_bytes(outcome.size_bytes)} on {design}",
        style="bold",
    )
    for name, value in (
        (f"time ({engine.value})", format_seconds(outcome.time_s)),
        ("closed form", format_seconds(outcome.analytic_s)),
        ("algbw", f"{outcome.algbw_Bps / 1e9:.4g} GB/s"),
        ("busbw", f"{outcome.busbw_Bps / 1e9:.4g} GB/s"),
        (
            "bytes stay",
            f"{outcome.share_server:.1%} in the server, {outcome.share_leaf:.1%} under a leaf, "
            f"{outcome.share_spine:.1%} cross a spine, {outcome.share_core:.1%} a core",
        ),
    ):
        print_text(f"  {name:<19} {value}")


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def collective(  # noqa: PLR0917 - the options of a command
        operation: Annotated[Collective, typer.Argument(metavar="OP", help="The operation.")],
        size: Annotated[str, typer.Option("--size", help="Bytes, such as 1GiB.")] = "1 GiB",
        ranks: Ranks = None,
        algorithm: Annotated[
            Algorithm | None,
            typer.Option("--algorithm", help="Default: ring; direct for all-to-all and send-recv."),
        ] = None,
        bandwidth: Bandwidth = None,
        latency: Latency = None,
        ranks_per_server: Annotated[
            int | None,
            typer.Option(
                "--ranks-per-server",
                min=1,
                help="For hierarchical and rail-aligned; not with --design. Default 1.",
            ),
        ] = None,
        design: Annotated[
            Path | None, typer.Option("--design", help="Run it on this design's fabric.")
        ] = None,
        placement: Annotated[
            PlacementName | None,
            typer.Option("--placement", help="Of the ranks; with --design. Default packed."),
        ] = None,
        engine: Annotated[
            EngineName | None, typer.Option("--engine", help="With --design. Default flow.")
        ] = None,
        json: Json = False,
    ) -> None:
        """Volume, steps and time of a collective.

        Example: railweave collective all-reduce --ranks 4 --size "256 MB" --bandwidth "100 Gb/s"
        """
        from railweave.errors import InputError
        from railweave.units import parse_bps, parse_bytes, parse_seconds

        size_bytes = parse_bytes(size)
        if size_bytes < 1:
            raise InputError(f"--size {size}: nothing to send; give 1 B or more")
        if design is None:
            from railweave.engine.analytic import collective_time

            if placement or engine:
                raise InputError(
                    "--placement and --engine speak of a fabric; name one with --design"
                )
            result = collective_time(
                operation,
                algorithm,
                DEFAULT_RANKS if ranks is None else ranks,
                size_bytes,
                parse_bps(bandwidth or DEFAULT_BANDWIDTH),
                parse_seconds(latency or "0 s"),
                ranks_per_server=ranks_per_server or 1,
            )
            if json:
                print_json(_document(result, bandwidth or DEFAULT_BANDWIDTH))
            else:
                _tell_alone(result, bandwidth or f"an assumed {DEFAULT_BANDWIDTH}")
            return
        if bandwidth or latency or ranks_per_server:
            raise InputError(
                "--bandwidth, --latency and --ranks-per-server come from the design; leave them "
                "out with --design"
            )
        from railweave.api import load

        how = engine or EngineName.FLOW
        outcome = (
            load(design)
            .build()
            .collective(
                operation,
                size_bytes,
                ranks=ranks,
                algorithm=algorithm,
                placement=placement or PlacementName.PACKED,
                engine=how.value,
            )
        )
        if json:
            print_json(_fabric_document(operation, how, outcome))
        else:
            _tell_outcome(outcome, design, how)


def _fabric_document(op: Collective, engine: EngineName, outcome: JobOutcome) -> dict[str, object]:
    """Return what came out on a fabric for JSON, with the volume of the collective."""
    from railweave.workload import collective_volume

    volume = collective_volume(
        op, Algorithm(outcome.algorithm), outcome.ranks, int(outcome.size_bytes)
    )
    return {
        "operation": op.value,
        "engine": engine.value,
        "bytes_sent_per_rank": volume.bytes_sent_per_rank,
        "steps": volume.steps,
        **dataclasses.asdict(outcome),
    }


def _document(result: AnalyticResult, bandwidth: str) -> dict[str, object]:
    """Return the closed form's result for JSON."""
    document = dataclasses.asdict(result)
    document["operation"] = document.pop("op")
    document["bandwidth"] = bandwidth
    return document
