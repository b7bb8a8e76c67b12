"""Lab 7 on an engine: times of the whole collective, and of every message that is drawn."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Algorithm, Collective
from railweave.engine import simulate
from railweave.engine.analytic import simulate_split
from railweave.engine.choice import EngineChoice
from railweave.engine.ideal import IdealNetwork, ideal_network
from railweave.errors import InputError
from railweave.fabric import Fabric
from railweave.report.outcomes import job_outcomes, simulate_workload
from railweave.studio.designs import built_design, routing_of
from railweave.studio.labs._collectives import BY_SERVER, PIECES, Inputs, State, Where, read
from railweave.workload import CollectiveOptions, Communicator, Traffic, collective_traffic
from railweave.workload.schedule import MOST_RANKS as MOST_SCHEDULED
from railweave.workload.schedule import Schedule, Transfer, collective_schedule

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.engine.result import Result
    from railweave.fabric.routing import RoutingSet
    from railweave.provenance import Assumption
    from railweave.report.record import JobOutcome
    from railweave.workload import Workload

__all__ = ["Message", "Run", "Setting", "engine_points", "run", "setting_of"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

#: messages that are drawn at most
MOST_DRAWN: Final = 4_200
#: messages that the lab simulates while the reader waits
MOST_SIMULATED: Final = 400_000


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the drawn collective, as the flow engine timed it.

    ``nodes`` are the fabric's nodes on its way, ends included; ``chunks`` and ``action`` are those
    of the schedule, empty where there is none.
    """

    round: int
    src: int
    dst: int
    start_s: float
    end_s: float
    size_bytes: float
    nodes: tuple[int, ...]
    channel: int = 0
    chunks: tuple[int, ...] = ()
    action: str = ""


@dataclass(frozen=True, eq=False)
class Run:
    """What the flow engine made of a state.

    ``healthy_s`` is the time without the slow rank (the same where there is none). ``messages``
    are empty where too many would be drawn; ``undrawn`` says so then. ``drawn_s`` is when the last
    of them ends: not ``time_s`` where the drawing has fewer pieces. ``outcome`` is of a design, and
    so is ``latency_share``, the part of the closed form's time that is latency.
    """

    inputs: Inputs
    fabric: Fabric
    comm: Communicator
    time_s: float
    healthy_s: float
    drawn_s: float
    messages: tuple[Message, ...]
    schedule: Schedule | None
    undrawn: str
    assumptions: tuple[Assumption, ...]
    outcome: JobOutcome | None = None
    latency_share: float = math.nan

    @property
    def one_channel(self) -> bool:
        """Whether only the first of several rings or trees is drawn."""
        rings = self.inputs.algorithm in (Algorithm.RING, Algorithm.TREE)
        return rings and self.comm.channels > 1

    @property
    def logical(self) -> tuple[Message, ...]:
        """The messages between ranks with their pieces.

        On the ideal network they are those of the engine; for a design, whose channels and servers
        have shapes of their own, the schedule's, with rounds of equal length.
        """
        if self.outcome is None or self.schedule is None:
            return self.messages
        span = self.time_s / max(len(self.schedule.rounds), 1)
        return tuple(
            Message(
                move.round,
                move.src,
                move.dst,
                move.round * span,
                (move.round + 1) * span,
                move.size_bytes,
                (),
                move.channel,
                move.chunks,
                move.action,
            )
            for moves in self.schedule.rounds
            for move in moves
        )


@dataclass(frozen=True, eq=False)
class Setting:
    """A network and the collective on it, ready to run."""

    fabric: Fabric
    routing: RoutingSet
    comm: Communicator
    traffic: Traffic
    queue_pairs: int = 1
    work: Workload | None = None


def run(state: State, design_text: str = "") -> Run:
    """Run a state's collective on the flow engine, with and without its slow rank.

    Raises:
        InputError: a value that cannot be, or a design that cannot be read or built.
        EngineError: ranks that do not reach each other.
    """
    given = read(state)
    outcome, latency_share = None, math.nan
    if state.where is Where.DESIGN:
        if not design_text:
            raise InputError(
                "there is no design; load one on the home page, or take the ideal network"
            )
        built, routing = built_design(design_text), routing_of(design_text)
        setting = setting_of(state, given, built, routing)
        outcome, healthy = _outcome(setting)
        closed, prompt_s = simulate_split(setting.fabric, setting.traffic, setting.routing)
        latency_share = 1 - prompt_s / closed.makespan_s if closed.makespan_s > 0 else 0.0
    else:
        setting = setting_of(state, given)
        healthy = _simulate(setting)
    slow = healthy
    if given.slow is not None:
        fabric, traffic = given.slow.apply(setting.fabric, setting.traffic, setting.comm)
        slow = _simulate(replace(setting, fabric=fabric, traffic=traffic))
    messages, schedule, undrawn, drawn_s = _draw(given, setting, ideal=outcome is None)
    return Run(
        given,
        setting.fabric,
        setting.comm,
        slow.makespan_s,
        healthy.makespan_s,
        drawn_s,
        messages,
        schedule,
        undrawn,
        slow.assumptions,
        outcome,
        latency_share,
    )


def _on_ideal(given: Inputs) -> Setting:
    network = _network(given.ranks, given.bandwidth_bps, given.latency_s, given.per_server)
    count = _message_count(given)
    if count > MOST_SIMULATED:
        raise InputError(
            f"{given.name} over {given.ranks:,} GPUs is {count:,} messages; the lab simulates up "
            f"to {MOST_SIMULATED:,}: the closed form's numbers stand, without the engine's"
        )
    traffic = network.traffic(given.op, given.algorithm, given.size_bytes)
    return Setting(network.fabric, network.routing, network.comm, traffic)


def _message_count(given: Inputs) -> int:
    """Estimate how many messages an engine has to time one by one."""
    n = given.ranks
    if given.algorithm in (Algorithm.DIRECT, Algorithm.RAIL_ALIGNED):
        return n * (n - 1) if given.op is Collective.ALL_TO_ALL else n
    if given.algorithm is Algorithm.TREE:
        return 4 * n * min(1024, 2 + given.size_bytes // (1 << 20))
    return n


@lru_cache(maxsize=8)
def _network(ranks: int, bandwidth_bps: float, latency_s: float, per_server: int) -> IdealNetwork:
    return ideal_network(ranks, bandwidth_bps, latency_s, ranks_per_server=per_server)


def setting_of(
    state: State,
    given: Inputs,
    built: BuiltDesign | None = None,
    routing: RoutingSet | None = None,
) -> Setting:
    """Return the network of a state (the ideal one without a design) and what runs on it.

    Raises:
        InputError: more ranks than GPUs, or too many messages.
    """
    if built is None or routing is None:
        return _on_ideal(given)
    gpus = len(built.fabric.gpus)
    if given.ranks > gpus:
        raise InputError(f"ranks: the design has {gpus:,} GPUs, not {given.ranks:,}; give fewer")
    only = built.with_collective(
        given.op,
        given.size_bytes,
        ranks=given.ranks,
        algorithm=given.algorithm,
        placement=state.placement,
    )
    work = only.workload()
    comm = Communicator.from_fabric(only.fabric, work.jobs[0].nodes)
    pairs = only.design.planes.backend.routing.queue_pairs
    return Setting(only.fabric, routing, comm, work.traffic, pairs, work)


def _outcome(setting: Setting) -> tuple[JobOutcome, Result]:
    """Run a design's collective as ``railweave collective --design`` does."""
    assert setting.work is not None  # only of a design
    simulated = simulate_workload(
        setting.fabric,
        setting.work,
        setting.routing,
        choice=EngineChoice("flow"),
        progress=lambda _step, _part: None,
        span=(0.0, 1.0),
    )
    return job_outcomes(setting.fabric, simulated, setting.routing)[0], simulated.result


def _simulate(setting: Setting) -> Result:
    return simulate(setting.fabric, setting.traffic, setting.routing.on(setting.fabric), "flow")


# ---------------------------------------------------------------- what is drawn


def _draw(
    given: Inputs, setting: Setting, *, ideal: bool
) -> tuple[tuple[Message, ...], Schedule | None, str, float]:
    """Time every message of the drawing: the same collective, with few pieces."""
    if given.ranks > MOST_SCHEDULED:
        return (), None, _too_many(f"{given.ranks:,} GPUs", f"{MOST_SCHEDULED}"), math.nan
    traffic = collective_traffic(
        given.op,
        setting.comm,
        given.size_bytes,
        algorithm=given.algorithm,
        options=CollectiveOptions(
            queue_pairs=setting.queue_pairs, chunk_bytes=1, max_chunks=PIECES
        ),
    )
    drawn = _first_channel(given, setting.comm, traffic)
    count = int(traffic.task_rounds[traffic.stream_task[drawn]].sum())
    if count > MOST_DRAWN:
        return (), None, _too_many(f"{count:,} messages", f"{MOST_DRAWN:,}"), math.nan
    fabric = setting.fabric
    if given.slow is not None:
        fabric, traffic = given.slow.apply(fabric, traffic, setting.comm)
    plain = traffic.expand()
    result = simulate(fabric, plain, setting.routing.on(fabric), "flow")
    messages = _messages(setting.comm, fabric, result, _first_channel(given, setting.comm, plain))
    schedule = collective_schedule(
        given.op,
        given.algorithm,
        given.ranks,
        given.size_bytes,
        ranks_per_server=_per_server(given, setting.comm) if not ideal else given.per_server,
        pipeline_chunks=PIECES,
    )
    if ideal:
        messages = _with_chunks(messages, schedule)
    return messages, schedule, "", result.makespan_s


def _per_server(given: Inputs, comm: Communicator) -> int:
    """Return the ranks of each server of a fabric, where the algorithm works by server."""
    by_server = given.algorithm in BY_SERVER and comm.uniform
    return int(comm.domain_sizes[0]) if by_server else 1


def _too_many(what: str, most: str) -> str:
    return f"{what} are too many to draw (up to {most}); the numbers hold all the same."


def _first_channel(given: Inputs, comm: Communicator, traffic: Traffic) -> I64:
    """Return the streams of the first ring or of the first pair of trees; all where there is one.

    Others go the same way over other rails.
    """
    everyone = np.arange(traffic.n_streams)
    if comm.channels < 2 or given.algorithm not in (Algorithm.RING, Algorithm.TREE):
        return everyone
    trees = 2 if given.algorithm is Algorithm.TREE and given.op is Collective.ALL_REDUCE else 1
    assert traffic.stream_connection is not None  # rings and trees number their channels
    return np.flatnonzero(traffic.stream_connection < trees)


def _messages(
    comm: Communicator, fabric: Fabric, result: Result, drawn: I64
) -> tuple[Message, ...]:
    traffic = result.traffic
    level, connection = _levels(traffic), traffic.stream_connection
    rank = np.full(fabric.n_nodes, -1, dtype=np.int64)
    rank[comm.nodes] = np.arange(comm.n)
    made = []
    for stream in drawn.tolist():
        task = int(traffic.stream_task[stream])
        src, dst = int(traffic.src[stream]), int(traffic.dst[stream])
        made.append(
            Message(
                int(level[task]),
                int(rank[src]),
                int(rank[dst]),
                float(result.task_start_s[task]),
                float(result.stream_finish_s[stream]),
                float(traffic.chunk_bytes[stream]),
                _way(fabric, result, stream, src, dst),
                0 if connection is None else int(connection[stream]),
            )
        )
    return tuple(sorted(made, key=lambda m: (m.round, m.src, m.dst)))


def _levels(traffic: Traffic) -> I64:
    """Return the round of each task, if every message took one; barriers take none."""
    n = traffic.n_tasks
    level = np.zeros(n, dtype=np.int64)
    takes = (np.diff(traffic.task_stream) > 0).astype(np.int64)
    who = np.repeat(np.arange(n), np.diff(traffic.dep_ptr))
    on = traffic.dep_task.astype(np.int64)
    for _ in range(n + 1):
        before = level.copy()
        np.maximum.at(level, who, level[on] + takes[on])
        if np.array_equal(level, before):
            break
    return level


def _way(fabric: Fabric, result: Result, stream: int, src: int, dst: int) -> tuple[int, ...]:
    """Return the nodes from end to end; one way of several where packets are spread."""
    paths = result.paths
    if paths is None or paths.first[stream] == paths.first[stream + 1]:
        return (src, dst)
    flow = int(paths.first[stream])
    links = paths.link[paths.ptr[flow] : paths.ptr[flow + 1]]
    if paths.weight is None:
        return (src, *(int(node) for node in fabric.link_dst[links]))
    after: dict[int, int] = {}
    for link in links.tolist():
        after.setdefault(int(fabric.link_src[link]), int(fabric.link_dst[link]))
    nodes = [src]
    while nodes[-1] != dst and nodes[-1] in after and len(nodes) <= len(links) + 1:
        nodes.append(after[nodes[-1]])
    return tuple(nodes)


def _with_chunks(messages: tuple[Message, ...], schedule: Schedule) -> tuple[Message, ...]:
    """Give each message the pieces of its transfer: the k-th from one rank to another."""
    waiting: dict[tuple[int, int, int], list[Transfer]] = defaultdict(list)
    for moves in schedule.rounds:
        for move in moves:
            waiting[move.src, move.dst, move.channel].append(move)
    known = []
    for message in messages:
        move = waiting[message.src, message.dst, message.channel].pop(0)
        known.append(replace(message, round=move.round, chunks=move.chunks, action=move.action))
    return tuple(sorted(known, key=lambda m: (m.round, m.src, m.dst)))


# ---------------------------------------------------------------- points of the curves


def engine_points(
    state: State, sizes: tuple[int, ...], ranks: tuple[int, ...]
) -> tuple[tuple[tuple[float, float], ...], tuple[tuple[float, float], ...]]:
    """Return (size, time) and (ranks, time) of the flow engine on the ideal network.

    Points with too many messages are left out, and ranks that do not fill the servers.
    """
    given = replace(read(state), slow=None, size_text="")
    over_sizes = [(float(s), _point(replace(given, size_bytes=s))) for s in sizes]
    fit = [n for n in ranks if n % given.per_server == 0]
    over_ranks = [(float(n), _point(replace(given, ranks=n))) for n in fit]
    return (
        tuple(p for p in over_sizes if math.isfinite(p[1])),
        tuple(p for p in over_ranks if math.isfinite(p[1])),
    )


@lru_cache(maxsize=512)
def _point(given: Inputs) -> float:
    if _message_count(given) > MOST_SIMULATED // 4:
        return math.nan
    return _simulate(_on_ideal(given)).makespan_s
