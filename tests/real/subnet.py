"""Runs a fabric's InfiniBand subnet on ibsim under OpenSM and returns what OpenSM computed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import uuid
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from railweave.fabric import NodeKind
from railweave.fabric.names import node_name
from railweave.formats.ibnet import IbNode, IbPort, write_ibnet

PROGRAMS = ("ibsim", "opensm")
DEADLINE_S = 30.0
READY = "Network simulator ready"


def missing() -> str:
    """Name what is not installed, or return an empty text."""
    lost = [program for program in PROGRAMS if shutil.which(program) is None]
    if preload() is None:
        lost.append("libumad2sim.so")
    return ", ".join(lost)


@cache
def opensm_version() -> str:
    """Return the version that OpenSM states, empty where it states none."""
    done = subprocess.run(
        ["opensm", "--version"], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    found = re.search(r"OpenSM ([\d.]+)", done.stdout + done.stderr)
    return found[1] if found else ""


def preload() -> Path | None:
    """Return ibsim's library which stands in for the kernel's InfiniBand interface."""
    return next(Path("/usr/lib").glob("*/umad2sim/libumad2sim.so"), None)


def subnet_of(fabric, plane) -> list[IbNode]:
    """Return the nodes of a plane, adapters first: OpenSM attaches to the first one."""
    links = np.flatnonzero((fabric.link_plane == plane) & fabric.link_up)
    ports: dict[int, list[IbPort]] = {}
    for link in links.tolist():
        peer = node_name(fabric, int(fabric.link_dst[link]))
        port = IbPort(
            int(fabric.link_src_port[link]),
            peer,
            int(fabric.link_dst_port[link]),
            float(fabric.link_capacity_bps[link]),
        )
        ports.setdefault(int(fabric.link_src[link]), []).append(port)
    nodes = []
    for node in sorted(ports, key=lambda n: (fabric.node_kind[n] == NodeKind.SWITCH, n)):
        of = tuple(ports[node])
        switch = bool(fabric.node_kind[node] == NodeKind.SWITCH)
        nodes.append(IbNode(node_name(fabric, node), switch, max(p.number for p in of), of))
    return nodes


def run_opensm(nodes: list[IbNode], engine: str, folder: Path) -> Path:
    """Let OpenSM route a subnet once and return its dump of the forwarding tables."""
    net = folder / "subnet.net"
    net.write_text(write_ibnet(nodes), encoding="utf-8")
    own = f"railweave-{uuid.uuid4().hex[:12]}"  # an abstract socket: no two runs may share it
    out = folder / engine
    out.mkdir()
    with _simulator(net, own, folder / "ibsim.log"):
        log = out / "osm.log"
        done = subprocess.run(
            ["opensm", "-R", engine, "-o", "-f", str(log), "-D", "0x43"],
            env={
                **os.environ,
                "OSM_TMP_DIR": str(out),
                "OSM_CACHE_DIR": str(out),
                "IBSIM_SOCKNAME": own,
                "SIM_HOST": nodes[0].name,
                "LD_PRELOAD": str(preload()),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    text = log.read_text(errors="replace") if log.exists() else ""
    assert done.returncode == 0, f"opensm ended with {done.returncode}:\n{done.stdout}\n{text}"
    # A routing engine that cannot do the topology lets OpenSM fall back to minhop, quietly.
    assert f"{engine} tables configured on all switches" in text, text
    return out / "opensm-lfts.dump"


@contextmanager
def _simulator(net: Path, own: str, log: Path):
    with log.open("wb") as stream:
        process = subprocess.Popen(
            ["ibsim", "-s", "-n", "-N", "4096", "-S", "1024", "-P", "60000", str(net)],
            env={**os.environ, "IBSIM_SOCKNAME": own},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_ready(process, log)
            yield
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)


def _wait_ready(process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        text = log.read_text(errors="replace")
        if READY in text:
            return
        if process.poll() is not None:
            raise AssertionError(f"ibsim ended with {process.returncode}:\n{text}")
        if time.monotonic() > deadline:
            raise AssertionError(f"ibsim was not ready within {DEADLINE_S} s:\n{text}")
        time.sleep(0.01)
