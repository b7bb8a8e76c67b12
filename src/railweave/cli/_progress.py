"""Progress on a terminal; nothing where output is piped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress"]


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Callable[[str, float], None]]:
    """Yield a function ``(step, fraction)``; it draws a bar on stderr when that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda step, fraction: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("start", total=1.0)
        yield lambda step, fraction: bar.update(task, description=step, completed=fraction)
