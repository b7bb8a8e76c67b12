"""Serves the studio until it is stopped."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Callable

from railweave.errors import InputError
from railweave.studio.settings import StudioSettings, is_loopback

__all__ = ["serve"]


def serve(
    settings: StudioSettings,
    design_text: str,
    design_name: str,
    *,
    ready: Callable[[str], None],
) -> None:
    """Serve until interrupted; ``ready`` is given the address once it can be opened.

    Raises:
        InputError: the port is taken, or the address is not this machine's.
    """
    listening = _listen(settings)
    # NiceGUI writes visitors' storage there, if anything; never into the user's folder.
    os.environ.setdefault("NICEGUI_STORAGE_PATH", tempfile.gettempdir())
    import uvicorn

    from railweave.studio.app import create_app

    app = create_app(settings, design_text, design_name)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    port = listening.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host

    class Announcing(uvicorn.Server):
        """Says so when it answers."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready(f"http://{host}:{port}/")

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="on",
        ws_per_message_deflate=not is_loopback(settings.host),  # costs more than loopback does
    )
    Announcing(config).run(sockets=[listening])


def _listen(settings: StudioSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
    except OSError as error:
        sock.close()
        raise InputError(
            f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}; "
            "choose another with --port (0 takes any free one)"
        ) from None
    return sock
