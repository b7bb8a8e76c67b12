"""Running coroutines where a browser test may have left an event loop in the thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

Value = TypeVar("Value")


def apart(work: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine to its end in a thread of its own: Playwright's loop stays in the test's."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
