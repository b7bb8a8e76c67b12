"""The part of ``railweave pattern`` that speaks of whole models, and of placement rules."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from railweave.cli._output import print_json, print_table, print_text
from railweave.errors import InputError

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.report.patterns_model import ModelCase, ModelStudy
    from railweave.workload.patterns import PatternCase

__all__ = [
    "ByPlacement",
    "Fix",
    "GpuName",
    "MicroBatches",
    "ModelName",
    "Sequence",
    "model_case",
    "run_model",
    "tell_placements",
]

_WIDTH: Final = 80

ModelName = Annotated[
    str | None, typer.Option("--model", help="Model: catalog name. Default llama3-8b.")
]
Fix = Annotated[
    str | None,
    typer.Option(
        "--fix",
        metavar="NAME=VALUE,…",
        help="Model: how it is trained, as in plan: tensor=8,context=2,pipeline=4,expert=8,data=4,"
        "micro-batch=1,interleave=1,zero=1,… Default: 1 each, data what the GPUs leave.",
    ),
]
MicroBatches = Annotated[
    int | None,
    typer.Option("--micro-batches", min=1, help="Model: of a replica in a step. Default 8."),
]
Sequence = Annotated[
    str | None,
    typer.Option("--sequence", help="Model: tokens of a sequence. Default: the model's."),
]
GpuName = Annotated[
    str | None,
    typer.Option(
        "--gpu", help="Model: whose memory it has to fit, without a design. Default h100."
    ),
]
ByPlacement = Annotated[
    bool,
    typer.Option("--by-placement", help="Also say how far the bytes go under every placement."),
]


def model_case(
    on: PatternCase,
    *,
    model: str | None,
    fix: str | None,
    micro_batches: int | None,
    sequence: str | None,
    gpu: str | None,
) -> ModelCase:
    """Return what the options say of a model."""
    from railweave.design.models import Recompute
    from railweave.predict.plan_space import parse_fixed
    from railweave.predict.plan_study import parse_count
    from railweave.report.patterns_model import ModelCase

    fields: dict[str, Any] = {"on": on}
    for name, value in (parse_fixed(fix) if fix else {}).items():
        fields[name.replace("-", "_")] = value
    if "recompute" in fields:
        fields["recompute"] = (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)[
            fields["recompute"]
        ]
    if "sequence_parallel" in fields:
        fields["sequence_parallel"] = bool(fields["sequence_parallel"])
    given = {"model": model, "micro_batches": micro_batches, "gpu": gpu}
    fields |= {name: value for name, value in given.items() if value is not None}
    if sequence is not None:
        fields["sequence"] = parse_count(sequence)
    return ModelCase(**fields)


def run_model(
    case: ModelCase, built: BuiltDesign | None, *, by_placement: bool, json: bool
) -> None:
    """Study a model and say what was found."""
    from railweave.report.patterns_model import nearest_models, study_model
    from railweave.report.patterns_placement import placement_json, placement_shares
    from railweave.report.patterns_tables import nearest_json

    if built is not None and case.gpu != "h100":
        raise InputError("--gpu and --design: the design names its own GPUs; leave one of both out")
    study = study_model(case, built)
    fits = study.memory is None or study.memory.fits
    near = () if fits else nearest_models(case, built)
    if json:
        document = study.to_json()
        document["nearest"] = nearest_json(near)
        if by_placement:
            document["placements"] = placement_json(placement_shares(case, built))
        print_json(document)
        return
    _tell(study)
    if near:
        print_text("Nearest that would fit:")
        for one in near:
            print_text(f"  {one.describe()}")
    if by_placement:
        tell_placements(case, built)


def _tell(study: ModelStudy) -> None:
    from railweave.report.patterns_tables import group_table

    print_text(f"{study.title}", style="bold")
    print_text(study.network)
    print_text("")
    print_table(group_table(study))
    print_text("")
    for sentence in study.interpretation:
        print_text(textwrap.fill(sentence, _WIDTH))


def tell_placements(case: PatternCase | ModelCase, built: BuiltDesign | None) -> None:
    """Print the placement rules compared."""
    from railweave.report.patterns_placement import placement_shares
    from railweave.report.patterns_tables import placement_table

    print_text("")
    print_table(placement_table(placement_shares(case, built)))
