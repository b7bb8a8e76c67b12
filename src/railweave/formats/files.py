"""Writing files so that none is ever seen half-written."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from railweave.errors import InputError

__all__ = ["StagedFiles", "require_folder", "staged"]


def require_folder(folder: Path) -> None:
    """Make sure that files can be written into a folder, before any work is done; make nothing.

    Raises:
        InputError: it is a file, lies under a file, or may not be written to.
    """
    place = folder
    while not place.exists():
        if place.is_symlink():
            raise InputError(f"{place}: is a link to nothing; name a folder")
        place = place.parent
    if not place.is_dir():
        raise InputError(f"{place}: is a file; name a folder, or one that does not exist yet")
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"{place}: may not be written to; name another folder")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold back Ctrl-C and termination for a moment; they arrive afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Signals reach the main thread only.
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda got, _: came.append(got))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for got in came:
            signal.raise_signal(got)


class StagedFiles:
    """Files written under temporary names in the target folder, renamed together at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pending: list[tuple[Path, Path]] = []

    def write(self, name: str, writer: Callable[[Path], object]) -> Path:
        """Let ``writer`` write a file; return the path that it will have after the commit.

        An ``OSError`` about the temporary file names that path.
        """
        temporary, final = self.folder / f".{name}.{os.getpid()}.part", self.folder / name
        # Noted before it exists, so that an interruption at any point leaves nothing behind.
        self._pending.append((temporary, final))
        try:
            writer(temporary)
        except OSError as error:
            if error.filename == str(temporary):
                error.filename = str(final)
            raise
        return final

    def write_text(self, name: str, text: str) -> Path:
        """Write text as UTF-8."""
        return self.write(name, lambda path: path.write_text(text, encoding="utf-8"))

    def commit(self) -> None:
        """Give every file its name.

        Raises:
            InputError: a folder stands where a file is to be.
        """
        for _, final in self._pending:
            if final.is_dir():
                raise InputError(f"{final}: is a folder; move it away or name another one")
        with _undisturbed():
            for temporary, final in self._pending:
                temporary.replace(final)
            self._pending.clear()

    def discard(self) -> None:
        """Remove what was not committed."""
        with _undisturbed():
            for temporary, _ in self._pending:
                temporary.unlink(missing_ok=True)
            self._pending.clear()


@contextmanager
def staged(folder: Path) -> Iterator[StagedFiles]:
    """Yield a stage in ``folder`` (made where missing); commit at the end, discard on any failure.

    A folder that was made for files which never came is removed again.

    Raises:
        InputError: files cannot be written there.
    """
    require_folder(folder)
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    stage = StagedFiles(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield stage
        stage.commit()
    except BaseException:
        stage.discard()
        for place in made:
            if place.is_dir() and not any(place.iterdir()):
                place.rmdir()
        raise
