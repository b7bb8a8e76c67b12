"""AlltoAll, random pairs and permutations on a fat tree: seconds of the flow engine.

Run: python benchmarks/flow_alltoall.py [case ...]    (no case: all but the largest)
Times are of the solving only, wall clock and CPU; routes and arrays are made beforehand.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass

import numpy as np

from flow_fabric import all_to_all, one_shot, tree_for
from railweave import _native

ECMP_SEED = 7


@dataclass(frozen=True)
class Case:
    hosts: int
    pattern: str  # "alltoall", "permutation", or a number of random pairs
    equal: bool = False
    tolerance: float = 0.0
    ecmp: bool = True
    simgrid_s: float | None = None  # SimGrid 4.1, same pattern and sizes, same kind of machine


CASES = {
    "a2a-64": Case(64, "alltoall", simgrid_s=1.9),
    "a2a-64-dmodk": Case(64, "alltoall", ecmp=False, simgrid_s=1.9),
    "a2a-128": Case(128, "alltoall", simgrid_s=72.0),
    "a2a-128-dmodk": Case(128, "alltoall", ecmp=False, simgrid_s=72.0),
    "pairs-10000": Case(1024, "10000", simgrid_s=59.0),
    "pairs-10000-dmodk": Case(1024, "10000", ecmp=False, simgrid_s=59.0),
    "a2a-256-equal-dmodk": Case(256, "alltoall", equal=True, ecmp=False, simgrid_s=0.67),
    "a2a-256-equal": Case(256, "alltoall", equal=True),
    "perm-1024-equal-dmodk": Case(1024, "permutation", equal=True, ecmp=False, simgrid_s=0.05),
    "perm-1024-equal": Case(1024, "permutation", equal=True, simgrid_s=0.05),
    "a2a-256-tol": Case(256, "alltoall", tolerance=0.01),
    "a2a-256": Case(256, "alltoall"),
    "a2a-1024-tol": Case(1024, "alltoall", tolerance=0.01),
}
LARGEST = {"a2a-1024-tol"}


def endpoints(case: Case) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    if case.pattern == "alltoall":
        return all_to_all(case.hosts)
    if case.pattern == "permutation":
        src, dst = np.arange(case.hosts), rng.permutation(case.hosts)
        return src[src != dst], dst[src != dst]
    n = int(case.pattern)
    src = rng.integers(0, case.hosts, n)
    return src, (src + rng.integers(1, case.hosts, n)) % case.hosts


def build(case: Case, tolerance: float | None = None) -> _native.FlowSim:
    tree = tree_for(case.hosts)
    src, dst = endpoints(case)
    ptr, link = tree.routes(src, dst, ECMP_SEED if case.ecmp else None)
    rng = np.random.default_rng(1)
    size = np.full(len(src), 1e6) if case.equal else rng.uniform(1e6, 2e6, len(src))
    arguments = one_shot(tree.capacity(), ptr, link, size)
    return _native.FlowSim(
        **arguments, tolerance=case.tolerance if tolerance is None else tolerance
    )


def run(name: str, case: Case) -> np.ndarray:
    sim = build(case)
    wall, cpu = time.perf_counter(), time.process_time()
    sim.advance()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    against = f"{case.simgrid_s / cpu:7.0f} x" if case.simgrid_s else " " * 9
    print(
        f"{name:22s} {len(sim.flow_finish_s):8d} flows  wall {wall:8.4f} s  cpu {cpu:8.4f} s"
        f"  {against}  solves {sim.solves:6d}  peak memory {peak:5.2f} GiB",
        flush=True,
    )
    return sim.task_finish_s


def main() -> None:
    names = sys.argv[1:] or [name for name in CASES if name not in LARGEST]
    done = {name: run(name, CASES[name]) for name in names}
    if {"a2a-256", "a2a-256-tol"} <= done.keys():
        error = np.abs(done["a2a-256-tol"] / done["a2a-256"] - 1).max()
        print(f"tolerance 0.01, AlltoAll of 256: largest error of a finish time {error:.3%}")


if __name__ == "__main__":
    main()
