"""The shell in a browser: home, labs, keeping and pinning runs, light and dark, narrow screens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from lab_pages import answered, unfold
from playwright.sync_api import expect

from railweave.studio.registry import installed_labs

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PRESENT = [lab.key for lab in installed_labs() if lab.build is not None]


def test_home_shows_the_design_and_the_labs(studio: str, page: Page) -> None:
    page.goto(studio)
    expect(page.locator('[data-number="gpus"] .rw-value')).to_have_text("248", timeout=60_000)
    expect(page.locator('[data-number="servers"] .rw-value')).to_have_text("31")
    circles = page.locator(".rw-labs li")
    expect(circles).to_have_count(9)
    absent = page.locator(".rw-labs .rw-absent")
    expect(absent).to_have_count(sum(lab.build is None for lab in installed_labs()))
    assert "not there yet" in absent.first.inner_text()


def test_a_lab_without_an_engine_says_so(studio: str, page: Page) -> None:
    page.goto(f"{studio}/lab/incident")
    expect(page.get_by_text("not built yet", exact=False).first).to_be_visible()


def test_an_unknown_lab_is_not_found_and_its_page_says_so(studio: str) -> None:
    with pytest.raises(HTTPError) as error:
        urlopen(f"{studio}/lab/nonsense", timeout=60)
    assert error.value.code == 404
    assert "There is no lab" in error.value.read().decode()
    assert urlopen(f"{studio}/lab/fabric", timeout=60).status == 200


def test_a_run_is_kept_pinned_and_compared(studio: str, page: Page) -> None:
    page.goto(f"{studio}/lab/collectives")
    answered(page)
    page.get_by_role("button", name="Pin as baseline").click()
    expect(page.locator(".rw-tile", has_text="baseline").first).to_be_visible()
    page.goto(studio)
    table = page.locator(".rw-table")
    expect(table.get_by_text("baseline")).to_be_visible(timeout=60_000)
    table.get_by_role("button", name=re.compile("^Unpin")).click()
    expect(page.get_by_role("button", name=re.compile("^Pin run"))).to_be_visible()
    page.get_by_role("button", name=re.compile("^Forget")).click()
    expect(page.get_by_text("No runs are kept yet")).to_be_visible()


def test_a_kept_run_leads_to_the_inputs_of_the_address_it_came_from(
    studio: str, page: Page
) -> None:
    page.goto(f"{studio}/lab/collectives?ranks=8")
    answered(page)
    page.get_by_role("button", name="Keep this run").click()
    expect(page.get_by_text("Kept; the run list")).to_be_visible()
    page.goto(studio)
    link = page.locator(".rw-table").get_by_role("link", name="Collectives: ranks=8")
    expect(link).to_have_attribute("href", "/lab/collectives?ranks=8", timeout=60_000)


def test_a_number_that_is_taken_out_comes_back(studio: str, page: Page) -> None:
    page.goto(f"{studio}/lab/collectives?ranks=8")
    answered(page)
    field = page.get_by_label("GPUs, exact")
    expect(field).to_have_value("8")
    field.fill("")
    field.blur()
    expect(field).to_have_value("8")


def test_a_telephone_sees_which_lab_it_is_in(studio: str, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{studio}/lab/collectives")
    expect(page.locator(".rw-here")).to_be_in_viewport(ratio=1, timeout=60_000)


@pytest.mark.parametrize("lab", ["traffic?payload=", "collectives?size=", "congestion?buffer="])
def test_an_endless_size_is_refused(studio: str, page: Page, lab: str) -> None:
    page.goto(f"{studio}/lab/{lab}1e400 GB")
    said = page.get_by_text("'1e400 GB' is more than can be reckoned with").first
    expect(said).to_be_visible(timeout=60_000)


def test_visitors_do_not_see_each_others_runs(studio: str, page: Page) -> None:
    page.goto(studio)
    expect(page.get_by_text("No runs are kept yet")).to_be_visible(timeout=60_000)


def test_dark_stays_from_page_to_page(studio: str, page: Page) -> None:
    page.goto(studio)
    page.get_by_role("button", name="Light / dark").click()
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    page.goto(f"{studio}/design")
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))


@pytest.mark.parametrize("key", PRESENT)
def test_a_bad_address_is_said_and_the_page_works(studio: str, page: Page, key: str) -> None:
    page.goto(f"{studio}/lab/{key}?nonsense=1&size=%00&ranks=-3&gpus=x&senders=many")
    page.wait_for_selector(".rw-tile .rw-value, .rw-banner:visible", timeout=60_000)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("key", PRESENT)
def test_no_page_is_wider_than_its_window(studio: str, page: Page, key: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{studio}/lab/{key}")
    answered(page)
    # What comes after the numbers counts too.
    page.wait_for_function("!document.querySelector('.rw-stale')")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("key", PRESENT)
def test_learn_help_and_copy_are_there(studio: str, page: Page, key: str) -> None:
    page.goto(f"{studio}/lab/{key}")
    answered(page)
    # Tiles that are made anew take an open help along: what still works says so, ending in "…".
    page.wait_for_function(
        """![...document.querySelectorAll('[role=status]')].some(
             said => said.checkVisibility() && said.innerText.trim().endsWith('…'))"""
    )
    page.locator(".rw-tile .rw-help").first.click()
    expect(page.locator(".rw-help-body")).to_be_visible()
    page.keyboard.press("Escape")
    unfold(page, "Copy as command or Python")
    expect(page.locator(".rw-copy-command")).to_contain_text("railweave")
    expect(page.locator(".rw-copy-python")).to_contain_text("railweave")
    unfold(page, "What this does not model")
    expect(page.locator(".rw-limits li").first).to_be_visible()
    unfold(page, "Learn")
    expect(page.get_by_text("Not to be blurred")).to_be_visible()
