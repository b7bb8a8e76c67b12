"""The design page in a browser: its main task, from an example to two runs over each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from railweave.cli._app import app
from railweave.units import format_seconds

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]


def _text(page: Page) -> str:
    """Return the editor's text, as the browser has it."""
    return str(
        page.evaluate(
            "getElement(+document.querySelector('.rw-code').id.slice(1)).editor.state.doc.toString()"
        )
    )


def _cursor(page: Page, behind: str) -> None:
    """Put the cursor behind the first place where this stands, by way of the editor."""
    page.evaluate(
        """behind => {
            const view = getElement(+document.querySelector('.rw-code').id.slice(1)).editor;
            const at = view.state.doc.toString().indexOf(behind) + behind.length;
            view.dispatch({selection: {anchor: at}, scrollIntoView: true});
            view.focus();
        }""",
        behind,
    )


def _cli(tmp_path: Path, text: str, *options: str) -> dict[str, Any]:
    """Return what the command line says of the same text."""
    design = tmp_path / "design.yaml"
    design.write_text(text, encoding="utf-8")
    arguments = ["run", str(design), "--json", "--out", str(tmp_path / "out"), *options]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code in {0, 1}, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _open(page: Page, studio: str, example: str) -> None:
    page.goto(f"{studio}/design")
    page.locator(".cm-content").wait_for()
    page.get_by_role("combobox", name="Start from an example").click()
    page.get_by_role("option", name=example, exact=True).click()
    page.get_by_text(f"{example}.yaml is loaded").wait_for()


def _tile(page: Page, key: str) -> str:
    tile = page.locator(f'[data-number="{key}"] .rw-value')
    tile.wait_for()
    return tile.inner_text()


def test_main_task(page: Page, studio: str, tmp_path: Path) -> None:
    _open(page, studio, "juniper-16-leaf")
    good = _text(page)

    # Break it: the error stands at its line, in the text and in the list.
    _cursor(page, "collective: all")
    page.keyboard.press("Delete")
    page.keyboard.type("_")
    problem = page.locator(".rw-problem-error")
    problem.wait_for()
    line = good[: good.index("collective: ")].count("\n") + 1
    assert f"error, {line}:" in problem.first.inner_text()
    assert "all-gather" in problem.first.inner_text()
    page.locator(".rw-mark-error").first.wait_for()
    page.locator(".rw-sign-error").first.wait_for()
    page.get_by_text("is kept, and not loaded while it has errors").wait_for()

    # The proposed value, by the keyboard.
    page.keyboard.press("Escape")
    page.keyboard.press("F8")
    page.keyboard.press("Control+.")
    page.get_by_text("juniper-16-leaf.yaml is loaded").wait_for()
    assert _text(page) == good

    # Run it, and pin the run.
    page.get_by_role("button", name="Run", exact=True).click()
    first = _tile(page, "engine_time:experts")
    record = _cli(tmp_path, good)
    assert first == format_seconds(record["jobs"][0]["time_s"])
    assert _tile(page, "busbw:experts") == f"{record['jobs'][0]['busbw_Bps'] / 1e9:.4g} GB/s"
    page.get_by_role("button", name="Pin run 1").click()
    page.locator(".rw-runs .rw-pinned").wait_for()

    # A form changes one field of the text and nothing else.
    page.get_by_role("tab", name="Back-end").click()
    field = page.locator('[data-field="planes.backend.oversubscription"] input')
    field.fill("2")
    field.press("Enter")
    page.wait_for_function(
        "getElement(+document.querySelector('.rw-code').id.slice(1)).editor.state.doc.toString()"
        ".includes('oversubscription: 2')"
    )
    changed = _text(page)
    before = good.splitlines()
    assert [row for row in changed.splitlines() if row not in before] == ["    oversubscription: 2"]

    # It can no longer be built as asked: said at its field, mended by a button.
    page.get_by_text("4 spines are wanted").first.wait_for()
    page.get_by_role("button", name="Put 2").click()
    page.get_by_text("juniper-16-leaf.yaml is loaded").wait_for()

    # Run it again: both runs stand over each other.
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".rw-runs tbody tr").nth(1).wait_for()
    changed = _text(page)
    assert "min_spines: 2" in changed
    second = _cli(tmp_path, changed)["jobs"][0]["time_s"]
    assert second > record["jobs"][0]["time_s"]
    assert _tile(page, "engine_time:experts") == format_seconds(second)
    change = second / record["jobs"][0]["time_s"] - 1
    assert f"{change:+.1%}" in page.locator('[data-number="engine_time:experts"]').inner_text()
    page.locator(".rw-figure .js-plotly-plot .bars").first.wait_for()


def _focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.className"))


def test_keyboard_completion_and_ways_out(page: Page, studio: str) -> None:
    page.goto(f"{studio}/design")
    page.locator(".cm-content").wait_for()
    page.locator(".rw-loaded").filter(has_text="is loaded").wait_for()
    first = _text(page)

    # Completion while typing: a field of this place, then its values.
    _cursor(page, "    scalable_unit: 32")
    page.keyboard.press("Enter")
    page.keyboard.type("congest")
    option = page.locator(".cm-tooltip-autocomplete li", has_text="congestion")
    option.wait_for()
    page.wait_for_timeout(120)  # the menu takes no key in its first 75 ms
    page.keyboard.press("Enter")
    page.locator(".cm-tooltip-autocomplete li", has_text="credits").first.wait_for()
    page.keyboard.press("Escape")
    assert "    scalable_unit: 32\n    congestion: \n" in _text(page)
    page.keyboard.press("Control+Space")
    page.locator(".cm-tooltip-autocomplete li", has_text="credits").first.wait_for()
    page.wait_for_timeout(120)
    page.keyboard.press("Escape")

    # What the cursor stands on is explained.
    page.locator(".rw-inspector", has_text="planes.backend.congestion").wait_for()

    # Tab indents; after Escape it leaves.
    page.locator(".cm-content").focus()
    page.keyboard.press("Tab")
    assert "cm-content" in _focused(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert "cm-content" not in _focused(page)

    # Undo, as often as there is something, leads back to the start.
    for _ in range(12):
        if _text(page) == first:
            break
        page.get_by_role("button", name="Undo").click()
        page.wait_for_timeout(60)
    assert _text(page) == first


def test_a_text_with_errors_is_kept_and_files_are_refused(page: Page, studio: str) -> None:
    page.goto(f"{studio}/design")
    page.locator(".cm-content").wait_for()
    page.locator(".rw-loaded").filter(has_text="is loaded").wait_for()
    _cursor(page, "topology: rail-optimized")
    page.keyboard.type("\n  graph: /etc/passwd\nplanes: [")
    page.locator(".rw-problem-error").first.wait_for()
    page.get_by_text("the forms wait for it").wait_for()
    broken = _text(page)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("alert").filter(has_text="mend them first").wait_for()

    # It is there again after a reload, and the design of before is still the loaded one.
    page.reload()
    page.locator(".cm-content").wait_for()
    assert _text(page) == broken
    page.goto(studio)
    page.locator('[data-number="gpus"] .rw-value', has_text="248").wait_for()

    # Files: too large, no text, and one that names others.
    page.goto(f"{studio}/design")
    page.locator(".cm-content").wait_for()
    upload = page.locator(".rw-upload input[type=file]")
    upload.set_input_files({"name": "a.yaml", "mimeType": "text/plain", "buffer": b"\xff\xfe\x00"})
    page.get_by_text("no UTF-8 text").wait_for()
    graph = (ROOT / "examples" / "ring-of-switches.yaml").read_bytes()
    upload.set_input_files({"name": "ring.yaml", "mimeType": "text/plain", "buffer": graph})
    page.locator(".rw-problem-error", has_text="no file is opened").wait_for()
    assert _text(page) == graph.decode()

    # A report of nobody's run.
    answer = page.request.get(f"{studio}/design/report/{'0' * 64}")
    assert answer.status == 404


def test_a_run_outlives_a_reload_of_its_page(page: Page, studio: str) -> None:
    page.goto(f"{studio}/design")
    page.get_by_text("is loaded").wait_for(timeout=60_000)
    page.get_by_label("Taken out first").fill("spine-1")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".rw-job:not(.hidden)").wait_for(timeout=60_000)
    page.reload()
    # It goes on, or has ended meanwhile: its result is shown and kept either way.
    page.locator(".rw-result .rw-value").first.wait_for(timeout=120_000)
    assert page.get_by_label("Taken out first").input_value() == "spine-1"
    page.locator(".rw-runs tbody tr").wait_for()
    assert "without spine-1" in page.locator(".rw-runs tbody").inner_text()
    # And once more when nothing runs.
    page.reload()
    page.locator(".rw-result .rw-value").first.wait_for(timeout=60_000)
    assert page.locator(".rw-runs tbody tr").count() == 1
