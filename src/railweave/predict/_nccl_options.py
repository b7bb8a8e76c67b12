"""Latency and bandwidth of every option, under a calibration.

For an option with latency α, endless bandwidth B and pipeline fill (F, h)::

    time(S) = α + F·S/(S + h) + S / (B·c(S))

where c(S) is NCCL's correction for trees at middle sizes, 1 elsewhere. The fill term stands for
chunks that grow with the message until they have their full size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from railweave.design.models import Collective
from railweave.predict._nccl_names import NcclAlgorithm, NcclProtocol
from railweave.predict._nccl_parameters import Calibration
from railweave.predict._nccl_tuning import (
    BASE_LATENCY_US,
    CHANNELS,
    NET_OVERHEAD_US,
    TREE_CORRECTION,
    Hardware,
    caps_of,
    hop_us,
    node_column,
)
from railweave.predict._nccl_usable import DIRECT_OPERATIONS, why_not
from railweave.predict._nccl_volume import tree_of_domains
from railweave.predict.system import CollectiveSystem

__all__ = ["FabricShares", "Option", "option_of", "options_of"]

F64 = npt.NDArray[np.float64]
_A, _P, _C = NcclAlgorithm, NcclProtocol, Collective
_MIB: Final = float(1 << 20)
_US: Final = 1e-6
_GB: Final = 1e9
#: what the classes' hop latencies already have of cables and switches: three switches
REFERENCE_FABRIC_S: Final = 1.5e-6
#: largest chunk of a tree with Simple: an eighth of a 4 MiB buffer
TREE_CHUNK_BYTES: Final = 512 * 1024
#: domains of the largest system that was fitted to
_MOST_FITTED: Final = 20


_NUMBERED: Final = tuple((a, p) for a in NcclAlgorithm for p in NcclProtocol)


class FabricShares(NamedTuple):
    """What the fabric leaves of the line rate to rings, trees and pairs, and its latency."""

    ring: float = 1.0
    tree: float = 1.0
    pairwise: float = 1.0
    latency_s: float | None = None


class Limit(NamedTuple):
    """One bound on the algorithm bandwidth, byte/s."""

    name: str
    algbw_Bps: float  # noqa: N815


class Part(NamedTuple):
    """One part of the latency."""

    name: str
    seconds: float
    formula: str


def grown(domains: int, power: float) -> float:
    """Return domains ** power as far as systems were measured, and beyond its tangent in the log.

    A power of what was seen up to 20 domains would rule everything at 1,000; trees grow by the log.
    """
    fitted = min(domains, _MOST_FITTED)
    beyond = math.log(domains / fitted)
    return float(fitted**power * (1 + power * beyond))


@dataclass(frozen=True, slots=True)
class Option:
    """One algorithm with one protocol on one system; see the module for its time."""

    algorithm: NcclAlgorithm | None
    protocol: NcclProtocol
    reason: str = ""
    parts: tuple[Part, ...] = ()
    limits: tuple[Limit, ...] = ()
    fill_s: float = 0.0
    half_bytes: float = 1.0
    corrected: bool = False

    @property
    def latency_s(self) -> float:
        """Latency of a message of no size."""
        return sum(part.seconds for part in self.parts)

    @property
    def binding(self) -> Limit:
        """The limit that binds."""
        return min(self.limits, key=lambda limit: limit.algbw_Bps)

    def correction(self, size_bytes: float) -> float:
        """Return c(S)."""
        if not self.corrected:
            return 1.0
        table = TREE_CORRECTION[self.protocol]
        step = (int(size_bytes) >> 6).bit_length() - 1
        return table[step] if 0 <= step < len(table) else 1.0

    def fill_at(self, size_bytes: float) -> float:
        """Return F·S/(S + h), seconds."""
        return self.fill_s * size_bytes / (size_bytes + self.half_bytes)

    def time_s(self, size_bytes: float) -> float:
        """Return the time for a size; infinite where it cannot be used."""
        if self.reason:
            return float("inf")
        rate = self.binding.algbw_Bps * self.correction(size_bytes)
        return self.latency_s + self.fill_at(size_bytes) + size_bytes / rate

    def times_s(self, sizes_bytes: F64) -> F64:
        """Return the times for many sizes."""
        if self.reason:
            return np.full(sizes_bytes.shape, np.inf)
        rate = np.full(sizes_bytes.shape, self.binding.algbw_Bps)
        if self.corrected:
            table = np.array((*TREE_CORRECTION[self.protocol], 1.0))
            step = np.floor(np.log2(np.maximum(sizes_bytes, 1.0) / 64 + 1e-12)).astype(np.int64)
            known = (step >= 0) & (step < len(table) - 1)
            rate *= table[np.where(known, step, -1)]
        fill = self.fill_s * sizes_bytes / (sizes_bytes + self.half_bytes)
        out: F64 = self.latency_s + fill + sizes_bytes / rate
        return out


@lru_cache(maxsize=512)
def options_of(
    system: CollectiveSystem, op: Collective, shares: FabricShares, calibration: Calibration
) -> tuple[Option, ...]:
    """Return every option for an operation, usable or not, in NCCL's order."""
    build = _Builder(system, op, shares, calibration)
    if op in DIRECT_OPERATIONS:
        return (build.direct(),)
    found = []
    for algorithm, protocol in _NUMBERED:
        reason = why_not(system, op, algorithm, protocol)
        if reason:
            found.append(Option(algorithm, protocol, reason))
        else:
            found.append(build.option(algorithm, protocol))
    return tuple(found)


def option_of(
    system: CollectiveSystem, op: Collective, number: int, calibration: Calibration
) -> Option:
    """Return one option by its number in :func:`options_of`, on a network at line rate."""
    build = _Builder(system, op, FabricShares(), calibration)
    if op in DIRECT_OPERATIONS:
        return build.direct()
    algorithm, protocol = _NUMBERED[number]
    return build.option(algorithm, protocol)


class _Builder:
    """What the options of one operation on one system share."""

    def __init__(
        self, system: CollectiveSystem, op: Collective, shares: FabricShares, cal: Calibration
    ) -> None:
        self.system, self.op, self.shares, self.cal = system, op, shares, cal
        self.n, self.domains = system.ranks, system.domains
        self.each = system.ranks_per_domain
        self.many = system.domains > 1
        self.levels = max(0, system.domains.bit_length() - 1)
        self.hardware: Hardware = "nvlink" if system.scale_up in ("nvlink", "xgmi") else "pcie"
        self.caps = caps_of(system.generation)
        self.column = node_column(system.domains)
        self.channels = CHANNELS.get(system.generation, 16)
        self.hop_scale = cal.of_generation("hop_scale", system.generation)
        self.extra_s = cal.of_network("net_extra_us", system.network) * _US
        self.inside_Bps = cal.of_generation("ring_share", system.generation) * system.scale_up_Bps
        self.nics_Bps = cal.of_network("nic_share", system.network) * system.network_Bps

    # ---- latencies

    def hop_s(self, algorithm: NcclAlgorithm, protocol: NcclProtocol) -> float:
        """One hop inside a domain."""
        return hop_us(self.hardware, algorithm, protocol) * self.hop_scale * _US

    def net_s(self, algorithm: NcclAlgorithm, protocol: NcclProtocol) -> float:
        """One hop between domains, the fabric's own latency in it."""
        used = _A.TREE if self.each == 1 else algorithm
        crossings = 2 if protocol is _P.SIMPLE else 1  # the data, then a flush
        usual = hop_us("network", used, protocol) * _US + self.extra_s * crossings
        if self.shares.latency_s is None:
            return usual
        longer = (self.shares.latency_s - REFERENCE_FABRIC_S) * crossings
        return max(usual + longer, usual / 2)

    def base(self, algorithm: NcclAlgorithm, protocol: NcclProtocol) -> Part:
        """The launch."""
        return Part("launch", BASE_LATENCY_US[algorithm][protocol] * _US, "base latency")

    # ---- options

    def option(self, algorithm: NcclAlgorithm, protocol: NcclProtocol) -> Option:
        """Build one option that can be used."""
        if algorithm is _A.RING:
            return self.ring(protocol)
        if algorithm is _A.TREE:
            return self.tree(protocol)
        if algorithm is _A.NVLS:
            return self.nvls()
        if algorithm is _A.NVLS_TREE:
            return self.nvls_tree()
        if algorithm is _A.PAT:
            return self.pat()
        return self.collnet(algorithm)

    def to_algorithm_bandwidth(self) -> float:
        """Algorithm over bus bandwidth of a ring of this operation."""
        if self.op is _C.ALL_REDUCE:
            return self.n / (2 * (self.n - 1))
        if self.op in (_C.ALL_GATHER, _C.REDUCE_SCATTER):
            return self.n / (self.n - 1)
        return 1.0

    def ring(self, protocol: NcclProtocol) -> Option:
        """Ring: every byte passes every rank."""
        steps = self.n - 1
        between = self.domains - 1
        if self.op is _C.ALL_REDUCE:
            steps, between = 2 * steps, 2 * between
        hop, net = self.hop_s(_A.RING, protocol), self.net_s(_A.RING, protocol)
        if self.many:
            hop = max(hop, NET_OVERHEAD_US * (3 if protocol is _P.SIMPLE else 1) * _US)
            if protocol is _P.SIMPLE:
                hop, net = hop * self.cal["ring_plateau"], net * self.cal["ring_plateau"]
        parts = [self.base(_A.RING, protocol)]
        parts.append(
            Part("hops inside", (steps - between) * hop, f"{steps - between} × {hop / _US:.3g} µs")
        )
        if self.many:
            parts.append(
                Part("hops between domains", between * net, f"{between} × {net / _US:.3g} µs")
            )
        factor = {_P.LL: 0.5, _P.LL128: 0.92, _P.SIMPLE: 1.0}[protocol]
        raw = [Limit("the scale-up rate of a GPU", self.inside_Bps)] if self.each > 1 else []
        if self.many:
            raw.append(Limit("the NICs of a domain", self.nics_Bps * self.shares.ring))
        limits = [Limit(limit.name, limit.algbw_Bps * factor) for limit in raw]
        if protocol is _P.LL:
            limits.append(Limit("the cap of LL", self.caps.ll[self.column] * _GB))
        elif protocol is _P.LL128:
            cap = self.caps.ring_ll128[self.column] * self.channels * _GB
            limits.append(Limit("LL128's cap a channel", cap))
        factor = self.to_algorithm_bandwidth()
        return self.finished(_A.RING, protocol, parts, limits, factor=factor)

    def finished(
        self,
        algorithm: NcclAlgorithm,
        protocol: NcclProtocol,
        parts: list[Part],
        limits: list[Limit],
        *,
        factor: float = 1.0,
        fill: tuple[float, float] = (0.0, 1.0),
        corrected: bool = False,
    ) -> Option:
        """Put an option together; ``factor`` turns the limits into algorithm bandwidths."""
        scaled = tuple(Limit(limit.name, limit.algbw_Bps * factor) for limit in limits)
        return Option(
            algorithm, protocol, "", tuple(parts), scaled, fill[0], max(fill[1], 1.0), corrected
        )

    def network_limit(self) -> Limit:
        """Algorithm bandwidth that the NICs allow to a tree of domains.

        Of two domains, each sends and receives the data once; of four and more, a domain in the
        middle of one tree and at the edge of the other sends it twice.
        """
        rate = self.nics_Bps * self.shares.tree / float(tree_of_domains(self.domains))
        return Limit("the NICs of a domain", rate)

    def tree(self, protocol: NcclProtocol) -> Option:
        """Tree: a chain inside each domain, two binary trees over the domains; all-reduce only."""
        hop, net = self.hop_s(_A.TREE, protocol), self.net_s(_A.TREE, protocol)
        inside, between = 2 * (self.each - 1), 2 * self.levels
        parts = [
            self.base(_A.TREE, protocol),
            Part("chains inside", inside * hop, f"{inside} × {hop / _US:.3g} µs"),
        ]
        if self.many:
            parts.append(
                Part("levels between domains", between * net, f"{between} × {net / _US:.3g} µs")
            )
        factor = {
            _P.LL: 1 / 3.8,
            _P.LL128: 7 / 9 if not self.many else 120 / 128,
            _P.SIMPLE: 1.0,
        }[protocol]
        limits = []
        if self.each > 1:
            limits.append(Limit("the scale-up rate of a GPU", self.inside_Bps * 0.46 * factor))
        if self.many:
            name, rate = self.network_limit()
            limits.append(Limit(name, rate * factor))
        cap = self.caps.tree[self.column] * self.channels * _GB / 2
        limits.append(Limit("Tree's cap a channel", cap * factor))
        if protocol is _P.LL:
            limits.append(Limit("the cap of LL", self.caps.ll[self.column] * _GB / 2))
        elif protocol is _P.LL128:
            cap = self.caps.tree_ll128[self.column] * self.channels * _GB / 2
            limits.append(Limit("LL128's cap a channel", cap))
        fill = (0.0, 1.0)
        if protocol is _P.LL128 and self.many:
            fill = self.fill(self.domains)
        elif protocol is _P.SIMPLE and self.cal["fill_rank_us"] > 0:
            rate = min(limit.algbw_Bps for limit in limits) / self.channels
            chunks = self.channels * TREE_CHUNK_BYTES
            fill = ((inside + between) * TREE_CHUNK_BYTES / (2 * rate), (inside + between) * chunks)
        corrected = self.cal.tree_correction
        return self.finished(_A.TREE, protocol, parts, limits, fill=fill, corrected=corrected)

    def nvls_rate(self) -> float:
        """Algorithm bandwidth of an all-reduce by NVLink SHARP in one domain."""
        share = self.cal.of_generation("nvls_share", self.system.generation)
        return share * self.system.scale_up_Bps * self.each / (2 * (self.each - 1))

    def fill(self, domains: int) -> tuple[float, float]:
        """(F, h) of pipelines of chunks over a number of domains."""
        growth = self.cal.of_generation("fill_growth", self.system.generation)
        each_us = self.cal["fill_rank_us"] * self.each * grown(domains, growth)
        return each_us * _US, self.cal["half_rank_mib"] * self.each * _MIB

    def nvls_step_s(self, algorithm: NcclAlgorithm) -> float:
        """Latency of NVLink SHARP: NCCL's constant is for eight ranks."""
        beyond = max(0, self.each - 8) * self.cal["nvls_rank_us"]
        return (hop_us("nvlink", algorithm, _P.SIMPLE) + beyond) * _US

    def nvls(self) -> Option:
        """NVLS: the scale-up switches add up, and the network's with SHARP."""
        step = self.nvls_step_s(_A.NVLS)
        parts = [Part("NVLink SHARP", step, f"{step / _US:.3g} µs")]
        if self.op is not _C.ALL_REDUCE:
            rate = self.inside_Bps * self.to_algorithm_bandwidth()
            limits = [Limit("the scale-up rate of a GPU", rate)]
        else:
            limits = [Limit("NVLink SHARP", self.nvls_rate())]
        if self.many:
            net = self.net_s(_A.NVLS, _P.SIMPLE)
            parts.append(Part("network SHARP", net, f"{net / _US:.3g} µs"))
            limits = [Limit(name, rate * self.cal["sharp_share"]) for name, rate in limits]
            limits.append(Limit("the NICs of a domain", self.nics_Bps * self.shares.tree))
        fill = self.fill(2 if self.many else 1) if self.op is _C.ALL_REDUCE else (0.0, 1.0)
        return self.finished(_A.NVLS, _P.SIMPLE, parts, limits, fill=fill)

    def nvls_tree(self) -> Option:
        """NVLSTree: NVLS inside, trees over the domains."""
        step = self.nvls_step_s(_A.NVLS_TREE)
        net, levels = self.net_s(_A.NVLS_TREE, _P.SIMPLE), 2 * self.levels
        parts = [
            Part("NVLink SHARP", step, f"{step / _US:.3g} µs"),
            Part("levels between domains", levels * net, f"{levels} × {net / _US:.3g} µs"),
        ]
        few = self.domains < 4
        share = (
            self.cal["nvls_tree_share"]
            if few
            else self.cal.of_generation("nvls_tree_share_4", self.system.generation)
        )
        cap = self.caps.nvls_tree[self.column] * self.channels * _GB / 2
        limits = [
            Limit("NVLink SHARP", self.nvls_rate() * share),
            self.network_limit(),
            Limit("NVLSTree's cap a channel", cap),
        ]
        return self.finished(_A.NVLS_TREE, _P.SIMPLE, parts, limits, fill=self.fill(self.domains))

    def collnet(self, algorithm: NcclAlgorithm) -> Option:
        """CollNetDirect and CollNetChain: the network's switches add up."""
        hop, net = self.hop_s(algorithm, _P.SIMPLE), self.net_s(algorithm, _P.SIMPLE)
        others = self.each - 1
        if algorithm is _A.COLLNET_DIRECT:
            inside = 2 * (min(1, others) * hop + others * 0.4 * _US)  # 0.4 µs a peer, one by one
            text = "2 × (one hop + 0.4 µs a peer)"
            rate = self.inside_Bps * (self.each / (2 * others) if others else 1.0)
        else:
            inside, text = 2 * others * hop, f"2 × {others} hops"
            rate = self.inside_Bps / 2
        parts = [
            Part("inside", inside, text),
            Part("network SHARP", net, f"{net / _US:.3g} µs"),
        ]
        limits = [Limit("the NICs of a domain", self.nics_Bps * self.shares.tree)]
        if others:
            limits.append(Limit("the scale-up rate of a GPU", rate * self.cal["sharp_share"]))
        return self.finished(algorithm, _P.SIMPLE, parts, limits, fill=self.fill(2))

    def pat(self) -> Option:
        """PAT: parallel aggregated trees, one rank a domain."""
        net = self.net_s(_A.PAT, _P.SIMPLE)
        parts = [
            self.base(_A.PAT, _P.SIMPLE),
            Part("levels", self.levels * net / 3.5, f"{self.levels} × {net / _US:.3g} µs / 3.5"),
            Part("ranks", self.n * 2.8 * _US, f"{self.n} × 2.8 µs"),
        ]
        rate = 0.75 * self.nics_Bps * self.shares.tree * self.to_algorithm_bandwidth()
        return self.finished(_A.PAT, _P.SIMPLE, parts, [Limit("the NICs of a domain", rate)])

    def direct(self) -> Option:
        """All-to-all and send-receive: messages straight to their destination."""
        return self.all_to_all() if self.op is _C.ALL_TO_ALL else self.send_recv()

    def all_to_all(self) -> Option:
        """A message from every rank to every other, all at once."""
        parts = [self.base(_A.RING, _P.LL)]
        limits, fill = [], (0.0, 1.0)
        outside = self.n - self.each
        if self.each > 1:
            hop = hop_us(self.hardware, _A.RING, _P.SIMPLE) * _US
            parts.append(Part("hop inside", hop, f"{hop / _US:.3g} µs"))
            rate = self.inside_Bps * self.n / (self.each - 1)
            limits.append(Limit("the scale-up rate of a GPU", rate))
            fill = self.fill(1)
        if self.many:
            post, net = outside * NET_OVERHEAD_US * _US, self.net_s(_A.TREE, _P.SIMPLE)
            parts.append(Part("posting", post, f"{outside} × {NET_OVERHEAD_US:.3g} µs"))
            parts.append(Part("hop between domains", net, f"{net / _US:.3g} µs"))
            rate = self.nics_Bps * self.shares.pairwise * self.n / (self.each * outside)
            limits.append(Limit("the NICs of a domain", rate))
        return Option(None, _P.SIMPLE, "", tuple(parts), tuple(limits), *fill)

    def send_recv(self) -> Option:
        """From rank r to rank r + 1: one rank of each domain sends out, by the NICs next to it."""
        parts = [self.base(_A.RING, _P.LL)]
        limits, fill = [], (0.0, 1.0)
        hop = hop_us(self.hardware, _A.RING, _P.SIMPLE) * _US if self.each > 1 else 0.0
        if self.each > 1:
            limits.append(Limit("the scale-up rate of a GPU", self.inside_Bps))
            fill_s, half = self.fill(1)
            fill = (fill_s, max(half / self.each, 1.0))
        if self.many:
            net = self.net_s(_A.TREE, _P.LL) + NET_OVERHEAD_US * _US
            nics = max(1.0, self.system.nics_per_domain / self.each)
            rate = self.nics_Bps * self.shares.pairwise * nics / self.system.nics_per_domain
            limits.append(Limit("the NICs next to a GPU", rate))
            hop = max(hop, net)
        parts.append(Part("hop", hop, f"{hop / _US:.3g} µs"))
        return Option(None, _P.SIMPLE, "", tuple(parts), tuple(limits), *fill)
