"""Lab 2: what a way of training in parallel sends, who talks to whom, how long it takes and why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nicegui import ui
from nicegui.events import GenericEventArguments

from railweave.errors import RailweaveError
from railweave.report.patterns_figures import MOST_CELLS, MOST_CHORDS, PLACE_COLOURS
from railweave.report.patterns_groups import rank_groups
from railweave.studio.canvas import Canvas
from railweave.studio.content import lab
from railweave.studio.controls import choice
from railweave.studio.lab import Lab
from railweave.studio.labs._traffic import (
    BIG_GPUS,
    Figures,
    Shown,
    State,
    View,
    Where,
    compare,
    figures,
    pick,
    study,
    what_if,
)
from railweave.studio.labs._traffic_cards import (
    JobsCard,
    NearestCard,
    PlacementCard,
    card,
    scrolled,
)
from railweave.studio.labs._traffic_controls import Controls
from railweave.studio.labs._traffic_flights import OTHER, PLACE_ROLES
from railweave.studio.labs._traffic_html import (
    comparison_html,
    key_html,
    list_html,
    variations_html,
)
from railweave.studio.labs._traffic_model import ModelView, model_figures, model_view, nearest
from railweave.studio.labs._traffic_more import placements
from railweave.studio.labs._traffic_scene import rank_of
from railweave.studio.parts import table_html
from railweave.studio.plot import Figure
from railweave.studio.scene import Scene
from railweave.workload.patterns import MOST_GPUS

if TYPE_CHECKING:
    from railweave.report.patterns_groups import Talk
    from railweave.studio.page import LabPage

__all__ = ["LAB", "build"]

_PALETTE: Final = {
    **dict(zip(PLACE_ROLES, PLACE_COLOURS, strict=True)),
    OTHER: "#a7b0bb",
}
#: seconds that the inputs rest before what takes longer is shown: the trace, four studies


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
        self.model: ModelView | None = None
        self._talk: Talk | None = None
        self._time_s = 0.0
        self._reordered: tuple[State, str] | None = None
        with page.controls:
            self._controls = Controls(self.state, page.session.design_name, self._take)
        with page.main:
            self._near = NearestCard(self._controls.show)
            self._found = ui.element("div").classes("rw-traffic-column")
            with self._found:
                self._build_views()
                self._build_shares()
                self._placed = PlacementCard()
                self._build_comparison()
            JobsCard(page)
        page.soon(self.refresh)

    # ------------------------------------------------------------ inputs

    def _take(self, state: State) -> None:
        self.state = state
        self.page.update(state)
        self.page.soon(self.refresh)

    # ------------------------------------------------------------ what is shown

    def _build_views(self) -> None:
        with card("Who talks to whom"):
            self._moving = ui.element("div")
            with self._moving:
                self.canvas = Canvas(
                    Scene(title="Being worked out"),
                    on_select=self._selected,
                    on_time=self._time,
                    height_px=420,
                    palette=_PALETTE,
                )
            self._kinds = ui.element("div")
            with self._kinds:
                choice(
                    "Groups that are drawn",
                    self.state.shown.value,
                    {one.value: "all" if one is Shown.ALL else one.value for one in Shown},
                    self._show_kind,
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
            self._peers = scrolled("Peers of the rank that stands out")
        with ui.element("div").classes("rw-two"):
            self._matrix = Figure(
                "Bytes from each sender to each receiver, a heat map", follows=True
            )
            self._chord = Figure("Who talks to whom, a chord diagram", follows=True)
        self._click(self._matrix, "y", MOST_CELLS)
        self._click(self._chord, "customdata", MOST_CHORDS)
        self._folded = ui.label("").classes("rw-quiet")

    def _click(self, figure: Figure, field: str, most: int) -> None:
        """Pick the rank (the first of a group) whose row or arc is clicked."""

        def clicked(event: GenericEventArguments) -> None:
            group = event.args
            if not isinstance(group, int | float) or self._talk is None:
                return
            groups = rank_groups(self._talk, most)
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
            self._shares = Figure("Part of the bytes by the farthest place they pass", follows=True)
            self._by_kind = Figure("Bytes of a step by kind of group and place", follows=True)
            self._parts_card = card("Which collectives")
            with self._parts_card:
                self._parts = scrolled("What a step is made of")
                self._parts_note = ui.label("").classes("rw-quiet")
        with ui.expansion("How each number comes about").classes("rw-card w-full"):
            self._explained = scrolled("Formulas")

    def _build_comparison(self) -> None:
        self._compared_card = card("The strategies at these settings")
        with self._compared_card:
            self._status = ui.label("").classes("rw-quiet").props("role=status")
            self._bars = Figure(
                "Time of a step by strategy, fastest first", height_px=288, follows=True
            )
            self._compared = scrolled("Strategies compared")
            self._order = ui.html("", sanitize=False)
            self._what_if = (
                ui.expansion(
                    "What would put them in another order?",
                    on_value_change=lambda: self.page.soon(self._reorder, "order"),
                )
                .classes("w-full")
                .props("dense")
            )
            with self._what_if:
                self._varied_status = ui.label("").classes("rw-quiet").props("role=status")
                self._varied = scrolled("Orders with one setting changed")
                self._turns = ui.html("", sanitize=False)

    # ------------------------------------------------------------ refreshing

    def _text(self) -> str:
        return self.page.session.design_text if self.state.where is Where.DESIGN else ""

    async def refresh(self) -> None:
        """Show the numbers and the animation, and let figures and comparison follow."""
        state, text = self.state, self._text()
        self._arrange()
        name = self.page.session.design_name or "design.yaml"
        if state.whole:
            await self._refresh_model(state, text, name)
            return
        self._near.show(())
        self._found.set_visibility(True)
        if state.gpus > BIG_GPUS or text:
            with self.page.busy(f"Working out {state.gpus:,} GPUs …"):
                view = await self.page.compute(study, state, text, name)
        else:
            view = await self.page.compute(study, state, text, name)
        if view is None:
            return
        self.view, self._talk = view, view.study
        self.page.numbers(view.numbers)
        self.page.interpretation(view.words)
        self.page.reproduce(view.reproduce)
        await self.page.drawn()
        if view is not self.view:
            return
        self._time_s = 0.0
        self.canvas.show(view.scene)
        self.page.soon(self._draw, "figures")
        self.page.soon(self._rest, "rest")

    def _arrange(self) -> None:
        """Show the parts that strategies have and models have not, or the other way round."""
        whole = self.state.whole
        for part in (self._moving, self._compared_card):
            part.set_visibility(not whole)
        for part in (self._kinds, self._by_kind):
            part.set_visibility(whole)
        self._parts_card.classes(**{"add" if whole else "remove": "rw-traffic-wide"})

    async def _refresh_model(self, state: State, text: str, name: str) -> None:
        """Show what a model's groups send, or why its degrees cannot be."""
        view = await self.page.compute(model_view, state, text, name)
        if view is None:
            return
        self.model = view
        self.page.problem(view.problem or None)
        self.page.numbers(view.numbers)
        self.page.interpretation(view.words)
        self.page.trace(())
        self._found.set_visibility(not view.problem)
        if view.fits:
            self._near.show(())
        else:
            self.page.soon(self._nearest, "nearest")
        if view.study is None or view.reproduce is None or view.groups is None:
            return
        self.page.reproduce(view.reproduce)
        table = view.groups
        self._parts.set_content(
            table_html(table.header, table.rows, name=table.id, numeric=range(3, len(table.header)))
        )
        self._parts_note.set_text(" ".join(table.notes))
        self.page.soon(self._draw, "figures")
        self.page.soon(self._rest, "rest")

    async def _nearest(self) -> None:
        given = self._settings()
        await self.page.at_rest()
        if given != self._settings():
            return
        found = await self.page.studio.compute(nearest, *given)
        if given == self._settings() and self.state.whole:
            self._near.show(found)

    def _show_kind(self, value: str) -> None:
        self.state = self._controls.state = replace(self.state, shown=Shown(value))
        self.page.update(self.state)
        self.page.soon(self._draw, "figures")

    async def _rest(self) -> None:
        """Show what can wait until the inputs rest."""
        given, view, model = self._settings(), self.view, self.model
        await self.page.at_rest()
        if given != self._settings():
            return
        if given[0].whole:
            if model is not None and model is self.model and not model.problem:
                self.page.not_modelled(model.limits)
                self._explain(model.explanations)
                await self._place()
            return
        if view is None or view is not self.view:
            return
        self.page.not_modelled(view.limits)
        self.page.trace(view.trace)
        parts = ("part", "operation", "algorithm", "payload", "a step")
        self._parts.set_content(table_html(parts, view.parts, name="parts"))
        self._parts_note.set_text("")
        self._explain(view.explanations)
        await self._compare()
        await self._place()

    def _explain(self, rows: tuple[tuple[str, ...], ...]) -> None:
        numbers = ("number", "value", "formula", "inputs", "source")
        self._explained.set_content(table_html(numbers, rows, name="explanations"))

    async def _place(self) -> None:
        """Compare the placement rules."""
        given = self._settings()
        shown = self.model if given[0].whole else self.view
        if shown is None or shown.reproduce is None:
            return
        self._placed.wait(long=given[0].gpus > BIG_GPUS or bool(given[1]))
        found = await self.page.studio.compute.later(placements, *given)
        if given == self._settings():
            self._placed.show(found, shown.reproduce.command)

    async def _draw(self) -> None:
        state, text = self.state, self._text()
        if state.whole:
            found = await self.page.studio.compute.later(model_figures, state, text)
            if state == self.state:
                self._talk = found.study
                self._by_kind.show(found.groups)
                self._show_talk(found.talk)
            return
        drawn = await self.page.studio.compute.later(figures, state, text)
        if state == self.state and self.view is not None:
            self._show_talk(drawn)

    def _show_talk(self, drawn: Figures) -> None:
        """Show who talks to whom."""
        talk = self._talk
        if talk is None:
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
            name: rank_groups(talk, most).note
            for name, most in (("Matrix", MOST_CELLS), ("Chords", MOST_CHORDS))
        }
        self._folded.set_text(". ".join(f"{name}: {note}" for name, note in notes.items() if note))

    def _settings(self) -> tuple[State, str]:
        """Return what numbers depend on."""
        return replace(self.state, picked=-1, shown=Shown.ALL), self._text()

    async def _compare(self) -> None:
        given = self._settings()
        state, text = given
        self._status.set_text("Comparing …" if state.gpus > BIG_GPUS or text else "")
        found = await self.page.studio.compute.later(compare, state, text)
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
            found = await self.page.studio.compute.later(what_if, *given)
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
        self.page.soon(lambda: self._show_picked(from_canvas=from_canvas), "pick")

    async def _show_picked(self, *, from_canvas: bool) -> None:
        state, at_s = self.state, self._time_s
        if state.whole:
            await self._draw()
            return
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


_TEXT = lab("traffic")
LAB = Lab(2, "traffic", _TEXT.title, _TEXT.summary, 260, build)
