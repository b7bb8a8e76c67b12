"""Least squares for the collective model: residuals of many points, for any calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.predict._nccl_options import FabricShares, option_of, options_of
from railweave.predict._nccl_parameters import (
    PARAMETERS,
    Calibration,
    ParameterSpec,
    library_calibration,
)
from railweave.predict.collective import decided_by_library, size_band
from railweave.predict.published import MeasuredPoint
from railweave.predict.system import CollectiveSystem

__all__ = ["Prepared", "least_squares_fit"]

F64 = npt.NDArray[np.float64]

#: relative errors that weigh 1 in the fit, by size band: large messages are what acceptance is
#: about, and repeat best
TOLERANCE: Final[Mapping[str, float]] = MappingProxyType(
    {"latency": 0.33, "middle": 0.33, "large": 0.10}
)
#: residuals count with this power before they are squared: large ones weigh more
POWER: Final = 2.0
#: how strongly parameters are held to where they start: one e-fold weighs as much as one point that
#: is wrong by its tolerance
HOLD: Final = 1.5


@dataclass(frozen=True, slots=True)
class _Group:
    """Points of one operation on one system: which option runs for each, where that is fixed."""

    system: CollectiveSystem
    point: MeasuredPoint
    index: npt.NDArray[np.int64]
    sizes: F64
    #: number of the option of each point, −1 where the quickest runs
    chosen: npt.NDArray[np.int64]
    numbers: tuple[int, ...]


class Prepared:
    """Points made ready for repeated prediction."""

    def __init__(self, points: Sequence[MeasuredPoint]) -> None:
        self.points = tuple(points)
        library = library_calibration()
        by_group: dict[tuple[object, ...], list[int]] = {}
        for number, point in enumerate(points):
            by_group.setdefault((point.system, point.op, point.algorithm), []).append(number)
        self.groups = [self._group(numbers, library) for numbers in by_group.values()]
        self.measured: F64 = np.array([point.time_s for point in points])
        self.tolerance: F64 = np.array([TOLERANCE[size_band(p.size_bytes)] for p in points])

    def _group(self, members: list[int], library: Calibration) -> _Group:
        first = self.points[members[0]]
        own = options_of(first.system, first.op, FabricShares(), library)
        usable = tuple(
            number
            for number, option in enumerate(own)
            if not option.reason and first.algorithm in (None, option.algorithm)
        )
        sizes = np.array([self.points[member].size_bytes for member in members], dtype=np.float64)
        chosen = np.full(len(members), -1)
        if decided_by_library(first.system, first.op):
            times = np.stack([own[number].times_s(sizes) for number in usable])
            chosen = np.array(usable)[np.argmin(times, axis=0)]
            usable = tuple(int(number) for number in np.unique(chosen))
        return _Group(first.system, first, np.array(members), sizes, chosen, usable)

    def predict(self, calibration: Calibration) -> F64:
        """Return the predicted times, (P,)."""
        out = np.empty(len(self.points))
        for group in self.groups:
            times = np.stack(
                [
                    option_of(group.system, group.point.op, number, calibration).times_s(
                        group.sizes
                    )
                    for number in group.numbers
                ]
            )
            if (group.chosen < 0).any():
                out[group.index] = times.min(axis=0)
            else:
                rows = np.searchsorted(group.numbers, group.chosen)
                out[group.index] = times[rows, np.arange(len(rows))]
        return out

    def errors(self, calibration: Calibration) -> F64:
        """Return ln(predicted / measured), (P,)."""
        found: F64 = np.log(self.predict(calibration) / self.measured)
        return found


def _calibration(names: Sequence[str], values: F64, base: Mapping[str, float]) -> Calibration:
    merged = dict(base)
    merged.update(zip(names, (float(value) for value in values), strict=True))
    return Calibration("fit", MappingProxyType(merged))


def least_squares_fit(
    points: Sequence[MeasuredPoint],
    start: Mapping[str, float],
    *,
    hold: float = HOLD,
    specs: Sequence[ParameterSpec] = PARAMETERS,
) -> tuple[dict[str, float], dict[str, int], F64]:
    """Fit the parameters to points.

    Args:
        points: what was measured.
        start: where every parameter starts, and is held to.
        hold: how strongly.
        specs: the parameters that may move.

    Returns:
        Values, the number of points each parameter matters to, ln(predicted / measured) (P,).
    """
    from scipy.optimize import least_squares

    prepared = Prepared(points)
    weight = 1 / prepared.tolerance
    informed = _informed(prepared, start, specs)
    names = [spec.name for spec in specs if informed[spec.name]]
    bounds = {spec.name: (max(spec.low, 1e-3), spec.high) for spec in specs}
    low = np.log([bounds[name][0] for name in names])
    high = np.log([bounds[name][1] for name in names])
    origin = np.clip(np.log([max(start[name], 1e-3) for name in names]), low, high)

    def residuals(x: F64) -> F64:
        wrong = weight * prepared.errors(_calibration(names, np.exp(x), start))
        held: F64 = np.concatenate([np.sign(wrong) * np.abs(wrong) ** POWER, hold * (x - origin)])
        return held

    values = dict(start)
    if names:
        inside = np.clip(origin, low + 1e-9, high - 1e-9)
        found = least_squares(
            residuals, inside, bounds=(low, high), diff_step=[1e-3] * len(names), max_nfev=60
        )
        values.update(zip(names, np.exp(found.x).tolist(), strict=True))
    errors = prepared.errors(_calibration([], np.empty(0), values))
    return values, informed, errors


def _informed(
    prepared: Prepared, at: Mapping[str, float], specs: Sequence[ParameterSpec]
) -> dict[str, int]:
    """Count the points whose time changes by 0.5 % or more with a quarter more or less of each."""
    usual = prepared.predict(_calibration([], np.empty(0), at))
    counts = {}
    for spec in specs:
        changes = [
            np.abs(
                prepared.predict(_calibration([spec.name], at[spec.name] * factor, at)) / usual - 1
            )
            for factor in (np.array([1.25]), np.array([0.75]))
        ]
        counts[spec.name] = int((np.maximum(*changes) > 5e-3).sum())
    return counts
