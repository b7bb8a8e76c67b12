"""The queue pair's state machine: every change, with every attribute too few and too many."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from verbs_pair import Pair

from railweave.transport.packets import Service
from railweave.transport.verbs import (
    RNR_TIMER_MS,
    TRANSITIONS,
    Access,
    Attr,
    QpAttributes,
    QpState,
    VerbsError,
    ack_timeout_s,
    check_transition,
    rnr_timer_s,
)

#: required and optional attributes as ``ibv_modify_qp``(3) lists them, written down once more
_INIT = {"RC": "PKEY_INDEX PORT ACCESS_FLAGS", "UC": "PKEY_INDEX PORT ACCESS_FLAGS",
         "UD": "PKEY_INDEX PORT QKEY"}  # fmt: skip
_RTR = {
    "RC": "AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
    "UC": "AV PATH_MTU DEST_QPN RQ_PSN",
    "UD": "",
}
_RTS = {
    "RC": "SQ_PSN MAX_QP_RD_ATOMIC RETRY_CNT RNR_RETRY TIMEOUT",
    "UC": "SQ_PSN",
    "UD": "SQ_PSN",
}
_RTS_OPTIONAL = {
    "RC": "CUR_STATE ACCESS_FLAGS MIN_RNR_TIMER ALT_PATH PATH_MIG_STATE",
    "UC": "CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE",
    "UD": "CUR_STATE QKEY",
}
_SQD_OPTIONAL = {
    "RC": "PORT AV PKEY_INDEX TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC "
    "ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE",
    "UC": "AV PKEY_INDEX ALT_PATH ACCESS_FLAGS PATH_MIG_STATE",
    "UD": "PKEY_INDEX QKEY",
}
_LEGAL = {
    ("RESET", "INIT"), ("INIT", "INIT"), ("INIT", "RTR"), ("RTR", "RTS"), ("RTS", "RTS"),
    ("RTS", "SQD"), ("SQD", "SQD"), ("SQD", "RTS"), ("SQE", "RTS"),
}  # fmt: skip

#: a right value for each attribute
_VALUES = QpAttributes(
    en_sqd_async_notify=True,
    access_flags=Access.REMOTE_READ,
    pkey_index=0,
    port=1,
    qkey=1,
    av=1,
    path_mtu=1024,
    timeout=14,
    retry_cnt=7,
    rnr_retry=7,
    rq_psn=5,
    max_qp_rd_atomic=4,
    alt_path=0,
    min_rnr_timer=12,
    sq_psn=6,
    max_dest_rd_atomic=4,
    path_mig_state=0,
    cap=0,
    dest_qpn=0x11,
)


def _attributes(mask: Attr, state: QpState, current: QpState) -> QpAttributes:
    given = {
        each.name: getattr(_VALUES, each.name)
        for each in fields(_VALUES)
        if Attr[each.name.upper()] in mask and each.name not in ("state", "cur_state")
    }
    return QpAttributes(state=state, cur_state=current if Attr.CUR_STATE in mask else None, **given)


def _mask(text: str) -> Attr:
    mask = Attr.NONE
    for name in text.split():
        mask |= Attr[name]
    return mask


@pytest.mark.parametrize("service", Service)
def test_the_table_is_the_manual_pages(service: Service) -> None:
    name = service.name
    table = {pair: by[service] for pair, by in TRANSITIONS.items() if service in by}
    S = QpState
    assert table[S.RESET, S.INIT].required == _mask(_INIT[name])
    assert table[S.INIT, S.INIT].optional == _mask(_INIT[name])
    assert table[S.INIT, S.RTR].required == _mask(_RTR[name])
    assert table[S.RTR, S.RTS].required == _mask(_RTS[name])
    for before in (S.RTR, S.RTS, S.SQD):
        assert table[before, S.RTS].optional == _mask(_RTS_OPTIONAL[name])
    assert table[S.SQD, S.SQD].optional == _mask(_SQD_OPTIONAL[name])
    assert table[S.RTS, S.SQD].optional == Attr.EN_SQD_ASYNC_NOTIFY
    legal = {(a.value, b.value) for a, b in table if b not in (S.RESET, S.ERR)}
    assert legal == (_LEGAL if service is not Service.RC else _LEGAL - {("SQE", "RTS")})
    assert (S.RESET, S.ERR) not in table
    assert all((state, S.RESET) in table for state in S)


@pytest.mark.parametrize("service", Service)
@pytest.mark.parametrize("current", QpState)
@pytest.mark.parametrize("new", QpState)
def test_every_change(service: Service, current: QpState, new: QpState) -> None:
    row = TRANSITIONS.get((current, new), {}).get(service)
    if row is None:
        with pytest.raises(VerbsError, match=r"EINVAL: .* cannot go to .*allowed: "):
            check_transition(service, current, QpAttributes(state=new))
        return
    state, given = check_transition(service, current, _attributes(row.required, new, current))
    assert (state, given) == (new, row.required | Attr.STATE)
    check_transition(service, current, _attributes(row.required | row.optional, new, current))
    for each in Attr:
        if each in row.required and each:
            with pytest.raises(VerbsError, match=f"needs {each.name}"):
                check_transition(service, current, _attributes(row.required & ~each, new, current))
        elif each and each not in row.optional | Attr.STATE:
            with pytest.raises(VerbsError, match=f"takes no {each.name}"):
                check_transition(service, current, _attributes(row.required | each, new, current))


@pytest.mark.parametrize(
    ("name", "value"),
    [("path_mtu", 1500), ("rq_psn", 2**24), ("min_rnr_timer", 32), ("dest_qpn", -1),
     ("max_dest_rd_atomic", 129)],
)  # fmt: skip
def test_values_have_ranges(name: str, value: int) -> None:
    row = TRANSITIONS[QpState.INIT, QpState.RTR][Service.RC]
    attributes = _attributes(row.required, QpState.RTR, QpState.INIT)
    with pytest.raises(VerbsError, match=f"{name.upper()} {value} is out of range; allowed"):
        check_transition(Service.RC, QpState.INIT, replace(attributes, **{name: value}))


def test_a_refused_change_changes_nothing() -> None:
    pair = Pair(up=False)
    qp = pair.qps[0]
    for wrong in (
        QpAttributes(state=QpState.RTS),
        QpAttributes(state=QpState.INIT, pkey_index=0, port=1),
        QpAttributes(state=QpState.INIT, pkey_index=3, port=1, access_flags=Access.NONE),
    ):
        with pytest.raises(VerbsError):
            qp.modify(wrong)
        assert (qp.state, qp.attributes) == (QpState.RESET, QpAttributes())


def test_cur_state_must_be_right() -> None:
    qp = Pair().qps[0]
    with pytest.raises(VerbsError, match=r"in RTS, not in RTR \(CUR_STATE\)"):
        qp.modify(QpAttributes(state=QpState.RTS, cur_state=QpState.RTR))
    qp.modify(QpAttributes(state=QpState.RTS, cur_state=QpState.RTS, min_rnr_timer=3))
    assert qp.attributes.min_rnr_timer == 3


def test_the_address_vector_names_the_other_host_and_the_mtu_fits() -> None:
    pair = Pair(up=False)
    qp = pair.qps[0]
    qp.modify(_attributes(_mask(_INIT["RC"]), QpState.INIT, QpState.RESET))
    right = _attributes(_mask(_RTR["RC"]), QpState.RTR, QpState.INIT)
    with pytest.raises(VerbsError, match="AV 0; allowed: 1"):
        qp.modify(replace(right, av=0))
    qp.host.port_mtu_bytes = 512
    with pytest.raises(VerbsError, match="above the port's 512"):
        qp.modify(right)
    qp.modify(replace(right, path_mtu=512))
    assert qp.state is QpState.RTR


def test_timers_are_those_of_the_specification() -> None:
    assert ack_timeout_s(0) is None
    assert ack_timeout_s(14) == pytest.approx(67.108864e-3)
    assert ack_timeout_s(20) == pytest.approx(4.294967296)
    assert len(RNR_TIMER_MS) == 32
    assert rnr_timer_s(0) == pytest.approx(0.65536)  # the longest has the lowest code
    assert [rnr_timer_s(code) * 1e3 for code in (1, 12, 31)] == pytest.approx([0.01, 0.64, 491.52])
    assert list(RNR_TIMER_MS[1:]) == sorted(RNR_TIMER_MS[1:])
    # From code 4 on the waits double every two codes.
    assert all(RNR_TIMER_MS[n + 2] == pytest.approx(2 * RNR_TIMER_MS[n]) for n in range(2, 30))
