"""Lab 6 in a browser: thresholds, a comparison, an exercise, a link, a long run."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest
from lab_pages import enter, open_lab, unfold
from typer.testing import CliRunner

from railweave.cli._app import app
from railweave.units import format_bits_rate, format_bytes, format_seconds

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser
WAIT_MS = 20_000
KMIN = "Threshold, Kmin [% of buffer]"


def tile(page: Page, key: str) -> Locator:
    return page.locator(f'[data-number="{key}"]')


def value(page: Page, key: str) -> str:
    return tile(page, key).locator(".rw-value").inner_text()


def expect_value(page: Page, key: str, text: str) -> None:
    from playwright.sync_api import expect

    expect(tile(page, key).locator(".rw-value")).to_have_text(text, timeout=WAIT_MS)


def texts(cells: Locator) -> list[str]:
    return [text.strip() for text in cells.all_inner_texts()]


def shown_commands(page: Page) -> list[str]:
    code = page.locator(".rw-copy-command")
    if not code.is_visible():
        unfold(page, "Copy as command or Python")
        code.wait_for()
    return code.inner_text().strip().splitlines()


def printed(command: str) -> dict:
    done = CliRunner().invoke(app, [*shlex.split(command)[1:], "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)[0]["metrics"]


def expect_numbers(page: Page, numbers: dict) -> None:
    for key, text in {
        "throughput": format_bits_rate(numbers["throughput_bps"]),
        "goodput": format_bits_rate(numbers["goodput_bps"]),
        "queue_max": format_bytes(numbers["queue_max_bytes"]),
        "delay_mean": format_seconds(numbers["delay_mean_s"]),
        "delay_p99": format_seconds(numbers["delay_p99_s"]),
        "pauses": f"{numbers['pauses']:,}",
        "pause_share": f"{100 * numbers['paused_share']:.3g} %",
        "marks": f"{numbers['marks']:,}",
        "cnps": f"{numbers['cnps']:,}",
        "drops": f"{numbers['drops']:,}",
        "jain": f"{numbers['jain']:.4f}",
    }.items():
        expect_value(page, key, text)


def test_thresholds_comparison_and_link(page: Page, studio: str):
    from playwright.sync_api import expect

    open_lab(page, f"{studio}/lab/congestion")
    before = printed("railweave congest")
    expect_numbers(page, before)
    predicted = page.locator(".rw-predicted tbody tr td:nth-child(2)")
    assert texts(predicted) == ["2.56 ms", "5.12 ms", "6.4 ms"]

    page.get_by_role("button", name="Pin as baseline").click()
    page.wait_for_url(re.compile("baseline=defaults"), timeout=WAIT_MS)
    # with the keyboard: one step down from 40 % is 39 %
    page.get_by_role("slider", name=KMIN).locator("[tabindex]").press("ArrowLeft")
    page.wait_for_url(re.compile("kmin=39"), timeout=WAIT_MS)
    enter(page, KMIN, "10")
    page.wait_for_url(re.compile("kmin=10"), timeout=WAIT_MS)
    now = printed("railweave congest --ecn 10%")
    expect_numbers(page, now)
    assert shown_commands(page) == ["railweave congest --ecn 10%", "railweave congest"]
    expect(tile(page, "marks")).to_contain_text(f"baseline {before['marks']:,}")

    row = page.locator(".rw-compared tbody tr", has_text="packets marked (ECN)")
    assert texts(row.locator("td"))[1:3] == [f"{m['marks']:,}" for m in (before, now)]
    names = page.evaluate(
        "document.querySelector('.rw-congestion-figure .js-plotly-plot').data"
        ".map(t => [t.name, t.line.dash])"
    )
    assert ["baseline", "dash"] in names
    assert ["dcqcn-firmware", "solid"] in names

    # the link shows the same to someone else
    url = page.url
    other = page.context.browser.new_context().new_page()
    other.goto(url)
    expect_numbers(other, now)
    expect(tile(other, "marks")).to_contain_text(f"baseline {before['marks']:,}")
    assert other.locator(".rw-compared").is_visible()
    other.context.close()

    page.get_by_role("button", name="Unpin").click()
    expect(page.locator(".rw-compared")).to_be_hidden(timeout=WAIT_MS)
    assert "baseline" not in page.url


def test_a_prediction_is_committed_then_revealed(page: Page, studio: str):
    open_lab(page, f"{studio}/lab/congestion")
    card = page.locator(".rw-exercise").first
    commit = card.get_by_role("button", name="Commit the prediction")
    assert commit.is_disabled()
    card.get_by_label("Your prediction").fill("5")
    commit.click()
    said = card.locator(".rw-verdict-headline")
    said.wait_for(timeout=WAIT_MS)
    assert said.inner_text() == "Measured: 6.4 ms. You predicted 5 ms: 22 % too low."
    assert "0 of 1" in card.inner_text()

    card.get_by_label("Exercise").click()
    page.get_by_role("option", name="2. PFC below ECN").click()
    card.get_by_text("there are none at all").click()
    commit.click()
    said.wait_for(timeout=WAIT_MS)
    assert said.inner_text() == "Right: there are none at all."
    card.get_by_role("link", name="See this run in the lab").click()
    page.wait_for_url(re.compile("xoff=20"))
    expect_value(page, "marks", "0")
    expect_numbers(page, printed("railweave congest --pfc 20%"))


def test_a_long_run_shows_parts_and_can_be_cancelled(page: Page, studio: str):
    open_lab(page, f"{studio}/lab/congestion")
    enter(page, "Senders", "16")
    page.wait_for_url(re.compile("senders=16"))
    enter(page, "Duration", "10 s")
    words = page.locator(".rw-words")
    words.get_by_text("Still running").wait_for(timeout=WAIT_MS)
    page.get_by_role("button", name="Cancel").press("Enter")
    words.get_by_text(re.compile(r"Cancelled at .* of 10 s")).wait_for(timeout=WAIT_MS)
    assert texts(page.locator(".rw-predicted tbody tr td:nth-child(2)"))[0] == "28.13 us"
    # what comes next is not held up
    enter(page, "Duration", "2 ms")
    expect_numbers(page, printed('railweave congest --senders 16 --duration "2 ms"'))


def test_what_cannot_be_is_said(page: Page, studio: str):
    open_lab(page, f"{studio}/lab/congestion?buffer=lots&senders=2")
    assert "buffer: " in page.locator(".rw-words").inner_text()
    enter(page, "Senders", "200")
    enter(page, "Buffer", "1 MB")
    banner = page.locator(".rw-banner")
    banner.get_by_text("take fewer senders").wait_for(timeout=WAIT_MS)
    enter(page, "Senders", "2")
    banner.wait_for(state="hidden", timeout=WAIT_MS)


def test_cursor_and_drawing_show_one_time(page: Page, studio: str):
    open_lab(page, f"{studio}/lab/congestion")
    cursor = page.locator(".rw-congestion-figure .rw-cursor")
    cursor.wait_for(state="attached", timeout=WAIT_MS)
    page.get_by_label("Time", exact=True).fill("500")
    at = page.wait_for_function(
        """() => {
          const plot = document.querySelector('.rw-congestion-figure .js-plotly-plot');
          const axis = plot._fullLayout.xaxis, box = plot.getBoundingClientRect();
          const line = plot.querySelector('.rw-cursor').getBoundingClientRect();
          const t = axis.p2d(line.left - box.left - plot._fullLayout._size.l);
          return t > 1 ? t : null; }""",
        timeout=WAIT_MS,
    )
    assert at.json_value() == pytest.approx(10, abs=0.2)


def test_the_map_of_thresholds(page: Page, studio: str):
    open_lab(page, f"{studio}/lab/congestion?duration=2+ms")
    page.get_by_role("button", name="Simulate the map").click()
    command = page.locator(".rw-sweep code")
    command.wait_for(timeout=WAIT_MS)
    assert command.inner_text().strip() == (
        'railweave congest --duration "2 ms" --profile dcqcn-firmware --sweep'
    )


def test_no_text_of_a_link_touches_the_names_of_the_thresholds(page: Page, studio: str):
    open_lab(page, f"{studio}/lab/congestion")
    free = page.evaluate(
        """async () => {
          const { Labels, markPlace } = await import("/studio-static/canvas/labels.js");
          const c = document.createElement("canvas").getContext("2d");
          const labels = new Labels(c, { w: 390, h: 300 }, { font: "sans-serif" });
          const level = { marks: [[80, "PFC"]], brim: 100 };
          const model = {
            nodes: { kind: ["queue"], count: [1], state: [""] }, levelOf: new Map([[0, level]]),
          };
          const [x, y, r] = [150, 150, 34];
          const { left, bottom, h } = markPlace(x, y, r);
          const at = bottom - 0.8 * h;
          const room = (x) => labels.free(x, at - 6, x + 50, at + 6);
          const before = room(left + 20);
          labels.block(model, 0, x, y, r);
          return [before, room(left + 20), room(left + 60)];
        }"""
    )
    assert free == [True, False, True]
