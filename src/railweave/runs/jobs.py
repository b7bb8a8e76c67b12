"""A queue of jobs over worker processes: progress, cancelling, limits, and no work done twice.

A *job* is one owner's wish; a *run* is the work that fulfils it. Jobs with the same key share one
run, and one whose result lies in the store needs none. Owners take turns.

One thread supervises the processes and sleeps until something happens; another tells observers
what changed, so that a slow observer holds up nobody's job.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing import Pipe
from types import TracebackType
from typing import Any, Final, TypeAlias

from railweave.errors import InputError
from railweave.runs._jobs_books import Books, Entry, Run, Watcher
from railweave.runs._jobs_model import (
    Job,
    JobContext,
    JobLimits,
    JobResult,
    JobState,
    QueueFull,
    UnknownJob,
)
from railweave.runs._jobs_news import Teller
from railweave.runs._jobs_pool import Pool, Worker, death
from railweave.runs._jobs_worker import Failure, Task, WorkerSettings, pack
from railweave.runs.progress import Observer
from railweave.runs.store import ResultStore

__all__ = [
    "Job",
    "JobContext",
    "JobLimits",
    "JobQueue",
    "JobResult",
    "JobState",
    "QueueFull",
    "UnknownJob",
    "Work",
]

Work: TypeAlias = Callable[[Any, JobContext], Any]

_LOG: Final = logging.getLogger("railweave.runs")


class JobQueue:
    """Runs jobs in worker processes and remembers how they went. Every method is thread-safe.

    Args:
        workers: processes, each with one job at a time; started when first needed.
        store: where results are kept by their key; without one they stay in memory for as long as
            their job is known.
        limits: of time, memory and numbers.
        preload: modules that a worker imports at its start, so that a first job need not.
        observers: told of every job; ``task`` is the job's id. Called from a thread of the queue.
    """

    def __init__(
        self,
        workers: int = 2,
        store: ResultStore | None = None,
        limits: JobLimits | None = None,
        *,
        preload: Sequence[str] = (),
        observers: Sequence[Observer] = (),
    ) -> None:
        if workers < 1:
            raise InputError(f"workers is {workers}; allowed: at least 1")
        self.limits = limits or JobLimits()
        self.workers = workers
        self._store = store
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._teller = Teller(observers)
        self._books = Books(self.limits, self._teller.tell)
        settings = WorkerSettings(tuple(preload), self.limits.memory_bytes, store)
        self._pool = Pool(workers, settings, self.limits.start_s)
        self._warm = 0
        self._closed = False
        self._supervisor: threading.Thread | None = None
        self._ear, self._bell = Pipe(duplex=False)
        self._rung = False

    def __enter__(self) -> JobQueue:
        """Return the queue itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the queue."""
        self.close()

    # ------------------------------------------------------------ asked from outside

    def submit(
        self,
        kind: str,
        work: Work,
        argument: Any,  # noqa: ANN401 - any picklable value
        key: str,
        owner: str = "",
    ) -> Job:
        """Ask for work; return its job, which is done already where the result is known.

        A job of the same owner and key that still waits or runs is returned as it is; another
        owner's is joined. With a store the result must be what JSON can hold.

        Args:
            kind: a word for what it does.
            work: a function at the top of a module, called as ``work(argument, context)`` in a
                worker; see :class:`JobContext`. It must not start processes.
            argument: picklable.
            key: of :func:`~railweave.runs.content_key` (with a store: exactly that).
            owner: whose job it is.

        Raises:
            QueueFull: too many jobs wait, or this owner has too many.
            InputError: work that cannot be sent to a worker, or a key that is none.
        """
        packed = pack(work, argument)
        document = self._stored(key)
        with self._lock:
            if self._closed:
                raise QueueFull("the queue is closed; no more jobs are taken")
            books = self._books
            if (job := books.live(key, owner)) is not None:
                return job
            run = books.by_key.get(key)
            if run is None:
                # A run may have ended since the store was looked at: then it is there now.
                document = self._stored(key) if document is None else document
                earlier = books.remembered(key) if document is None else None
                if document is not None or earlier is not None:
                    return self._answer(books.enter(kind, key, owner), document, earlier)
            books.refuse_too_many(owner)
            if run is None:
                run = books.by_key[key] = Run(Task(books.number(), kind, key, packed))
            entry = books.enter(kind, key, owner)
            books.join(entry, run)
            self._start_supervisor()
            self._ring()
            return entry.job

    def get(self, job: Job | str, owner: str | None = None) -> Job:
        """Return a job as it stands now, with its result once done.

        Args:
            job: its id or an earlier snapshot.
            owner: if given, jobs of others count as unknown.

        Raises:
            UnknownJob: no such job, it was forgotten, or its result was deleted from the store.
        """
        with self._lock:
            found = self._books.entry(job, owner).job
        return self._with_result(found)

    def status(self, job: Job | str, owner: str | None = None) -> Job:
        """Return a job as :meth:`get` does, without reading its result."""
        with self._lock:
            return replace(self._books.entry(job, owner).job, result=None)

    def jobs(self, owner: str | None = None) -> tuple[Job, ...]:
        """Return the jobs of an owner, or all, oldest first, without their documents."""
        with self._lock:
            return tuple(
                replace(entry.job, result=None, partial=None)
                for entry in self._books.entries.values()
                if not entry.hidden and (owner is None or entry.job.owner == owner)
            )

    def wait(self, job: Job | str, timeout_s: float | None = None) -> Job:
        """Wait for a job's end and return it, or as it stands when the time is over.

        Raises:
            UnknownJob: no such job.
        """
        with self._changed:
            entry = self._books.entry(job)
            self._changed.wait_for(lambda: entry.job.state.ended, timeout_s)
            found = entry.job
        return self._with_result(found)

    def watch(self, job: Job | str, watcher: Watcher) -> Callable[[], None]:
        """Have a function called with every new snapshot of a job; its last is the final one.

        All calls come from a thread of the queue, in order, the first soon, with the present
        snapshot. Snapshots carry no result.

        Returns:
            A function that ends it.

        Raises:
            UnknownJob: no such job.
        """
        with self._lock:
            entry = self._books.entry(job)
            if not entry.job.state.ended:
                entry.watchers.append(watcher)
            self._teller.begin(entry, watcher)

        def end() -> None:
            with self._lock, contextlib.suppress(ValueError):
                entry.watchers.remove(watcher)

        return end

    def cancel(self, job: Job | str, owner: str | None = None) -> Job:
        """Cancel a job; one that has ended stays as it is.

        A waiting job ends at once, and so does one whose run another owner waits for as well. A
        running one ends when its process has stopped or was killed, ``limits.grace_s`` later at
        most, and says ``cancelling`` until then.

        Raises:
            UnknownJob: no such job.
        """
        with self._lock:
            entry = self._books.entry(job, owner)
            run = entry.run
            if run is not None and run.begun and len(run.jobs) == 1:
                if not run.stopping:
                    self._books.change(entry, step="cancelling")
                self._stop(run, "cancel")
            elif run is not None:
                self._drop(entry)
            return replace(entry.job, result=None)

    def forget(self, job: Job | str, owner: str | None = None) -> Job:
        """Cancel a job, which is unknown from then on; raises as :meth:`cancel`."""
        last = self.cancel(job, owner)
        with self._lock:
            self._books.entry(last).hidden = True
        return last

    def warm(self) -> None:
        """Start all worker processes now, so that the first job need not wait for one."""
        with self._lock:
            if not self._closed:
                self._warm = self.workers
                self._start_supervisor()
                self._ring()

    def close(self) -> None:
        """Cancel what waits and runs, end every process, and take no more jobs."""
        with self._lock:
            first, self._closed = not self._closed, True
            for entry in list(self._books.waiting()):
                self._drop(entry)
            for run in list(self._books.runs.values()):
                self._stop(run, "cancel")
            self._ring()
            supervisor = self._supervisor
        if supervisor is not None and supervisor is not threading.current_thread():
            supervisor.join()
        if first:
            self._teller.close()
            self._bell.close()
            self._ear.close()

    def worker_pids(self) -> tuple[int, ...]:
        """Return the ids of the worker processes."""
        return tuple(w.process.pid for w in list(self._pool.workers) if w.process.pid is not None)

    # ------------------------------------------------------------ results

    def _stored(self, key: str) -> Any:  # noqa: ANN401 - what JSON can hold
        """Return the stored document of a key, or None; one that cannot be read counts as none."""
        if self._store is None or not self._store.has(key):
            return None
        try:
            kept = self._store.get(key)
        except InputError as error:
            _LOG.warning("%s", error)
            return None
        return None if kept is None else kept.document

    def _with_result(self, job: Job) -> Job:
        if not job.stored:
            return job
        result = self._stored(job.key)
        if result is None:
            raise UnknownJob(
                f"the result of job {job.id} is no longer in the store; ask for it again"
            )
        return replace(job, result=result)

    def _answer(self, entry: Entry, document: Any, earlier: Job | None) -> Job:  # noqa: ANN401
        """End a new job with a result that is there already (lock held)."""
        result = document if earlier is None else earlier.result
        self._end(
            entry,
            JobState.DONE,
            progress=1.0,
            started_at_s=entry.job.queued_at_s,
            stored=earlier is None,
            reused=True,
            result=None if earlier is None else result,
        )
        return replace(entry.job, result=result)

    # ------------------------------------------------------------ lock held

    def _end(self, entry: Entry, state: JobState, **changes: Any) -> None:  # noqa: ANN401
        self._books.finish(entry, state, **changes)
        self._changed.notify_all()

    def _drop(self, entry: Entry) -> None:
        """Cancel a job whose run nobody has begun or others want too."""
        self._books.leave(entry)
        self._end(entry, JobState.CANCELLED)

    def _stop(self, run: Run, why: str) -> None:
        """Have a run told to stop; nobody joins it any more."""
        if not run.stopping:
            run.stopping, run.deadline = why, time.monotonic() + self.limits.grace_s
            self._books.close_door(run)
            self._ring()

    def _ring(self) -> None:
        """Wake the supervisor."""
        if not self._rung and not self._bell.closed:
            self._rung = True
            self._bell.send_bytes(b"!")

    def _start_supervisor(self) -> None:
        if self._supervisor is None:
            self._supervisor = threading.Thread(
                target=self._supervise, name="railweave-jobs", daemon=True
            )
            self._supervisor.start()

    # ------------------------------------------------------------ the supervisor's thread

    def _supervise(self) -> None:
        try:
            while self._attend():
                pass
        except Exception:
            _LOG.exception("the job queue has stopped")
        finally:
            with self._lock:
                self._closed = True
                runs = {id(e.run): e.run for e in self._books.entries.values() if e.run is not None}
                for run in runs.values():
                    failure = Failure("internal", "the job queue has stopped; a fault of railweave")
                    self._end_run(run, JobState.FAILED, failure)
            for worker in list(self._pool.workers):
                self._pool.kill(worker)
                worker.process.join()

    def _attend(self) -> bool:
        """Do what is to be done now, then wait for the next thing; False at the end."""
        pool = self._pool
        with self._lock:
            self._rung = False
            begun = [] if self._closed else self._begin_runs()
            self._watch_the_time()
            told = [run for run in self._books.runs.values() if run.stopping and not run.told]
            wanted = 0 if self._closed else self._books.waiting_runs() + len(self._books.runs)
            wanted = wanted if self._closed else max(wanted, self._warm)
            if self._closed and not pool.workers:
                return False
        for run, worker in begun:
            pool.give(worker, run.task)
        for run in told:
            run.told = True
            if run.worker is not None:
                pool.cancel(run.worker)
        if self._closed:
            pool.dismiss(self.limits.grace_s)
        pool.grow(wanted)
        self._say_broken()
        dead = pool.wait(self._ear, self._patience_s(), self._heard)
        with self._lock:
            for worker in dead:
                self._lost(worker)
        return True

    def _begin_runs(self) -> list[tuple[Run, Worker]]:
        begun = []
        for worker in self._pool.idle():
            run = self._books.next_run()
            if run is None:
                break
            worker.run = run.task.run
            self._books.begin(run, worker)
            begun.append((run, worker))
        return begun

    def _watch_the_time(self) -> None:
        """Stop runs whose time is over, and kill processes that do not obey."""
        now = time.monotonic()
        for run in list(self._books.runs.values()):
            if run.deadline is None or run.deadline > now or run.worker is None:
                continue
            if run.stopping:
                self._pool.kill(run.worker)
            else:
                self._stop(run, "time")
        self._pool.kill_late(now)

    def _patience_s(self) -> float | None:
        """Return how long nothing needs to be done."""
        with self._lock:
            ends = [
                run.deadline
                for run in self._books.runs.values()
                if run.deadline is not None and run.worker is not None and not run.worker.killed
            ]
        ends += self._pool.deadlines()
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _say_broken(self) -> None:
        """Fail what waits where no worker process can be started."""
        if not self._pool.broken or self._pool.workers:
            return
        failure = Failure("internal", "no worker process can be started; see the server's log")
        with self._lock:
            while (run := self._books.next_run()) is not None:
                self._end_run(run, JobState.FAILED, failure)
            self._warm = 0
        self._pool.forgive()

    def _heard(self, worker: Worker, word: str, number: int, value: Any) -> None:  # noqa: ANN401
        """Take in what a worker says."""
        with self._lock:
            run = self._books.runs.get(number)
            if run is None:
                return
            if word == "progress" and not run.stopping:
                for entry in run.jobs:
                    self._books.change(entry, step=value[0], progress=value[1])
            elif word == "partial":
                for entry in run.jobs:
                    published = entry.job.published + 1
                    self._books.change(entry, partial=value, published=published)
            elif word == "log":
                _LOG.warning("%s", value)
            elif word in {"done", "failed", "cancelled"}:
                worker.run = -1
                if word == "done":
                    result, stored = value
                    self._books.end_run(
                        run, JobState.DONE, progress=1.0, result=result, stored=stored
                    )
                    self._changed.notify_all()
                elif word == "failed":
                    worker.retired = value.kind == "memory"  # its heap is full
                    self._end_run(run, JobState.FAILED, value)
                else:
                    self._end_stopped(run)

    def _lost(self, worker: Worker) -> None:
        """End the run of a worker that has died."""
        run = self._books.runs.get(worker.run)
        if run is not None and run.stopping:
            self._end_stopped(run)
        elif run is not None:
            self._end_run(run, JobState.FAILED, death(worker, run.task.kind))

    def _end_stopped(self, run: Run) -> None:
        if run.stopping != "time":
            self._end_run(run, JobState.CANCELLED, None)
            return
        text = (
            f"this {run.task.kind} job was stopped after {self.limits.time_s:g} s, as long as one "
            "may run; try a smaller design, a shorter time or a coarser engine"
        )
        self._end_run(run, JobState.FAILED, Failure("time", text))

    def _end_run(self, run: Run, state: JobState, failure: Failure | None) -> None:
        changes: dict[str, Any] = {}
        if failure is not None:
            changes = {
                "error": failure.message,
                "error_kind": failure.kind,
                "problems": failure.problems,
            }
            if failure.log:
                _LOG.error("%s job failed:\n%s", run.task.kind, failure.log)
        self._books.end_run(run, state, **changes)
        self._changed.notify_all()
