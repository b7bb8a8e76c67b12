"""What responders said to messages: acknowledged, refused, or nothing.

An acknowledgement of a PSN stands for all before it too; a NAK for all before its own. A NAK for
another reason than a PSN sequence error ends the connection, so the last one of a flow is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from railweave.transport.capture._columns import Columns
from railweave.transport.capture._flows import NAK_REASONS, Growing
from railweave.transport.capture._messages import MessageColumns
from railweave.transport.capture._opcodes import OPERATION_NAMES, ROLE, Role
from railweave.transport.capture._sequence import Sequences

if TYPE_CHECKING:
    from railweave.transport.capture._types import QueuePairSeen

__all__ = ["ACKNOWLEDGED", "NOT_READY", "NO_ANSWER", "Answers", "answers_to"]

Ints = NDArray[np.int64]

ACKNOWLEDGED: Final = "acknowledged"
NOT_READY: Final = "receiver not ready"
NO_ANSWER: Final = "none"
_RESPONSE: Final = OPERATION_NAMES.index("read-response")
_WRAP: Final = (1 << 24) - 1
_HALF: Final = 1 << 23
#: PSNs further apart than this are those of another connection
_MOST_JUMP: Final = 1 << 16
_ACK: Final = 0
_RNR: Final = 1
_NAK: Final = 3


def _signed(difference: Ints) -> Ints:
    return ((difference + _HALF) & _WRAP) - _HALF


class Answers:
    """Of each flow the highest PSN that it acknowledged, and the last one that it refused."""

    def __init__(self) -> None:
        #: ``unsure`` are acknowledgements that were cut before their syndrome
        self.state = Growing(
            {"acked": -1, "refused": -1, "reason": 0, "not_ready": -1, "unsure": 0}
        )

    def add(self, columns: Columns, flows: Ints, count: int) -> None:
        """Look at the answers of a chunk; ``count`` flows are known."""
        self.state.reach(count)
        role = ROLE[columns.opcode]
        rows = np.flatnonzero((role == Role.ACKNOWLEDGE) | (role == Role.RESPONSE))
        if not len(rows):
            return
        flow, psn, syndrome = flows[rows], columns.psn[rows], columns.syndrome[rows]
        cut = (role[rows] == Role.ACKNOWLEDGE) & (syndrome < 0)
        np.add.at(self.state["unsure"], flow[cut], 1)
        positive = ~cut & ((syndrome < 0) | (syndrome >> 5 == _ACK))
        self._acknowledge(flow, np.where(positive, psn, psn - 1) & _WRAP)
        fatal = np.flatnonzero((syndrome >> 5 == _NAK) & (syndrome & 31 > 0))
        # The last one of each flow stays.
        waiting = np.flatnonzero(syndrome >> 5 == _RNR)
        self.state["not_ready"][flow[waiting]] = psn[waiting]
        self.state["refused"][flow[fatal]] = psn[fatal]
        self.state["reason"][flow[fatal]] = np.minimum(syndrome[fatal] & 31, len(NAK_REASONS) - 1)

    def _acknowledge(self, flow: Ints, psn: Ints) -> None:
        acked = self.state["acked"]
        some, first, at = np.unique(flow, return_index=True, return_inverse=True)
        base = np.where(acked[some] < 0, psn[first], acked[some])
        ahead = _signed(psn - base[at])
        most = np.zeros(len(some), np.int64)
        np.maximum.at(most, at, ahead)
        last = np.zeros(len(some), np.int64)
        last[at] = ahead
        # Far from what was before, it is another connection.
        most = np.where(np.abs(last) > _MOST_JUMP, last, most)
        acked[some] = (base + most) & _WRAP


def answers_to(
    columns: MessageColumns,
    pairs: tuple[QueuePairSeen, ...],
    answers: Answers,
    sequences: Sequences,
) -> list[str]:
    """Return what answered each message; empty where that cannot be known."""
    of, state = answers.state, sequences.state
    flow = columns.stream >> 1
    reverse = np.array([-1 if p.reverse is None else p.reverse for p in pairs], np.int64)
    reliable = np.array([p.service in {"RC", "XRC"} for p in pairs], np.bool_)
    if not len(flow):
        return []
    back = np.maximum(reverse[flow], 0)
    top = state["high"][2 * flow] - 1

    def position(psn: Ints) -> Ints:
        """Return positions of PSNs, -2^60 where there is none."""
        return np.where(psn < 0, -(1 << 60), top + _signed(psn - top))

    acked, refused = position(of["acked"][back]), position(of["refused"][back])
    known = (reverse[flow] >= 0) & reliable[flow] & (columns.operation != _RESPONSE)
    # Those of an earlier connection with the same numbers cannot be told.
    known &= columns.first >= state["first"][2 * flow]
    is_refused = (columns.first <= refused) & (refused <= columns.last)
    not_ready = position(of["not_ready"][back])
    is_waiting = (columns.first <= not_ready) & (not_ready <= columns.last)
    is_acked, unsure = columns.last <= acked, of["unsure"][back] > 0
    reason = of["reason"][back]
    told = []
    for i in range(len(flow)):
        if not known[i]:
            told.append("")
        elif is_refused[i]:
            told.append(f"refused: {NAK_REASONS[int(reason[i])]}")
        elif is_acked[i]:
            told.append(ACKNOWLEDGED)
        elif is_waiting[i]:
            told.append(NOT_READY)
        else:
            told.append("" if unsure[i] else NO_ANSWER)
    return told
