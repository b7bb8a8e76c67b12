"""What the names in faults mean on a fabric."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from railweave.engine.faults import (
    CnpWrongQueue,
    EcnOff,
    Fault,
    MtuMismatch,
    NicIgnoresCnp,
    NicSendsNoCnp,
    ReceiverNotReady,
    SlowReceiver,
    StragglerGpu,
    StuckReceiver,
    SwitchReboot,
    WrongDscpMap,
)
from railweave.errors import InputError
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric.names import UnknownNameError, find_duplex, find_node, find_port

__all__ = [
    "check_fault",
    "find_device",
    "nic_bps",
    "pipe_links",
    "pipe_nodes",
    "port_links",
    "receiver_links",
]

I64 = npt.NDArray[np.int64]

_ENDS = (NodeKind.GPU, NodeKind.HOST, NodeKind.STORAGE, NodeKind.EXTRA, NodeKind.NIC)
_NUMBERED = re.compile(r"(gpu|nic)-(\d+)")


def find_device(fabric: Fabric, name: str, kinds: Iterable[NodeKind] = tuple(NodeKind)) -> int:
    """Return the node of a name, which must be of one of these kinds.

    Raises:
        InputError: there is none, or it is of another kind.
    """
    try:
        node = find_node(fabric, name)
    except UnknownNameError:
        match = _NUMBERED.fullmatch(name)
        if match is None:
            raise
        nodes = fabric.gpus if match[1] == "gpu" else fabric.nics(PlaneId.BACKEND)
        if not 1 <= int(match[2]) <= len(nodes):
            raise UnknownNameError(
                f"there is no {name!r} in this fabric; allowed: {match[1]}-1 to "
                f"{match[1]}-{len(nodes)}, or names such as node001/{match[1]}0"
            ) from None
        node = int(nodes[int(match[2]) - 1])
    is_of, kinds = NodeKind(int(fabric.node_kind[node])), tuple(kinds)
    if is_of not in kinds:
        allowed = ", ".join(_words(kind) for kind in kinds)
        raise InputError(f"{name!r} is a {_words(is_of)}; allowed: {allowed}")
    return node


def _words(kind: NodeKind) -> str:
    if kind in (NodeKind.GPU, NodeKind.NIC):
        return kind.name
    return kind.name.lower().replace("_", "-")


def port_links(fabric: Fabric, port: str) -> tuple[int, int]:
    """Return the directed links out of a port and into it.

    Raises:
        InputError: no such port, or the cable there is out already.
    """
    device, _, number = port.rpartition(":port-")
    if _NUMBERED.fullmatch(device) and number.isdecimal():
        node = find_device(fabric, device)
        here = (fabric.link_src == node) & (fabric.link_src_port == int(number))
        if not here.any():
            used = np.unique(fabric.link_src_port[fabric.link_src == node])
            raise UnknownNameError(
                f"nothing is cabled at {port!r}; allowed: {device}:port-1 to port-{used.max()}"
            )
        out = int(np.flatnonzero(here)[0])
    else:
        duplex = find_duplex(fabric, port)
        node, place = find_port(fabric, port)
        out = 2 * duplex
        if fabric.link_src[out] != node or fabric.link_src_port[out] != place:
            out += 1
    if not fabric.link_up[out]:
        raise InputError(f"the link at {port} is out already; allowed: a link that is up")
    return out, out ^ 1


#: fields with names, and what they may name; ports apart
_NAMES: dict[type[Fault], tuple[str, tuple[NodeKind, ...]]] = {
    SwitchReboot: ("device", (NodeKind.SWITCH,)),
    EcnOff: ("device", (NodeKind.SWITCH,)),
    WrongDscpMap: ("device", (NodeKind.SWITCH,)),
    MtuMismatch: ("device", (NodeKind.SWITCH,)),
    CnpWrongQueue: ("device", (NodeKind.SWITCH, NodeKind.NIC)),
    StuckReceiver: ("receiver", _ENDS),
    SlowReceiver: ("receiver", _ENDS),
    ReceiverNotReady: ("receiver", _ENDS),
    StragglerGpu: ("gpu", _ENDS),
    NicIgnoresCnp: ("nic", _ENDS[1:]),
    NicSendsNoCnp: ("nic", _ENDS[1:]),
}


def check_fault(fault: Fault, fabric: Fabric) -> int:
    """Return the node that a fault names, or the directed link out of the port it names.

    Raises:
        InputError: the fabric has no such device or port, or it is of the wrong kind.
    """
    try:
        if type(fault) in _NAMES:
            field, kinds = _NAMES[type(fault)]
            return find_device(fabric, getattr(fault, field), kinds)
        port: str = getattr(fault, "port")  # noqa: B009 - all others name a port
        return port_links(fabric, port)[0]
    except InputError as error:
        raise InputError(f"fault {str(fault)!r}: {error}") from None


def receiver_links(fabric: Fabric, node: int) -> I64:
    """Return the links from a NIC into memory: of one GPU or host, or of all behind one NIC."""
    from_nic = fabric.node_kind[fabric.link_src] == NodeKind.NIC
    inside = (fabric.link_layer == LinkLayer.PCIE) & from_nic
    return np.flatnonzero(inside & ((fabric.link_dst == node) | (fabric.link_src == node)))


def pipe_links(fabric: Fabric, faults: Iterable[Fault]) -> frozenset[int]:
    """Return the links into memory that a fault will hold up, whatever their speed.

    Raises:
        InputError: a name that the fabric does not have.
    """
    nodes = pipe_nodes(fabric, faults)
    return frozenset(link for node in nodes for link in receiver_links(fabric, node).tolist())


def pipe_nodes(fabric: Fabric, faults: Iterable[Fault]) -> frozenset[int]:
    """Return the receivers that a fault will hold up.

    Raises:
        InputError: a name that the fabric does not have.
    """
    held = (f for f in faults if isinstance(f, StuckReceiver | SlowReceiver))
    return frozenset(check_fault(fault, fabric) for fault in held)


def nic_bps(fabric: Fabric, node: int) -> float:
    """Return the speed of all network ports of a node together, in bit/s."""
    ports = (fabric.link_layer >= LinkLayer.HOST_LEAF) & (fabric.link_dst == node)
    return float(fabric.link_capacity_bps[ports].sum())
