"""Work that takes time: executors, progress, cancelling, and results kept by their content."""

from railweave.runs.executor import Executor, InProcessExecutor, ProcessPool, in_order
from railweave.runs.jobs import (
    Job,
    JobContext,
    JobLimits,
    JobQueue,
    JobResult,
    JobState,
    QueueFull,
    UnknownJob,
)
from railweave.runs.progress import Cancelled, CancelToken, Observer, SilentObserver, observe
from railweave.runs.store import ResultStore, StoredResult, content_key

__all__ = [
    "CancelToken",
    "Cancelled",
    "Executor",
    "InProcessExecutor",
    "Job",
    "JobContext",
    "JobLimits",
    "JobQueue",
    "JobResult",
    "JobState",
    "Observer",
    "ProcessPool",
    "QueueFull",
    "ResultStore",
    "SilentObserver",
    "StoredResult",
    "UnknownJob",
    "content_key",
    "in_order",
    "observe",
]
