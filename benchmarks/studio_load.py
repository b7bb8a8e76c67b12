"""The studio under load: how long from a slider to its answer, with several visitors at once.

Run: python benchmarks/studio_load.py [--sessions 20] [--think 3] [--lab KEY] [--slider LABEL]

Every visitor is a socket client with a session of its own, as a browser is, without the drawing.
Each moves the slider to another value, waits for the numbers that follow from it, looks at them for
--think seconds on average (exponentially, so that some come at once), and goes on; values are drawn
at random, so that few answers are looked up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import httpx
import numpy as np
import socketio

ELEMENTS = re.compile(r"parseElements\(String\.raw`(.*?)`\)", re.DOTALL)
CLIENT = re.compile(r"'client_id': '([^']+)'")


class Visitor:
    """One page of one lab."""

    def __init__(self, address: str, lab: str, label: str) -> None:
        self._address = address
        self._lab = lab
        self._label = label
        self._client = socketio.AsyncClient()
        self._answers: asyncio.Queue[float] = asyncio.Queue()

    async def open(self) -> None:
        """Load the page and connect its socket."""
        async with httpx.AsyncClient(timeout=60) as http:
            page = (await http.get(f"{self._address}/lab/{self._lab}")).text
            cookie = "; ".join(f"{c.name}={c.value}" for c in http.cookies.jar)
        raw = ELEMENTS.search(page)
        name = CLIENT.search(page)
        assert raw is not None
        assert name is not None
        self._name = name[1]
        text = raw[1].replace("&#36;", "$").replace("&#96;", "`")
        self._elements = json.loads(text.replace("&lt;", "<").replace("&gt;", ">"))
        self._slider = next(
            int(key)
            for key, one in self._elements.items()
            if one["tag"] == "q-slider" and one["props"].get("aria-label") == self._label
        )
        self._client.on("update", self._hear)
        query = (
            f"client_id={self._name}&next_message_id=0&implicit_handshake=true"
            f"&document_id={uuid.uuid4()}&tab_id={uuid.uuid4()}"
        )
        await self._client.connect(
            f"{self._address}/?{query}",
            headers={"Cookie": cookie, "Origin": self._address},
            socketio_path="/_nicegui_ws/socket.io",
            transports=["websocket"],
        )

    async def _hear(self, message: dict[str, object]) -> None:
        now = time.perf_counter()
        parts = [one for one in message.values() if isinstance(one, dict)]
        classes = {name for one in parts for name in one.get("class", ())}
        if classes & {"rw-value", "rw-banner"}:  # numbers, or why there are none
            self._answers.put_nowait(now)

    async def move(self, value: int) -> float:
        """Move the slider; return the seconds until its numbers came."""
        while not self._answers.empty():
            self._answers.get_nowait()
        slider = self._elements[str(self._slider)]
        event = next(e for e in slider["events"] if e["type"].startswith("update:model"))
        begun = time.perf_counter()
        await self._client.emit(
            "event",
            {
                "id": self._slider,
                "client_id": self._name,
                "listener_id": event["listener_id"],
                "args": [json.dumps(value)],
            },
        )
        return await asyncio.wait_for(self._answers.get(), 30) - begun

    @property
    def range(self) -> tuple[int, int]:
        """The slider's ends."""
        props = self._elements[str(self._slider)]["props"]
        return int(props["min"]), int(props["max"])

    @property
    def first(self) -> int:
        """Where the slider stands on the page as it was loaded."""
        return int(self._elements[str(self._slider)]["props"]["model-value"])

    async def close(self) -> None:
        """Leave."""
        await self._client.disconnect()


async def visit(visitor: Visitor, number: int, changes: int, think_s: float) -> list[float]:
    """Move one visitor's slider again and again."""
    dice = random.Random(number)
    low, high = visitor.range
    taken, last = [], visitor.first
    await asyncio.sleep(dice.random() * think_s)
    for _ in range(changes):
        value = dice.randint(low, high)
        if value == last:
            value = low + (value + 1 - low) % (high - low + 1)
        last = value
        taken.append(await visitor.move(value))
        await asyncio.sleep(dice.expovariate(1 / think_s))
    return taken


async def measure(  # noqa: PLR0917 - the options of the command line
    address: str, sessions: int, changes: int, lab: str, label: str, think_s: float
) -> np.ndarray:
    """Return all times from slider to answer, in seconds."""
    visitors = [Visitor(address, lab, label) for _ in range(sessions)]
    for visitor in visitors:
        await visitor.open()
    await asyncio.sleep(2)
    rows = await asyncio.gather(*(visit(v, i, changes, think_s) for i, v in enumerate(visitors)))
    for visitor in visitors:
        await visitor.close()
    return np.array(rows).ravel()


def main() -> None:
    """Serve a studio, load it, print the percentiles."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sessions", type=int, default=20)
    options.add_argument("--changes", type=int, default=12)
    options.add_argument("--think", type=float, default=3.0)
    options.add_argument("--lab", default="collectives")
    options.add_argument("--slider", default="GPUs")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        begun = time.perf_counter()
        with log.open("w") as out:
            studio = subprocess.Popen(
                [sys.executable, "-m", "railweave", "studio", "--no-browser", "--port", "0"],
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=folder,
            )
        try:
            while "http://" not in log.read_text():
                assert studio.poll() is None, log.read_text()
                time.sleep(0.02)
            print(f"serves after {time.perf_counter() - begun:.2f} s")
            address = "http://" + log.read_text().partition("http://")[2].split()[0].rstrip("/")
            taken = asyncio.run(
                measure(
                    address, given.sessions, given.changes, given.lab, given.slider, given.think
                )
            )
        finally:
            studio.terminate()
            studio.wait(10)
    p50, p95, worst = (1e3 * np.percentile(taken, p) for p in (50, 95, 100))
    print(
        f"{given.lab}, {given.slider}: {given.sessions} sessions, {len(taken)} changes: "
        f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, worst {worst:.0f} ms"
    )


if __name__ == "__main__":
    main()
