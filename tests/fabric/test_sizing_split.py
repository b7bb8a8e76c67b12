"""Port splits: the nearest realisable ratio, breakouts, spare ports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.errors import SizingError
from railweave.fabric._split import (
    SwitchShape,
    divisors,
    fixed_split,
    nearest_uplinks,
    split_ports,
)

G = 1e9


def switch(ports: int, gbps: float = 400, ways: tuple[int, ...] = (), **more) -> SwitchShape:
    return SwitchShape("sw", ports, gbps * G, tuple((w, gbps * G / w) for w in ways), **more)


@pytest.mark.parametrize(
    ("ports", "ratio", "down", "up"),
    [(64, 1, 32, 32), (144, 1, 72, 72), (48, 2, 32, 16), (64, 3, 48, 16), (64, 7, 56, 8)],
)
def test_exact_ratios_use_all_ports(ports, ratio, down, up):
    split = split_ports(switch(ports), 400 * G, 400 * G, ratio)
    assert (split.down_links, split.up_links, split.exact) == (down, up, True)


def test_odd_ratio_takes_the_nearest_split_and_says_so():
    split = split_ports(switch(64), 400 * G, 400 * G, 1.85)
    assert (split.down_links, split.up_links, split.exact) == (37, 20, True)  # 7 ports unused
    split = split_ports(switch(32), 400 * G, 400 * G, 1.85)
    assert (split.down_links, split.up_links) == (20, 11)  # 1.818:1
    assert not split.exact
    assert split.target == 1.85


@given(
    ports=st.integers(4, 160),
    ratio=st.floats(0.2, 16),
    ways=st.sampled_from([1, 2, 4, 8]),
    spare=st.integers(0, 2),
)
def test_no_split_with_few_unused_ports_is_nearer(ports, ratio, ways, spare):
    shape = switch(ports, 800, (2, 4, 8))
    split = split_ports(shape, 800 * G / ways, 800 * G, ratio, spare=spare)
    usable = ports - spare
    unused = usable - split.down_ports - split.up_ports
    assert 0 <= unused <= max(2, ports // 8)
    assert split.down_links == split.down_ports * ways
    best = min(
        abs(down / (used - down) - ratio)
        for used in range(max(2, usable - max(2, ports // 8)), usable + 1)
        for down in range(1, used)
    )
    assert abs(split.achieved - ratio) <= best * (1 + 1e-6) + 1e-8 * ratio


def test_breakouts_and_their_limit():
    shape = switch(64, 800, (2, 4, 8), max_links=320)
    assert shape.ways(200 * G) == 4
    assert shape.links(200 * G) == 256
    assert shape.links(100 * G) == 320
    assert shape.ways(1600 * G) == 0
    split = split_ports(shape, 100 * G, 800 * G, 1)
    assert split.down_links + split.up_links <= 320


def test_a_port_without_breakout_runs_slower_links_one_by_one():
    split = split_ports(switch(64), 200 * G, 200 * G, 1)
    assert (split.down_links, split.up_links) == (32, 32)


def test_spare_ports_come_out_first():
    split = split_ports(switch(128, 400, (2,)), 200 * G, 400 * G, 1.0667, spare=4)
    assert (split.down_links, split.up_links, split.down_ports) == (128, 60, 64)
    with pytest.raises(SizingError, match="kept free"):
        split_ports(switch(8), 400 * G, 400 * G, 1, spare=7, path="planes.backend")


@pytest.mark.parametrize(
    ("down", "ratio", "up"), [(192, 7, 27), (16, 1, 16), (120, 15, 8), (4, 2, 2)]
)
def test_uplinks_follow_fixed_down_links(down, ratio, up):
    assert nearest_uplinks(down * 400 * G, 400 * G, ratio) == up
    split = fixed_split(switch(256), down, 400 * G, 400 * G, ratio)
    assert (split.down_links, split.up_links) == (down, up)


def test_fixed_down_links_that_leave_no_uplink():
    with pytest.raises(SizingError, match="leave no port"):
        fixed_split(switch(16), 16, 400 * G, 400 * G, 1, path="planes.backend")


def test_fast_ports_take_the_uplinks():
    shape = SwitchShape("access", 48, G, fast_ports=4, fast_bps=100 * G)
    split = split_ports(shape, G, 100 * G, 0.24)
    assert (split.down_links, split.up_links) == (48, 2)
    assert (shape.links(G), shape.links(100 * G)) == (48, 4)


def test_physical_ports():
    split = split_ports(switch(8, 800, (2,)), 400 * G, 800 * G, 1)
    assert (split.down_links, split.up_links) == (8, 4)
    assert [split.physical_port(n) for n in (1, 2, 3, 8, 9, 12)] == [
        (1, 1),
        (1, 2),
        (2, 1),
        (4, 2),
        (5, 1),
        (8, 1),
    ]


@given(st.integers(1, 5000))
def test_divisors(number):
    found = divisors(number)
    assert found == [d for d in range(1, number + 1) if number % d == 0]
