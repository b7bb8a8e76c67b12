"""What the first step of `make run` answers on a machine that lacks something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "make-venv"


def answer(folder: Path, python: str = sys.executable, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        [SCRIPT, python, folder],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **env},
        check=False,
    )
    return done.returncode, done.stderr


def executable(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def none(tmp_path: Path) -> Path:
    """A folder that must not be there afterwards: half an environment would pass for a whole."""
    return tmp_path / "venv"


def test_python_that_is_not_there(none: Path) -> None:
    code, said = answer(none, python="python-of-nowhere")
    assert code == 3
    assert "there is no 'python-of-nowhere'" in said
    assert "make PYTHON=" in said
    assert not none.exists()


def test_python_that_is_too_old(none: Path, tmp_path: Path) -> None:
    old = executable(tmp_path / "python", '[ "$1" = -V ] && echo Python 3.9.2 && exit\nexit 1')
    code, said = answer(none, python=old)
    assert code == 3
    assert "Python 3.9.2; 3.11 or newer is needed" in said
    assert not none.exists()


def test_compiler_that_is_not_there_or_too_old(none: Path, tmp_path: Path) -> None:
    code, said = answer(none, CXX="compiler-of-nowhere")
    assert code == 3
    assert "CXX names no compiler: 'compiler-of-nowhere'" in said
    code, said = answer(none, CXX=executable(tmp_path / "cxx", "exit 1"))
    assert code == 3
    assert "does not take C++20" in said
    assert not none.exists()
