"""The inside of a worker process: takes one job after the other and speaks over a pipe.

The main thread works; a second one listens, so that a cancel arrives while the work runs and the
process ends when its parent does.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import queue
import signal
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from railweave.errors import DesignError, EngineError, InputError, Problem, SizingError
from railweave.runs._jobs_model import JobResult
from railweave.runs.progress import Cancelled, CancelToken

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from railweave.runs.store import ResultStore

__all__ = ["Failure", "Task", "WorkerSettings", "describe", "pack", "worker_main"]

#: progress within one step is passed on at most this often
_NEWS_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker needs to know at its start."""

    preload: tuple[str, ...]
    memory_bytes: int | None
    store: ResultStore | None


@dataclass(frozen=True, slots=True)
class Task:
    """One job on its way to a worker; ``work`` is (function, argument), pickled."""

    run: int
    kind: str
    key: str
    work: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job failed; ``log`` is for the server's log only."""

    kind: str
    message: str
    problems: tuple[Problem, ...] = ()
    log: str = ""


@dataclass(slots=True)
class _Now:
    """The job at hand, shared by both threads."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    run: int = -1
    token: CancelToken = field(default_factory=CancelToken)
    early: set[int] = field(default_factory=set)  # cancelled before they began


class _Context:
    """The context of one job; see :class:`~railweave.runs._jobs_model.JobContext`."""

    def __init__(self, connection: Connection, run: int, token: CancelToken) -> None:
        self._connection, self._run, self._token = connection, run, token
        self._lock = threading.Lock()
        self._step, self._told = "", 0.0

    def check(self) -> None:
        self._token.check()

    def progress(self, step: str, fraction: float) -> None:
        self._token.check()
        fraction = min(1.0, max(0.0, float(fraction)))
        with self._lock:
            now = time.monotonic()
            if step == self._step and now - self._told < _NEWS_S and fraction < 1:
                return
            self._step, self._told = step, now
            self._connection.send(("progress", self._run, (str(step), fraction)))

    def publish(self, document: Any) -> None:  # noqa: ANN401 - any picklable value
        self._token.check()
        with self._lock:
            self._connection.send(("partial", self._run, document))


def worker_main(connection: Connection, settings: WorkerSettings) -> None:
    """Work until told to stop or until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    for module in settings.preload:
        importlib.import_module(module)
    _limit(settings.memory_bytes)
    now = _Now()
    tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, tasks, now), daemon=True).start()
    connection.send(("ready", -1, None))
    while (task := tasks.get()) is not None:
        token = CancelToken()
        with now.lock:
            now.run, now.token = task.run, token
            if task.run in now.early:
                token.cancel()
            now.early.clear()
        outcome, value = _work(connection, task, token, settings.store)
        try:
            connection.send((outcome, task.run, value))
        except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
            failure = Failure(
                "internal",
                f"the result of this {task.kind} job cannot be passed on "
                f"({type(error).__name__}); a fault of railweave",
                log=traceback.format_exc(),
            )
            connection.send(("failed", task.run, failure))
    connection.close()


def _listen(connection: Connection, tasks: queue.SimpleQueue[Task | None], now: _Now) -> None:
    while True:
        try:
            word, value = connection.recv()
        except (EOFError, OSError):
            os._exit(1)  # the parent is gone: nobody wants this work
        if word == "task":
            tasks.put(value)
        elif word == "cancel":
            with now.lock:
                if now.run == value:
                    now.token.cancel()
                else:
                    now.early.add(value)
        else:
            tasks.put(None)
            return


def _work(
    connection: Connection, task: Task, token: CancelToken, store: ResultStore | None
) -> tuple[str, Any]:
    """Do one job; return the word and the value of its last message."""
    try:
        token.check()
        function, argument = pickle.loads(task.work)
        result = function(argument, _Context(connection, task.run, token))
        tables = None
        if isinstance(result, JobResult):
            result, tables = result.document, result.tables
        if store is None:
            return "done", (result, False)
        try:
            store.put(task.key, result, tables)
        except (OSError, InputError) as error:  # a full disk, say: the answer is good all the same
            connection.send(("log", task.run, f"a result could not be stored: {error}"))
            return "done", (result, False)
        return "done", (None, True)
    except Cancelled:
        return "cancelled", None
    except MemoryError:
        return "failed", Failure(
            "memory",
            f"this {task.kind} job needs more memory than a worker may use; try a smaller design, "
            "a shorter time or a coarser engine",
        )
    except Exception as error:
        return "failed", describe(error, task.kind)


def describe(error: Exception, kind: str) -> Failure:
    """Say in a sentence what an exception means; faults of ours keep their details for the log."""
    if isinstance(error, DesignError):
        return Failure("input", str(error), error.problems)
    if isinstance(error, SizingError):
        return Failure("input", str(error), (error.problem,))
    if isinstance(error, InputError):
        return Failure("input", str(error))
    if isinstance(error, EngineError):
        return Failure("engine", str(error))
    return Failure(
        "internal",
        f"this {kind} job met a fault of railweave ({type(error).__name__}); please report it with "
        "its input",
        log="".join(traceback.format_exception(error)),
    )


def _limit(memory_bytes: int | None) -> None:
    """Bound this process, and let the system take it first where memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    try:
        import resource
    except ImportError:  # a system without it
        return
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is None:
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted = _mapped_bytes() + memory_bytes
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (wanted, wanted))


def _mapped_bytes() -> int:
    """Return the address space in use: threads' stacks and libraries, little of it touched."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def pack(function: object, argument: object) -> bytes:
    """Pickle a piece of work.

    Raises:
        InputError: it cannot be: no function at the top of a module, or an argument that holds an
            open file, say.
    """
    try:
        return pickle.dumps((function, argument), protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
        raise InputError(
            f"this work cannot be sent to a worker ({error}); the function must stand at the top "
            "of a module and its argument must be picklable"
        ) from None
