"""``railweave replay``: traces of a real job on a design's fabric, against what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from railweave.cli._options import Engine, EngineName, Fail, Json, Routing, Seed
from railweave.cli._output import exit_code, print_findings, print_json, print_table, print_text
from railweave.design.models import PlacementName
from railweave.formats.execution_trace import TraceFormat, Waits

if TYPE_CHECKING:
    from railweave.report.replay import ReplayStudy

__all__ = ["register"]

_TOP: Final = 10

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…",
        help="Traces of one run, one a rank: PyTorch profiler (.json, .json.gz), NCCL Inspector, "
        "Chakra (NAME.RANK.et); or nccl-tests output.",
    ),
]
Kind = Annotated[
    TraceFormat | None,
    typer.Option("--format", help="What the files are. Default: seen from the files."),
]
Groups = Annotated[
    Path | None,
    typer.Option(
        "--groups", help='Chakra: JSON file of the ranks of each group, {"1": [0, 1], …}.'
    ),
]
TheWaits = Annotated[
    Waits,
    typer.Option(
        "--waits",
        help="PyTorch profiler: what compute waited for, operations that it had stopped for, or "
        "all that had ended; the truth lies between.",
    ),
]
Top = Annotated[
    int,
    typer.Option("--top", min=0, max=1000, help="Operations to list, those farthest off first."),
]


def _tell(study: ReplayStudy, design: Path, top: int) -> None:
    plan = study.plan
    print_text(
        f"{plan.source}: {len(plan.operations):,} operations of {plan.ranks:,} ranks on {design}",
        style="bold",
    )
    for name, value in study.facts():
        print_text(f"  {name:<18} {value}")
    print_text("")
    for table in study.tables(top):
        print_table(table)
        print_text("")
    if study.findings:
        print_findings(study.findings)
        print_text("")
    for note in study.assumptions:
        print_text(f"{note.subject}: {note.statement}", style="dim")


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def replay(  # noqa: PLR0917 - the options of a command
        files: Files,
        design: Annotated[
            Path, typer.Option("--design", help="Design file (YAML) on whose fabric it runs.")
        ],
        kind: Kind = None,
        groups: Groups = None,
        waits: TheWaits = Waits.SEEN,
        engine: Engine = EngineName.FLOW,
        placement: Annotated[
            PlacementName,
            typer.Option("--placement", help="Which GPU each rank of the traces gets."),
        ] = PlacementName.PACKED,
        routing: Routing = None,
        seed: Seed = None,
        fail: Fail = None,
        top: Top = _TOP,
        json: Json = False,
    ) -> None:
        """Replay traces of a real job: its operations on this fabric against what was measured.

        Example: railweave replay rank*.json.gz --design examples/superpod-h100-1su.yaml
        """
        from railweave.api import load
        from railweave.cli._progress import progress
        from railweave.formats.chakra import read_groups
        from railweave.formats.traces import read_traces
        from railweave.report.replay import study_replay

        built = load(design).build().fail(fail or ())
        with progress(quiet=json) as report_step:
            traces = read_traces(
                files,
                kind=kind,
                groups=read_groups(groups) if groups else None,
                waits=waits,
                progress=lambda part: report_step("reading traces", 0.4 * part),
            )
            study = study_replay(
                built,
                traces,
                engine=engine.value,
                placement=placement,
                routing=routing,
                seed=seed,
                progress=lambda step, part: report_step(step, 0.4 + 0.6 * part),
            )
        if json:
            print_json(study.to_json(top))
        else:
            _tell(study, design, top)
        raise typer.Exit(exit_code(study.findings, strict=False))
