"""``railweave collective`` over sizes on a design: what NCCL chooses, and what busbw to expect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from railweave.cli._options import EngineName
from railweave.cli._output import print_json, print_table, print_text
from railweave.design.models import Collective, PlacementName
from railweave.errors import InputError

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.predict.collective import Calibration, NcclAlgorithm, NcclProtocol
    from railweave.predict.exports import EnvironmentVariable
    from railweave.report.collective_tables import Prediction

__all__ = ["Asked", "predict_collective", "write_file"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be predicted, and how it is to be shown."""

    operation: Collective
    sizes: list[int]
    ranks: int | None
    placement: PlacementName
    engine: EngineName
    algorithm: NcclAlgorithm | None
    protocol: NcclProtocol | None
    sharp: bool
    explain: bool
    environment: bool
    out: Path | None
    tuner: Path | None
    json: bool


def write_file(path: Path, text: str, option: str) -> None:
    """Write a text file in one go.

    Raises:
        InputError: it cannot be written there.
    """
    from railweave.formats.files import staged

    if path.is_dir():
        raise InputError(f"{option} {path}: is a folder; name a file in it")
    try:
        with staged(path.parent) as stage:
            stage.write_text(path.name, text)
    except OSError as error:
        raise InputError(
            f"{option} {path}: cannot be written ({error.strerror}); name another place"
        ) from None


def predict_collective(asked: Asked, built: BuiltDesign, calibration: Calibration) -> None:
    """Predict, print, and write what was asked for."""
    from railweave.cli._progress import progress
    from railweave.formats.files import require_folder
    from railweave.predict.collective import choose
    from railweave.predict.exports import recommended_environment, tuner_csv
    from railweave.predict.network_part import measure_network
    from railweave.predict.system import system_of
    from railweave.report.collective_tables import Prediction, choices_json, write_choices

    for folder in (asked.out, None if asked.tuner is None else asked.tuner.parent):
        if folder is not None:
            require_folder(folder)
    nodes = built.with_collective(
        asked.operation, asked.sizes[-1], ranks=asked.ranks, placement=asked.placement
    ).placed()[0]
    system = system_of(built, nodes, in_network=asked.sharp)
    with progress(quiet=asked.json) as step:
        measured = measure_network(built, nodes, engine=asked.engine.value, progress=step)
    choose_at = partial(
        choose,
        system,
        asked.operation,
        network=measured.part,
        calibration=calibration,
        algorithm=asked.algorithm,
        protocol=asked.protocol,
    )
    prediction = Prediction.over(
        choose_at,
        asked.sizes,
        measured,
        algorithm=asked.algorithm,
        protocol=asked.protocol,
    )
    tuner = str(asked.tuner) if asked.tuner else ""
    variables = (
        recommended_environment(built, system, measured, nodes, tuner_file=tuner)
        if asked.environment
        else ()
    )
    if asked.tuner is not None:
        notes = [f"predicted by railweave for {built.design.name}, calibration {calibration.name}"]
        text = tuner_csv(asked.operation, system, prediction.quickest, notes)
        write_file(asked.tuner, text, "--export-tuner")
    page = None
    if asked.out is not None:
        page = write_choices(prediction, variables, asked.out)
    if asked.json:
        document = choices_json(prediction, engine=asked.engine.value, explain=asked.explain)
        if asked.environment:
            document["environment"] = [asdict(item) for item in variables]
        print_json(document)
        return
    _tell(prediction, explain=asked.explain)
    if asked.environment:
        _tell_environment(variables)
    for what, where in (("Tuner file", asked.tuner), ("Figure", page)):
        if where is not None:
            print_text(f"{what}: {where}")


def _tell(prediction: Prediction, *, explain: bool) -> None:
    """Print the table as nccl-tests would, and with --explain what stands behind it."""
    from railweave.report.collective_tables import (
        OPTION_NOTE,
        nccl_text,
        network_table,
        option_table,
        unusable_lines,
    )

    print_text(nccl_text(prediction).rstrip())
    if not explain:
        return
    shown = prediction.explained()
    for choice in shown:
        print_text("")
        print_table(option_table(choice))
    print_text("")
    if len(shown) < len(prediction.choices):
        print_text("Shown where another option is picked; --json has every size.", style="dim")
    for line in (OPTION_NOTE, *unusable_lines(prediction.first)):
        print_text(line, style="dim")
    if prediction.measured.patterns:
        print_text("")
        print_table(network_table(prediction.measured))
    print_text("")
    for item in dict.fromkeys(a for choice in prediction.choices for a in choice.assumptions):
        print_text(f"{item.subject}: {item.statement}", style="dim")


def _tell_environment(variables: Sequence[EnvironmentVariable]) -> None:
    """Print the variables in the form of nccl.conf."""
    from railweave.predict.exports import environment_text

    print_text("")
    text = environment_text(variables)
    print_text(text.rstrip() or "# the design implies no setting: the library's own are right")
