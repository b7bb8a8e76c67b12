"""Lab 6: congestion control, one congested switch on a time axis."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

from nicegui import background_tasks, ui

from railweave.engine.congest import CongestCase
from railweave.engine.congest_summary import CongestSummary
from railweave.errors import RailweaveError
from railweave.runs.congest import congest_work
from railweave.studio.canvas import Canvas
from railweave.studio.content import lab as lab_text
from railweave.studio.content import learn
from railweave.studio.lab import Lab, fault_text
from railweave.studio.labs._congestion import (
    CongestionState,
    baseline_query,
    case_of,
    is_short,
    read_baseline,
    readable,
    run_case,
    without_baseline,
)
from railweave.studio.labs._congestion_controls import build_controls
from railweave.studio.labs._congestion_practice import build_practice
from railweave.studio.labs._congestion_view import (
    View,
    numbers_of,
    predictions,
    sweep_command,
    sweep_view,
    view_of,
)
from railweave.studio.parts import TableBox
from railweave.studio.plot import Figure
from railweave.studio.scene import Scene
from railweave.studio.state import from_query

if TYPE_CHECKING:
    from railweave.studio.page import LabPage
    from railweave.studio.session import KeptRun

__all__ = ["LAB"]

_HEAD = (
    '<link rel="stylesheet" href="/studio-static/lab-congestion.css">'
    '<script type="module" src="/studio-static/lab-congestion.js"></script>'
)


Document = Mapping[str, Any]


class _Parts:
    """Shows what a run publishes, one after the other; what comes while one is drawn waits.

    Args:
        show: draws a document.
    """

    def __init__(self, show: Callable[[Document], Awaitable[None]]) -> None:
        self._show = show
        self._drawing: asyncio.Task[None] | None = None
        self._drawn: Document | None = None
        self.last: Document | None = None

    def heard(self, document: Document) -> None:
        """Take a document; only the newest of those that wait is drawn."""
        self.last = document
        if self._drawing is None or self._drawing.done():
            self._drawing = background_tasks.create(self._draw())

    async def _draw(self) -> None:
        while self._drawn is not self.last and self.last is not None:
            self._drawn = self.last
            await self._show(self.last)

    async def shown(self) -> None:
        """Wait until nothing is being drawn."""
        if self._drawing is not None:
            await self._drawing


class _Desk:
    """One visitor's lab: its inputs, what runs, what is shown."""

    def __init__(self, page: LabPage) -> None:
        self.page = page
        self.state, self._said = readable(page.state(CongestionState))
        self._known: dict[CongestCase, CongestSummary] = {}
        self._limits: tuple[str, ...] = ()
        self._turn = 0
        self._adopt_baseline()
        ui.add_head_html(_HEAD)
        with page.controls:
            build_controls(self.state, self.change)
        with page.main, ui.element("div").classes("rw-congestion"):
            self._build()
        page.on_baseline(self._pinned)
        ui.context.client.on_delete(self._left)
        page.studio.queue.warm()
        page.soon(self.refresh)

    def _left(self) -> None:
        """End what works for a page that is there no more."""
        self._turn += 1
        self.page.cancel_job()

    # ---------------------------------------------------------- inputs

    def change(self, **values: Any) -> None:  # noqa: ANN401 - fields of the state
        """Take new inputs and answer them."""
        state = dataclasses.replace(self.state, **values)
        if state == self.state:  # a field that was left without a change speaks as well
            return
        self.state, self._said = state, ()
        self.page.update(self.state)
        self.page.soon(self.refresh)

    def _kept(self) -> KeptRun | None:
        return self.page.session.baseline(self.page.lab.key)

    def _adopt_baseline(self) -> None:
        """Compare with what the session has pinned, where the address names nothing itself."""
        kept = self._kept()
        if kept is not None and not self.state.baseline:
            self.state = dataclasses.replace(self.state, baseline=_query_of(kept))
            self.page.update(self.state)

    def _pinned(self) -> None:
        kept = self._kept()
        self.change(baseline="" if kept is None else _query_of(kept))

    # ---------------------------------------------------------- what is there

    def _build(self) -> None:
        with ui.element("div").classes("rw-card"):
            _heading("What the packet engine recorded")
            self._canvas = Canvas(Scene(), height_px=400)
            _legend()
        self._figure = Figure("Queue, rates, marks and pauses over time", height_px=680)
        self._figure.classes("rw-congestion-figure")
        with ui.element("div").classes("rw-two"):
            self._predicted = TableBox("rw-predicted")
            self._compared = TableBox("rw-compared")
        with ui.element("div").classes("rw-card rw-exercise"):
            _heading("Predict, then see")
            build_practice(self.page)
        with ui.element("div").classes("rw-card rw-sweep"):
            _heading("Thresholds against each other")
            ui.label(
                "Twelve pairs of thresholds with these inputs otherwise: where ECN holds the queue,"
                " and where PFC has to."
            )
            ui.button("Simulate the map", on_click=self._sweep).props("outline no-caps")
            self._map = ui.element("div").props("role=status")

    # ---------------------------------------------------------- answers

    async def refresh(self) -> None:
        """Answer the inputs as they are now."""
        self._turn += 1
        state = self.state
        try:
            case = case_of(state)
            other = read_baseline(state)
            base_case = None if other is None else case_of(other)
        except RailweaveError as error:
            self.page.problem(str(error))
            return
        self.page.cancel_job()
        # What needs no simulation is there at once.
        self._predicted.show(predictions(case))
        cases = [case] if base_case is None else [case, base_case]
        if all(is_short(one) or one in self._known for one in cases):
            found = [await self._short(one) for one in cases]
            if found[0] is not None:
                await self._show(state, found[0], found[1] if len(found) > 1 else None)
            return
        self.page.problem(None)
        background_tasks.create(self._in_place(state, cases, self._turn))

    async def _short(self, case: CongestCase) -> CongestSummary | None:
        if case in self._known:
            return self._known[case]
        return await self.page.compute(run_case, case)

    async def _in_place(self, state: CongestionState, cases: list[CongestCase], turn: int) -> None:
        with self.page.main:
            await self._long(state, cases, turn)

    async def _long(self, state: CongestionState, cases: list[CongestCase], turn: int) -> None:
        """Simulate in worker processes, showing what is known on the way."""
        parts = _Parts(lambda document: self._show_part(state, document, turn))
        now = await self._work(cases[0], parts.heard)
        await parts.shown()
        if turn != self._turn:
            return
        if now is None:
            if parts.last is not None:
                await self._show_part(state, parts.last, turn, cancelled=True)
            return
        base = None
        if len(cases) > 1:
            base = await (self._short(cases[1]) if is_short(cases[1]) else self._work(cases[1]))
        if turn == self._turn:
            await self._show(state, now, base)

    async def _work(
        self, case: CongestCase, partial: Callable[[Document], None] | None = None
    ) -> CongestSummary | None:
        if case in self._known:
            return self._known[case]
        key = dataclasses.asdict(case)
        document = await self.page.run_job("congest", congest_work, case, key, partial)
        if document is None:
            return None
        summary = await asyncio.to_thread(CongestSummary.read, document)
        if len(self._known) >= _MOST_KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[case] = summary
        return summary

    # ---------------------------------------------------------- what is shown

    async def _show_part(
        self,
        state: CongestionState,
        document: Document,
        turn: int,
        *,
        cancelled: bool = False,
    ) -> None:
        summary = await asyncio.to_thread(CongestSummary.read, document)
        view = await asyncio.to_thread(view_of, state, summary, None)
        if turn != self._turn:
            return
        with self.page.main:
            self._fill(view, whole=False, cancelled=cancelled)

    async def _show(
        self, state: CongestionState, outcome: CongestSummary, baseline: CongestSummary | None
    ) -> None:
        view = await asyncio.to_thread(view_of, state, outcome, baseline)
        if baseline is not None:
            self._pin_named(state, baseline)
        self._fill(view)

    def _pin_named(self, state: CongestionState, baseline: CongestSummary) -> None:
        """Pin the baseline that a link names, unless the visitor has pinned the same."""
        session, key = self.page.session, self.page.lab.key
        kept = self._kept()
        if kept is not None and _query_of(kept) == state.baseline:
            return
        query = state.baseline.removeprefix("defaults")
        label = f"{self.page.lab.title}: {unquote_plus(query).replace('&', ', ') or 'defaults'}"
        url = f"/lab/{key}" + (f"?{query}" if query else "")
        session.pin(session.keep(key, label[:120], url, numbers_of(baseline)))

    def _fill(self, view: View, *, whole: bool = True, cancelled: bool = False) -> None:
        page = self.page
        page.numbers(view.numbers)
        so_far = () if whole else (view.so_far(cancelled),)
        page.interpretation((*self._said, *so_far, *view.sentences))
        page.reproduce(view.reproduce)
        limits = (*learn(page.lab.key).limits, *view.limits)
        if limits != self._limits:
            self._limits = limits
            page.not_modelled(limits)
        self._figure.show(view.figure)
        if whole or cancelled:  # what is still growing does not begin anew every second
            self._canvas.show(view.scene)
        self._predicted.show(view.predicted)
        self._compared.show(view.compared)
        if whole or cancelled:
            background_tasks.create(self._trace(view, self._turn))

    async def _trace(self, view: View, turn: int) -> None:
        """Show the trace once the inputs rest: it is long, and nobody reads it while they move."""
        await self.page.at_rest()
        if turn == self._turn:
            with self.page.main:
                self.page.trace(view.trace)

    async def _sweep(self) -> None:
        state = without_baseline(self.state)
        self._map.clear()
        try:
            short = is_short(case_of(state))
            with self._map:
                ui.spinner()
            found = await self.page.studio.compute.later(sweep_view, state) if short else None
        except Exception as error:
            self._map.clear()
            with self._map:
                ui.label(fault_text(error))
            if isinstance(error, RailweaveError):
                return
            raise
        self._map.clear()
        with self._map:
            if found is None:
                ui.label("Twelve such long runs are for the command line, or take a shorter run:")
                _command(sweep_command(state))
                return
            Figure("Throughput, delay, pauses, drops and oscillation by thresholds").show(
                found.figure
            )
            for sentence in found.sentences:
                ui.label(sentence)
            _command(found.command)


_MOST_KNOWN = 8


def _query_of(run: KeptRun) -> str:
    """Return a kept run's inputs as the value of ``baseline``."""
    pairs = dict(parse_qsl(urlsplit(run.url).query, keep_blank_values=True))
    return baseline_query(from_query(CongestionState, pairs)[0])


def _heading(text: str) -> None:
    ui.label(text).classes("rw-h2").props("role=heading aria-level=2")


def _command(text: str) -> None:
    code = ui.code(text, language="bash").classes("w-full")
    code.copy_button.props('aria-label="Copy the command"')


def _legend() -> None:
    with ui.element("ul").classes("rw-legend"):
        for sign, text in (
            ("rw-data", "data"),
            ("rw-pfc", "PFC pause: hop by hop, from the switch to a sender"),
            ("rw-cnp", "notification (CNP): end to end, from the receiver to a sender"),
        ):
            with ui.element("li"):
                ui.element("i").classes(sign)
                ui.label(text)


def _build(page: LabPage) -> None:
    _Desk(page)


_TEXT = lab_text("congestion")
LAB = Lab(6, "congestion", _TEXT.title, _TEXT.summary, 35, _build)
