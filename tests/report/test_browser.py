"""The page in a real browser: no request, no console error, nothing over the edge."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import railweave
from railweave.report.output import write_outputs
from railweave.report.record import RunRecord

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = Path(os.environ.get("RAILWEAVE_CHROMIUM", "/usr/bin/chromium"))
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

#: what sticks out to the right, apart from what scrolls by itself
STICKING_OUT = """
() => [...document.querySelectorAll('body *')]
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll, pre'))
  .map(e => e.tagName + ' ' + e.textContent.slice(0, 40))
"""

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    required = os.environ.get("RAILWEAVE_REQUIRE_REAL") == "1"
    if not CHROMIUM.exists() and not required:
        pytest.skip(f"{CHROMIUM} is not installed; tools/system-packages installs it")
    if required:
        from playwright.sync_api import sync_playwright
    else:
        sync_playwright = pytest.importorskip("playwright.sync_api").sync_playwright
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield opened
        opened.close()


def record_of(name: str) -> RunRecord:
    return railweave.load(EXAMPLES / f"{name}.yaml").build().run(what_ifs=False)


@pytest.fixture(scope="module")
def pages(tmp_path_factory, rich) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    records = {
        "rich": rich,
        "planes": record_of("hpn-pod-15k"),
        "units": record_of("superpod-h100-1su"),
    }
    return {name: write_outputs(record, folder / name) for name, record in records.items()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["rich", "planes", "units"])
def test_page_stands_alone_and_within_its_width(browser, pages, name, width, scheme):
    small = width < 500
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        is_mobile=small,
        has_touch=small,
    )
    page = context.new_page()
    requests: list[str] = []
    errors: list[str] = []

    def answer(route) -> None:
        if route.request.url.startswith("file://"):
            route.continue_()
        else:
            requests.append(route.request.url)
            route.abort()

    page.route("**/*", answer)
    page.on(
        "console", lambda message: errors.append(message.text) if message.type == "error" else 0
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(pages[name].as_uri())
    page.wait_for_selector("#figure-topology .main-svg")
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    assert requests == []
    assert errors == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(STICKING_OUT) == []
    drawn = page.evaluate("document.querySelectorAll('.plotly-graph-div .main-svg').length > 0")
    assert drawn
    context.close()


def test_links_of_the_navigation_lead_to_their_sections(browser, pages):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(pages["rich"].as_uri())
    page.click("nav a:has-text('Failures')")
    assert page.evaluate("location.hash") == "#failures"
    assert (
        -1 <= page.evaluate("document.querySelector('#failures').getBoundingClientRect().top") < 900
    )
    page.close()
