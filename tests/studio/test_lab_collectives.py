"""Lab 7 in a browser: its main task, with the command line's numbers on screen."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lab_pages import answered, enter, open_lab, select, unfold
from typer.testing import CliRunner

from railweave.cli._app import app
from railweave.studio.labs._collectives import bytes_text
from railweave.units import format_seconds, format_si

if TYPE_CHECKING:
    from playwright.sync_api import Page

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.browser


def cli(command: str) -> dict[str, Any]:
    answer = CliRunner().invoke(app, [*shlex.split(command.splitlines()[0])[1:], "--json"])
    assert answer.exit_code == 0, answer.output
    document: dict[str, Any] = json.loads(answer.output)
    return document


def opened(page: Page, studio: str, query: str = "") -> None:
    open_lab(page, f"{studio}/lab/collectives{query}")


def tile(page: Page, key: str) -> str:
    return page.locator(f"[data-number={key}] .rw-value").inner_text()


def shows(page: Page, key: str, text: str) -> None:
    page.wait_for_function(
        "([key, text]) => document.querySelector(`[data-number=${key}] .rw-value`)"
        "?.textContent === text",
        arg=[key, text],
    )


def command(page: Page) -> str:
    unfold(page, "Copy as command or Python")
    text = page.locator(".rw-copy-command").first.inner_text()
    unfold(page, "Copy as command or Python")
    return text


def test_main_task(page, studio):
    opened(page, studio)
    assert tile(page, "rounds") == "6"
    assert tile(page, "bytes_per_gpu") == "384 MB"
    assert tile(page, "closed_form_time") == "30.72 ms"
    enter(page, "GPUs", "6")
    enter(page, "Size", "32 MiB")
    enter(page, "Latency of a message", "3 us")
    shows(page, "rounds", "10")
    said = cli(
        'railweave collective all-reduce --ranks 6 --size "32 MiB" --algorithm ring '
        '--bandwidth "100 Gb/s" --latency "3 us"'
    )
    shows(page, "closed_form_time", format_seconds(said["time_s"]))
    assert tile(page, "bytes_per_gpu") == bytes_text(said["bytes_sent_per_rank"])
    assert tile(page, "lower_bound") == format_seconds(said["lower_bound_s"])
    assert tile(page, "algbw") == format_si(said["algbw_Bps"], "B/s")
    assert tile(page, "busbw") == format_si(said["busbw_Bps"], "B/s")
    assert cli(command(page)) == said
    answered(page)
    shown = {key: tile(page, key) for key in ("rounds", "closed_form_time", "engine_time")}
    address = page.url
    page.goto("about:blank")
    opened(page, studio, address.removeprefix(f"{studio}/lab/collectives"))
    assert {key: tile(page, key) for key in shown} == shown


def test_stepping_shows_each_round_and_what_is_held(page, studio):
    opened(page, studio)
    held = page.get_by_role("region", name="What each GPU holds")
    moved = page.get_by_role("region", name="Transfers of the round")
    assert "At the start" in held.inner_text()
    page.get_by_label("Speed", exact=True).select_option(label="4×")
    assert moved.locator("tbody tr").count() == 4
    for done in range(1, 7):
        page.get_by_role("button", name="Step forwards").click()
        held.get_by_text(f"After round {done} of 6").wait_for()
        page.get_by_role("button", name="Play").wait_for()  # it has come to rest
        if done < 6:
            assert f"Round {done + 1} of 6" in moved.inner_text()
    assert held.locator("td.done").count() == 16
    page.get_by_role("button", name="Step back").click()
    held.get_by_text("After round 5 of 6").wait_for()
    assert held.locator("td.done").count() == 12


def test_one_slow_rank_slows_all(page, studio):
    opened(page, studio)
    select(page, "What is slow", "slow link")
    shows(page, "slowdown", "2×")
    enter(page, "Link, per cent of its speed", "25")
    shows(page, "slowdown", "4×")
    assert tile(page, "ideal_time") == "31.34 ms"
    assert "all 4 GPUs take" in page.locator(".rw-words").inner_text()
    assert "slow=link" in page.url
    assert "slow_link=25" in page.url


def test_a_tree_wins_for_small_messages(page, studio):
    opened(page, studio, "?ranks=16&latency=2+us")
    enter(page, "Size", "1 kB")
    shows(page, "closed_form_time", "60.15 us")
    page.get_by_text("would be faster here").wait_for()
    select(page, "Algorithm", "tree")
    said = cli(
        "railweave collective all-reduce --ranks 16 --size 1kB --algorithm tree "
        '--bandwidth "100 Gb/s" --latency "2 us"'
    )
    shows(page, "closed_form_time", format_seconds(said["time_s"]))
    page.get_by_text("tree is faster, above it ring").first.wait_for()
    answered(page)
    page.get_by_role("button", name="on the fabric").click()
    page.get_by_text("hops are drawn one after the other").wait_for()


def test_on_the_design_and_packet_by_packet(page, studio, monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    opened(page, studio, "?where=design&ranks=8&size=1+MiB")
    said = cli(command(page))
    shows(page, "engine_time", format_seconds(said["time_s"]))
    shows(page, "busbw", format_si(said["busbw_Bps"], "B/s"))
    page.get_by_role("button", name="Packet by packet").click()
    page.get_by_text("Packet engine:").wait_for(timeout=20_000)


def test_what_cannot_be_is_said(page, studio):
    opened(page, studio)
    select(page, "Algorithm", "hierarchical")
    shows(page, "rounds", "6")
    enter(page, "GPUs a server", "3")
    page.get_by_role("alert").get_by_text("multiple of 3").wait_for()
    enter(page, "GPUs a server", "2")
    page.get_by_role("alert").wait_for(state="hidden")
    shows(page, "rounds", "4")
    enter(page, "GPUs", "96")
    page.get_by_text("too many to draw").first.wait_for()
    shows(page, "rounds", "96")


# ---------------------------------------------------------------- what NCCL chooses


def chosen(page: Page) -> None:
    """Wait until the network has been measured and the choice is shown with it."""
    page.wait_for_function(
        "() => document.querySelector('.rw-choice [data-number=nccl_choice]') &&"
        " document.querySelector('.rw-choice-pending.hidden') &&"
        " document.querySelector('.rw-choice-tuner').textContent"
    )


def choice_command(page: Page) -> list[str]:
    return page.locator(".rw-choice-command").text_content().splitlines()


def assert_choice(page: Page, said: dict[str, Any]) -> None:
    """Hold what is on screen against the command line's document."""
    (one,) = said["sizes"]
    shows(page, "nccl_choice", one["option"])
    shows(page, "nccl_time", format_seconds(one["time_s"]))
    assert tile(page, "nccl_busbw") == format_si(one["busbw_Bps"], "B/s")
    low, high = (f"{one[f'busbw_{end}_Bps'] / 1e9:.4g}" for end in ("low", "high"))
    assert tile(page, "healthy_band") == f"{low} to {high} GB/s"
    table = page.locator("[data-table=nccl-options]")
    usable = sorted((o for o in one["options"] if o["usable"]), key=lambda o: o["time_s"])
    assert table.locator("tbody td:first-child").all_inner_texts() == [o["option"] for o in usable]
    assert table.locator("tbody td:nth-child(2)").all_inner_texts() == [
        format_seconds(option["time_s"]) for option in usable
    ]
    assert table.locator("tr.rw-on td").first.inner_text() == one["option"]
    for sentence in one["why"]:
        assert sentence in page.locator(".rw-choice-why").inner_text()


def test_what_nccl_chooses_is_the_command_lines(page, studio, monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    page.goto(f"{studio}/lab/collectives?ranks=64&size=64+MiB")
    chosen(page)
    assert_choice(page, cli(choice_command(page)[0]))
    before = tile(page, "nccl_choice")
    page.get_by_role("switch", name="Switches add up (SHARP)").click()
    page.wait_for_function(
        "() => document.querySelector('.rw-choice-command').textContent.includes('--sharp')"
    )
    assert_choice(page, cli(choice_command(page)[0]))
    assert tile(page, "nccl_choice") != before
    assert "sharp=yes" in page.url
    enter(page, "Size", "4 kB")
    page.wait_for_function(
        "() => document.querySelector('.rw-choice-command').textContent.includes('4 kB')"
    )
    assert_choice(page, cli(choice_command(page)[0]))
    wide = cli(choice_command(page)[1])
    ranges = page.locator(".rw-choice-ranges")
    ranges.get_by_text(wide["picked"][-1]["option"]).first.wait_for()
    assert ranges.get_by_text("NCCL picks").count() == len(wide["picked"])


def test_nccl_on_servers_of_the_catalog(page, studio, monkeypatch, tmp_path):
    page.set_viewport_size({"width": 390, "height": 800})
    monkeypatch.chdir(tmp_path)
    page.goto(f"{studio}/lab/collectives?ranks=16&servers=hgx-h100-8gpu")
    select(page, "Network between servers", "RoCEv2")
    page.wait_for_function(
        "() => document.querySelector('.rw-choice-command').textContent.includes('rocev2')"
    )
    chosen(page)
    lines = choice_command(page)
    end = lines.index("EOF")
    assert lines[0].startswith("cat > hgx-h100-8gpu-x2.yaml")
    Path("hgx-h100-8gpu-x2.yaml").write_text("\n".join(lines[1:end]), encoding="utf-8")
    assert_choice(page, cli(lines[end + 1]))
    unfold(page, "Environment and tuner file for this cluster")
    assert "NCCL_IB_TC=" in page.locator(".rw-choice-env").inner_text()
    assert "allreduce,0," in page.locator(".rw-choice-tuner").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("switch", name="Switches add up (SHARP)").click()
    page.locator(".rw-choice").get_by_text("needs an InfiniBand plane").wait_for()
