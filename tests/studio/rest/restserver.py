"""Serves the API on a free port of this machine for tests, and talks to it."""

import contextlib
import socket
import threading

import httpx
import uvicorn

from railweave.runs import JobQueue
from railweave.studio.rest import ApiSettings, create_api

PATIENCE_S = 30
PLENTY = {"requests_per_s": 1e6, "burst": 1_000_000}
DESIGN = """\
railweave: 1
name: two servers
cluster:
  servers: {count: 2, inline: {gpus: 4, nics: 4, nic_speed: 100 Gb/s}}
planes:
  backend: {transport: rocev2, topology: leaf-spine}
jobs:
  - {name: sum, collective: all-reduce, size: 64 MiB, ranks: all, algorithm: ring}
"""
#: runs for minutes on the packet engine, and can be cancelled
LONG = {
    "kind": "simulate",
    "design": DESIGN.replace("64 MiB", "1 TiB"),
    "engine": "packet",
}


@contextlib.contextmanager
def serving(app):
    """Serve an application; gives a client."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    started = threading.Event()

    class Announcing(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets)
            started.set()

    server = Announcing(
        uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=5, lifespan="on")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    assert started.wait(PATIENCE_S)
    base = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        with httpx.Client(base_url=base, timeout=PATIENCE_S) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listening.close()
        assert not thread.is_alive()


@contextlib.contextmanager
def api(queue=None, **settings):
    """Serve the API over a queue (its own if none is given); gives a client."""
    with contextlib.ExitStack() as stack:
        queue = queue or stack.enter_context(JobQueue(1))
        app = create_api(queue, ApiSettings(**{**PLENTY, **settings}))
        yield stack.enter_context(serving(app))


def snapshots(client, job):
    """Follow a job's events to the end; return the snapshots."""
    import json

    with client.stream("GET", f"/jobs/{job['id']}/events") as stream:
        assert stream.status_code == 200
        lines = [line for line in stream.iter_lines() if line.startswith("data: ")]
    return [json.loads(line[6:]) for line in lines]


def error(answer, status, kind=None):
    """Hold an answer against the one shape of errors and return its error."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    found = body["error"]
    assert set(found) == {"kind", "message", "problems"}
    assert found["message"]
    for problem in found["problems"]:
        assert set(problem) == {"path", "line", "column", "message", "allowed", "nearest"}
    if kind is not None:
        assert found["kind"] == kind
    assert says_nothing_of_the_machine(answer.text)
    return found


def says_nothing_of_the_machine(text):
    """Whether a text holds no traceback and no path of files."""
    words = ("Traceback", 'File "', "site-packages", "/src/", "/work/", "/tmp/", "/home/", "/root")
    return not any(word in text for word in words)
