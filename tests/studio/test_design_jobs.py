"""A run of the design page outlives the page: it is found again, and its result is kept."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from asyncs import apart

from railweave.runs.jobs import Job, JobState, UnknownJob
from railweave.studio import job_view
from railweave.studio.design_jobs import StartedRun, found_again, keep, start
from railweave.studio.design_run import DesignRun
from railweave.studio.job_view import JobView
from railweave.studio.session import Session

RUN = DesignRun("name: x", "flow", ("spine-1",))
DOCUMENT = {
    "record": {
        "jobs": [{"name": "train", "time_s": 2.0, "busbw_Bps": 3e9}],
        "makespan_s": 2.0,
        "summary": {"capacity": {"bisection_bps": 1e12}},
    }
}


class _Queue:
    """A queue of one job, whose state the test sets."""

    def __init__(self) -> None:
        self.job = Job("j1", "k", "run", "me", JobState.RUNNING, queued_at_s=0.0)
        self.watchers: list = []
        self.submitted: list = []

    def submit(self, kind, work, argument, key, owner):
        self.submitted.append((argument, key, owner))
        return self.job

    def watch(self, job, watcher):
        self.watchers.append(watcher)
        watcher(self.job)
        return lambda: None

    def status(self, job, owner=None):
        if getattr(job, "id", job) != self.job.id or owner not in (None, self.job.owner):
            raise UnknownJob("there is no such job")
        return self.job

    get = status

    def end(self, state: JobState, **more) -> None:
        self.job = Job("j1", "k", "run", "me", state, queued_at_s=0.0, **more)
        watchers, self.watchers = self.watchers, []
        for watcher in watchers:
            watcher(self.job)


def _started(queue: _Queue, session: Session, state: JobState, **more) -> None:
    """Start a run, end it, and let the loop do what was asked of it."""

    async def go() -> None:
        start(queue, session, RUN, "k")
        queue.end(state, **more)
        await asyncio.sleep(0)

    apart(go())


def test_a_result_is_kept_without_any_page():
    queue, session = _Queue(), Session("me", design_name="mine.yaml")
    _started(queue, session, JobState.DONE, result=DOCUMENT)
    (kept,) = session.runs
    assert kept.url == "/design/report/k"
    assert kept.label == "mine, flow, without spine-1"
    assert kept.value("makespan").value == 2.0
    assert session.design_runs == {"k": RUN}


def test_a_run_that_goes_on_or_has_ended_is_found_again():
    queue, session = _Queue(), Session("me")

    async def go() -> None:
        start(queue, session, RUN, "k")

    apart(go())
    assert session.runs == []
    started, job = found_again(queue, session)
    assert (started.run, job.state) == (RUN, JobState.RUNNING)
    queue = _Queue()
    _started(queue, session, JobState.DONE, result=DOCUMENT)
    assert found_again(queue, session)[1].state is JobState.DONE
    queue = _Queue()
    _started(queue, session, JobState.FAILED, error="no memory")
    assert found_again(queue, session)[1].error == "no memory"


def test_what_was_cancelled_dropped_or_forgotten_is_not_found():
    queue, session = _Queue(), Session("me")
    assert found_again(queue, session) is None
    _started(queue, session, JobState.CANCELLED)
    assert found_again(queue, session) is None
    queue = _Queue()
    _started(queue, session, JobState.DONE, result=DOCUMENT)
    session.forget(session.runs[0].number)
    assert found_again(queue, session) is None
    session.design_started = StartedRun(RUN, "k", "another", "")
    assert found_again(queue, session) is None


def test_a_result_is_kept_once():
    session = Session("me")
    started = StartedRun(RUN, "k", "j1", "mine.yaml")
    assert keep(session, started, DOCUMENT) == keep(session, started, DOCUMENT)
    assert len(session.runs) == 1


# ---------------------------------------------------------------- the view of a job


class _Element:
    """Stands for any element of a page; using it once its page is gone is an error."""

    def __init__(self, page: SimpleNamespace) -> None:
        self.page = page

    def __getattr__(self, name: str):
        if self.page.gone:
            raise RuntimeError("Client has been deleted")
        return lambda *_, **__: self

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @property
    def is_deleted(self) -> bool:
        return self.page.gone


@pytest.fixture
def place(monkeypatch):
    place = SimpleNamespace(gone=False)
    fake = SimpleNamespace(
        **{name: lambda *_, **__: _Element(place)
           for name in ("row", "linear_progress", "label", "button")}
    )  # fmt: skip
    monkeypatch.setattr(job_view, "ui", fake)
    return place


def test_a_view_of_a_page_that_is_gone_shows_nothing_and_leaves_the_job(place):
    queue = _Queue()
    view = JobView(queue, "me")

    async def go():
        task = asyncio.create_task(view.follow(queue.job))
        await asyncio.sleep(0.01)
        place.gone = True
        queue.end(JobState.DONE, result=DOCUMENT)
        return await task

    assert apart(go()) is None
    assert queue.job.state is JobState.DONE


def test_a_view_follows_a_job_that_has_ended(place):
    queue = _Queue()
    queue.end(JobState.DONE, result=DOCUMENT)
    assert apart(JobView(queue, "me").follow(queue.job)) == DOCUMENT
