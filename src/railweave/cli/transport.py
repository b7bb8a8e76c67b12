"""``railweave transport``: planes and journeys of a design, and which transport to choose."""

from __future__ import annotations

import typer

from railweave.cli import transport_compare, transport_planes

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group to the app."""
    group = typer.Typer(
        name="transport",
        help="Planes of a design, journeys through them, and which transport to choose.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    for module in (transport_planes, transport_compare):
        module.register(group)
    app.add_typer(group)
