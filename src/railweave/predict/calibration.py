"""Fitting the collective model to measurements, and holding it against them.

:func:`fit` finds the parameters from points, :func:`leave_one_system_out` says how well they
predict a system that was not among them, :func:`calibrate_with` moves the carried calibration
towards a user's own nccl-tests tables, and :func:`validate` compares with what is published.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np

from railweave.design.models import Collective
from railweave.errors import InputError
from railweave.predict._calibration_file import (
    calibration_json,
    calibration_yaml,
    default_calibration,
    parse_calibration,
)
from railweave.predict._calibration_fit import Prepared, least_squares_fit
from railweave.predict._nccl_parameters import (
    PARAMETERS,
    Calibration,
    ParameterSpec,
    library_calibration,
    prior_calibration,
)
from railweave.predict.collective import choose, size_band
from railweave.predict.published import MeasuredPoint, published_points
from railweave.predict.system import CollectiveSystem
from railweave.provenance import Certainty, Source

__all__ = [
    "PARAMETERS",
    "Calibration",
    "LeftOut",
    "MeasuredRow",
    "ParameterSpec",
    "ValidationRow",
    "ValidationTable",
    "calibrate_with",
    "calibration_json",
    "calibration_yaml",
    "default_calibration",
    "fit",
    "leave_one_system_out",
    "library_calibration",
    "measured_points",
    "parse_calibration",
    "prior_calibration",
    "validate",
]

#: network classes that NCCL's constants do not describe: reported apart
APART: Final = ("efa", "tcp")
#: how strongly a user's points must pull: less than published ones, which are of other systems
USER_HOLD: Final = 0.5


class MeasuredRow(Protocol):
    """One row of nccl-tests, as :mod:`railweave.formats.nccl_tests` reads it."""

    @property
    def op(self) -> str | None: ...  # noqa: D102
    @property
    def ranks(self) -> int | None: ...  # noqa: D102
    @property
    def size_bytes(self) -> int: ...  # noqa: D102
    @property
    def time_s(self) -> float: ...  # noqa: D102
    @property
    def in_place(self) -> bool: ...  # noqa: D102


# ---------------------------------------------------------------- fitting


def fit(
    points: Sequence[MeasuredPoint] | None = None,
    *,
    start: Calibration | None = None,
    name: str = "published",
) -> Calibration:
    """Fit every parameter to points, by least squares of ln(predicted / measured).

    A parameter that no point depends on keeps its start. A relative error of 10 % weighs 1 for
    sizes from 256 MiB, 33 % for smaller ones.

    Args:
        points: default: the published ones marked for fitting.
        start: where the parameters start; default: their priors.
        name: of the calibration.

    Raises:
        InputError: no points.
    """
    used = published_points("fit") if points is None else tuple(points)
    if not used:
        raise InputError("calibration: there is no point to fit to; give at least one")
    origin = (start or prior_calibration()).values
    values, informed, errors = least_squares_fit(used, origin)
    return _fitted(name, used, values, informed, errors)


def _fitted(
    name: str,
    points: Sequence[MeasuredPoint],
    values: Mapping[str, float],
    informed: Mapping[str, int],
    errors: Iterable[float],
) -> Calibration:
    return Calibration(
        name=name,
        values=MappingProxyType(dict(values)),
        source=_sources(points),
        certainty=Certainty.ESTIMATED,
        informed=MappingProxyType(dict(informed)),
        spread=MappingProxyType(_spreads(points, errors)),
        points=len(points),
        systems=len({point.system_id for point in points}),
    )


def _sources(points: Sequence[MeasuredPoint]) -> str:
    titles = sorted({point.source.title for point in points})
    return titles[0] if len(titles) == 1 else f"{len(titles)} published sources"


def _spreads(points: Sequence[MeasuredPoint], errors: Iterable[float]) -> dict[str, float]:
    """Return the root mean square of the errors by network class and size band."""
    found: dict[str, list[float]] = {}
    for point, error in zip(points, errors, strict=True):
        key = f"{point.system.network}/{size_band(point.size_bytes)}"
        found.setdefault(key, []).append(error)
    return {
        key: math.sqrt(sum(error * error for error in each) / len(each))
        for key, each in sorted(found.items())
    }


def calibrate_with(
    points: Sequence[MeasuredPoint],
    *,
    base: Calibration | None = None,
    name: str = "own measurements",
) -> Calibration:
    """Move a calibration towards a user's points.

    Only parameters that the points depend on move, and each is held to where it was: a few points
    change it little. Spreads are those of the points where there are some, else the base's.

    Raises:
        InputError: no points.
    """
    if not points:
        raise InputError(
            "calibration: the files hold no usable row; give at least one out of place"
        )
    origin = base or default_calibration()
    values, informed, errors = least_squares_fit(points, origin.values, hold=USER_HOLD)
    found = _fitted(name, points, values, informed, errors)
    return replace(found, spread=MappingProxyType({**origin.spread, **found.spread}))


def measured_points(
    system: CollectiveSystem,
    rows: Iterable[MeasuredRow],
    *,
    source: str = "own nccl-tests run",
    system_id: str = "own",
) -> tuple[MeasuredPoint, ...]:
    """Turn rows of nccl-tests into points: those out of place, of a known operation, with a time.

    Raises:
        InputError: rows of another number of ranks than the system has.
    """
    known = {op.value: op for op in Collective}
    points = []
    for row in rows:
        if row.in_place or row.size_bytes < 1 or not row.time_s > 0 or row.op not in known:
            continue
        if row.ranks is not None and row.ranks != system.ranks:
            raise InputError(
                f"{source}: measured with {row.ranks} ranks, but the system has {system.ranks} "
                f"({system.describe()}); describe the system that was measured"
            )
        points.append(
            MeasuredPoint(
                system_id=system_id,
                system=system,
                op=known[row.op],
                size_bytes=row.size_bytes,
                time_s=row.time_s,
                source=Source(source, Certainty.CONFIRMED),
                title=system.describe(),
            )
        )
    return tuple(points)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How well the rest predicts a system: errors of bus bandwidth, shares of the measured."""

    system_id: str
    title: str
    points: int
    mean_error: float
    worst_error: float
    mean_large_error: float | None  #: of sizes from 256 MiB on


def leave_one_system_out(
    points: Sequence[MeasuredPoint] | None = None, *, systems: Sequence[str] | None = None
) -> tuple[LeftOut, ...]:
    """Fit without each system in turn, and compare with it.

    Args:
        points: default: the published ones marked for fitting.
        systems: leave out only these in turn; default: each.
    """
    used = published_points("fit") if points is None else tuple(points)
    names = systems or sorted({point.system_id for point in used})
    found = []
    for name in names:
        rest = [point for point in used if point.system_id != name]
        left = [point for point in used if point.system_id == name]
        # from the priors: nothing known of the system that is left out may stay
        values, _, _ = least_squares_fit(rest, prior_calibration().values)
        errors = Prepared(left).errors(Calibration("left out", MappingProxyType(values)))
        wrong = np.abs(np.exp(-errors) - 1)  # of bus bandwidth
        large = [w for w, p in zip(wrong, left, strict=True) if size_band(p.size_bytes) == "large"]
        found.append(
            LeftOut(
                system_id=name,
                title=left[0].title,
                points=len(left),
                mean_error=float(wrong.mean()),
                worst_error=float(wrong.max()),
                mean_large_error=float(np.mean(large)) if large else None,
            )
        )
    return tuple(found)


# ---------------------------------------------------------------- validation


@dataclass(frozen=True, slots=True)
class ValidationRow:
    """One published point against its prediction; ``error`` is of bus bandwidth, of the measured.

    ``band`` is "latency" (below 64 KiB), "between", "middle" (1–64 MiB) or "large" (from 256 MiB);
    ``apart`` marks network classes that NCCL's constants do not describe.
    """

    point: MeasuredPoint
    predicted_s: float
    error: float
    option: str
    band: str
    apart: bool

    @property
    def predicted_busbw_Bps(self) -> float:  # noqa: N802 - byte/s
        """Predicted bus bandwidth, byte/s."""
        return self.point.busbw_Bps * self.point.time_s / self.predicted_s


@dataclass(frozen=True, slots=True)
class ValidationTable:
    """Predicted against published, row by row."""

    rows: tuple[ValidationRow, ...]
    calibration: Calibration

    def of(self, band: str, *, apart: bool = False) -> tuple[ValidationRow, ...]:
        """Return the rows of a band."""
        return tuple(row for row in self.rows if row.band == band and row.apart == apart)

    def mean_error(self, band: str, *, apart: bool = False) -> float:
        """Return the mean of the errors' sizes in a band; NaN where it has no rows."""
        rows = self.of(band, apart=apart)
        return float(np.mean([abs(row.error) for row in rows])) if rows else float("nan")

    def worst_error(self, band: str, *, apart: bool = False) -> float:
        """Return the largest error's size in a band; NaN where it has no rows."""
        rows = self.of(band, apart=apart)
        return max(abs(row.error) for row in rows) if rows else float("nan")


def validation_band(size_bytes: int) -> str:
    """Return the band a size is judged in: latency, between, middle or large."""
    mib = 1 << 20
    if size_bytes >= 256 * mib:
        return "large"
    if mib <= size_bytes <= 64 * mib:
        return "middle"
    return "latency" if size_bytes < mib // 16 else "between"


def validate(
    points: Sequence[MeasuredPoint] | None = None, *, calibration: Calibration | None = None
) -> ValidationTable:
    """Compare predictions with points; default: all published ones, those kept aside included."""
    used = published_points() if points is None else tuple(points)
    cal = calibration or default_calibration()
    rows = []
    for point in used:
        choice = choose(
            point.system,
            point.op,
            point.size_bytes,
            calibration=cal,
            algorithm=point.algorithm,
        )
        rows.append(
            ValidationRow(
                point=point,
                predicted_s=choice.time_s,
                error=point.time_s / choice.time_s - 1,
                option=choice.best.name,
                band=validation_band(point.size_bytes),
                apart=point.system.network in APART,
            )
        )
    return ValidationTable(tuple(rows), cal)
