"""``railweave studio``: the workbench in the browser."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]

FIRST_EXAMPLE = "superpod-h100-1su"


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def studio(  # noqa: PLR0917 - the options of a command
        design: Annotated[
            Path | None, typer.Argument(help="Design to begin with; an example where left out.")
        ] = None,
        host: Annotated[
            str, typer.Option("--host", help="Address; others than loopback need RAILWEAVE_TOKEN.")
        ] = "127.0.0.1",
        port: Annotated[int, typer.Option("--port", help="0 takes a free one.")] = 8421,
        workers: Annotated[int, typer.Option("--workers", help="Processes that simulate.")] = 2,
        store: Annotated[
            Path | None, typer.Option("--store", help="Folder in which results are kept.")
        ] = None,
        browser: Annotated[
            bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
        ] = True,
    ) -> None:
        """Serve the studio: labs, design editor and REST API.

        Example: railweave studio examples/superpod-h100-4su.yaml
        """
        from railweave.cli._output import print_text
        from railweave.errors import MissingProgramError
        from railweave.studio import StudioSettings

        if find_spec("nicegui") is None:
            raise MissingProgramError(
                "the studio needs NiceGUI, which is not installed; "
                "install it with: pip install 'railweave[studio]'"
            )
        settings = StudioSettings(host, port, os.environ.get("RAILWEAVE_TOKEN", ""), workers, store)
        from railweave.studio.serve import serve

        text, name = _design(design)

        def ready(address: str) -> None:
            print_text(f"The studio is at {address} (Ctrl-C ends it)")
            if browser:
                import webbrowser

                webbrowser.open(address)

        serve(settings, text, name, ready=ready)


def _design(path: Path | None) -> tuple[str, str]:
    """Return the text and the name of what the studio begins with."""
    from railweave.studio.designs import examples, open_design, open_locally

    if path is not None:
        from railweave.api import load

        load(path)  # a bad file is answered here, not in the browser
        return open_locally(path), path.name
    found = {example.name: example for example in examples()}
    first = found.get(FIRST_EXAMPLE) or next(iter(found.values()))
    open_design(first.text)
    return first.text, f"{first.name}.yaml"
