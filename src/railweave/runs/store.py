"""Results kept on disk under the hash of what they came from: the same work is never done twice.

Layout: ``ROOT/ab/abcdef…/`` with ``result.json`` (headline numbers, assumptions, and what the key
was made of) and Parquet tables beside it. A directory is written under a temporary name and
renamed when complete, so that an interrupted run leaves nothing half-written.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railweave.errors import InputError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ResultStore", "StoredResult", "content_key"]

_DOCUMENT = "result.json"


def content_key(design: Mapping[str, Any], options: Mapping[str, Any], version: str) -> str:
    """Return the SHA-256 (hex) of a design, the options of the run and railweave's version.

    The order of mappings does not matter. Values must be what JSON can hold.

    Raises:
        InputError: a value JSON cannot hold, NaN and infinity included.
    """
    try:
        text = json.dumps(
            {"design": design, "options": options, "version": version},
            sort_keys=True,
            separators=(",", ":"),
            allow_nan=False,
        )
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the run cannot be given a key ({error}); designs and options hold text, finite "
            "numbers, booleans, lists and mappings only"
        ) from None
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A kept result: its key, its directory and its document."""

    key: str
    directory: Path
    document: dict[str, Any]

    def table(self, name: str) -> pl.DataFrame:
        """Read one of its tables.

        Raises:
            InputError: there is no such table.
        """
        import polars as pl

        path = self.directory / f"{name}.parquet"
        if not path.is_file():
            known = ", ".join(sorted(p.stem for p in self.directory.glob("*.parquet"))) or "none"
            raise InputError(f"result {self.key[:12]} has no table {name!r}; it has: {known}")
        return pl.read_parquet(path)


class ResultStore:
    """Content-addressed results in a directory, which is made when first needed.

    Raises:
        InputError: there is a file of that name.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        if self.root.exists() and not self.root.is_dir():
            raise InputError(f"store: {root} is a file; results need a folder of their own")

    def _place(self, key: str) -> Path:
        if len(key) != 64 or any(c not in "0123456789abcdef" for c in key):
            raise InputError(f"{key!r} is not a result key; allowed: 64 hexadecimal digits")
        return self.root / key[:2] / key

    def has(self, key: str) -> bool:
        """Tell whether there is a result of this key, without reading it.

        Raises:
            InputError: no key.
        """
        return (self._place(key) / _DOCUMENT).is_file()

    def get(self, key: str) -> StoredResult | None:
        """Return the result of this key, or None."""
        place = self._place(key)
        try:
            document = json.loads((place / _DOCUMENT).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise InputError(
                f"{place / _DOCUMENT}: stored result cannot be read ({error}); delete its "
                "directory to have it computed again"
            ) from None
        return StoredResult(key, place, document)

    def put(
        self,
        key: str,
        document: Mapping[str, Any],
        tables: Mapping[str, pl.DataFrame] | None = None,
    ) -> StoredResult:
        """Keep a result; one that is already there stays as it is.

        Args:
            key: from :func:`content_key`.
            document: what JSON can hold.
            tables: name → frame, each kept as Parquet.
        """
        place = self._place(key)
        place.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
        try:
            for name, frame in (tables or {}).items():
                frame.write_parquet(work / f"{name}.parquet")
            text = json.dumps(dict(document), indent=2, allow_nan=False)
            (work / _DOCUMENT).write_text(text + "\n", encoding="utf-8")
            os.chmod(work, 0o755)
            try:
                work.rename(place)
            except OSError:
                if not (place / _DOCUMENT).is_file():
                    raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
        kept = self.get(key)
        if kept is None:
            raise InputError(
                f"{place}: result vanished while it was written; is another run deleting?"
            )
        return kept

    def keys(self) -> tuple[str, ...]:
        """Return all keys, sorted."""
        return tuple(
            sorted(
                p.parent.name
                for p in self.root.glob(f"??/*/{_DOCUMENT}")
                if len(p.parent.name) == 64
            )
        )
