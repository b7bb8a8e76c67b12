"""How a studio is served."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from railweave.errors import InputError

__all__ = ["StudioSettings", "is_loopback"]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
        if not is_loopback(self.host) and len(self.token) < 16:
            raise InputError(
                f"--host {self.host}: others can reach this address, so a token of at least 16 "
                "characters is needed; give it in the environment variable RAILWEAVE_TOKEN, or "
                "listen on 127.0.0.1"
            )
        if not 0 <= self.port <= 65535:
            raise InputError(f"--port {self.port}: allowed are 0 (any free one) to 65535")
        if not 1 <= self.workers <= 64:
            raise InputError(f"--workers {self.workers}: allowed are 1 to 64")
