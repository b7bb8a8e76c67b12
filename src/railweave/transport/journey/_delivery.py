"""When the last byte of a message was in memory: which packets the receiver took."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.transport.journey._tcp import TcpRun
from railweave.transport.packets import Service
from railweave.transport.verbs import WcStatus
from railweave.transport.verbs._segments import packet_count, psn_add
from railweave.transport.verbs.operation import Operation, OperationRun

if TYPE_CHECKING:
    from railweave.transport.journey import PacketJourney

__all__ = ["delivered_s"]

_CLOSE_S: Final = 1e-12
#: operations of which an end is told by a completion: READ the posting one, these the other
_TOLD: Final = (Operation.SEND, Operation.SEND_IMMEDIATE, Operation.WRITE_IMMEDIATE)


def delivered_s(journey: PacketJourney) -> float:
    """Return when the last byte was in memory; NaN where the message never was, whole and good."""
    run, times = journey.run, journey.times
    if isinstance(run, TcpRun):
        return run.delivered_s
    landed = times.landed_s
    if run is None:
        return float(landed.max())
    if run.case.service is Service.RC and run.status(0) is not WcStatus.SUCCESS:
        return math.nan
    mine = np.flatnonzero(
        (times.direction == journey.data_direction) & times.memory & ~np.isnan(landed)
    )
    operation = run.case.operation
    if operation is Operation.READ or operation in _TOLD:
        told = _told_s(run, 0 if operation is Operation.READ else 1)
        taken = landed[mine[times.at_nic_s[mine] <= told + _CLOSE_S]]
        return float(taken.max()) if taken.size else math.nan
    return _in_order_s(journey, run, mine[np.argsort(times.at_nic_s[mine], kind="stable")])


def _told_s(run: OperationRun, host: int) -> float:
    """Return when a host found its message complete; −∞ where it did not."""
    good = (
        done.time_s
        for done in run.completions
        if done.host == host and done.status is WcStatus.SUCCESS
    )
    return next(good, -math.inf)


def _in_order_s(journey: PacketJourney, run: OperationRun, arrived: npt.NDArray[np.int64]) -> float:
    """Return when the last packet was taken by a receiver that takes none out of its turn."""
    case = run.case
    atomic = case.operation in (Operation.COMPARE_SWAP, Operation.FETCH_ADD)
    left = 1 if atomic else packet_count(case.size_bytes, case.mtu_bytes)
    expected, last = case.first_psn[0], math.nan
    for number in arrived.tolist():
        if left and journey.packets[number].bth.psn == expected:
            expected, left = psn_add(expected, 1), left - 1
            last = float(journey.times.landed_s[number])
    return math.nan if left else last
