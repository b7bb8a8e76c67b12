"""Lab 7 without a browser: its numbers are the engines', its drawings follow the schedule."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shlex
from collections import Counter

import pytest
from typer.testing import CliRunner

from railweave.cli._app import app
from railweave.design.models import ALGORITHMS, Algorithm, Collective, PlacementName
from railweave.engine.analytic import collective_time
from railweave.errors import InputError
from railweave.runs.jobs import JobContext
from railweave.studio.labs._collectives import Slow, State, Where, read, study
from railweave.studio.labs._collectives_curves import curves
from railweave.studio.labs._collectives_fabric import on_fabric
from railweave.studio.labs._collectives_figures import figures, sweep_figure
from railweave.studio.labs._collectives_jobs import packet_job, sweep_job
from railweave.studio.labs._collectives_rounds import (
    at_time,
    holdings_html,
    round_html,
    rounds,
    trace_rows,
)
from railweave.studio.labs._collectives_run import Run, engine_points, run
from railweave.studio.labs._collectives_scene import logical
from railweave.studio.labs._collectives_words import limits, numbers, reproduce, sweep_words, words
from railweave.studio.state import from_query, to_query

CASES = [(op, algorithm) for op, able in ALGORITHMS.items() for algorithm in able]
DESIGN = """\
railweave: 1
name: pairs
cluster:
  servers: {count: 8, inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}}
planes:
  backend: {transport: rocev2, topology: leaf-spine, switch: {radix: 8, speed: 100 Gb/s}}
"""


def values(state: State, done: Run | None = None) -> dict[str, float]:
    return {n.key: n.value for n in numbers(study(state), done, state.where)}


def cli(command: str) -> dict[str, object]:
    line = command.splitlines()[0]
    answer = CliRunner().invoke(app, [*shlex.split(line)[1:], "--json"])
    assert answer.exit_code == 0, answer.output
    document: dict[str, object] = json.loads(answer.output)
    return document


# ---------------------------------------------------------------- numbers


def test_the_default_is_the_reference_ring():
    state = State()
    shown = values(state, run(state))
    assert shown["rounds"] == 6
    assert shown["bytes_per_gpu"] == 384e6
    assert shown["closed_form_time"] == pytest.approx(0.03072)
    assert shown["lower_bound"] == pytest.approx(0.03072)
    assert shown["busbw"] == pytest.approx(12.5e9)
    assert 0.03072 < shown["engine_time"] < 1.03 * 0.03072  # packet headers


@pytest.mark.parametrize(
    "state",
    [
        State(),
        State(ranks=9, size="1 kB", latency="2 us", algorithm=Algorithm.TREE),
        State(ranks=8, per_server=4, algorithm=Algorithm.HIERARCHICAL, latency="1 us"),
        State(operation=Collective.ALL_TO_ALL, ranks=16, size="1 GiB", bandwidth="400 Gb/s"),
        State(operation=Collective.ALL_TO_ALL, algorithm=Algorithm.RAIL_ALIGNED, ranks=6),
        State(operation=Collective.REDUCE, ranks=128, size="64 MiB", latency="3 us"),
    ],
)
def test_the_command_gives_the_numbers_on_screen(state):
    closed = study(state)
    said = cli(reproduce(state, closed, "design.yaml").command)
    shown = values(state)
    for key, name in (
        ("rounds", "steps"),
        ("bytes_per_gpu", "bytes_sent_per_rank"),
        ("closed_form_time", "time_s"),
        ("lower_bound", "lower_bound_s"),
        ("algbw", "algbw_Bps"),
        ("busbw", "busbw_Bps"),
    ):
        assert shown[key] == said[name], key


def test_on_a_design_the_command_gives_the_numbers_on_screen(tmp_path):
    path = tmp_path / "pairs design.yaml"
    path.write_text(DESIGN, encoding="utf-8")
    state = State(where=Where.DESIGN, ranks=8, placement=PlacementName.SPREAD, size="8 MiB")
    said = cli(reproduce(state, study(state), str(path)).command)
    shown = values(state, run(state, DESIGN))
    for key, name in (
        ("engine_time", "time_s"),
        ("closed_form_time", "analytic_s"),
        ("algbw", "algbw_Bps"),
        ("busbw", "busbw_Bps"),
        ("share_server", "share_server"),
        ("share_leaf", "share_leaf"),
        ("share_spine", "share_spine"),
        ("rounds", "steps"),
    ):
        assert shown[key] == said[name], key


@pytest.mark.parametrize("slow", [Slow.NONE, Slow.LINK, Slow.DELAY])
@pytest.mark.parametrize("where", list(Where))
def test_the_python_gives_the_engines_time(slow, where, tmp_path, capsys):
    path = tmp_path / "pairs.yaml"
    path.write_text(DESIGN, encoding="utf-8")
    state = State(slow=slow, where=where, size="4 MB")
    done = run(state, DESIGN)
    exec(reproduce(state, study(state), str(path)).python, {})
    said = capsys.readouterr().out
    assert repr(done.time_s) in said


def test_a_slow_rank_slows_all():
    state = State(slow=Slow.LINK, slow_rank=2)
    done = run(state)
    shown = values(state, done)
    assert shown["slowdown"] == pytest.approx(2.0, rel=1e-3)
    assert shown["ideal_time"] == pytest.approx(run(State()).time_s)
    assert "all 4 GPUs take" in words(study(state), None, done, state.where)[-1]
    waits = {rank for one in rounds(done.messages, waiting=True) for rank, _ in one.waits}
    assert 3 in waits  # for what the slow rank passes on
    assert 2 not in waits
    assert not any(one.waits for one in rounds(run(State()).messages, waiting=True))


# ---------------------------------------------------------------- every choice gives a view


@pytest.mark.parametrize("ranks", range(2, 10))
@pytest.mark.parametrize(("op", "algorithm"), CASES)
def test_every_choice_gives_a_view(op, algorithm, ranks):
    servers = 2 if ranks % 2 == 0 else 1
    state = State(
        operation=op, algorithm=algorithm, ranks=ranks, size="1 MB", per_server=servers,
        latency="1 us",
    )  # fmt: skip
    closed, done = study(state), run(state)
    expected = collective_time(
        op, algorithm, ranks, 1_000_000, 100e9, 1e-6, ranks_per_server=read(state).per_server
    )
    assert values(state, done)["closed_form_time"] == expected.time_s
    assert done.schedule is not None
    assert done.schedule.complete
    assert_drawing_is_the_schedule(done)
    assert all(words(closed, curves(state), done, state.where))
    assert limits(closed, done)
    assert len(trace_rows(done)) == len(done.messages)


def assert_drawing_is_the_schedule(done: Run) -> None:
    schedule = done.schedule
    assert schedule is not None
    planned = Counter((t.round, t.src, t.dst, t.chunks) for some in schedule.rounds for t in some)
    assert Counter((m.round, m.src, m.dst, m.chunks) for m in done.messages) == planned
    scene = logical(done, schedule)
    assert len(scene.flights) == len(done.messages)
    assert scene.duration_s == pytest.approx(done.drawn_s)
    # A rank passes on only what has reached it.
    for message in done.messages:
        assert message.end_s > message.start_s
    fabric = on_fabric(done)
    assert len(fabric.flights) == 2 * len(done.messages)  # to the switch, and from it
    every = rounds(done.messages)
    assert [at_time(every, one.end_s) for one in every][-1] == len(every)
    assert at_time(every, 0.0) == 0
    for one in every:
        assert round_html(one, schedule).count("<tr>") == 1 + min(len(one.messages), 64)
    last = holdings_html(schedule, len(every))
    assert "complete" in last


def test_what_cannot_be_is_said_in_a_sentence():
    for state, says in (
        (State(ranks=1), "2 to 1,024"),
        (State(ranks=5000), "2 to 1,024"),
        (State(size="0 B"), "1 B to 1 TiB"),
        (State(size="much"), "size"),
        (State(bandwidth="0 Gb/s"), "more than 0"),
        (State(latency="2 s"), "0 s to 1 s"),
        (State(operation=Collective.ALL_TO_ALL, algorithm=Algorithm.RING), "allowed: direct"),
        (State(ranks=6, per_server=4, algorithm=Algorithm.HIERARCHICAL), "multiple of 4"),
        (State(slow=Slow.LINK, slow_rank=7), "0 to 3"),
        (State(slow=Slow.LINK, slow_link=0), "above 0"),
    ):
        with pytest.raises(InputError, match=re.escape(says)):
            study(state)
    with pytest.raises(InputError, match="home page"):
        run(State(where=Where.DESIGN))
    with pytest.raises(InputError, match="16 GPUs"):
        run(State(where=Where.DESIGN, ranks=17), DESIGN)


def test_more_ranks_than_can_be_drawn_keep_their_numbers():
    state = State(ranks=96)
    done = run(state)
    assert done.messages == ()
    assert "too many to draw" in done.undrawn
    assert values(state, done)["engine_time"] > values(state)["closed_form_time"]
    with pytest.raises(InputError, match="messages"):
        run(State(ranks=1024, operation=Collective.ALL_TO_ALL))


def test_the_address_holds_the_state():
    state = State(
        operation=Collective.ALL_GATHER, algorithm=Algorithm.HALVING_DOUBLING, ranks=7,
        size="3 MiB", slow=Slow.DELAY, slow_delay="2 ms", where=Where.DESIGN,
    )  # fmt: skip
    query = dict(pair.split("=") for pair in to_query(state).split("&"))
    again, problems = from_query(State, {k: v.replace("+", " ") for k, v in query.items()})
    assert (again, problems) == (state, ())
    assert to_query(State()) == ""


# ---------------------------------------------------------------- curves and words


def test_a_tree_is_faster_for_small_messages():
    small = State(ranks=16, size="1 kB", latency="2 us")
    tree = dataclasses.replace(small, algorithm=Algorithm.TREE)
    assert study(tree).result.time_s < study(small).result.time_s
    assert run(tree).time_s < run(small).time_s
    (crossing,) = curves(tree).crossings
    assert (crossing.small, crossing.large) == (Algorithm.TREE, Algorithm.RING)
    for factor, first in ((0.97, True), (1.03, False)):
        size = round(factor * crossing.size_bytes)
        at = {
            a: collective_time(Collective.ALL_REDUCE, a, 16, size, 100e9, 2e-6).time_s
            for a in (Algorithm.TREE, Algorithm.RING)
        }
        assert (at[Algorithm.TREE] < at[Algorithm.RING]) is first
    said = " ".join(words(study(small), curves(small), None, Where.IDEAL))
    assert "latency-bound" in said
    assert "would be faster here" in said


def test_every_point_of_the_curves_is_the_closed_form():
    state = State(ranks=8, latency="1 us")
    found = curves(state)
    assert [c.algorithm for c in found.over_sizes] == [
        Algorithm.RING, Algorithm.TREE, Algorithm.HALVING_DOUBLING,
    ]  # fmt: skip
    curve = found.over_sizes[1]
    for k in (0, 20, 48):
        wanted = collective_time(Collective.ALL_REDUCE, Algorithm.TREE, 8, curve.x[k], 100e9, 1e-6)
        assert curve.time_s[k] == wanted.time_s
        assert curve.bound_s[k] == wanted.lower_bound_s <= wanted.time_s


def test_the_figures_mark_this_setting_and_the_engine():
    state = State(ranks=8, latency="1 us")
    points = engine_points(state, (1 << 20, 1 << 30), (4, 16))
    _, sizes, over = figures(state, *points)
    names = [trace.name for trace in sizes.data]
    assert {"ring", "tree", "halving-doubling", "bound", "flow engine", "this setting"} <= set(
        names
    )
    here = sizes.data[names.index("this setting")]
    assert here.y[0] * 1e9 == pytest.approx(study(state).result.busbw_Bps)
    engine = over.data[[t.name for t in over.data].index("flow engine")]
    assert list(engine.x) == [4.0, 16.0]
    assert engine.y[0] == pytest.approx(run(dataclasses.replace(state, ranks=4)).time_s)


# ---------------------------------------------------------------- on a design


def test_on_a_design_messages_follow_the_routing():
    state = State(where=Where.DESIGN, ranks=8, size="8 MB", algorithm=Algorithm.RING)
    done = run(state, DESIGN)
    scene = on_fabric(done)
    kinds = Counter(node.kind for node in scene.nodes)
    assert kinds["gpu"] == 8
    assert kinds["leaf"] >= 1
    assert {group.id for group in scene.groups} == {f"node{k:03d}" for k in range(1, 5)}
    assert "the first of 2 channels" in scene.note
    known = {frozenset((link.source, link.target)) for link in scene.links}
    assert all(frozenset((f.source, f.target)) in known for f in scene.flights)
    said = words(study(state), None, done, state.where)
    assert any("bandwidth-bound" in text for text in said)
    drawn = logical(done, done.schedule)
    assert drawn.duration_s == pytest.approx(done.time_s)
    assert "equal length" in drawn.note


class Told(JobContext):
    """Remembers what a job says."""

    def __init__(self) -> None:
        self.documents: list[dict[str, object]] = []

    def progress(self, step: str, fraction: float) -> None:
        assert step
        assert 0 <= fraction <= 1

    def publish(self, document: dict[str, object]) -> None:
        self.documents.append(json.loads(json.dumps(document)))

    def check(self) -> None:
        """Never to be stopped."""


def test_packet_by_packet_is_near_the_flow_engine():
    state = State(size="4 MB")
    result = packet_job((state, ""), Told())
    assert result["time_s"] == pytest.approx(run(state).time_s, rel=0.05)
    slow = dataclasses.replace(state, slow=Slow.LINK)
    assert packet_job((slow, ""), Told())["time_s"] > 1.9 * result["time_s"]
    on = State(size="1 MB", where=Where.DESIGN)
    assert packet_job((on, DESIGN), Told())["time_s"] == pytest.approx(
        run(on, DESIGN).time_s, rel=0.25
    )
    with pytest.raises(InputError, match="smaller size"):
        packet_job((State(size="100 GB"), ""), Told())


def test_the_sweep_publishes_points_of_every_algorithm():
    state = State(where=Where.DESIGN, ranks=4, size="1 MiB")
    told = Told()
    result = sweep_job((state, DESIGN), told)
    points = result["points"]
    assert told.documents[-1] == result
    assert {p["algorithm"] for p in points} == {a.value for a in ALGORITHMS[state.operation]}
    mine = next(p for p in points if p["algorithm"] == "ring" and p["size"] == 1 << 20)
    assert mine["time_s"] == run(state, DESIGN).time_s
    said = sweep_words(points)
    assert said.startswith("Fastest at 4 KiB: ")
    assert "as long" in said
    figure = sweep_figure(state, points, mine["time_s"])
    assert math.isclose(figure.data[-1].y[0] * 1e9, mine["busbw_Bps"])
