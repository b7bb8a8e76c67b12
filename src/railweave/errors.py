"""The one error tree of railweave.

::

    RailweaveError
    ├── InputError            bad input: exit code 2
    │   ├── DesignError       one or more problems in a design or catalog file
    │   ├── UnitError         a quantity that cannot be read
    │   └── SizingError       a fabric that cannot be built from what was asked
    ├── MissingProgramError   a needed external program or extra is absent: exit code 3
    └── EngineError           the simulation cannot go on (a cycle of waits, say)

Every error carries its subject; :class:`DesignError` carries each problem with its position.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = [
    "DesignError",
    "EngineError",
    "InputError",
    "MissingProgramError",
    "Problem",
    "RailweaveError",
    "SizingError",
    "UnitError",
]


class RailweaveError(Exception):
    """Root of every error that railweave raises on purpose.

    ``exit_code`` is what the command line ends with.
    """

    exit_code = 1


class InputError(RailweaveError):
    """Something the user gave cannot be used; the text says where, what and how to mend it."""

    exit_code = 2


class UnitError(InputError):
    """A quantity that cannot be read: wrong unit, wrong dimension or not a number."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a file.

    ``line`` and ``column`` count from 1; 0 means the position is not known. ``path`` is the
    field's path, such as ``planes.backend.speed``. ``allowed`` says what would be right and
    ``nearest`` the nearest right value, where it can be known.
    """

    path: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    allowed: str = ""
    nearest: str = ""

    def __str__(self) -> str:
        """Give the problem as ``file:line:col: path: message; allowed: …; did you mean …?``."""
        where = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: "
        text = f"{where if self.file else ''}{self.path + ': ' if self.path else ''}{self.message}"
        if self.allowed:
            text += f"; allowed: {self.allowed}"
        if self.nearest:
            text += f"; did you mean {self.nearest!r}?"
        return text


class DesignError(InputError):
    """A design or catalog file with problems, every one of them at its position."""

    def __init__(self, problems: tuple[Problem, ...] | list[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class SizingError(InputError):
    """A fabric that cannot be built; ``path`` is the design field to change."""

    def __init__(
        self, message: str, *, path: str = "", allowed: str = "", nearest: str = ""
    ) -> None:
        self.problem = Problem(path=path, message=message, allowed=allowed, nearest=nearest)
        super().__init__(str(self.problem))

    def located(self, file: str, line: int, column: int) -> SizingError:
        """Return the same error at a place in a file."""
        moved = SizingError(self.problem.message)
        moved.problem = replace(self.problem, file=file, line=line, column=column)
        moved.args = (str(moved.problem),)
        return moved


class MissingProgramError(RailweaveError):
    """A needed external program or optional extra is not installed."""

    exit_code = 3


class EngineError(RailweaveError):
    """The simulation cannot go on; the text names the streams or links concerned."""
