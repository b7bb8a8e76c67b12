"""Lab 5 in a browser: build, save, kill, undo, expand, trace; numbers are the command line's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lab_pages import enter, open_lab, unfold

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser


def tile(page: Page, key: str) -> Locator:
    return page.locator(f'.rw-tiles [data-number="{key}"] .rw-value')


def expect(locator: Locator, text: str) -> None:
    from playwright.sync_api import expect as until

    until(locator).to_have_text(text, timeout=8_000)


def opened(page: Page, studio: str, query: str = "") -> Page:
    open_lab(page, f"{studio}/lab/fabric{query}")
    page.wait_for_function("window.did_handshake")
    return page


def saved(page: Page, folder: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as design file").click()
    path = folder / "fabric.yaml"
    download.value.save_as(path)
    return path


def build_json(path: Path, *options: str) -> dict[str, Any]:
    """Return what ``railweave build --json`` prints."""
    from typer.testing import CliRunner

    from railweave.cli._app import app

    done = CliRunner().invoke(app, ["build", str(path), *options, "--json"])
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def rate(value_bps: float) -> str:
    from railweave.units import format_bits_rate

    return format_bits_rate(value_bps)


def equal_numbers(page: Page, document: dict[str, Any], *, out: bool = False) -> None:
    capacity, counts = document["capacity"], document["counts"]
    leaf = capacity["tiers"][0]
    expect(tile(page, "gpus"), f"{counts['gpus']:,}")
    expect(tile(page, "servers"), f"{counts['servers']:,}")
    expect(tile(page, "leaves"), f"{counts['switches']['leaf']:,}")
    expect(tile(page, "spines"), f"{counts['switches']['spine']:,}")
    expect(tile(page, "cables"), f"{sum(document['cables'].values()):,}")
    planned = "oversubscription:built" if out else "oversubscription"
    expect(tile(page, planned), f"{leaf['oversubscription']:.4g}:1")
    expect(tile(page, "ecmp_spines"), f"{document['path_diversity'][0]['min_neighbours']:,}")
    expect(tile(page, "uplink_capacity"), rate(leaf["populated_up_bps"]))
    expect(tile(page, "bisection"), rate(capacity["bisection_bps"]))
    expect(tile(page, "ecmp_paths"), f"{capacity['ecmp_paths']:,}")


def on_canvas(page: Page, ident: str) -> tuple[float, float]:
    """Return where a node is, or the middle of a link, in pixels of the page."""
    spot = page.evaluate(
        """(ident) => {
          const [stage] = window.__railweaveCanvas;
          const { model, camera, canvas } = stage;
          const box = canvas.getBoundingClientRect();
          const at = (i) => [camera.x(model.u[i]) + box.left, camera.y(model.v[i]) + box.top];
          const node = model.nodes.id.indexOf(ident);
          if (node >= 0) return at(node);
          const link = model.links.id.indexOf(ident);
          if (link < 0) return null;
          const a = at(model.links.source[link]), b = at(model.links.target[link]);
          return [a[0] + 0.35 * (b[0] - a[0]), a[1] + 0.35 * (b[1] - a[1])];
        }""",
        ident,
    )
    assert spot, f"{ident} is not drawn"
    return spot[0], spot[1]


def test_controls_write_a_design_whose_numbers_are_those_of_the_command_line(
    studio: str, page: Page, tmp_path: Path
) -> None:
    opened(page, studio)
    enter(page, "Spines (0: as many as needed)", "8")
    expect(tile(page, "spines"), "8")
    enter(page, "Racks", "6")
    expect(tile(page, "servers"), "24")
    path = saved(page, tmp_path)
    equal_numbers(page, build_json(path))

    # what cannot be built is answered with the nearest that can, and the controls stay
    enter(page, "Spines (0: as many as needed)", "5")
    banner = page.locator(".rw-banner:not(.hidden)")
    banner.wait_for()
    assert "did you mean" in banner.inner_text()
    assert "5 spines" in banner.inner_text()
    field = page.get_by_label("Spines (0: as many as needed), exact", exact=True)
    assert field.input_value() == "5"
    page.get_by_role("button", name="Take spines 4").click()
    expect(tile(page, "spines"), "4")
    assert field.input_value() == "4"
    assert banner.count() == 0
    page.get_by_role("button", name="Use as my design").click()
    page.get_by_text("is your loaded design now").wait_for()
    enter(page, "Racks", "3")
    expect(tile(page, "servers"), "12")
    page.get_by_role("button", name="Start from my design").click()
    expect(tile(page, "servers"), "24")
    assert page.get_by_label("Racks, exact", exact=True).input_value() == "6"


def test_parts_fall_and_come_back_by_mouse_and_by_keyboard(
    studio: str, page: Page, tmp_path: Path
) -> None:
    opened(page, studio)
    page.locator("canvas").scroll_into_view_if_needed()
    page.mouse.dblclick(*on_canvas(page, "spine-1"))
    expect(tile(page, "bisection_left"), "75.0%")
    assert "out=spine-1" in page.url
    page.wait_for_function("document.querySelectorAll('.rw-fabric-out button').length === 1")
    page.wait_for_timeout(200)

    # a cable of the first spine that is left, by keyboard
    page.locator("canvas").press("Escape")
    for _ in range(8):
        page.keyboard.press("[")
        if page.evaluate("[...window.__railweaveCanvas][0].selected()") == "spine-2":
            break
    page.keyboard.press("l")
    page.keyboard.press("Enter")
    out = page.locator(".rw-fabric-out button")
    page.wait_for_function("document.querySelectorAll('.rw-fabric-out button').length === 2")
    names = [text.strip() for text in out.all_inner_texts()]
    cable = names[1].split()[0]
    assert ":port-" in cable

    options = ("--fail", "spine-1", "--fail", cable)
    document = build_json(saved(page, tmp_path), *options)
    equal_numbers(page, document, out=True)
    after = document["what_if"]
    expect(tile(page, "bisection_left"), f"{after['bisection_left']:.1%}")
    row = page.locator('[data-table="cost"] tr', has_text="links up").locator("td")
    expect(row.nth(1), f"{after['before']['links_up']:,}")
    expect(row.nth(2), f"{after['after']['links_up']:,}")
    unfold(page, "Copy as command or Python")
    command = page.locator(".rw-copy-command")
    assert f"--fail spine-1 --fail {cable}" in command.inner_text()

    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("document.querySelectorAll('.rw-fabric-out button').length === 1")
    page.get_by_role("button", name="Redo").click()
    page.wait_for_function("document.querySelectorAll('.rw-fabric-out button').length === 2")
    page.get_by_role("button", name="Restore all").click()
    page.wait_for_function("document.querySelectorAll('.rw-fabric-out button').length === 0")
    expect(tile(page, "bisection"), "25.6 Tb/s")


def test_groups_open_and_one_selection_is_shared_with_the_table(studio: str, page: Page) -> None:
    opened(page, studio, "?racks=32&spines=0&topology=rail-optimized")
    drawn = "[...window.__railweaveCanvas][0].model.nodes.id"
    before = page.evaluate(f"{drawn}.length")
    canvas = page.locator("canvas")
    canvas.scroll_into_view_if_needed()
    canvas.press("g")
    page.keyboard.press("Enter")
    page.wait_for_function(f"{drawn}.length > {before}")
    assert "open=pod-1" in page.url
    page.mouse.click(*on_canvas(page, "leaf-2"))
    chosen = page.locator(".rw-chosen")
    page.wait_for_function("document.querySelector('.rw-chosen').innerText.startsWith('leaf-2')")
    assert "SU 1" in chosen.inner_text()
    assert page.locator(".rw-fabric-parts .rw-on").inner_text() == "leaf-2"

    page.get_by_label("Find a device or a link").fill("leaf-3")
    page.locator(".rw-fabric-parts").get_by_role("button", name="leaf-3", exact=True).click()
    page.wait_for_function("[...window.__railweaveCanvas][0].selected() === 'leaf-3'")
    page.get_by_role("button", name="Collapse all").click()
    page.wait_for_function(f"{drawn}.length === {before}")


def test_a_path_is_traced_and_its_address_shows_it_again(studio: str, page: Page) -> None:
    opened(page, studio)
    field = page.get_by_label("To GPU")
    field.fill("node009/gpu3")
    field.press("Enter")
    hops = page.locator('[data-table="path"] tbody tr')
    page.wait_for_function(
        """[...document.querySelectorAll('[data-table="path"] tbody tr')].pop()
           ?.innerText.includes('node009/gpu3')"""
    )
    names = [row.split("\t") for row in hops.all_inner_texts()]
    assert page.get_by_text("crc32(src-ip 10.0.").is_visible()
    marked = page.evaluate(
        """(() => { const { links } = [...window.__railweaveCanvas][0].model;
           return links.id.filter((_, i) => links.state[i] === 'marked').length })()"""
    )
    assert marked == 4  # host, up, down, host: inside the servers nothing is drawn
    url = page.url
    assert "target=node009" in url

    opened(page, studio, url.partition("/lab/fabric")[2])
    page.wait_for_selector('[data-table="path"] tbody tr')
    assert [row.split("\t") for row in hops.all_inner_texts()] == names


def test_the_distribution_follows_queue_pairs(studio: str, page: Page) -> None:
    opened(page, studio, "?pattern=permutation")
    spread = page.locator('[data-number="hash_spread"] .rw-value')
    spread.wait_for()
    one = float(spread.inner_text())
    assert one > 1.5
    enter(page, "Queue pairs a connection", "16")
    page.wait_for_function(
        """(one) => parseFloat(document.querySelector('[data-number="hash_spread"] .rw-value')
           .innerText) < one""",
        arg=one,
    )
    assert page.locator(".rw-figure .js-plotly-plot").count() >= 1


def test_names_that_the_fabric_lacks_are_said_on_top(studio: str, page: Page) -> None:
    opened(page, studio, "?out=spine-9,spine-1&source=gpu-x&target=leaf-1&topology=torus")
    banner = page.locator(".rw-banner:not(.hidden)")
    banner.wait_for()
    said = banner.inner_text()
    for text in ("'torus' is not known", "spine-9", "there is no 'gpu-x'", "leaf-1 is no GPU"):
        assert text in said
    assert tile(page, "oversubscription").inner_text() == "1.333:1"
    assert tile(page, "oversubscription:built").inner_text() == "1:1"


def test_what_is_copied_has_the_flows_and_the_collective(studio: str, page: Page) -> None:
    opened(page, studio, "?racks=2&out=spine-1")
    unfold(page, "Copy as command or Python")
    page.wait_for_function(
        "document.querySelector('.rw-copy-command').innerText.includes('collective all-reduce')"
    )
    python = page.locator(".rw-copy-python").inner_text()
    assert "uplink_spread(" in python
    assert "simulate_flow(" in python
    assert ".collective(Collective.ALL_REDUCE" in python


def test_the_table_of_parts_has_its_cards_ground(studio: str, page: Page) -> None:
    opened(page, studio)
    page.get_by_role("button", name="Light / dark").click()
    page.wait_for_selector("body.body--dark")
    page.wait_for_selector(".rw-fabric-parts tbody tr")
    grounds = page.evaluate(
        """() => {
          const seen = (element) => {
            const colour = getComputedStyle(element).backgroundColor;
            return colour === "rgba(0, 0, 0, 0)" ? seen(element.parentElement) : colour;
          };
          const table = document.querySelector(".rw-fabric-parts");
          return [seen(table.querySelector("td")), seen(table.closest(".rw-card"))];
        }"""
    )
    assert grounds[0] == grounds[1]
