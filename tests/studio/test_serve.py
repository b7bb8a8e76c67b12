"""What the options of `railweave studio` do: it serves until it is stopped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "two-servers-4-gpus.yaml"


def refused(*options: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "railweave", "studio", "--no-browser", *options],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )
    return done.returncode, done.stderr


@contextlib.contextmanager
def serving(folder: Path, *options: str, **environment: str) -> Iterator[tuple[str, object]]:
    log = folder / "log"
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "railweave", "studio", *options],
            stdout=out, stderr=subprocess.STDOUT, cwd=folder, env={**os.environ, **environment},
        )  # fmt: skip
    try:
        end = time.monotonic() + 60
        while "http://" not in log.read_text(encoding="utf-8"):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < end
            time.sleep(0.02)
        text = log.read_text(encoding="utf-8")
        yield "http://" + text.partition("http://")[2].split()[0].rstrip("/"), process
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) in (0, 130)
    assert "Traceback" not in log.read_text(encoding="utf-8")


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def post(url: str, body: object) -> dict[str, object]:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def test_it_serves_the_design_on_a_port_of_choice_and_keeps_results(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("--no-browser", "--port", str(port), "--workers", "1", "--store", "kept")
    with serving(tmp_path, str(EXAMPLE), *options) as (address, _):
        assert address == f"http://127.0.0.1:{port}"
        assert EXAMPLE.name in get(address)
        design = EXAMPLE.read_text(encoding="utf-8")
        job = post(f"{address}/api/v1/jobs", {"kind": "simulate", "design": design})
        end = time.monotonic() + 60
        while job["state"] not in ("done", "failed") and time.monotonic() < end:
            time.sleep(0.05)
            job = json.loads(get(f"{address}/api/v1/jobs/{job['id']}"))
        assert job["state"] == "done"
    assert len(list((tmp_path / "kept").glob("??/*/result.json"))) == 1


def test_it_opens_the_browser_unless_told_not_to(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > {seen}\n', encoding="utf-8")
    script.chmod(0o755)
    with serving(tmp_path, "--browser", "--port", "0", BROWSER=str(script)) as (address, _):
        end = time.monotonic() + 20
        while not seen.exists() or not seen.read_text():
            assert time.monotonic() < end
            time.sleep(0.02)
        assert seen.read_text().strip().rstrip("/") == address


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--host", "0.0.0.0"), "RAILWEAVE_TOKEN"),
        (("--host", "192.0.2.1"), "RAILWEAVE_TOKEN"),
        (("--port", "70000"), "0 (any free one) to 65535"),
        (("--workers", "0"), "1 to 64"),
        (("no-such-design.yaml",), "no-such-design.yaml"),
    ],
)
def test_what_cannot_be_served_is_said(options: tuple[str, ...], says: str) -> None:
    code, text = refused(*options, RAILWEAVE_TOKEN="")
    assert code == 2
    assert says in text


def test_a_port_that_is_taken_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, text = refused("--port", str(taken.getsockname()[1]))
    assert code == 2
    assert "cannot listen on 127.0.0.1" in text
    assert "--port" in text
