"""The catalog's page lists every field with what it takes, and its examples run."""

from __future__ import annotations

import re
import typing
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

import pytest
from pydantic import BaseModel

import railweave
from railweave.catalog._parts import Breakout, Server, ServerNics, Switch, yaml_name

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "catalog.md").read_text("utf-8")
#: by the unit at the end of a field's name
QUANTITIES = {
    "_bps": "a rate: `400 Gb/s`",
    "_bytes": "a size: `64 MiB`",
    "_w": "a power: `2.2 kW`",
    "_s": "a time: `650 ns`",
}
LISTED = {"Switch": Switch, "Server": Server, "Links of one role": ServerNics, "Breakout": Breakout}
#: told in words under "Your own parts"
OF_EVERY_PART = {
    "name",
    "title",
    "vendor",
    "status",
    "source",
    "certainty",
    "facts",
    "note",
    "like",
}


def takes(name: str, kind: Any) -> str:
    """What a field takes, in the words of the page."""
    quantity = [words for unit, words in QUANTITIES.items() if name.endswith(unit)]
    args = [arg for arg in typing.get_args(kind) if arg is not NoneType]
    origin = typing.get_origin(kind)
    if quantity:
        words = quantity[0]
    elif origin is typing.Annotated or origin in {UnionType, typing.Union}:
        words = takes("", args[0])
    elif origin is typing.Literal:
        words = ", ".join(f"`{arg}`" for arg in args)
    elif origin is tuple:
        words = f"list of {takes('', args[0])}"
    elif origin is dict:
        words = f"{takes('', args[0])}: [links](#links-of-one-role)"
    elif issubclass(kind, BaseModel):
        words = "[breakout](#breakout)"
    else:
        words = {int: "whole number", float: "number", str: "text"}[kind]
    return words


def expected(model: type[BaseModel]) -> list[tuple[str, str, str]]:
    """Field, what it takes and default: one row for each field of its own."""
    rows = []
    for name, field in model.model_fields.items():
        if name in OF_EVERY_PART:
            continue
        blank = field.default is None or field.default == ()
        default = "required" if field.is_required() else "–" if blank else f"`{field.default}`"
        rows.append((f"`{yaml_name(name)}`", takes(name, field.rebuild_annotation()), default))
    return rows


def section(title: str) -> str:
    return PAGE.partition(f"### {title}\n")[2].partition("\n#")[0]


@pytest.mark.parametrize("title", LISTED)
def test_the_page_lists_every_field(title: str) -> None:
    found = re.findall(r"^\| (`\w+`) \| (.*?) \| (.*?) \| (.+) \|$", section(title), re.MULTILINE)
    assert [row[:3] for row in found] == expected(LISTED[title])


def test_the_names_every_part_has_are_told() -> None:
    own = PAGE.partition("## Your own parts")[2].partition("\n## ")[0]
    assert [name for name in sorted(OF_EVERY_PART) if f"`{name}`" not in own] == []


def yaml_file(name: str) -> str:
    """The block that the page shows as a file of this name."""
    (text,) = re.findall(rf"```yaml\n(# {re.escape(name)}\n.*?)```", PAGE, re.DOTALL)
    return text


def test_the_design_with_its_own_parts_builds(tmp_path: Path) -> None:
    (tmp_path / "parts.yaml").write_text(yaml_file("parts.yaml"), "utf-8")
    design = tmp_path / "own.yaml"
    design.write_text(yaml_file("own.yaml"), "utf-8")
    loaded = railweave.load(design)
    ours, base = (loaded.document.catalog.switch(name) for name in ("our-leaf", "sn5600"))
    assert (ours.ports, ours.breakouts) == (base.ports, base.breakouts)
    assert (ours.latency_s, ours.power_w) == (pytest.approx(650e-9), 1900.0)
    built = loaded.build()
    assert set(built.fabric.switch_models.values()) == {"our-leaf"}
    assert loaded.document.catalog.server("our-node").power_w == 9100.0
    assert built.simulate().makespan_s > 0
