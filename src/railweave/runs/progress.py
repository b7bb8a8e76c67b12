"""Progress and cancelling: observers are told, a token is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from railweave.errors import RailweaveError

__all__ = ["CancelToken", "Cancelled", "Observer", "SilentObserver", "observe"]


class Cancelled(RailweaveError):  # noqa: N818 - it is no fault
    """The work was cancelled before its end; nothing of it was kept."""

    exit_code = 130


class Observer(Protocol):
    """Is told how work goes on. The only progress hook there is.

    ``task`` names the work; ``fraction`` runs from 0 to 1.
    """

    def started(self, task: str) -> None:
        """Work has begun."""

    def advanced(self, task: str, fraction: float) -> None:
        """Work has come this far."""

    def ended(self, task: str, error: BaseException | None) -> None:
        """Work has ended; ``error`` is what ended it early."""


class SilentObserver:
    """Observes without a word."""

    def started(self, task: str) -> None:
        """Ignore the start."""

    def advanced(self, task: str, fraction: float) -> None:
        """Ignore the progress."""

    def ended(self, task: str, error: BaseException | None) -> None:
        """Ignore the end."""


class CancelToken:
    """A wish to stop, which any thread can utter and the work looks at when it suits."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Ask the work to stop."""
        self._event.set()

    def check(self) -> None:
        """Raise Cancelled once cancelled."""
        if self._event.is_set():
            raise Cancelled("cancelled")


def observe(
    task: str, observer: Observer | None = None, token: CancelToken | None = None
) -> Callable[[float], None]:
    """Return a ``progress`` function, as the engines take it, which tells an observer.

    What it raises once ``token`` is cancelled ends the engine's run.
    """

    def progress(fraction: float) -> None:
        if observer is not None:
            observer.advanced(task, fraction)
        if token is not None:
            token.check()

    return progress
