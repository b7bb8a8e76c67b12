"""Goes through a capture chunk by chunk and gathers what :mod:`capture` tells of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from railweave.formats.pcap import PacketChunk
from railweave.transport.capture._answers import Answers
from railweave.transport.capture._columns import Columns, decode_chunk
from railweave.transport.capture._flows import FlowTable
from railweave.transport.capture._messages import Messages
from railweave.transport.capture._opcodes import FULL, OPERATION, OPERATION_NAMES, ROLE, Role
from railweave.transport.capture._pairs import Pairs
from railweave.transport.capture._sequence import Ordered, Sequences
from railweave.transport.capture._totals import Totals
from railweave.transport.packets import MTU_BYTES

__all__ = ["Watch"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_READ = OPERATION_NAMES.index("read")


class Watch:
    """Everything that is carried from chunk to chunk; its size does not grow with the capture."""

    def __init__(self, most_messages: int) -> None:
        self.flows = FlowTable()
        self.totals = Totals()
        self.sequences = Sequences()
        self.messages = Messages(most_messages)
        self.pairs = Pairs(self.flows)
        self.answers = Answers()
        self._mtu: dict[tuple[int, ...], int] = {}

    def add(self, chunk: PacketChunk) -> None:
        """Look at the packets of a chunk."""
        columns = decode_chunk(chunk)
        flows = self.flows.identify(chunk, columns)
        self.totals.add(chunk, columns, flows)
        if (flows < 0).any():
            columns, flows = columns.take(flows >= 0), flows[flows >= 0]
        if not len(flows):
            return
        self.flows.add(chunk, columns, flows)
        streams = 2 * len(self.flows)
        self.sequences.reach(streams)
        self.messages.reach(streams)
        role = ROLE[columns.opcode]
        rows = np.flatnonzero((role == Role.REQUEST) | (role == Role.RESPONSE))
        stream = 2 * flows + (role == Role.RESPONSE)
        if len(rows):
            rows = rows[np.argsort(stream[rows], kind="stable")]
            span, loose = self._spans(columns, flows)
            ordered = _ordered(chunk, columns, stream, rows, (span, loose))
            self.messages.add(ordered, self.sequences.place(ordered))
        rows = np.flatnonzero(role == Role.DATAGRAM)
        if len(rows):
            ones = np.ones(len(flows), np.int64)
            self.messages.datagrams(_ordered(chunk, columns, stream, rows, (ones, ones > 1)))
        self.answers.add(columns, flows, len(self.flows))
        self.pairs.observe(columns, flows, self.sequences)

    def _spans(self, columns: Columns, flows: Ints) -> tuple[Ints, Flags]:
        """Return the PSNs that each packet takes, and where that is not known."""
        span, loose = np.ones(len(flows), np.int64), np.zeros(len(flows), np.bool_)
        for flow in np.unique(flows[FULL[columns.opcode]]).tolist():
            hosts, mtu = self._hosts(flow), int(self.flows.sums["mtu"][flow])
            self._mtu[hosts] = max(mtu, self._mtu.get(hosts, 0))
        reads = np.flatnonzero((OPERATION[columns.opcode] == _READ) & (flows >= 0))
        if not len(reads):
            return span, loose
        some, at = np.unique(flows[reads], return_inverse=True)
        known_mtu = [self._mtu.get(self._hosts(flow), 0) for flow in some.tolist()]
        mtus = np.array(known_mtu, np.int64)[at]
        length = columns.reth_length[reads]
        known = (mtus > 0) & (length >= 0)
        span[reads] = np.where(known, np.maximum(1, -(-length // np.maximum(mtus, 1))), 1)
        # What fits the smallest MTU is one packet whatever the MTU is.
        loose[reads] = ~known & ((length > MTU_BYTES[0]) | (length < 0))
        return span, loose

    def _hosts(self, flow: int) -> tuple[int, ...]:
        """Return a key of two hosts, the same for both directions."""
        where, a, b, c, d, _ = self.flows.keys[flow]
        return (where, *min((a, b), (c, d)), *max((a, b), (c, d)))


def _ordered(
    chunk: PacketChunk, columns: Columns, stream: Ints, rows: Ints, spans: tuple[Ints, Flags]
) -> Ordered:
    packet = columns.row[rows]
    return Ordered(
        stream=stream[rows],
        opcode=columns.opcode[rows],
        psn=columns.psn[rows],
        time_ns=chunk.times_ns[packet],
        payload=columns.payload_bytes[rows],
        declared=columns.reth_length[rows],
        number=chunk.first + packet + 1,
        span=spans[0][rows],
        loose=spans[1][rows],
        icrc=columns.icrc_found[rows],
    )
