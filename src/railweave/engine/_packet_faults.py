"""From faults over time to what the native packet engine does at each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from railweave._native import PACKET_FAULT_KINDS, PacketEpoch, PacketSim, PacketSwitchConfig
from railweave.engine._fault_targets import check_fault, nic_bps, receiver_links
from railweave.engine._packet_flows import AdapterKind, FlowTable, adapter_kinds, nic_config
from railweave.engine._packet_links import AROUND_IP_BYTES, PS, Ports, switch_configs
from railweave.engine._packet_reroute import Rerouting, outages, reroutes, steps
from railweave.engine.faults import (
    BitErrors,
    CnpWrongQueue,
    EcnOff,
    Fault,
    Interval,
    LinkSlow,
    MtuMismatch,
    NicIgnoresCnp,
    NicSendsNoCnp,
    PfcOff,
    ReceiverNotReady,
    SlowReceiver,
    StragglerGpu,
    StuckReceiver,
    SwitchReboot,
    WrongDscpMap,
)
from railweave.engine.packet_settings import PacketSettings
from railweave.fabric import Fabric, NodeKind, PlaneId
from railweave.fabric.routing import RoutingSet
from railweave.findings import Finding, Severity
from railweave.qos import NicQos, classes_named
from railweave.qos._switch import DSCP_OF_PRIORITY
from railweave.workload import Traffic

__all__ = ["FaultInput", "FaultPlan", "plan_faults"]

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_NONE = 0xFFFFFFFF
#: of what happens at one time, what comes first: a switch loses its queues before its links go
#: down, and paths change when the links have
_ORDER = (
    "flush",
    "switch_config",
    "pause_mask",
    "link_rate",
    "link_loss",
    "link_down",
    "link_up",
    "pipe_rate",
    "freeze",
    "nic_config",
    "not_ready",
    "chunk_delay",
    "reroute",
)


class _Event(NamedTuple):
    time_s: float
    kind: str
    target: int
    value: int


Aimed = tuple[Fault, int]  #: a fault with the node or directed link it names


@dataclass(frozen=True, eq=False)
class FaultInput:
    """What a run is made of, as the packet engine's facade has laid it out.

    ``pause_mask`` is by link; ``nic``, ``rx_pipe`` and ``tables`` are numbers by flow.
    """

    fabric: Fabric
    traffic: Traffic
    routing: RoutingSet
    settings: PacketSettings
    ports: Ports
    table: FlowTable
    pause_mask: U8
    nic: U32
    rx_pipe: U32
    tables: U32
    sim: PacketSim
    idle: list[Fault] = field(default_factory=list)  #: faults found to change nothing


@dataclass(frozen=True, eq=False)
class FaultPlan:
    """All that happens, in order of time; one entry an event, as ``set_faults`` takes them."""

    time_ps: U64
    kind: U8
    index: U32
    value: U64
    epochs: list[PacketEpoch]
    findings: tuple[Finding, ...]

    def give(self, sim: PacketSim) -> None:
        """Hand it to the native engine."""
        sim.set_faults(self.time_ps, self.kind, self.index, self.value, self.epochs)


def plan_faults(given: FaultInput) -> FaultPlan:
    """Work out what happens when; adds settings and tables to the simulation.

    Call it after ``set_work``: the engine checks faults against the flows.

    Raises:
        InputError: a fault that names what the fabric does not have.
    """
    faults = [(fault, check_fault(fault, given.fabric)) for fault in given.settings.faults]
    rerouting = Rerouting(
        given.fabric,
        given.traffic,
        given.routing,
        given.settings,
        given.table,
        given.tables,
        given.sim,
    )
    events: list[_Event] = [
        *_cables(given, faults),
        *_speeds(given, faults),
        *_losses(given, faults),
        *_switches(given, faults),
        *_pauses(given, faults),
        *_receivers(given, faults),
        *_adapters(given, faults),
        *_not_ready(given, faults),
        *_stragglers(given, faults),
        *(_Event(time, "reroute", epoch, 0) for time, epoch in reroutes(rerouting, faults)),
    ]
    number = {name: k for k, name in enumerate(PACKET_FAULT_KINDS)}
    rank = {name: k for k, name in enumerate(_ORDER)}
    events.sort(key=lambda event: (event.time_s, rank[event.kind]))
    return FaultPlan(
        np.array([round(e.time_s * PS) for e in events], dtype=np.uint64),
        np.array([number[e.kind] for e in events], dtype=np.uint8),
        np.array([e.target for e in events], dtype=np.uint32),
        np.array([e.value for e in events], dtype=np.uint64),
        rerouting.epochs,
        tuple(_idle(given.fabric, fault) for fault in given.idle),
    )


def _idle(fabric: Fabric, fault: Fault) -> Finding:
    return Finding(
        "fault-without-effect",
        Severity.WARNING,
        fabric.name,
        f"the fault '{fault}' changes nothing in this run",
        "no traffic of this run meets it, or the setting is so already",
        "name a device that the job uses, and a setting that the plane has",
    )


# ---------------------------------------------------------------- links


def _cables(given: FaultInput, faults: Iterable[Aimed]) -> Iterator[_Event]:
    """Take cables down and up; what is down by two faults comes up when both are over."""
    faults = list(faults)
    spans: dict[int, list[tuple[Interval, bool]]] = {}
    for outage, duplex in outages(given.fabric, faults):
        for cable in duplex.tolist():
            spans.setdefault(cable, []).extend((span, True) for span in outage.intervals())
    for cable, mine in spans.items():
        down = False
        for time, active in steps(mine):
            if bool(active) != down:
                down = bool(active)
                yield _Event(time, "link_down" if down else "link_up", 2 * cable, 0)
    for fault, node in faults:
        if isinstance(fault, SwitchReboot):
            yield _Event(fault.at_s, "flush", node, 0)


def _speeds(given: FaultInput, faults: Iterable[Aimed]) -> Iterator[_Event]:
    spans: dict[int, list[tuple[Interval, float]]] = {}
    for fault, link in faults:
        if isinstance(fault, LinkSlow):
            for way in (link, link ^ 1):
                spans.setdefault(way, []).extend((s, fault.factor) for s in fault.intervals())
    for way, mine in spans.items():
        full = float(given.fabric.link_capacity_bps[way])
        for time, active in steps(mine):
            yield _Event(time, "link_rate", way, _kbps(full * _product(active)))


def _product(factors: Iterable[float]) -> float:
    total = 1.0
    for factor in factors:
        total *= factor
    return total


def _kbps(bps: float) -> int:
    return max(1, round(bps / 1e3))


def _losses(given: FaultInput, faults: Iterable[Aimed]) -> Iterator[_Event]:
    """Lose packets at random; one chance holds for all of a link, that of a full packet."""
    spans: dict[int, list[tuple[Interval, float]]] = {}
    for fault, out in faults:
        if not isinstance(fault, BitErrors):
            continue
        ways = {"out": (out,), "in": (out ^ 1,), "both": (out, out ^ 1)}[fault.way]
        kept = 1.0 - fault.loss_of(_packet_bytes(given, out))
        for way in ways:
            spans.setdefault(way, []).extend((span, kept) for span in fault.intervals())
    for way, mine in spans.items():
        for time, active in steps(mine):
            chance = 1.0 - _product(active)
            yield _Event(time, "link_loss", way, min(1 << 32, round(chance * 2**32)))


def _packet_bytes(given: FaultInput, link: int) -> int:
    """Return the wire bytes of a full packet on a link."""
    frames = given.routing.frames()
    plane = int(given.fabric.link_plane[link])
    here = [frames[int(p)] for p, r in given.routing.planes.items() if int(r.plane) == plane]
    return max((f.mtu_bytes + f.overhead_bytes for f in here), default=0)


def _pauses(given: FaultInput, faults: Iterable[Aimed]) -> Iterator[_Event]:
    spans: dict[int, list[tuple[Interval, bool]]] = {}
    for fault, out in faults:
        if isinstance(fault, PfcOff):
            if not (given.pause_mask[out] or given.pause_mask[out ^ 1]):
                given.idle.append(fault)
            for way in (out, out ^ 1):
                spans.setdefault(way, []).extend((span, True) for span in fault.intervals())
    for way, mine in spans.items():
        for time, active in steps(mine):
            yield _Event(time, "pause_mask", way, 0 if active else int(given.pause_mask[way]))


# ---------------------------------------------------------------- switches


def _switches(given: FaultInput, faults: Iterable[Aimed]) -> Iterator[_Event]:
    """Give switches other settings; those wrong in several ways at a time have one of their own."""
    spans: dict[int, list[tuple[Interval, Fault]]] = {}
    for fault, node in faults:
        if isinstance(fault, EcnOff | WrongDscpMap | MtuMismatch) or (
            isinstance(fault, CnpWrongQueue) and _is_switch(given, node)
        ):
            if not _changes(given, node, fault):
                given.idle.append(fault)
                continue
            spans.setdefault(node, []).extend((span, fault) for span in fault.intervals())
    for node, mine in spans.items():
        numbers: dict[tuple[int, ...], int] = {}
        for time, active in steps(mine):
            key = tuple(id(fault) for fault in active)
            if key not in numbers:
                config = _config(given, node)
                for fault in active:
                    _misconfigure(given, node, config, fault)
                numbers[key] = int(given.sim.add_switch_config(config))
            yield _Event(time, "switch_config", node, numbers[key])


def _is_switch(given: FaultInput, node: int) -> bool:
    return bool(given.fabric.node_kind[node] == NodeKind.SWITCH)


def _config(given: FaultInput, node: int) -> PacketSwitchConfig:
    """Return a switch's settings as they should be, anew."""
    only = replace(given.ports, into={node: given.ports.into[node]})
    return switch_configs(given.fabric, given.settings, only)[node]


def _changes(given: FaultInput, node: int, fault: Fault) -> bool:
    if node not in given.ports.into:
        return False
    right, wrong = _config(given, node), _config(given, node)
    _misconfigure(given, node, wrong, fault)
    fields = ("ecn", "priority_map", "mtu_bytes")
    return any(getattr(right, name) != getattr(wrong, name) for name in fields)


def _misconfigure(given: FaultInput, node: int, config: PacketSwitchConfig, fault: Fault) -> None:
    if isinstance(fault, EcnOff):
        config.ecn = 0
    elif config.credits and isinstance(fault, WrongDscpMap | CnpWrongQueue):
        pass  # InfiniBand: packets stay in the virtual lane that the host chose
    elif isinstance(fault, WrongDscpMap):
        classes = classes_named(fault.classes)
        config.priority_map = [classes.priority(dscp) for dscp in DSCP_OF_PRIORITY]
    elif isinstance(fault, MtuMismatch):
        config.mtu_bytes = fault.mtu_bytes + AROUND_IP_BYTES
    elif isinstance(fault, CnpWrongQueue):
        plane = PlaneId(int(given.fabric.node_plane[node]))
        link = int(given.ports.into[node][0])
        nic = given.settings.qos[plane].nic(
            float(given.fabric.link_capacity_bps[link]), float(given.fabric.link_length_m[link])
        )
        wrong = list(config.priority_map)
        wrong[nic.cnp_priority] = fault.priority
        config.priority_map = wrong


# ---------------------------------------------------------------- receivers and adapters


def _receivers(given: FaultInput, faults: Iterable[Aimed]) -> Iterator[_Event]:
    """Hold up ways into memory, or slow them down."""
    held: dict[int, list[tuple[Interval, float]]] = {}
    full: dict[int, float] = {}
    for fault, node in faults:
        if not isinstance(fault, StuckReceiver | SlowReceiver):
            continue
        pipes = _pipes_of(given, node)
        if not pipes:
            given.idle.append(fault)
        full.update(pipes)
        factor = fault.factor if isinstance(fault, SlowReceiver) else 0.0
        for pipe in pipes:
            held.setdefault(pipe, []).extend((span, factor) for span in fault.intervals())
    for pipe, mine in held.items():
        frozen, rate = False, full[pipe]
        for time, active in steps(mine):
            now = full[pipe] * _product(f for f in active if f > 0)
            if now != rate:
                rate = now
                yield _Event(time, "pipe_rate", pipe, _kbps(rate))
            if (0.0 in active) != frozen:
                frozen = not frozen
                yield _Event(time, "freeze", pipe, int(frozen))


def _pipes_of(given: FaultInput, node: int) -> dict[int, float]:
    """Return the ways into a receiver's memory that are in use, and their speeds."""
    found: dict[int, float] = {}
    for link in receiver_links(given.fabric, node).tolist():
        for pipe in np.unique(given.rx_pipe[given.table.in_link == link]).tolist():
            found[pipe] = float(given.fabric.usable_bps[link])
    at_nic = (given.table.in_link < 0) & (_ends(given)[1] == node)
    for pipe in np.unique(given.rx_pipe[at_nic]).tolist():
        found[pipe] = nic_bps(given.fabric, node)
    found.pop(_NONE, None)
    return found


def _ends(given: FaultInput) -> tuple[I64, I64]:
    """Return the NICs (or hosts) at both ends of each flow, −1 inside a scale-up domain."""
    table, across = given.table, given.table.plane >= 0
    first = table.path_link[table.path_ptr[:-1]]
    last = table.path_link[table.path_ptr[1:] - 1]
    source = np.where(across, given.fabric.link_src[first], -1)
    return source, np.where(across, given.fabric.link_dst[last], -1)


def _not_ready(given: FaultInput, faults: Iterable[Aimed]) -> Iterator[_Event]:
    to, nic = given.traffic.dst[given.table.stream], _ends(given)[1]
    across = given.table.plane >= 0
    spans: dict[int, list[tuple[Interval, bool]]] = {}
    for fault, node in faults:
        if isinstance(fault, ReceiverNotReady):
            flows = np.flatnonzero(across & ((to == node) | (nic == node)))
            if not flows.size:
                given.idle.append(fault)
            for flow in flows.tolist():
                spans.setdefault(flow, []).extend((span, True) for span in fault.intervals())
    for flow, mine in spans.items():
        for time, active in steps(mine):
            yield _Event(time, "not_ready", flow, int(bool(active)))


def _stragglers(given: FaultInput, faults: Iterable[Aimed]) -> Iterator[_Event]:
    source = _ends(given)[0]
    spans: dict[int, list[tuple[Interval, float]]] = {}
    for fault, node in faults:
        if isinstance(fault, StragglerGpu):
            streams = np.union1d(
                np.flatnonzero(given.traffic.src == node), given.table.stream[source == node]
            )
            if not streams.size:
                given.idle.append(fault)
            for stream in streams.tolist():
                spans.setdefault(stream, []).extend((s, fault.delay_s) for s in fault.intervals())
    for stream, mine in spans.items():
        own = float(given.traffic.chunk_delay_s[stream])
        for time, active in steps(mine):
            yield _Event(time, "chunk_delay", stream, round((own + sum(active)) * PS))


def _adapters(given: FaultInput, faults: Iterable[Aimed]) -> Iterator[_Event]:
    """Give the queue pairs of adapters with a wrong setting other settings."""
    spans: list[tuple[Interval, Aimed]] = []
    for fault, node in faults:
        wrong = isinstance(fault, NicIgnoresCnp | NicSendsNoCnp | CnpWrongQueue)
        if wrong and not _is_switch(given, node):
            spans.extend((span, (fault, node)) for span in fault.intervals())
    if not spans:
        return
    source, target = _ends(given)
    kinds, which = adapter_kinds(given.fabric, given.settings, given.table, given.routing.frames())
    numbers: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int | None] = {}
    nodes = [node for _, (_, node) in spans]
    hit = np.flatnonzero(np.isin(source, nodes) | np.isin(target, nodes))
    now, touched = given.nic.astype(np.int64), set[int]()
    for time, active in steps(spans):
        for flow in hit.tolist():
            out = [f for f, node in active if node == source[flow]]
            back = [f for f, node in active if node == target[flow]]
            kind = kinds[which[flow]]
            assert kind is not None  # of a network plane
            key = (int(which[flow]), tuple(map(id, out)), tuple(map(id, back)))
            if key not in numbers:
                numbers[key] = _add_adapter(given, kind, out, back)
            number = numbers[key]
            wanted = int(given.nic[flow]) if number is None else number
            if number is not None:
                touched.update(key[1] + key[2])
            if wanted != now[flow]:
                now[flow] = wanted
                yield _Event(time, "nic_config", flow, wanted)
    once = {id(fault): fault for _, (fault, _) in spans}
    given.idle.extend(fault for key_, fault in once.items() if key_ not in touched)


def _add_adapter(
    given: FaultInput, kind: AdapterKind, out: list[Fault], back: list[Fault]
) -> int | None:
    """Add the settings of a queue pair whose ends are wrong like this; None if they are as ever."""
    mine, theirs = kind.mine, kind.theirs
    for fault in out:
        if isinstance(fault, NicIgnoresCnp):
            mine = replace(mine, ignores_cnp=True)
    for fault in back:
        theirs = _notifying(theirs, fault)
    if (mine, theirs) == (kind.mine, kind.theirs):
        return None
    config = nic_config(replace(kind, mine=mine, theirs=theirs))
    config.request_priority = kind.theirs.cnp_priority  # of these nothing is wrong
    return int(given.sim.add_nic_config(config))


def _notifying(theirs: NicQos, fault: Fault) -> NicQos:
    if isinstance(fault, NicSendsNoCnp):
        return replace(theirs, sends_cnp=False)
    if isinstance(fault, CnpWrongQueue):
        return replace(theirs, cnp_priority=fault.priority)
    return theirs
