"""The command line: thin, one module a command group."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]

INTERRUPTED = 130


def main() -> None:
    """Run the command line; every expected failure ends as one sentence and an exit code."""
    from railweave.cli._app import app
    from railweave.errors import RailweaveError

    try:
        app(prog_name="railweave")
    except RailweaveError as error:
        print(f"railweave: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("railweave: interrupted; nothing half-written was left", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (| head): not an error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        subject = f"{error.filename}: " if error.filename else ""
        print(f"railweave: {subject}{error.strerror or error}", file=sys.stderr)
        sys.exit(2)
