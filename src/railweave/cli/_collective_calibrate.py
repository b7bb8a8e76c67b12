"""``railweave collective --validate`` and ``--calibrate``: predictions against measurements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from railweave.cli._output import print_json, print_table, print_text
from railweave.errors import InputError
from railweave.units import counted

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from railweave.api import BuiltDesign
    from railweave.formats.nccl_tests import NcclTestTable
    from railweave.predict.calibration import Calibration, ValidationRow
    from railweave.predict.collective import NcclAlgorithm
    from railweave.predict.published import MeasuredPoint
    from railweave.predict.system import CollectiveSystem

__all__ = ["calibrate_design", "read_calibration", "validate_published"]


def read_calibration(path: Path | None) -> Calibration:
    """Return the calibration of a file, or the one that railweave carries.

    Raises:
        InputError: the file cannot be read, or holds no calibration.
    """
    from railweave.predict.calibration import default_calibration, parse_calibration

    if path is None:
        return default_calibration()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InputError(
            f"--calibration {path}: cannot be read ({reason}); name a file that --save wrote"
        ) from None
    return parse_calibration(text, str(path))


def validate_published(given: Path | None, *, explain: bool, json: bool) -> None:
    """Print how far predictions are from published results of nccl-tests."""
    from railweave.predict.calibration import validate
    from railweave.report.collective_validation import (
        band_table,
        point_table,
        system_table,
        validation_json,
    )

    table = validate(calibration=read_calibration(given))
    if json:
        print_json(validation_json(table))
        return
    if explain:
        print_table(point_table(table.rows))
        print_text("")
    print_table(system_table(table))
    print_text("")
    for part in (band_table(table), band_table(table, apart=True)):
        if part.rows:
            print_table(part)
            print_text("")
    print_text(
        f"calibration {table.calibration.name}: {len(table.rows)} published points; --explain "
        "lists each",
        style="dim",
    )


def calibrate_design(
    files: list[Path],
    design: Path | None,
    *,
    given: Path | None,
    save: Path | None,
    explain: bool,
    json: bool,
) -> None:
    """Fit to the nccl-tests output of a design's cluster; print the comparison, keep the result.

    Raises:
        InputError: nothing usable in the files, a cluster that the design does not have, a file
            that cannot be written.
    """
    from railweave.api import load
    from railweave.cli._collective_choice import write_file
    from railweave.formats.files import require_folder
    from railweave.predict.calibration import calibrate_with, calibration_yaml, validate
    from railweave.report.collective_validation import (
        calibration_json_document,
        parameter_table,
        point_table,
    )

    if not files:
        raise InputError("--save keeps what --calibrate finds; add --calibrate FILE")
    if design is None:
        raise InputError("--calibrate: which cluster was measured? name its design with --design")
    if save is not None:
        require_folder(save.parent)
    base = read_calibration(given)
    points, notes = _points(files, load(design).build())
    own = calibrate_with(points, base=base, name=design.stem)
    before, after = (validate(points, calibration=each) for each in (base, own))
    if save is not None:
        write_file(save, calibration_yaml(own), "--save")
    if json:
        print_json(calibration_json_document(before, after, notes))
        return
    for note in notes:
        print_text(note, style="yellow")
    print_table(point_table(before.rows, f"Before: calibration {base.name}"))
    print_text("")
    print_table(point_table(after.rows, f"After: calibration {own.name}"))
    print_text("")
    if explain:
        print_table(parameter_table(base, own))
        print_text("")
    print_text(
        f"mean error {_mean(before.rows):.1%} before, {_mean(after.rows):.1%} after, over "
        f"{counted(len(points), 'row')}"
    )
    if save is not None:
        print_text(f"Calibration: {save}; use it with --calibration {save}")


def _mean(rows: tuple[ValidationRow, ...]) -> float:
    errors = [abs(row.error) for row in rows]
    return sum(errors) / len(errors)


def _points(files: list[Path], built: BuiltDesign) -> tuple[list[MeasuredPoint], list[str]]:
    """Return the points of every table in the files, and what has to be said of them."""
    from railweave.design.models import Collective
    from railweave.formats.nccl_tests import read_nccl_tests
    from railweave.predict.calibration import measured_points
    from railweave.predict.system import system_of

    points: list[MeasuredPoint] = []
    notes: list[str] = []
    for file in files:
        for table in read_nccl_tests(file):
            notes += table.problems
            if not table.rows:
                continue
            if table.op not in set(Collective):
                notes.append(_no_operation(table))
                continue
            rows = [row for row in table.rows if not row.wrong]
            if len(rows) < len(table.rows):
                notes.append(f"{table.file}: rows with wrong results are left out")
            system = system_of(built, _nodes(built, table))
            _require_same_gpus(built, table, system)
            found = measured_points(system, rows, source=table.file, system_id=file.name)
            points += [replace(point, algorithm=_forced(table)) for point in found]
    if not points:
        raise InputError(
            "--calibrate: the files hold no usable row; give results out of place of "
            + ", ".join(op.value for op in Collective)
        )
    return points, notes


def _no_operation(table: NcclTestTable) -> str:
    if table.op is None:
        return (
            f"{table.file}:{table.line}: it does not say which operation this is, so it is left "
            "out; keep the line with the command, such as all_gather_perf"
        )
    return f"{table.file}:{table.line}: {table.op} is not predicted here and left out"


def _require_same_gpus(built: BuiltDesign, table: NcclTestTable, system: CollectiveSystem) -> None:
    """Refuse results of GPUs of another generation than the design's.

    Raises:
        InputError: naming both.
    """
    catalog = built.document.catalog
    known = {gpu.name.split("-")[0].upper(): gpu for gpu in catalog.gpus()}
    for device in table.devices:
        words = device.upper().replace("-", " ").split()
        found = next((known[word] for word in words if word in known), None)
        if found is not None and found.generation != system.generation:
            raise InputError(
                f"{table.file}:{table.line}: measured on {device}, but the design's GPUs are of "
                f"the generation {system.generation}; name the design of that cluster"
            )


def _forced(table: NcclTestTable) -> NcclAlgorithm | None:
    """Return the algorithm that the run forced, None where the library chose."""
    from railweave.predict.collective import NcclAlgorithm

    name = table.algorithm.lower()
    return next((a for a in NcclAlgorithm if a.value.lower() == name), None)


def _nodes(built: BuiltDesign, table: NcclTestTable) -> npt.NDArray[np.int32]:
    """Return GPUs of the design like those that were measured: as many servers, as many of each.

    Raises:
        InputError: the design does not have them.
    """
    import numpy as np

    from railweave.workload import place

    where = f"{table.file}:{table.line}: "
    if table.ranks is None:
        raise InputError(
            f"{where}it does not say how many ranks there were; keep the list below "
            "'# Using devices'"
        )
    servers = len(table.hosts)
    if not servers or table.ranks % servers:
        return place(built.fabric, table.ranks)
    each = table.ranks // servers
    fabric = built.fabric
    home = fabric.node_server[fabric.gpus]
    members = [fabric.gpus[home == server] for server in np.unique(home)]
    enough = [gpus[:each] for gpus in members if len(gpus) >= each]
    if len(enough) < servers:
        most = max(len(gpus) for gpus in members)
        raise InputError(
            f"{where}measured on {servers} servers with {each} ranks on each, but the design has "
            f"{len(members)} servers of {most} GPUs; name the design of that cluster"
        )
    return np.concatenate(enough[:servers])
