"""The JSON Schema accepts what the loader accepts, and helps an editor along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from _samples import EVERYTHING, SUPERPOD
from jsonschema import Draft202012Validator

from railweave.design import design_schema, load_design, parse_design, resolved, resolved_yaml
from railweave.formats.yaml_source import parse_yaml

SCHEMA = design_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def test_schema_is_itself_valid() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("text", [SUPERPOD, EVERYTHING], ids=["superpod", "everything"])
def test_right_designs_validate_as_written_and_as_resolved(text: str) -> None:
    VALIDATOR.validate(parse_yaml(text, "d.yaml").data)
    VALIDATOR.validate(resolved(parse_design(text)))


EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_load_validate_and_read_back(path: Path) -> None:
    VALIDATOR.validate(parse_yaml(path.read_text("utf-8"), path.name).data)
    loaded = load_design(path)
    again = parse_design(resolved_yaml(loaded), path.name, path.parent)
    assert again.design == loaded.design


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("topology: rail-optimized", "topology: rail-optimised"),
        ("mtu: 4096 B", "mtu: 4096"),
        ("size: 1 GiB", "size: 1 GiB/s"),
        ("load: 0.2", "load: 1.2"),
        ("routing: ecmp", "routing: ecpm"),
        ("seed: 3", "sede: 3"),
        ('leaf: "1.85:1"', 'leaf: "1.85-1"'),
        ("ranks: 4", "ranks: some"),
        ("name: sum", "name: su m"),
    ],
)
def test_wrong_designs_do_not(right: str, wrong: str) -> None:
    assert right in EVERYTHING
    assert not VALIDATOR.is_valid(parse_yaml(EVERYTHING.replace(right, wrong), "d.yaml").data)


def _fields() -> list[tuple[str, dict[str, Any]]]:
    models = {**SCHEMA["$defs"], "Design": SCHEMA}
    return [
        (f"{name}.{field}", entry)
        for name, model in models.items()
        for field, entry in model.get("properties", {}).items()
    ]


@pytest.mark.parametrize(("field", "entry"), _fields(), ids=lambda value: str(value)[:40])
def test_every_field_is_described_and_its_default_is_valid(
    field: str, entry: dict[str, Any]
) -> None:
    assert entry.get("description"), field
    if "default" in entry:
        Draft202012Validator({**entry, "$defs": SCHEMA["$defs"]}).validate(entry["default"])


def test_editors_can_complete_choices() -> None:
    text = str(SCHEMA)
    for choice in ("rail-optimized", "infiniband", "ethernet", "pfc+dcqcn", "e-ecmp", "all-reduce"):
        assert repr(choice) in text
