"""A studio in its own process, and a browser that tolerates no error and no outside request."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the studio on a free port; the value is its address, without a slash at the end."""
    folder = tmp_path_factory.mktemp("studio")
    log = folder / "log"
    # NiceGUI behaves otherwise where it believes to be tested in the same process.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "railweave", "studio", "--no-browser", "--port", "0",
             "--store", str(folder / "store"), str(ROOT / "examples" / "superpod-h100-1su.yaml")],
            stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=folder,
        )  # fmt: skip
        try:
            yield _address(process, log)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the studio has said where it is."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        text = log.read_text(encoding="utf-8")
        if "http://" in text:
            return "http://" + text.partition("http://")[2].split()[0].rstrip("/")
        if process.poll() is not None:
            break
        time.sleep(0.05)
    pytest.fail(f"the studio did not start: {log.read_text(encoding='utf-8')}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, without a window."""
    if CHROMIUM is None:
        if os.environ.get("RAILWEAVE_REQUIRE_REAL"):
            pytest.fail("Chromium is required here and not installed (see tools/system-packages)")
        pytest.skip("needs Chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of a new visitor; the test fails on console errors and on requests to elsewhere."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    faults: list[str] = []

    def console(message: ConsoleMessage) -> None:
        if message.type == "error":
            faults.append(f"console: {message.text}")

    def request(one: Request) -> None:
        parts = urlsplit(one.url)
        if parts.scheme in ("http", "https", "ws") and parts.hostname != "127.0.0.1":
            faults.append(f"request to {one.url}")

    page.on("console", console)
    page.on("pageerror", lambda error: faults.append(f"page error: {error}"))
    page.on("request", request)
    yield page
    context.close()
    assert not faults, faults
