"""Jobs awaited from an event loop: their end, or each change as a server-sent event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Final

from railweave.runs.jobs import Job, JobQueue, UnknownJob

__all__ = ["Streams", "ended", "events"]

#: a comment is sent this often, so that proxies keep the connection and we notice who left
_BEAT_S: Final = 15.0


async def ended(queue: JobQueue, job: Job) -> Job:
    """Return a job, with its result, once it has ended."""
    if not job.state.ended:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def look(snapshot: Job) -> None:
            if snapshot.state.ended:
                loop.call_soon_threadsafe(done.set)

        end = queue.watch(job, look)
        try:
            await done.wait()
        finally:
            end()
    elif job.result is not None:
        return job
    return await asyncio.to_thread(queue.get, job)


class Streams:
    """Counts the event streams that are open."""

    def __init__(self, most: int) -> None:
        self.most, self.open = most, 0

    @property
    def full(self) -> bool:
        """Whether no more may be opened."""
        return self.open >= self.most


async def events(
    queue: JobQueue, job: Job, streams: Streams, show: Callable[[Job], object]
) -> AsyncIterator[bytes]:
    """Yield every change of a job as an event, the last when it has ended.

    A reader that is slow misses what lies between: the newest snapshot replaces those before.
    """
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    newest: list[Job] = []

    def note(snapshot: Job) -> None:
        newest[:] = [snapshot]
        changed.set()

    def look(snapshot: Job) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(note, snapshot)

    try:
        end = queue.watch(job, look)
    except UnknownJob:  # forgotten since it was asked for
        return
    streams.open += 1
    try:
        while True:
            try:
                async with asyncio.timeout(_BEAT_S):
                    await changed.wait()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            changed.clear()
            snapshot = newest[0]
            data = json.dumps(show(snapshot), allow_nan=False, separators=(",", ":"))
            yield f"event: job\nid: {snapshot.version}\ndata: {data}\n\n".encode()
            if snapshot.state.ended:
                return
    finally:
        end()
        streams.open -= 1
