"""Explaining captures: packets a second, and memory over a capture of 1 GB.

Run with ``pytest benchmarks/bench_capture.py -o python_files='bench_*.py'``. Each capture is
explained in a process of its own: every packet decoded, its ICRC checked, and counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from capture_files import write_large

EXPLAIN = """
import json, sys, time
from pathlib import Path
from designs import peak_mib
from railweave.transport.capture import explain_capture
path = Path(sys.argv[1])
explain_capture(path.parent / "small.pcap")  # all is imported
before = peak_mib()
wall, cpu = time.perf_counter(), time.process_time()
study = explain_capture(path)
cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
assert study.icrc_right == study.packets and not study.findings, study.findings
print(json.dumps({"packets": study.packets, "bytes": study.wire_bytes, "cpu_s": cpu,
    "wall_s": wall, "mib": peak_mib(), "mib_before": before,
    "messages": sum(o.messages for o in study.operations)}))
"""


def explain(path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", EXPLAIN, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captures")
    write_large(folder / "small.pcap", 1000, 1024)
    return folder


@pytest.mark.parametrize(("payload", "packets"), [(64, 600_000), (1024, 300_000), (4096, 120_000)])
def test_packets_a_second(benchmark, folder, payload, packets):
    path = folder / f"{payload}.pcap"
    count = write_large(path, packets, payload)
    runs = []
    benchmark.pedantic(lambda: runs.append(explain(path)), rounds=3)
    found = min(runs, key=lambda run: run["cpu_s"])
    rate = found["packets"] / found["cpu_s"]
    benchmark.extra_info.update(found, packets_a_second=rate)
    print(f"\n{payload} B: {rate:,.0f} packets a second of processor time, {found}")
    assert found["packets"] == count
    assert found["messages"] == count // 9
    assert rate >= 150_000


def test_memory_does_not_grow_over_1_gb(benchmark, folder):
    found = {}
    for name, packets in (("third", 90_000), ("whole", 270_000)):
        path = folder / f"{name}.pcap"
        write_large(path, packets, 4096)
        found[name] = explain(path)
        path.unlink()
    benchmark.pedantic(lambda: None, rounds=1)
    benchmark.extra_info.update(found["whole"])
    print(f"\n{found}")
    assert found["whole"]["bytes"] >= 1e9 * 0.99
    assert found["whole"]["mib"] <= 128
    assert found["whole"]["mib"] <= 1.2 * found["third"]["mib"]
