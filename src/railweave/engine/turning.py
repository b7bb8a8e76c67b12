"""Where one thing overtakes another as a size grows."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["turning_point"]


def turning_point(
    ahead: Callable[[float], bool], low: float, high: float, halvings: int
) -> tuple[float, float]:
    """Search on a logarithmic scale for the size at which an answer changes.

    Args:
        ahead: whether the first is ahead at a size: it is at ``low`` and is not at ``high``.
        low: one end, above 0.
        high: the other end, which may be the smaller.
        halvings: steps; each halves the range's logarithm.

    Returns:
        Two sizes, the first is ahead at one and not at the other, with the change between them. One
        change of several is found.
    """
    near, far = math.log2(low), math.log2(high)
    for _ in range(halvings):
        middle = (near + far) / 2
        near, far = (middle, far) if ahead(2**middle) else (near, middle)
    return 2**near, 2**far
