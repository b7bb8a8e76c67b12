"""The docs' page of lessons shows what they give now."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.report.lessons import all_lessons

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "model" / "lessons.md"


@pytest.mark.parametrize("lab", all_lessons())
def test_the_page_shows_it(lab):
    item, page = all_lessons()[lab], PAGE.read_text(encoding="utf-8")
    outcome = item.run()
    assert f"## {item.title}\n" in page
    assert f"`{item.name}` — {item.claim} **Holds.**" in page
    assert outcome.reading in page
    for chart in outcome.charts:
        picture = f"{item.name}-{chart.name}.png"
        assert f"../img/lessons/{picture}" in page
        assert (DOCS / "img" / "lessons" / picture).is_file()
