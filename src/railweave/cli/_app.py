"""The command tree: names and order only; each group registers its own commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from railweave.cli import (
    build,
    check,
    collective,
    congest,
    export,
    headroom,
    infer,
    packet,
    pattern,
    plan,
    replay,
    run,
    schema,
    simulate,
    studio,
    transport,
)

__all__ = ["Silenced", "app"]


class Silenced(BaseException):
    """Carries what Typer would answer itself, without a word, up to our own answer."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Commands(TyperGroup):
    """Commands whose Ctrl-C and broken pipes are answered by :func:`railweave.cli.main`."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - click's own signature
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            raise Silenced(error) from None


app = typer.Typer(
    name="railweave",
    cls=Commands,
    help="Build, check and simulate GPU-cluster networks from one design file.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for module in (
    run,
    build,
    check,
    simulate,
    collective,
    pattern,
    plan,
    infer,
    replay,
    headroom,
    congest,
    transport,
    packet,
    export,
    studio,
    schema,
):
    module.register(app)


def _version(asked: bool) -> None:
    if asked:
        from railweave import __version__

        typer.echo(f"railweave {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Build, check and simulate GPU-cluster networks from one design file."""
