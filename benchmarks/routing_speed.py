"""Time and memory of compiling next-hop sets and of walking paths, on three-tier fat trees.

python benchmarks/routing_speed.py --radix 16 64 --flows 1000000
"""

import argparse
import resource
import time

import numpy as np

from railweave import _native


def fat_tree(radix: int) -> dict:
    """Three tiers, 1:1, radix**3 / 4 endpoints: endpoints, leaves, spines, cores in this order."""
    half = radix // 2
    hosts, leaves, cores = radix * half * half, radix * half, half * half
    host, leaf = np.arange(hosts), np.arange(leaves)
    first_leaf, first_spine, first_core = hosts, hosts + leaves, hosts + 2 * leaves
    pod = np.repeat(leaf // half, half)
    plane = np.tile(np.arange(half), leaves)
    down = [host, np.repeat(first_leaf + leaf, half), np.repeat(first_spine + leaf, half)]
    up = [
        first_leaf + host // half,
        first_spine + pod * half + plane,
        first_core + np.repeat(leaf % half, half) * half + plane,
    ]
    a, b = np.concatenate(down), np.concatenate(up)
    n = hosts + 2 * leaves + cores
    return {
        "n_nodes": n,
        "link_src": np.stack([a, b], 1).ravel().astype(np.int32),
        "link_dst": np.stack([b, a], 1).ravel().astype(np.int32),
        "link_up": np.ones(2 * len(a), bool),
        "is_switch": (np.arange(n) >= hosts).astype(np.uint8),
        "tier": np.repeat([0, 1, 2, 3], [hosts, leaves, leaves, cores]).astype(np.int8),
    }


def flow_fields(n: int, hosts: int) -> dict:
    rng = np.random.default_rng(1)
    src, dst = (rng.integers(0, hosts, n).astype(np.int32) for _ in "sd")
    return {
        "src": src,
        "dst": dst,
        "src_ip": (src + 0x0A000001).astype(np.uint32),
        "dst_ip": (dst + 0x0A000001).astype(np.uint32),
        "src_port": rng.integers(49152, 65536, n).astype(np.uint16),
        "dst_port": np.full(n, 4791, np.uint16),
        "qp": rng.integers(0, 1 << 24, n).astype(np.uint32),
    }


def measure(radix: int, flows: int, threads: int, repeats: int) -> None:
    graph = fat_tree(radix)
    hosts = radix**3 // 4
    start = time.perf_counter()
    table = _native.RouteTable(**graph, threads=threads)
    seconds = time.perf_counter() - start
    print(
        f"{hosts:6d} endpoints: compile {seconds:.3f} s, {table.n_sets} sets, "
        f"{table.memory_bytes / 2**20:.1f} MiB, process peak "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"
    )
    n_links = len(graph["link_src"])
    fields = flow_fields(flows, hosts)
    common = {
        "seeds": np.random.default_rng(2).integers(0, 2**32, graph["n_nodes"]).astype(np.uint32),
        "size_bytes": np.ones(flows),
        "capacity_bps": np.full(n_links, 400e9),
        "pin": np.arange(flows, dtype=np.int32),
    }
    for scheme in ("ecmp", "dmodk", "pinned", "adaptive"):
        best = min(timed(table, fields, common, scheme) for _ in range(repeats))
        print(f"       {scheme:9s} {flows} paths in {best:.3f} s")
    few = {k: v[:1000] for k, v in fields.items()}
    shared = {"seeds": common["seeds"]}
    best = min(timed(table, few, shared, "spray") for _ in range(repeats))
    print(f"       spray     1000 flows in {best:.3f} s")


def timed(table, fields: dict, common: dict, scheme: str) -> float:
    start = time.perf_counter()
    *_, status = table.walk(**fields, **common, scheme=scheme)
    seconds = time.perf_counter() - start
    assert not status.any()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--radix", type=int, nargs="+", default=[16, 32, 64])
    parser.add_argument("--flows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    for radix in args.radix:
        measure(radix, args.flows, args.threads, args.repeats)


if __name__ == "__main__":
    main()
