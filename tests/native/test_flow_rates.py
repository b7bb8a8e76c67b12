"""Static max-min rates against exact progressive filling."""

from itertools import pairwise

import numpy as np
import pytest
from flow_reference import csr, max_min
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave import _native

WEIGHTS = [1.0, 1.0, 0.5, 0.25, 2.0, 0.125, 0.0]


@st.composite
def networks(draw, weighted):
    links = draw(st.integers(1, 8))
    capacity = [
        draw(st.sampled_from([1.0, 2.0, 3.0, 5.0, 10.0])) * draw(st.integers(1, 1000)) / 7
        for _ in range(links)
    ]
    weight = st.sampled_from(WEIGHTS) if weighted else st.just(1.0)
    row = st.lists(st.tuples(st.integers(0, links - 1), weight), min_size=0, max_size=4)
    rows = draw(st.lists(row, min_size=1, max_size=24))
    return capacity, rows


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-9)


@settings(max_examples=200, deadline=None)
@given(networks(weighted=False))
def test_unweighted_equals_reference(net):
    capacity, rows = net
    ptr, link, _ = csr(rows)
    close(_native.max_min_rates(np.array(capacity), ptr, link), max_min(capacity, rows))


@settings(max_examples=200, deadline=None)
@given(networks(weighted=True), st.data())
def test_weighted_with_caps_equals_reference(net, data):
    capacity, rows = net
    caps = [data.draw(st.sampled_from([0.0, 1.0, 7.5, 40.0, 1e6])) for _ in rows]
    ptr, link, weight = csr(rows)
    got = _native.max_min_rates(np.array(capacity), ptr, link, weight, np.array(caps))
    close(got, max_min(capacity, rows, caps))


def test_a_row_may_name_a_link_twice():
    got = _native.max_min_rates(
        np.array([30.0]), np.array([0, 2, 3]), np.array([0, 0, 0], dtype=np.int32)
    )
    close(got, [10.0, 10.0])


def test_nothing_to_bind_means_no_limit():
    got = _native.max_min_rates(
        np.array([np.inf]), np.array([0, 0, 1]), np.array([0], dtype=np.int32)
    )
    assert np.isinf(got).all()


@pytest.mark.parametrize(
    ("capacity", "link", "what"),
    [([-1.0], [0], "capacity"), ([np.nan], [0], "capacity"), ([1.0], [1], "row_link")],
)
def test_bad_input_is_named(capacity, link, what):
    with pytest.raises(ValueError, match=what):
        _native.max_min_rates(np.array(capacity), np.array([0, 1]), np.array(link, dtype=np.int32))


@settings(max_examples=200, deadline=None)
@given(networks(weighted=True), st.data())
def test_the_busiest_link_of_a_message_adds_up_its_flows(net, data):
    capacity, rows = net
    sizes = np.array([data.draw(st.sampled_from([0.0, 1.0, 64.0, 1e9])) for _ in rows])
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=3))
    first = np.array([0, *sorted(cuts), len(rows)], dtype=np.int64)
    expected = []
    for begin, end in pairwise(first.tolist()):
        load = np.zeros(len(capacity))
        for flow in range(begin, end):
            for link, weight in rows[flow]:
                load[link] += sizes[flow] * weight
        expected.append(float((load / np.array(capacity)).max()))
    ptr, link, weight = csr(rows)
    close(_native.busiest_link_s(np.array(capacity), ptr, link, weight, sizes, first), expected)
