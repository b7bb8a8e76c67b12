"""The command line as a process of its own: interruption, closed pipes, no terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DESIGN = "tests/golden/small.yaml"
COMMAND = [sys.executable, "-c", "from railweave.cli import main; main()"]

#: runs the main job, and interrupts itself at the given step: deterministic, with real signals
INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
from railweave.report import {module} as place
real = place.{name}
def stopped(*args, **options):
    os.kill(os.getpid(), signal.{signal})
    return real(*args, **options)
place.{name} = stopped
sys.argv = ["railweave", "run", {design!r}, "--out", sys.argv[1]]
from railweave.cli import main
main()
"""


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("how", "module", "name"),
    [("SIGTERM", "main_job", "simulate_workload"), ("SIGINT", "output", "record_json")],
)
def test_interrupted_run_says_so_and_leaves_nothing(tmp_path, how, module, name):
    out = tmp_path / "made" / "out"
    script = INTERRUPTED.format(module=module, name=name, signal=how, design=DESIGN)
    ended = subprocess.run(
        [sys.executable, "-c", script, str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if how == "SIGINT":
        assert ended.returncode == 130
        assert ended.stderr == "railweave: interrupted; nothing half-written was left\n"
    else:
        assert ended.returncode == 143
        assert ended.stderr == ""
    assert ended.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_interruption_among_the_renames_waits_for_their_end(tmp_path, monkeypatch):
    from railweave.formats.files import staged

    renamed = []
    real = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        renamed.append(target.name)
        signal.raise_signal(signal.SIGINT)
        return real(self, target)

    def write_both() -> None:
        with staged(tmp_path) as stage:
            stage.write_text("a.txt", "a")
            stage.write_text("b.txt", "b")
            monkeypatch.setattr(Path, "replace", interrupted)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            write_both()
    finally:
        signal.signal(signal.SIGINT, before)
    assert renamed == ["a.txt", "b.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]


def test_files_are_written_from_other_threads_too(tmp_path):
    from railweave.formats.files import staged

    def work() -> None:
        with staged(tmp_path) as stage:
            stage.write_text("a.txt", "a")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert (tmp_path / "a.txt").read_text() == "a"


@pytest.mark.parametrize("arguments", [("build", DESIGN), ("build", DESIGN, "--json")])
def test_reader_that_goes_away_is_no_error(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stdout:
        ended = subprocess.run(
            [*COMMAND, *arguments],
            cwd=ROOT,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 0
    assert ended.stderr == b""


def test_no_terminal_means_no_colour_and_no_progress():
    ended = process("simulate", DESIGN, COLUMNS="80", TERM="dumb")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    assert "\x1b" not in ended.stdout
    assert "gradients" in ended.stdout


def test_progress_shows_on_a_terminal_only():
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    try:
        ended = subprocess.run(
            [*COMMAND, "simulate", DESIGN, "--json"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=60,
            check=False,
        )
        os.set_blocking(ours, False)
        assert ended.returncode == 0
        assert ended.stdout.startswith(b"{")
        with pytest.raises(BlockingIOError):  # --json is for machines: not a word on stderr
            os.read(ours, 1)
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_no_color_is_heeded(no_colour, coloured):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            [*COMMAND, "check", DESIGN],
            cwd=ROOT,
            env={**os.environ, "NO_COLOR": no_colour, "TERM": "xterm", "COLUMNS": "100"},
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        text = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert ("\x1b[33m" in text) is coloured
    assert "warning" in text
