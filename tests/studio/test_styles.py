"""The style sheets: what a browser test would see only at one width of the window."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import railweave.studio

STATIC = Path(railweave.studio.__file__).parent / "static"
SHEETS = sorted(STATIC.glob("*.css"))


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_no_track_of_a_grid_is_as_wide_as_what_it_holds(sheet: Path) -> None:
    """A bare ``1fr`` is never narrower than its content: a wide table widens the page."""
    text = sheet.read_text(encoding="utf-8")
    for tracks in re.findall(r"grid-template-columns:([^;}]*)", text):
        outside = re.sub(r"minmax\((?:[^()]|\([^()]*(?:\([^()]*\))*[^()]*\))*\)", "", tracks)
        assert not re.search(r"\dfr\b", outside), tracks


def test_a_table_in_a_card_has_the_ground_of_its_card() -> None:
    """Quasar gives a table a ground of its own, another one in the dark."""
    text = (STATIC / "studio.css").read_text(encoding="utf-8")
    rule = re.search(r"\.q-table__card, \.q-table--dark \{([^}]*)\}", text)
    assert rule is not None
    assert "background: transparent" in rule[1]
