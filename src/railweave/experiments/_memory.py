"""Hosts with a way into memory that a fault can hold up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from railweave.fabric import Fabric, LinkLayer, NodeKind

__all__ = ["with_memory"]

#: what each array of a node holds for a host's memory; a number where it is not the NIC's own
_NODE: dict[str, int | None] = {
    "node_kind": NodeKind.HOST,
    "node_tier": 0,
    "node_plane": -1,
    "node_subplane": 0,
    "node_pod": -1,
    "node_rail": -1,
    "node_server": None,
    "node_rack": None,
    "node_index": None,
}
_INSIDE = {"link_efficiency": 1.0, "link_delay_s": 0.0, "link_length_m": 0.0, "link_up": True}


def with_memory(fabric: Fabric, hosts: Sequence[int], speed_bps: float) -> Fabric:
    """Return the fabric with a host node behind each of these NICs, over PCIe of this speed.

    The new nodes come last, in the order of ``hosts``; traffic ends there, not at the NIC.
    """
    nic = np.array(hosts, dtype=np.int32)
    n, m = fabric.n_nodes, len(nic)
    new = np.arange(n, n + m, dtype=np.int32)
    src, dst = np.empty(2 * m, np.int32), np.empty(2 * m, np.int32)
    src[0::2], src[1::2], dst[0::2], dst[1::2] = new, nic, nic, new
    arrays: dict[str, Any] = {}
    for name, value in _NODE.items():
        old = getattr(fabric, name)
        arrays[name] = _append(old, old[nic] if value is None else np.full(m, value))
    inside: dict[str, Any] = {
        "link_src": src,
        "link_dst": dst,
        "link_capacity_bps": np.full(2 * m, speed_bps),
        "link_layer": np.full(2 * m, LinkLayer.PCIE),
        "link_plane": np.full(2 * m, -1),
        "link_src_port": np.zeros(2 * m),
        "link_dst_port": np.zeros(2 * m),
        **{name: np.full(2 * m, value) for name, value in _INSIDE.items()},
        "duplex_cable": np.full(m, -1),
    }
    arrays |= {name: _append(getattr(fabric, name), more) for name, more in inside.items()}
    return replace(fabric, **arrays)


def _append(old: npt.NDArray[Any], more: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate((old, more.astype(old.dtype)))
