"""Who may speak to the studio: hosts and origins on loopback, the token elsewhere."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from railweave.studio.requests import (
    BodyTooLarge,
    headers_of,
    host_name,
    is_foreign,
    read_body,
    replay,
    same,
)
from railweave.studio.settings import StudioSettings, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Guard"]

COOKIE = "railweave_token"
#: of an upload: a design of the largest size and what a form puts around it
MOST_BODY_B = (1 << 20) + (1 << 16)


class Guard:
    """Middleware before everything else.

    On loopback only requests that name this machine are answered: a page elsewhere whose name was
    made to point here (DNS rebinding) is not, nor one that comes from another origin by websocket.
    On other addresses the token is needed: as a bearer, as ``?token=`` once, then as a cookie.
    Paths below ``open_below`` are let through, to an application that guards itself.
    """

    def __init__(self, app: ASGIApp, settings: StudioSettings, *, open_below: str = "") -> None:
        self._app = app
        self._settings = settings
        self._open_below = f"{open_below}/" if open_below else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through or refuse it in a sentence."""
        passes = bool(self._open_below) and scope.get("path", "").startswith(self._open_below)
        if passes or scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = headers_of(scope)
        refusal = self._origin_refusal(headers)
        cookie = False
        if not refusal and self._settings.token:
            refusal, cookie = self._token_refusal(scope, headers)
        if refusal:
            await _refuse(scope, send, *refusal)
            return
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            try:
                body = await read_body(receive, MOST_BODY_B)
            except BodyTooLarge:
                await _refuse(scope, send, 413, f"More than {MOST_BODY_B:,} B are not taken.")
                return
            if body is None:
                return
            receive = replay(body, receive)
        await self._app(scope, receive, self._with_cookie(send) if cookie else send)

    def _origin_refusal(self, headers: dict[str, str]) -> tuple[int, str] | None:
        try:
            host, foreign = host_name(headers), is_foreign(headers)
        except ValueError:
            return 400, "The request's Host or Origin header cannot be read."
        if is_loopback(self._settings.host) and not is_loopback(host):
            return 400, "The studio answers on loopback only: use 127.0.0.1 or localhost."
        if foreign:
            return 403, "Requests from other sites are refused."
        return None

    def _token_refusal(
        self, scope: Scope, headers: dict[str, str]
    ) -> tuple[tuple[int, str] | None, bool]:
        token = self._settings.token
        query = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        if same(query, token):
            return None, True
        if same(headers.get("authorization", "").removeprefix("Bearer "), token):
            return None, False
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            morsel = None
        if morsel is not None and same(morsel.value, token):
            return None, False
        return (401, "A token is needed: open the address with ?token=… once."), False

    def _with_cookie(self, send: Send) -> Send:
        async def sending(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                value = f"{COOKIE}={self._settings.token}; Path=/; HttpOnly; SameSite=Strict"
                headers = [*message.get("headers", []), (b"set-cookie", value.encode())]  # type: ignore[misc]
                message = {**message, "headers": headers}
            await send(message)

        return sending  # type: ignore[return-value]


async def _refuse(scope: Scope, send: Send, status: int, sentence: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": sentence})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": sentence.encode()})
