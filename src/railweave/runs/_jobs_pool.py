"""Worker processes as their parent sees them. Used by one thread only, the queue's supervisor."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from railweave.runs._jobs_worker import Failure, Task, WorkerSettings, worker_main

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

__all__ = ["Pool", "Worker", "death"]

_FAILED_STARTS = 3
#: a retired process may take so long to leave
_LEAVE_S = 2.0
#: messages of one worker that are heard before the others' turn
_AT_ONCE = 64


@dataclass(eq=False, slots=True)
class Worker:
    """One process; ``run`` is the number of the job it works on, -1 when it has none."""

    process: SpawnProcess
    connection: Connection
    deadline: float
    ready: bool = False
    run: int = -1
    killed: bool = False
    retired: bool = False  # takes no more jobs
    dismissed: bool = False

    @property
    def idle(self) -> bool:
        """Whether it can take a job."""
        return self.ready and self.run < 0 and not self.retired


class Pool:
    """Starts, feeds, kills and reaps worker processes.

    Args:
        most: processes at a time.
        settings: of each.
        start_s: a process may take so long until it is ready.
    """

    def __init__(self, most: int, settings: WorkerSettings, start_s: float) -> None:
        self.most, self.settings, self.start_s = most, settings, start_s
        self.workers: list[Worker] = []
        self._failed_starts = 0

    @property
    def broken(self) -> bool:
        """Whether processes die again and again before they are ready."""
        return self._failed_starts >= _FAILED_STARTS

    def forgive(self) -> None:
        """Try to start processes once more."""
        self._failed_starts = 0

    def grow(self, wanted: int) -> None:
        """Have at least ``wanted`` processes, as far as is allowed."""
        import multiprocessing

        # Forking a process with threads (the native core's, Polars') can deadlock; spawning cannot.
        context = multiprocessing.get_context("spawn")
        while self._staff() < min(wanted, self.most) and not self.broken:
            ours, theirs = context.Pipe()
            process = context.Process(
                target=worker_main,
                args=(theirs, self.settings),
                name="railweave-worker",
                daemon=True,  # the interpreter's end takes it along, should nobody close the queue
            )
            process.start()
            theirs.close()  # so that its end is seen as the end of the pipe
            self.workers.append(Worker(process, ours, time.monotonic() + self.start_s))

    def _staff(self) -> int:
        return sum(not worker.retired for worker in self.workers)

    def idle(self) -> list[Worker]:
        """Return those that can take a job."""
        return [worker for worker in self.workers if worker.idle]

    def give(self, worker: Worker, task: Task) -> None:
        """Send a job; one that is dead already is found by :meth:`wait`."""
        worker.run = task.run
        with contextlib.suppress(OSError):
            worker.connection.send(("task", task))

    def cancel(self, worker: Worker) -> None:
        """Ask a worker to stop what it does."""
        with contextlib.suppress(OSError):
            worker.connection.send(("cancel", worker.run))

    def kill(self, worker: Worker) -> None:
        """End a process at once."""
        worker.killed = True
        worker.process.kill()

    def wait(
        self,
        wake: Connection,
        timeout_s: float | None,
        heard: Callable[[Worker, str, int, Any], None],
    ) -> list[Worker]:
        """Wait for messages, deaths or a wake-up; pass messages on and return who has died."""
        by_source: dict[object, Worker] = {}
        for worker in self.workers:
            by_source[worker.connection] = worker
            by_source[worker.process.sentinel] = worker
        ready = wait([wake, *by_source], timeout_s)  # type: ignore[list-item]
        if wake in ready:
            wake.recv_bytes()
        dead = []
        for worker in dict.fromkeys(by_source[source] for source in ready if source is not wake):
            alive = self._hear(worker, heard)
            gone = worker.process.sentinel in ready
            while gone and alive:  # its last words
                alive = self._hear(worker, heard) and worker.connection.poll()
            if gone or not alive:
                self._bury(worker)
                dead.append(worker)
        return dead

    def _hear(self, worker: Worker, heard: Callable[[Worker, str, int, Any], None]) -> bool:
        """Pass on all that has come from a worker; False when its pipe has ended."""
        try:
            for _ in range(_AT_ONCE):
                if not worker.connection.poll():
                    break
                word, run, value = worker.connection.recv()
                if word == "ready":
                    worker.ready, self._failed_starts = True, 0
                    continue
                heard(worker, word, run, value)
        except (EOFError, OSError):
            return False
        return True

    def _bury(self, worker: Worker) -> None:
        worker.process.join(5)
        if worker.process.exitcode is None:  # it closed its pipe and lives on
            worker.process.kill()
            worker.process.join()
        worker.connection.close()
        self.workers.remove(worker)
        if not worker.ready and not worker.retired:
            self._failed_starts += 1

    def dismiss(self, grace_s: float) -> None:
        """Have every worker without a job go; those that have not even started are killed."""
        for worker in self.workers:
            worker.retired = True
            if not worker.ready and not worker.killed:
                self.kill(worker)
        self._dismiss_retired(grace_s)

    def _dismiss_retired(self, grace_s: float) -> None:
        for worker in self.workers:
            if worker.retired and worker.ready and worker.run < 0 and not worker.dismissed:
                worker.dismissed, worker.deadline = True, time.monotonic() + grace_s
                with contextlib.suppress(OSError):
                    worker.connection.send(("stop", None))

    def kill_late(self, now: float) -> None:
        """Kill processes that are too long at starting or at leaving."""
        self._dismiss_retired(_LEAVE_S)
        for worker in self.workers:
            if self._hurried(worker) and worker.deadline <= now:
                self.kill(worker)

    def deadlines(self) -> list[float]:
        """Return when :meth:`kill_late` has something to do (monotonic)."""
        return [worker.deadline for worker in self.workers if self._hurried(worker)]

    @staticmethod
    def _hurried(worker: Worker) -> bool:
        return not worker.killed and (not worker.ready or worker.dismissed)


def death(worker: Worker, kind: str) -> Failure:
    """Say why a job failed whose process died by itself."""
    code = worker.process.exitcode
    if code == -signal.SIGKILL:
        return Failure(
            "memory",
            f"the process of this {kind} job was killed from outside, most likely because memory "
            "ran out; try a smaller design or a shorter time",
        )
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return Failure(
            "crash",
            f"the process of this {kind} job crashed ({name}); a fault of railweave or too little "
            "memory; please report it with its input",
        )
    return Failure(
        "crash", f"the process of this {kind} job ended by itself (exit code {code}) without a word"
    )
