"""The figures of the guide on storage and checkpoints are what the engine gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import railweave

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "storage-and-checkpoints.md"
TEXT = PAGE.read_text("utf-8")
SHARED = "{shares: frontend}"
OWN = "{transport: ethernet, topology: leaf-spine, switch: sn4700}"


def design(*, storage: str = SHARED, users: bool = True) -> str:
    """The page's design, with another storage plane or without its users."""
    (text,) = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert SHARED in text
    text = text.replace(SHARED, storage)
    return text if users else text.partition("background:")[0]


def cells(text: str, folder: Path) -> list[str]:
    """What the table says of a design: write time, share of time, growth of a step of 5 s."""
    path = folder / "checkpoints.yaml"
    path.write_text(text, "utf-8")
    (outcome,) = railweave.load(path).build().run(what_ifs=False).storage
    write, period = outcome.checkpoint_s, outcome.period_s
    assert outcome.lost_share == pytest.approx(write / (period + write))
    grows = 5.0 * write / period
    return [
        f"{write:.2f} s",
        f"{outcome.lost_share:.2%}".replace("%", " %"),
        f"{1e3 * grows:.0f} ms",
    ]


def row(storage: str, load: str) -> list[str]:
    (found,) = re.findall(rf"^\| {storage} \| {load} \|(.*)\|$", TEXT, re.MULTILINE)
    return [cell.strip() for cell in found.split("|")]


@pytest.mark.parametrize(
    ("storage", "load", "text"),
    [
        ("shares the front-end", "none", design(users=False)),
        ("shares the front-end", "70 %", design()),
        ("own plane", "70 %", design(storage=OWN)),
    ],
)
def test_the_table_is_what_comes_out(storage: str, load: str, text: str, tmp_path: Path) -> None:
    assert row(storage, load) == cells(text, tmp_path)


def test_users_do_not_touch_a_plane_of_its_own(tmp_path: Path) -> None:
    assert cells(design(storage=OWN), tmp_path) == cells(design(storage=OWN, users=False), tmp_path)
    assert f"`storage: {OWN}`" in TEXT
