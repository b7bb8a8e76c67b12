"""Lab 6 without a browser: its numbers are the engine's, its command and its address say it all."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from railweave.cli._app import app
from railweave.engine.congest import CongestCase, CongestRun, simulate_congest
from railweave.engine.congest_summary import CongestSummary, summarise
from railweave.errors import InputError
from railweave.qos import PROFILE_NAMES, EcnThresholds
from railweave.studio.content import quantities
from railweave.studio.labs import _congestion_exercises as practice
from railweave.studio.labs._congestion import (
    CongestionState,
    baseline_query,
    case_of,
    command_of,
    is_lowered,
    is_short,
    python_of,
    read_baseline,
    readable,
    run_case,
)
from railweave.studio.labs._congestion_scene import congestion_scene
from railweave.studio.labs._congestion_view import predictions, sweep_view, view_of
from railweave.studio.state import from_query, to_query

BUSY = CongestionState(senders=4, kmin=10, ramp=True, kmax=30, pmax=50, duration="4 ms")


@pytest.fixture(scope="module")
def busy() -> CongestSummary:
    return run_case(case_of(BUSY))


def cli(state: CongestionState) -> dict:
    words = shlex.split(command_of(state))
    assert words[:2] == ["railweave", "congest"]
    done = CliRunner().invoke(app, [*words[1:], "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)[0]


# ---------------------------------------------------------------- inputs


def test_defaults_are_the_command_lines():
    assert case_of(CongestionState()) == CongestCase()
    assert command_of(CongestionState()) == "railweave congest"


@pytest.mark.parametrize(
    "state",
    [
        CongestionState(duration="3 ms"),
        replace(BUSY, profile="swift"),
        CongestionState(senders=40, duration="1 ms"),  # PFC lowered, as the command does
        CongestionState(senders=40, xoff=90, duration="1 ms"),  # and where it is not the default
        CongestionState(ecn=False, pfc=False, buffer="2 MB", cable="1 km", duration="2 ms"),
    ],
)
def test_the_shown_command_gives_the_shown_numbers(state):
    shown = {n.key: n.value for n in view_of(state, run_case(case_of(state))).numbers}
    printed = cli(state)["metrics"]
    names = {
        "throughput": "throughput_bps",
        "goodput": "goodput_bps",
        "queue_max": "queue_max_bytes",
        "delay_p99": "delay_p99_s",
        "pause_share": "paused_share",
        **{name: name for name in ("pauses", "marks", "cnps", "drops", "jain")},
    }
    assert {key: shown[key] for key in names} == {key: printed[n] for key, n in names.items()}


def test_the_shown_python_gives_the_shown_numbers(capsys):
    exec(python_of(case_of(BUSY)), {})
    assert capsys.readouterr().out.strip() == str(simulate_congest(case_of(BUSY)).metrics)


def test_a_ramp_is_three_numbers():
    assert case_of(BUSY).ecn == EcnThresholds(1_600_000, 4_800_000, 0.5)
    assert case_of(replace(BUSY, ramp=False)).ecn == EcnThresholds(1_600_000, 1_600_000, 1.0)


def test_pfc_gives_way_to_headroom_and_says_so():
    state = CongestionState(senders=40, xoff=90, duration="1 ms")
    case = case_of(state)
    assert is_lowered(state, case)
    said = " ".join(view_of(state, run_case(case)).sentences)
    assert "not at 90 % of the buffer" in said
    assert "headroom of 41 ports" in said


def test_inputs_that_cannot_be_are_refused_in_a_sentence():
    with pytest.raises(InputError, match="kmin ≤ kmax"):
        case_of(replace(BUSY, kmin=50, kmax=20))
    with pytest.raises(InputError, match="take fewer senders"):
        case_of(CongestionState(senders=256, buffer="1 MB"))


def test_what_cannot_be_read_becomes_the_default():
    state, problems = readable(CongestionState(buffer="16", profile="tcp", senders=3))
    assert state == CongestionState(senders=3)
    assert [p.partition(":")[0] for p in problems] == ["buffer", "profile"]
    assert readable(BUSY) == (BUSY, ())


@given(
    senders=st.integers(1, 256),
    kmin=st.integers(1, 100),
    profile=st.sampled_from(PROFILE_NAMES),
    pfc=st.booleans(),
    speed=st.sampled_from(["40 Gb/s", "1.6 Tb/s"]),
)
@settings(max_examples=50, deadline=None)
def test_an_address_holds_both_settings(senders, kmin, profile, pfc, speed):
    other = CongestionState(senders=senders, kmin=kmin, profile=profile, pfc=pfc)
    state = replace(BUSY, sender_speed=speed, baseline=baseline_query(other))
    pairs = dict(p.split("=", 1) for p in to_query(state).split("&"))
    from urllib.parse import unquote_plus

    back, problems = from_query(CongestionState, {k: unquote_plus(v) for k, v in pairs.items()})
    assert problems == ()
    assert back == state
    assert read_baseline(back) == other


def test_only_long_runs_are_jobs():
    assert is_short(CongestCase())
    assert not is_short(CongestCase(senders=8, duration_s=1.0))
    # an egress that is hardly used is soon simulated
    assert is_short(CongestCase(sender_bps=1e9, duration_s=1.0))


# ---------------------------------------------------------------- what is shown


def test_every_number_has_help(busy):
    keys = {number.key for number in view_of(BUSY, busy).numbers}
    assert keys <= {entry.key for entry in quantities()}
    assert len(keys) == 15


def test_predictions_stand_beside_what_was_measured():
    rows = predictions(case_of(CongestionState())).rows
    assert [cells[1] for cells in rows] == ["2.56 ms", "5.12 ms", "6.4 ms"]
    state = CongestionState(profile="none", duration="6 ms")
    measured = predictions(case_of(state), run_case(case_of(state))).rows
    assert [cells[2] for cells in measured] == ["2.561 ms", "5.122 ms", "no drop"]
    slow = predictions(case_of(CongestionState(sender_speed="80 Gb/s", pfc=False)))
    assert [cells[1] for cells in slow.rows] == ["never", "off", "never"]


def test_the_figure_lays_the_baseline_over_it_dashed(busy, capsys):
    state = replace(BUSY, baseline="defaults")
    base = run_case(case_of(CongestionState()))
    view = view_of(state, busy, base)
    dashed = [t.name for t in view.figure.data if t.line.dash == "dash"]
    assert dashed == [
        "baseline", "baseline: senders, mean", "baseline: marked", "baseline: paused",
    ]  # fmt: skip
    assert view.reproduce.command.splitlines() == [command_of(BUSY), "railweave congest"]
    exec(view.reproduce.python, {})
    printed = capsys.readouterr().out.splitlines()
    assert printed == [str(outcome.metrics) for outcome in (busy, base)]
    table = {cells[0]: cells[1:] for cells in view.compared.rows}
    assert table["packets marked (ECN)"][:2] == (
        f"{base.metrics.marks:,}",
        f"{busy.metrics.marks:,}",
    )


def said(**changes) -> str:
    state = CongestionState(**{"duration": "8 ms", **changes})
    return view_of(state, run_case(case_of(state))).sentences[0]


def test_who_held_the_senders_is_said():
    assert said().startswith("ECN alone held the queue")
    assert said(senders=8).startswith("ECN and PFC both acted")
    assert said(xoff=20).startswith("PFC did all the work")
    assert said(xoff=20).endswith("nothing was marked.")
    assert said(profile="none").endswith("to which profile none is deaf.")
    assert said(profile="none", pfc=False, duration="5 ms").startswith("Nothing held the senders")
    assert "packets were lost" in said(profile="none", pfc=False)
    assert said(profile="swift").endswith("by itself.")
    assert said(sender_speed="90 Gb/s").startswith("The egress takes all")


def test_the_trace_is_in_order_and_says_what_it_leaves_out(busy):
    rows = view_of(BUSY, busy).trace
    assert [row.time_s for row in rows] == sorted(row.time_s for row in rows)
    assert f"of {busy.metrics.cnps:,} notifications" in rows[0].what
    assert any(row.what == "First packet marked (ECN)" for row in rows)


def test_a_part_of_a_run_says_how_far_it_is():
    state = replace(BUSY, duration="50 ms")
    run = CongestRun(case_of(state))
    parts: list[CongestSummary] = []
    run.drive(lambda _: parts.append(summarise(run.outcome())))
    assert len(parts) > 2
    view = view_of(state, parts[0])
    assert 0 < parts[0].metrics.elapsed_s < 50e-3
    assert view.so_far(cancelled=False).startswith("Still running: ")
    assert view.so_far(cancelled=True).endswith(" of 50 ms.")
    assert view.scene.duration_s == parts[0].metrics.elapsed_s


# ---------------------------------------------------------------- the drawing


def test_tokens_are_the_bytes_that_the_samples_count(busy):
    scene = congestion_scene(busy)
    out = [f for f in scene.flights if f.source == "queue" and f.kind == "data"]
    into = [f for f in scene.flights if f.target == "queue" and f.kind == "data"]
    assert 155 <= len(out) <= 160
    # What came in and did not go out stands in the queue at the end.
    token = busy.metrics.throughput_bps * busy.metrics.elapsed_s / 8 / 160
    left = busy.queue_bytes[-1] / token
    assert len(into) - len(out) == pytest.approx(left, abs=len(into) * 0.02 + 4)
    assert all(0 <= f.start_s <= f.end_s <= busy.metrics.elapsed_s for f in scene.flights)


def test_the_queue_shows_both_thresholds(busy):
    (level,) = congestion_scene(busy).levels
    assert level.marks == ((1_600_000.0, "ECN"), (4_800_000.0, "Kmax"), (12_800_000.0, "PFC"))
    assert level.full == 16e6
    assert max(level.value) == busy.metrics.queue_max_bytes


def test_pauses_go_one_hop_and_notifications_from_end_to_end(busy):
    scene = congestion_scene(busy)
    ends = {kind: {(f.source, f.target[:6]) for f in scene.flights if f.kind == kind}
            for kind in ("pause", "cnp")}  # fmt: skip
    assert ends == {"pause": {("queue", "sender")}, "cnp": {("receiver", "sender")}}
    assert {link.style for link in scene.links} == {"arrow", "pfc", "cnp"}


def test_many_senders_stand_together():
    state = CongestionState(senders=50, duration="1 ms")
    scene = congestion_scene(run_case(case_of(state)))
    rest = next(node for node in scene.nodes if node.id == "rest")
    assert rest.count == 44
    assert len(scene.nodes) == 6 + 1 + 2
    assert len(scene.document()) < 60_000


# ---------------------------------------------------------------- exercises, sweep


@pytest.mark.parametrize("exercise", practice.EXERCISES, ids=lambda e: e.key)
def test_exercises_are_answered_by_the_engine(exercise):
    measured = practice.answer(exercise.key)
    assert measured.why
    if exercise.options:
        assert measured.value in range(len(exercise.options))
        for place, option in enumerate(exercise.options):
            said = practice.verdict(exercise, place, measured)
            assert said.right is (place == measured.value)
            assert option in said.headline
    else:
        assert practice.verdict(exercise, measured.value, measured).right
        far = practice.verdict(exercise, measured.value / 2, measured)
        assert not far.right
        assert "50 % too low" in far.headline


def test_answers_follow_the_outcomes():
    """The same question about other cases has another answer: none is written down."""
    below = next(e for e in practice.EXERCISES if e.key == "below")
    plain = run_case(case_of(CongestionState(duration="4 ms")))
    assert below.judge([plain, plain]).value == 1
    lowest = next(e for e in practice.EXERCISES if e.key == "lowest")
    swift = run_case(case_of(CongestionState(profile="swift", duration="4 ms")))
    assert lowest.judge([plain, swift]).value == 1
    assert lowest.judge([swift, plain]).value == 0


def test_what_never_happens_is_said():
    full = next(e for e in practice.EXERCISES if e.key == "full")
    said = practice.verdict(full, 3, practice.Measured(math.nan, "why"))
    assert not said.right
    assert said.headline.startswith("It never happened")


def test_the_map_is_the_commands():
    view = sweep_view(CongestionState(duration="2 ms", profile="none"))
    words = shlex.split(view.command)
    done = CliRunner().invoke(app, [*words[1:], "--workers", "1", "--json"])
    assert json.loads(done.output)["reading"] == list(view.sentences)
    shown = np.asarray(view.figure.data[0].z, dtype=float)
    assert len(shown) == 12
