"""Completion and help at places of whole and broken texts; ``|`` marks the cursor."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.design._cursor import locate
from railweave.design.completion import complete, describe, describe_path, nodes_at
from railweave.design.schema import design_schema

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def _split(marked: str) -> tuple[str, int]:
    at = marked.index("|")
    return marked[:at] + marked[at + 1 :], at


def _labels(marked: str) -> list[str]:
    return [item.label for item in complete(*_split(marked)).items]


@pytest.mark.parametrize(
    ("marked", "path", "at"),
    [
        ("|", (), "key"),
        ("name: x\n|", (), "key"),
        ("name: x\n  |", (), "key"),
        ("cluster:\n  |", ("cluster",), "key"),
        ("cluster:\n  gpus: 8\n  |", ("cluster",), "key"),
        ("cluster:\n  gpus: 8\n|", (), "key"),
        ("cluster:\n  gp|", ("cluster",), "key"),
        ("cluster:\n  gpus: |", ("cluster", "gpus"), "value"),
        ("cluster:\n  gpus: 1|6\n", ("cluster", "gpus"), "value"),
        ("cluster:\n  servers: {model: |}", ("cluster", "servers", "model"), "value"),
        ("cluster:\n  servers: {model: x, |}", ("cluster", "servers"), "key"),
        ("cluster:\n  servers: {model: x, cou|", ("cluster", "servers"), "key"),
        ("cluster:\n  servers:\n    - model: |", ("cluster", "servers", 0, "model"), "value"),
        ("cluster:\n  servers:\n  - model: a\n  - |", ("cluster", "servers", 1), "key"),
        ("jobs:\n- name: a\n  |", ("jobs", 0), "key"),
        ("jobs:\n- name: a\n- na|", ("jobs", 1), "key"),
        ("jobs:\n- name: a\nplanes:\n  backend:\n    sp|", ("planes", "backend"), "key"),
        ("jobs: [{name: a}, {|", ("jobs", 1), "key"),
        ("planes:\n  backend: {routing: {fields: [|", ("planes", "backend", "routing", "fields", 0),
         "value"),
        ("planes:\n  backend: {speed:\n    |", ("planes", "backend", "speed"), "value"),
        ("planes:\n  backend: {speed: 1\n  frontend:\n    |", ("planes", "frontend"), "key"),
        ("description: >-\n  some |text\nname: x", (), "none"),
        ("description: >-\n  some text\nna|", (), "key"),
        ("name: x # about |this", (), "none"),
        ("# |", (), "none"),
        ('name: "a, {b|', ("name",), "value"),
        ("\tname: |", ("name",), "value"),
    ],
)  # fmt: skip
def test_place_of_the_cursor(marked: str, path: tuple[object, ...], at: str) -> None:
    found = locate(*_split(marked))
    assert found.at == at
    if at != "none":
        assert found.path == path


def test_fields_of_a_mapping_the_needed_first_and_none_twice() -> None:
    labels = _labels("|")
    assert labels[:4] == ["railweave", "name", "cluster", "planes"]
    assert set(labels) == set(design_schema()["properties"])
    labels = _labels("railweave: 1\nname: x\n|\ncluster:\n  gpus: 8\n")
    assert "name" not in labels
    assert "cluster" not in labels
    assert labels[0] == "planes"


def test_fields_say_default_and_meaning() -> None:
    items = {item.label: item for item in complete(*_split("facility: {|}")).items}
    assert items["cooling"].detail == "default air"
    assert items["rack_power"].info == "Power one rack may draw."
    assert items["rack_power"].insert == "rack_power: "


def test_new_mappings_and_lists_open_a_line() -> None:
    items = {item.label: item for item in complete("", 0).items}
    assert items["cluster"].insert == "cluster:\n  "
    assert items["jobs"].insert == "jobs:\n  - "
    flow = {item.label: item for item in complete(*_split("planes: {|}")).items}
    assert flow["backend"].insert == "backend: "


def test_a_key_that_has_its_colon_keeps_it() -> None:
    found = complete(*_split("planes:\n  backend:\n    topo|logy: star\n"))
    item = next(item for item in found.items if item.label == "topology")
    assert item.insert == "topology"


@pytest.mark.parametrize(
    ("marked", "wanted"),
    [
        ("planes: {backend: {topology: |}}", {"rail-optimized", "fat-tree", "star"}),
        ("planes: {backend: {transport: |}}", {"infiniband", "rocev2", "tcp", "ethernet"}),
        ("planes: {backend: {routing: |}}", {"ecmp", "spray"}),
        ("planes: {backend: {congestion: |}}", {"pfc+dcqcn", "credits"}),
        ("planes: {backend: {switch: |}}", {"qm9700", "sn5600"}),
        ("planes: {backend: {switch: {leaf: |}}}", {"qm9700"}),
        ("planes: {backend: {dual_tor: |}}", {"true", "false"}),
        ("cluster: {servers: {model: |}}", {"dgx-h100"}),
        ("cluster: {servers: [{inline: {gpu: |}}]}", {"h100"}),
        ("jobs: [{model: |}]", {"llama3-70b"}),
        ("jobs: [{collective: |}]", {"all-reduce"}),
        ("jobs: [{size: 2|}]", {"2 GiB", "2 MB"}),
        ("facility: {rack_power: 1.5|}", {"1.5 kW"}),
        ("cluster: {storage_servers: {count: 1, speed: |}}", {"200 Gb/s"}),
        ("services: [{kind: |}]", {"scheduler"}),
        ("tenants: [{planes: [|]}]", {"backend"}),
    ],
)  # fmt: skip
def test_values(marked: str, wanted: set[str]) -> None:
    assert wanted <= set(_labels(marked))


def test_nothing_in_comments_and_texts() -> None:
    assert _labels("name: x  # na|") == []
    assert _labels("description: |-\n  na|".replace("|-", ">-")) == []


def test_a_value_is_replaced_whole() -> None:
    text, at = _split("planes: {backend: {topology: rail|-only, speed: 1}}")
    found = complete(text, at)
    assert text[found.start : found.end] == "rail-only"


def test_help() -> None:
    text, at = _split("planes:\n  backend:\n    oversub|scription: 1\n")
    help_ = describe(text, at)
    assert help_ is not None
    assert help_.path == "planes.backend.oversubscription"
    assert help_.default == "1.0"
    assert "2:1" in help_.allowed
    assert describe("# no\n", 3) is None
    assert describe_path(("nowhere",)) is None


def test_help_of_every_field_of_every_example() -> None:
    seen = 0
    for example in EXAMPLES:
        text = example.read_text(encoding="utf-8")
        for start, line in _lines(text):
            key = re.match(r"[ -]*([a-z_]+):( |$)", line)
            if key and locate(text, start + key.start(1)).at == "key":
                found = describe(text, start + key.start(1))
                assert found is not None, (example.name, line)
                assert found.path.endswith(key[1])
                assert found.description
                seen += 1
    assert seen > 200


def _lines(text: str) -> list[tuple[int, str]]:
    at, found = 0, []
    for line in text.split("\n"):
        found.append((at, line))
        at += len(line) + 1
    return found


def test_every_place_of_every_example_is_answered() -> None:
    """No place raises, and what is offered replaces text around the cursor."""
    for example in EXAMPLES:
        text = example.read_text(encoding="utf-8")
        for at in range(0, len(text) + 1, 7):
            found = complete(text, at)
            assert 0 <= found.start <= at <= found.end <= len(text)


@settings(max_examples=150, deadline=None)
@given(
    st.text(alphabet=" \n\t-:{}[],'\"#|>&*abjobsplanesname", max_size=120),
    st.integers(0, 120),
)
def test_broken_texts_are_answered(text: str, at: int) -> None:
    at = min(at, len(text))
    found = complete(text, at)
    assert 0 <= found.start <= at <= found.end <= len(text)
    describe(text, at)


def test_fields_at_a_path() -> None:
    assert [field.name for field in nodes_at(("jobs", 3, "size"))] == ["size"]
    assert nodes_at(("jobs", "size")) == ()
