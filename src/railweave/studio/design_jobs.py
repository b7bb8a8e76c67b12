"""The run of a design that a visitor started: its result is kept, whatever becomes of the page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railweave.errors import RailweaveError
from railweave.runs.jobs import Job, JobQueue, JobState, UnknownJob
from railweave.studio.design_run import DesignRun, run_label, run_numbers, run_work
from railweave.studio.run_overlays import DESIGN

if TYPE_CHECKING:
    from railweave.studio.session import KeptRun, Session

__all__ = ["StartedRun", "found_again", "keep", "start"]

#: what was run is known of so many runs
_MOST_RUNS = 60


@dataclass(frozen=True, slots=True)
class StartedRun:
    """What was started: the run, the key of its result, its job's id, the design's file name."""

    run: DesignRun
    key: str
    job: str
    file: str

    @property
    def url(self) -> str:
        """Where its report is."""
        return f"/design/report/{self.key}"


def start(queue: JobQueue, session: Session, run: DesignRun, key: str) -> tuple[StartedRun, Job]:
    """Start a run whose result comes into the visitor's list, whichever page is open by then.

    To be called from an event loop, in which the result is kept.

    Raises:
        QueueFull: no more jobs are taken.
    """
    job = queue.submit("run", run_work, run, key, session.visitor)
    started = StartedRun(run, key, job.id, session.design_name)
    session.design_started = started
    loop = asyncio.get_running_loop()

    def keep_it() -> None:
        try:
            document = queue.get(started.job).result
        except RailweaveError:  # forgotten meanwhile
            return
        if document is not None:
            keep(session, started, document)

    def heard(now: Job) -> None:
        if now.state is JobState.DONE:
            loop.call_soon_threadsafe(keep_it)

    queue.watch(job, heard)
    return started, job


def found_again(queue: JobQueue, session: Session) -> tuple[StartedRun, Job] | None:
    """Return the run that the visitor started last, for a page that is opened anew.

    None where it was cancelled or its job is no longer known, and where it is done and the visitor
    has dropped it from the list since.
    """
    started = session.design_started
    if started is None:
        return None
    try:
        job = queue.status(started.job, session.visitor)
    except UnknownJob:
        return None
    if job.state is JobState.CANCELLED:
        return None
    if job.state is JobState.DONE and _kept(session, started) is None:
        return None
    return started, job


def keep(session: Session, started: StartedRun, document: Mapping[str, Any]) -> KeptRun:
    """Enter a result into the visitor's list, unless the same one is there already."""
    runs = session.design_runs
    runs.pop(started.key, None)
    before = _before(session)
    runs[started.key] = started.run
    while len(runs) > _MOST_RUNS:
        runs.pop(next(iter(runs)))
    kept = _kept(session, started)
    if kept is not None:
        return kept
    label = run_label(started.run, started.file, before)
    return session.keep(DESIGN, label, started.url, run_numbers(document))


def _kept(session: Session, started: StartedRun) -> KeptRun | None:
    mine = (run for run in session.runs if run.lab == DESIGN and run.url == started.url)
    return next(mine, None)


def _before(session: Session) -> DesignRun | None:
    """Return what the baseline ran, or the run before."""
    mine = [run for run in session.runs if run.lab == DESIGN]
    one = session.baseline(DESIGN) or (mine[-1] if mine else None)
    run = session.design_runs.get(one.url.rpartition("/")[2]) if one else None
    return run if isinstance(run, DesignRun) else None
