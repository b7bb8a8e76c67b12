"""Small networks for tests of the native packet engine, in plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from railweave import _native

NONE = 0xFFFFFFFF
RUNNING, FINISHED, STUCK, DEADLOCK, FAILED = range(5)


@dataclass
class Net:
    """Hosts 0..hosts-1, then switches; cables as (a, b, Gb/s)."""

    hosts: int
    switches: int
    cables: Sequence[tuple[int, int, float]]
    delay_s: float = 500e-9
    propagation_s: float = 25e-9
    response_s: float = 1.1584e-6
    headroom_bytes: int = 300_000
    kmin_bytes: int = 0
    kmax_bytes: int = 0
    pause_mask: int = 1 << 3
    credit_bytes: int = 0
    switch: dict[str, object] = field(default_factory=dict)
    nic: dict[str, object] = field(default_factory=dict)
    algorithm: tuple[str, dict[str, float]] | None = None
    options: dict[str, object] = field(default_factory=dict)

    def link(self, a: int, b: int) -> int:
        """Return the first directed link from a to b."""
        for k, (x, y, _) in enumerate(self.cables):
            if (x, y) == (a, b):
                return 2 * k
            if (y, x) == (a, b):
                return 2 * k + 1
        raise KeyError((a, b))

    def path(self, *nodes: int) -> list[int]:
        """Return the links along these nodes."""
        return [self.link(a, b) for a, b in pairwise(nodes)]

    def sim(
        self,
        paths: Sequence[Sequence[int]],
        size_bytes: int | Sequence[int],
        *,
        start_s: float | Sequence[float] = 0.0,
        rounds: int = 1,
        payload_bytes: int = 4096,
        prepare: Callable[[_native.PacketSim, dict[str, np.ndarray]], None] | None = None,
        plan: Callable[[_native.PacketTasks], None] | None = None,
    ) -> _native.PacketSim:
        """Return a simulation in which each path carries one stream, each a task of its own."""
        u4, u8 = np.uint32, np.uint64
        n = 2 * len(self.cables)
        links = _native.PacketLinks()
        ends = np.array([(a, b, b, a) for a, b, _ in self.cables], dtype=u4).reshape(-1, 2)
        links.source = np.ascontiguousarray(ends[:, 0])
        links.target = np.ascontiguousarray(ends[:, 1])
        rate = np.repeat([g * 1e6 for _, _, g in self.cables], 2)
        links.rate_kbps = rate.astype(u8)
        links.delay_ps = np.full(n, self.delay_s * 1e12, u8)
        links.propagation_ps = np.full(n, self.propagation_s * 1e12, u8)
        links.response_ps = np.full(n, self.response_s * 1e12, u8)
        links.headroom_bytes = np.full(n, self.headroom_bytes, u4)
        links.kmin_bytes = np.full(n, self.kmin_bytes, u4)
        links.kmax_bytes = np.full(n, self.kmax_bytes, u4)
        links.pause_mask = np.full(n, self.pause_mask, np.uint8)
        links.credit_bytes = np.full(n, self.credit_bytes, u4)
        options = _native.PacketOptions()
        for name, value in self.options.items():
            setattr(options, name, value)
        is_switch = (np.arange(self.hosts + self.switches) >= self.hosts).astype(np.uint8)
        sim = _native.PacketSim(is_switch, links, options)
        config = _native.PacketSwitchConfig()
        default: dict[str, object] = {
            "cell_bytes": 256,
            "shared_cells": 16_000_000 // 256,
            "reserved_cells": 8,
            "pg_alpha": 0.125,
            "lossless": 1 << 3,
            "strict": 1 << 6,
            "ecn": 1 << 3,
            "pmax": 0.2,
            "xon_offset_cells": 32,
        }
        for name, value in {**default, **self.switch}.items():
            setattr(config, name, value)
        number = sim.add_switch_config(config)
        for v in range(self.hosts, self.hosts + self.switches):
            sim.use_switch_config(v, number)
        nic = _native.PacketNicConfig()
        for name, value in {"cnp_interval_ps": 4_000_000, **self.nic}.items():
            setattr(nic, name, value)
        if self.algorithm is not None:
            nic.set_congestion_control(*self.algorithm)
        sim.add_nic_config(nic)
        m = len(paths)
        size = np.broadcast_to(np.asarray(size_bytes), m)
        first = np.array([p[0] for p in paths])
        flows: dict[str, np.ndarray] = {
            "stream": np.arange(m, dtype=u4),
            "nic": np.zeros(m, u4),
            "path_ptr": np.concatenate(([0], np.cumsum([len(p) for p in paths]))).astype(u8),
            "path_link": np.concatenate([np.asarray(p) for p in paths]).astype(u4),
            "message_bytes": size.astype(u8),
            "payload_bytes": np.full(m, payload_bytes, u4),
            "overhead_bytes": np.full(m, 82, u4),
            "tx_pipe": np.full(m, NONE, u4),
            "rx_pipe": np.full(m, NONE, u4),
            "rx_latency_ps": np.zeros(m, u8),
            "line_rate_Bps": rate[first] * 125.0,
            "base_rtt_ps": np.array([2 * self.delay_s * 1e12 * len(p) + 1e5 for p in paths]),
            "choice": np.zeros(m, np.uint8),
            "source_nic": links.source[first].astype(u4),
            "target_nic": links.target[[p[-1] for p in paths]].astype(u4),
            "table": np.zeros(m, u4),
            "entropy": np.arange(m, dtype=u4),
        }
        if prepare is not None:
            prepare(sim, flows)
        given = _native.PacketFlows()
        for name, array in flows.items():
            setattr(given, name, array)
        tasks = _native.PacketTasks()
        tasks.task_stream = np.arange(m + 1, dtype=u8)
        tasks.rounds = np.full(m, rounds, u4)
        tasks.start_ps = (np.broadcast_to(np.asarray(start_s), m) * 1e12).astype(u8)
        tasks.delay_ps = np.zeros(m, u8)
        tasks.chunk_delay_ps = np.zeros(m, u8)
        tasks.dep_ptr = np.zeros(m + 1, u8)
        tasks.dep_task = np.zeros(0, u4)
        tasks.dep_kind = np.zeros(0, np.uint8)
        tasks.pred_ptr = np.zeros(m + 1, u8)
        tasks.pred_stream = np.zeros(0, u4)
        tasks.pred_lag = np.zeros(0, u4)
        if plan is not None:
            plan(tasks)
        sim.set_work(given, tasks)
        return sim


def star(senders: int, speed_gbps: float = 100.0, **more: object) -> Net:
    """Return senders 0..n-1 and receiver n on one switch n+1."""
    cables = [(h, senders + 1, speed_gbps) for h in range(senders + 1)]
    return Net(senders + 1, 1, cables, **more)  # type: ignore[arg-type]


def incast(net: Net, senders: int) -> list[list[int]]:
    """Return the paths of an incast over a star."""
    return [net.path(h, senders + 1, senders) for h in range(senders)]
