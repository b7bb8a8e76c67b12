"""Tells watchers and observers of a queue what changed, in order, from a thread of its own."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from railweave.errors import RailweaveError
from railweave.runs._jobs_books import Entry, Watcher
from railweave.runs._jobs_model import Job, JobState
from railweave.runs.progress import Cancelled, Observer

__all__ = ["Teller"]

_LOG: Final = logging.getLogger("railweave.runs")


class _News(NamedTuple):
    """A change to tell: the snapshot, the one before, who watches the job, whether all observe."""

    job: Job
    before: Job | None
    watchers: tuple[Watcher, ...]
    public: bool


class Teller:
    """The thread that calls watchers and observers; what they raise is logged and does no harm."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)
        self._news: queue.SimpleQueue[_News | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def tell(self, entry: Entry, before: Job | None) -> None:
        """Have a change told to all who want to know (the queue's lock is held)."""
        if entry.watchers or self._observers:
            self._put(_News(_bare(entry.job), before, tuple(entry.watchers), public=True))

    def begin(self, entry: Entry, watcher: Watcher) -> None:
        """Have a new watcher told how its job stands (the queue's lock is held)."""
        present = _bare(entry.job)
        self._put(_News(present, present, (watcher,), public=False))

    def _put(self, news: _News) -> None:
        self._news.put(news)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="railweave-news", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Tell what is left, then end the thread."""
        thread = self._thread
        if thread is not None:
            self._news.put(None)
            if thread is not threading.current_thread():
                thread.join()

    def _run(self) -> None:
        while (news := self._news.get()) is not None:
            for watcher in news.watchers:
                try:
                    watcher(news.job)
                except Exception:
                    _LOG.exception("a watcher of job %s failed", news.job.id)
            for observer in self._observers if news.public else ():
                try:
                    _observe(observer, news.job, news.before)
                except Exception:
                    _LOG.exception("an observer of job %s failed", news.job.id)


def _bare(job: Job) -> Job:
    return replace(job, result=None)


def _observe(observer: Observer, job: Job, before: Job | None) -> None:
    """Tell an observer what has changed between two snapshots."""
    if before is None:
        return
    if before.started_at_s is None and job.started_at_s is not None:
        observer.started(job.id)
    if job.progress != before.progress:
        observer.advanced(job.id, job.progress)
    if job.state.ended:
        error: RailweaveError | None = None
        if job.state is JobState.FAILED:
            error = RailweaveError(job.error)
        elif job.state is JobState.CANCELLED:
            error = Cancelled("cancelled")
        observer.ended(job.id, error)
