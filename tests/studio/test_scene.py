"""Scenes are refused when they cannot be drawn, and lose nothing on their way to the browser."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.errors import InputError
from railweave.report.layout import grid_layout, ring_layout, row_layout, tree_layout
from railweave.studio.scene import (
    KINDS,
    STATES,
    Flight,
    Level,
    Phase,
    Scene,
    SceneGroup,
    SceneLink,
    SceneNode,
)

A = SceneNode("a", 0.0, 0.0, "gpu", "A")
B = SceneNode("b", 1.0, 1.0, "gpu", "B")
AB = SceneLink("ab", "a", "b")


def column(table: dict, name: str, default: object) -> list[object]:
    """Read a column as the canvas does."""
    given = table.get(name)
    if given is None:
        return [default] * table["n"]
    if isinstance(given, list):
        return given
    if "all" in given:
        return [given["all"]] * table["n"]
    return [given["set"][at] for at in given["at"]]


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        (lambda: Scene((A, A)), "used twice"),
        (lambda: Scene((replace(A, id=""),)), "empty"),
        (lambda: Scene((A, B), (AB, AB)), "used twice"),
        (lambda: Scene((A, B), (replace(AB, id="a"),)), "of a node and of a link"),
        (lambda: Scene((A,), (AB,)), "target 'b' is not in the scene"),
        (lambda: Scene((replace(A, group="x"),)), "group 'x'"),
        (lambda: Scene((replace(A, kind="toaster"),)), "allowed: 'gpu'"),
        (lambda: Scene((replace(A, state="tired"),)), "allowed: '', 'down'"),
        (lambda: Scene((A, B), (replace(AB, style="wavy"),)), "style 'wavy'"),
        (lambda: Scene((A, B), (replace(AB, load=math.inf),)), "load"),
        (lambda: Scene((replace(A, x=math.nan),)), "finite"),
        (lambda: Scene((A, B), flights=(Flight(0, 1, "a", "c"),)), "target 'c'"),
        (lambda: Scene((A, B), flights=(Flight(2, 1, "a", "b"),)), "ends before it starts"),
        (lambda: Scene((A,), levels=(Level("a", (0.0, 1.0), (1.0,)),)), "one length"),
        (lambda: Scene((A,), levels=(Level("a", (), ()),)), "at least 1"),
        (lambda: Scene((A,), levels=(Level("a", (1.0, 0.0), (1.0, 2.0)),)), "must not fall"),
        (lambda: Scene((A,), phases=(Phase(0, 1, "z", "down"),)), "target 'z'"),
        (lambda: Scene((A,), phases=(Phase(0, 1, "a", ""),)), "state ''"),
        (lambda: Scene((A,), steps=((math.inf, ""),)), "finite"),
    ],
)
def test_a_scene_that_cannot_be_drawn_is_refused(scene, said):
    with pytest.raises(InputError, match="scene: ") as caught:
        scene()
    assert said in str(caught.value)


def test_what_has_its_default_costs_nothing():
    document = json.loads(Scene((A, B), (AB,)).document())
    assert set(document["links"]) == {"n", "id", "source", "target"}
    assert document["nodes"]["kind"] == {"all": "gpu"}
    assert document["flights"] == {"n": 0}


def test_ends_are_positions_and_phases_may_be_of_links():
    scene = Scene(
        (A, B), (replace(AB, source="b", target="a"),), phases=(Phase(0, 2, "ab", "down"),)
    )
    document = json.loads(scene.document())
    assert (document["links"]["source"], document["links"]["target"]) == ([1], [0])
    assert document["phases"]["target"] == [2]
    assert document["duration_s"] == 2


def test_times_and_places_keep_six_digits_of_the_whole():
    scene = Scene(
        (replace(A, x=1 / 3), replace(B, x=200.123456789)),
        flights=(Flight(1.23456789e-6, 2e-6, "a", "b"),),
    )
    document = json.loads(scene.document())
    assert document["nodes"]["x"][1] == pytest.approx(200.123456789, abs=1e-3)
    assert document["flights"]["start_s"][0] == pytest.approx(1.23456789e-6, abs=1e-11)


def test_unknown_load_is_no_number():
    links = (AB, replace(AB, id="2", load=0.25))
    assert json.loads(Scene((A, B), links).document())["links"]["load"] == [None, 0.25]
    assert "load" not in json.loads(Scene((A, B), (AB,)).document())["links"]


def test_a_large_scene_is_compact():
    nodes = tuple(SceneNode(f"n{i}", i, 0, "nic", f"n{i}", "", "backend") for i in range(2000))
    assert len(Scene(nodes).document()) < 2000 * 30


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=8)


@st.composite
def scenes(draw):
    ids = draw(st.lists(NAMES, min_size=1, max_size=12, unique=True))
    place = st.floats(-1e6, 1e6)
    nodes = tuple(
        SceneNode(
            f"n{name}", draw(place), draw(place), draw(st.sampled_from(KINDS)), name,
            state=draw(st.sampled_from(STATES)), group=draw(st.sampled_from(("", "g"))),
            count=draw(st.integers(1, 99)),
        )
        for name in ids
    )  # fmt: skip
    ends = st.sampled_from([node.id for node in nodes])
    links = tuple(
        SceneLink(f"l{i}", draw(ends), draw(ends), load=draw(st.floats(0, 1) | st.just(math.nan)))
        for i in range(draw(st.integers(0, 12)))
    )
    return Scene(nodes, links, (SceneGroup("g", "group"),))


@given(scenes())
def test_nothing_is_lost_on_the_way(scene):
    text = scene.document()
    assert text == replace(scene).document()
    document = json.loads(text)
    nodes, links = document["nodes"], document["links"]
    ids = column(nodes, "id", "")
    assert ids == [node.id for node in scene.nodes]
    for name in ("kind", "label", "state", "group"):
        assert column(nodes, name, "") == [getattr(node, name) for node in scene.nodes]
    assert column(nodes, "count", 1) == [node.count for node in scene.nodes]
    largest = max(max(abs(node.x), abs(node.y)) for node in scene.nodes)
    for got, node in zip(column(nodes, "x", 0), scene.nodes, strict=True):
        assert got == pytest.approx(node.x, abs=2e-5 * largest + 1e-300)
    assert [ids[at] for at in column(links, "source", 0)] == [link.source for link in scene.links]
    for got, link in zip(column(links, "load", None), scene.links, strict=True):
        assert (got is None) == math.isnan(link.load)


def test_ring_starts_on_top_and_goes_clockwise():
    top, right, bottom, left = ring_layout(4)
    assert top == pytest.approx((0.5, 0.0))
    assert right == pytest.approx((1.0, 0.5))
    assert bottom == pytest.approx((0.5, 1.0))
    assert left == pytest.approx((0.0, 0.5))
    assert ring_layout(1) == ((0.5, 0.5),)


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_simple_layouts_stay_apart_in_the_unit_square(n):
    for places in (ring_layout(n), row_layout(n), grid_layout(n), tree_layout([-1] * n)):
        assert len(set(places)) == n
        assert all(-1e-9 <= x <= 1 + 1e-9 and -1e-9 <= y <= 1 + 1e-9 for x, y in places)


def test_a_tree_has_parents_amid_their_children():
    #      0
    #    1   2
    #   3 4
    places = tree_layout([-1, 0, 0, 1, 1])
    assert [y for _, y in places] == [0, 0.5, 0.5, 1, 1]
    assert places[1][0] == pytest.approx((places[3][0] + places[4][0]) / 2)
    assert places[0][0] == pytest.approx((places[1][0] + places[2][0]) / 2)
    assert places[4][0] < places[2][0]


@pytest.mark.parametrize("parents", [[1, 0], [5], [-2]])
def test_what_is_no_tree_is_refused(parents):
    with pytest.raises(ValueError, match=r"tree|parent"):
        tree_layout(parents)
