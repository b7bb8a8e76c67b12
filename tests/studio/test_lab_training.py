"""The training step's page in a browser: its main task, with the command line's numbers."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lab_pages import enter, open_lab
from playwright.sync_api import expect
from typer.testing import CliRunner

from railweave.cli._app import app
from railweave.report.training_tables import money
from railweave.units import format_seconds, format_si

if TYPE_CHECKING:
    from playwright.sync_api import Page

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: quick: a small model on a part of the design, two counts
SMALL = "model=llama3-8b&gpus=32&batch=64&sequence=4096&scale=16,32"
PLAN = f"{SMALL}&tensor=4&pipeline=2"
WAIT_MS = 60_000
pytestmark = pytest.mark.browser


def cli(command: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(EXAMPLES)
    answer = CliRunner().invoke(app, [*shlex.split(command)[1:], "--json"])
    assert answer.exit_code == 0, answer.output
    document: dict[str, Any] = json.loads(answer.output)
    return document


def opened(page: Page, studio: str, query: str) -> None:
    open_lab(page, f"{studio}/lab/training?{query}")


def tile(page: Page, key: str) -> str:
    return page.locator(f"[data-number={key}] .rw-value").inner_text()


def command(page: Page) -> str:
    return page.locator(".rw-copy-command").first.text_content() or ""


def shows_the_command(page: Page, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Hold the tiles against what the copied command says."""
    said = cli(command(page), monkeypatch)
    plan, best = said["plans"][0], said["best"]
    assert tile(page, "step_time") == format_seconds(plan["step_s"])
    assert tile(page, "tokens_per_s") == format_si(plan["tokens_per_s"], "", 4).strip()
    assert tile(page, "mfu") == f"{100 * plan['mfu']:.1f} %"
    assert tile(page, "bubble") == f"{100 * plan['bubble_s'] / plan['step_s']:.1f} %"
    assert tile(page, "exposed_communication") == f"{100 * plan['network_share']:.1f} %"
    assert tile(page, "lost_to_network") == f"{100 * best['lost_share']:.1f} %"
    assert tile(page, "gpu_memory") == f"{plan['memory_bytes'] / 1e9:.1f} GB"
    assert tile(page, "step_price") == money(said["cost"]["step_price"])
    return said


def test_main_task(page, studio, monkeypatch):
    """Open a plan, read its step; change it; take the nearest of a wrong one; find the best."""
    opened(page, studio, PLAN)
    said = shows_the_command(page, monkeypatch)
    rows = page.locator("[data-table=scaling] tbody tr")
    expect(rows).to_have_count(2, timeout=WAIT_MS)
    for row, point in zip(rows.all(), said["scaling"]["points"], strict=True):
        text = row.inner_text()
        assert f"{point['gpus']:,}" in text
        assert format_seconds(point["step_s"]) in text
        assert f"{100 * point['lost_share']:.1f} %" in text
    timeline = page.get_by_role("img", name="One step by pipeline stage and stream")
    expect(timeline.locator(".bars .point").nth(20)).to_be_attached(timeout=WAIT_MS)
    before = tile(page, "step_time")

    enter(page, "Tensor", "3")
    page.get_by_role("alert").get_by_text("tensor 3 does not divide").wait_for(timeout=WAIT_MS)
    expect(page.locator(".rw-tile")).to_have_count(0)
    page.get_by_role("button", name="Take it: tensor 4 instead of 3:").click()
    expect(page.locator("[data-number=step_time] .rw-value")).to_have_text(before)
    expect(page.get_by_role("alert").filter(has_text="tensor 3")).to_be_hidden()

    page.get_by_role("button", name="Best plan").click()
    ranking = page.locator("[data-table=plans] tbody tr")
    ranking.first.wait_for(timeout=WAIT_MS)
    step = page.locator("[data-number=step_time] .rw-value")
    expect(step).to_have_text(ranking.first.locator("td").nth(-6).inner_text(), timeout=WAIT_MS)
    best = shows_the_command(page, monkeypatch)
    found = cli(
        "railweave plan llama3-8b --gpus 32 --design superpod-h100-1su.yaml --batch 64 "
        "--sequence 4096",
        monkeypatch,
    )
    assert best["plans"][0]["step_s"] == found["plans"][0]["step_s"]
    assert ranking.count() == len(found["plans"])

    address, shown = page.url, tile(page, "step_time")
    assert f"tensor={found['plans'][0]['plan']['tensor']}" in address
    page.goto("about:blank")
    opened(page, studio, address.partition("?")[2])
    assert tile(page, "step_time") == shown


def test_a_page_without_a_plan_opens_with_the_best(page, studio):
    opened(page, studio, SMALL)
    assert "tensor=" in page.url
    ranked = page.locator("[data-table=plans] tbody tr")
    steps = [row.locator("td").nth(-6).inner_text() for row in ranked.all()]
    assert tile(page, "step_time") == steps[0] != steps[-1]
    page.get_by_role("button", name=f"Take {len(steps)}", exact=True).click()
    step = page.locator("[data-number=step_time] .rw-value")
    expect(step).to_have_text(steps[-1], timeout=WAIT_MS)


def test_what_does_not_fit_is_shown_with_its_memory(page, studio):
    page.goto(f"{studio}/lab/training?model=llama3-70b&gpus=8&batch=8&tensor=8&zero=0")
    page.get_by_role("alert").get_by_text("GB a GPU are needed").wait_for(timeout=WAIT_MS)
    share = page.locator("[data-table=memory] tbody td").last.inner_text()
    assert float(share.removesuffix(" %")) > 100
    expect(page.get_by_role("img", name="Memory of a GPU by stage and part")).to_be_visible()
    expect(page.get_by_role("img", name="One step by pipeline stage and stream")).to_be_hidden()


def test_catalog_servers_and_the_timeline_for_perfetto(page, studio, monkeypatch, tmp_path):
    opened(page, studio, f"{PLAN}&where=dgx-h100&gpus=64")
    said = shows_the_command(page, monkeypatch)
    assert said["cluster"].startswith("dgx-h100 servers")
    with page.expect_download() as download:
        page.get_by_role("button", name="Timeline for Perfetto").click()
    download.value.save_as(tmp_path / "step.json.gz")
    document = json.loads(gzip.decompress((tmp_path / "step.json.gz").read_bytes()))
    assert any(event["ph"] == "X" for event in document["traceEvents"])


def test_home_and_two_labs_lead_here(page, studio):
    for path in ("/", "/lab/traffic", "/lab/collectives"):
        page.goto(studio + path)
        link = page.get_by_role("link", name="Training step").first
        expect(link).to_have_attribute("href", "/lab/training")
    page.goto(f"{studio}/lab/fabric")
    expect(page.get_by_role("link", name="Training step")).to_have_count(0)
