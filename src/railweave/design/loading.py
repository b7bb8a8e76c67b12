"""From a design file to a checked design that remembers where each field was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from railweave.design.models import Design, PlaneName
from railweave.errors import DesignError
from railweave.formats.validation import validate
from railweave.formats.yaml_source import PathStep, YamlDocument, parse_yaml, read_yaml

if TYPE_CHECKING:
    from railweave.catalog import Catalog

__all__ = ["LoadedDesign", "load_design", "named_files", "parse_design"]


@dataclass(frozen=True, slots=True)
class LoadedDesign:
    """A valid design, the catalog its names refer to, and the file it came from.

    ``folder`` is where files named in the design are looked for.
    """

    design: Design
    catalog: Catalog
    file: str
    folder: Path
    document: YamlDocument = field(repr=False)

    def position(self, path: str | Sequence[PathStep]) -> tuple[int, int]:
        """Return line and column of a field, or of its nearest parent that is written.

        Args:
            path: the field's path, such as ``"planes.backend.speed"`` or ``("jobs", 0, "size")``.
        """
        return self.document.position(_steps(path))

    def where(self, path: str | Sequence[PathStep]) -> str:
        """Return ``file:line:col`` of a field, as findings name their place."""
        line, column = self.position(path)
        return f"{self.file}:{line}:{column}"

    def resolve(self, name: str) -> Path:
        """Return the path of a file named in the design."""
        return self.folder / name


def load_design(path: str | Path) -> LoadedDesign:
    """Read, validate and check a design file.

    Raises:
        DesignError: the file cannot be read, is no sound YAML, or the design has problems; every
            one found is in it, at its position.
    """
    path = Path(path)
    return _check(read_yaml(path), path.parent)


def parse_design(
    text: str, file: str = "<design>", folder: str | Path | None = "."
) -> LoadedDesign:
    """Validate and check the text of a design.

    Args:
        text: the YAML.
        file: the name its problems are reported under.
        folder: where files named in the design are looked for; None: the design is a stranger's
            and may name none, so that no file is opened or even looked for.

    Raises:
        DesignError: as :func:`load_design`.
    """
    document = parse_yaml(text, file)
    return _check(document, None if folder is None else Path(folder))


def named_files(design: Design) -> tuple[tuple[tuple[PathStep, ...], str], ...]:
    """Return every file that a design names: the field's path and the name."""
    found: list[tuple[tuple[PathStep, ...], str]] = []
    found += ((("catalog", number), name) for number, name in enumerate(design.catalog))
    for plane in PlaneName:
        spec = getattr(design.planes, plane.value)
        if spec is not None:
            named = (("graph",), spec.graph), (("routing", "table"), spec.routing.table)
            found += ((("planes", plane.value, *rest), name) for rest, name in named if name)
    return tuple(found)


def _refuse_files(design: Design, document: YamlDocument) -> None:
    problems = [
        document.problem(
            path,
            "this names a file, and no file is opened for a design that comes as text",
            allowed="a design that stands alone, without own catalog, graph and table files",
        )
        for path, _ in named_files(design)
    ]
    if problems:
        raise DesignError(problems)


def _check(document: YamlDocument, folder: Path | None) -> LoadedDesign:
    from railweave.design.semantics import check_design, load_catalog

    design = validate(Design, document)
    if folder is None:
        _refuse_files(design, document)
        folder = Path()
    catalog = load_catalog(design, document, folder)
    loaded = LoadedDesign(design, catalog, document.file, folder, document)
    check_design(loaded)
    return loaded


def _steps(path: str | Sequence[PathStep]) -> tuple[PathStep, ...]:
    """Split ``"jobs[0].size"`` or ``"jobs.0.size"`` into its steps."""
    if not isinstance(path, str):
        return tuple(path)
    parts = path.replace("[", ".").replace("]", "").split(".")
    return tuple(int(part) if part.isdigit() else part for part in parts if part)
