"""Lab 7's section on what NCCL chooses: the winner, every option, and why."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from railweave.errors import RailweaveError
from railweave.studio.controls import choice, heading, switch
from railweave.studio.help import help_button
from railweave.studio.labs._collectives import State
from railweave.studio.labs._collectives_choice import (
    ChoiceView,
    OverSizes,
    Source,
    choice_view,
    measured_of,
    network_names,
    over_sizes,
    server_names,
    source_of,
)
from railweave.studio.parts import Tiles, code_block, table_html
from railweave.studio.plot import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicegui.element import Element

    from railweave.predict.network_part import MeasuredNetwork
    from railweave.report.page_table import PageTable
    from railweave.studio.page import LabPage

__all__ = ["ChoiceSection", "choice_controls"]

_FIGURE_PX: Final = 400
_MEASURING: Final = (
    "The network is taken at full line rate while the flow engine measures what the fabric leaves "
    "of it."
)


def choice_controls(
    design_name: str, state_now: Callable[[], State], change: Callable[..., Any]
) -> None:
    """Add the section's inputs.

    Args:
        design_name: of the visitor's design; empty where there is none.
        state_now: gives the lab's inputs.
        change: is called with the inputs that change.
    """
    state = state_now()
    mine = {"": f"my design: {design_name}"} if design_name else {}
    heading("What NCCL chooses")

    def servers(value: str) -> None:
        change(servers=value, network="")
        network()

    def network() -> None:
        box.clear()
        now = state_now()
        if not now.servers and mine:
            return
        able = network_names(now.servers)
        with box:
            choice(
                "Network between servers",
                now.network or next(iter(able)),
                able,
                lambda value: change(network="" if value == next(iter(able)) else value),
            )

    choice("Servers", state.servers, mine | server_names(), servers)
    box = ui.element("div").classes("rw-control rw-panel-part")
    network()
    switch("Switches add up (SHARP)", state.sharp, lambda on: change(sharp=on))


class ChoiceSection:
    """The section of one visitor's page.

    Numbers and table follow each input at once. What the fabric leaves of the line rate is measured
    when inputs rest, once for each design, number of GPUs and placement, and drawn in then.
    """

    def __init__(self, page: LabPage) -> None:
        self._page = page
        self._state: State | None = None
        with (
            ui.element("section")
            .classes("rw-card rw-choice")
            .props('aria-label="What NCCL chooses"')
        ):
            ui.label("What NCCL chooses").classes("rw-h2").props("role=heading aria-level=2")
            self._problem = ui.label("Being worked out.").classes("rw-note").props("role=status")
            self._body = ui.element("div").classes("rw-choice-body hidden")
            with self._body:
                self._build_body()

    def _build_body(self) -> None:
        self._headline = ui.label("")
        self._pending = (
            ui.label(_MEASURING).classes("rw-quiet rw-choice-pending").props("role=status")
        )
        self._tiles = Tiles()
        with ui.element("div").classes("rw-choice-why").props("aria-live=polite"):
            self._why = _Lines("div")
        self._options = _Table()
        with ui.element("div").classes("rw-two"):
            self._times = Figure(
                "Time of every option over sizes", height_px=_FIGURE_PX, follows=True
            )
            self._busbw = Figure(
                "Bus bandwidth to expect over sizes", height_px=_FIGURE_PX, follows=True
            )
        with ui.row(wrap=False).classes("rw-label"):
            ui.label("Where the choice changes (dotted lines)")
            help_button("crossover_size")
        with ui.element("ul").classes("rw-choice-ranges rw-follows"):
            self._ranges = _Lines("li")
        with ui.element("div").classes("rw-two"):
            self._terms = _Table()
            self._unusable = _Table()
        self._network = _Table()
        with ui.element("div").classes("rw-choice-network") as self._network_line:
            self._network_said = ui.label("")
            help_button("network_share")
        with ui.expansion("The same table as command and as Python").classes("w-full"):
            self._command = code_block("Command of NCCL's choice").classes("rw-choice-command")
            self._python = code_block("Python of NCCL's choice").classes("rw-choice-python")
        with ui.expansion("Environment and tuner file for this cluster").classes("w-full"):
            self._environment = code_block("Environment, as in nccl.conf").classes(
                "rw-choice-env rw-follows"
            )
            self._tuner = code_block("File for NCCL's tuner").classes("rw-choice-tuner rw-follows")
        with ui.expansion("What the prediction rests on").classes("w-full"), ui.element("ul"):
            self._rests_on = _Lines("li")

    # ------------------------------------------------------------ working it out

    def show(self, state: State) -> None:
        """Show what is chosen for these inputs, as soon as it is there."""
        self._state = state
        self._page.soon(lambda: self._work(state), "choice")

    async def _work(self, state: State) -> None:
        session, compute = self._page.session, self._page.studio.compute
        try:
            source = source_of(state, session.design_text, session.design_name)
            measured = compute.known(measured_of, source)
            view = await compute(choice_view, state, source, measured)
        except RailweaveError as error:
            if state == self._state:
                self._cannot(str(error))
            return
        await self._page.drawn()  # the lab's own numbers
        if state != self._state:
            return
        self._tell(view)
        if measured is None:
            self._page.soon(lambda: self._measure(state, source), "choice's network")
        else:
            self._page.soon(lambda: self._rest(state, source, measured), "choice over sizes")

    async def _rest(self, state: State, source: Source, measured: MeasuredNetwork) -> None:
        """Show what is chosen over sizes when inputs rest: figures take the browser long."""
        await self._page.at_rest()
        if state != self._state:
            return
        found = await self._page.studio.compute.later(over_sizes, state, source, measured)
        if state == self._state:
            self._tell_sizes(found)

    async def _measure(self, state: State, source: Source) -> None:
        """Measure the network of inputs that rest, and show the choice again."""
        await self._page.at_rest()
        if state != self._state:  # the newer one's turn comes
            return
        try:
            await self._page.studio.compute.later(measured_of, source)
        except RailweaveError as error:
            if state == self._state:
                self._cannot(str(error))
            return
        if state == self._state:
            self.show(state)

    # ------------------------------------------------------------ showing it

    def _cannot(self, text: str) -> None:
        self._problem.set_text(text)
        _visible(self._problem, shown=True)
        _visible(self._body, shown=False)

    def _tell(self, view: ChoiceView) -> None:
        """Show what the eye is on."""
        _visible(self._problem, shown=False)
        _visible(self._body, shown=True)
        _visible(self._pending, shown=not view.measured)
        self._headline.set_text(view.headline)
        self._tiles.show(view.numbers, {"peak_busbw": view.choice.best.bound})
        self._why.show(view.why)
        best = view.choice.best.name
        self._options.show(view.options, marked=best)
        self._terms.show(view.terms)
        self._unusable.show(view.unusable)
        self._network.show(view.network)
        self._network_said.set_text(view.network_said)
        _visible(self._network_line, shown=bool(view.network_said))
        self._rests_on.show(view.rests_on)
        self._command.set_text(view.reproduce.command)
        self._python.set_text(view.reproduce.python)

    def _tell_sizes(self, found: OverSizes) -> None:
        self._times.show(found.times)
        self._busbw.show(found.busbw)
        self._ranges.show(found.ranges)
        self._environment.set_text(found.environment)
        self._tuner.set_text(found.tuner)


class _Lines:
    """Lines of text in the element that it is made in; only what changes is sent.

    Args:
        tag: of each line.
    """

    def __init__(self, tag: str) -> None:
        self._place = ui.context.slot.parent
        self._tag = tag
        self._labels: list[ui.label] = []

    def show(self, lines: Sequence[str]) -> None:
        if len(lines) != len(self._labels):
            self._place.clear()
            with self._place:
                self._labels = [self._line() for _ in lines]
        for label, line in zip(self._labels, lines, strict=True):
            label.set_text(line)

    def _line(self) -> ui.label:
        with ui.element(self._tag):
            return ui.label("")


class _Table:
    """A table of the report with its title and notes, hidden while there is none."""

    def __init__(self) -> None:
        self._shown: tuple[PageTable | None, str] = (None, "")
        with ui.element("div").classes("hidden") as self._box:
            self._title = ui.label("").classes("rw-h3").props("role=heading aria-level=3")
            self._html = ui.html("", sanitize=False).classes("rw-scroll")
            self._html.props("tabindex=0 role=region")
            self._notes = ui.label("").classes("rw-quiet")

    def show(self, table: PageTable | None, *, marked: str = "") -> None:
        """Show a table; the row that begins with ``marked`` stands out."""
        if (table, marked) == self._shown:
            return
        self._shown = (table, marked)
        _visible(self._box, shown=table is not None)
        if table is None:
            return
        row = next((n for n, cells in enumerate(table.rows) if cells[0] == marked), -1)
        numeric = [k for k, name in enumerate(table.header) if k and name not in table.text_columns]
        self._title.set_text(table.title)
        self._html.set_content(
            table_html(table.header, table.rows, name=table.id, marked=row, numeric=numeric)
        )
        self._html.props(f'aria-label="{escape(table.title)}"')
        self._notes.set_text(" ".join(table.notes))


def _visible(element: Element, *, shown: bool) -> None:
    if shown:
        element.classes(remove="hidden")
    else:
        element.classes(add="hidden")
