"""A ring beside thousands of small flows: what an event costs while a coupled task runs.

Run: python benchmarks/flow_mice.py [--servers 16] [--channels 1] [--flows 2200] [--slow]
CPU seconds of the engine alone; ``--exact 0`` keeps the ring one variable, whatever its size.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from designs import built, nic_link
from railweave.design.models import Algorithm, Collective, RoutingScheme, RoutingSpec
from railweave.engine.flow import FlowRun
from railweave.fabric import Fabric, PlaneId
from railweave.fabric.routing import compile_routing
from railweave.workload import Communicator, Traffic, TrafficBuilder, collective_traffic


def work(fabric: Fabric, channels: int, flows: int, size: float) -> Traffic:
    """A ring all-reduce, and flows of 10 kB to 20 MB that begin evenly over its time."""
    comm = Communicator.from_fabric(fabric, fabric.gpus, channels=channels)
    ring = collective_traffic(Collective.ALL_REDUCE, comm, size, algorithm=Algorithm.RING)
    builder = TrafficBuilder()
    builder.merge(ring)
    rng = np.random.default_rng(1)
    nics = fabric.nics(PlaneId.BACKEND)
    lasts = 2 * size / channels / 50e9
    for start in np.sort(rng.uniform(0.0, lasts, flows)):
        src, dst = rng.choice(nics, 2, replace=False)
        size_bytes = np.exp(rng.uniform(np.log(1e4), np.log(2e7)))
        builder.plain(src[None], dst[None], size_bytes, label="mice", start_s=start)
    return builder.build()


def main() -> None:
    """Time one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=16)
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--flows", type=int, default=2200)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--slow", action="store_true", help="one NIC of the ring at half speed")
    parser.add_argument("--exact", type=int, default=None)
    given = parser.parse_args()
    fabric = built(given.servers).fabric
    routing = compile_routing(fabric, PlaneId.BACKEND, RoutingSpec(scheme=RoutingScheme.ECMP))
    traffic = work(fabric, given.channels, given.flows, given.gib * 2**30)
    if given.slow:  # the ring leaves server 3 through the last NIC on its rail
        fabric = fabric.with_capacity({nic_link(fabric, n): 0.5 for n in range(24, 32)})
    options = {} if given.exact is None else {"exact_messages": given.exact}
    began = time.process_time()
    run = FlowRun(fabric, traffic, routing, **options)
    run.advance()
    spent = time.process_time() - began
    result = run.result()
    ring = result.task_finish_s[traffic.task_rounds > 1].max()
    mice = (result.task_finish_s - result.task_start_s)[traffic.task_rounds == 1]
    print(
        f"{spent:.2f} s CPU, {result.events} events; ring ends {ring * 1e3:.4f} ms, "
        f"mean flow {mice.mean() * 1e6:.2f} us"
    )


if __name__ == "__main__":
    main()
