"""Options that the collective algorithms share."""

from __future__ import annotations

from dataclasses import dataclass

from railweave.errors import InputError

__all__ = ["CollectiveOptions", "pipeline"]


@dataclass(frozen=True, slots=True)
class CollectiveOptions:
    """How a collective is cut up.

    ``chunk_bytes`` is the pipelining unit of trees and chains (512 KiB: what NCCL's Simple protocol
    moves at a time by default); no stream is cut into more than ``max_chunks``, so a chunk grows
    beyond it on large sizes: the pipeline then fills more slowly than in practice.
    """

    root: int = 0
    queue_pairs: int = 1
    chunk_bytes: int = 512 * 1024
    max_chunks: int = 1024

    def __post_init__(self) -> None:
        if self.max_chunks < 2 or self.chunk_bytes < 1 or self.queue_pairs < 1:
            raise InputError(
                "collective options: need max_chunks ≥ 2, chunk_bytes ≥ 1 and queue_pairs ≥ 1; "
                f"got {self.max_chunks}, {self.chunk_bytes}, {self.queue_pairs}"
            )


def pipeline(size_bytes: float, options: CollectiveOptions) -> tuple[float, int]:
    """Return (chunk bytes, number of chunks) of a pipelined stream; at least two chunks."""
    wanted = -(-size_bytes // options.chunk_bytes)
    count = int(min(max(wanted, 2), options.max_chunks))
    return size_bytes / count, count
