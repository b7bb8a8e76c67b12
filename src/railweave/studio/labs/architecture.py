"""Lab 1, the page: the loaded design as one map, with inspectors of planes and components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nicegui import ui

from railweave.report.page_table import PageTable
from railweave.studio import content
from railweave.studio.canvas import Canvas
from railweave.studio.controls import choice
from railweave.studio.lab import Lab
from railweave.studio.labs._architecture import (
    NOTHING,
    PICTURES,
    PLANE_CHOICES,
    Deep,
    Inspection,
    Picture,
    Row,
    State,
    chosen_with,
    inspect,
    look_along,
    look_deeper,
    part_in_fabric,
    picture,
    usable,
)
from railweave.studio.labs._architecture_journey import JOURNEYS, trace_rows
from railweave.studio.labs._architecture_scene import ALL
from railweave.studio.parts import page_table
from railweave.studio.scene import Scene

if TYPE_CHECKING:
    from railweave.studio.page import LabPage

__all__ = ["LAB", "build"]

#: views narrower than this are drawn from top to bottom
_NARROW_PX = 700
_HEIGHT_PX = 560
_TALL_PX = 760


class _MapPage:
    """One visitor's map: what is chosen, and what was last shown."""

    def __init__(self, page: LabPage) -> None:
        self.page = page
        self.text = page.session.design_text
        self.state, said = usable(page.state(State))
        self.first_problems = said
        self.tall: bool | None = None
        self.view: Picture | None = None
        self.asked_deep = self.asked_along = False
        self.play_next = False
        self.choices = 0
        self.hop_place: ui.element | None = None
        self.neighbour_place: ui.element | None = None
        self.measured: tuple[PageTable, ...] = ()
        self._build_inputs()
        with page.main:
            self._build_drawing()
            with ui.element("div").classes("rw-arch-pair"):
                self.list_card = _card("Components")
                with _card("Component inspector"):
                    self.part_place, self.failure_place = _places(2)
            self.journey_card = _card("Journey")
            with _card("Plane inspector"):
                with ui.element("div").classes("rw-two"):
                    self.plane_place = ui.element("div")
                    with ui.element("div"):
                        self.more_place, self.traffic_place = _places(2)
                self.findings_place = ui.element("div")
        page.not_modelled(_limits(page.lab.key))
        page.soon(self.refresh)

    # ---------------------------------------------------------- building the page

    def _build_inputs(self) -> None:
        state = self.state
        with self.page.controls:
            ui.label(self.page.session.design_name).classes("rw-h3 rw-arch-name")
            ui.link("Edit it, or load another", "/design").classes("rw-quiet")
            self.plane_select = choice("Plane", state.plane, PLANE_CHOICES, self.choose_plane)
            self.part_select = choice("Component", "", {}, self.choose_part)
            self.journey_select = choice(
                "What travels", state.journey, {NOTHING: "nothing", **JOURNEYS},
                self.choose_journey,
            )  # fmt: skip
            self.ends_select = choice(
                "Between", "", {"": "as the design suggests"}, self.choose_ends
            )
            self.picture_select = choice("Drawing", state.picture, PICTURES, self.choose_picture)

    def _build_drawing(self) -> None:
        with ui.element("section").classes("rw-card").props('aria-label="Drawing"'):
            with ui.element("div").classes("rw-tools"):
                self.plane_buttons = {
                    plane: _button(name, lambda plane=plane: self.choose_plane(plane))
                    for plane, name in PLANE_CHOICES.items()
                }
                for plane, button in self.plane_buttons.items():
                    button.classes(f"rw-arch-plane rw-arch-{plane}")
                ui.space()
                self.zoom = _button("Show this plane's fabric", self.swap_picture)
            self.canvas = Canvas(
                Scene(),
                on_select=self.select,
                on_toggle=self.toggle_group,
                on_activate=self.activate,
                height_px=_HEIGHT_PX,
                activate_hint="show the fabric of its plane",
            )
            self.said = ui.label("").classes("rw-chosen").props("role=status")

    # ---------------------------------------------------------- what the visitor does

    def change(self, **fields: object) -> None:
        """Take what a control, the map or a table says."""
        state = replace(self.state, **fields)  # type: ignore[arg-type]
        if state == self.state:
            return
        self.state = state
        self.page.update(state)
        self._sync()
        self.page.soon(self.refresh)

    def _sync(self) -> None:
        """Make the controls say what is chosen."""
        state = self.state
        self.plane_select.set_value(state.plane)
        self.journey_select.set_value(state.journey)
        self.picture_select.set_value(state.picture)

    def choose_plane(self, plane: str) -> None:
        """Show a plane, or all; its fabric cannot be shown where it has none."""
        self.change(plane=plane, open=())

    async def choose_part(self, part: str) -> None:
        """Inspect a component chosen in the control or the table, and select it on the map."""
        if not part or part == self.state.part or (self.view and part == self.view.part):
            return
        if self.state.picture == "map":
            self.canvas.select(part)
        await self._choose(part)

    async def _choose(self, part: str, **more: object) -> None:
        """Inspect a component, with its plane."""
        state = self.state
        if more:
            state = replace(state, plane="backend")
        turn = self._next_choice()
        plane = await self.page.studio.compute(chosen_with, self.text, state, part)
        if turn == self.choices:
            self.change(part=part, plane=plane, **more)

    def _next_choice(self) -> int:
        """Number a choice: one that is answered after a later one has been made counts no more."""
        self.choices += 1
        return self.choices

    def choose_journey(self, journey: str) -> None:
        """Let something else travel."""
        if journey == self.state.journey:
            return
        self.play_next = journey != NOTHING
        self.change(journey=journey, ends="")

    def choose_ends(self, ends: str) -> None:
        """Let it travel between others."""
        shown = self._ends_shown(self.view) if self.view else self.state.ends
        if ends != shown:
            self.play_next = True
            self.change(ends=ends)

    def choose_picture(self, what: str) -> None:
        """Show the map, or the plane's fabric."""
        plane = self.state.plane if what == "map" or self.state.plane != "all" else "backend"
        self.change(picture=what, plane=plane, open=())

    def swap_picture(self) -> None:
        """Show the other drawing."""
        self.choose_picture("map" if self.state.picture == "fabric" else "fabric")

    async def select(self, name: str | None) -> None:
        """Inspect what is selected on the drawing."""
        if name is None:
            return
        if self.state.picture == "map":
            await self._choose(name)
            return
        turn = self._next_choice()
        part = await self.page.studio.compute(part_in_fabric, self.text, name)
        if part and turn == self.choices:
            self.change(part=part)

    async def activate(self, name: str) -> None:
        """Show the fabric of what is activated on the map."""
        if self.state.picture == "map":
            await self._choose(name, picture="fabric", open=())

    def toggle_group(self, group: str) -> None:
        """Open a part of the fabric, or close it."""
        now = self.state.open
        kept = tuple(one for one in now if one != group)
        self.change(open=kept if len(kept) < len(now) else (*now, group))

    def ask_deep(self) -> None:
        """Work out what takes long on a large design."""
        self.asked_deep = True
        self.page.soon(self.refresh)

    def ask_along(self) -> None:
        """Measure what breaks along journeys on a large design."""
        self.asked_along = True
        self.page.soon(self.refresh)

    # ---------------------------------------------------------- showing

    async def refresh(self) -> None:
        """Show the drawing, then the inspectors, then what takes longest."""
        if self.tall is None:
            self.tall = await _is_narrow()
            if self.tall:
                self.canvas.props(f"height={_TALL_PX}")
        state = self.state
        with self.page.busy("Building the design …"):
            view = await self.page.compute(picture, self.text, state, self.tall)
        if view is None:
            return
        self._show_picture(view)
        problems = (*self.first_problems, *view.unknown)
        if problems:
            self.page.problem("; ".join(problems))
            self.first_problems = ()
        self.page.soon(lambda: self._refresh_rest(state), "inspect")

    async def _refresh_rest(self, state: State) -> None:
        compute = self.page.studio.compute
        with self.page.busy("Working out the numbers …"):
            name = self.page.session.design_name or "design.yaml"
            shown = await compute(inspect, self.text, state, name)
        if self.state is not state or self.view is None:
            return
        self._show_inspection(shown)
        long = self.view.long
        if self.view.big and not self.asked_deep:
            self._offer_deep()
        else:
            deep = await compute.later(look_deeper, self.text, state.plane, state.part)
            if self.state is not state:
                return
            self._show_deep(deep)
        if long and not self.asked_along:
            self._offer_along()
            return
        along = await compute.later(look_along, self.text, state.journey, state.ends)
        if self.state is state:
            self._show_measured(along)

    def _show_picture(self, view: Picture) -> None:
        before, self.view = self.view, view
        if before is None or before.scene.document() != view.scene.document():
            self.canvas.show(view.scene)
        self.page.interpretation(view.sentences)
        fabric = self.state.picture == "fabric"
        self.zoom.set_text("Back to the map" if fabric else "Show this plane's fabric")
        self.zoom.set_enabled(fabric or self.state.plane != "all")
        for plane, button in self.plane_buttons.items():
            button.props(f"aria-pressed={'true' if plane == self.state.plane else 'false'}")
        options = {row.id: f"{row.label} ({row.count})" for row in view.rows}
        part = view.part if view.part in options else None
        self.part_select.set_options(options, value=part)
        self._show_list(view)
        if before is None or before.journey is not view.journey:
            self._show_journey(view)
        self.ends_select.set_options(dict(view.ends), value=self._ends_shown(view))
        if self.play_next:
            self.play_next = False
            self.canvas.play()

    def _show_list(self, view: Picture) -> None:
        self.list_card.clear()
        with self.list_card:
            _title("Components")
            with (
                ui.element("div")
                .classes("rw-scroll")
                .props(
                    'tabindex=0 role=region aria-label="List of components" data-table="components"'
                ),
                ui.element("table").classes("rw-table rw-arch-list"),
            ):
                with ui.element("thead"), ui.element("tr"):
                    for name in ("component", "plane", "count"):
                        with ui.element("th").props("scope=col"):
                            ui.label(name)
                with ui.element("tbody"):
                    for row in view.rows:
                        self._show_row(row, on=row.id == view.part)

    def _show_row(self, row: Row, *, on: bool) -> None:
        with ui.element("tr").classes("rw-on" if on else ""):
            with ui.element("td"):
                _button(row.label, lambda: self.choose_part(row.id)).props(
                    f"flat align=left no-wrap aria-pressed={'true' if on else 'false'} "
                    f'data-part="{row.id}"'
                )
            for cell in (row.plane, row.count):
                with ui.element("td"):
                    ui.label(cell)

    def _ends_shown(self, view: Picture) -> str:
        return self.state.ends if self.state.ends in view.ends else ""

    def _show_journey(self, view: Picture) -> None:
        journey = view.journey
        self.journey_card.clear()
        self.hop_place = self.neighbour_place = None
        self.measured = ()
        with self.journey_card:
            _title("Journey")
            if journey is None:
                ui.label("Nothing travels. Choose what does beside the drawing.")
                self.page.trace(())
                return
            ui.label(JOURNEYS[journey.kind.value]).classes("rw-h3")
            ui.label(journey.sentence)
            for note in ((f"Ends: {journey.why}.",) if journey.why else ()) + journey.notes:
                ui.label(note)
            if view.tables:
                way, spoken, times, stated, basis = view.tables
                places = _places(6)
                self.hop_place, self.neighbour_place = places[2], places[4]
                for place, table in zip(
                    (*places[:4], places[5]), (way, spoken, times, stated, basis), strict=True
                ):
                    _fill(place, "", (), (table,))
                with self.neighbour_place:
                    ui.label("Measuring what neighbours and single hops cost …")
                self.neighbour_place.classes("rw-stale")
        self.page.trace(trace_rows(journey))

    def _show_measured(self, tables: tuple[PageTable, ...]) -> None:
        """Put what was measured in its places."""
        if tables == self.measured or self.hop_place is None or self.neighbour_place is None:
            return
        self.measured = tables
        _fill(self.hop_place, "", (), tables[:1])
        self.neighbour_place.classes(remove="rw-stale")
        _fill(self.neighbour_place, "", (), tables[1:])

    def _show_inspection(self, shown: Inspection) -> None:
        self.page.numbers(shown.numbers)
        self.page.reproduce(shown.reproduce)
        plane, part = shown.plane, shown.part
        first, rest = plane.tables[:1], plane.tables[1:]
        # The planes side by side need the whole width.
        self.plane_place.classes(remove="rw-arch-wide")
        self.plane_place.classes("rw-arch-wide" if plane.plane == ALL else "")
        _fill(self.plane_place, plane.title, plane.sentences, first)
        _fill(self.more_place, "", (), rest)
        _fill(self.part_place, part.title or "Component", part.sentences, part.tables)
        self.said.set_text(f"Inspected below: {part.title or 'nothing'}; {plane.title}.")
        for place in (self.failure_place, self.traffic_place, self.findings_place):
            place.classes(add="rw-stale")

    def _show_deep(self, deep: Deep) -> None:
        for place, table in (
            (self.failure_place, deep.failure),
            (self.traffic_place, deep.traffic),
            (self.findings_place, deep.findings),
        ):
            place.classes(remove="rw-stale")
            place.clear()
            with place:
                if table.rows:
                    page_table(table)
                else:
                    ui.label(table.title).classes("rw-h3").props("role=heading aria-level=3")
                    for note in table.notes:
                        ui.label(note)

    def _offer_deep(self) -> None:
        for place in (self.failure_place, self.traffic_place, self.findings_place):
            place.classes(remove="rw-stale")
            place.clear()
        with self.findings_place:
            ui.label("Traffic, findings and what a failure costs take a minute or more on a "
                     "design of this size.")  # fmt: skip
            _button("Work them out", self.ask_deep)

    def _offer_along(self) -> None:
        if self.neighbour_place is None or self.measured:
            return
        self.neighbour_place.classes(remove="rw-stale")
        self.neighbour_place.clear()
        with self.neighbour_place:
            ui.label("What neighbours and single hops cost takes half a minute or more on a "
                     "design of this size.")  # fmt: skip
            _button("Measure it", self.ask_along)


def _limits(key: str) -> tuple[str, ...]:
    return (
        *content.learn(key).limits,
        "A journey is one full packet on an idle fabric, by the packet engine's rules: no queue, "
        "no acknowledgement, no software at its ends.",
        "A journey between server and storage begins and ends in the host's memory; what GPUs "
        "copy inside the server is not part of it.",
        "What breaks is measured with the flow engine: shares of links, without pauses, drops and "
        "the queues in between.",
    )


async def _is_narrow() -> bool:
    """Ask the browser whether its view is higher than wide."""
    try:
        await ui.context.client.connected(timeout=10)
        return float(await ui.run_javascript("window.innerWidth", timeout=5)) < _NARROW_PX
    except TimeoutError:
        return False


def _places(number: int) -> tuple[ui.element, ...]:
    """Add places to be filled later, one below the other."""
    return tuple(ui.element("div") for _ in range(number))


def _card(name: str) -> ui.element:
    return ui.element("section").classes("rw-card").props(f'aria-label="{name}"')


def _title(text: str) -> None:
    ui.label(text).classes("rw-h2").props("role=heading aria-level=2")


def _button(text: str, on_click: object) -> ui.button:
    return (
        ui.button(text, on_click=on_click, color=None)  # type: ignore[arg-type]
        .props("outline dense no-caps")
        .classes("rw-arch-button")
    )


def _fill(
    card: ui.element, title: str, sentences: Sequence[str], tables: Sequence[PageTable]
) -> None:
    card.clear()
    with card:
        if title:
            _title(title)
        for sentence in sentences:
            ui.label(sentence)
        for table in tables:
            page_table(table)


def build(page: LabPage) -> None:
    """Fill the page of lab 1."""
    ui.add_head_html('<link rel="stylesheet" href="/studio-static/lab-architecture.css">')
    _MapPage(page)


_TEXT = content.lab("architecture")
LAB = Lab(_TEXT.number, "architecture", _TEXT.title, _TEXT.summary, 205, build)
