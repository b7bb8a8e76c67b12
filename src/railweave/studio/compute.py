"""Pure functions run beside the event loop, and their values kept: equal calls are made once."""

from __future__ import annotations

import asyncio
import pickle
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["Calculator"]

Value = TypeVar("Value")
MOST_KEPT = 200


class Calculator:
    """Runs functions in a few threads. Used from one event loop only.

    What a slider waits for does not stand in line behind pictures: these go by :meth:`later`, which
    has a thread of its own.

    Args:
        threads: that compute at once, beside the one for what can wait.
    """

    def __init__(self, threads: int = 2) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="studio")
        self._patient = ThreadPoolExecutor(1, thread_name_prefix="studio-later")
        self._kept: OrderedDict[bytes, asyncio.Future[Any]] = OrderedDict()

    async def __call__(self, function: Callable[..., Value], *arguments: object) -> Value:
        """Return the function's value; a call equal to an earlier one gets that one's.

        Args:
            function: of a module, without effects.
            arguments: immutable and picklable; they are the key.
        """
        return await self._of(self._pool, function, arguments)

    async def later(self, function: Callable[..., Value], *arguments: object) -> Value:
        """Return the function's value as a call does; what others wait for goes first."""
        return await self._of(self._patient, function, arguments)

    async def _of(
        self,
        pool: ThreadPoolExecutor,
        function: Callable[..., Value],
        arguments: tuple[object, ...],
    ) -> Value:
        key = _key(function, arguments)
        kept = self._kept.get(key)
        if kept is None:
            loop = asyncio.get_running_loop()
            kept = loop.run_in_executor(pool, function, *arguments)
            self._kept[key] = kept
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        try:
            # Shielded: others may wait for the same value when one of them goes away.
            value: Value = await asyncio.shield(kept)
        except Exception:
            self._kept.pop(key, None)
            raise
        return value

    def known(self, function: Callable[..., Value], *arguments: object) -> Value | None:
        """Return the function's value where an equal call has given one; None otherwise."""
        key = _key(function, arguments)
        kept = self._kept.get(key)
        if kept is None or not kept.done() or kept.cancelled() or kept.exception() is not None:
            return None
        self._kept.move_to_end(key)
        value: Value = kept.result()
        return value

    def close(self) -> None:
        """Begin no more work."""
        for pool in (self._pool, self._patient):
            pool.shutdown(wait=False, cancel_futures=True)


def _key(function: Callable[..., object], arguments: tuple[object, ...]) -> bytes:
    return pickle.dumps((function.__module__, function.__qualname__, arguments))
