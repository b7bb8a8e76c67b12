"""How far rings that share links by average rates are from the same rings message by message.

Run: python benchmarks/coupled_forms.py         (alone, and beside 60 plain flows on the same NICs)
     python benchmarks/coupled_forms.py many    (8 rings over 64 to 512 GPUs, up to a minute)
Both forms run through the flow engine. Alone on its links a ring is the same in both; the engine
averages only where rings that share links have too many messages (here: always, to measure it).
"""

from __future__ import annotations

import sys

import numpy as np

from designs import built
from railweave.design.models import Algorithm, Collective, RoutingScheme, RoutingSpec
from railweave.engine.flow import simulate_flow
from railweave.fabric import Fabric, PlaneId
from railweave.fabric.routing import compile_routing
from railweave.workload import Communicator, Traffic, TrafficBuilder, collective_traffic

BACKEND = PlaneId.BACKEND
FLOWS = 60
MANY = [(8, 4), (8, 16), (8, 32), (12, 24), (16, 4), (16, 16), (16, 32), (32, 64), (64, 64)]


def beside(fabric: Fabric, ring: Traffic, flows: int, seed: int) -> Traffic:
    """Return the ring with random plain flows between NICs."""
    builder = TrafficBuilder()
    builder.merge(ring)
    if flows:
        rng = np.random.default_rng(seed)
        nics = fabric.nics(BACKEND)
        src, dst = rng.choice(nics, flows), rng.choice(nics, flows)
        keep = src != dst
        builder.plain(src[keep], dst[keep], rng.uniform(1e6, 2e7, flows)[keep], label="flows")
    return builder.build()


def differences(servers: int, topology: str, channels: int, *, size: int, flows: int) -> np.ndarray:
    """Return averaged / expanded − 1 of the ring's end and of the flows' mean end."""
    fabric = built(servers, topology).fabric
    comm = Communicator.from_fabric(fabric, fabric.gpus, channels=channels)
    ring = collective_traffic(Collective.ALL_REDUCE, comm, size, algorithm=Algorithm.RING)
    routing = compile_routing(fabric, BACKEND, RoutingSpec(scheme=RoutingScheme.ECMP))
    ends = []
    for form in (ring, ring.expand()):
        traffic = beside(fabric, form, flows, seed=servers)
        result = simulate_flow(fabric, traffic, routing, exact_messages=0)
        labels = np.array(traffic.labels)[traffic.task_label][traffic.stream_task]
        plain = labels == "flows"
        end = result.stream_finish_s
        ends.append((end[~plain].max(), end[plain].mean() if flows else 1.0))
    return np.array(ends[0]) / np.array(ends[1]) - 1


def many_ranks(servers: int, mib: int) -> float:
    """Return averaged / exact − 1 of 8 rings over the GPUs of so many servers."""
    fabric = built(servers, "rail-optimized").fabric
    comm = Communicator.from_fabric(fabric, fabric.gpus, channels=8)
    rings = collective_traffic(Collective.ALL_REDUCE, comm, mib * 2**20, algorithm=Algorithm.RING)
    routing = compile_routing(fabric, BACKEND, RoutingSpec(scheme=RoutingScheme.DESTINATION))
    averaged, exact = (
        simulate_flow(fabric, rings, routing, exact_messages=most).makespan_s for most in (0, 10**9)
    )
    return averaged / exact - 1


def main() -> None:
    """Print one line a case, then the largest differences."""
    if sys.argv[1:] == ["many"]:
        for servers, mib in MANY:
            found = many_ranks(servers, mib)
            print(f"{servers * 8:4d} GPUs {mib:4d} MiB: {found:+.2%}", flush=True)
        return
    worst = np.zeros(2)
    for topology in ("leaf-spine", "rail-optimized"):
        for servers in (2, 3, 4):
            for channels in (1, 8):
                for size in (2**20, 2**24, 2**28):
                    for flows in (0, FLOWS):
                        found = differences(servers, topology, channels, size=size, flows=flows)
                        worst = np.maximum(worst, np.abs(found))
                        print(
                            f"{topology:15s} {servers} servers {channels} channels "
                            f"{size >> 20:4d} MiB {flows:3d} flows: "
                            f"ring {found[0]:+.4%}  flows {found[1]:+.4%}"
                        )
    print(f"largest: ring {worst[0]:.2%}, mean end of the flows {worst[1]:.2%}")


if __name__ == "__main__":
    main()
