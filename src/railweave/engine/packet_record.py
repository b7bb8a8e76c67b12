"""What a packet run wrote down, as frames: samples, pauses, events, counters, messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import polars as pl

    from railweave.engine.packet import PacketResult, PacketRun
    from railweave.engine.packet_settings import PacketSettings

__all__ = ["PacketRecord", "message_frame", "read_record"]

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class PacketRecord:
    """Columns of what was written down; each method gives a Polars frame.

    Links, flows and priorities are numbers; times in seconds, sizes in bytes. ``ledger`` counts
    packets and bytes: sent, delivered, dropped by reason; row 0 of data, row 1 of replies.
    ``settings`` are those of the run.
    """

    port_samples: Columns
    flow_samples: Columns
    pause_intervals: Columns
    events: Columns
    port_counters: Columns
    pause_counters: Columns
    queue_counters: Columns
    group_counters: Columns
    switch_counters: Columns
    flow_counters: Columns
    ledger: Columns
    message_start_s: npt.NDArray[np.float64]
    message_finish_s: npt.NDArray[np.float64]
    settings: PacketSettings

    def ports(self) -> pl.DataFrame:
        """Return the sampled ports: one row a port and time."""
        return _frame(self.port_samples)

    def flows(self) -> pl.DataFrame:
        """Return the sampled queue pairs: one row a queue pair and time."""
        return _frame(self.flow_samples)

    def pauses(self) -> pl.DataFrame:
        """Return every pause as its sender felt it: link, priority, from_s, until_s."""
        return _frame(self.pause_intervals)

    def trace(self) -> pl.DataFrame:
        """Return the events written down, in order."""
        return _frame(self.events)


def _frame(columns: Columns) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(dict(columns))


def read_record(run: PacketRun) -> PacketRecord:
    """Take over what the native engine wrote down."""
    sim = run._sim
    return PacketRecord(
        port_samples=sim.port_samples(),
        flow_samples=sim.flow_samples(),
        pause_intervals=sim.pauses(),
        events=sim.trace(),
        port_counters=sim.port_counters(),
        pause_counters=sim.pause_counters(),
        queue_counters=sim.queue_counters(),
        group_counters=sim.group_counters(),
        switch_counters=sim.switch_counters(),
        flow_counters=sim.flow_counters(),
        ledger=sim.ledger(),
        message_start_s=sim.message_start_s,
        message_finish_s=sim.message_finish_s,
        settings=run.settings,
    )


def message_frame(result: PacketResult) -> pl.DataFrame:
    """Return one row a message; empty where there were too many to write down."""
    import polars as pl

    traffic, record = result.traffic, result.record
    rounds = traffic.task_rounds[traffic.stream_task].astype(np.int64)
    stream = np.repeat(np.arange(traffic.n_streams), rounds)
    if record is None or len(record.message_start_s) != len(stream):
        stream = stream[:0]
        start = finish = np.zeros(0)
    else:
        start, finish = record.message_start_s, record.message_finish_s
    first = np.concatenate(([0], np.cumsum(rounds)))[:-1]
    task = traffic.stream_task[stream]
    return pl.DataFrame(
        {
            "stream": stream,
            "label": [traffic.labels[i] for i in traffic.task_label[task]],
            "chunk": np.arange(len(stream)) - first[stream],
            "bytes": traffic.chunk_bytes[stream],
            "start_s": start,
            "finish_s": finish,
            "duration_s": finish - start,
        }
    )
