"""A run record as one self-contained HTML page: no request leaves it."""

from __future__ import annotations

from dataclasses import dataclass

from railweave.findings import Finding
from railweave.predict.timeline import step_timeline
from railweave.report.drawing import draw_topology, drawing_width
from railweave.report.figures import draw_heat, draw_job_times, draw_shares, draw_what_ifs
from railweave.report.page_table import PageTable
from railweave.report.predicted import TrainingForecast
from railweave.report.predicted_tables import (
    expected_table,
    step_finding,
    step_grounds,
    step_notes,
    step_said,
    step_tables,
)
from railweave.report.record import RunRecord
from railweave.report.run_tables import (
    completion_table,
    group_table,
    job_table,
    spread_table,
    storage_table,
    what_if_table,
)
from railweave.report.spread import draw_spread
from railweave.report.style import figure_html
from railweave.report.tables import (
    cable_table,
    capacity_tables,
    counts_table,
    cuts_table,
    domains_table,
    path_table,
    power_table,
)
from railweave.report.topology import TopologyView
from railweave.report.training_figures import draw_idle, draw_memory, draw_timeline
from railweave.units import format_bits_rate, format_seconds, format_si

__all__ = ["plotly_script", "render_html"]

#: training jobs whose step is drawn: a timeline may have thousands of spans
MOST_DRAWN_STEPS = 3
#: longer tables are folded away behind their title
MOST_OPEN_ROWS = 18


@dataclass(frozen=True, slots=True)
class Tile:
    """One headline number."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: a title (may be empty), its HTML and the width in pixels it needs."""

    title: str
    fragment: str
    width: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    ``lead`` and ``boxes`` stand before the figures, ``folded`` tables behind their titles;
    ``empty`` is said where there is nothing to show.
    """

    id: str
    short: str
    title: str
    figures: tuple[Figure, ...] = ()
    tables: tuple[PageTable, ...] = ()
    notes: tuple[str, ...] = ()
    empty: str = ""
    lead: tuple[str, ...] = ()
    boxes: tuple[Finding, ...] = ()
    folded: tuple[PageTable, ...] = ()

    @property
    def shown(self) -> tuple[PageTable, ...]:
        """The tables that have rows."""
        return tuple(table for table in self.tables if table.rows)


def _tiles(record: RunRecord) -> list[Tile]:
    plane = record.summary.backend
    tiles = [
        Tile("GPUs", f"{plane.counts.gpus:,}"),
        Tile("servers", f"{plane.counts.servers:,}"),
        Tile("switches", " + ".join(f"{n:,} {tier}" for tier, n in plane.counts.switches) or "–"),
        Tile("bisection, one way", format_bits_rate(plane.capacity.bisection_bps)),
        Tile("host capacity", format_bits_rate(plane.capacity.host_bps)),
        Tile("equal-cost paths", f"{plane.capacity.ecmp_paths:,.0f}"),
    ]
    return tiles + [Tile(job.name, format_seconds(job.time_s)) for job in record.jobs[:2]]


def _topology_notes(view: TopologyView) -> tuple[str, ...]:
    pods = {node.pod for node in view.nodes if node.pod >= 0}
    counted = sum(node.count for node in view.nodes if node.tier == 0 and node.pod >= 0)
    frames_share = counted > dict(view.totals).get(0, 0)
    frames = (
        f"A frame is a {view.pod_name} with its servers; numbers under boxes count servers. "
        "Point at a box or a line for what is in it."
    )
    notes = [frames] if len(pods) > 1 else []
    if frames_share:
        notes.append(f"Every server has NICs in several {view.pod_name}s and is drawn in each.")
    return (*notes, *([f"{view.note}."] if view.note else []))


def _fabric_sections(record: RunRecord) -> list[Section]:
    summary, view = record.summary, record.topology
    drawing = Figure("", figure_html(draw_topology(view), "topology"), drawing_width(view))
    return [
        Section(
            "topology",
            "Topology",
            "Topology",
            (drawing,),
            notes=_topology_notes(view),
        ),
        Section(
            "capacity",
            "Capacity",
            "Capacity",
            tables=(
                counts_table(summary),
                *capacity_tables(summary),
                cuts_table(summary),
                path_table(summary),
            ),
        ),
        Section("findings", "Findings", "Findings"),
    ]


def _job_sections(record: RunRecord) -> list[Section]:
    heats = tuple(
        Figure(heat.title, figure_html(draw_heat(heat), f"heat-{i}"), 460)
        for i, heat in enumerate(record.heat)
    )
    jobs = record.jobs
    return [
        Section(
            "jobs",
            "Jobs",
            "Jobs on this fabric",
            (Figure("", figure_html(draw_job_times(jobs), "jobs")),) if jobs else (),
            (
                job_table(record),
                *([expected_table(record.collectives)] if record.collectives else []),
            ),
            empty="The design names no jobs.",
        ),
        *_training_sections(record),
        Section(
            "shares",
            "Bytes",
            "Where the bytes stay",
            (Figure("", figure_html(draw_shares(jobs), "shares")),) if jobs else (),
            (group_table(record),) if any(job.groups for job in jobs) else (),
            empty="There are no jobs whose bytes could be followed.",
        ),
        Section(
            "completion",
            "Completion",
            "Flow completion and slowdown",
            tuple(
                Figure("Load of the leaves' uplinks by traffic", figure_html(figure, "spread"), 320)
                for figure in ([draw_spread(record.curves)] if record.curves else [])
            ),
            (completion_table(record), spread_table(record)),
            empty="Nothing was sent, or the engine does not resolve single streams.",
        ),
        Section(
            "heat",
            "Links",
            "Link utilisation",
            heats,
            notes=("Mean over the whole run; empty cells have no links.",) if heats else (),
            empty="There are no links between switches, or the engine does not resolve links.",
        ),
        Section(
            "failures",
            "Failures",
            "If something fails",
            (Figure("", figure_html(draw_what_ifs(record.what_ifs), "what-ifs")),)
            if record.what_ifs
            else (),
            (what_if_table(record), domains_table(record.summary)),
            empty="Nothing between the endpoints could fail alone.",
        ),
    ]


def _training_sections(record: RunRecord) -> list[Section]:
    """Return a section a training job, the first with figures."""
    engine_s = {job.name: job.time_s for job in record.jobs}
    several = len(record.training) > 1
    sections = []
    for number, item in enumerate(record.training, 1):
        finding = step_finding(item)
        figures = _step_figures(item, number) if number <= MOST_DRAWN_STEPS else ()
        notes = step_notes(item)
        if item.case is not None and not figures:
            notes = (*notes, f"Figures are drawn of the first {MOST_DRAWN_STEPS} training jobs.")
        sections.append(
            Section(
                f"step-{number}",
                f"Step: {item.job}" if several else "Training step",
                f"Training step: {item.job}",
                figures,
                step_tables(item, number),
                notes,
                lead=step_said(item, engine_s[item.job]),
                boxes=(finding,) if finding else (),
                folded=step_grounds(item, number),
            )
        )
    return sections


def _step_figures(item: TrainingForecast, number: int) -> tuple[Figure, ...]:
    """Draw a step: the timeline, and what a GPU of each stage does and holds."""
    if item.case is None:
        return ()
    estimate = item.case.estimate
    drawn = [("idle", draw_idle(estimate)), ("memory", draw_memory(estimate))]
    if estimate.schedule is not None:
        drawn.insert(0, ("timeline", draw_timeline(step_timeline(estimate))))
    return tuple(
        Figure("", figure_html(figure, f"step-{number}-{name}"), 420) for name, figure in drawn
    )


def _sections(record: RunRecord) -> list[Section]:
    storage = Section(
        "storage",
        "Storage",
        "Storage and background traffic",
        tables=(storage_table(record),),
        notes=("Completion of each is in the table of flow completion above.",)
        if record.storage
        else (),
        empty="The design states no storage traffic.",
    )
    cost = Section(
        "power",
        "Power, cables",
        "Power and cables",
        tables=(power_table(record.summary), cable_table(record.summary)),
        empty="Power was not worked out.",
    )
    return [
        *_fabric_sections(record),
        *_job_sections(record),
        storage,
        cost,
        Section("design", "Design", "The design", tables=record.stated),
        Section("assumptions", "Assumptions", "What this rests on, and what it does not model"),
    ]


def render_html(record: RunRecord) -> str:
    """Return the whole page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("railweave.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    conservation = (
        f"{format_si(record.bytes_sent, 'B')} sent = {format_si(record.bytes_delivered, 'B')} "
        f"delivered + {format_si(record.bytes_dropped, 'B')} dropped + "
        f"{format_si(record.bytes_in_flight, 'B')} in flight; {record.events:,} events"
    )
    page: str = environment.get_template("report.html.j2").render(
        record=record,
        plotly_js=Markup(plotly_script()),
        sections=_sections(record),
        tiles=_tiles(record),
        grave=[item for item in record.findings if item.severity.value != "info"],
        light=[item for item in record.findings if item.severity.value == "info"],
        conservation=conservation,
        most_open_rows=MOST_OPEN_ROWS,
        raw=Markup,
    )
    return page


def plotly_script() -> str:
    """Return Plotly's script, as its package carries it."""
    from importlib.resources import files

    script = files("plotly") / "package_data" / "plotly.min.js"
    return script.read_text(encoding="utf-8")
