"""One visitor's page of one lab: what the shell gives to a lab, and shows for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nicegui import background_tasks, ui

from railweave.errors import RailweaveError
from railweave.studio.job_view import JobView
from railweave.studio.lab import Lab, Number, Reproduce, TraceRow, fault_text
from railweave.studio.learn import learn_panel
from railweave.studio.parts import Tiles, code_block, plain_table
from railweave.studio.state import from_query, to_query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nicegui.element import Element

    from railweave.runs.jobs import Work
    from railweave.studio.app import Studio
    from railweave.studio.session import Session

__all__ = ["LabPage"]

State = TypeVar("State")
Value = TypeVar("Value")
MOST_TRACE = 400
#: what was sent is on the screen after so long
FRAME_S: Final = 0.06
#: inputs that have not changed for so long rest
REST_S: Final = 0.3


class LabPage:
    """What a lab's ``build`` works with.

    ``controls`` is the column of inputs (left, above the rest where the page is narrow), ``main``
    the place for what the lab draws; both are used as ``with page.main: …``.
    """

    def __init__(
        self, studio: Studio, session: Session, lab: Lab, query: Mapping[str, str]
    ) -> None:
        self.studio = studio
        self.session = session
        self.lab = lab
        self._query = dict(query)
        self._url = f"/lab/{lab.key}"
        self._numbers: tuple[Number, ...] = ()
        self._turn = 0
        self._under_way: dict[str, int] = {}
        self._begun = 0
        self._heard_baseline: Callable[[], None] | None = None
        with ui.element("div").classes("rw-lab"):
            with ui.element("div").classes("rw-side"):
                self.controls: Element = (
                    ui.element("section").classes("rw-panel").props('aria-label="Inputs"')
                )
            with ui.element("div").classes("rw-body"):
                self._address = ui.label("").props("role=alert").classes("rw-note hidden")
                self._banner = ui.element("div").props("role=alert").classes("rw-banner hidden")
                self._job = JobView(studio.queue, session.visitor)
                self._tiles = Tiles()
                self._words = ui.element("section").classes("rw-words").props("aria-live=polite")
                self.main: Element = ui.element("div").classes("rw-main")
                self._trace_box = ui.element("section").classes("hidden rw-card")
                self._build_tools()
                learn_panel(self)

    # ---------------------------------------------------------- state

    def state(self, cls: type[State]) -> State:
        """Return the lab's inputs from the page's address; what cannot be read is said."""
        state, problems = from_query(cls, self._query)
        if problems:
            self._address.set_text("; ".join(problems))
            self._address.classes(remove="hidden")
        self._url = self._link(state)
        return state

    def update(self, state: object) -> None:
        """Write the inputs into the address, so that its link shows the same again."""
        url = self._link(state)
        if url != self._url:
            self._url = url
            ui.navigate.history.replace(url)

    def _link(self, state: object) -> str:
        query = to_query(state)
        return f"/lab/{self.lab.key}" + (f"?{query}" if query else "")

    # ---------------------------------------------------------- what every lab shows

    def numbers(self, numbers: tuple[Number, ...]) -> None:
        """Show these quantities, each beside the pinned baseline's."""
        self._numbers = numbers
        baseline = self.session.baseline(self.lab.key)
        self._tiles.show(numbers, baseline.beside(numbers) if baseline else None)

    def interpretation(self, sentences: Sequence[str]) -> None:
        """Say what the numbers mean."""
        self._words.clear()
        with self._words:
            for sentence in sentences:
                ui.label(sentence)

    def reproduce(self, how: Reproduce) -> None:
        """Show the command and the Python that give the same numbers."""
        self._command.set_text(how.command)
        self._python.set_text(how.python)

    def not_modelled(self, items: Sequence[str]) -> None:
        """Say what this result leaves out."""
        self._limits.clear()
        with self._limits, ui.element("ul"):
            for item in items:
                with ui.element("li"):
                    ui.label(item)

    def trace(self, rows: Sequence[TraceRow]) -> None:
        """Show what happens when, the first :data:`MOST_TRACE` rows of it; nothing without rows."""
        self._trace_box.clear()
        if not rows:
            self._trace_box.classes(add="hidden")
            return
        self._trace_box.classes(remove="hidden")
        from railweave.units import format_seconds

        with self._trace_box:
            ui.label("Trace").classes("rw-h2").props("role=heading aria-level=2")
            if len(rows) > MOST_TRACE:
                ui.label(f"The first {MOST_TRACE:,} of {len(rows):,} moments.").classes("rw-quiet")
            shown = [(format_seconds(r.time_s), r.where, r.what) for r in rows[:MOST_TRACE]]
            plain_table("Trace", ("Time", "Where", "What"), shown).classes("rw-long rw-trace")

    def problem(self, text: str | None) -> None:
        """Show a sentence above the results, or take it away."""
        self._banner.clear()
        if not text:
            self._banner.classes(add="hidden")
            return
        self._banner.classes(remove="hidden")
        with self._banner:
            ui.label(text)

    # ---------------------------------------------------------- work

    async def compute(self, function: Callable[..., Value], *arguments: object) -> Value | None:
        """Run a pure function away from the event loop and return its value.

        Equal calls are answered from memory, whoever made them. None is returned where a newer call
        of this page has been made meanwhile, or where the arguments cannot be used: that is said in
        the banner.
        """
        self._turn += 1
        turn = self._turn
        try:
            value = await self.studio.compute(function, *arguments)
        except RailweaveError as error:
            if turn == self._turn:
                self.problem(str(error))
            return None
        if turn != self._turn:
            return None
        self.problem(None)
        return value

    async def run_job(
        self,
        kind: str,
        work: Work,
        argument: object,
        key: Mapping[str, Any],
        on_partial: Callable[[Any], None] | None = None,
    ) -> Any | None:  # noqa: ANN401 - the document that the work returns
        """Run long work in a worker process, with progress and a cancel button; return its result.

        A newer call of this page cancels the one before, which returns None; so does cancelling,
        and a failure, which is said in the banner. The same key is never worked for twice.

        Args:
            kind: a word for what it does.
            work: see :class:`railweave.runs.jobs.JobQueue`.
            argument: picklable.
            key: everything that the result depends on, as JSON could hold it.
            on_partial: is given each document that the work publishes on its way.
        """
        from railweave import __version__
        from railweave.runs import content_key

        name = content_key({"kind": kind}, key, __version__)
        try:
            return await self._job.run(kind, work, argument, name, on_partial)
        except RailweaveError as error:
            self.problem(str(error))
            return None

    def cancel_job(self) -> None:
        """Cancel the job that runs for this page, if one does: nobody waits for it any more."""
        self._job.cancel()

    def on_baseline(self, heard: Callable[[], None]) -> None:
        """Have a function called when the visitor has pinned or unpinned the lab's baseline."""
        self._heard_baseline = heard

    def soon(self, work: Callable[[], Awaitable[None]], name: str = "refresh") -> None:
        """Run a lab's refresh, or a part of it that may follow.

        One of the same name that has not begun yet is replaced by the newer one. What cannot be
        done is said in the banner; a fault of railweave is logged as well. Until the last one has
        ended ``main`` is ``aria-busy``: what has the class ``rw-follows`` is that of earlier inputs
        till then, and shows it. ``data-turn`` counts what was begun.
        """
        self._begun += 1
        turn = self._under_way[name] = self._begun
        self.main.props(f"aria-busy=true data-turn={turn}")

        async def run() -> None:
            with self.main:
                try:
                    await work()
                except Exception as error:
                    self.problem(fault_text(error))
                    if not isinstance(error, RailweaveError):
                        raise
                finally:
                    self._ended(name, turn)

        background_tasks.create_lazy(run(), name=f"{name} {id(self)}")

    def _ended(self, name: str, turn: int) -> None:
        if self._under_way.get(name) == turn:  # else a newer one waits
            del self._under_way[name]
        if not self._under_way:
            self.main.props("aria-busy=false")

    async def drawn(self) -> None:
        """Wait about as long as the browser takes to draw what was just sent."""
        await asyncio.sleep(FRAME_S)

    async def at_rest(self) -> None:
        """Wait as long as inputs that rest have rested; what the eye is not on can come then.

        It would take the browser from drawing what a slider has just changed.
        """
        await asyncio.sleep(REST_S)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show that something takes time while the block runs."""
        self._busy.set_text(what)
        self._busy.classes(remove="hidden")
        try:
            yield
        finally:
            self._busy.classes(add="hidden")

    # ---------------------------------------------------------- inside

    def _build_tools(self) -> None:
        """Build what stands below the lab's own drawings: keep, copy, limits."""
        self._busy = ui.label("").classes("rw-quiet hidden").props("role=status")
        with ui.row().classes("rw-tools"):
            ui.button("Keep this run", on_click=self._keep).props("outline dense no-caps")
            ui.button("Pin as baseline", on_click=self._pin).props("outline dense no-caps")
            ui.button("Unpin", on_click=self._unpin).props("flat dense no-caps")
        with ui.expansion("Copy as command or Python").classes("rw-card w-full"):
            self._command = code_block("Command").classes("rw-copy-command")
            self._python = code_block("Python").classes("rw-copy-python")
        with ui.expansion("What this does not model").classes("rw-card w-full rw-limits"):
            self._limits = ui.element("div")

    def _label(self) -> str:
        query = self._url.partition("?")[2].replace("&", ", ").replace("+", " ")
        from urllib.parse import unquote

        return f"{self.lab.title}: {unquote(query) or 'defaults'}"[:120]

    def _keep(self) -> None:
        if not self._numbers:
            return
        self.session.keep(self.lab.key, self._label(), self._url, self._numbers)
        ui.notify("Kept; the run list is on the home page.")

    def _pin(self) -> None:
        if not self._numbers:
            return
        run = self.session.keep(self.lab.key, self._label(), self._url, self._numbers)
        self.session.pin(run)
        self.numbers(self._numbers)
        if self._heard_baseline is not None:
            self._heard_baseline()
        ui.notify("Pinned: new results are shown beside these.")

    def _unpin(self) -> None:
        self.session.unpin(self.lab.key)
        self.numbers(self._numbers)
        if self._heard_baseline is not None:
            self._heard_baseline()
