"""``railweave schema``: the JSON Schema of design files, for editors."""

from __future__ import annotations

import typer

from railweave.cli._output import print_json

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def schema() -> None:
        """Print the JSON Schema of design files.

        Example: railweave schema > railweave.schema.json, and name that file in your editor.
        """
        from railweave.design import design_schema

        print_json(design_schema())
