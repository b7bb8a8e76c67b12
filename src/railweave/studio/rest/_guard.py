"""Middleware before everything else: who may speak, how often, and how much at once.

Pure ASGI: it must see the body before anything has read it, and must not hold up event streams.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from railweave.studio.requests import (
    BodyTooLarge,
    headers_of,
    host_name,
    is_foreign,
    read_body,
    replay,
    same,
)
from railweave.studio.rest._errors import ApiError, error_bytes
from railweave.studio.rest._models import ErrorKind
from railweave.studio.settings import is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from railweave.studio.rest.settings import ApiSettings

__all__ = ["Guard"]

_CLIENTS: Final = 10_000
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class _Rate:
    """A bucket of requests for each client address; the least recent clients are forgotten."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s, self._burst = per_s, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, client: str) -> float:
        """Take one request out; return 0, or how long until there is one."""
        now = time.monotonic()
        left, then = self._buckets.pop(client, (float(self._burst), now))
        left = min(float(self._burst), left + (now - then) * self._per_s)
        wait = 0.0 if left >= 1 else (1 - left) / self._per_s
        self._buckets[client] = (left if wait else left - 1, now)
        if len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)
        return wait


class Guard:
    """Refuses, in a sentence: wrong hosts and origins, no token, too often, too much.

    ``/health`` needs no token. ``bodies`` are the paths that take a body by POST: only there its
    type matters, as all others have nothing to say but which methods they take.
    """

    def __init__(self, app: ASGIApp, settings: ApiSettings, bodies: frozenset[str]) -> None:
        self._app, self._settings, self._bodies = app, settings, bodies
        self._rate = _Rate(settings.requests_per_s, settings.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, its body read, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = headers_of(scope)
        try:
            self._check_site(scope, headers)
            self._check_token(scope, headers)
            self._check_rate(scope)
            body = await self._body(scope, headers, receive)
        except ApiError as error:
            await _answer(error, send)
            return
        if body is not None:
            await self._app(scope, replay(body, receive), send)

    def _check_site(self, scope: Scope, headers: dict[str, str]) -> None:
        """Refuse pages of other sites, and names made to point here (DNS rebinding)."""
        try:
            host, foreign = host_name(headers), is_foreign(headers)
        except ValueError:
            text = "the Host or Origin header cannot be read"
            raise ApiError(400, ErrorKind.REQUEST, text) from None
        if self._settings.loopback and not is_loopback(host):
            text = "this server answers on loopback only; use 127.0.0.1 or localhost"
            raise ApiError(403, ErrorKind.ORIGIN, text)
        if scope["method"] in _SAFE:
            return
        fetched_from = headers.get("sec-fetch-site", "same-origin")
        if foreign or fetched_from not in {"same-origin", "none"}:
            text = "requests from pages of other sites are refused"
            raise ApiError(403, ErrorKind.ORIGIN, text)

    def _check_token(self, scope: Scope, headers: dict[str, str]) -> None:
        token = self._settings.token
        if not token or _path(scope) == "/health":
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not same(given, token):
            text = "a token is needed: send it as 'Authorization: Bearer TOKEN'"
            raise ApiError(401, ErrorKind.TOKEN, text, headers={"WWW-Authenticate": "Bearer"})

    def _check_rate(self, scope: Scope) -> None:
        client = scope.get("client")
        wait = self._rate.wait_s(client[0] if client else "")
        if wait:
            after = max(1, round(wait + 0.5))
            text = f"too many requests; try again in {after} s"
            raise ApiError(429, ErrorKind.LIMIT, text, headers={"Retry-After": str(after)})

    async def _body(self, scope: Scope, headers: dict[str, str], receive: Receive) -> bytes | None:
        """Read the body within its limits; None where the client has gone."""
        most = self._settings.body_bytes
        stated = headers.get("content-length", "")
        if stated and not (stated.isascii() and stated.isdigit()):
            raise ApiError(400, ErrorKind.REQUEST, "the Content-Length header is no number")
        if stated and int(stated[:20]) > most:
            raise _too_large(most)
        typed = scope["method"] == "POST" and _path(scope) in self._bodies
        if typed and (stated.strip("0") or "transfer-encoding" in headers):  # before it is read
            self._check_type(headers)
        try:
            async with asyncio.timeout(self._settings.body_time_s):
                return await read_body(receive, most)
        except BodyTooLarge:
            raise _too_large(most) from None
        except TimeoutError:
            text = f"the body did not arrive within {self._settings.body_time_s:g} s"
            raise ApiError(408, ErrorKind.LIMIT, text, headers={"Connection": "close"}) from None

    @staticmethod
    def _check_type(headers: dict[str, str]) -> None:
        kind, _, parameters = headers.get("content-type", "").partition(";")
        charset = parameters.lower().replace(" ", "").replace('"', "")
        if kind.strip().lower() != "application/json" or charset not in {"", "charset=utf-8"}:
            text = "the body must be JSON: send it as Content-Type: application/json"
            raise ApiError(415, ErrorKind.TYPE, text)
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            text = "the body must not be compressed: leave Content-Encoding out"
            raise ApiError(415, ErrorKind.TYPE, text)


def _path(scope: Scope) -> str:
    """Return the path below where the API is mounted."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _too_large(most: int) -> ApiError:
    text = f"the body is larger than {most:,} B, the most allowed"
    return ApiError(413, ErrorKind.LIMIT, text, headers={"Connection": "close"})


async def _answer(error: ApiError, send: Send) -> None:
    body = error_bytes(error)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    headers += [(k.lower().encode(), v.encode()) for k, v in error.headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
