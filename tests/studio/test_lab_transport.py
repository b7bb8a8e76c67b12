"""Lab 3 in a browser: measure, weigh, turn the answer, and hold it against the command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lab_pages import answered, answering, enter, open_lab, select, unfold
from playwright.sync_api import expect
from typer.testing import CliRunner

from railweave.cli._app import app
from railweave.units import format_seconds

if TYPE_CHECKING:
    from playwright.sync_api import Page

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = "gpus=16&mix=all-to-all%3A1MiB"
SHORT = {"tcp": "TCP", "rocev2": "RoCEv2", "infiniband": "InfiniBand",
         "adaptive": "Adaptive Ethernet"}  # fmt: skip
pytestmark = pytest.mark.browser


def tile(page: Page, key: str) -> str:
    return page.locator(f"[data-number={key}] .rw-value").inner_text()


def shows_the_command(page: Page, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Hold the page against what the copied command says."""
    command = page.locator(".rw-copy-command").first.text_content() or ""
    monkeypatch.chdir(EXAMPLES)
    answer = CliRunner().invoke(app, [*shlex.split(command)[1:], "--json"])
    assert answer.exit_code == 0, answer.output
    said: dict[str, Any] = json.loads(answer.output)
    best = said["recommendation"]
    own = said["measurements"]["measured"][best]
    assert tile(page, "technology_score") == f"{said['totals'][best]:.3f}"
    assert f"{SHORT[best]}: score" in page.locator("[data-number=technology_score]").inner_text()
    assert tile(page, "large_collective") == format_seconds(own["large"][0]["time_s"])
    assert tile(page, "message_time") == format_seconds(own["message_s"])
    assert tile(page, "incast_ratio") == f"{own['incast_ratio']:.2f}"
    rows = page.locator("[data-table=answer] tbody tr").all()
    assert len(rows) == 4
    for row, name in zip(rows, said["ranking"], strict=False):
        assert f"{said['totals'][name]:.3f}" in row.inner_text()
    return said


def test_main_task(page, studio, monkeypatch):
    """Measure, read the answer, move a weight until it turns, and require what leaves one."""
    open_lab(page, f"{studio}/lab/transport?{SMALL}")
    said = shows_the_command(page, monkeypatch)
    measured = page.locator("[data-table=measured] tbody tr")
    assert measured.count() > 15
    turns = page.locator("[data-table=sensitivity] tbody tr")
    assert turns.count() == len(said["weights"])

    able = [flip for flip in said["sensitivity"] if flip["within"] and flip["at"] < 10
            and flip["at"] > flip["weight"]]  # fmt: skip
    assert able
    flip = able[0]
    title = turns.nth([one["criterion"] for one in said["weights"]].index(flip["criterion"]))
    label = title.locator("td").first.inner_text()
    enter(page, label, str(int(flip["at"]) + 1))
    assert f"weights={flip['criterion']}%3D" in page.url
    after = shows_the_command(page, monkeypatch)
    assert after["recommendation"] != said["recommendation"]
    assert after["measurements"] == said["measurements"]
    with answering(page):
        page.get_by_role("button", name="Weights as they follow").click()
    assert "weights=" not in page.url
    assert shows_the_command(page, monkeypatch)["totals"] == said["totals"]

    select(page, "Encryption", "TLS only")
    assert shows_the_command(page, monkeypatch)["ranking"] == ["tcp"]
    assert page.locator("[data-table=answer]").inner_text().count("socket") == 3

    address = page.url
    page.goto("about:blank")
    open_lab(page, address)
    assert shows_the_command(page, monkeypatch)["ranking"] == ["tcp"]


def test_stacks_figures_and_what_is_stated(page, studio):
    open_lab(page, f"{studio}/lab/transport?{SMALL}")
    drawing = page.get_by_role("img", name="Protocol stacks and fabrics.", exact=False)
    expect(drawing).to_be_visible()
    assert "subnet manager" in (drawing.get_attribute("aria-label") or "")
    totals = page.get_by_role("img", name="Weighted scores of the four technologies")
    expect(totals.locator(".bars .point").nth(20)).to_be_attached()
    turning = page.get_by_role("img", name="Which technology is ahead at which weight")
    expect(turning.locator(".bars .point").nth(10)).to_be_attached()
    stated = page.locator("[data-table=stated]").inner_text()
    for row in ("RDMA capability", "Troubleshooting", "Supply risk", "Typical use", "Power class"):
        assert row in stated
    unfold(page, "Numbers and sources of what is stated")
    assert "SIGCOMM" in page.locator("[data-table=sources]").inner_text()
    unfold(page, "Arithmetic of the scores")
    assert page.locator("[data-table=arithmetic] tbody tr").count() == 15


def test_another_cluster_is_measured_anew(page, studio, monkeypatch):
    open_lab(page, f"{studio}/lab/transport?{SMALL}")
    before = tile(page, "large_collective")
    enter(page, "NIC speed", "100 Gb/s")
    assert tile(page, "large_collective") != before
    assert shows_the_command(page, monkeypatch)["measurements"]["host_bps"] == 100e9
    enter(page, "GPUs", "20")
    page.get_by_role("alert").get_by_text("nearest: 16").wait_for(timeout=60_000)
    enter(page, "GPUs", "16")
    expect(page.get_by_role("alert").filter(has_text="nearest")).to_be_hidden()


def test_the_loaded_design(page, studio, monkeypatch):
    open_lab(page, f"{studio}/lab/transport?mix=all-to-all%3A1MiB")
    select(page, "Measured on", "my design: superpod-h100-1su.yaml")
    said = shows_the_command(page, monkeypatch)
    assert said["measurements"]["gpus"] == 248
    assert said["measurements"]["measured"]["infiniband"]["own"]
    assert page.get_by_label("GPUs, exact", exact=True).is_hidden()


def test_wrong_values_in_the_address_are_said(page, studio):
    page.goto(f"{studio}/lab/transport?{SMALL}&team=nobody")
    answered(page)
    page.get_by_role("alert").get_by_text("team: 'nobody' is not known").wait_for()
    select(page, "The team knows", "both")
    expect(page.locator(".rw-tile").first).to_be_visible()


def test_it_fits_a_phone(page, studio):
    page.set_viewport_size({"width": 390, "height": 800})
    open_lab(page, f"{studio}/lab/transport?{SMALL}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
