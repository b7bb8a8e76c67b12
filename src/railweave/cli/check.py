"""``railweave check``: can it be built, is it wise."""

from __future__ import annotations

import typer

from railweave.cli._options import DesignFile, Fail, Json, Strict
from railweave.cli._output import exit_code, print_findings, print_json

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def check(
        design: DesignFile, fail: Fail = None, strict: Strict = False, json: Json = False
    ) -> None:
        """Check a design: findings with evidence and fix; exit code 1 where one is an error.

        Example: railweave check examples/superpod-h100-4su.yaml --strict
        """
        from railweave.api import load
        from railweave.report.documents import check_json

        findings = load(design).build().fail(fail or ()).check()
        if json:
            print_json(check_json(findings))
        else:
            print_findings(findings)
        raise typer.Exit(exit_code(findings, strict=strict))
