"""A run record on disk: ``report.html``, ``result.json``, Parquet tables; all of them or none."""

from __future__ import annotations

import dataclasses
import json
import math
from enum import Enum
from pathlib import Path

import numpy as np

from railweave.formats.files import staged
from railweave.report.html import render_html
from railweave.report.record import RunRecord

__all__ = ["record_json", "write_outputs"]

#: what only the page shows; the numbers behind it stand in the Parquet tables
_PAGE_ONLY = ("tables", "topology", "heat", "stated", "curves")


def _plain(value: object) -> object:  # noqa: PLR0911 - one line for each kind of value
    """Turn records, enums and arrays into what JSON knows; NaN and infinities into null."""
    if hasattr(value, "to_json"):
        return _plain(value.to_json())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def record_json(record: RunRecord) -> dict[str, object]:
    """Return the record as one JSON document; the Parquet tables are not repeated in it."""
    document = {
        field.name: _plain(getattr(record, field.name))
        for field in dataclasses.fields(record)
        if field.name not in _PAGE_ONLY
    }
    return document


def write_outputs(record: RunRecord, folder: Path) -> Path:
    """Write everything into ``folder`` and return the path of the report."""
    page = render_html(record)
    document = json.dumps(record_json(record), indent=2, ensure_ascii=False)
    with staged(folder) as stage:
        for name, frame in record.tables:
            stage.write(f"{name}.parquet", frame.write_parquet)
        stage.write_text("result.json", document + "\n")
        return stage.write_text("report.html", page)
