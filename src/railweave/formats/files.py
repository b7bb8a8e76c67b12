"""Writing files so that none is ever seen half-written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["StagedFiles", "staged"]


class StagedFiles:
    """Files written under temporary names in the target folder, renamed together at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pending: list[tuple[Path, Path]] = []

    def write(self, name: str, writer: Callable[[Path], object]) -> Path:
        """Let ``writer`` write a file; return the path that it will have after the commit."""
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".part", dir=self.folder)
        os.close(handle)
        self._pending.append((Path(temporary), self.folder / name))
        writer(Path(temporary))
        return self.folder / name

    def write_text(self, name: str, text: str) -> Path:
        """Write text as UTF-8."""
        return self.write(name, lambda path: path.write_text(text, encoding="utf-8"))

    def commit(self) -> None:
        """Give every file its name and ordinary permissions."""
        mask = os.umask(0)
        os.umask(mask)
        for temporary, final in self._pending:
            temporary.chmod(0o666 & ~mask)
            temporary.replace(final)
        self._pending.clear()

    def discard(self) -> None:
        """Remove what was not committed."""
        for temporary, _ in self._pending:
            temporary.unlink(missing_ok=True)
        self._pending.clear()


@contextmanager
def staged(folder: Path) -> Iterator[StagedFiles]:
    """Yield a stage in ``folder`` (made where missing); commit at the end, discard on any failure."""
    folder.mkdir(parents=True, exist_ok=True)
    stage = StagedFiles(folder)
    try:
        yield stage
        stage.commit()
    finally:
        stage.discard()
