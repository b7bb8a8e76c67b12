"""Running the command line inside the test's own process."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from railweave.cli import main

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return a function that runs the command line in the root of the sources, 80 columns wide."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> Outcome:
        kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        monkeypatch.setattr(sys, "argv", ["railweave", *arguments])
        try:
            with pytest.raises(SystemExit) as end:
                main()
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
        text = capsys.readouterr()
        code = end.value.code
        return Outcome(code if isinstance(code, int) else 0, text.out, text.err)

    return run
