"""Who may use the API, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass

from railweave.studio.settings import check_token, is_loopback

__all__ = ["ApiSettings"]


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Limits of the API. Those of jobs (time, memory, numbers) are the queue's own.

    Attributes:
        host: the address the server is bound to; anything but loopback needs a token.
        token: what ``Authorization: Bearer`` must carry; empty on loopback: none is asked for.
        body_bytes: largest body of a request.
        body_time_s: a body must arrive within this.
        gpus: most GPUs of a design.
        hosts: most hosts of a design, storage servers and extra hosts included.
        links: most network links of a design, over all planes.
        quick_time_s: checking or building may take so long.
        quick_memory_bytes: and map so much memory.
        requests_per_s: of one client address, in the long run.
        burst: requests a client may make at once.
        streams: event streams open at a time, of all clients.
        most_problems: of one answer.

    Raises:
        InputError: no token, or a short one, for an address that others can reach.
    """

    host: str = "127.0.0.1"
    token: str = ""
    body_bytes: int = 2**20
    body_time_s: float = 10.0
    gpus: int = 32_768
    hosts: int = 32_768
    links: int = 400_000
    quick_time_s: float = 20.0
    quick_memory_bytes: int = 4 * 2**30
    requests_per_s: float = 20.0
    burst: int = 100
    streams: int = 64
    most_problems: int = 100

    def __post_init__(self) -> None:
        """Refuse an open door."""
        check_token(self.host, self.token)

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)
