"""A job of the queue as a page shows it: its progress, a button that cancels it, its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from nicegui import ui

from railweave.errors import EngineError
from railweave.runs.jobs import Job, JobQueue, JobState, Work

__all__ = ["JobView"]

SHOW_EVERY_S = 0.3


class JobView:
    """The one job that a page has at a time; hidden while it has none."""

    def __init__(self, queue: JobQueue, owner: str) -> None:
        self._queue = queue
        self._owner = owner
        self._job: Job | None = None
        self._shown_s = 0.0
        self._box = ui.row(wrap=False).classes("rw-card w-full items-center hidden rw-job")
        with self._box:
            self._bar = ui.linear_progress(value=0.0, show_value=False).props(
                'aria-label="Progress"'
            )
            self._step = ui.label("").classes("rw-quiet").props("role=status")
            ui.button("Cancel", on_click=self.cancel).props("outline dense no-caps")

    def cancel(self) -> None:
        """Cancel what runs, if anything does."""
        if self._job is not None:
            self._queue.cancel(self._job, self._owner)

    async def run(
        self,
        kind: str,
        work: Work,
        argument: object,
        key: str,
        on_partial: Callable[[Any], None] | None,
    ) -> Any | None:  # noqa: ANN401 - what the work returns
        """Run a job to its end; the one before is cancelled. None as :meth:`follow`.

        Raises:
            QueueFull: no more jobs are taken.
            EngineError: the job failed; the text says why.
        """
        return await self.follow(
            self._queue.submit(kind, work, argument, key, self._owner), on_partial
        )

    async def follow(self, job: Job, on_partial: Callable[[Any], None] | None = None) -> Any | None:  # noqa: ANN401 - what the work returns
        """Show a job of this visitor up to its end; the one before is cancelled.

        None where it was cancelled, and where the visitor has left the page: then the job goes on,
        and another page can follow it.

        Raises:
            EngineError: the job failed; the text says why.
        """
        if self._job is not None and self._job.id != job.id:
            self.cancel()
        self._job = job
        loop = asyncio.get_running_loop()
        news: asyncio.Queue[Job] = asyncio.Queue()

        def heard(one: Job) -> None:
            loop.call_soon_threadsafe(news.put_nowait, one)

        end = self._queue.watch(job, heard)
        seen = 0
        try:
            while True:
                now = await news.get()
                if self._follows(job):
                    self._show(now)
                    if on_partial is not None and now.published > seen:
                        seen = now.published
                        on_partial(now.partial)
                if now.state.ended or self._box.is_deleted:
                    break
        finally:
            end()
        if not self._follows(job):
            return None
        self._job = None
        if now.state is JobState.FAILED:
            raise EngineError(now.error)
        return self._queue.get(job).result if now.state is JobState.DONE else None

    def _follows(self, job: Job) -> bool:
        """Whether this is still the page's job, and the page still there."""
        return self._job is not None and self._job.id == job.id and not self._box.is_deleted

    def _show(self, job: Job) -> None:
        if job.state.ended:
            self._box.classes(add="hidden")
            return
        self._box.classes(remove="hidden")
        # Each change is drawn by the whole page: more than a few a second starve the browser.
        now = time.monotonic()
        if now - self._shown_s < SHOW_EVERY_S:
            return
        self._shown_s = now
        self._bar.set_value(job.progress)
        self._step.set_text(job.step or job.state.value)
