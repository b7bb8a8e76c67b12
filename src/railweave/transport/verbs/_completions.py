"""Completion queues: where an adapter writes what ended, and software reads it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from railweave.transport.verbs._types import VerbsError, WorkCompletion

__all__ = ["CompletionQueue"]


class CompletionQueue:
    """A ring of ``capacity`` entries.

    A completion that finds it full overruns it: the entry is lost, the queue is in error for good
    and every queue pair that uses it goes to ERR. ``listener`` is called after each entry, as a
    program that polls all the time would see it.
    """

    __slots__ = ("_entries", "capacity", "host", "listener", "lost", "overrun")

    def __init__(self, host: int, capacity: int) -> None:
        if capacity < 1:
            raise VerbsError(f"a completion queue of {capacity} entries; allowed: 1 or more")
        self.host = host
        self.capacity = capacity
        self.overrun = False
        self.lost = 0
        self.listener: Callable[[CompletionQueue], None] | None = None
        self._entries: deque[WorkCompletion] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def full(self) -> bool:
        """Whether the next completion would be lost."""
        return self.overrun or len(self._entries) >= self.capacity

    def push(self, completion: WorkCompletion) -> bool:
        """Write an entry; False where the queue was full and is now overrun, or was before."""
        if self.full:
            self.overrun = True
            self.lost += 1
            return False
        self._entries.append(completion)
        if self.listener:
            self.listener(self)
        return True

    def poll(self, count: int = 1) -> list[WorkCompletion]:
        """Take up to ``count`` entries, oldest first; entries written before an overrun stay."""
        return [self._entries.popleft() for _ in range(min(count, len(self._entries)))]

    def forget(self, qp: int) -> None:
        """Drop the entries of a queue pair that was reset, as the library does."""
        self._entries = deque(each for each in self._entries if each.qp != qp)
