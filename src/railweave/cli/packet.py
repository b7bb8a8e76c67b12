"""``railweave packet``: RDMA packets, taken apart and followed; each command registers here."""

from __future__ import annotations

import typer

from railweave.cli import packet_decode, packet_journey

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group to the app."""
    group = typer.Typer(
        name="packet",
        help="RDMA packets: explain a capture, follow an operation through a design.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    packet_journey.register(group)
    packet_decode.register(group)
    app.add_typer(group)
