"""Measuring the technologies on one cluster: big collectives as flows, a slice packet by packet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from railweave.catalog import Catalog
from railweave.design.models import Algorithm, PlacementName, Transport
from railweave.engine.flow import simulate_flow
from railweave.errors import EngineError, InputError, RailweaveError
from railweave.fabric import Fabric, LinkLayer, PlaneId
from railweave.transport.compare._bursts import BURST_S, SHORT_S, TCP_TIMER, PacketBench
from railweave.transport.compare._slice import Slice, domains, take_slice
from railweave.transport.compare._swap import SPEAKS, Swapped, swap
from railweave.transport.compare._technologies import Technology, technology_facts
from railweave.transport.compare._types import (
    CollectiveTime,
    CompareCase,
    Measured,
    Measurements,
    MixPart,
)
from railweave.units import format_seconds
from railweave.workload import Traffic

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.engine.result import Result

__all__ = ["MOST_RANKS", "Progress", "case_key", "measure"]

Progress = Callable[[str, float], None]

#: ranks of the collectives where nothing is asked for and the cluster is larger
MOST_RANKS: Final = 256
QUICK_RANKS: Final = 64
#: shares of 0.33, 0.33 and 0.34 add up to 1 but for this
_ROUNDING: Final = 1e-6


def _silent(step: str, fraction: float) -> None:
    """Report progress to nobody."""


def case_key(built: BuiltDesign, case: CompareCase) -> dict[str, Any]:
    """Return everything that the measurements of a case depend on, as JSON could hold it.

    Files that the design names count by what they hold: its own catalogs, and a graph by the links
    that were built of it.
    """
    design = built.design.model_dump(mode="json", by_alias=True)
    for field in ("jobs", "background", "storage_traffic", "name", "description"):
        design.pop(field, None)
    fabric = built.fabric
    links = hashlib.sha256()
    for array in (fabric.link_src, fabric.link_dst, fabric.usable_bps, fabric.link_delay_s):
        links.update(array.tobytes())
    files = [built.document.resolve(name).read_bytes() for name in built.design.catalog]
    return {
        "design": design,
        "failed": list(built.failed),
        "links": links.hexdigest(),
        "catalog": [hashlib.sha256(text).hexdigest() for text in files],
        "case": json.loads(json.dumps(case.to_json())),
    }


@dataclass(frozen=True, eq=False)
class _Bench:
    """One technology on the cluster, and what all four share."""

    case: CompareCase
    swapped: Swapped
    part: Slice
    ranks: int
    cores: int

    @property
    def built(self) -> BuiltDesign:
        return self.swapped.built

    @property
    def technology(self) -> Technology:
        return self.swapped.technology

    # ---------------------------------------------------------- collectives

    def collective(
        self, part: MixPart, built: BuiltDesign | None = None
    ) -> tuple[BuiltDesign, Traffic]:
        """Return the cluster with one collective in place of its own traffic, and that traffic."""
        only = (built or self.built).with_collective(
            part.operation,
            part.size_bytes,
            ranks=self.ranks,
            algorithm=part.algorithm,
            placement=PlacementName.PACKED,
        )
        return only, only.workload().traffic

    def large(self, part: MixPart) -> CollectiveTime:
        """Run a large collective, and again without the uplink where it uses that leaf's."""
        only, traffic = self.collective(part)
        result = simulate_flow(only.fabric, traffic, only.routing())
        host_s = self.host_s(result)
        failed, cut_off = None, False
        if self.part.uplink:
            try:
                failed = max(self._failed_s(part, result), host_s)
            except EngineError:  # some GPUs have no way left
                cut_off = True
        return CollectiveTime(
            part.operation.value,
            part.size_bytes,
            part.share,
            _algorithm(part),
            result.makespan_s,
            host_s,
            max(result.makespan_s, host_s),
            failed,
            cut_off,
        )

    def _failed_s(self, part: MixPart, whole: Result) -> float:
        if not whole.link_bytes[list(self.part.uplink_links)].any():
            return whole.makespan_s  # nothing crosses this leaf's uplinks
        only, traffic = self.collective(part, self.built.fail([self.part.uplink]))
        return simulate_flow(only.fabric, traffic, only.routing()).makespan_s

    def small(self) -> CollectiveTime:
        """Run the small collective, with and without the software's latency before messages."""
        part = self.case.small
        only, traffic = self.collective(part)
        routing = only.routing()
        network = simulate_flow(only.fabric, traffic, routing).makespan_s
        place = domains(only.fabric)
        outside = place[traffic.src] != place[traffic.dst]
        late = technology_facts().host[self.technology].stack_latency_s
        slow = replace(traffic, chunk_delay_s=traffic.chunk_delay_s + outside * late)
        full = simulate_flow(only.fabric, slow, routing).makespan_s
        return CollectiveTime(
            part.operation.value, part.size_bytes, 1.0, _algorithm(part), network, 0.0, full
        )

    def host_s(self, result: Result) -> float:
        """Return how long the processors of the busiest server work for what it sends and gets."""
        sent, got = _server_bytes(self.built.fabric, result)
        facts, machine = technology_facts().host[self.technology], technology_facts().machine
        cycles = sent * facts.send_cycles_per_byte + got * facts.receive_cycles_per_byte
        cycles = cycles + (sent + got) / 2 / machine.chunk_bytes * facts.cycles_per_transfer
        most = float(cycles.max()) if cycles.size else 0.0
        return most / (self.cores * machine.core_share * machine.clock_hz)

    def cores_needed(self) -> float:
        """Return the cores that a server needs to send and receive at its NICs' full rate."""
        facts, machine = technology_facts().host[self.technology], technology_facts().machine
        rate = _server_rate(self.built.fabric)
        each = facts.send_cycles_per_byte + facts.receive_cycles_per_byte
        return rate * (each + facts.cycles_per_transfer / machine.chunk_bytes) / machine.clock_hz

    def measure(self, progress: Callable[[str], None]) -> Measured:
        """Do all of it."""
        progress("large collectives")
        large = tuple(self.large(part) for part in self.case.mix)
        progress("small collective")
        small = self.small()
        progress("packets")
        packets = PacketBench(self.built, self.technology, self.case, self.part)
        message = packets.message_s()
        congestion = packets.congestion()
        late = technology_facts().host[self.technology].stack_latency_s
        return Measured(
            technology=self.technology,
            own=self.swapped.own,
            ran=_ran(self.built),
            large=large,
            small=small,
            message_network_s=message,
            message_s=message + late,
            permutation_ratio=congestion.permutation_ratio,
            short_ratio=congestion.short_ratio,
            incast_ratio=congestion.incast_ratio,
            bystander_ratio=congestion.bystander_ratio,
            dropped_bytes=congestion.dropped_bytes,
            marks=congestion.marks,
            pauses=congestion.pauses,
            unfinished=congestion.unfinished,
            loss_share=packets.loss_share(),
            cores_needed=self.cores_needed(),
            switches_w=self.swapped.switches_w,
            nics_w=self.swapped.nics_w,
            library_busbw_Bps=self._library(),
            notes=self.swapped.notes,
        )

    def _library(self) -> float | None:
        """Return the busbw that a collective library would reach, by the fitted model."""
        if self.case.quick:
            return None
        part = self.case.mix[0]
        try:
            choice = self.built.library_choice(
                part.operation, part.size_bytes, ranks=self.ranks, engine="analytic"
            )
        except RailweaveError:
            return None
        return float(choice.busbw_Bps)


def _algorithm(part: MixPart) -> str:
    from railweave.design.models import ALGORITHMS

    chosen: Algorithm = part.algorithm or ALGORITHMS[part.operation][0]
    return chosen.value


def _ran(built: BuiltDesign) -> str:
    from railweave.design.defaults import default_congestion, default_scheme

    plane = built.design.planes.backend
    transport = plane.transport or Transport.TCP
    scheme = plane.routing.scheme or default_scheme(transport)
    spec = plane.congestion
    congestion = (spec.scheme if spec else None) or default_congestion(transport)
    more = ", trimming" if spec is not None and spec.trimming else ""
    pairs = plane.routing.queue_pairs
    many = f", {pairs} queue pairs" if pairs > 1 else ""
    return f"{transport.value}, {scheme.value}{many}, {congestion.value}{more}"


def _server_bytes(fabric: Fabric, result: Result) -> tuple[Any, Any]:
    """Return wire bytes that each server sends into the back-end, and gets from it."""
    network = (fabric.link_layer == LinkLayer.HOST_LEAF) & (fabric.link_plane == PlaneId.BACKEND)
    src, dst = fabric.node_server[fabric.link_src], fabric.node_server[fabric.link_dst]
    count = int(fabric.node_server.max()) + 1
    out, into = network & (src >= 0), network & (dst >= 0)
    sent = np.bincount(src[out], weights=result.link_bytes[out], minlength=count)
    got = np.bincount(dst[into], weights=result.link_bytes[into], minlength=count)
    return sent, got


def _server_rate(fabric: Fabric) -> float:
    """Return the rate in byte/s that the busiest server's back-end links carry one way."""
    network = (fabric.link_layer == LinkLayer.HOST_LEAF) & (fabric.link_plane == PlaneId.BACKEND)
    src = fabric.node_server[fabric.link_src]
    out = network & (src >= 0)
    rates = np.bincount(src[out], weights=fabric.usable_bps[out] / 8)
    return float(rates.max())


# ---------------------------------------------------------------- all four


def measure(built: BuiltDesign, case: CompareCase, *, progress: Progress = _silent) -> Measurements:
    """Measure the four technologies on a design's cluster.

    Args:
        built: the design, whole or with parts out; its own traffic is not run.
        case: what is measured.
        progress: called with what is being done and the part done, 0 to 1; what it raises ends it.

    Returns:
        The measurements; the same for the same design and case.

    Raises:
        InputError: a cluster on which it means nothing (one server), more ranks than GPUs.
        SizingError: the cluster cannot be built on one of the technologies.
    """
    gpus = len(built.fabric.gpus)
    most = min(gpus, QUICK_RANKS if case.quick else MOST_RANKS)
    ranks = case.ranks or most
    if ranks > gpus:
        raise InputError(f"ranks: {ranks:,} are wanted and the design has {gpus:,} GPUs")
    part = take_slice(built)
    cores = case.cores or _cores(built)
    found: dict[Technology, Measured] = {}
    steps = 3 * len(Technology)
    done = [0]

    def told(what: str) -> None:
        progress(what, done[0] / steps)
        done[0] += 1

    for technology in Technology:
        swapped = swap(built, technology, queue_pairs=case.queue_pairs)
        bench = _Bench(case, swapped, part, ranks, cores)
        title = technology.label
        found[technology] = bench.measure(lambda what, name=title: told(f"{name}: {what}"))  # type: ignore[misc]
    progress("done", 1.0)
    speaks, unable = _adapters(built)
    return Measurements(
        design=built.design.name,
        gpus=gpus,
        ranks=ranks,
        servers=int(np.unique(built.fabric.node_server[built.fabric.gpus]).size),
        host_bps=part.host_bps,
        case=json.loads(json.dumps(case.to_json())),
        cores=cores,
        flows=len(part.pairs),
        failed=part.uplink,
        lossy=part.host_port,
        measured=found,
        speaks=speaks,
        unable=unable,
        makers=_makers(built.document.catalog),
        assumptions=_assumptions(case, part, ranks, gpus),
    )


def _cores(built: BuiltDesign) -> int:
    """Return the cores of the design's smallest server, by its sockets."""
    sockets = [
        built.document.catalog.server(group.model).numa_sockets if group.model else 2
        for group in built.design.cluster.servers
    ]
    return min(sockets) * technology_facts().machine.cores_per_socket


def _adapters(built: BuiltDesign) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return what all back-end adapters speak, and of each technology those that do not."""
    from railweave.fabric._inventory import server_shapes

    catalog = built.document.catalog
    named: dict[str, str] = {}
    for shape in server_shapes(built.design, catalog):
        adapter = shape.adapters.get(PlaneId.BACKEND)
        if adapter is not None and adapter.name:
            named[adapter.name] = shape.model
    spoken = [set(catalog.nic(name).transports) for name in named]
    common = set.intersection(*spoken) if spoken else set()
    unable = {
        technology.value: tuple(
            f"{catalog.nic(name).title} of {server}"
            for name, server in named.items()
            if SPEAKS[technology] not in catalog.nic(name).transports
        )
        for technology in Technology
    }
    return tuple(sorted(common)), {name: parts for name, parts in unable.items() if parts}


def _makers(catalog: Catalog) -> Mapping[Technology, tuple[int, int]]:
    """Count the catalog's makers of switches and of fast adapters for each technology."""
    found = {}
    for technology in Technology:
        aware = technology is Technology.ADAPTIVE
        switches = {
            one.vendor
            for one in catalog.switches()
            if SPEAKS[technology] in one.transports
            and one.vendor != "generic"
            and (not aware or "adaptive-routing" in one.features)
        }
        nics = {
            one.vendor
            for one in catalog.nics()
            if SPEAKS[technology] in one.transports
            and one.vendor != "generic"
            and one.total_speed_bps >= 200e9
        }
        found[technology] = (len(switches), len(nics))
    return found


def _shares_text(mix: Sequence[MixPart]) -> tuple[str, ...]:
    """Say how shares count that do not add up to 1; left out, they are 1 each."""
    total = sum(part.share for part in mix)
    if abs(total - 1) < _ROUNDING or all(part.share == 1 for part in mix):
        return ()
    parts = ", ".join(f"{100 * p.share / total:.1f} % {p.operation.value}" for p in mix)
    return (f"the shares of the mix add up to {total:g}, not 1, and count by their sum: {parts}",)


def _assumptions(case: CompareCase, part: Slice, ranks: int, gpus: int) -> tuple[str, ...]:
    rest = f" of {gpus:,}" if ranks < gpus else ""
    return (
        *_shares_text(case.mix),
        f"collectives run over {ranks:,} GPUs{rest}, packed, by the flow engine: max-min fair, "
        "without queues or losses",
        f"congestion and loss are those of {len(part.pairs)} flows out of one leaf, to receivers "
        "drawn by the seed, packet by packet on the whole fabric",
        f"they last {format_seconds(BURST_S)} or longer, so that it is lasting congestion and not "
        f"the first cut of a sender's rate; the burst of {format_seconds(SHORT_S)} shows that, and "
        "is not scored",
        f"TCP repeats by a timer of {format_seconds(TCP_TIMER.timer_s)}, for a tail loss probe",
        "large collectives take the longer of network and processors; the two are not overlapped "
        "any finer",
        f"a lossy cable loses {case.loss:g} of the packets towards one host, at random",
        "the failed uplink has been routed around: the outage until then is not in it",
        "switches that do not speak a technology are replaced by ones of the same ports; cables "
        "and their power are left out",
        "in-network reduction (SHARP), multipath inside TCP and NIC firmware are not modelled",
    )
