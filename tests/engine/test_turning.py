"""Where one thing overtakes another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from railweave.engine.turning import turning_point

SIZES = st.floats(1, 1e9)


@given(SIZES, SIZES, SIZES)
def test_the_change_lies_between_the_two_sizes(a: float, b: float, c: float) -> None:
    low, change, high = sorted((a, b, c))
    if not low < change < high:
        return

    def ahead(size: float) -> bool:
        return size < change

    near, far = turning_point(ahead, low, high, 20)
    assert near <= change * (1 + 1e-12)
    assert far >= change * (1 - 1e-12)
    assert far / near <= (high / low) ** (1 / 2**20) * (1 + 1e-9)
    # The ends may come in either order.
    down, up = turning_point(lambda size: not ahead(size), high, low, 20)
    assert up <= change * (1 + 1e-12) <= down * (1 + 1e-9)


def test_no_step_leaves_the_ends() -> None:
    assert turning_point(lambda size: size < 4, 2, 8, 0) == (2, 8)
