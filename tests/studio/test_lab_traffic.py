"""Lab 2 in a browser: its numbers are the command's, it moves, and a rank stands out everywhere."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lab_pages import enter, open_lab, select, unfold

from railweave.units import format_bytes, format_seconds, format_si

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

PLACES = ("share_server", "share_leaf", "share_spine", "share_core")
STAGE = "[...window.__railweaveCanvas][0]"


def opened(page: Page, studio: str, query: str = "") -> None:
    """Open the lab and wait until all of it is there."""
    open_lab(page, f"{studio}/lab/traffic{query}")


def value(page: Page, key: str) -> str:
    """Return a tile's text."""
    return page.locator(f'[data-number="{key}"] .rw-value').inner_text()


def command_of(page: Page) -> str:
    """Return the command that the page shows."""
    text: str = page.evaluate("document.querySelector('.rw-copy-command').textContent")
    line = text[text.index("railweave") :].partition("\n")[0]
    return line.removesuffix("content_copy").strip()


def run(command: str, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> Any:
    """Run a command here and return its document."""
    from railweave.cli import main

    patch.setattr(sys, "argv", [*shlex.split(command), "--json"])
    capsys.readouterr()
    with contextlib.suppress(SystemExit):
        main()
    return json.loads(capsys.readouterr().out)


def test_strategy_and_gpus_change_the_numbers_to_the_commands(
    studio: str, page: Page, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(page, studio)
    assert value(page, "volume_per_gpu") == "384 MB"
    assert value(page, "transfer_time") == "30.72 ms"
    assert value(page, "latency_share") == "bandwidth"

    page.get_by_label("Strategy", exact=True).click()
    page.get_by_role("option", name="expert parallel").click()
    enter(page, "GPUs", "12")
    enter(page, "GPUs a server", "4")
    enter(page, "Latency of a message", "20 us")
    enter(page, "Payload of an exchange", "1 MB")
    page.wait_for_function(
        "document.querySelector('.rw-copy-command').textContent.includes('--latency')"
        " && location.search.includes('latency') && location.search.includes('1+MB')"
    )
    page.wait_for_function(
        "document.querySelector('[data-number=\"messages\"] .rw-value').innerText === '264'"
    )
    page.wait_for_function(
        "document.querySelector('.rw-copy-command').textContent.includes('1 MB')"
    )
    said = run(command_of(page), capsys, monkeypatch)
    assert said["case"]["gpus"] == 12
    for key, text in (
        ("volume_per_gpu", format_bytes(said["bytes_sent_per_gpu"])),
        ("total_volume", format_bytes(said["total_bytes"])),
        ("transfer_time", format_seconds(said["time_s"])),
        ("closed_form_time", format_seconds(said["analytic_s"])),
        ("bandwidth_term", format_seconds(said["bandwidth_s"])),
        ("latency_term", format_seconds(said["latency_s"])),
        ("latency_share", said["bound"]),
        ("messages", f"{said['messages']:,}"),
        ("rounds", f"{said['steps']:,}"),
        ("share_server", f"{said['share_server']:.1%}"),
        ("share_leaf", f"{said['share_leaf']:.1%}"),
        ("share_spine", f"{said['share_spine']:.1%}"),
    ):
        assert value(page, key) == text, key
    assert said["interpretation"][0] in page.locator(".rw-words").inner_text()
    row = page.locator('[data-table="comparison"] tr[aria-current]')
    page.wait_for_function(
        """time => document.querySelector('[data-table="comparison"] tr[aria-current]')
           ?.innerText.includes(time)""",
        arg=format_seconds(said["time_s"]),
    )
    assert row.inner_text().startswith("Expert")

    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector('[data-table="comparison"]')
    assert value(page, "transfer_time") == format_seconds(said["time_s"])
    assert page.get_by_label("GPUs, exact").input_value() == "12"


def test_the_animation_steps_through_the_trace(studio: str, page: Page) -> None:
    opened(page, studio)
    page.wait_for_selector(".rw-trace td")
    flights = page.evaluate(f"{STAGE}.model.flights.n")
    assert flights == 24 * 2
    steps = page.evaluate(f"{STAGE}.model.steps")
    assert len(steps) == 7
    assert "4 messages of gradients begin" in steps[1][1]
    page.get_by_role("button", name="Step forwards").click()
    page.wait_for_function(f"Math.abs({STAGE}.clock.time - 0.00512) < 1e-6")
    assert "5.12 ms" in page.locator(".rw-trace").inner_text()
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"{STAGE}.clock.time > 0.006")


def test_a_rank_stands_out_in_all_views(studio: str, page: Page) -> None:
    opened(page, studio, "?gpus=8&per_server=4")
    picked = page.locator(".rw-traffic-picked")

    def stands_out(rank: int) -> None:
        page.wait_for_function(
            "(text) => document.querySelector('.rw-traffic-picked').innerText.startsWith(text)",
            arg=f"Rank {rank} (",
        )
        page.wait_for_function(f"{STAGE}.selected() === 'rank {rank}'")
        # Row and column are framed; the other ribbons step back.
        page.wait_for_function(
            """(rank) => { const [matrix, chord] = document.querySelectorAll('.js-plotly-plot');
               return matrix?.layout?.shapes?.[0]?.y0 === rank - 0.5
                 && chord?.data?.some((trace) => /,0.10?[)]$/.test(trace.fillcolor)) }""",
            arg=rank,
        )
        assert f"picked={rank}" in page.url
        roles = set(page.evaluate(f"[...{STAGE}.model.flights.role]"))
        assert "other" in roles
        assert roles - {"other"}

    page.get_by_label("Rank that stands out", exact=True).fill("5")
    page.get_by_label("Rank that stands out", exact=True).press("Enter")
    stands_out(5)
    assert "node002/gpu1" in picked.inner_text()
    assert page.locator('[data-table="peers"] tbody tr').count() > 0
    page.get_by_role("button", name="Next", exact=True).click()
    stands_out(6)
    # A cell of the matrix picks its sender, an arc of the chords its own.
    click = """([k, point]) => document.querySelectorAll('.js-plotly-plot')[k]
               .emit('plotly_click', { points: [point] })"""
    page.evaluate(click, [0, {"x": 0, "y": 3}])
    stands_out(3)
    page.evaluate(click, [1, {"customdata": 2}])
    stands_out(2)
    page.reload()
    page.wait_for_selector('[data-table="comparison"]')
    assert picked.inner_text().startswith("Rank 2 (")
    page.get_by_role("button", name="None", exact=True).click()
    page.wait_for_function("!location.search.includes('picked')")


def test_on_the_loaded_design_and_what_would_reorder(studio: str, page: Page) -> None:
    opened(page, studio, "?gpus=16&where=design&payload=64+kB")
    assert "superpod" in page.evaluate("document.querySelector('.rw-copy-command').textContent")
    assert "leaf-1" in page.evaluate(f"[...{STAGE}.model.nodes.id]")
    unfold(page, "What would put them in another order?")
    rows = page.locator('[data-table="variations"] tbody tr')
    rows.first.wait_for()
    assert rows.count() == 3
    # Refused inputs are said, and the page stays usable.
    enter(page, "GPUs", "1000")
    said = page.get_by_role("alert").filter(has_text="ranks: 1000 are wanted")
    said.wait_for()
    enter(page, "GPUs", "16")
    said.wait_for(state="hidden")


def test_many_ranks_are_drawn_by_server_on_a_narrow_screen(studio: str, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, studio, "?strategy=data&gpus=256&per_server=8")
    assert page.get_by_text("256 ranks are drawn as 32, by server").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert value(page, "messages").replace(",", "").isdigit()


# ---------------------------------------------------------------- whole models, placement, jobs


def rows_of(page: Page, name: str) -> list[list[str]]:
    """Return a table's cells."""
    found: list[list[str]] = page.evaluate(
        """name => [...document.querySelectorAll(`[data-table="${name}"] tbody tr`)]
           .map(row => [...row.cells].map(cell => cell.textContent))""",
        name,
    )
    return found


def holds(page: Page, text: str) -> None:
    """Wait until the command has this in it."""
    page.wait_for_function(
        "text => document.querySelector('.rw-copy-command').textContent.includes(text)", arg=text
    )


def test_context_parallel_is_the_commands_with_its_placements(
    studio: str, page: Page, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(page, studio, "?gpus=16&per_server=4&per_leaf=2&placement=spread")
    select(page, "Strategy", "context parallel")
    holds(page, "pattern context")
    page.wait_for_function(
        """() => document.querySelector('[aria-label="Command that compares the rules"]')
           ?.textContent.includes('pattern context')"""
    )
    said = run(f"{command_of(page)} --by-placement", capsys, monkeypatch)
    assert said["case"]["strategy"] == "context"
    assert value(page, "volume_per_gpu") == format_bytes(said["bytes_sent_per_gpu"])
    assert value(page, "transfer_time") == format_seconds(said["time_s"])
    assert [row[1] for row in rows_of(page, "parts")] == [
        "all-gather", "all-gather", "reduce-scatter",
    ]  # fmt: skip
    assert [row[:5] for row in rows_of(page, "placements")] == [
        [
            one["placement"],
            f"{one['servers']:,}",
            f"{one['share_server']:.1%}",
            f"{one['share_leaf']:.1%}",
            f"{one['share_spine'] + one['share_core']:.1%}",
        ]
        for one in said["placements"]
    ]
    marked = page.locator('[data-table="placements"] tr[aria-current]')
    assert marked.inner_text().startswith("spread")


def test_a_whole_model_is_the_commands(
    studio: str, page: Page, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(page, studio)
    select(page, "Strategy", "whole model")
    page.wait_for_selector('[data-table="groups"]')
    select(page, "Model", "Mixtral 8x7B")
    enter(page, "Context-parallel ranks", "2")
    enter(page, "Expert-parallel ranks", "2")
    holds(page, "context=2,pipeline=2,expert=2")
    page.wait_for_function(
        "document.querySelectorAll('[data-table=\"groups\"] tbody tr').length === 6"
    )
    said = run(command_of(page), capsys, monkeypatch)
    assert said["case"]["model"] == "mixtral-8x7b"
    for key, text in (
        ("volume_per_gpu", format_si(said["bytes_sent_per_gpu"], "B")),
        ("total_volume", format_si(said["total_bytes"], "B")),
        ("largest_groups", f"{said['largest']} {said['groups'][0]['share']:.1%}"),
        ("share_server", f"{said['share_server']:.1%}"),
        ("share_spine", f"{said['share_spine']:.1%}"),
        ("data_degree", f"{said['degrees']['data']:,}"),
        ("gpu_memory", f"{said['memory']['total_bytes'] / 1e9:,.1f} GB"),
    ):
        assert value(page, key) == text, key
    assert rows_of(page, "groups") == [
        [
            one["kind"],
            " + ".join(one["operations"]),
            f"{one['groups']:,} × {one['members']:,}",
            format_si(one["bytes_sent_per_gpu"], "B"),
            format_si(one["total_bytes"], "B"),
            *(f"{one[k]:.1%}" for k in ("share", *PLACES)),
        ]
        for one in said["groups"]
    ]
    # One kind alone is drawn, and a rank stands out in it.
    select(page, "Groups that are drawn", "pipeline")
    page.get_by_label("Rank that stands out", exact=True).fill("0")
    page.get_by_label("Rank that stands out", exact=True).press("Enter")
    page.wait_for_function(
        "document.querySelectorAll('[data-table=\"peers\"] tbody tr').length === 1"
    )
    assert rows_of(page, "peers")[0][0] == "rank 16"
    # Degrees that cannot be are refused, with plans that would do.
    enter(page, "Tensor-parallel ranks", "3")
    page.get_by_role("alert").filter(has_text="3 does not divide the 32 attention heads").wait_for()
    page.get_by_role("button", name="Take it").first.click()
    page.wait_for_function(
        "document.querySelector('[data-number=\"gpu_memory\"] .rw-value')?.innerText"
    )
    assert page.get_by_role("button", name="Take it").count() == 0
    assert page.get_by_label("Tensor-parallel ranks, exact").input_value() != "3"
    select(page, "Strategy", "data parallel")
    page.wait_for_selector('[data-number="transfer_time"]')


def test_several_jobs_are_the_commands(
    studio: str, page: Page, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(page, studio)
    page.get_by_text("The loaded design has fewer than two jobs.").wait_for()
    page.goto(f"{studio}/design")
    page.locator(".cm-content").wait_for()
    page.get_by_role("combobox", name="Start from an example").click()
    page.get_by_role("option", name="three-jobs", exact=True).click()
    page.get_by_text("three-jobs.yaml is loaded").wait_for()
    opened(page, studio)
    page.get_by_role("button", name="Run them alone and together").click()
    page.wait_for_selector('[data-table="interference"]')
    command = "railweave simulate three-jobs.yaml --interference"
    assert command in page.locator("main").inner_text()
    said = run(command.replace("three", f"{EXAMPLES}/three"), capsys, monkeypatch)
    shown = {(row[0], row[1]): row for row in rows_of(page, "interference")}
    assert len(shown) == sum(len(one["jobs"]) for one in said)
    for one in said:
        for job in one["jobs"]:
            row = shown[job["name"], one["placement"]]
            assert row[3:6] == [
                format_seconds(job["alone_s"]),
                format_seconds(job["together_s"]),
                f"{job['slowdown']:.3g}×",
            ]
            assert row[7:] == [f"{job['share_crossing']:.1%}", f"{job['shared_links']:,}"]
