"""What a lab is, and the few things that every lab shows. A lab is one module that has a `Lab`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railweave.errors import RailweaveError

if TYPE_CHECKING:
    from railweave.studio.page import LabPage

__all__ = ["Lab", "Number", "Reproduce", "TraceRow", "fault_text", "sentence"]


@dataclass(frozen=True, slots=True)
class Number:
    """One quantity on screen.

    ``key`` is its name in the glossary (``studio/content/quantities.yaml``), ``text`` the value
    with its unit as :mod:`railweave.units` writes it, ``value`` the same as a plain SI number.
    """

    key: str
    label: str
    text: str
    value: float


@dataclass(frozen=True, slots=True)
class Reproduce:
    """What makes the numbers on screen outside the studio: a command line, and Python."""

    command: str
    python: str


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One moment: seconds from the start, the device or rank, what happens."""

    time_s: float
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab, registered under its key in the entry points' group ``railweave.labs``.

    ``number`` is its place on the line of circles; None for a page beside the line, which home and
    the labs whose keys ``beside`` names lead to. ``hue`` (0 to 359) is that of its circle.
    ``build`` fills a page; None where the lab's engine is not there yet, and ``missing`` says so.
    """

    number: int | None
    key: str
    title: str
    summary: str
    hue: int
    build: Callable[[LabPage], None] | None
    missing: str = ""
    beside: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its title, behind its number where it has one."""
        return self.title if self.number is None else f"{self.number} · {self.title}"


def sentence(text: str) -> str:
    """End a text with a full stop, so that another can follow; errors end without one."""
    text = text.rstrip()
    return text if not text or text[-1] in ".!?…" else f"{text}."


def fault_text(error: Exception) -> str:
    """Say to a visitor what went wrong: what railweave refuses, or that it is at fault itself."""
    if isinstance(error, RailweaveError):
        return str(error)
    return f"A fault of railweave ({type(error).__name__}); the server's log has more."
