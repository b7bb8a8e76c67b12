"""Bisection bandwidth: exact maximum flow over the natural halvings of a plane.

Halvings tried, each as *first half | second half* and as *even | odd*: by server number, by leaf,
by pod (scalable unit or zone), and by parallel plane; the first half ends where the bandwidths of
the halves are nearest to each other. One direction is counted, nominal line rate, network links
only (what crosses inside a server over NVLink or PCIe is not network bandwidth).

Whole leaves or pods seldom part a plane in two equal sides: three zones give 2 to 1. Such a split
counts by its share: flow / smaller side × half of all host bandwidth, which is the flow itself
where the sides are equal (to one server). So a fabric is not called non-blocking because no equal
split respects its zones. A split that leaves less than a quarter of the bandwidth on one side says
little about halves and does not count, nor does an uneven one that parts the links of a server.

The endpoints of a side are joined into one, which is exact: a side may use all of its host links.
The flow may take any path, so it is an upper bound for what a routing scheme can reach. The worst
of these halvings is named; finding the worst of *all* halvings is NP-hard and is not attempted.

A network in pieces has no bisection, though each piece may still carry traffic between halves of
its own. So where the links that are up leave more pieces with live servers on them than the intact
network has (rails and planes may be apart by design), the bisection is 0 and the cut says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.fabric._arrays import Fabric, NodeKind, PlaneId
from railweave.fabric._maxflow import network_max_flow
from railweave.fabric._network import SwitchNetwork, switch_network

__all__ = ["Bisection", "Cut", "Halving", "HalvingModel", "bisection", "halving_model", "in_pieces"]

Bool = npt.NDArray[np.bool_]
I8 = npt.NDArray[np.int8]
I64 = npt.NDArray[np.int64]

_LEAST_SHARE: Final = Fraction(1, 4)  # of all host bandwidth, on the smaller side of a split


@dataclass(frozen=True, eq=False)
class Halving:
    """A named way to part the host links in two.

    ``side`` (H,) is 0 or 1 for each host link of the network, −1 for a link that takes no part
    (extra hosts, storage servers). ``counted`` says whether it may be named the worst; where not,
    ``note`` says why. ``scale`` is half of all host bandwidth over the smaller side's, with every
    link up; 1 where the sides are equal to within one server.
    """

    name: str
    side: I8
    counted: bool
    note: str = ""
    scale: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class Cut:
    """Maximum flow of one halving, bit/s in one direction.

    ``full_bps`` is what the smaller side's live host links offer: flow = full means that the
    network between the halves holds nothing back. For a fabric in pieces it is half of all.
    ``as_half_bps`` is the flow brought from that side to half of all host bandwidth, by
    `Halving.scale`; the lowest of these is the bisection.
    """

    name: str
    bps: float
    full_bps: float
    counted: bool
    note: str = ""
    as_half_bps: float = 0.0


@dataclass(frozen=True, slots=True)
class Bisection:
    """The worst counted cut by ``as_half_bps``, which is ``bps`` here, and all cuts tried.

    ``by_subplane`` has the flow of the servers' halving (first | second) within each parallel
    plane; its sum is that of the whole where the planes are not joined. ``exact`` is False where a
    capacity was not a whole number of bit/s and was rounded to one.
    """

    bps: float
    cut: str
    cuts: tuple[Cut, ...]
    by_subplane: tuple[float, ...]
    exact: bool

    @property
    def fraction(self) -> float:
        """Share of full bandwidth over the worst cut, 0..1; 1 where nothing is to be cut."""
        worst = next((cut for cut in self.cuts if cut.name == self.cut), None)
        return worst.bps / worst.full_bps if worst and worst.full_bps else 1.0


@dataclass(frozen=True, eq=False)
class HalvingModel:
    """A plane's network and its halvings, prepared once for many questions."""

    network: SwitchNetwork
    halvings: tuple[Halving, ...]

    @cached_property
    def _intact(self) -> I64:
        """Number the pieces of the network with every link up, shape (n,)."""
        return self._pieces(np.ones(2 * self._n_duplex, dtype=np.bool_))

    @cached_property
    def _n_duplex(self) -> int:
        used = (self.network.host_duplex, self.network.trunk_duplex)
        return 1 + max((int(duplex.max(initial=-1)) for duplex in used), default=-1)

    @cached_property
    def members(self) -> Bool:
        """Tell which host links (H,) are of the servers that the halvings part."""
        found: Bool = np.zeros(len(self.network.host_duplex), dtype=np.bool_)
        for halving in self.halvings:
            found |= halving.side >= 0
        return found

    @cached_property
    def _several(self) -> I64:
        """Return the host links (places in H) of endpoints with more than one."""
        node = self.network.host_node
        return np.flatnonzero(np.bincount(node)[node] > 1) if len(node) else node

    def _pieces(self, link_up: Bool) -> I64:
        """Number the connected pieces, shape (n,); an endpoint on two switches joins them."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        network = self.network
        live = network.group_capacity(link_up) > 0
        links = self._several[link_up[2 * network.host_duplex[self._several]]]
        ends, end = np.unique(network.host_node[links], return_inverse=True)
        a = np.concatenate((network.group_a[live], network.host_switch[links]))
        b = np.concatenate((network.group_b[live], network.n + end.reshape(-1)))
        size = network.n + len(ends)
        matrix = csr_array((np.ones(len(a), dtype=np.int8), (a, b)), shape=(size, size))
        labels: I64 = connected_components(matrix, directed=False)[1].astype(np.int64)
        return labels[: network.n]

    def torn(self, link_up: Bool, *, whole: Bool | None = None) -> int:
        """Return how many pieces the servers' network is in; 0 where it is in no more than before.

        Pieces without a live link of a server do not count: whoever was on them is cut off.

        Args:
            link_up: the links as they stand.
            whole: the links to compare with; all of them where left out.
        """
        live = self.members & link_up[2 * self.network.host_duplex]
        switch = np.unique(self.network.host_switch[live])
        before = self._intact if whole is None else self._pieces(whole)
        now = len(np.unique(self._pieces(link_up)[switch]))
        return now if now > len(np.unique(before[switch])) else 0

    def flow_bps(self, halving: Halving, link_up: Bool, *, collapsing: bool | None = None) -> float:
        """Return the maximum flow from side 0 to side 1 with these links up, bit/s."""
        source, target, group = self.network.arcs
        return float(
            network_max_flow(
                (source, target, self.network.group_capacity(link_up)[group]),
                self.network.host_capacity(link_up, halving.side == 0),
                self.network.host_capacity(link_up, halving.side == 1),
                collapsing=collapsing,
            )
        )

    def cut(self, halving: Halving, link_up: Bool) -> Cut:
        """Return the cut of one halving with these links up."""
        sides = [self.network.host_capacity(link_up, halving.side == s).sum() for s in (0, 1)]
        bps = self.flow_bps(halving, link_up)
        return Cut(
            halving.name,
            bps,
            float(min(sides)),
            halving.counted,
            halving.note,
            _scaled(bps, halving.scale),
        )

    def worst(self, link_up: Bool, *, among: tuple[str, ...] = ()) -> tuple[float, str]:
        """Return the lowest flow, as of half the hosts, of the counted or named halvings; its name.

        A network in more pieces than the intact one has 0 left, whatever the halvings carry.
        """
        chosen = [h for h in self.halvings if (h.name in among if among else h.counted)]
        pieces = self.torn(link_up) if chosen and not among else 0
        if pieces:
            return 0.0, in_pieces(pieces)
        flows = [(_scaled(self.flow_bps(h, link_up), h.scale), h.name) for h in chosen]
        return min(flows, key=lambda item: item[0], default=(0.0, ""))


def _scaled(bps: float, scale: Fraction) -> float:
    """Return bps × scale, rounded once; flows are whole numbers of bit/s."""
    return bps if scale == 1 else float(int(bps) * scale)


def in_pieces(number: int) -> str:
    """Name the cut of a network that has fallen into pieces."""
    return f"the fabric is in {number} pieces"


def bisection(
    fabric: Fabric, plane: PlaneId = PlaneId.BACKEND, *, model: HalvingModel | None = None
) -> Bisection:
    """Return the bisection bandwidth of a plane as its links now stand (``link_up`` counts).

    Args:
        fabric: the fabric, also one narrowed by ``without``.
        plane: a plane with a network of its own.
        model: prepared halvings of the intact fabric. Give it for what-ifs, so that the halvings
            stay those of the intact fabric; without it they are made from ``fabric``.
    """
    model = model or halving_model(fabric, plane)
    cuts = tuple(model.cut(halving, fabric.link_up) for halving in model.halvings)
    worst = min((cut for cut in cuts if cut.counted), key=lambda cut: cut.as_half_bps, default=None)
    pieces = model.torn(fabric.link_up) if worst else 0
    if worst and pieces:
        full_bps = float(model.network.host_capacity(fabric.link_up, model.members).sum()) / 2
        worst = Cut(in_pieces(pieces), 0.0, full_bps, True, "more than it has when whole")
        cuts = (worst, *cuts)
    planes = np.unique(fabric.node_subplane[model.network.switch])
    first = next((h for h in model.halvings if h.name == "servers: first | second half"), None)
    shares: tuple[float, ...] = ()
    if first is not None and len(planes) > 1:
        shares = tuple(_within(fabric, model, first, int(number)) for number in planes)
    return Bisection(
        bps=worst.as_half_bps if worst else 0.0,
        cut=worst.name if worst else "",
        cuts=cuts,
        by_subplane=shares,
        exact=model.network.exact,
    )


def _within(fabric: Fabric, model: HalvingModel, halving: Halving, subplane: int) -> float:
    """Return a halving's flow with the links of one parallel plane alone."""
    inside = np.ones(fabric.n_nodes, dtype=np.bool_)
    network = model.network
    inside[network.switch] = fabric.node_subplane[network.switch] == subplane
    whole: Bool = inside[fabric.link_src] & inside[fabric.link_dst]
    up: Bool = fabric.link_up & whole
    return 0.0 if model.torn(up, whole=whole) else model.flow_bps(halving, up)


def halving_model(fabric: Fabric, plane: PlaneId = PlaneId.BACKEND) -> HalvingModel:
    """Prepare the natural halvings of a plane; links that are down count as if they were up."""
    network = switch_network(fabric, plane)
    server = np.where(_is_server(fabric, network), fabric.node_server[network.host_node], -1)
    intact = HalvingModel(network, ())
    everything: Bool = np.ones(fabric.n_links, dtype=np.bool_)
    by_server = np.zeros(int(server.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(by_server, server[server >= 0], network.host_bps[server >= 0])
    allowance = int(by_server.max(initial=0))
    halvings: list[Halving] = []
    for kind, name, side in _sides(fabric, network, server):
        if any(_same(side, other.side) for other in halvings):
            continue
        bps = [int(network.host_bps[side == s].sum()) for s in (0, 1)]
        even = abs(bps[0] - bps[1]) <= allowance or not min(bps)
        scale = Fraction(1) if even else Fraction(sum(bps), 2 * min(bps))
        trial = Halving(name, side, True, scale=scale)
        note = ""
        if kind != "servers":
            split = _splits_servers(server, side)
            if not even and min(bps) < _LEAST_SHARE * sum(bps):
                note = "one side has less than a quarter of the bandwidth: it says little of halves"
            elif split and not even:
                note = "the sides differ by more than one server, and servers have links on both"
            elif split and not intact.flow_bps(trial, everything):
                note = "this network joins the sides nowhere: such traffic crosses inside servers"
        halvings.append(replace(trial, counted=not note, note=note))
    return HalvingModel(network, tuple(halvings))


def _is_server(fabric: Fabric, network: SwitchNetwork) -> Bool:
    """Tell which host links belong to servers of the cluster, not to extra or storage hosts."""
    kind = fabric.node_kind[network.host_node]
    server: Bool = (kind != NodeKind.EXTRA) & (kind != NodeKind.STORAGE)
    return server & (fabric.node_server[network.host_node] >= 0)


def _sides(
    fabric: Fabric, network: SwitchNetwork, server: npt.NDArray[np.int64]
) -> Iterator[tuple[str, str, I8]]:
    """Yield (kind, name, side of each host link) of every halving that has two sides."""
    leaf = network.switch[network.host_switch]
    groups: dict[str, I64] = {
        "servers": server.astype(np.int64),
        "leaves": leaf,
        "pods": fabric.node_pod[network.host_node].astype(np.int64),
        "planes": fabric.node_subplane[leaf].astype(np.int64),
    }
    for kind, group in groups.items():
        part = (server >= 0) & (group >= 0)
        present, rank = np.unique(group[part], return_inverse=True)
        if len(present) < 2:
            continue
        rank = rank.reshape(-1)
        weight = np.zeros(len(present), dtype=np.int64)
        np.add.at(weight, rank, network.host_bps[part])
        for label, value in (
            ("first | second half", rank >= _middle(weight)),
            ("even | odd", rank % 2 == 1),
        ):
            side = np.full(len(server), -1, dtype=np.int8)
            side[part] = value
            yield kind, f"{kind}: {label}", side


def _middle(weight: I64) -> int:
    """Return how many parts from the first make the most equal halves, more where two ways do."""
    before = np.cumsum(weight)[:-1]
    uneven = np.abs(2 * before - weight.sum())
    return len(uneven) - int(np.argmin(uneven[::-1]))


def _same(one: I8, other: I8) -> bool:
    """Tell whether two halvings are the same, also with the sides exchanged."""
    if not np.array_equal(one < 0, other < 0):
        return False
    differs = one != other
    return not differs.any() or bool(np.array_equal(differs, one >= 0))


def _splits_servers(server: I64, side: I8) -> bool:
    """Tell whether some server has links on both sides."""
    part = side >= 0
    if not part.any():
        return False
    pairs = np.unique(server[part] * 2 + side[part])
    return len(pairs) > len(np.unique(pairs // 2))
