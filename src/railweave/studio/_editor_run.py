"""The lower part of the design page: running the design, its results, the runs before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from fastapi import Response
from nicegui import app as nicegui_app
from nicegui import background_tasks, ui

from railweave.errors import RailweaveError
from railweave.studio.design_jobs import StartedRun, found_again, keep, start
from railweave.studio.design_run import (
    ENGINES,
    DesignRun,
    report_page,
    reproduce,
    run_key,
    run_numbers,
    run_work,
)
from railweave.studio.designs import local_file
from railweave.studio.job_view import JobView
from railweave.studio.lab import Number
from railweave.studio.parts import Tiles, code_block, plain_table
from railweave.studio.run_overlays import DESIGN, run_overlays

if TYPE_CHECKING:
    from railweave.runs.jobs import Job
    from railweave.studio.app import Studio
    from railweave.studio.session import KeptRun, Session

__all__ = ["REPORT_POLICY", "RunPane", "add_report_route"]

#: a report may run its own scripts, and nothing else: no request, no part of the studio
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; frame-ancestors 'self'"
)


def add_report_route(studio: Studio) -> None:
    """Serve the reports of a visitor's own runs under ``/design/report/KEY``."""

    @nicegui_app.get("/design/report/{key}", include_in_schema=False)
    def report(key: str) -> Response:
        run = studio.session().design_runs.get(key)
        headers = {"Content-Security-Policy": REPORT_POLICY, "Cache-Control": "no-store"}
        if not isinstance(run, DesignRun):
            text = "There is no such run; it may have been forgotten. Run the design again."
            return Response(text, 404, headers, "text/plain; charset=utf-8")
        visitor = studio.session().visitor
        try:
            job = studio.queue.submit("run", run_work, run, key, visitor)
            done = studio.queue.wait(job, timeout_s=120.0)
        except RailweaveError as error:
            return Response(str(error), 503, headers, "text/plain; charset=utf-8")
        if not isinstance(done.result, Mapping):
            text = done.error or "The run has not come to its end yet; try again in a while."
            return Response(text, 503, headers, "text/plain; charset=utf-8")
        return Response(report_page(done.result), 200, headers, "text/html; charset=utf-8")


class RunPane:
    """Runs the loaded design and shows what came out, beside the runs before.

    Args:
        studio: for its queue.
        session: the visitor's.
        text: gives the text to run, and a sentence why it cannot be run where it cannot.
        load: puts a text with a file name into the editor.
    """

    def __init__(
        self,
        studio: Studio,
        session: Session,
        text: Callable[[], Awaitable[tuple[str, str]]],
        load: Callable[[str, str], None],
    ) -> None:
        self._studio = studio
        self._session = session
        self._text = text
        self._load = load
        with ui.element("section").classes("rw-card rw-run").props('aria-label="Run the design"'):
            ui.label("Run").classes("rw-h2").props("role=heading aria-level=2")
            with ui.row().classes("rw-run-controls"):
                self._engine = (
                    ui.select(dict(ENGINES), value="flow", label="Engine")
                    .props("dense outlined options-dense stack-label")
                    .classes("rw-run-engine")
                )
                self._fail = (
                    ui.input(label="Taken out first", placeholder="spine-1, leaf-2:port-3")
                    .props("dense outlined stack-label")
                    .classes("rw-run-fail")
                )
                ui.button("Run", on_click=self.run).props("no-caps unelevated").classes("rw-run-go")
            self._problem = ui.label("").classes("rw-banner hidden").props("role=alert")
            self._job = JobView(studio.queue, session.visitor)
        self._result = ui.element("section").classes("rw-result hidden")
        self._result.props('aria-label="Result"')
        with ui.element("section").props('aria-label="Runs"').classes("rw-card"):
            ui.label("Runs").classes("rw-h2").props("role=heading aria-level=2")
            self._runs = ui.element("div")
        self._list_runs()
        self._take_up()

    async def run(self) -> None:
        """Run what is in the editor, if it is a design."""
        text, why_not = await self._text()
        if why_not:
            self._say(why_not)
            return
        parts = str(self._fail.value or "").split(",")
        fail = tuple(part.strip() for part in parts if part.strip())
        file = local_file(text)
        run = DesignRun(text, str(self._engine.value), fail, str(file.resolve()) if file else "")
        self._say("")
        try:
            started, job = start(self._studio.queue, self._session, run, run_key(run))
        except RailweaveError as error:
            self._say(str(error))
            return
        await self._follow(started, job)

    async def _follow(self, started: StartedRun, job: Job) -> None:
        """Show how a run goes on, and what comes of it."""
        try:
            document = await self._job.follow(job)
        except RailweaveError as error:
            self._say(str(error))
            if (
                self._result.client.has_socket_connection
            ):  # it has been read, so it is not said again
                self._session.design_started = None
            return
        if document is None:
            return
        kept = keep(self._session, started, document)
        self._show(kept, started, run_numbers(document), document)
        self._list_runs()

    def _take_up(self) -> None:
        """Go on with the run that was started before this page was opened, or show its result."""
        found = found_again(self._studio.queue, self._session)
        if found is None:
            return
        started, job = found
        self._engine.set_value(started.run.engine)
        self._fail.set_value(", ".join(started.run.fail))

        async def follow() -> None:
            with self._result:
                await self._follow(started, job)

        background_tasks.create(follow(), name="design run, taken up")

    def _list_runs(self) -> None:
        run_overlays(self._session, self._runs, DESIGN, self._load_again)

    def _load_again(self, kept: KeptRun) -> None:
        run = self._session.design_runs.get(kept.url.rpartition("/")[2])
        if isinstance(run, DesignRun):
            self._load(run.text, self._session.design_name)

    def _say(self, text: str) -> None:
        if self._problem.is_deleted:  # the visitor has left the page
            return
        self._problem.set_text(text)
        self._problem.classes(remove="hidden") if text else self._problem.classes(add="hidden")

    # ---------------------------------------------------------- the result

    def _show(
        self,
        kept: KeptRun,
        started: StartedRun,
        numbers: tuple[Number, ...],
        document: Mapping[str, Any],
    ) -> None:
        self._result.classes(remove="hidden")
        self._result.clear()
        with self._result:
            with ui.row().classes("rw-result-head"):
                ui.label(f"Run {kept.number}").classes("rw-h2").props("role=heading aria-level=2")
                ui.link("Open the report", kept.url, new_tab=True).classes("rw-report-link")
            self._tiles(numbers)
            self._table(document["table"])
            self._findings(document["record"]["findings"])
            self._reproduce(started)
            self._limits(document["record"]["assumptions"])

    def _tiles(self, numbers: tuple[Number, ...]) -> None:
        baseline = self._session.baseline(DESIGN)
        Tiles().show(numbers, baseline.beside(numbers) if baseline else None)

    @staticmethod
    def _table(table: Mapping[str, Any]) -> None:
        if not table["rows"]:
            return
        plain_table(table["title"], table["header"], table["rows"], name="jobs").classes("rw-card")

    @staticmethod
    def _findings(findings: list[Mapping[str, str]]) -> None:
        grave = [f for f in findings if f["severity"] != "info"]
        title = f"Findings: {len(grave)} to mind, {len(findings) - len(grave)} notes"
        with (
            ui.expansion(title).classes("rw-card w-full"),
            ui.element("ul").classes("rw-findings"),
        ):
            for finding in [*grave, *(f for f in findings if f["severity"] == "info")]:
                with ui.element("li"):
                    ui.label(f"{finding['severity']}: {finding['message']} ({finding['id']})")
                    if finding["fix"]:
                        ui.label(f"Remedy: {finding['fix']}").classes("rw-quiet")

    @staticmethod
    def _reproduce(started: StartedRun) -> None:
        how = reproduce(started.run, started.file or "design.yaml")
        with ui.expansion("Copy as command or Python").classes("rw-card w-full"):
            code_block("Command").classes("rw-copy-command").set_text(how.command)
            code_block("Python").classes("rw-copy-python").set_text(how.python)

    @staticmethod
    def _limits(assumptions: list[Mapping[str, str]]) -> None:
        with (
            ui.expansion("What this rests on, and what it does not model").classes(
                "rw-card w-full rw-limits"
            ),
            ui.element("ul"),
        ):
            for item in assumptions:
                with ui.element("li"):
                    ui.label(": ".join(str(value) for value in item.values() if value))
