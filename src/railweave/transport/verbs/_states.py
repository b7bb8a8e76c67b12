"""The queue pair's state machine as a table: which change needs which attributes.

The rows are those of the InfiniBand Architecture Specification, volume 1, section 10.3, as the
manual page ``ibv_modify_qp`` and the Linux kernel have them for RC, UC and UD.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntFlag
from typing import Final

from railweave.transport.packets import MTU_BYTES, Service
from railweave.transport.verbs._types import Access, QpState, VerbsError

__all__ = [
    "RNR_TIMER_MS",
    "TRANSITIONS",
    "Attr",
    "QpAttributes",
    "Transition",
    "ack_timeout_s",
    "check_transition",
    "rnr_timer_s",
]


class Attr(IntFlag):
    """Attributes of a queue pair, numbered as ``ibv_qp_attr_mask``."""

    NONE = 0
    STATE = 1 << 0
    CUR_STATE = 1 << 1
    EN_SQD_ASYNC_NOTIFY = 1 << 2
    ACCESS_FLAGS = 1 << 3
    PKEY_INDEX = 1 << 4
    PORT = 1 << 5
    QKEY = 1 << 6
    AV = 1 << 7
    PATH_MTU = 1 << 8
    TIMEOUT = 1 << 9
    RETRY_CNT = 1 << 10
    RNR_RETRY = 1 << 11
    RQ_PSN = 1 << 12
    MAX_QP_RD_ATOMIC = 1 << 13
    ALT_PATH = 1 << 14
    MIN_RNR_TIMER = 1 << 15
    SQ_PSN = 1 << 16
    MAX_DEST_RD_ATOMIC = 1 << 17
    PATH_MIG_STATE = 1 << 18
    CAP = 1 << 19
    DEST_QPN = 1 << 20


@dataclass(frozen=True, slots=True)
class QpAttributes:
    """What to set with one ``modify``; None leaves an attribute out of the mask.

    ``av`` is the peer host's number: the address vector of a fabric of two hosts. ``timeout`` and
    ``min_rnr_timer`` are codes (:func:`ack_timeout_s`, :func:`rnr_timer_s`). ``rnr_retry`` 7 is
    without end, ``retry_cnt`` 7 is seven times.
    """

    state: QpState | None = None
    cur_state: QpState | None = None
    en_sqd_async_notify: bool | None = None
    access_flags: Access | None = None
    pkey_index: int | None = None
    port: int | None = None
    qkey: int | None = None
    av: int | None = None
    path_mtu: int | None = None
    timeout: int | None = None
    retry_cnt: int | None = None
    rnr_retry: int | None = None
    rq_psn: int | None = None
    max_qp_rd_atomic: int | None = None
    alt_path: int | None = None
    min_rnr_timer: int | None = None
    sq_psn: int | None = None
    max_dest_rd_atomic: int | None = None
    path_mig_state: int | None = None
    cap: int | None = None
    dest_qpn: int | None = None

    def mask(self) -> Attr:
        """Give the attributes that are set, as ``attr_mask`` would name them."""
        given = Attr.NONE
        for each in fields(self):
            if getattr(self, each.name) is not None:
                given |= Attr[each.name.upper()]
        return given


@dataclass(frozen=True, slots=True)
class Transition:
    """Attributes that a change of state must have, and those that it may have."""

    required: Attr = Attr.NONE
    optional: Attr = Attr.NONE


_RESET, _INIT, _RTR, _RTS, _SQD, _SQE, _ERR = QpState
_RC, _UC, _UD = Service
_BARE: Final = {service: Transition() for service in Service}
_PORT: Final = Attr.PKEY_INDEX | Attr.PORT
_CONNECTED: Final = Attr.AV | Attr.PATH_MTU | Attr.DEST_QPN | Attr.RQ_PSN
_PATH: Final = Attr.ALT_PATH | Attr.ACCESS_FLAGS
_MOVING: Final = Attr.CUR_STATE | _PATH | Attr.PATH_MIG_STATE
_UD_MOVING: Final = Attr.CUR_STATE | Attr.QKEY
_RC_SEND: Final = (
    Attr.TIMEOUT | Attr.RETRY_CNT | Attr.RNR_RETRY | Attr.SQ_PSN | Attr.MAX_QP_RD_ATOMIC
)
_TO_RTS: Final = {
    _RC: Transition(optional=_MOVING | Attr.MIN_RNR_TIMER),
    _UC: Transition(optional=_MOVING),
    _UD: Transition(optional=_UD_MOVING),
}

#: (from, to) → service → what it needs; a pair that is not here is no legal change
TRANSITIONS: Final[dict[tuple[QpState, QpState], dict[Service, Transition]]] = {
    **{(state, _RESET): _BARE for state in QpState},
    **{(state, _ERR): _BARE for state in QpState if state is not _RESET},
    (_RESET, _INIT): {
        _RC: Transition(_PORT | Attr.ACCESS_FLAGS),
        _UC: Transition(_PORT | Attr.ACCESS_FLAGS),
        _UD: Transition(_PORT | Attr.QKEY),
    },
    (_INIT, _INIT): {
        _RC: Transition(optional=_PORT | Attr.ACCESS_FLAGS),
        _UC: Transition(optional=_PORT | Attr.ACCESS_FLAGS),
        _UD: Transition(optional=_PORT | Attr.QKEY),
    },
    (_INIT, _RTR): {
        _RC: Transition(
            _CONNECTED | Attr.MAX_DEST_RD_ATOMIC | Attr.MIN_RNR_TIMER, _PATH | Attr.PKEY_INDEX
        ),
        _UC: Transition(_CONNECTED, _PATH | Attr.PKEY_INDEX),
        _UD: Transition(optional=Attr.PKEY_INDEX | Attr.QKEY),
    },
    (_RTR, _RTS): {
        _RC: Transition(_RC_SEND, _MOVING | Attr.MIN_RNR_TIMER),
        _UC: Transition(Attr.SQ_PSN, _MOVING),
        _UD: Transition(Attr.SQ_PSN, _UD_MOVING),
    },
    (_RTS, _RTS): _TO_RTS,
    (_RTS, _SQD): {each: Transition(optional=Attr.EN_SQD_ASYNC_NOTIFY) for each in Service},
    (_SQD, _RTS): _TO_RTS,
    (_SQD, _SQD): {
        _RC: Transition(
            optional=Attr.PORT
            | Attr.AV
            | Attr.TIMEOUT
            | Attr.RETRY_CNT
            | Attr.RNR_RETRY
            | Attr.MAX_QP_RD_ATOMIC
            | Attr.MAX_DEST_RD_ATOMIC
            | Attr.MIN_RNR_TIMER
            | Attr.PKEY_INDEX
            | Attr.PATH_MIG_STATE
            | _PATH
        ),
        _UC: Transition(optional=Attr.AV | Attr.PKEY_INDEX | Attr.PATH_MIG_STATE | _PATH),
        _UD: Transition(optional=Attr.PKEY_INDEX | Attr.QKEY),
    },
    (_SQE, _RTS): {
        _UC: Transition(optional=Attr.CUR_STATE | Attr.ACCESS_FLAGS),
        _UD: Transition(optional=_UD_MOVING),
    },
}

_PSN: Final = range(2**24)
_ALLOWED: Final[dict[str, tuple[range | tuple[int, ...], str]]] = {
    "pkey_index": (range(2**16), "an index of the host's P_Key table"),
    "port": ((1,), "1: the model's adapters have one port"),
    "qkey": (range(2**32), "32 bits"),
    "path_mtu": (MTU_BYTES, "256, 512, 1024, 2048 or 4096 bytes"),
    "timeout": (range(32), "0 (never) to 31"),
    "retry_cnt": (range(8), "0 to 7"),
    "rnr_retry": (range(8), "0 to 6, or 7 for without end"),
    "rq_psn": (_PSN, "24 bits"),
    "sq_psn": (_PSN, "24 bits"),
    "min_rnr_timer": (range(32), "0 to 31"),
    "max_qp_rd_atomic": (range(129), "0 to 128"),
    "max_dest_rd_atomic": (range(129), "0 to 128"),
    "dest_qpn": (range(2**24), "24 bits"),
}


def _names(mask: Attr) -> str:
    return ", ".join(sorted(each.name or "" for each in Attr if each and each in mask))


def check_transition(
    service: Service, current: QpState, attributes: QpAttributes
) -> tuple[QpState, Attr]:
    """Decide whether a queue pair may be modified so.

    Returns:
        The new state and the mask of what was given.

    Raises:
        VerbsError: EINVAL: no such change, an attribute missing, one that is not allowed in this
            change, or a value out of its range.
    """
    new = attributes.state or current
    row = TRANSITIONS.get((current, new), {}).get(service)
    if row is None:
        legal = sorted(
            {to for (source, to), by in TRANSITIONS.items() if source is current and service in by}
        )
        raise VerbsError(
            f"a {service.name} queue pair in {current} cannot go to {new}; "
            f"allowed: {', '.join(legal)}"
        )
    given = attributes.mask()
    change = f"{service.name} {current} to {new}"
    missing = row.required & ~given
    if missing:
        raise VerbsError(f"{change} needs {_names(missing)}; add them to the mask")
    odd = given & ~(row.required | row.optional | Attr.STATE)
    if odd:
        raise VerbsError(
            f"{change} takes no {_names(odd)}; "
            f"allowed: {_names(row.required | row.optional) or 'STATE alone'}"
        )
    if attributes.cur_state is not None and attributes.cur_state is not current:
        raise VerbsError(
            f"the queue pair is in {current}, not in {attributes.cur_state} (CUR_STATE)"
        )
    for name, (allowed, text) in _ALLOWED.items():
        value = getattr(attributes, name)
        if value is not None and value not in allowed:
            raise VerbsError(f"{name.upper()} {value} is out of range; allowed: {text}")
    return new, given


#: wait of an RNR NAK for each code of its timer field, ms (specification, section 9.7.5.2.8)
RNR_TIMER_MS: Final = (
    655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12,
    0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
    2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72,
    40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
)  # fmt: skip


def rnr_timer_s(code: int) -> float:
    """Give the waiting time, in seconds, that a code 0 to 31 of the RNR timer means."""
    return RNR_TIMER_MS[code] / 1e3


def ack_timeout_s(code: int) -> float | None:
    """Give the local ACK timeout of a code 0 to 31: 4.096 µs · 2^code; None (never) for 0."""
    return 4.096e-6 * 2.0**code if code else None
