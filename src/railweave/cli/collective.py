"""``railweave collective``: volume, steps and time of one collective, with or without a fabric."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railweave.cli._options import Engine, Json
from railweave.cli._output import console, print_json
from railweave.design.models import Algorithm, Collective, PlacementName

if TYPE_CHECKING:
    from railweave.engine.analytic import AnalyticResult

__all__ = ["register"]

DEFAULT_BANDWIDTH = "400 Gb/s"


def _tell(op: Collective, algorithm: str, ranks: int, result: AnalyticResult) -> None:
    from railweave.units import format_bytes, format_seconds

    out = console()
    out.print(f"[bold]{op.value}[/] ({algorithm}) over {ranks:,} ranks")
    out.print(f"  sent by each rank   {format_bytes(result.bytes_sent_per_rank)} ({result.bytes_sent_per_rank:,.0f} B)")
    out.print(f"  steps               {result.steps}")
    out.print(f"  time                {format_seconds(result.time_s)}")
    out.print(f"  algbw, busbw        {result.algbw_Bps / 1e9:.4g}, {result.busbw_Bps / 1e9:.4g} GB/s")
    out.print(f"  lower bound         {format_seconds(result.lower_bound_s)}")
    out.print(f"  formula             {result.explanation.formula}", markup=False)


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def collective(
        operation: Annotated[Collective, typer.Argument(help="The operation.")],
        size: Annotated[str, typer.Option("--size", help="Bytes, such as 1GiB.")] = "1 GiB",
        ranks: Annotated[int | None, typer.Option("--ranks", min=2, help="Ranks; default 8, or all GPUs of the design.")] = None,
        algorithm: Annotated[Algorithm | None, typer.Option("--algorithm", help="Default: ring; direct for all-to-all.")] = None,
        bandwidth: Annotated[str | None, typer.Option("--bandwidth", help=f"Of one rank, one way; without a design. Default {DEFAULT_BANDWIDTH}.")] = None,
        latency: Annotated[str | None, typer.Option("--latency", help="Of one message, without a design. Default 0 s.")] = None,
        design: Annotated[Path | None, typer.Option("--design", help="Run it on this design's fabric.")] = None,
        placement: Annotated[PlacementName, typer.Option("--placement", help="With a design.")] = PlacementName.PACKED,
        engine: Engine = "flow",
        json: Json = False,
    ) -> None:
        """Volume, steps and time of a collective.

        Example: railweave collective all-reduce --ranks 4 --size "256 MB" --bandwidth "100 Gb/s"
        """
        from railweave.errors import InputError
        from railweave.units import parse_bps, parse_bytes, parse_seconds
        from railweave.workload.collectives import default_algorithm

        size_bytes = parse_bytes(size)
        chosen = algorithm or default_algorithm(operation)
        if design is None:
            from railweave.engine.analytic import collective_time

            count = ranks or 8
            result = collective_time(
                operation, chosen, count, size_bytes,
                parse_bps(bandwidth or DEFAULT_BANDWIDTH), parse_seconds(latency or "0 s"),
            )
            if json:
                document = dataclasses.asdict(result)
                document.update(operation=operation.value, algorithm=chosen.value, ranks=count,
                                size_bytes=size_bytes, bandwidth_assumed=bandwidth is None)
                print_json(document)
            else:
                _tell(operation, chosen.value, count, result)
            return
        if bandwidth or latency:
            raise InputError("--bandwidth and --latency come from the design; leave them out with --design")
        from railweave.api import load

        outcome = load(design).build().collective(
            operation, size_bytes, ranks=ranks, algorithm=chosen, placement=placement, engine=engine
        )
        if json:
            print_json(dataclasses.asdict(outcome))
        else:
            out = console()
            out.print(f"[bold]{operation.value}[/] ({chosen.value}) over {outcome.ranks:,} ranks of {design}")
            out.print(f"  time {outcome.time_s * 1e3:.5g} ms, algbw {outcome.algbw_Bps / 1e9:.4g} GB/s, "
                      f"busbw {outcome.busbw_Bps / 1e9:.4g} GB/s ({engine} engine)")
