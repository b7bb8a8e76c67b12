"""Lab 5, the page: controls that write a design, the fabric that comes of it, and its failures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from nicegui import ui

from railweave.errors import RailweaveError
from railweave.report.spread import draw_spread
from railweave.studio import content, controls
from railweave.studio.canvas import Canvas
from railweave.studio.designs import built_design
from railweave.studio.lab import Lab, sentence
from railweave.studio.labs import _fabric_actions as actions
from railweave.studio.labs._fabric import ALL, BIG_GPUS, FILE, Refusal, View, study
from railweave.studio.labs._fabric_controls import FabricControls
from railweave.studio.labs._fabric_flows import FlowsView, collective_times, flows_of
from railweave.studio.labs._fabric_parts import PartsTable
from railweave.studio.labs._fabric_python import with_flows
from railweave.studio.labs._fabric_state import (
    PATTERNS,
    State,
    design_text,
    gpus_a_server,
    state_of_design,
    usable,
)
from railweave.studio.parts import Tiles, page_table
from railweave.studio.plot import Figure
from railweave.studio.scene import Scene

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.studio.page import LabPage

__all__ = ["LAB", "build"]

Deed = Callable[["BuiltDesign", tuple[str, ...], str], actions.Outcome]
_SIZES = ("1 MiB", "16 MiB", "256 MiB", "1 GiB", "4 GiB")


class _FabricPage:
    """One visitor's fabric: what the controls say, what is out, what is selected."""

    def __init__(self, page: LabPage) -> None:
        self.page = page
        self.state, said = usable(page.state(State))
        self.first_problems: tuple[str, ...] | None = tuple(sentence(text) for text in said)
        self.history = actions.History(self.state.out)
        self.view: View | None = None
        self.rest: View | None = None
        self._build_inputs()
        with page.main:
            self.fix = _button("", self.take_fix)
            self.fix.set_visibility(False)
            self.proposed: tuple[str, object] | None = None
            self._build_drawing()
            with ui.element("div").classes("rw-two"):
                self._build_parts()
                self._build_failures()
            self._build_flows()
            self._build_path()
            self.tables = ui.element("div").classes("rw-two")
            with ui.expansion("The design that the controls write").classes("rw-card w-full"):
                self.yaml = ui.label("").classes("rw-formula rw-fabric-yaml")
        self.limits = content.learn(page.lab.key).limits
        page.soon(self.refresh)

    # ---------------------------------------------------------- building the page

    def _build_inputs(self) -> None:
        self.page.controls.clear()
        with self.page.controls:
            with ui.element("div").classes("rw-fabric-file"):
                _button("Save as design file", self.save)
                _button("Use as my design", self.use)
                _button("Start from my design", self.load)
            self.inputs = FabricControls(self.state, self.change)

    def _build_drawing(self) -> None:
        with ui.element("section").classes("rw-card").props('aria-label="Drawing"'):
            with ui.element("div").classes("rw-tools"):
                self.expand = _button("Expand all", lambda: self.change(open=(ALL,)))
                self.collapse = _button("Collapse all", lambda: self.change(open=()))
                ui.space()
                self.undo = _button("Undo", lambda: self.set_out(self.history.undo()))
                self.redo = _button("Redo", lambda: self.set_out(self.history.redo()))
                self.restore = _button("Restore all", lambda: self.fail_to(()))
            self.canvas = Canvas(
                Scene(),
                on_select=self.select,
                on_toggle=self.toggle_group,
                on_activate=self.activate,
                height_px=430,
                activate_hint="take it out, or put it back",
            )
            with ui.element("div").classes("rw-fabric-chosen").props("aria-live=polite"):
                self.chosen = ui.label("").classes("rw-chosen")
                with ui.element("div").classes("rw-tools") as self.chosen_tools:
                    _button("Take out", lambda: self.act(actions.take_out))
                    _button("Put back", lambda: self.act(actions.put_back))
                    _button("Path from here", lambda: self.set_end("source"))
                    _button("Path to here", lambda: self.set_end("target"))
            self.said = ui.label("").classes("rw-quiet").props("role=status")
            controls.switch(
                "Colour links by the flows below (share of the fullest link)",
                self.state.loads,
                lambda on: self.change(loads=on),
                help_key="link_load",
            )
        self.chosen_tools.set_visibility(False)

    def _build_parts(self) -> None:
        with ui.element("section").classes("rw-card").props('aria-label="Devices and links"'):
            _title("Devices and links")
            self.parts = PartsTable(self.pick)

    def _build_failures(self) -> None:
        with ui.element("section").classes("rw-card").props('aria-label="What is out"'):
            _title("What is out")
            self.out_list = ui.element("div").classes("rw-fabric-out")
            with ui.row(wrap=False).classes("items-center"):
                self.item = (
                    ui.input(placeholder="spine-1, leaf-1:port-33, spine-*")
                    .props('dense outlined aria-label="Part to take out, by name"')
                    .classes("grow")
                )
                self.item.on("keydown.enter", self.fail_named)
                _button("Take out", self.fail_named)
            self.cost = ui.element("div")
            self.times = ui.element("div")

    def _build_flows(self) -> None:
        with ui.element("section").classes("rw-card").props('aria-label="Flows on uplinks"'):
            _title("Flows on equal paths")
            self.flow_inputs = ui.element("div").classes("rw-fabric-flows")
            self._build_flow_inputs()
            self.flow_tiles = Tiles()
            self.flow_words = ui.element("div").classes("rw-fabric-words").props("aria-live=polite")
            self.spread = Figure(
                "Load of every leaf uplink over its leaf's mean", height_px=340, follows=True
            )

    def _build_flow_inputs(self) -> None:
        state = self.state
        self.flow_inputs.clear()
        with self.flow_inputs:
            controls.choice("Flows", state.pattern, PATTERNS,
                            lambda value: self.change(pattern=value))  # fmt: skip
            controls.quantity("Size", state.size, _SIZES, "size",
                              lambda value: self.change(size=value),
                              help_key="flow_size")  # fmt: skip
            controls.integer("Queue pairs a connection", state.queue_pairs, 1, 32,
                             lambda value: self.change(queue_pairs=value),
                             help_key="queue_pairs")  # fmt: skip
            controls.integer("Seed of the hashes", state.seed, 0, 99,
                             lambda value: self.change(seed=value),
                             help_key="hash_seed")  # fmt: skip

    def _build_path(self) -> None:
        with ui.element("section").classes("rw-card").props('aria-label="Path of one message"'):
            _title("Path of one message")
            with ui.element("div").classes("rw-fabric-ends"):
                self.ends = {
                    name: ui.input(label, value=getattr(self.state, name))
                    .props("dense outlined stack-label")
                    .classes("grow")
                    for name, label in (("source", "From GPU"), ("target", "To GPU"))
                }
                for name, field in self.ends.items():
                    field.on("keydown.enter", lambda name=name: self.type_end(name))
                    field.on("blur", lambda name=name: self.type_end(name))
                _button("Swap", self.swap)
            self.path_words = ui.element("div").props("aria-live=polite")
            self.path_table = ui.element("div")

    # ---------------------------------------------------------- what the visitor does

    def change(self, **fields: object) -> None:
        """Take what a control says."""
        state = replace(self.state, **fields)  # type: ignore[arg-type]
        if state == self.state:
            return
        self.state = state
        self.inputs.sync(state)
        self.page.update(self.state)
        self.page.soon(self.refresh)

    def set_out(self, out: tuple[str, ...]) -> None:
        """Show another step of the history."""
        self.change(out=out)

    def fail_to(self, out: tuple[str, ...]) -> None:
        """Take a new step: these parts are out."""
        self.history.put(out)
        self.change(out=out)

    def fail_named(self) -> None:
        """Take out what is typed, as ``--fail`` would."""
        names = tuple(part for part in str(self.item.value or "").replace(",", " ").split() if part)
        if self.view is None or not names:
            return
        try:
            built_design(self.view.text).fail(names)
        except RailweaveError as error:
            self.said.set_text(str(error))
            ui.notify(str(error), type="warning")
            return
        self.item.set_value("")
        self.fail_to(tuple(dict.fromkeys((*self.state.out, *names))))

    def activate(self, name: str) -> None:
        """Take a part of the drawing out, or put it back."""
        self._apply(actions.toggled, name)

    def act(self, how: Deed) -> None:
        """Do something to what is selected."""
        if self.canvas.selected:
            self._apply(how, self.canvas.selected)

    def _apply(self, how: Deed, name: str) -> None:
        if self.view is None:
            return
        try:
            outcome = how(built_design(self.view.text), self.state.out, name)
        except RailweaveError as error:
            self.said.set_text(str(error))
            return
        self.said.set_text(outcome.sentence)
        self.fail_to(outcome.out)

    def toggle_group(self, group: str) -> None:
        """Open a group of the drawing, or close it."""
        now = self.state.open
        if ALL in now:
            now = tuple(one.id for one in self.canvas.scene.groups if not one.collapsed)
        kept = tuple(one for one in now if one != group)
        self.change(open=kept if len(kept) < len(now) else (*now, group))

    def select(self, name: str | None) -> None:
        """Show what is selected on the drawing, and in the table."""
        self.parts.select(name, bring=True)
        self._show_chosen(name)

    def pick(self, name: str) -> None:
        """Select on the drawing what is picked in the table."""
        self.canvas.select(name)
        self._show_chosen(name)

    def set_end(self, end: str) -> None:
        """Trace the path from, or to, what is selected."""
        name = (self.canvas.selected or "").partition("@")[0]
        if name:
            self.change(**{end: name})

    def type_end(self, end: str) -> None:
        """Trace the path from, or to, what is typed."""
        text = str(self.ends[end].value or "").strip()
        if self.view is None or text != getattr(self.view.path, end):
            self.change(**{end: text})

    def swap(self) -> None:
        """Trace the way back."""
        if self.view is not None:
            self.change(source=self.view.path.target, target=self.view.path.source)

    # ---------------------------------------------------------- files

    def save(self) -> None:
        """Let the browser keep the design."""
        text = self._text()
        if text:
            ui.download.content(text, FILE, "application/yaml")

    def use(self) -> None:
        """Make this the visitor's loaded design."""
        text = self._text()
        if text:
            self.page.session.design_text = text
            self.page.session.design_name = FILE
            self.page.session.draft_text = None
            ui.notify("This fabric is your loaded design now; every lab works with it.")

    def _text(self) -> str:
        try:
            return design_text(self.state)
        except RailweaveError as error:
            self.page.problem(str(error))
            return ""

    def load(self) -> None:
        """Start again from the visitor's loaded design, as far as the controls can say it."""
        from railweave.studio.designs import open_design

        try:
            state, left = state_of_design(open_design(self.page.session.design_text))
        except RailweaveError as error:
            self.page.problem(str(error))
            return
        self.state, self.history = state, actions.History(state.out)
        self.said.set_text(f"Not carried over: {', '.join(left)}." if left else "")
        self._restart()

    # ---------------------------------------------------------- showing

    async def refresh(self) -> None:
        """Build what the controls say and show it."""
        state = self.state
        big = state.server_count * gpus_a_server(state) > BIG_GPUS
        with self.page.busy("Building the fabric …") if big else nullcontext():
            view = await self.page.compute(study, state)
        if view is None:
            return
        if isinstance(view, Refusal):
            self.page.main.classes(add="rw-stale")
            last = ("What is shown is the last fabric that could be built.",) if self.view else ()
            self.page.problem(" ".join((*(self.first_problems or ()), view.sentence, *last)))
            self._propose(view.fix)
            return
        self._propose(None)
        self.page.main.classes(remove="rw-stale")
        if view.out != state.out:
            self.history.replace(view.out)
            self.state = state = replace(self.state, out=view.out)
            self.page.update(state)
        self._show(view)
        if self.first_problems is not None:  # what the address named and this fabric does not have
            self.page.problem(" ".join((*self.first_problems, *view.unknown)))
            self.first_problems = None
        self.page.soon(self.refresh_flows, "flows")

    def _propose(self, fix: tuple[str, object] | None) -> None:
        self.proposed = fix
        self.fix.set_visibility(fix is not None)
        if fix is not None:
            self.fix.set_text(f"Take {fix[0].replace('_', ' ')} {fix[1]}")

    def take_fix(self) -> None:
        """Set the value that the error proposes."""
        if self.proposed is not None:
            field, value = self.proposed
            self.state = replace(self.state, **{field: value})  # type: ignore[arg-type]
            self._restart()

    def _restart(self) -> None:
        """Build the controls anew for a state that they did not make."""
        # The button that was pressed may go with the old controls.
        with self.page.main:
            self._build_inputs()
            self._build_flow_inputs()
            self.page.update(self.state)
            self.page.soon(self.refresh)

    def _show(self, view: View) -> None:
        """Show first what a slider's hand waits for."""
        before, self.view = self.view, view
        self.canvas.show(view.scene)
        self.page.numbers(view.numbers)
        self.page.interpretation(view.sentences)
        if view.note != (before.note if before else ""):
            self.said.set_text(view.note)
        self.undo.set_enabled(self.history.can_undo)
        self.redo.set_enabled(self.history.can_redo)
        self.restore.set_enabled(bool(view.out))
        can_open = any(not group.fixed for group in view.scene.groups)
        self.expand.set_enabled(can_open)
        self.collapse.set_enabled(can_open and bool(self.state.open))
        self._show_chosen(self.canvas.selected)

    def _show_rest(self, view: View) -> None:
        """Show what stands further down, as far as it has changed."""
        before, self.rest = self.rest, view
        self.parts.show(view.parts, self.canvas.selected)
        if before is None or before.out != view.out or before.cost != view.cost:
            self._show_out(view)
        if before is None or before.path != view.path:
            self._show_path(view)
        if before is None or before.tables != view.tables:
            self.tables.clear()
            with self.tables:
                for table in view.tables:
                    with ui.element("section").classes("rw-card"):
                        page_table(table)
        self.yaml.set_text(view.text)
        self.page.reproduce(view.reproduce)
        if before is None or before.assumptions != view.assumptions:
            self.page.not_modelled((*self.limits, *view.assumptions))

    def _show_chosen(self, name: str | None) -> None:
        part = next((one for one in self.view.parts if one.id == name), None) if self.view else None
        self.chosen_tools.set_visibility(part is not None)
        self.chosen.set_text(f"{part.name}: {part.detail}" if part else "Nothing is selected.")

    def _show_out(self, view: View) -> None:
        self.out_list.clear()
        with self.out_list:
            if not view.out:
                ui.label("Nothing. Activate a device or a link of the drawing to take it out.")
            for item in view.out:
                left = tuple(one for one in view.out if one != item)
                ui.button(item, on_click=lambda left=left: self.fail_to(left), color=None).props(
                    f'outline dense no-caps icon-right=close aria-label="Put {item} back"'
                )
        self.cost.clear()
        self.times.clear()
        if view.cost is not None:
            with self.cost:
                page_table(view.cost)

    def _show_path(self, view: View) -> None:
        path = view.path
        for name, field in self.ends.items():
            field.set_value(getattr(path, name))
        self.path_words.clear()
        with self.path_words:
            ui.label(path.sentence)
            for text in path.hashed:
                ui.label(text).classes("rw-formula")
        self.path_table.clear()
        if path.table is not None:
            with self.path_table:
                page_table(path.table)
        self.page.trace(path.trace)

    async def refresh_flows(self) -> None:
        """Show what stands below, route the flows, and time a collective where parts are out."""
        state, view = self.state, self.view
        await self.page.at_rest()
        if self.state is not state or view is None:
            return
        self._show_rest(view)
        key = replace(state, open=(), source="", target="", loads=False)
        flows = await self.page.studio.compute.later(flows_of, key)
        if self.state is not state:
            return
        self._show_flows(flows)
        if not isinstance(flows, str):
            self.page.reproduce(with_flows(view.reproduce, FILE, state, flows, None))
        if not state.out:
            return
        times = await self.page.studio.compute.later(collective_times, key)
        if self.state is not state:
            return
        self.times.clear()
        with self.times:
            if isinstance(times, str):
                ui.label(times).classes("rw-quiet")
            else:
                page_table(times.table)
        if not isinstance(times, str) and not isinstance(flows, str):
            self.page.reproduce(with_flows(view.reproduce, FILE, state, flows, times))

    def _show_flows(self, flows: FlowsView | str) -> None:
        self.flow_words.clear()
        sentences = (flows,) if isinstance(flows, str) else flows.sentences
        with self.flow_words:
            for text in sentences:
                ui.label(text)
        if isinstance(flows, str):
            return
        self.flow_tiles.show(flows.numbers)
        self.spread.show(draw_spread(flows.curves))


def _title(text: str) -> None:
    ui.label(text).classes("rw-h2").props("role=heading aria-level=2")


def _button(text: str, on_click: Callable[[], object]) -> ui.button:
    # No palette colour: Quasar's is too dark on the dark ground.
    button = ui.button(text, on_click=on_click, color=None)
    return button.props("outline dense no-caps").classes("rw-fabric-button")


def build(page: LabPage) -> None:
    """Fill the page of lab 5."""
    ui.add_head_html('<link rel="stylesheet" href="/studio-static/lab-fabric.css">')
    _FabricPage(page)


_TEXT = content.lab("fabric")
LAB = Lab(_TEXT.number, "fabric", _TEXT.title, _TEXT.summary, 160, build)
