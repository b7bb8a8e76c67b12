"""Lab 1 in a browser: planes and components by mouse and keyboard, a journey, a plane's fabric."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lab_pages import open_lab, select

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser

#: what the studio of these tests was started with
DESIGN = Path(__file__).parents[2] / "examples" / "superpod-h100-1su.yaml"
STAGE = "[...window.__railweaveCanvas][0]"


@pytest.fixture(scope="module")
def built() -> dict[str, Any]:
    """What ``railweave build --json`` prints."""
    from typer.testing import CliRunner

    from railweave.cli._app import app

    done = CliRunner().invoke(app, ["build", str(DESIGN), "--json"])
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def expect(locator: Locator, text: str) -> None:
    from playwright.sync_api import expect as until

    until(locator).to_have_text(text, timeout=10_000)


def tile(page: Page, key: str) -> Locator:
    return page.locator(f'.rw-tiles [data-number="{key}"] .rw-value')


def rate(value_bps: float) -> str:
    from railweave.units import format_bits_rate

    return format_bits_rate(value_bps)


def opened(page: Page, studio: str, query: str = "") -> Page:
    open_lab(page, f"{studio}/lab/architecture{query}")
    page.wait_for_function("window.did_handshake")
    return page


def on_canvas(page: Page, ident: str) -> tuple[float, float]:
    """Return where a node is, or the middle of a link, in pixels of the page."""
    page.locator("canvas").scroll_into_view_if_needed()
    x, y = page.evaluate(
        """(ident) => {
          const { model, camera, canvas } = [...window.__railweaveCanvas][0];
          const box = canvas.getBoundingClientRect();
          const at = (i) => [camera.x(model.u[i]) + box.left, camera.y(model.v[i]) + box.top];
          const node = model.nodes.id.indexOf(ident);
          if (node >= 0) return at(node);
          const link = model.links.id.indexOf(ident);
          const a = at(model.links.source[link]), b = at(model.links.target[link]);
          return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
        }""",
        ident,
    )
    return x, y


def cells(rows: Locator) -> list[list[str]]:
    return [[cell.strip() for cell in text.split("\t")] for text in rows.all_inner_texts()]


def equal_numbers(page: Page, plane: dict[str, Any]) -> None:
    """Hold tiles and inspector against one plane of the command line's JSON."""
    capacity, counts = plane["capacity"], plane["counts"]
    expect(tile(page, "nics"), f"{counts['nics']:,}")
    expect(tile(page, "cables"), f"{sum(plane['cables'].values()):,}")
    expect(tile(page, "host_bandwidth"), rate(capacity["host_bps"]))
    expect(tile(page, "bisection"), rate(capacity["bisection_bps"]))
    expect(tile(page, "ecmp_paths"), f"{capacity['ecmp_paths']:,}")
    rows = {row[0]: row[1] for row in cells(page.locator('[data-table="plane"] tbody tr'))}
    assert rows["transport"] == plane["transport"]
    assert rows["topology"] == plane["topology"]
    assert rows["bisection, one way"] == rate(capacity["bisection_bps"])
    assert rows["diameter"] == f"{plane['diameter']} links"
    for place, count in plane["cables"].items():
        assert rows[f"{place} cables"] == f"{count:,}"
    words = {"leaf": "leaves", "spine": "spines"}
    for tier, count in counts["switches"].items():
        assert rows[words[tier]] == f"{count:,}"


def heading(page: Page, card: str) -> Locator:
    return page.locator(f'section[aria-label="{card}"] .rw-h2').first


def test_planes_and_components_by_mouse(studio: str, page: Page, built: dict[str, Any]) -> None:
    opened(page, studio)
    expect(heading(page, "Plane inspector"), "Back-end plane")
    equal_numbers(page, built)

    # a click on the map: the component, and with it its plane
    page.mouse.click(*on_canvas(page, "frontend-leaf"))
    expect(heading(page, "Component inspector"), "Front-end leaves")
    expect(heading(page, "Plane inspector"), "Front-end plane")
    equal_numbers(page, built["planes"]["frontend"])
    assert "plane=frontend" in page.url
    assert "part=frontend-leaf" in page.url
    row = page.locator('[data-part="frontend-leaf"]')
    assert row.get_attribute("aria-pressed") == "true"

    # what a dead spine costs is what the summary says
    page.locator('[data-part="backend-leaf"]').click()
    expect(heading(page, "Component inspector"), "Back-end leaves")
    page.wait_for_function(f"{STAGE}.selected() === 'backend-leaf'")
    leaf = next(d for d in built["failure_domains"] if d["kind"] == "leaf")
    lost = page.locator('[data-table="failure"] tbody td')
    expect(lost.nth(1), f"{leaf['gpus_cut_off']:,}")
    expect(lost.nth(3), f"{leaf['host_share_lost']:.1%}")
    expect(lost.nth(4), f"{leaf['bisection_share_lost']:.1%}")
    facts = page.locator('[data-table="facts-qm9700"]')
    assert "confirmed" in facts.inner_text()
    assert page.get_by_text("NVIDIA QM97xx 1U NDR").first.is_visible()

    # the button of a plane that has no switches of its own
    page.get_by_role("button", name="storage", exact=True).click()
    expect(heading(page, "Plane inspector"), "Storage plane")
    assert page.get_by_text("storage traffic is on the front-end network").is_visible()
    assert page.get_by_text("First in its design: Throughput of long reads").is_visible()
    findings = page.locator('[data-table="findings"]')
    findings.get_by_text("plane-shared").wait_for()


def test_components_by_keyboard(studio: str, page: Page, built: dict[str, Any]) -> None:
    opened(page, studio, "?plane=all")
    expect(tile(page, "gpus"), f"{built['counts']['gpus']:,}")
    expect(tile(page, "power"), f"{built['power']['total_w'] / 1e3:,.1f} kW")
    page.focus(".rwc canvas")
    for _ in range(20):
        page.keyboard.press("]")
        if page.evaluate(f"{STAGE}.selected()") == "management-leaf":
            break
    expect(heading(page, "Component inspector"), "Management leaf")
    assert "part=management-leaf" in page.url
    page.keyboard.press("Enter")  # into the fabric of its plane
    page.get_by_role("button", name="Back to the map").wait_for()
    page.wait_for_function(f"{STAGE}.model.nodes.id.includes('management-leaf-1')")
    expect(heading(page, "Plane inspector"), "Management plane")
    page.get_by_role("button", name="Back to the map").press("Enter")
    page.wait_for_function(f"{STAGE}.model.nodes.id.includes('users')")


def journey_json(*options: str) -> dict[str, Any]:
    """Return what ``railweave transport journey --json`` prints."""
    from typer.testing import CliRunner

    from railweave.cli._app import app

    line = ["transport", "journey", *options, "--design", str(DESIGN), "--json"]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def equal_journey(page: Page, found: dict[str, Any]) -> None:
    """Hold the journey's tables, the tile and the trace against the command line's JSON."""
    from railweave.units import format_bits_rate, format_seconds

    def time(value_s: float) -> str:
        return format_seconds(value_s) if value_s else "–"

    def times(value: float | None) -> str:
        return "cut off" if value is None else f"{value:.3g}×"

    expect(tile(page, "journey_time"), format_seconds(found["time_s"]))
    way = cells(page.locator('[data-table="way"] tbody tr'))
    shown = cells(page.locator('[data-table="times"] tbody tr'))
    effects = found["breaks"]["hops"]
    assert len(way) == len(shown) == len(found["hops"]) == len(effects)
    for hop, effect, row, parts in zip(found["hops"], effects, way, shown, strict=True):
        assert row[1] == (hop["port"] or hop["source"])
        assert row[2] == (hop["port_in"] or hop["target"])
        assert row[3:5] == [hop["place"], format_bits_rate(hop["capacity_bps"])]
        names = ("serialisation", "propagation", "switching", "nic")
        assert parts[2:6] == [time(hop[f"{name}_s"]) for name in names]
        assert parts[6:] == [
            format_seconds(hop["end_s"]),
            times(effect["half_slowdown"]),
            times(effect["lost_slowdown"]),
        ]
    spoken = cells(page.locator('[data-table="protocols"] tbody tr'))
    assert [row[1] for row in spoken] == list(dict.fromkeys(h["protocol"] for h in found["hops"]))
    breaks = cells(page.locator('[data-table="breaks"] tbody tr'))
    assert [tuple(row) for row in breaks] == [
        (one["cause"], one["where"], one["effect"]) for one in found["breaks"]["stated"]
    ]
    beside = cells(page.locator('[data-table="neighbours"] tbody tr'))
    assert [row[3:] for row in beside] == [
        [format_seconds(one["alone_s"]), format_seconds(one["together_s"]), times(one["slowdown"])]
        if not one["problem"]
        else ["–", "–", "not measured"]
        for one in found["breaks"]["measured"]
    ]
    assert page.locator(".rw-trace tbody tr").count() == len(found["hops"]) + 1


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("checkpoint", "A checkpoint, server to storage"),
        ("request", "A user's request, to a server"),
        ("tensor", "Activations, among the GPUs of a tensor group"),
    ],
)
def test_a_journeys_numbers_are_the_command_lines(
    studio: str, page: Page, kind: str, title: str
) -> None:
    opened(page, studio, "?plane=storage")
    select(page, "What travels", title)
    page.wait_for_function(f"{STAGE}.clock.time > 0")  # it plays
    assert f"journey={kind}" in page.url
    equal_journey(page, journey_json(kind))


def test_a_journey_between_other_ends_is_reproduced_by_its_address(studio: str, page: Page) -> None:
    opened(page, studio)
    expect(page.locator('[data-table="way"] tbody tr').last.locator("td").nth(2), "node002/gpu0")
    select(page, "Between", "first and last server, another rail: node001/gpu0 to node031/gpu7")
    found = journey_json("gradient", "--from", "node001/gpu0", "--to", "node031/gpu7")
    equal_journey(page, found)
    assert any(hop["target"].startswith("spine-") for hop in found["hops"])
    url = page.url
    assert "ends=node001" in url

    # zoomed in, the same way is marked on the real switches
    page.get_by_role("button", name="Show this plane's fabric").click()
    page.wait_for_function(f"{STAGE}.model.links.state.filter((s) => s === 'marked').length === 4")
    page.mouse.click(*on_canvas(page, found["hops"][2]["target"]))
    expect(heading(page, "Component inspector"), "Back-end spines")

    opened(page, studio, url.partition("/lab/architecture")[2])
    equal_journey(page, found)
    page.get_by_text("Copy as command or Python").click()
    wanted = "railweave transport journey gradient --design superpod-h100-1su.yaml "
    page.get_by_text(f"{wanted}--from node001/gpu0 --to node031/gpu7").first.wait_for()


def test_on_a_phone_the_map_runs_downwards(studio: str, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    opened(page, studio, "?plane=all&view=x&journey=management")
    page.wait_for_function(f"{STAGE}.model.nodes.id.includes('users')")
    users, fabric = on_canvas(page, "users"), on_canvas(page, "backend-leaf")
    assert fabric[1] - users[1] > 200
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator('[data-table="times"] tbody tr').first.wait_for()
    page.locator('[data-table="neighbours"] tbody tr').first.wait_for()
    page.mouse.click(*on_canvas(page, "storage-server"))
    expect(heading(page, "Component inspector"), "Storage servers")


def test_a_bad_address_is_answered_in_a_sentence(studio: str, page: Page) -> None:
    opened(page, studio, "?plane=sideways&part=warp-drive&ends=node001%3Enode002")
    banner = page.locator(".rw-banner:not(.hidden)")
    banner.wait_for()
    assert "plane=sideways" in banner.inner_text()
    assert "'warp-drive' is no component here" in banner.inner_text()
    assert "ends: from node001: a journey of kind gradient needs a GPU" in banner.inner_text()
    page.get_by_text("There is no component 'warp-drive' in this design.").wait_for()
    expect(heading(page, "Plane inspector"), "Back-end plane")
