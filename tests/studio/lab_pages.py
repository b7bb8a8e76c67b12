"""A lab's page as the browser tests use it: act, wait until it has answered, read."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

#: a job in a worker may be among what is waited for
WAIT_MS = 120_000


def answered(page: Page) -> None:
    """Wait until the lab shows what belongs to its inputs: numbers, and all that follows them."""
    page.wait_for_selector('.rw-main[aria-busy="false"]', timeout=WAIT_MS)


@contextmanager
def answering(page: Page) -> Iterator[None]:
    """Wait until the lab has answered what is done in the block."""
    before = page.locator(".rw-main").get_attribute("data-turn")
    yield
    page.wait_for_function(
        "before => { const main = document.querySelector('.rw-main').dataset;"
        " return main.turn !== before; }",
        arg=before,
        timeout=WAIT_MS,
    )
    answered(page)


def open_lab(page: Page, address: str) -> None:
    """Open a lab and wait until all of it is there."""
    page.goto(address)
    answered(page)


def enter(page: Page, label: str, text: str) -> None:
    """Type into an input's exact field, and wait for the answer."""
    with answering(page):
        field = page.get_by_label(f"{label}, exact", exact=True)
        field.fill(text)
        field.press("Enter")


def select(page: Page, label: str, option: str) -> None:
    """Choose one of several, and wait for the answer."""
    with answering(page):
        page.get_by_role("combobox", name=label, exact=True).click()
        page.get_by_role("option", name=option, exact=True).click()


def unfold(page: Page, title: str) -> None:
    """Open (or close) a part that folds, and wait until nothing slides: clicks would miss."""
    page.get_by_text(title, exact=True).click()
    page.wait_for_function(
        "() => !document.getAnimations().some("
        "one => one instanceof CSSTransition && one.playState === 'running')"
    )
