"""Links of walked flows, before they become paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.fabric._paths import PathStatus, gather_rows, join_rows

__all__ = ["Rows"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Links of flows in CSR form, with their shares (spraying only) and status."""

    ptr: I64
    link: I32
    weight: F64 | None
    status: U8

    def extended(self, before: I32, after: I32) -> Rows:
        """Put columns of links (−1 none) before and after each row that has a path."""
        ok = (self.status == PathStatus.OK)[:, None]
        head, tail = _compact(before, ok), _compact(after, ok)
        ptr, link = join_rows((head, (self.ptr, self.link), tail))
        weight = None
        if self.weight is not None:
            whole = [np.ones(len(part[1])) for part in (head, tail)]
            parts = ((head[0], whole[0]), (self.ptr, self.weight), (tail[0], whole[1]))
            weight = join_rows(parts)[1]
        return Rows(ptr, link, weight, self.status)

    def replaced(self, rows: I64, other: Rows) -> Rows:
        """Put other rows in the place of these."""
        order = np.arange(len(self.status))
        order[rows] = len(self.status) + np.arange(len(rows))
        ptr, entry = gather_rows(np.concatenate((self.ptr, self.ptr[-1] + other.ptr[1:])), order)
        status = np.concatenate((self.status, other.status))[order]
        return Rows(ptr, np.concatenate((self.link, other.link))[entry], None, status)

    def without_stubs(self) -> Rows:
        """Empty the rows that were walked only in part."""
        ok, length = self.status == PathStatus.OK, np.diff(self.ptr)
        if not np.any(~ok & (length > 0)):
            return self
        keep = np.repeat(ok, length)
        weight = None if self.weight is None else self.weight[keep]
        ptr = np.concatenate(([0], np.cumsum(length * ok)))
        return Rows(ptr, self.link[keep], weight, self.status)


def _compact(columns: I32, keep: npt.NDArray[np.bool_]) -> tuple[I64, I32]:
    """Turn a padded matrix of links into CSR rows, only where ``keep``."""
    mask = (columns >= 0) & keep
    ptr = np.concatenate(([0], np.cumsum(mask.sum(axis=1)))).astype(np.int64)
    return ptr, columns[mask]
