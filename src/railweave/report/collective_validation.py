"""Predicted against measured collectives: tables and JSON of a validation and of a calibration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from railweave.predict.calibration import Calibration, ValidationRow, ValidationTable
from railweave.report.page_table import DASH, PageTable, known
from railweave.units import format_bytes, format_seconds

__all__ = [
    "band_table",
    "calibration_json_document",
    "parameter_table",
    "point_table",
    "system_table",
    "validation_json",
]

#: bands in their order, and what each covers
BANDS: Final = (
    ("large", "from 256 MiB"),
    ("between", "64 KiB–1 MiB, 64–256 MiB"),
    ("middle", "1–64 MiB"),
    ("latency", "below 64 KiB"),
)
_MOVED: Final = 0.005


def _percent(value: float) -> str:
    return known(value, lambda share: f"{100 * share:.1f} %")


def _signed(value: float) -> str:
    return f"{100 * value:+.1f} %"


def band_table(table: ValidationTable, *, apart: bool = False) -> PageTable:
    """Return mean and worst error by band of sizes; ``apart``: of EFA and TCP networks."""
    rows = tuple(
        (
            what,
            f"{len(table.of(band, apart=apart))}",
            _percent(table.mean_error(band, apart=apart)),
            _percent(table.worst_error(band, apart=apart)),
            _worst(table.of(band, apart=apart)),
        )
        for band, what in BANDS
        if table.of(band, apart=apart)
    )
    which = "on EFA and TCP, which NCCL's constants do not describe" if apart else "by size"
    return PageTable(
        "bands-apart" if apart else "bands",
        f"Error of the predicted bus bandwidth {which}",
        ("sizes", "points", "mean", "worst", "the worst is"),
        rows,
        text_columns=("the worst is",),
    )


def _worst(rows: Sequence[ValidationRow]) -> str:
    row = max(rows, key=lambda each: abs(each.error))
    point = row.point
    return f"{point.system_id}, {point.op.value} {format_bytes(point.size_bytes)}"


def _label(row: ValidationRow) -> str:
    held = {"fit": "", "check": " (kept aside)"}.get(row.point.use, f" ({row.point.use})")
    return f"{row.point.system_id}{held}"


def system_table(table: ValidationTable) -> PageTable:
    """Return mean errors by system and operation, and by band."""
    groups: dict[tuple[str, str], list[ValidationRow]] = {}
    for row in table.rows:
        groups.setdefault((_label(row), row.point.op.value), []).append(row)
    body = []
    for (label, op), rows in groups.items():
        cells = [label, op, f"{len(rows)}"]
        for band, _ in BANDS:
            mine = [abs(row.error) for row in rows if row.band == band]
            cells.append(_percent(sum(mine) / len(mine)) if mine else DASH)
        body.append(tuple(cells))
    return PageTable(
        "systems",
        "Mean error by system and operation",
        ("system", "operation", "points", *(band for band, _ in BANDS)),
        tuple(body),
        text_columns=("operation",),
        optional=("points", "between"),
    )


def point_table(rows: Iterable[ValidationRow], title: str = "Every point") -> PageTable:
    """Return measured and predicted bus bandwidth and time of each point."""
    return PageTable(
        "points",
        title,
        ("system", "operation", "size", "time", "GB/s", "predicted", "error", "option"),
        tuple(
            (
                row.point.system_id,
                row.point.op.value,
                format_bytes(row.point.size_bytes),
                format_seconds(row.point.time_s),
                f"{row.point.busbw_Bps / 1e9:.4g}",
                f"{row.predicted_busbw_Bps / 1e9:.4g}",
                _signed(row.error),
                row.option,
            )
            for row in rows
        ),
        text_columns=("operation", "option"),
        optional=("time", "option"),
    )


def parameter_table(before: Calibration, after: Calibration) -> PageTable:
    """Return the parameters that the points inform: where they were and where they are now."""
    rows = tuple(
        (name, f"{before.values[name]:.3g}", f"{value:.3g}", f"{after.informed.get(name, 0)}")
        for name, value in after.values.items()
        if after.informed.get(name, 0)
    )
    moved = sum(
        abs(after.values[name] - before.values[name]) > _MOVED * max(before.values[name], 1e-12)
        for name, *_ in rows
    )
    return PageTable(
        "parameters",
        "Parameters that these points inform",
        ("parameter", before.name, after.name, "points"),
        rows,
        (f"{moved} of them moved by more than {100 * _MOVED:g} %; all others are as they were.",),
    )


def _row_json(row: ValidationRow) -> dict[str, Any]:
    point = row.point
    return {
        "system": point.system_id,
        "title": point.title,
        "use": point.use,
        "source": point.source.title,
        "operation": point.op.value,
        "ranks": point.system.ranks,
        "network": point.system.network,
        "size_bytes": point.size_bytes,
        "time_s": point.time_s,
        "busbw_Bps": point.busbw_Bps,
        "predicted_s": row.predicted_s,
        "predicted_busbw_Bps": row.predicted_busbw_Bps,
        "error": row.error,
        "option": row.option,
        "band": row.band,
        "apart": row.apart,
    }


def validation_json(table: ValidationTable) -> dict[str, Any]:
    """Return a validation for JSON; errors are shares of the measured bus bandwidth."""
    return {
        "calibration": table.calibration.name,
        "bands": [
            {
                "band": band,
                "apart": apart,
                "points": len(table.of(band, apart=apart)),
                "mean_error": _number(table.mean_error(band, apart=apart)),
                "worst_error": _number(table.worst_error(band, apart=apart)),
            }
            for apart in (False, True)
            for band, _ in BANDS
            if table.of(band, apart=apart)
        ],
        "points": [_row_json(row) for row in table.rows],
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def calibration_json_document(
    before: ValidationTable, after: ValidationTable, notes: Sequence[str]
) -> dict[str, Any]:
    """Return a calibration for JSON: the points before and after, and the parameters."""
    return {
        "notes": list(notes),
        "before": validation_json(before),
        "after": validation_json(after),
        "parameters": [
            {
                "name": name,
                "before": before.calibration.values[name],
                "after": value,
                "points": after.calibration.informed.get(name, 0),
            }
            for name, value in after.calibration.values.items()
        ],
    }
