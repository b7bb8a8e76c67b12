"""Lab 2: what a way of training in parallel sends, who talks to whom, how long it takes and why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nicegui import background_tasks, ui
from nicegui.events import GenericEventArguments

from railweave.errors import RailweaveError
from railweave.report.patterns_figures import MOST_CELLS, MOST_CHORDS, PLACE_COLOURS
from railweave.report.patterns_groups import rank_groups
from railweave.studio.canvas import Canvas
from railweave.studio.content import lab
from railweave.studio.lab import Lab
from railweave.studio.labs._traffic import (
    BIG_GPUS,
    State,
    View,
    Where,
    compare,
    figures,
    pick,
    study,
    what_if,
)
from railweave.studio.labs._traffic_controls import Controls
from railweave.studio.labs._traffic_flights import OTHER, PLACE_ROLES
from railweave.studio.labs._traffic_html import (
    comparison_html,
    key_html,
    list_html,
    variations_html,
)
from railweave.studio.labs._traffic_scene import rank_of
from railweave.studio.parts import table_html
from railweave.studio.plot import Figure
from railweave.studio.scene import Scene
from railweave.workload.patterns import MOST_GPUS

if TYPE_CHECKING:
    from nicegui.element import Element

    from railweave.studio.page import LabPage

__all__ = ["LAB", "build"]

_PALETTE: Final = {
    **dict(zip(PLACE_ROLES, PLACE_COLOURS, strict=True)),
    OTHER: "#a7b0bb",
}
#: seconds that the inputs rest before what takes longer is shown: the trace, four studies
_FLUSH_S: Final = 0.02


def build(page: LabPage) -> None:
    """Fill the lab's page."""
    ui.add_head_html('<link rel="stylesheet" href="/studio-static/lab-traffic.css">')
    _TrafficPage(page)


class _TrafficPage:
    """The lab's page of one visitor: its state, its controls, and what they show."""

    def __init__(self, page: LabPage) -> None:
        self.page = page
        self.state = page.state(State)
        self.view: View | None = None
        self._time_s = 0.0
        self._reordered: tuple[State, str] | None = None
        with page.controls:
            self._controls = Controls(self.state, page.session.design_name, self._take)
        with page.main:
            self._build_views()
            self._build_shares()
            self._build_comparison()
        page.soon(self.refresh)

    # ------------------------------------------------------------ inputs

    def _take(self, state: State) -> None:
        self.state = state
        self.page.update(state)
        self.page.soon(self.refresh)

    # ------------------------------------------------------------ what is shown

    def _build_views(self) -> None:
        with _card("Who talks to whom"):
            self.canvas = Canvas(
                Scene(title="Being worked out"),
                on_select=self._selected,
                on_time=self._time,
                height_px=420,
                palette=_PALETTE,
            )
            ui.html(key_html(), sanitize=False)
            with ui.element("div").classes("rw-traffic-pick"):
                self._rank = (
                    ui.number(
                        label="Rank", value=self.state.picked if self.state.picked >= 0 else None,
                        min=0, max=MOST_GPUS - 1, precision=0,
                    )
                    .props('dense outlined aria-label="Rank that stands out"')
                )  # fmt: skip
                self._rank.on("keydown.enter", self._typed)
                self._rank.on("blur", self._typed)
                for text, step in (("Previous", -1), ("Next", 1)):
                    ui.button(text, on_click=lambda _, s=step: self._beside(s)).props(
                        "outline dense no-caps"
                    )
                ui.button("None", on_click=lambda: self._pick(-1)).props("flat dense no-caps")
                self._picked = ui.label("").props("role=status").classes("rw-traffic-picked")
            self._peers = _scrolled("Peers of the rank that stands out")
        with ui.element("div").classes("rw-two"):
            self._matrix = Figure("Bytes from each sender to each receiver, a heat map")
            self._chord = Figure("Who talks to whom, a chord diagram")
        self._click(self._matrix, "y", MOST_CELLS)
        self._click(self._chord, "customdata", MOST_CHORDS)
        self._folded = ui.label("").classes("rw-quiet")

    def _click(self, figure: Figure, field: str, most: int) -> None:
        """Pick the rank (the first of a group) whose row or arc is clicked."""

        def clicked(event: GenericEventArguments) -> None:
            group = event.args
            if not isinstance(group, int | float) or self.view is None:
                return
            groups = rank_groups(self.view.study, most)
            ranks = [r for r, g in enumerate(groups.member.tolist()) if g == int(group)]
            if ranks:
                self._pick(ranks[0])

        plot = next(iter(figure.default_slot.children))
        plot.on(
            "plotly_click",
            clicked,
            js_handler=f"(event) => emit(event.points[0].{field})",
        )

    def _build_shares(self) -> None:
        with ui.element("div").classes("rw-two"):
            self._shares = Figure("Part of the bytes by the farthest place they pass")
            with _card("Which collectives"):
                self._parts = _scrolled("What a step is made of")
        with ui.expansion("How each number comes about").classes("rw-card w-full"):
            self._explained = _scrolled("Formulas")

    def _build_comparison(self) -> None:
        with _card("The four strategies at these settings"):
            self._status = ui.label("").classes("rw-quiet").props("role=status")
            self._bars = Figure("Time of a step by strategy, fastest first", height_px=288)
            self._compared = _scrolled("Strategies compared")
            self._order = ui.html("", sanitize=False)
            self._what_if = (
                ui.expansion(
                    "What would put them in another order?",
                    on_value_change=lambda: self._later(self._reorder, "order"),
                )
                .classes("w-full")
                .props("dense")
            )
            with self._what_if:
                self._varied_status = ui.label("").classes("rw-quiet").props("role=status")
                self._varied = _scrolled("Orders with one setting changed")
                self._turns = ui.html("", sanitize=False)

    def _later(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Run what may follow; one that has not begun yet is replaced by the newer one."""

        async def run() -> None:
            with self.page.main:
                try:
                    await work()
                except RailweaveError as error:
                    self.page.problem(str(error))

        background_tasks.create_lazy(run(), name=f"traffic {name} {id(self)}")

    # ------------------------------------------------------------ refreshing

    def _text(self) -> str:
        return self.page.session.design_text if self.state.where is Where.DESIGN else ""

    async def refresh(self) -> None:
        """Show the numbers and the animation, and let figures and comparison follow."""
        state, text = self.state, self._text()
        name = self.page.session.design_name or "design.yaml"
        if state.gpus > BIG_GPUS or text:
            with self.page.busy(f"Working out {state.gpus:,} GPUs …"):
                view = await self.page.compute(study, state, text, name)
        else:
            view = await self.page.compute(study, state, text, name)
        if view is None:
            return
        self.view = view
        self.page.numbers(view.numbers)
        self.page.interpretation(view.words)
        self.page.reproduce(view.reproduce)
        await asyncio.sleep(_FLUSH_S)  # the numbers are on their way to the browser
        if view is not self.view:
            return
        self._time_s = 0.0
        self.canvas.show(view.scene)
        self._later(self._draw, "figures")
        self._later(self._rest, "rest")

    async def _rest(self) -> None:
        """Show what can wait until the inputs rest."""
        given, view = self._settings(), self.view
        await self.page.at_rest()
        if given != self._settings() or view is None or view is not self.view:
            return
        self.page.not_modelled(view.limits)
        self.page.trace(view.trace)
        parts = ("part", "operation", "algorithm", "payload", "a step")
        self._parts.set_content(table_html(parts, view.parts, name="parts"))
        numbers = ("number", "value", "formula", "inputs", "source")
        self._explained.set_content(table_html(numbers, view.explanations, name="explanations"))
        await self._compare()

    async def _draw(self) -> None:
        state, text = self.state, self._text()
        drawn = await self.page.studio.compute(figures, state, text)
        if state != self.state or self.view is None:
            return
        self._matrix.show(drawn.matrix)
        self._chord.show(drawn.chord)
        self._shares.show(drawn.shares)
        self._picked.set_text(drawn.picked)
        header = ("peer", "where", "sent to it", "received from it")
        self._peers.set_content(
            table_html(header, drawn.peers, name="peers") if drawn.peers else ""
        )
        notes = {
            name: rank_groups(self.view.study, most).note
            for name, most in (("Matrix", MOST_CELLS), ("Chords", MOST_CHORDS))
        }
        self._folded.set_text(". ".join(f"{name}: {note}" for name, note in notes.items() if note))

    def _settings(self) -> tuple[State, str]:
        """Return what numbers depend on."""
        return replace(self.state, picked=-1), self._text()

    async def _compare(self) -> None:
        given = self._settings()
        state, text = given
        self._status.set_text("Comparing …" if state.gpus > BIG_GPUS or text else "")
        found = await self.page.studio.compute(compare, state, text)
        if given != self._settings():
            return
        self._status.set_text("")
        self._bars.show(found.figure)
        self._compared.set_content(comparison_html(found.studies, state.strategy))
        self._order.set_content(list_html(found.words))
        await self._reorder()

    async def _reorder(self) -> None:
        """Work out what-ifs where the visitor has opened them."""
        given = self._settings()
        if not self._what_if.value or given == self._reordered:
            return
        self._varied_status.set_text("Working out …")
        try:
            found = await self.page.studio.compute(what_if, *given)
        except RailweaveError as error:
            self._varied_status.set_text(str(error))
            self._varied.set_content("")
            self._turns.set_content("")
            return
        if given != self._settings():
            return
        self._reordered = given
        self._varied_status.set_text("")
        self._varied.set_content(variations_html(found.variations))
        self._turns.set_content(list_html(found.words) if found.words else "")

    # ------------------------------------------------------------ picking a rank

    def _selected(self, name: str | None) -> None:
        rank = -1 if self.view is None else rank_of(name, self.view.study)
        if name is None or rank >= 0:
            self._pick(rank, from_canvas=True)

    def _typed(self) -> None:
        value = self._rank.value
        self._pick(-1 if value is None else int(value))

    def _beside(self, step: int) -> None:
        count = self.state.gpus
        self._pick((self.state.picked + step) % count if self.state.picked >= 0 else 0)

    def _pick(self, rank: int, *, from_canvas: bool = False) -> None:
        """Let a rank stand out in all views."""
        rank = rank if 0 <= rank < self.state.gpus else -1
        if rank == self.state.picked:
            return
        self.state = self._controls.state = replace(self.state, picked=rank)
        self.page.update(self.state)
        self._rank.set_value(rank if rank >= 0 else None)
        self._later(lambda: self._show_picked(from_canvas=from_canvas), "pick")

    async def _show_picked(self, *, from_canvas: bool) -> None:
        state, at_s = self.state, self._time_s
        scene = await self.page.studio.compute(pick, state, self._text())
        if state != self.state:
            return
        self.canvas.show(scene)
        if at_s > 0:  # a new scene begins at its beginning
            self.canvas.seek(at_s)
        if not from_canvas:
            self.canvas.select(_node_of(scene, state.picked))
        await self._draw()

    def _time(self, time_s: float) -> None:
        self._time_s = time_s


def _node_of(scene: Scene, rank: int) -> str | None:
    """Return the node of the drawing that stands for a rank: it, or the marked box."""
    if rank < 0:
        return None
    return next((node.id for node in scene.nodes if node.state == "marked"), None)


def _card(title: str) -> Element:
    card = ui.element("section").classes("rw-card").props(f'aria-label="{title}"')
    with card:
        ui.label(title).classes("rw-h2").props("role=heading aria-level=2")
    return card


def _scrolled(label: str) -> ui.html:
    """Add a place for a table that may be wider than the page."""
    return (
        ui.html("", sanitize=False)
        .classes("rw-scroll rw-traffic-peers")
        .props(f'tabindex=0 role=region aria-label="{label}"')
    )


_TEXT = lab("traffic")
LAB = Lab(2, "traffic", _TEXT.title, _TEXT.summary, 260, build)
