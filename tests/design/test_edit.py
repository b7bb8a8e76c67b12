"""One field changed, the rest of the text as it was."""

from __future__ import annotations

import difflib
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from railweave.design.edit import add_item, remove_field, rename_key, set_field, value_span
from railweave.errors import DesignError, InputError
from railweave.formats.yaml_source import parse_yaml

EXAMPLES = [
    path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
]
TEXT = """\
# a comment
railweave: 1   # beside
cluster:
  servers: {model: dgx-h100, count: 31}  # flow

  racks: 8
planes:
  backend:
    routing: ecmp
    counts: {}
    speed:
    extra_hosts:
      ufm: 4
jobs:
  # above the job
  - name: a
    size: 1 GiB
  - {name: b}
facility: {rack_power: 45 kW}
"""

Path_ = tuple[Any, ...]


def _at(data: Any, path: Path_) -> Any:
    for step in path:
        data = data[step]
    return data


def _changed(before: str, after: str) -> list[str]:
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line for line in lines if line[0] in "+-"]


@pytest.mark.parametrize(
    ("path", "value", "lines"),
    [
        (("cluster", "racks"), 9, ["-   racks: 8", "+   racks: 9"]),
        (("railweave",), 2, ["- railweave: 1   # beside", "+ railweave: 2   # beside"]),
        (
            ("cluster", "servers", 0, "count"),
            30,
            [
                "-   servers: {model: dgx-h100, count: 31}  # flow",
                "+   servers: {model: dgx-h100, count: 30}  # flow",
            ],
        ),
        (
            ("cluster", "servers", "nics"),
            4,
            [
                "-   servers: {model: dgx-h100, count: 31}  # flow",
                "+   servers: {model: dgx-h100, count: 31, nics: 4}  # flow",
            ],
        ),
        (
            ("planes", "backend", "routing", "hash"),
            "xor",
            ["-     routing: ecmp", "+     routing: {scheme: ecmp, hash: xor}"],
        ),
        (("planes", "backend", "counts", "spine"), 4,
         ["-     counts: {}", "+     counts: {spine: 4}"]),
        (("planes", "backend", "speed"), "400 Gb/s", ["-     speed:", "+     speed: 400 Gb/s"]),
        (("planes", "backend", "mtu"), "9100 B", ["+     mtu: 9100 B"]),
        (("jobs", 0, "ranks"), "all", ["+     ranks: all"]),
        (("jobs", 1, "ranks"), 8, ["-   - {name: b}", "+   - {name: b, ranks: 8}"]),
        (("seed",), 3, ["+ seed: 3"]),
        (("software", "nccl"), "2.30", ["+ software:", '+   nccl: "2.30"']),
        (("name",), "yes: no # really", ['+ name: "yes: no # really"']),
        (("planes", "backend", "dual_tor"), True, ["+     dual_tor: true"]),
        (
            ("planes", "backend", "routing", "fields"),
            ["src-ip", "dst-ip"],
            ["-     routing: ecmp", "+     routing: {scheme: ecmp, fields: [src-ip, dst-ip]}"],
        ),
    ],
)  # fmt: skip
def test_set(path: Path_, value: object, lines: list[str]) -> None:
    assert sorted(_changed(TEXT, set_field(TEXT, path, value))) == sorted(lines)


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        (("cluster", "racks"), ["-   racks: 8"]),
        (
            ("cluster", "servers", 0, "model"),
            [
                "-   servers: {model: dgx-h100, count: 31}  # flow",
                "+   servers: {count: 31}  # flow",
            ],
        ),
        (("facility", "rack_power"), ["- facility: {rack_power: 45 kW}", "+ facility: {}"]),
        (("planes", "backend", "routing", "scheme"), ["-     routing: ecmp"]),
        (("planes", "backend", "speed"), ["-     speed:"]),
        (
            ("planes", "backend", "extra_hosts", "ufm"),
            ["-     extra_hosts:", "-       ufm: 4", "+     extra_hosts: {}"],
        ),
        (("planes", "backend", "extra_hosts"), ["-     extra_hosts:", "-       ufm: 4"]),
        (("jobs", 1), ["-   - {name: b}"]),
        (("jobs", 0, "name"), ["-   - name: a", "-     size: 1 GiB", "+   - size: 1 GiB"]),
        (("nowhere", "at", "all"), []),
    ],
)
def test_remove(path: Path_, lines: list[str]) -> None:
    assert sorted(_changed(TEXT, remove_field(TEXT, path))) == sorted(lines)


def test_the_only_entry_of_a_list_goes() -> None:
    text = "jobs:\n  - name: a\n    size: 1\nname: x\n"
    assert remove_field(text, ("jobs", 0)) == "jobs: []\nname: x\n"


def test_entries_are_written_as_those_before_them() -> None:
    block = "jobs:\n  - name: a\n    size: 1 B\n"
    assert add_item(block, ("jobs",), {"name": "b", "size": "2 B"}) == (
        block + "  - name: b\n    size: 2 B\n"
    )
    flow = "jobs:\n  - {name: a}\n# end\n"
    assert add_item(flow, ("jobs",), {"name": "b"}) == (
        "jobs:\n  - {name: a}\n  - {name: b}\n# end\n"
    )
    assert add_item("name: x", ("jobs",), {"name": "b"}) == "name: x\njobs:\n  - {name: b}\n"
    assert add_item("jobs: []\n", ("jobs",), {"name": "b"}) == "jobs: [{name: b}]\n"


def test_a_key_is_renamed_alone() -> None:
    assert rename_key("a: {topolgy: star} # c\n", ("a", "topolgy"), "topology") == (
        "a: {topology: star} # c\n"
    )


def test_where_a_value_stands() -> None:
    span = value_span(TEXT, ("cluster", "servers", "model"))
    assert span is not None
    assert TEXT[slice(*span)] == "dgx-h100"
    assert value_span(TEXT, ("cluster", "nothing")) is None


def test_what_cannot_be_changed_alone_is_refused() -> None:
    with pytest.raises(DesignError):
        set_field("a: [", ("a",), 1)
    with pytest.raises(InputError, match="fields"):
        set_field("a: 1\n", ("a", "b"), 1)
    anchored = "a: &x {b: 1}\nc: *x\n"
    with pytest.raises(InputError, match="change it in the text"):
        set_field(anchored, ("a", "b"), 2)
    with pytest.raises(InputError):
        set_field("jobs: []\n", ("jobs", 3), {"name": "x"})


def test_windows_line_ends_stay() -> None:
    text = "a: 1\r\nb:\r\n  c: 2\r\n"
    assert set_field(text, ("b", "d"), 3) == "a: 1\r\nb:\r\n  c: 2\r\n  d: 3\r\n"
    assert set_field(text, ("a",), 5) == text.replace("1", "5")


def _paths(data: Any, path: Path_ = ()) -> list[Path_]:
    found = [path] if path else []
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for step, value in items:
        found += _paths(value, (*path, step)) if isinstance(value, dict | list) else [(*path, step)]
    return found


_VALUES = st.one_of(
    st.integers(-9, 10**7),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=20),
    st.sampled_from(["yes", "null", "1e3", "- x", "{", "a: b", "400 Gb/s", "2:1", "#", "'", " x "]),
    st.lists(st.sampled_from(["src-ip", "a, b", "1"]), max_size=3),
)


@pytest.mark.parametrize("value", ["0\x80", "a\x85b", "\u2028", "x\ufffe"])
def test_characters_that_yaml_refuses_are_quoted(value: str) -> None:
    assert parse_yaml(set_field(TEXT, ("railweave",), value), "x").data["railweave"] == value


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([TEXT, *EXAMPLES]), st.data())
def test_a_set_value_is_read_back_and_nothing_else_changes(text: str, data: st.DataObject) -> None:
    before = parse_yaml(text, "x").data
    path = data.draw(st.sampled_from(_paths(before)))
    value = data.draw(_VALUES)
    assume(not isinstance(_at(before, path[:-1]), list) or not isinstance(value, list))
    after = set_field(text, path, value)
    read = parse_yaml(after, "x").data
    assert _at(read, path) == value
    # Back again: the very text, where the value stood on one line in a way of its own.
    again = parse_yaml(set_field(after, path, _at(before, path)), "x").data
    assert again == before
    # Lines that the field does not touch are the same, in the same order.
    kept = [line for line in difflib.ndiff(text.splitlines(), after.splitlines()) if line[0] == " "]
    span = value_span(text, path)
    assert span is not None
    above = text[: span[0]].rstrip().splitlines()  # comments between a key and its block go too
    comments = list(takewhile(lambda line: line.lstrip().startswith("#"), reversed(above)))
    touched = text[: span[1]].count("\n") - text[: span[0]].count("\n") + 2 + len(comments)
    assert len(kept) >= len(text.splitlines()) - touched


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([TEXT, *EXAMPLES]), st.data())
def test_removing_leaves_everything_else(text: str, data: st.DataObject) -> None:
    before = parse_yaml(text, "x").data
    path = data.draw(st.sampled_from(_paths(before)))
    after = remove_field(text, path)
    read = parse_yaml(after, "x")
    assert read.data == _without(before, path)
    added = [
        line for line in difflib.ndiff(text.splitlines(), after.splitlines()) if line[0] == "+"
    ]
    assert len(added) <= 1


def _without(data: Any, path: Path_) -> Any:
    if isinstance(data, dict):
        inner = {} if len(path) == 1 else {path[0]: _without(data[path[0]], path[1:])}
        return {**{key: value for key, value in data.items() if key != path[0]}, **inner}
    inner_list = [] if len(path) == 1 else [_without(data[path[0]], path[1:])]
    return [*data[: path[0]], *inner_list, *data[path[0] + 1 :]]
