"""How a studio is served."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from railweave.errors import InputError

__all__ = ["SHORTEST_TOKEN", "StudioSettings", "check_token", "is_loopback"]

SHORTEST_TOKEN = 16


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(host: str, token: str) -> None:
    """Refuse an open door: no token where others can reach, or one that is easily guessed.

    Raises:
        InputError: that.
    """
    if len(token) < SHORTEST_TOKEN and (token or not is_loopback(host)):
        why = "" if is_loopback(host) else f"{host} can be reached by others, so "
        raise InputError(
            f"--host {host}: {why}a token of at least {SHORTEST_TOKEN} characters is needed; give "
            "it in the environment variable RAILWEAVE_TOKEN, or leave that out and listen on "
            "127.0.0.1"
        )
    if not token.isascii():
        raise InputError("RAILWEAVE_TOKEN: a token is of ASCII characters, as HTTP headers are")


@dataclass(frozen=True)
class StudioSettings:
    """Where the studio listens and what it may use.

    Args:
        host: address; anything but loopback needs a token.
        port: 0 takes a free one.
        token: what other programs and visitors must show; empty on loopback.
        workers: processes that simulate.
        store: where results are kept; None keeps none on disk.

    Raises:
        InputError: no token for an address that others can reach, or a number out of range.
    """

    host: str = "127.0.0.1"
    port: int = 8421
    token: str = ""
    workers: int = 2
    store: Path | None = None

    def __post_init__(self) -> None:
        check_token(self.host, self.token)
        if not 0 <= self.port <= 65535:
            raise InputError(f"--port {self.port}: allowed are 0 (any free one) to 65535")
        if not 1 <= self.workers <= 64:
            raise InputError(f"--workers {self.workers}: allowed are 1 to 64")
