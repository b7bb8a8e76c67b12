"""Leaf-spine networks whose packets choose their paths, and changes during a run, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tests.native._packet import Net

from railweave import _native

CHOICE = {name: i for i, name in enumerate(_native.PACKET_CHOICES)}
FAULT = {name: i for i, name in enumerate(_native.PACKET_FAULT_KINDS)}


def clos(
    hosts_a_leaf: int, leaves: int, spines: int, slow: float | None = None, **more: object
) -> Net:
    """Return a leaf-spine network at 100 Gb/s; ``slow``: of the cable leaf 0 - spine 0."""
    hosts = hosts_a_leaf * leaves
    cables = [(h, hosts + h // hosts_a_leaf, 100.0) for h in range(hosts)]
    for leaf in range(leaves):
        for spine in range(spines):
            speed = slow if slow is not None and leaf == spine == 0 else 100.0
            cables.append((hosts + leaf, hosts + leaves + spine, speed))
    return Net(hosts, leaves + spines, cables, **more)  # type: ignore[arg-type]


def table(net: Net, tier: Sequence[int], dead: Sequence[int] = ()) -> _native.RouteTable:
    """Return the next-hop sets of the network; ``dead`` cables carry nothing."""
    n = net.hosts + net.switches
    ends = np.array([(a, b, b, a) for a, b, _ in net.cables], dtype=np.int32).reshape(-1, 2)
    up = np.ones(len(ends), bool)
    for cable in dead:
        up[2 * cable : 2 * cable + 2] = False
    is_switch = (np.arange(n) >= net.hosts).astype(np.uint8)
    tiers = np.array([0] * net.hosts + list(tier), dtype=np.int8)
    return _native.RouteTable(
        n, np.ascontiguousarray(ends[:, 0]), np.ascontiguousarray(ends[:, 1]), up, is_switch, tiers
    )


def clos_table(net: Net, leaves: int, dead: Sequence[int] = ()) -> _native.RouteTable:
    return table(net, [1] * leaves + [2] * (net.switches - leaves), dead)


def seeds(net: Net) -> np.ndarray:
    return (np.arange(net.hosts + net.switches, dtype=np.uint64) * 2654435761 % 2**32).astype(
        np.uint32
    )


def choosing(
    net: Net, name: str, *tables: _native.RouteTable
) -> Callable[[_native.PacketSim, dict[str, np.ndarray]], None]:
    """Return a preparation by which all flows choose their paths so."""

    def prepare(sim: _native.PacketSim, flows: dict[str, np.ndarray]) -> None:
        for t in tables:
            sim.add_table(t, seeds(net))
        flows["choice"] = np.full_like(flows["choice"], CHOICE[name])

    return prepare


def ends(net: Net, src: int, dst: int) -> list[int]:
    """Return the first and the last link of a way that is chosen on the way."""
    first = next(i for i, c in enumerate(net.cables) if c[0] == src)
    last = next(i for i, c in enumerate(net.cables) if c[0] == dst)
    return [2 * first, 2 * last + 1]


def packets(sim: _native.PacketSim, links: Sequence[int]) -> np.ndarray:
    return sim.port_counters()["tx_packets"][list(links)].astype(np.int64)


def dropped(sim: _native.PacketSim, reason: str) -> int:
    return int(sim.ledger()[f"dropped_packets_{reason}"][0])


def uplinks(net: Net, leaf: int, spines: int, leaves: int) -> list[int]:
    return [net.link(net.hosts + leaf, net.hosts + leaves + s) for s in range(spines)]


Change = tuple[float, str, int, int]


def faults(
    sim: _native.PacketSim, *changes: Change, epochs: Sequence[_native.PacketEpoch] = ()
) -> None:
    """Give the changes: (time in microseconds, kind, index, value)."""
    sim.set_faults(
        np.array([round(c[0] * 1e6) for c in changes], np.uint64),
        np.array([FAULT[c[1]] for c in changes], np.uint8),
        np.array([c[2] for c in changes], np.uint32),
        np.array([c[3] for c in changes], np.uint64),
        list(epochs),
    )
