"""The books of the queue: which jobs there are, what they wait for, whose turn it is.

Plain data behind the queue's lock: nothing here waits, starts or kills anything.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from railweave.runs._jobs_model import Job, JobLimits, JobState, QueueFull, UnknownJob
from railweave.runs._jobs_pool import Worker
from railweave.runs._jobs_worker import Task

__all__ = ["Books", "Entry", "Run", "Watcher"]

Watcher: TypeAlias = Callable[[Job], None]


@dataclass(eq=False, slots=True)
class Run:
    """Work to be done once, for all the jobs that wait for it.

    ``stopping`` says why it was told to stop: ``cancel`` or ``time``; ``told`` whether its worker
    has heard; ``deadline`` (monotonic) is when its patience or its time ends.
    """

    task: Task
    jobs: list[Entry] = field(default_factory=list)
    worker: Worker | None = None
    deadline: float | None = None
    stopping: str = ""
    told: bool = False

    @property
    def begun(self) -> bool:
        """Whether a worker has it."""
        return self.worker is not None


@dataclass(eq=False, slots=True)
class Entry:
    """A job in the books: its present snapshot, its run and who watches it.

    A ``hidden`` one is unknown to all who ask.
    """

    job: Job
    run: Run | None = None
    watchers: list[Watcher] = field(default_factory=list)
    hidden: bool = False


class Books:
    """Every job that is known, by id, by key and by owner.

    Args:
        limits: of numbers.
        news: called with every change: the entry and its snapshot before (None: it is new).
    """

    def __init__(self, limits: JobLimits, news: Callable[[Entry, Job | None], None]) -> None:
        self.limits = limits
        self.entries: OrderedDict[str, Entry] = OrderedDict()
        self.by_key: dict[str, Run] = {}  # runs that can be joined
        self.runs: dict[int, Run] = {}  # runs that a worker has
        self._news = news
        self._numbers = itertools.count()
        self._ended: deque[str] = deque()
        self._waiting: OrderedDict[str, deque[Entry]] = OrderedDict()  # by owner, next turn first

    def entry(self, job: Job | str, owner: str | None = None) -> Entry:
        """Find a job. Raises UnknownJob."""
        name = job if isinstance(job, str) else job.id
        entry = self.entries.get(name)
        others = owner is not None and entry is not None and entry.job.owner != owner
        if entry is None or entry.hidden or others:
            raise UnknownJob(
                f"there is no job {name[:40]!r}; of those that have ended the last "
                f"{self.limits.kept} are known"
            )
        return entry

    def enter(self, kind: str, key: str, owner: str) -> Entry:
        """Make a job. Its id cannot be guessed."""
        job = Job(uuid.uuid4().hex, key, kind, owner, JobState.QUEUED, queued_at_s=time.time())
        entry = self.entries[job.id] = Entry(job)
        self._news(entry, None)
        return entry

    def refuse_too_many(self, owner: str) -> None:
        """Raise QueueFull where one more job would be too many."""
        live = [e.job for e in self.entries.values() if not e.job.state.ended]
        mine = sum(job.owner == owner for job in live)
        if mine >= self.limits.per_owner:
            raise QueueFull(
                f"{mine} of your jobs wait or run and {self.limits.per_owner} are allowed; cancel "
                "one or wait for one to end",
                own=True,
            )
        queued = sum(job.state is JobState.QUEUED for job in live)
        if queued >= self.limits.queued:
            raise QueueFull(f"{queued} jobs are waiting, as many as may; try again in a while")

    def live(self, key: str, owner: str) -> Job | None:
        """Return the owner's job of this key that still waits or runs."""
        run = self.by_key.get(key)
        mine = [e.job for e in run.jobs if e.job.owner == owner] if run is not None else []
        return replace(mine[0], result=None) if mine else None

    def remembered(self, key: str) -> Job | None:
        """Return a job that is done with this key and whose result is in memory."""
        for entry in reversed(self.entries.values()):
            job = entry.job
            if job.key == key and job.state is JobState.DONE and not job.stored:
                return job
        return None

    def join(self, entry: Entry, run: Run) -> None:
        """Have a job wait for a run, or take part in one that goes on."""
        entry.run = run
        others = [other.job for other in run.jobs]
        run.jobs.append(entry)
        if not run.begun:
            self._waiting.setdefault(entry.job.owner, deque()).append(entry)
            return
        names = ("progress", "step", "partial", "published", "started_at_s")
        self.change(
            entry,
            state=JobState.RUNNING,
            **{name: getattr(others[0], name) for name in names if others},
        )

    def leave(self, entry: Entry) -> None:
        """Take a job away from its run; a run that nobody waits for is never begun."""
        run = entry.run
        if run is not None:
            run.jobs.remove(entry)
            if not run.jobs and not run.begun:
                self.close_door(run)
        self._unqueue(entry)

    def close_door(self, run: Run) -> None:
        """Let nobody join a run any more."""
        if self.by_key.get(run.task.key) is run:
            del self.by_key[run.task.key]

    def _unqueue(self, entry: Entry) -> None:
        queued = self._waiting.get(entry.job.owner)
        if queued is not None and entry in queued:
            queued.remove(entry)
            if not queued:
                del self._waiting[entry.job.owner]

    def waiting(self) -> Iterator[Entry]:
        """Yield every job that waits."""
        for queued in self._waiting.values():
            yield from queued

    def waiting_runs(self) -> int:
        """Return how many runs wait for a worker."""
        return len({id(entry.run) for entry in self.waiting()})

    def next_run(self) -> Run | None:
        """Return the run whose turn it is; owners take turns, each with its oldest job."""
        if not self._waiting:
            return None
        owner, queued = next(iter(self._waiting.items()))
        self._waiting.move_to_end(owner)
        return queued[0].run

    def begin(self, run: Run, worker: Worker) -> None:
        """Note that a worker has a run: all of its jobs are running."""
        run.worker = worker
        self.runs[run.task.run] = run
        if self.limits.time_s is not None:
            run.deadline = time.monotonic() + self.limits.time_s
        for entry in run.jobs:
            self._unqueue(entry)
            self.change(entry, state=JobState.RUNNING, started_at_s=time.time())

    def change(self, entry: Entry, **changes: Any) -> None:  # noqa: ANN401
        """Put a new snapshot in a job's place and tell who wants to know."""
        before = entry.job
        entry.job = replace(before, version=before.version + 1, **changes)
        self._news(entry, before)

    def finish(self, entry: Entry, state: JobState, **changes: Any) -> None:  # noqa: ANN401
        """End a job; the oldest ended ones are forgotten."""
        entry.run = None
        step = entry.job.step if state is JobState.FAILED else ""
        self.change(entry, state=state, ended_at_s=time.time(), **{"step": step, **changes})
        entry.watchers.clear()
        self._ended.append(entry.job.id)
        while len(self._ended) > self.limits.kept:
            del self.entries[self._ended.popleft()]

    def end_run(self, run: Run, state: JobState, **changes: Any) -> None:  # noqa: ANN401
        """End a run and all of its jobs."""
        self.close_door(run)
        self.runs.pop(run.task.run, None)
        for entry in run.jobs:
            self._unqueue(entry)
            self.finish(entry, state, **changes)
        run.jobs = []

    def number(self) -> int:
        """Return a new number for a run."""
        return next(self._numbers)
