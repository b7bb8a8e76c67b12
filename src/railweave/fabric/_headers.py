"""Header fields of flows, filled as hosts fill them, and which of them a switch hashes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.design.models import HashField, RoutingScheme, RoutingSpec, Transport
from railweave.fabric._paths import splitmix64

__all__ = ["Flows", "field_mask", "flow_headers", "flowlets", "random_stream", "udp_source_port"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U16 = npt.NDArray[np.uint16]
U64 = npt.NDArray[np.uint64]

ROCE_PORT = 4791
TCP_SERVICE_PORT = 5201
_EPHEMERAL = (32_768, 60_999)  #: Linux's default range of TCP source ports
_FIELD_BIT = {
    HashField.SRC_IP: 1,
    HashField.DST_IP: 2,
    HashField.PROTOCOL: 4,
    HashField.SRC_PORT: 8,
    HashField.DST_PORT: 16,
}
_QUEUE_PAIR_BIT = 32


@dataclass(frozen=True, eq=False)
class Flows:
    """Flows before they are walked: message, number within it, both NICs and the ways to them.

    ``lane`` is the turn in which a NIC deals its ports, −1 where the two NICs share one at most.
    """

    first: I64
    message: I64
    number: I64
    src: I32
    dst: I32
    src_way: I64
    dst_way: I64
    connection: U64
    lane: I64


def random_stream(seed: int, use: str) -> np.uint64:
    """Return the start of one named random stream of the design's seed."""
    digest = hashlib.sha256(f"railweave/{seed}/{use}".encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))


def udp_source_port(local_qp: U64, remote_qp: U64) -> U16:
    """Return the RoCEv2 source port of queue pairs whose flow label is not set.

    The rule of Linux (include/rdma/ib_verbs.h): the product of both numbers, folded to a 20-bit
    flow label, folded to 14 bits, above 0xC000.
    """
    v = local_qp * remote_qp
    v = v ^ (v >> np.uint64(20))
    v = v ^ (v >> np.uint64(40))
    label = v & np.uint64(0xFFFFF)
    low = (label & np.uint64(0x3FFF)) ^ ((label & np.uint64(0xFC000)) >> np.uint64(14))
    port: U16 = (low | np.uint64(0xC000)).astype(np.uint16)
    return port


def flowlets(spec: RoutingSpec, scheme: RoutingScheme) -> int:
    """Return into how many flowlets each flow breaks."""
    return spec.flowlets if scheme is RoutingScheme.FLOWLET else 1


def field_mask(spec: RoutingSpec, scheme: RoutingScheme) -> int:
    """Return the native core's bit mask of the hashed fields."""
    mask = sum(_FIELD_BIT[f] for f in set(spec.fields))
    if scheme in (RoutingScheme.E_ECMP, RoutingScheme.FLOWLET):
        mask |= _QUEUE_PAIR_BIT
    return mask


def flow_headers(
    flows: Flows, use: I64, transport: Transport, per_pair: int
) -> tuple[U16, U16, npt.NDArray[np.uint32]]:
    """Return source port, destination port and destination queue pair of flows ``use``.

    ``per_pair`` flowlets of one queue pair differ in the queue pair field only: the switch, not
    the host, gives each flowlet its own choice, and this is how that choice is drawn.
    """
    connection, number = flows.connection[use], flows.number[use].astype(np.uint64)
    queue = number // np.uint64(per_pair)
    drawn = splitmix64(connection + queue * np.uint64(0x9E3779B97F4A7C15))
    mask24 = np.uint64(0xFFFFFF)
    local, remote = (drawn >> np.uint64(8)) & mask24, (drawn >> np.uint64(40)) & mask24
    if transport is Transport.TCP:
        span = np.uint64(_EPHEMERAL[1] - _EPHEMERAL[0] + 1)
        port = ((drawn >> np.uint64(16)) % span + np.uint64(_EPHEMERAL[0])).astype(np.uint16)
    else:
        port = udp_source_port(local, remote)
    if per_pair > 1:
        flowlet = number % np.uint64(per_pair)
        remote = splitmix64(remote + (flowlet << np.uint64(24))) & mask24
    service = TCP_SERVICE_PORT if transport is Transport.TCP else ROCE_PORT
    return port, np.full(len(use), service, dtype=np.uint16), remote.astype(np.uint32)
