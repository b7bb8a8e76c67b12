"""A ring of coupled streams: 16,384 ranks, 32,766 rounds, never expanded into messages.

Run: python benchmarks/flow_ring.py [ranks]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from flow_fabric import LINE_RATE_BPS
from railweave import _native


def ring(n: int, slow: bool, latency: np.ndarray) -> _native.FlowSim:
    capacity = np.full(n, LINE_RATE_BPS)
    if slow:
        capacity[n // 3] /= 2
    index = np.arange(n + 1, dtype=np.int64)
    one = np.zeros(1)
    return _native.FlowSim(
        capacity_Bps=capacity,
        row_ptr=index,
        row_link=np.arange(n, dtype=np.int32),
        row_weight=None,
        flow_bytes=np.full(n, 1048576.0),
        flow_latency_s=latency,
        task_flow_ptr=np.array([0, n], dtype=np.int64),
        task_start_s=one,
        task_delay_s=one,
        dep_ptr=np.zeros(2, dtype=np.int64),
        dep_task=np.zeros(0, dtype=np.int32),
        dep_kind=np.zeros(0, dtype=np.uint8),
        task_rounds=np.array([2 * n - 2], dtype=np.int32),
        pred_ptr=index,
        pred_flow=((np.arange(n) - 1) % n).astype(np.int32),
        pred_lag=np.ones(n, dtype=np.int32),
    )


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 16384
    same = np.full(n, 2e-6)
    mixed = np.random.default_rng(1).uniform(1e-6, 9e-6, n)
    for name, slow, latency in (
        ("homogeneous", False, same),
        ("one link at half speed", True, same),
        ("every hop of another length", False, mixed),
    ):
        begin, cpu = time.perf_counter(), time.process_time()
        sim = ring(n, slow, latency)
        built = time.perf_counter() - begin
        sim.advance()
        print(
            f"{name:40s} build {built:6.3f} s  total {time.perf_counter() - begin:7.3f} s"
            f"  cpu {time.process_time() - cpu:7.3f} s  simulated {sim.now_s:.6g} s"
        )


if __name__ == "__main__":
    main()
