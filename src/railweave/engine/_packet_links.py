"""From fabric and settings to the links and switches of the native packet engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave._native import PacketLinks, PacketSwitchConfig
from railweave.engine.packet_settings import PacketSettings
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric._assembly import VELOCITY_M_PER_S
from railweave.fabric.lossless import PlaneQos
from railweave.qos import SwitchQos

__all__ = ["AROUND_IP_BYTES", "PS", "Ports", "make_links", "nic_plane_qos", "switch_configs"]

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

#: picoseconds in a second
PS = 1e12
#: of an Ethernet frame on the wire, what is not the IP packet: preamble, header, FCS, gap
AROUND_IP_BYTES = 38
_MOST_U32 = 0xFFFFFFFF
_PRIORITIES = 8


@dataclass(frozen=True, eq=False)
class Ports:
    """Which links are of a network, their ports by switch, and which ports are alike."""

    network: npt.NDArray[np.bool_]  #: (L,)
    into: dict[int, I64]  #: switch → links of the network that lead into it
    kinds: list[tuple[float, float]]  #: speed in b/s and length in m of ports
    kind: I64  #: (L,) each link's place in ``kinds``
    fastest_bps: float  #: of the network's ports

    @classmethod
    def of(cls, fabric: Fabric) -> Ports:
        """Find the network's links of a fabric."""
        network = fabric.link_layer >= LinkLayer.HOST_LEAF
        links = np.flatnonzero(network & (fabric.node_kind[fabric.link_dst] == NodeKind.SWITCH))
        order = links[np.argsort(fabric.link_dst[links], kind="stable")]
        nodes, first = np.unique(fabric.link_dst[order], return_index=True)
        pieces = np.split(order, first[1:]) if nodes.size else []
        pairs = np.stack((fabric.link_capacity_bps, fabric.link_length_m), axis=1)
        kinds, kind = np.unique(pairs, axis=0, return_inverse=True)
        return cls(
            network,
            dict(zip(nodes.tolist(), pieces, strict=True)),
            [(float(speed), float(length)) for speed, length in kinds.tolist()],
            kind.reshape(-1),
            float(fabric.link_capacity_bps[network].max(initial=0.0)),
        )

    def alike(self, links: I64) -> list[tuple[tuple[float, float], I64]]:
        """Group links by (speed, length)."""
        kind = self.kind[links]
        return [(self.kinds[k], links[kind == k]) for k in np.unique(kind).tolist()]


def nic_plane_qos(settings: PacketSettings, fabric: Fabric, link: int) -> PlaneQos | None:
    """Return the plane settings of a network link; None where it is of no plane with settings."""
    plane = int(fabric.link_plane[link])
    return settings.qos.get(PlaneId(plane)) if plane >= 0 else None


def _hold_s(qos: SwitchQos, fastest_bps: float) -> float:
    """Return how long after admission packets stay in a switch's pipeline, where that matters.

    The engine lets all forwarding latency pass before a packet is admitted, and dates pauses back
    by the part that really comes after. A peer that obeys sooner than that part lasts would obey
    too late; then admission is early and packets are held after it, which costs an event more.
    """
    after = qos.pipeline_s - qos.ingress_pipeline_s
    return after if qos.lossless and qos.pfc_response_s(fastest_bps) < after else 0.0


def make_links(fabric: Fabric, settings: PacketSettings, ports: Ports) -> PacketLinks:
    """Lay out every link: its rate and delays, and the thresholds at both of its ends."""
    n = fabric.n_links
    speed = fabric.link_capacity_bps
    propagation = fabric.link_length_m / VELOCITY_M_PER_S
    response, headroom, kmin, kmax, credit = (np.zeros(n) for _ in range(5))
    pause = np.zeros(n, dtype=np.uint8)
    delay = fabric.link_delay_s.copy()
    for qos, links in _by_settings(fabric, settings, ports):
        delay[links] = np.maximum(
            propagation[links], delay[links] - _hold_s(qos, ports.fastest_bps)
        )
        lossless = sum(1 << p for p in qos.lossless)
        for key, same in ports.alike(links):
            headroom[same] = qos.headroom_bytes(*key)
            credit[same] = qos.credit_bytes
            pause[same] = 0 if qos.credit_bytes else lossless
            out = same ^ 1
            response[out] = qos.pfc_response_s(key[0])
            # adapters obey as soon as their switch's headroom rule takes for granted
            hosts = same[fabric.node_kind[fabric.link_src[same]] != NodeKind.SWITCH]
            response[hosts] = qos.pfc_response_s(key[0])
            for priority in range(_PRIORITIES):
                marks = qos.ecn(priority, key[0])
                if marks is not None:
                    kmin[out], kmax[out] = marks.kmin_bytes, marks.kmax_bytes
    _host_ends(fabric, settings, ports, response=response, credit=credit, pause=pause)
    off = np.fromiter(settings.pause_off, dtype=np.int64)
    pause[off] = 0
    links_ = PacketLinks()
    links_.source = fabric.link_src.astype(np.uint32)
    links_.target = fabric.link_dst.astype(np.uint32)
    rate = np.where(ports.network, speed, speed * fabric.link_efficiency) * fabric.link_up
    links_.rate_kbps = np.rint(rate / 1e3).astype(np.uint64)
    links_.delay_ps = _ps(delay)
    links_.propagation_ps = _ps(propagation)
    links_.response_ps = _ps(response)
    links_.headroom_bytes = _u32(headroom)
    links_.kmin_bytes = _u32(kmin)
    links_.kmax_bytes = _u32(kmax)
    links_.pause_mask = pause
    links_.credit_bytes = _u32(credit)
    return links_


def _by_settings(
    fabric: Fabric, settings: PacketSettings, ports: Ports
) -> list[tuple[SwitchQos, I64]]:
    """Return every different settings of switches with all links into such switches."""
    found: dict[int, tuple[SwitchQos, list[I64]]] = {}
    for node, links in ports.into.items():
        qos = settings.switch(fabric, node)
        found.setdefault(id(qos), (qos, []))[1].append(links)
    return [(qos, np.concatenate(links)) for qos, links in found.values()]


def _host_ends(
    fabric: Fabric,
    settings: PacketSettings,
    ports: Ports,
    *,
    response: F64,
    credit: F64,
    pause: npt.NDArray[np.uint8],
) -> None:
    """Fill in the adapters' side of the host links: their room, and which classes they pause."""
    hosts = np.flatnonzero(ports.network & (fabric.node_kind[fabric.link_src] != NodeKind.SWITCH))
    for plane, qos in settings.qos.items():
        mine = hosts[fabric.link_plane[hosts] == plane]
        for key, same in ports.alike(mine):
            nic = qos.nic(*key)
            if nic.pfc_response_s is not None:
                response[same] = nic.pfc_response_s(key[0])
            back = same ^ 1
            if any(q.credit_bytes for q in qos.switches.values()):
                credit[back] = nic.rx_buffer_bytes // _PRIORITIES
            elif qos.scheme.pfc:
                pause[back] = 0xFF


def switch_configs(
    fabric: Fabric, settings: PacketSettings, ports: Ports
) -> dict[int, PacketSwitchConfig]:
    """Return the native settings of every switch; switches that are alike share one object."""
    made: dict[tuple[int, tuple[tuple[tuple[float, float], int], ...]], object] = {}
    out: dict[int, PacketSwitchConfig] = {}
    for node, links in ports.into.items():
        qos = settings.switch(fabric, node)
        number = np.bincount(ports.kind[links], minlength=len(ports.kinds)).tolist()
        counts = tuple((key, n) for key, n in zip(ports.kinds, number, strict=True) if n)
        found = made.get((id(qos), counts))
        if found is None:
            found = made[id(qos), counts] = switch_config(qos, dict(counts), ports.fastest_bps)
        out[node] = found  # type: ignore[assignment]
    return out


def switch_config(
    qos: SwitchQos, counts: dict[tuple[float, float], int], fastest_bps: float
) -> PacketSwitchConfig:
    """Turn a switch's settings into native ones.

    ``counts`` are its ports by speed and length, ``fastest_bps`` the fastest port of the fabric.
    """
    c = PacketSwitchConfig()
    cell = qos.cell_bytes
    shared = qos.shared_bytes(counts)
    c.cell_bytes = cell
    c.shared_cells = max(1, int(shared // cell))
    c.reserved_cells = qos.pg_reserved_bytes // cell
    c.queue_reserved_cells = qos.queue_reserved_bytes // cell
    c.pg_limit_cells = 0 if qos.pg_threshold_bytes is None else qos.pg_threshold_bytes // cell
    c.pg_alpha, c.queue_alpha = qos.pg_alpha, qos.queue_alpha
    c.xon_offset_cells = -(-qos.xon_offset_bytes // cell)
    c.lossless = sum(1 << p for p in qos.lossless)
    c.strict = sum(1 << p for p in qos.strict)
    fastest = max((speed for speed, _ in counts), default=400e9)
    marks = [(p, t) for p in range(_PRIORITIES) if (t := qos.ecn(p, fastest)) is not None]
    c.ecn = sum(1 << p for p, _ in marks)
    if marks:
        c.pmax, c.ecn_weight = marks[0][1].pmax, marks[0][1].weight
    c.priority_map = list(qos.priority_map)
    c.quantum_bytes = [w * qos.mtu_bytes for w in qos.weights]
    hold_s = _hold_s(qos, fastest_bps)
    c.hold_ps = round(hold_s * PS)
    c.shift_ps = 0 if hold_s else max(0, round((qos.pipeline_s - qos.ingress_pipeline_s) * PS))
    c.credits = int(qos.credit_bytes > 0)
    c.mtu_bytes = _MOST_U32 if c.credits else qos.mtu_bytes + AROUND_IP_BYTES
    c.cut_through, c.trimming = int(qos.cut_through), int(qos.trimming)
    if qos.watchdog is not None:
        c.watchdog_detect_ps = round(qos.watchdog.detect_s * PS)
        c.watchdog_restore_ps = round(qos.watchdog.restore_s * PS)
        c.watchdog_forwards = int(qos.watchdog.action == "forward")
    return c


def _ps(seconds: F64) -> U64:
    return np.rint(seconds * PS).astype(np.uint64)


def _u32(values: F64) -> U32:
    return np.minimum(values, _MOST_U32).astype(np.uint32)
