"""Work that takes time: executors, progress, cancelling, and results kept by their content."""

from railweave.runs.executor import Executor, InProcessExecutor, ProcessPool, in_order
from railweave.runs.progress import Cancelled, CancelToken, Observer, SilentObserver, observe
from railweave.runs.store import ResultStore, StoredResult, content_key

__all__ = [
    "CancelToken",
    "Cancelled",
    "Executor",
    "InProcessExecutor",
    "Observer",
    "ProcessPool",
    "ResultStore",
    "SilentObserver",
    "StoredResult",
    "content_key",
    "in_order",
    "observe",
]
