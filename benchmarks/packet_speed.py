"""Speed and memory of the packet engine, everything on: shared buffers, PFC, ECN, DCQCN, ACKs.

Run: python benchmarks/packet_speed.py [case ...]    (no case: all)

Each case is timed from a built fabric and traffic to the result: routing, set-up and gathering
included. A data packet-hop is one data packet over one link. Memory is the peak above that of the
process before the case began; each case runs in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np

from railweave.design.models import CongestionSpec
from railweave.engine.packet import simulate_packet
from railweave.engine.packet_settings import PacketSettings, default_settings
from railweave.fabric import Fabric, PlaneId
from railweave.fabric.routing import RoutingSet, compile_routing
from railweave.fabric.small import Cable, small_fabric
from railweave.workload import Traffic, TrafficBuilder

SPEED_BPS = 400e9
MIB = 1 << 20


@dataclass(frozen=True)
class Case:
    """A permutation over a k-ary fat tree, or an incast of all hosts but one to that one."""

    k: int
    size_bytes: int
    pattern: str = "permutation"
    congested: bool = False


CASES = {
    "perm-128": Case(8, 16 * MIB),
    "perm-128-congested": Case(8, 16 * MIB, congested=True),
    "perm-432": Case(12, 8 * MIB),
    "perm-1024": Case(16, 4 * MIB),
    "perm-1024-congested": Case(16, 4 * MIB, congested=True),
    "incast-127": Case(8, MIB, "incast"),
}


def fat_tree(k: int) -> Fabric:
    """Three tiers of k-port switches at full bisection: k³/4 hosts."""
    half, hosts = k // 2, k**3 // 4
    leaves = k * half
    leaf, spine, core = hosts, hosts + leaves, hosts + 2 * leaves
    cables = [Cable(h, leaf + h // half, SPEED_BPS) for h in range(hosts)]
    for pod in range(k):
        for a in range(half):
            for b in range(half):
                cables.append(Cable(leaf + pod * half + a, spine + pod * half + b, SPEED_BPS, 20.0))
    for pod in range(k):
        for b in range(half):
            for c in range(half):
                cables.append(Cable(spine + pod * half + b, core + b * half + c, SPEED_BPS, 40.0))
    tiers = [1] * leaves + [2] * leaves + [3] * (half * half)
    return small_fabric(f"fat tree {k}", hosts, tiers, cables, model="sn5600")


def traffic_of(case: Case, hosts: int) -> Traffic:
    """Return the streams, all of one task."""
    rng = np.random.default_rng(5)
    builder = TrafficBuilder()
    if case.pattern == "incast":
        src, dst = np.arange(1, hosts), np.zeros(hosts - 1, dtype=np.int64)
    else:
        src, dst = np.arange(hosts), rng.permutation(hosts)
        src, dst = src[src != dst], dst[src != dst]
    builder.plain(src, dst, np.full(len(src), float(case.size_bytes)), label=case.pattern)
    return builder.build()


def settings_of(case: Case, fabric: Fabric, routing: RoutingSet) -> PacketSettings:
    """Return the settings of switches and adapters."""
    spec = {"scheme": "pfc+dcqcn", "profile": "dcqcn-simulator", "ecn": "simulator"}
    if case.congested:  # thresholds so low that marks, notifications and pauses all happen
        spec |= {
            "ecn": {"kmin": "100 kB", "kmax": "400 kB", "pmax": 0.2},
            "pfc_threshold": "250 kB",
        }
    return default_settings(fabric, routing, CongestionSpec.model_validate(spec))


def run(name: str) -> None:
    """Time one case in this process and print its line."""
    case = CASES[name]
    fabric = fat_tree(case.k)
    hosts = case.k**3 // 4
    traffic = traffic_of(case, hosts)
    routing = RoutingSet.of(compile_routing(fabric, PlaneId.BACKEND, seed=7))
    settings = settings_of(case, fabric, routing)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    result = simulate_packet(fabric, traffic, routing, settings=settings, seed=1)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert result.finished
    assert result.paths is not None
    assert result.record is not None
    packets = -(-case.size_bytes // 4096)
    hops = float(np.sum(np.diff(result.paths.ptr))) * packets
    flows = result.record.flow_counters
    print(
        f"{name:20} {hosts:5} {hops / 1e6:6.2f} {cpu:7.3f} {wall:7.3f} {hops / cpu / 1e6:7.1f} "
        f"{result.events / cpu / 1e6:7.1f} {1e9 * cpu / result.events:6.0f} {memory:7.0f} "
        f"{int(np.sum(result.record.queue_counters['marked'])):8} "
        f"{int(np.sum(flows['cnp_handled'])):7} {len(result.record.pause_intervals['link']):7} "
        f"{result.makespan_s * 1e3:8.3f}"
    )


def main() -> None:
    """Run the named cases, each in a process of its own."""
    if len(sys.argv) == 3 and sys.argv[1] == "--one":
        run(sys.argv[2])
        return
    print(
        "case                 hosts  Mhops  CPU s   wall s  Mhop/s    Mev/s  ns/ev     MiB    marks"
        "    CNPs  pauses       ms"
    )
    for name in sys.argv[1:] or list(CASES):
        subprocess.run([sys.executable, __file__, "--one", name], check=True)


if __name__ == "__main__":
    main()
