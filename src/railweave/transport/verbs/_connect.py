"""The usual way of two queue pairs to RTS, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from railweave.transport.packets import Service
from railweave.transport.verbs._queue_pair import QueuePair
from railweave.transport.verbs._states import QpAttributes
from railweave.transport.verbs._types import Access, QpState

__all__ = ["Connection", "attributes_to", "connect"]

_ALL = Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC


@dataclass(frozen=True, slots=True)
class Connection:
    """Values that both ends of a connection use.

    ``first_psn`` are the PSNs that host 0 and host 1 begin to send with. The codes are those of
    the verbs: ``timeout`` 14 is 67 ms, ``min_rnr_timer`` 12 is 0.64 ms.
    """

    mtu_bytes: int = 4096
    first_psn: tuple[int, int] = (0, 0)
    access: Access = _ALL
    qkey: int = 0x1111_1111
    timeout: int = 14
    retry_cnt: int = 7
    rnr_retry: int = 7
    min_rnr_timer: int = 12
    max_rd_atomic: int = 16
    max_dest_rd_atomic: int = 16


def attributes_to(
    state: QpState, service: Service, host: int, peer_qp: int, values: Connection
) -> QpAttributes:
    """Give what a queue pair of host ``host`` needs on its way to INIT, RTR or RTS."""
    connected = service is not Service.UD
    reliable = service is Service.RC
    if state is QpState.INIT:
        return QpAttributes(
            state=state,
            pkey_index=0,
            port=1,
            access_flags=values.access if connected else None,
            qkey=None if connected else values.qkey,
        )
    if state is QpState.RTR:
        if not connected:
            return QpAttributes(state=state)
        return QpAttributes(
            state=state,
            av=1 - host,
            path_mtu=values.mtu_bytes,
            dest_qpn=peer_qp,
            rq_psn=values.first_psn[1 - host],
            max_dest_rd_atomic=values.max_dest_rd_atomic if reliable else None,
            min_rnr_timer=values.min_rnr_timer if reliable else None,
        )
    return QpAttributes(
        state=QpState.RTS,
        sq_psn=values.first_psn[host],
        timeout=values.timeout if reliable else None,
        retry_cnt=values.retry_cnt if reliable else None,
        rnr_retry=values.rnr_retry if reliable else None,
        max_qp_rd_atomic=values.max_rd_atomic if reliable else None,
    )


def connect(first: QueuePair, second: QueuePair, values: Connection | None = None) -> None:
    """Take both queue pairs from RESET over INIT and RTR to RTS.

    Raises:
        VerbsError: one of them is not in RESET, or a value is not allowed.
    """
    values = values or Connection()
    for state in (QpState.INIT, QpState.RTR, QpState.RTS):
        for pair, peer in ((first, second), (second, first)):
            pair.modify(attributes_to(state, pair.service, pair.host.number, peer.number, values))
