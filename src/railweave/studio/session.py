"""What a visitor has: the loaded design, kept runs, the pinned baseline. In memory, by visitor."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railweave.studio.lab import Number

if TYPE_CHECKING:
    from railweave.studio.design_jobs import StartedRun

__all__ = ["KeptRun", "Session", "Sessions"]

MOST_SESSIONS = 500
MOST_RUNS = 50
IDLE_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run that the visitor kept: its lab, what it is called, where it is seen, its numbers."""

    number: int
    lab: str
    label: str
    url: str
    numbers: tuple[Number, ...]

    def value(self, key: str) -> Number | None:
        """Return its number of this key, or None."""
        return next((n for n in self.numbers if n.key == key), None)

    def beside(self, numbers: Iterable[Number]) -> dict[str, str]:
        """Say by key what this run's value is, and by how much each of these differs from it."""
        said = {}
        for number in numbers:
            before = self.value(number.key)
            if before is None:
                continue
            told = math.isfinite(number.value) and math.isfinite(before.value)
            if number.value == before.value or (not told and number.text == before.text):
                said[number.key] = "as in the baseline"
            elif before.value and told:
                change = number.value / before.value - 1
                said[number.key] = f"baseline {before.text} ({change:+.1%})"
            else:
                said[number.key] = f"baseline {before.text}"
        return said


@dataclass
class Session:
    """One visitor's state. The only thing of the studio that changes."""

    visitor: str = ""
    design_text: str = ""
    design_name: str = ""
    draft_text: str | None = None  #: of the design page, where it is no good design (yet)
    design_runs: dict[str, object] = field(default_factory=dict)  #: key of a result → what was run
    design_started: StartedRun | None = None  #: the run of the design page that was started last
    dark: bool | None = None
    runs: list[KeptRun] = field(default_factory=list)
    pinned: dict[str, int] = field(default_factory=dict)  #: lab → number of its baseline
    last_run: int = 0
    seen_s: float = 0.0

    def keep(self, lab: str, label: str, url: str, numbers: tuple[Number, ...]) -> KeptRun:
        """Keep a run; the oldest that is not pinned goes when there are too many."""
        self.last_run += 1
        run = KeptRun(self.last_run, lab, label, url, numbers)
        self.runs.append(run)
        while len(self.runs) > MOST_RUNS:
            held = set(self.pinned.values())
            self.runs.remove(next(r for r in self.runs if r.number not in held))
        return run

    def pin(self, run: KeptRun) -> None:
        """Make a run its lab's baseline."""
        self.pinned[run.lab] = run.number

    def unpin(self, lab: str) -> None:
        """Have no baseline."""
        self.pinned.pop(lab, None)

    def baseline(self, lab: str) -> KeptRun | None:
        """Return the lab's pinned run."""
        number = self.pinned.get(lab)
        return next((r for r in self.runs if r.number == number), None)

    def forget(self, number: int) -> None:
        """Drop a kept run."""
        self.runs = [r for r in self.runs if r.number != number]
        self.pinned = {lab: n for lab, n in self.pinned.items() if n != number}


class Sessions:
    """All visitors' sessions, apart from each other; those idle for a day are forgotten.

    Args:
        design_text: what every visitor starts with.
        design_name: what that design's file is called.
    """

    def __init__(self, design_text: str, design_name: str) -> None:
        self._first = (design_text, design_name)
        self._all: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, visitor: str) -> Session:
        """Return a visitor's session, made when first asked for."""
        now = time.monotonic()
        with self._lock:
            session = self._all.get(visitor)
            if session is None:
                session = Session(visitor, *self._first)
                self._all[visitor] = session
            session.seen_s = now
            self._all.move_to_end(visitor)
            while len(self._all) > MOST_SESSIONS or self._oldest_idle(now):
                self._all.popitem(last=False)
        return session

    def _oldest_idle(self, now: float) -> bool:
        first = next(iter(self._all.values()), None)
        return first is not None and now - first.seen_s > IDLE_S

    def __len__(self) -> int:
        return len(self._all)
