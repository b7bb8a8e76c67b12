"""The command line: thin, one module a command group."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

__all__ = ["main"]

INTERRUPTED = 130
TERMINATED = 143


def _terminate(number: int, frame: object) -> NoReturn:
    """End as an interruption does, so that whatever is half done is cleared away."""
    raise SystemExit(TERMINATED)


def _quit_quietly() -> NoReturn:
    """End where the reader of our output went away (``| head``): no error of ours."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def _run() -> int:
    """Run the command tree and return its exit code."""
    from railweave.cli._app import Silenced, app

    try:
        code = app(prog_name="railweave", standalone_mode=False)
    except Silenced as silenced:
        raise silenced.cause from None
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def main() -> NoReturn:
    """Run the command line; every expected failure ends as one sentence and an exit code."""
    from railweave.errors import DesignError, RailweaveError

    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = _run()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # All is done; nothing is left to interrupt.
        sys.exit(code)
    except RailweaveError as error:
        # Problems of a file read as compilers' do: file:line:col first, one a line.
        text = f"{error}" if isinstance(error, DesignError) else f"railweave: {error}"
        print(text, file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("railweave: interrupted; nothing half-written was left", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        _quit_quietly()
    except OSError as error:
        subject = f"{error.filename}: " if error.filename else ""
        print(f"railweave: {subject}{error.strerror or error}", file=sys.stderr)
        sys.exit(2)
    except MemoryError:
        print("railweave: out of memory; try a smaller design or job", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        _show_usage_error(error)


def _show_usage_error(error: Exception) -> NoReturn:
    """Show an error in how the command was called; anything else is a fault of ours."""
    show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if show is None or not isinstance(code, int):
        if os.environ.get("RAILWEAVE_DEBUG"):
            raise error
        text = str(error).partition("\n")[0]
        print(
            f"railweave: a fault of railweave itself: {type(error).__name__}: {text}; please "
            "report it; with RAILWEAVE_DEBUG=1 in the environment it says where",
            file=sys.stderr,
        )
        sys.exit(1)
    vars(error)["message"] = str(vars(error).get("message", "")).replace("Value error, ", "")
    show()
    sys.exit(code)
