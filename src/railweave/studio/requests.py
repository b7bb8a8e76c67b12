"""What the guards of the studio and of the REST API need of a request: headers, sites, bodies."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope

__all__ = ["BodyTooLarge", "headers_of", "host_name", "is_foreign", "read_body", "replay", "same"]


class BodyTooLarge(Exception):  # noqa: N818 - it is the client's
    """A body is longer than allowed."""


def headers_of(scope: Scope) -> dict[str, str]:
    """Return a request's headers, their names in lower case."""
    return {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}


def host_name(headers: dict[str, str]) -> str:
    """Return the host that a request names, without port and brackets; raises ValueError."""
    host = headers.get("host", "")
    return (urlsplit(f"//{host}").hostname or "") if host else ""


def is_foreign(headers: dict[str, str]) -> bool:
    """Whether a page of another site sends this; raises ValueError for what cannot be read.

    Another port of the same machine is another site.
    """
    origin = headers.get("origin", "")
    return bool(origin) and urlsplit(origin).netloc != headers.get("host")


def same(given: str, token: str) -> bool:
    """Compare with a token in a time that does not tell how much of it is right."""
    return hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())


async def read_body(receive: Receive, most_bytes: int) -> bytes | None:
    """Read a body, its length stated or not, and stop as soon as it is too long.

    Returns:
        The body; None where the client has gone.

    Raises:
        BodyTooLarge: it is longer than ``most_bytes``.
    """
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > most_bytes:
            raise BodyTooLarge
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def replay(body: bytes, receive: Receive) -> Receive:
    """Give the body that was read, then whatever comes (that the client has gone)."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
