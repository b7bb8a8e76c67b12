"""Every page against axe-core's rules, in light and dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe

from railweave.studio.registry import installed_labs

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PAGES = ["/", "/design", *(f"/lab/{lab.key}" for lab in installed_labs() if lab.build is not None)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing(studio: str, page: Page, path: str, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(studio + path)
    there = ".cm-content" if path == "/design" else ".rw-tile .rw-value"
    page.wait_for_selector(there, timeout=60_000)
    if path.startswith("/lab/"):
        for name in ("Copy as command or Python", "What this does not model", "Learn"):
            page.get_by_text(name, exact=True).click()
    page.wait_for_timeout(800)  # what is still being drawn has its labels then
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]})
    violations = found.response["violations"]
    assert not violations, "\n".join(
        f"{one['id']}: {one['help']}: {node['html'][:160]}"
        for one in violations
        for node in one["nodes"][:3]
    )
