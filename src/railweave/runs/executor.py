"""Where work runs: in this process or in several. A cluster is one more class of this shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Protocol, TypeVar

from railweave.runs.progress import CancelToken

__all__ = ["Executor", "InProcessExecutor", "ProcessPool", "in_order"]

Item = TypeVar("Item")
Value = TypeVar("Value")


class Executor(Protocol):
    """Runs one function over many items.

    ``run`` yields (item number, value) as they come, in any order; the function and the items must
    be picklable for executors outside this process. An exception in the function comes out of
    ``run`` and ends it. Results never depend on the executor or on its number of workers.
    """

    def run(
        self,
        function: Callable[[Item], Value],
        items: Iterable[Item],
        token: CancelToken | None = None,
    ) -> Iterator[tuple[int, Value]]:
        """Yield (number, value) for every item."""
        ...


class InProcessExecutor:
    """Runs items here, one after the other."""

    def run(
        self,
        function: Callable[[Item], Value],
        items: Iterable[Item],
        token: CancelToken | None = None,
    ) -> Iterator[tuple[int, Value]]:
        """Yield (number, value) in order. Raises Cancelled between two items."""
        for number, item in enumerate(items):
            if token is not None:
                token.check()
            yield number, function(item)


class ProcessPool:
    """Runs items in processes of their own.

    Args:
        workers: processes; None takes one for each core.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers

    def run(
        self,
        function: Callable[[Item], Value],
        items: Iterable[Item],
        token: CancelToken | None = None,
    ) -> Iterator[tuple[int, Value]]:
        """Yield (number, value) as they are done; no more than two items a worker are on the way.

        On an error, a cancel or Ctrl-C items not yet begun are dropped.
        """
        import multiprocessing

        # Forking a process with threads (the native core's, Polars') can deadlock; spawning cannot.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(self.workers, mp_context=context)
        limit = 2 * (self.workers or multiprocessing.cpu_count())
        pending: dict[Future[Value], int] = {}
        source = enumerate(items)
        try:
            while True:
                if token is not None:
                    token.check()
                while len(pending) < limit and (entry := next(source, None)) is not None:
                    pending[pool.submit(function, entry[1])] = entry[0]
                if not pending:
                    return
                done, _ = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=pending.__getitem__):
                    number = pending.pop(future)
                    yield number, future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def in_order(results: Iterable[tuple[int, Value]]) -> list[Value]:
    """Collect what an executor yields, in the items' order."""
    return [value for _, value in sorted(results, key=lambda pair: pair[0])]
