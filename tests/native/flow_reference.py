"""Slow, plain references the flow engine is held against."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from railweave import _native


def max_min(capacity, rows, caps=None):
    """Progressive filling in exact fractions; `rows[v]` is a list of (link, weight)."""
    n = len(rows)
    cap = {("link", i): Fraction(c) for i, c in enumerate(capacity)}
    use = [{} for _ in range(n)]
    for v, row in enumerate(rows):
        for link, weight in row:
            key = ("link", link)
            use[v][key] = use[v].get(key, Fraction(0)) + Fraction(weight)
        if caps is not None:
            cap["own", v] = Fraction(caps[v])
            use[v]["own", v] = Fraction(1)
        use[v] = {k: w for k, w in use[v].items() if w}
    rate = [None if use[v] else float("inf") for v in range(n)]
    while True:
        weight = {}
        for v in range(n):
            if rate[v] is None:
                for key, w in use[v].items():
                    weight[key] = weight.get(key, Fraction(0)) + w
        if not weight:
            return np.array([float(r) for r in rate])
        level = min(cap[key] / w for key, w in weight.items())
        tight = {key for key, w in weight.items() if cap[key] / w == level}
        for v in range(n):
            if rate[v] is None and tight & use[v].keys():
                rate[v] = level
                for key, w in use[v].items():
                    cap[key] -= w * level


def csr(rows):
    ptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(r) for r in rows], out=ptr[1:])
    link = np.array([x for r in rows for x, _ in r], dtype=np.int32)
    weight = np.array([w for r in rows for _, w in r], dtype=float)
    return ptr, link, weight


def simulate(capacity, rows, sizes, latency, *, start, delay, deps):
    """Event by event, every rate from scratch; task t owns flow t. Times of sent and delivered.

    `deps[t]` lists (task, kind); kind 0 waits for delivery, 1 for the last byte sent.
    """
    tasks = len(start)
    sent, done = [None] * tasks, [None] * tasks
    left, begun, now = {}, set(), 0.0

    def begin_at(t):
        times = [start[t]]
        for d, kind in deps[t]:
            at = sent[d] if kind else done[d]
            if at is None:
                return None
            times.append(at)
        return max(times) + delay[t]

    while any(d is None for d in done):
        again = True
        while again:
            again = False
            for t in range(tasks):
                at = begin_at(t)
                if t in begun or at is None or at > now * (1 + 1e-12):
                    continue
                begun.add(t)
                if sizes[t] == 0 or not rows[t]:
                    sent[t] = at
                    done[t] = at + latency[t]
                    again = True
                else:
                    left[t] = sizes[t]
        active = sorted(left)
        rates = max_min(capacity, [rows[f] for f in active]) if active else []
        ends = [now + left[f] / r if r > 0 else np.inf for f, r in zip(active, rates, strict=True)]
        pending = [begin_at(t) for t in range(tasks) if t not in begun]
        nxt = min([*ends, *(p for p in pending if p is not None)], default=np.inf)
        if nxt == np.inf:
            break
        for f, r, e in zip(active, rates, ends, strict=True):
            if e <= nxt * (1 + 1e-12):
                sent[f], done[f] = nxt, nxt + latency[f]
                del left[f]
            else:
                left[f] -= r * (nxt - now)
        now = nxt
    return np.array(sent, dtype=float), np.array(done, dtype=float)


def sim_of(
    capacity,
    rows,
    sizes,
    *,
    latency=None,
    start=None,
    delay=None,
    deps=None,
    task_ptr=None,
    rounds=None,
    **more,
):
    ptr, link, weight = csr(rows)
    n = len(rows)
    task_ptr = np.arange(n + 1) if task_ptr is None else np.array(task_ptr)
    tasks = len(task_ptr) - 1
    deps = [[] for _ in range(tasks)] if deps is None else deps
    dep_ptr, dep_task, dep_kind = csr(deps)
    return _native.FlowSim(
        capacity_Bps=np.array(capacity, dtype=float),
        row_ptr=ptr,
        row_link=link,
        row_weight=None if (weight == 1).all() else weight,
        flow_bytes=np.array(sizes, dtype=float),
        flow_latency_s=np.zeros(n) if latency is None else np.array(latency, dtype=float),
        task_flow_ptr=task_ptr.astype(np.int64),
        task_start_s=np.zeros(tasks) if start is None else np.array(start, dtype=float),
        task_delay_s=np.zeros(tasks) if delay is None else np.array(delay, dtype=float),
        dep_ptr=dep_ptr,
        dep_task=dep_task,
        dep_kind=dep_kind.astype(np.uint8),
        task_rounds=np.ones(tasks, dtype=np.int32)
        if rounds is None
        else np.array(rounds, dtype=np.int32),
        **more,
    )


def coupled(*case, **more):
    """Case: capacity, rows, chunk, latency, rounds, preds[, chunk delay].

    `preds[i]` lists (stream, lag).
    """
    capacity, rows, chunk, latency, rounds, preds, *chunk_delay = case
    ptr, stream, lag = csr(preds)
    return sim_of(
        capacity,
        rows,
        chunk,
        latency=latency,
        task_ptr=[0, len(rows)],
        rounds=[rounds],
        flow_chunk_delay_s=np.array(chunk_delay[0], dtype=float) if chunk_delay else None,
        pred_ptr=ptr,
        pred_flow=stream,
        pred_lag=lag.astype(np.int32),
        **more,
    )


def expanded(*case):
    """Chunk k of stream i is task i * rounds + k."""
    capacity, rows, chunk, latency, rounds, preds, *chunk_delay = case
    n = len(rows)
    delay = np.array(chunk_delay[0]) if chunk_delay else np.zeros(n)
    deps = []
    for i in range(n):
        for k in range(rounds):
            own = [(i * rounds + k - 1, 1)] if k else []
            deps.append(own + [(p * rounds + k - lag, 0) for p, lag in preds[i] if k >= lag])
    return sim_of(
        capacity,
        [row for row in rows for _ in range(rounds)],
        np.repeat(chunk, rounds),
        latency=np.repeat(latency, rounds),
        delay=np.repeat(delay, rounds),
        deps=deps,
    )


def ring(n, lag=1):
    return [[((i - 1) % n, lag)] for i in range(n)]
