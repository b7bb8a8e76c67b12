"""``railweave plan``: how to train a model on these GPUs, how long a step takes, what it costs."""

from __future__ import annotations

import textwrap
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from railweave.cli._options import Json
from railweave.cli._output import print_json, print_table, print_text
from railweave.design.models import PlacementName, Precision
from railweave.errors import InputError

if TYPE_CHECKING:
    from railweave.predict.plan_cluster import TrainingCluster
    from railweave.predict.plan_study import PlanStudy

__all__ = ["register"]

_WIDTH: Final = 80


class Scaling(StrEnum):
    """How work grows with the GPUs."""

    WEAK = "weak"
    STRONG = "strong"


Model = Annotated[str, typer.Argument(metavar="MODEL", help="Catalog name, such as llama3-70b.")]
Gpus = Annotated[
    int | None, typer.Option("--gpus", min=1, help="GPUs of the job. Default: all of the design.")
]
DesignFile = Annotated[
    Path | None, typer.Option("--design", help="Design whose fabric it runs on.")
]
ServerName = Annotated[
    str | None,
    typer.Option("--server", help="Catalog server, in place of a design: only its NICs bind."),
]
GpuName = Annotated[
    str | None, typer.Option("--gpu", help="Another GPU in that server; with --server.")
]
Batch = Annotated[
    str | None,
    typer.Option(
        "--batch", help="Of a step: sequences such as 2048, or '16Mi tokens'. Default: 4 Mi tokens."
    ),
]
Sequence = Annotated[
    str | None, typer.Option("--sequence", help="Tokens of a sequence. Default: the model's.")
]
Arithmetic = Annotated[
    Precision, typer.Option("--precision", help="Of the layers' matrix products.")
]
Skew = Annotated[
    float,
    typer.Option("--skew", min=1.0, help="Load of the fullest expert rank over the mean."),
]
Input = Annotated[
    str | None,
    typer.Option(
        "--input",
        metavar="TIME",
        help="What loading a step's samples takes, beside the step before: '2 s'.",
    ),
]
Fix = Annotated[
    str | None,
    typer.Option(
        "--fix",
        metavar="NAME=VALUE,…",
        help="What is given: tensor, context, pipeline, data, expert, micro-batch, interleave,"
        " zero, recompute, sequence-parallel.",
    ),
]
Top = Annotated[int, typer.Option("--top", min=1, max=100, help="Plans to show.")]
Scale = Annotated[
    str | None,
    typer.Option("--scale", help="GPU counts of a scaling curve: 256,512,1024, or auto."),
]
ScalingKind = Annotated[
    Scaling | None,
    typer.Option("--scaling", help="Batch: weak grows with the GPUs, strong stays. With --scale."),
]
Oversubscription = Annotated[
    str | None,
    typer.Option("--oversubscription", help="Also run the plan on the fabric with these: 2,4."),
]
Fail = Annotated[
    list[str] | None,
    typer.Option(
        "--fail", metavar="DEVICE[:PORT]", help="Also run the plan without this; may be repeated."
    ),
]
Placement = Annotated[
    str | None,
    typer.Option(
        "--placement",
        help="Also run the plan with its ranks placed so: packed, spread, rail-aligned, random,"
        " fragments; several by commas.",
    ),
]
GpuHour = Annotated[
    float | None, typer.Option("--gpu-hour", min=0.0, help="Price of a GPU-hour, any currency.")
]
Steps = Annotated[
    int | None, typer.Option("--steps", min=1, help="Length of the run, to price it.")
]
Tokens = Annotated[
    str | None, typer.Option("--tokens", help="Length of the run instead, such as 15T.")
]
Trace = Annotated[
    Path | None,
    typer.Option("--trace", help="File for the step's timeline, for Perfetto; .gz compresses it."),
]
Html = Annotated[Path | None, typer.Option("--html", help="File for the report, one page.")]


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    """Read a list of numbers by commas; ``2:1`` is 2."""
    if text is None:
        return ()
    try:
        return tuple(float(part.strip().removesuffix(":1")) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"{option} {text}: is no list of numbers by commas; such as 2,4 or 256,512"
        ) from None


def _seconds(option: str, text: str | None) -> float:
    """Read a time; none is 0."""
    if text is None:
        return 0.0
    from railweave.units import parse_seconds

    try:
        return parse_seconds(text)
    except InputError as error:
        raise InputError(f"{option}: {error}") from None


def _counts(text: str | None, cluster: TrainingCluster) -> tuple[int, ...]:
    if text is None:
        return ()
    if text.strip() == "auto":
        from railweave.predict.scaling import scaling_counts

        return scaling_counts(cluster.gpus, cluster.domain_gpus)
    found = _numbers("--scale", text)
    if any(value != int(value) or value < 1 for value in found):
        raise InputError(f"--scale {text}: GPU counts are whole numbers of 1 or more")
    return tuple(int(value) for value in found)


def _placements(text: str | None) -> tuple[PlacementName, ...]:
    known = {rule.value: rule for rule in PlacementName}
    names = [part.strip() for part in text.split(",")] if text else []
    for name in names:
        if name not in known:
            raise InputError(
                f"--placement {name}: is no rule of placement; allowed: {', '.join(known)}"
            )
    return tuple(known[name] for name in names)


def _cluster(
    design: Path | None, server: str | None, gpu: str | None, gpus: int | None
) -> TrainingCluster:
    from railweave.predict.plan_cluster import cluster_of_design, cluster_of_server

    if (design is None) == (server is None):
        raise InputError(
            "plan: name the cluster, by --design FILE or by --server NAME --gpus N; one of the two"
        )
    if server is None and design is not None:
        if gpu is not None:
            raise InputError("--gpu speaks of --server; a design names its own GPUs")
        from railweave.api import load

        return cluster_of_design(load(design).build(), gpus, name=str(design))
    if gpus is None:
        raise InputError("--server: say how many GPUs with --gpus N")
    from railweave.catalog import default_catalog

    return cluster_of_server(default_catalog(), server or "", gpus, gpu=gpu)


def _say(lines: tuple[str, ...], *, first: str = "") -> None:
    for number, line in enumerate(lines):
        style = first if number == 0 else ""
        for piece in textwrap.wrap(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False):
            print_text(piece, style=style)


def _tell(study: PlanStudy) -> None:
    from railweave.report.training import assumptions, headline, study_tables

    _say(headline(study), first="bold")
    print_text("")
    for number, table in enumerate(study_tables(study)):
        print_table(table)
        print_text("")
        if number == 0:
            _say(study.why)
            print_text("")
    for item in assumptions(study):
        print_text(f"{item.subject}: {item.statement}", style="dim")


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def plan(  # noqa: PLR0917 - the options of a command
        model: Model,
        gpus: Gpus = None,
        design: DesignFile = None,
        server: ServerName = None,
        gpu: GpuName = None,
        batch: Batch = None,
        sequence: Sequence = None,
        precision: Arithmetic = Precision.BF16,
        skew: Skew = 1.0,
        input_time: Input = None,
        fix: Fix = None,
        top: Top = 5,
        scale: Scale = None,
        scaling: ScalingKind = None,
        oversubscription: Oversubscription = None,
        fail: Fail = None,
        placement: Placement = None,
        gpu_hour: GpuHour = None,
        steps: Steps = None,
        tokens: Tokens = None,
        trace: Trace = None,
        html: Html = None,
        json: Json = False,
    ) -> None:
        """How to train a model: degrees, memory, time of a step, what the network costs.

        Example: railweave plan llama3-70b --gpus 1016 --design examples/superpod-h100-4su.yaml
        """
        from railweave.catalog import default_catalog
        from railweave.cli._progress import progress
        from railweave.formats.files import require_folder
        from railweave.predict.plan_space import parse_fixed
        from railweave.predict.plan_study import (
            PlanQuestion,
            parse_batch,
            parse_count,
            study_plan,
        )

        if scaling is not None and scale is None:
            raise InputError("--scaling speaks of --scale; give GPU counts too, or leave it out")
        for file in (trace, html):
            if file is not None:
                require_folder(file.parent)
        cluster = _cluster(design, server, gpu, gpus)
        catalog = cluster.built.document.catalog if cluster.built else default_catalog()
        shape = catalog.model(model)
        length = parse_count(sequence) if sequence else shape.sequence
        question = PlanQuestion(
            shape=shape,
            batch=parse_batch(batch, length) if batch else None,
            sequence=length,
            precision=precision,
            skew=skew,
            input_s=_seconds("--input", input_time),
            fixed=parse_fixed(fix) if fix else {},
            top=top,
            counts=_counts(scale, cluster),
            mode="strong" if scaling is Scaling.STRONG else "weak",
            oversubscription=_numbers("--oversubscription", oversubscription),
            fail=tuple(fail or ()),
            placements=_placements(placement),
            gpu_hour=gpu_hour,
            steps=steps,
            tokens=float(parse_count(tokens)) if tokens else None,
        )
        with progress(quiet=json) as report_step:
            study = study_plan(question, cluster, report_step)
        _hand_out(study, trace, html, json=json)


def _hand_out(study: PlanStudy, trace: Path | None, html: Path | None, *, json: bool) -> None:
    """Write the files that are wanted and say what was found."""
    from railweave.report.training import plan_json, write_plan_page, write_plan_trace

    written = []
    if trace is not None:
        written.append(("Trace", write_plan_trace(study, trace)))
    if html is not None:
        written.append(("Report", write_plan_page(study, html)))
    if json:
        print_json(plan_json(study))
        return
    _tell(study)
    for what, path in written:
        print_text(f"{what}: {path}")
