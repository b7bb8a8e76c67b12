"""Which leaf and port each host link goes to. The same code serves sizing and building."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.errors import SizingError
from railweave.fabric._demand import Demand, Scheme
from railweave.fabric._split import PortSplit

__all__ = ["Placement", "place_hosts", "ranks_within"]

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Placement:
    """Host links of one network, (H,) for those of servers, (X,) for those of other hosts.

    Ports are logical and count from 1. ``leaf_unit`` numbers the scalable unit (or the smallest
    group of leaves that stays in one pod), ``leaf_rail`` the rail, −1 none; both (leaves,).
    """

    server: I64
    number: I64
    leaf: I64
    port: I64
    other_leaf: I64
    other_port: I64
    leaves: int
    leaf_unit: I64
    leaf_rail: I64
    unit_servers: int
    units: int
    used: I64


def ranks_within(key: I64) -> I64:
    """Number the entries of each key value from 0, in order of appearance."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    first = np.searchsorted(ordered, ordered, side="left")
    ranks = np.empty(len(key), dtype=np.int64)
    ranks[order] = np.arange(len(key)) - first
    return ranks


@dataclass(frozen=True, eq=False)
class _Leaves:
    """Leaf of each server link, and what each leaf is."""

    leaf: I64
    unit: I64
    rail: I64
    unit_servers: int


def place_hosts(demand: Demand, split: PortSplit) -> Placement:
    """Give every host link a leaf and a port.

    Raises:
        SizingError: a leaf (or the star) cannot take what must go to it.
    """
    links = np.repeat(
        np.array([group.links for group in demand.groups], dtype=np.int64),
        [group.servers for group in demand.groups],
    )
    server = np.repeat(np.arange(demand.servers, dtype=np.int64), links)
    number = np.arange(len(server)) - np.repeat(np.cumsum(links) - links, links)
    place = {
        Scheme.RAILS: _rails,
        Scheme.SERVERS: _servers,
        Scheme.RACKS: _racks,
        Scheme.STAR: _star,
    }[demand.scheme]
    leaves = place(demand, split, server, number)
    used = np.bincount(leaves.leaf, minlength=len(leaves.unit))
    _check_ports(demand, split, used)
    unit, rail = leaves.unit, leaves.rail
    other_leaf, other_port, added, used = _others(demand, split, used, unit)
    if added:
        unit = np.concatenate((unit, unit.max() + 1 + np.arange(added)))
        rail = np.concatenate((rail, np.full(added, -1)))
    return Placement(
        server=server,
        number=number,
        leaf=leaves.leaf,
        port=ranks_within(leaves.leaf) + 1,
        other_leaf=other_leaf,
        other_port=other_port,
        leaves=len(unit),
        leaf_unit=unit,
        leaf_rail=rail,
        unit_servers=leaves.unit_servers,
        units=int(unit.max()) + 1,
        used=used,
    )


def unit_size(demand: Demand, split: PortSplit) -> tuple[int, int]:
    """Return (servers in a scalable unit, leaves a rail in it) of a rail-optimized network."""
    per_rail = -(-demand.links_per_server // demand.rails)
    pair = 2 if demand.dual_tor else 1
    if per_rail % pair:
        raise SizingError(
            f"dual_tor alternates a NIC's links over two leaves of its rail, but a NIC has "
            f"{per_rail} link here",
            path=f"{demand.path}.dual_tor",
            allowed="host_links of twice the NICs, or planes: 2 in place of dual_tor",
        )
    on_leaf = per_rail // pair
    if demand.unit is None:
        servers = split.down_links // on_leaf
        if not servers:
            raise SizingError(
                f"a leaf has {split.down_links} host ports, a server needs {on_leaf} on one",
                path=f"{demand.path}.host_links",
                allowed=f"at most {split.down_links * pair * demand.rails}",
            )
        return servers, pair
    return demand.unit, pair * -(-demand.unit * on_leaf // split.down_links)


def _rails(demand: Demand, split: PortSplit, server: I64, number: I64) -> _Leaves:
    size, width = unit_size(demand, split)
    units = -(-demand.servers // size)
    per_unit = demand.rails * width
    if demand.leaf_count is not None:
        units, size = _counted_units(demand, units, per_unit)
    per_rail = -(-demand.links_per_server // demand.rails)
    rail = number // per_rail
    unit, within = np.divmod(server, size)
    pair = 2 if demand.dual_tor else 1
    share = -(-size // (width // pair))  # servers of a unit on one leaf (or pair) of a rail
    sub = within // share * pair + (number % per_rail % pair)
    every = np.arange(units * per_unit)
    return _Leaves(
        leaf=unit * per_unit + rail * width + sub,
        unit=every // per_unit,
        rail=every % per_unit // width,
        unit_servers=size,
    )


def _counted_units(demand: Demand, need: int, per_unit: int) -> tuple[int, int]:
    """Spread the servers over as many units as the given leaves make."""
    count = demand.leaf_count or 0
    if count % per_unit or count < need * per_unit:
        right = max(need, -(-count // per_unit)) * per_unit
        raise SizingError(
            f"{count} leaves do not make scalable units of {per_unit} leaves for "
            f"{demand.servers} servers; {need * per_unit} are needed",
            path=f"{demand.path}.counts.leaf",
            allowed=f"multiples of {per_unit} from {need * per_unit}",
            nearest=str(right),
        )
    return count // per_unit, -(-demand.servers // (count // per_unit))


def _servers(demand: Demand, split: PortSplit, server: I64, number: I64) -> _Leaves:
    pair = 2 if demand.dual_tor else 1
    links = demand.links_per_server
    if demand.dual_tor and links < 2:
        raise SizingError(
            "dual_tor needs two links of a server into the plane, but it has one",
            path=f"{demand.path}.host_links",
            allowed="2 or more",
            nearest="2",
        )
    per_leaf = split.down_links // -(-links // pair)
    if (
        not per_leaf
    ):  # a server has more links than a leaf has ports: its links fill leaf after leaf
        leaf = np.arange(len(server)) // split.down_links
        count = int(leaf[-1]) + 1
        return _Leaves(leaf, np.arange(count), np.full(count, -1), 1)
    groups = -(-demand.servers // per_leaf)
    if demand.leaf_count is not None:
        if demand.leaf_count < groups * pair or demand.leaf_count % pair:
            raise SizingError(
                f"{demand.leaf_count} leaves do not take {demand.servers} servers, "
                f"{links} links each: "
                f"a leaf has {split.down_links} host ports",
                path=f"{demand.path}.counts.leaf",
                allowed=f"{groups * pair} or more",
                nearest=str(groups * pair),
            )
        groups = demand.leaf_count // pair
        per_leaf = -(-demand.servers // groups)
    leaf = server // per_leaf * pair + number % pair
    count = groups * pair
    return _Leaves(leaf, np.arange(count) // pair, np.full(count, -1), per_leaf)


def _racks(demand: Demand, split: PortSplit, server: I64, number: I64) -> _Leaves:
    assert demand.rack is not None
    pair = 2 if demand.dual_tor else 1
    racks = -(-demand.servers // demand.rack)
    if demand.leaf_count is not None and demand.leaf_count != racks * pair:
        raise SizingError(
            f"{demand.leaf_count} leaves are given, but one stands in each of {racks} racks"
            + (" (two with dual_tor)" if pair == 2 else ""),
            path=f"{demand.path}.counts.leaf",
            allowed=str(racks * pair),
            nearest=str(racks * pair),
        )
    leaf = server // demand.rack * pair + number % pair
    count = racks * pair
    return _Leaves(leaf, np.arange(count) // pair, np.full(count, -1), demand.rack)


def _star(demand: Demand, split: PortSplit, server: I64, number: I64) -> _Leaves:
    del split, number
    return _Leaves(
        np.zeros(len(server), np.int64), np.zeros(1, np.int64), np.full(1, -1), demand.servers
    )


def _check_ports(demand: Demand, split: PortSplit, used: I64) -> None:
    most = int(used.max())
    if most > split.down_links:
        raise SizingError(
            f"a leaf must take {most} host links but has {split.down_links} ports for them",
            path=f"{demand.path}.switch",
            allowed=f"a switch with more ports than {demand.leaf.name}, or fewer links a server",
        )


def _others(demand: Demand, split: PortSplit, used: I64, unit: I64) -> tuple[I64, I64, int, I64]:
    """Put other hosts on free ports, the last unit first; return leaf, port, leaves added, use.

    Services come last and are left out where no port is free.
    """
    shape = demand.leaf
    left = shape.ports - demand.spare_leaf_ports - split.down_ports
    left -= 0 if split.up_bps > shape.speed_bps else split.up_ports
    beyond = max(
        0, min(left * split.down_ways, shape.links_limit - split.down_links - split.up_links)
    )
    room = split.down_links + beyond
    used, unit = used.copy(), unit.copy()
    own_unit, added = int(unit.max()) + 1, 0
    leaves, ports = [], []
    needed = len(demand.others)
    for number, width in enumerate((*demand.others, *(1,) * demand.services)):
        if width > room:
            raise SizingError(
                f"another host's link needs {width} host-speed ports, a leaf has {room}",
                path=f"{demand.path}.speed",
            )
        fits = np.flatnonzero(used + width <= room)
        if not fits.size and number >= needed:
            break
        if not fits.size:
            if demand.scheme is Scheme.STAR:
                raise SizingError(
                    f"the star's {room} ports are too few for {needed} of other hosts besides",
                    path=f"{demand.path}.topology",
                    allowed="leaf-spine, or a switch with more ports",
                    nearest="leaf-spine",
                )
            used, unit = np.append(used, 0), np.append(unit, own_unit + added)
            added += 1
            fits = np.array([len(used) - 1])
        last = fits[unit[fits] == unit[fits].max()]
        leaf = int(last[np.argmin(used[last])])
        logical = int(used[leaf]) + 1
        # beyond the provisioned down ports come the up ports, then what is left of the switch
        ports.append(logical if logical <= split.down_links else logical + split.up_links)
        leaves.append(leaf)
        used[leaf] += width
    return np.array(leaves, np.int64), np.array(ports, np.int64), added, used
