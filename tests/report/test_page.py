"""The page says all that a design states, asks nothing of the network, and stands in order."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import railweave
from railweave.report.html import render_html

SMALL = Path(__file__).parents[1] / "golden/small.yaml"
SECTIONS = [
    "topology",
    "capacity",
    "findings",
    "jobs",
    "step-1",
    "shares",
    "completion",
    "heat",
    "failures",
    "storage",
    "power",
    "design",
    "assumptions",
]


class Outline(HTMLParser):
    """Collects what refers to other places, section titles, and unclosed tags."""

    VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []
        self.headings: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.references += [given[key] for key in ("src", "href", "action", "data") if key in given]
        self.ids += [given["id"]] if "id" in given else []
        self.headings += [given["id"]] if tag == "h2" else []
        self.open += [] if tag in self.VOID else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def outline(rich_page):
    found = Outline()
    found.feed(rich_page)
    return found


def text_of(page: str) -> str:
    """Return the text of the page without scripts and tags."""
    body = re.sub(r"<(script|style)>.*?</\1>", " ", page, flags=re.DOTALL)
    body = re.sub(r"<script[^>]*>.*?</script>", " ", body, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", body))


def test_nothing_refers_to_another_place(outline, rich_page):
    assert all(reference.startswith(("#", "data:")) for reference in outline.references)
    assert "@import" not in rich_page.split("<script>")[0]
    assert "url(http" not in rich_page.split("<script>")[0]


def test_sections_stand_in_order_and_tags_are_closed(outline):
    assert outline.headings == SECTIONS
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    links = [reference[1:] for reference in outline.references if reference.startswith("#")]
    assert links == SECTIONS


def test_names_are_escaped(rich_page):
    assert "<all of it>" not in rich_page
    assert "&lt;all of it&gt; &amp; more" in rich_page


@pytest.mark.parametrize(
    "said",
    [
        "research", "on backend; jobs: gradients",
        "product", "on backend, storage; jobs: training",
        "scheduler", "on management, 1 instance",
        "monitoring", "on management, 2 instances",
        "28.39", "550.1", "2.27.3", "Cumulus 5",
        "GPU 5", "waits 7 us before each message",
        "41 kW", "liquid", "2 MW",
        "1 switches, 2 links", "at least 60%", "99.9000%",
        "macsec, required", "vrf", "4096 B", "e-ecmp", "of frontend",
        "storage shares the network of frontend",
        "gradients", "training", "users", "data/checkpoint", "data/ingest",
        "servers: first | second half (worst)",
        "Failure domains", "Cables and optics", "power each",
        "max-min",
        "rich.yaml", "seed 3",
    ],
)  # fmt: skip
def test_what_the_design_states_is_seen(rich_page, said):
    assert said in text_of(rich_page)


def test_every_field_of_the_design_is_in_the_page(rich, rich_page):
    assert rich.design_yaml in html.unescape(rich_page)
    for field in type(railweave.parse(rich.design_yaml).design).model_fields:
        assert f"\n{field}:" in f"\n{rich.design_yaml}"


def test_page_is_the_same_each_time(rich, rich_page):
    assert render_html(rich) == rich_page


def test_design_without_jobs_says_so():
    record = (
        railweave.parse(
            "railweave: 1\nname: bare\ncluster: {servers: {model: dgx-h100, count: 2}}\n"
            "planes: {backend: {transport: infiniband, topology: star, switch: qm9700}}\n"
        )
        .build()
        .run()
    )
    page = text_of(render_html(record))
    assert "The design names no jobs." in page
    assert "There are no links between switches" in page
    assert "The design states no storage traffic." in page


def test_analytic_engine_makes_a_page_too():
    record = railweave.load(SMALL).build().run(engine="analytic")
    page = text_of(render_html(record))
    assert "analytic engine" in page
    assert "nan" not in page.lower().split()


def test_failed_parts_are_named_in_the_command_and_found():
    record = railweave.load(SMALL).build().fail(["spine-1"]).run()
    assert "--fail spine-1" in record.command
    assert any(finding.id == "parts-failed" for finding in record.findings)
    assert any(edge.down_links for edge in record.topology.edges)
