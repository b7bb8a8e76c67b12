"""Who may speak to the studio."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from asyncs import apart
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from railweave.errors import InputError
from railweave.studio.guard import COOKIE, Guard
from railweave.studio.settings import StudioSettings

TOKEN = "0123456789abcdef-secret"


def ask(settings: StudioSettings, url: str, **headers: str) -> httpx.Response:
    async def hello(request: object) -> PlainTextResponse:
        return PlainTextResponse("hello")

    app = Guard(Starlette(routes=[Route("/", hello)]), settings)

    async def get() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport) as client:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return await client.get(url, headers=named)

    return apart(get())


LOCAL = StudioSettings()
OPEN = StudioSettings(host="0.0.0.0", token=TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1:8421", "localhost:8421", "[::1]:8421"])
def test_loopback_is_answered_by_its_names(host: str) -> None:
    assert ask(LOCAL, f"http://{host}/").text == "hello"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.168.0.9", ""])
def test_other_names_for_loopback_are_refused(host: str) -> None:
    answer = ask(LOCAL, "http://127.0.0.1/", host=host)
    assert answer.status_code == 400
    assert "loopback" in answer.text


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://[", "file://", "http://127.0.0.1:9999"],
)
def test_other_sites_are_refused(origin: str) -> None:
    assert ask(LOCAL, "http://127.0.0.1/", origin=origin).status_code in (400, 403)


def test_the_own_origin_is_answered() -> None:
    assert ask(LOCAL, "http://127.0.0.1/", origin="http://127.0.0.1").status_code == 200


def test_a_token_is_needed_where_others_can_reach() -> None:
    assert ask(OPEN, "http://lab.example/").status_code == 401
    assert ask(OPEN, "http://lab.example/", authorization="Bearer wrong").status_code == 401
    assert ask(OPEN, "http://lab.example/", authorization=f"Bearer {TOKEN}").text == "hello"
    assert ask(OPEN, "http://lab.example/", cookie=f"{COOKIE}={TOKEN}").text == "hello"
    first = ask(OPEN, f"http://lab.example/?token={TOKEN}")
    assert first.text == "hello"
    assert COOKIE in first.headers["set-cookie"]
    assert "HttpOnly" in first.headers["set-cookie"]


def upload(length: int, *, stated: bool) -> httpx.Response:
    async def size(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(len(await request.body())))

    app = Guard(Starlette(routes=[Route("/", size, methods=["POST"])]), LOCAL)

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(length // 1024):
            yield b"x" * 1024

    async def send() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:
            body = b"x" * length if stated else parts()
            return await client.post("http://127.0.0.1/", content=body)

    return apart(send())


@pytest.mark.parametrize("stated", [True, False])
def test_uploads_are_taken_up_to_a_size(stated: bool) -> None:
    assert upload(1 << 20, stated=stated).text == str(1 << 20)
    refused = upload(2 << 20, stated=stated)
    assert refused.status_code == 413
    assert "are not taken" in refused.text


def test_no_studio_listens_elsewhere_without_a_token() -> None:
    with pytest.raises(InputError, match="RAILWEAVE_TOKEN"):
        StudioSettings(host="0.0.0.0")
    with pytest.raises(InputError, match="at least 16"):
        StudioSettings(host="::", token="short")
    assert StudioSettings(host="::1").token == ""
