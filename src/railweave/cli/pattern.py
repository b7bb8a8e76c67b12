"""``railweave pattern``: what a way of training in parallel sends, how far, how long, and why."""

from __future__ import annotations

import textwrap
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from railweave.cli._options import Json
from railweave.cli._output import print_json, print_text
from railweave.cli._pattern_model import (
    ByPlacement,
    Fix,
    GpuName,
    MicroBatches,
    ModelName,
    Sequence,
    model_case,
    run_model,
    tell_placements,
)
from railweave.design.models import Algorithm, PlacementName
from railweave.errors import InputError

if TYPE_CHECKING:
    from railweave.report.patterns import PatternStudy
    from railweave.workload.patterns import PatternPart

__all__ = ["register"]

_WIDTH: Final = 80


class StrategyName(StrEnum):
    """The strategies of :mod:`railweave.workload.patterns`, without loading them at the start.

    A model has groups of several of them.
    """

    DATA = "data"
    TENSOR = "tensor"
    CONTEXT = "context"
    PIPELINE = "pipeline"
    EXPERT = "expert"
    MODEL = "model"


_DEFAULTS: Final = {
    "--speed": "100 Gb/s",
    "--latency": "0 s",
    "--scale-up-speed": "3.6 Tb/s",
    "--gpus-per-server": "1",
    "--servers-per-leaf": "16",
}

Gpus = Annotated[int, typer.Option("--gpus", help="GPUs that train together, 2 to 1,024.")]
Payload = Annotated[
    str | None,
    typer.Option("--payload", help="Bytes of one exchange, such as 64MiB. Default 256 MB."),
]
Exchanges = Annotated[
    int | None,
    typer.Option(
        "--exchanges",
        help="A step: all-reduces (data, tensor), attention layers (context), micro-batches "
        "(pipeline), mixture layers (expert). Default 1.",
    ),
]
Speed = Annotated[
    str | None,
    typer.Option("--speed", help=f"Of a GPU's NIC, one way. Default {_DEFAULTS['--speed']}."),
]
Latency = Annotated[
    str | None,
    typer.Option(
        "--latency", help=f"Of a message between servers. Default {_DEFAULTS['--latency']}."
    ),
]
GpusPerServer = Annotated[
    int | None,
    typer.Option("--gpus-per-server", help="Those share a scale-up network. Default 1."),
]
Servers = Annotated[
    int | None, typer.Option("--servers", help="Default: as many as the GPUs fill.")
]
ServersPerLeaf = Annotated[
    int | None, typer.Option("--servers-per-leaf", help="Servers under one leaf. Default 16.")
]
ScaleUpSpeed = Annotated[
    str | None,
    typer.Option(
        "--scale-up-speed",
        help=f"Of a GPU inside its server, one way. Default {_DEFAULTS['--scale-up-speed']}.",
    ),
]
ScaleUpLatency = Annotated[
    str | None,
    typer.Option("--scale-up-latency", help="Of a message inside a server. Default: as --latency."),
]
Placement = Annotated[
    PlacementName, typer.Option("--placement", help="Which GPUs of the servers the ranks get.")
]
Skew = Annotated[
    float,
    typer.Option(
        "--skew", help="Expert: share of all tokens that go to the experts of one GPU, 0 to 1."
    ),
]
TheAlgorithm = Annotated[
    Algorithm | None,
    typer.Option("--algorithm", help="Of the collective. Default: ring; direct for experts."),
]
Design = Annotated[
    Path | None,
    typer.Option("--design", help="Run it on this design's fabric, in place of the network above."),
]
Trace = Annotated[bool, typer.Option("--trace", help="Also print what happens when.")]


def _part(part: PatternPart) -> str:
    from railweave.units import format_bytes

    text = f"{part.name} {format_bytes(part.size_bytes)}"
    if part.collective is None or part.algorithm is None:
        return text
    return f"{text} ({part.collective.value}, {part.algorithm.value})"


def _tell(study: PatternStudy, *, trace: bool) -> None:
    from railweave.units import format_bytes, format_seconds

    print_text(f"{study.title}: {study.network}", style="bold")
    parts = ", ".join(_part(part) for part in study.volume.parts)
    for name, value in (
        ("an exchange", parts),
        ("exchanges", f"{study.case.exchanges:,} a step"),
        (
            "sent by a GPU",
            f"{format_bytes(study.bytes_sent_per_gpu)} ({study.bytes_sent_per_gpu:,.0f} B)",
        ),
        ("sent by all", format_bytes(study.total_bytes)),
        ("messages", f"{study.messages:,}, {study.steps:,} one after another"),
        ("time (flow)", format_seconds(study.time_s)),
        ("closed form", format_seconds(study.analytic_s)),
        ("  of bandwidth", format_seconds(study.bandwidth_s)),
        ("  of latency", format_seconds(study.latency_s)),
        ("bound by", study.bound),
        (
            "bytes stay",
            f"{study.share_server:.1%} in the server, {study.share_leaf:.1%} under a leaf, "
            f"{study.share_spine:.1%} cross a spine, {study.share_core:.1%} a core",
        ),
    ):
        print_text(f"  {name:<15} {value}")
    print_text("")
    for sentence in study.interpretation:
        print_text(textwrap.fill(sentence, _WIDTH))
    if trace:
        print_text("")
        for event in study.trace:
            print_text(f"{format_seconds(event.time_s):>10}  {event.where:<16} {event.what}")


def _seconds(text: str | None) -> float | None:
    from railweave.units import parse_seconds

    return None if text is None else parse_seconds(text)


def _refuse(options: dict[str, object], *, whole: bool) -> None:
    """Refuse options that speak of something else."""
    given = [name for name, value in options.items() if value is not None]
    if given and whole:
        raise InputError(
            f"{', '.join(given)}: speaks of one exchange, and a model has its own; leave it out"
        )
    if given:
        raise InputError(f"{', '.join(given)}: speaks of a model; take the strategy model")


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def pattern(  # noqa: PLR0917 - the options of a command
        strategy: Annotated[
            StrategyName, typer.Argument(metavar="STRATEGY", help="What the GPUs share out.")
        ],
        gpus: Gpus = 4,
        payload: Payload = None,
        exchanges: Exchanges = None,
        speed: Speed = None,
        latency: Latency = None,
        gpus_per_server: GpusPerServer = None,
        servers: Servers = None,
        servers_per_leaf: ServersPerLeaf = None,
        scale_up_speed: ScaleUpSpeed = None,
        scale_up_latency: ScaleUpLatency = None,
        placement: Placement = PlacementName.PACKED,
        skew: Skew = 0.0,
        algorithm: TheAlgorithm = None,
        model: ModelName = None,
        fix: Fix = None,
        micro_batches: MicroBatches = None,
        sequence: Sequence = None,
        gpu: GpuName = None,
        design: Design = None,
        by_placement: ByPlacement = False,
        trace: Trace = False,
        json: Json = False,
    ) -> None:
        """Traffic of data, tensor, context, pipeline or expert parallelism, or of a whole model.

        Example: railweave pattern tensor --gpus 8 --payload 32MiB --exchanges 128 --latency 5us
        """
        from railweave.report.patterns import study_pattern
        from railweave.units import parse_bps, parse_bytes
        from railweave.workload.patterns import PatternCase, Strategy

        own = {
            "--speed": speed,
            "--latency": latency,
            "--gpus-per-server": gpus_per_server,
            "--servers": servers,
            "--servers-per-leaf": servers_per_leaf,
            "--scale-up-speed": scale_up_speed,
            "--scale-up-latency": scale_up_latency,
        }
        given = [option for option, value in own.items() if value is not None]
        if design is not None and given:
            raise InputError(
                f"{', '.join(given)} and --design: the design has its own network; leave one of "
                "both out"
            )
        whole = strategy is StrategyName.MODEL
        _refuse(
            {"--payload": payload, "--exchanges": exchanges, "--skew": skew or None,
             "--algorithm": algorithm, "--trace": trace or None}
            if whole
            else {"--model": model, "--fix": fix, "--micro-batches": micro_batches,
                  "--sequence": sequence, "--gpu": gpu},
            whole=whole,
        )  # fmt: skip
        case = PatternCase(
            strategy=Strategy.DATA if whole else Strategy(strategy.value),
            gpus=gpus,
            payload_bytes=parse_bytes(payload or "256 MB"),
            exchanges=1 if exchanges is None else exchanges,
            link_bps=parse_bps(speed or _DEFAULTS["--speed"]),
            latency_s=_seconds(latency) or 0.0,
            gpus_per_server=1 if gpus_per_server is None else gpus_per_server,
            servers=servers,
            servers_per_leaf=16 if servers_per_leaf is None else servers_per_leaf,
            placement=placement,
            scale_up_bps=parse_bps(scale_up_speed or _DEFAULTS["--scale-up-speed"]),
            scale_up_latency_s=_seconds(scale_up_latency),
            skew=skew,
            algorithm=algorithm,
        )
        built = None
        if design is not None:
            from railweave.api import load

            built = load(design).build()
        if whole:
            of_model = model_case(
                case,
                model=model,
                fix=fix,
                micro_batches=micro_batches,
                sequence=sequence,
                gpu=gpu,
            )
            run_model(of_model, built, by_placement=by_placement, json=json)
            return
        study = study_pattern(case, built)
        if not json:
            _tell(study, trace=trace)
            if by_placement:
                tell_placements(case, built)
            return
        document = study.to_json()
        if by_placement:
            from railweave.report.patterns_placement import placement_json, placement_shares

            document["placements"] = placement_json(placement_shares(case, built))
        print_json(document)
