"""What a job is to those who ask for it: its states, its limits, its errors, its snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from railweave.errors import InputError, Problem, RailweaveError

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Job",
    "JobContext",
    "JobLimits",
    "JobResult",
    "JobState",
    "QueueFull",
    "UnknownJob",
]


class QueueFull(RailweaveError):  # noqa: N818 - it is no fault
    """No more jobs are taken now; the text says how many there are and what to do.

    ``own`` tells whether it is the owner's own jobs that are too many.
    """

    def __init__(self, message: str, *, own: bool = False) -> None:
        super().__init__(message)
        self.own = own


class UnknownJob(InputError):  # noqa: N818 - as the queue's other answers
    """There is no such job (or it is another owner's, or it was forgotten)."""


class JobState(StrEnum):
    """Where a job stands; the last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing will change any more."""
        return self in _ENDED


_ENDED: Final = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Bounds of a queue; None lifts one.

    Attributes:
        time_s: a job may run so long.
        memory_bytes: a worker may map so much more than it has at its start (address space, not
            resident memory; systems without ``setrlimit`` do not hold it).
        queued: jobs that wait, of all owners together.
        per_owner: jobs of one owner that wait or run.
        kept: jobs that have ended and are still known.
        grace_s: a job told to stop has so long to obey before its process is killed.
        start_s: a worker process may take so long to start.
    """

    time_s: float | None = 900.0
    memory_bytes: int | None = 8 * 2**30
    queued: int = 64
    per_owner: int = 16
    kept: int = 256
    grace_s: float = 0.5
    start_s: float = 60.0

    def __post_init__(self) -> None:
        """Refuse limits that nothing could keep."""
        for name in ("time_s", "memory_bytes", "grace_s", "start_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"JobLimits.{name} is {value}; allowed: above 0")
        for name in ("queued", "per_owner", "kept"):
            value = getattr(self, name)
            if value < 1:
                raise InputError(f"JobLimits.{name} is {value}; allowed: at least 1")


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it stood at one moment.

    Attributes:
        id: unguessable; what :meth:`JobQueue.get` takes.
        key: the hash of what it came from; same key, same result.
        kind: a word for what it does, such as ``simulate``.
        owner: who asked for it.
        state: where it stands.
        progress: the part done, 0 to 1.
        step: what it is at, a word or a short sentence.
        queued_at_s: seconds since 1970, as the other times; None: not yet.
        started_at_s: when a worker took it.
        ended_at_s: when it came to its end.
        error: what went wrong, as a sentence; empty where nothing did.
        error_kind: ``input``, ``engine``, ``time``, ``memory``, ``crash`` or ``internal``.
        problems: of a design, each at its line and column.
        partial: the last document it published while running.
        published: how many it published.
        result: its document once done; None in listings, which carry no documents.
        stored: whether the result lies in the store.
        reused: whether the answer was there already, so that nothing was computed.
        version: grows with every change.
    """

    id: str
    key: str
    kind: str
    owner: str
    state: JobState
    progress: float = 0.0
    step: str = ""
    queued_at_s: float = 0.0
    started_at_s: float | None = None
    ended_at_s: float | None = None
    error: str = ""
    error_kind: str = ""
    problems: tuple[Problem, ...] = ()
    partial: Any = None
    published: int = 0
    result: Any = None
    stored: bool = False
    reused: bool = False
    version: int = 0


class JobContext(Protocol):
    """What a work function is given to speak with those who wait for it.

    Each of these raises :class:`~railweave.runs.Cancelled` once the job is to stop, so that a
    function which calls one of them a few times a second stops soon; one that does not is killed.
    """

    def progress(self, step: str, fraction: float) -> None:
        """Say what is being done and how far the whole has come, 0 to 1."""

    def publish(self, document: Any) -> None:  # noqa: ANN401 - any picklable value
        """Show an intermediate document; it replaces the one before."""

    def check(self) -> None:
        """Stop here where the job is cancelled."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """A work function returns this where tables are to be stored beside its document."""

    document: Any
    tables: Mapping[str, pl.DataFrame] | None = None
