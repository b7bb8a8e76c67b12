"""The reference page names every field, its default and its meaning as the models have them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from railweave.design import design_schema, parse_design
from railweave.design._meaning_network import CONGESTION_OF, ENCRYPTION_OF, SCHEMES_OF
from railweave.design.models import RoutingScheme

PAGE = (Path(__file__).parents[2] / "docs/reference/design-file.md").read_text("utf-8")
SCHEMA = design_schema()
MODELS: dict[str, dict[str, Any]] = {
    name: model
    for name, model in {**SCHEMA["$defs"], "Design": SCHEMA}.items()
    if "properties" in model
}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_field_stands_in_its_section(name: str) -> None:
    match = re.search(rf"^### {name}\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match, f"no section for {name}"
    rows = {
        row.split("|")[1].strip().strip("`"): row
        for row in match[1].splitlines()
        if row.startswith("| `")
    }
    fields = {key: f for key, f in MODELS[name]["properties"].items() if "deprecated" not in f}
    assert set(rows) == set(fields)
    for field, entry in fields.items():
        assert entry["description"] in rows[field]
        default = entry.get("default")
        if isinstance(default, str | int | float) and default != "":
            shown = str(default).lower() if isinstance(default, bool) else str(default)
            assert f"`{shown}`" in rows[field], (field, shown)


def test_examples_on_the_page_are_right() -> None:
    example = next(t for t in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "cluster:" in t)
    assert parse_design(example).design.name == "two-scalable-units"


def test_table_of_what_fits_is_the_one_that_is_checked() -> None:
    for transport, profiles in CONGESTION_OF.items():
        row = next(row for row in PAGE.splitlines() if row.startswith(f"| `{transport.value}` |"))
        cells = [re.findall(r"`([^`]+)`", cell) or [cell.strip()] for cell in row.split("|")[1:-1]]
        assert cells[1] == [profile.value for profile in profiles]
        assert cells[4] == list(ENCRYPTION_OF[transport])
        schemes = SCHEMES_OF[transport]
        if cells[2] == ["all"]:
            assert schemes == tuple(RoutingScheme)
        elif "all but" in row:
            assert set(RoutingScheme) - set(schemes) == {RoutingScheme(cells[2][0])}
        else:
            assert cells[2] == [scheme.value for scheme in schemes]
