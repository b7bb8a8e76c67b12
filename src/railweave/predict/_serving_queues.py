"""Two queues in a row: prompts wait for a prefill instance, answers for room in a decode batch."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.predict._serving_clock import PassClock
from railweave.predict._serving_types import PassTime
from railweave.workload.inference import Requests

__all__ = ["Activity", "DecodeRun", "PrefillRun", "decode_queue", "prefill_queue"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Activity:
    """What one instance did: passes, their mean tokens a replica, from when to when.

    ``communication_s`` and ``compute_s`` are sums over its passes.
    """

    passes: int
    tokens: float
    start_s: float
    end_s: float
    communication_s: float
    compute_s: float


@dataclass(frozen=True, eq=False)
class PrefillRun:
    """When each prompt was prefilled and where; (N,) each, and what each instance did."""

    start_s: F64
    done_s: F64
    instance: I64
    replica: I64
    activity: tuple[Activity, ...]


class _Log:
    """Sums up an instance's passes."""

    def __init__(self) -> None:
        self.passes, self.tokens, self.communication, self.compute = 0, 0.0, 0.0, 0.0
        self.start, self.end = np.inf, 0.0

    def add(self, begins: float, took: PassTime, tokens: float) -> None:
        self.passes += 1
        self.tokens += tokens
        self.communication += took.communication_s
        self.compute += took.compute_s
        self.start = min(self.start, begins)
        self.end = begins + took.total_s

    def activity(self) -> Activity:
        mean = self.tokens / self.passes if self.passes else 0.0
        start = float(self.start) if self.passes else 0.0
        return Activity(self.passes, mean, start, self.end, self.communication, self.compute)


def prefill_queue(requests: Requests, clock: PassClock, instances: int) -> PrefillRun:
    """Serve prompts first come, first served.

    An instance that is free takes the prompts that wait, at most one a replica, and is busy until
    the longest of them is done.
    """
    count, width = requests.count, clock.plan.replicas
    start, done = np.zeros(count), np.zeros(count)
    instance, replica = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    free = [(0.0, number) for number in range(instances)]
    logs = [_Log() for _ in range(instances)]
    times: dict[tuple[int, float], PassTime] = {}
    first = 0
    while first < count:
        idle, number = heapq.heappop(free)
        begins = max(idle, float(requests.arrival_s[first]))
        end = first + 1
        while end < min(first + width, count) and requests.arrival_s[end] <= begins:
            end += 1
        longest = int(requests.prompt_tokens[first:end].max())
        each = float(requests.prompt_tokens[first:end].sum()) / width
        if (longest, each) not in times:
            times[longest, each] = clock.prefill(longest, each / longest)
        took = times[longest, each]
        start[first:end], done[first:end] = begins, begins + took.total_s
        instance[first:end], replica[first:end] = number, np.arange(end - first)
        logs[number].add(begins, took, each)
        heapq.heappush(free, (begins + took.total_s, number))
        first = end
    return PrefillRun(start, done, instance, replica, tuple(log.activity() for log in logs))


@dataclass(frozen=True, eq=False)
class DecodeRun:
    """When each answer began to be decoded and ended, (N,) each; what each instance did.

    ``mean_batch``: sequences in an instance's batch over its passes, all instances together.
    """

    admitted_s: F64
    finish_s: F64
    activity: tuple[Activity, ...]
    mean_batch: float


def decode_queue(
    requests: Requests,
    ready_s: F64,
    clock: PassClock,
    *,
    instance: I64,
    replica: I64,
    instances: int,
    batch: int,
) -> DecodeRun:
    """Decode with continuous batching.

    Each instance makes step after step; at their borders answers that are over leave, and those
    whose cache has arrived (``ready_s``) join their replica while it has room. The fullest replica
    and the longest contexts set a step's time. An answer's first token is the prefill's.

    Args:
        requests: the requests.
        ready_s: when each one's cache is there, (N,).
        clock: of an instance.
        instance: that decodes it, (N,).
        replica: within the instance, (N,).
        instances: in the pool.
        batch: sequences of an instance, at most.
    """
    admitted, finish = ready_s.copy(), ready_s.copy()
    steps = _step_times(clock)
    width = clock.plan.replicas
    room = max(batch // width, 1)
    logs, sums, passes = [], 0.0, 0
    for number in range(instances):
        mine = np.flatnonzero((instance == number) & (requests.output_tokens > 1))
        order = mine[np.argsort(ready_s[mine], kind="stable")]
        one = _Instance(requests, ready_s, order, replica=replica, shape=(width, room))
        one.run(steps, admitted, finish)
        logs.append(one.log.activity())
        sums += one.sequences
        passes += one.log.passes
    return DecodeRun(admitted, finish, tuple(logs), sums / passes if passes else 0.0)


def _step_times(clock: PassClock) -> Callable[[int, int, float], PassTime]:
    """Return a function (sequences, in all replicas, context tokens) → step.

    It is linear in the context.
    """
    known: dict[tuple[int, int], tuple[PassTime, float, float]] = {}

    def step(sequences: int, total: int, context: float) -> PassTime:
        if (sequences, total) not in known:
            base = clock.decode(sequences, 0.0, total)
            more = clock.decode(sequences, 1.0, total)
            slopes = more.cache_s - base.cache_s, more.arithmetic_s - base.arithmetic_s
            known[sequences, total] = (base, *slopes)
        base, cache, arithmetic = known[sequences, total]
        return PassTime(
            base.weights_s,
            base.cache_s + cache * context,
            base.arithmetic_s + arithmetic * context,
            base.tensor_s,
            base.expert_s,
        )

    return step


class _Instance:
    """One decode instance, step by step."""

    def __init__(
        self,
        requests: Requests,
        ready_s: F64,
        order: I64,
        *,
        replica: I64,
        shape: tuple[int, int],
    ) -> None:
        replicas, room = shape
        self.requests, self.ready, self.replica, self.room = requests, ready_s, replica, room
        self.coming = deque(int(each) for each in order)
        self.waiting: list[deque[int]] = [deque() for _ in range(replicas)]
        self.active = np.zeros(replicas, dtype=np.int64)
        self.context = np.zeros(replicas, dtype=np.int64)
        self.ending: list[tuple[int, int]] = []  #: (number of its last step, request)
        self.log = _Log()
        self.sequences = 0.0

    def run(self, steps: Callable[[int, int, float], PassTime], admitted: F64, finish: F64) -> None:
        """Make all steps; fills in when requests were admitted and finished."""
        now = 0.0
        while self.coming or self.ending or any(self.waiting):
            if not self.ending and self.coming and not any(self.waiting):
                now = max(now, float(self.ready[self.coming[0]]))
            self._admit(now, admitted)
            total = int(self.active.sum())
            took = steps(int(self.active.max()), total, float(self.context.max()))
            self.log.add(now, took, total / len(self.active))
            self.sequences += total
            now += took.total_s
            self.context += self.active
            while self.ending and self.ending[0][0] <= self.log.passes:
                _, over = heapq.heappop(self.ending)
                finish[over] = now
                at = self.replica[over]
                self.active[at] -= 1
                written = self.requests.output_tokens[over] + self.requests.prompt_tokens[over]
                self.context[at] -= written

    def _admit(self, now: float, admitted: F64) -> None:
        while self.coming and self.ready[self.coming[0]] <= now:
            request = self.coming.popleft()
            self.waiting[self.replica[request]].append(request)
        for at, queue in enumerate(self.waiting):
            while queue and self.active[at] < self.room:
                request = queue.popleft()
                admitted[request] = now
                self.active[at] += 1
                self.context[at] += self.requests.prompt_tokens[request] + 1
                last = self.log.passes + int(self.requests.output_tokens[request]) - 1
                heapq.heappush(self.ending, (last, request))
