"""``railweave infer``: what serving a model takes on this fabric, and the network's part of it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from railweave.cli._options import Engine, EngineName, Fail, Json, Seed
from railweave.cli._output import print_json, print_table, print_text
from railweave.design.models import Precision
from railweave.errors import InputError

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.engine.choice import EngineChoice
    from railweave.predict.serving import ServingEstimate
    from railweave.workload.inference import InferencePlan

__all__ = ["register"]

_WIDTH: Final = 80

Model = Annotated[str, typer.Argument(metavar="MODEL", help="Catalog name, such as llama3-70b.")]
DesignFile = Annotated[Path, typer.Option("--design", help="Design whose fabric it runs on.")]
PrefillGpus = Annotated[
    int | None,
    typer.Option("--prefill-gpus", min=1, help="GPUs that prefill. Default: one instance."),
]
DecodeGpus = Annotated[
    int | None,
    typer.Option("--decode-gpus", min=1, help="GPUs that decode. Default: one instance."),
]
Tp = Annotated[int, typer.Option("--tp", min=1, help="Tensor ranks of a decode instance.")]
Ep = Annotated[
    int, typer.Option("--ep", min=1, help="Ranks its experts are spread over, a multiple of --tp.")
]
PrefillTp = Annotated[
    int | None, typer.Option("--prefill-tp", min=1, help="Of a prefill instance. Default: --tp.")
]
PrefillEp = Annotated[
    int | None, typer.Option("--prefill-ep", min=1, help="Of a prefill instance. Default: --ep.")
]
Batch = Annotated[
    int, typer.Option("--batch", min=1, help="Sequences a decode instance answers at once.")
]
Prompt = Annotated[float, typer.Option("--prompt", min=1, help="Tokens of a prompt, mean.")]
Output = Annotated[float, typer.Option("--output", min=1, help="Tokens of an answer, mean.")]
Spread = Annotated[
    float,
    typer.Option(
        "--spread", min=0, help="Of both lengths: standard deviation over mean (log-normal)."
    ),
]
Rate = Annotated[float, typer.Option("--rate", help="Requests a second (Poisson).")]
Count = Annotated[int, typer.Option("--requests", min=1, help="Requests to follow.")]
Arithmetic = Annotated[
    Precision, typer.Option("--precision", help="Of weights and matrix products.")
]
KvPrecision = Annotated[Precision, typer.Option("--kv-precision", help="Of the KV cache.")]
Dispatch = Annotated[
    Precision, typer.Option("--dispatch", help="Of tokens on their way to experts.")
]
Skew = Annotated[
    float,
    typer.Option("--skew", min=1, help="Tokens of the hottest expert rank over its fair share."),
]


def _tell(found: ServingEstimate) -> None:
    from railweave.report.serving import serving_headline, serving_tables

    for number, line in enumerate(serving_headline(found)):
        for piece in textwrap.wrap(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False):
            print_text(piece, style="" if number else "bold")
    print_text("")
    for table in serving_tables(found):
        print_table(table)
        print_text("")
    for item in found.assumptions:
        print_text(f"{item.subject}: {item.statement}", style="dim")


def _choice(built: BuiltDesign, engine: EngineName, seed: int) -> EngineChoice:
    from railweave.engine.choice import EngineChoice

    settings = built.packet_settings() if engine is EngineName.PACKET else None
    return EngineChoice(engine.value, settings=settings, seed=seed)


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def infer(  # noqa: PLR0917 - the options of a command
        model: Model,
        design: DesignFile,
        tp: Tp = 8,
        ep: Ep = 1,
        prefill_tp: PrefillTp = None,
        prefill_ep: PrefillEp = None,
        prefill_gpus: PrefillGpus = None,
        decode_gpus: DecodeGpus = None,
        batch: Batch = 64,
        prompt: Prompt = 2048,
        output: Output = 256,
        spread: Spread = 0.5,
        rate: Rate = 4.0,
        requests: Count = 100,
        precision: Arithmetic = Precision.BF16,
        kv_precision: KvPrecision = Precision.BF16,
        dispatch: Dispatch = Precision.BF16,
        skew: Skew = 1.0,
        fail: Fail = None,
        engine: Engine = EngineName.FLOW,
        seed: Seed = None,
        json: Json = False,
    ) -> None:
        """Serving a model: time to first token, time per token, what the network costs.

        Prompts are prefilled on some GPUs and answered on others; KV caches cross the network.

        Example: railweave infer llama3-70b --design examples/superpod-h100-1su.yaml --rate 8
        """
        from railweave.api import load
        from railweave.cli._progress import progress
        from railweave.predict.serving import ServingQuestion, estimate_serving
        from railweave.workload.inference import InferencePlan, Lengths, RequestLoad

        built = load(design).build().fail(fail or ())
        shape = built.document.catalog.model(model)
        chance = built.design.seed if seed is None else seed
        if skew > 1 and max(ep, prefill_ep or ep) == 1:
            raise InputError(
                "--skew speaks of experts spread over ranks; give --ep, or leave it out"
            )

        def plan(tensor: int, expert: int) -> InferencePlan:
            uneven = skew if expert > 1 else 1.0
            return InferencePlan(shape, tensor, expert, precision, kv_precision, dispatch, uneven)

        first = plan(prefill_tp or tp, prefill_ep or ep)
        second = plan(tp, ep)
        question = ServingQuestion(
            prefill=first,
            decode=second,
            prefill_gpus=prefill_gpus or first.gpus,
            decode_gpus=decode_gpus or second.gpus,
            batch=batch,
            load=RequestLoad(
                rate, requests, Lengths(prompt, spread), Lengths(output, spread), seed=chance
            ),
        )
        with progress(quiet=json) as report_step:
            found = estimate_serving(built, question, _choice(built, engine, chance), report_step)
        if json:
            from railweave.report.serving import serving_json

            print_json(serving_json(found))
        else:
            _tell(found)
