"""Lab 5 without a browser: the design it writes, its numbers, failures, flows and paths."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import railweave
from railweave.cli._app import app
from railweave.errors import InputError
from railweave.studio.content import quantity
from railweave.studio.designs import built_design
from railweave.studio.labs import _fabric_actions as actions
from railweave.studio.labs._fabric import ALL, FILE, Refusal, View, study
from railweave.studio.labs._fabric_flows import collective_times, flows_of, link_loads
from railweave.studio.labs._fabric_python import with_flows
from railweave.studio.labs._fabric_state import (
    BOUNDS,
    HASHES,
    PATTERNS,
    ROUTINGS,
    TOPOLOGIES,
    TRANSPORTS,
    State,
    design_text,
    server_choices,
    state_of_design,
    usable,
)
from railweave.studio.state import from_query, to_query
from railweave.units import format_seconds

EXAMPLES = Path(__file__).parents[2] / "examples"


def view_of(state: State) -> View:
    view = study(state)
    assert isinstance(view, View), view
    return view


def number(view: View, key: str) -> float:
    return next(one.value for one in view.numbers if one.key == key)


def test_defaults_are_four_racks_on_four_spines() -> None:
    view = view_of(State())
    assert (number(view, "servers"), number(view, "gpus")) == (16, 128)
    assert (number(view, "leaves"), number(view, "spines")) == (4, 4)
    assert number(view, "oversubscription") == 1.0
    # a leaf a rack: 32 host links and 32 uplinks of 400 Gb/s
    assert number(view, "rack_uplink") == 32 * 400e9
    assert number(view, "ecmp_paths") == 4 * 8 * 8


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"spines": 8, "racks": 8},
        {"topology": "rail-optimized", "racks": 16, "spines": 0, "out": ("spine-1", "leaf-2")},
        {"ratio": 3.0, "spines": 0, "out": ("leaf-1:port-40",)},
        {"server": "dgx-h100", "transport": "infiniband", "switch": "qm9700", "spines": 0},
        {"topology": "star", "racks": 2, "out": ("node001/nic0",)},
    ],
)
def test_numbers_are_those_of_build(change: dict[str, object]) -> None:
    state = replace(State(), **change)  # type: ignore[arg-type]
    view = view_of(state)
    built = railweave.parse(view.text).build()
    document = built.fail(state.out).summary().to_json()
    capacity, counts = document["capacity"], document["counts"]
    assert isinstance(capacity, dict)
    assert isinstance(counts, dict)
    assert number(view, "gpus") == counts["gpus"]
    assert number(view, "leaves") == counts["switches"]["leaf"]
    assert number(view, "bisection") == capacity["bisection_bps"]
    assert number(view, "ecmp_paths") == capacity["ecmp_paths"]
    assert number(view, "cables") == sum(document["cables"].values())  # type: ignore[attr-defined]
    assert number(view, "power") == document["power"]["total_w"]  # type: ignore[index]
    leaf = capacity["tiers"][0]
    if leaf["oversubscription"] is not None:
        planned = "oversubscription:built" if state.out else "oversubscription"
        assert number(view, planned) == leaf["oversubscription"]
        assert number(view, "uplink_capacity") == leaf["populated_up_bps"]
    if state.out:
        cost = built.what_if(state.out)
        assert number(view, "bisection_left") == cost.bisection_left
        assert number(view, "gpus_cut_off") == cost.gpus_cut_off
        assert all(f"--fail {item}" in view.reproduce.command for item in state.out)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"out": ("spine-2",)},
        {"out": ("leaf-1:port-33", "leaf-2"), "pattern": "permutation", "queue_pairs": 4},
        {"topology": "star", "racks": 2, "radix": 128, "pattern": "all-to-all"},
        {"racks": 2, "out": ("leaf-1",), "seed": 3},
    ],
)
def test_the_python_shown_gives_every_tile(
    change: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = replace(State(size="16 MiB"), **change)  # type: ignore[arg-type]
    view, flows = view_of(state), flows_of(state)
    timed = collective_times(state) if state.out else None
    assert not isinstance(flows, str)
    assert not isinstance(timed, str)
    shown = with_flows(view.reproduce, FILE, state, flows, timed)
    (tmp_path / FILE).write_text(view.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(shown.python, "shown", "exec"), {})
    said = capsys.readouterr().out
    printed = {float(text) for text in re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\binf\b", said)}
    bare = [one.key for one in (*view.numbers, *flows.numbers) if one.value not in printed]
    assert bare == []
    if view.path.hashed:
        assert view.path.hashed[0].split("src-port ")[1].split(",")[0] in said
    if timed is not None and timed.after:
        times = [format_seconds(value) for value in printed]
        assert all(row[1] in times for row in timed.table.rows)


def test_the_command_shown_gives_the_times_of_the_collective(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State(racks=2, servers=2, size="16 MiB", out=("spine-1", "leaf-1:port-10"))
    view, flows, timed = view_of(state), flows_of(state), collective_times(state)
    assert not isinstance(flows, str)
    assert not isinstance(timed, str)
    (tmp_path / FILE).write_text(view.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    lines = with_flows(view.reproduce, FILE, state, flows, timed).command.splitlines()
    ran = [line for line in lines if line.startswith("railweave collective")]
    assert len(ran) == 2
    for line, row in zip(ran, timed.table.rows, strict=True):
        done = CliRunner().invoke(app, shlex.split(line)[1:])
        assert done.exit_code == 0, done.output
        assert format_seconds(json.loads(done.stdout)["time_s"]) == row[1]


def test_what_is_out_counts_in_the_oversubscription() -> None:
    view = view_of(State(out=("spine-1",)))
    # a leaf has 32 host links, and 24 of its 32 uplinks left
    assert number(view, "oversubscription") == pytest.approx(32 / 24)
    assert number(view, "oversubscription:built") == 1.0
    said = " ".join(view.sentences)
    assert "each gets 75% of its speed (1.333:1; as built 1:1)" in said
    assert "sends up as much as it takes in" not in said
    one = view_of(State(out=("leaf-3:port-64",)))
    assert number(one, "oversubscription") == pytest.approx(32 / 31)
    cut = view_of(State(out=("spine-*",)))
    assert number(cut, "oversubscription") == float("inf")
    assert "no way up left (as built 1:1)" in " ".join(cut.sentences)


def test_every_number_with_a_glossary_key_says_what_it_is() -> None:
    view = view_of(State(out=("spine-1",)))
    flows = flows_of(State())
    assert not isinstance(flows, str)
    keys = {one.key for one in (*view.numbers, *flows.numbers)}
    for key in keys - {"leaf_uplink"}:
        assert quantity(key.partition(":")[0]).definition


def test_what_cannot_be_built_is_answered_with_the_nearest_that_can() -> None:
    refusal = study(State(spines=5))
    assert isinstance(refusal, Refusal)
    assert "32 uplinks do not spread evenly" in refusal.sentence
    assert "did you mean '4'?" in refusal.sentence
    assert "design.yaml" not in refusal.sentence
    assert refusal.sentence.startswith("Spines (")
    assert refusal.fix == ("spines", 4)
    full = study(State(racks=64, servers=8, spines=0))
    assert isinstance(full, Refusal)
    assert full.sentence.endswith("63 such links.")
    star = study(State(topology="star"))
    assert isinstance(star, Refusal)
    assert star.fix == ("topology", "leaf-spine")
    big = study(State(racks=8192, servers=64))
    assert isinstance(big, Refusal)
    assert "65,536" in big.sentence


def test_unusable_values_of_an_address_become_defaults_and_are_said() -> None:
    state, _ = from_query(
        State, {"nic_speed": "fast", "topology": "torus", "racks": "7", "switch": "qm9700"}
    )
    good, said = usable(state)
    assert (good.nic_speed, good.topology, good.racks) == ("400 Gb/s", "leaf-spine", 7)
    assert good.switch == "plain"  # an InfiniBand switch does not carry RoCEv2
    assert len(said) == 3


def test_text_of_an_address_cannot_leave_its_field() -> None:
    state = State(name='x"\nplanes: {backend: {graph: /etc/passwd}}')
    loaded = railweave.parse(design_text(state))
    assert loaded.design.name == state.name
    assert loaded.design.planes.backend.graph is None


_LIMITS = {
    name: st.sampled_from(sorted({low, high, min(high, max(low, 3)), min(high, max(low, 8))}))
    for name, (low, high) in BOUNDS.items()
}
_STATES = st.builds(
    State,
    **(_LIMITS | {"empty": st.sampled_from([0, 0, 0, 2, 63])}),
    server=st.sampled_from(sorted(server_choices())),
    nic_speed=st.sampled_from(["100 Gb/s", "400 Gb/s", "1600 Gb/s", "37 Gb/s"]),
    transport=st.sampled_from(sorted(TRANSPORTS)),
    topology=st.sampled_from(sorted(TOPOLOGIES)),
    top_of_rack=st.booleans(),
    equal_seeds=st.booleans(),
    switch=st.sampled_from(["plain", "qm9700", "sn5600", "tomahawk5-64x800g"]),
    port_speed=st.sampled_from(["100 Gb/s", "400 Gb/s", "800 Gb/s"]),
    uplink_speed=st.sampled_from(["", "100 Gb/s", "800 Gb/s"]),
    ratio=st.sampled_from([0.1, 0.5, 1.0, 1.85, 8.0, 100.0]),
    spine_ratio=st.sampled_from([1.0, 7.0]),
    routing=st.sampled_from(sorted(ROUTINGS)),
    hash=st.sampled_from(sorted(HASHES)),
    pattern=st.sampled_from(sorted(PATTERNS)),
    out=st.sampled_from([(), ("spine-1",), ("leaf-1", "node001"), ("nothing-1",), ("*",)]),
    open=st.sampled_from([(), (ALL,), ("pod-1",)]),
    loads=st.booleans(),
    source=st.sampled_from(["", "node001/gpu0", "leaf-1", "nowhere"]),
)


#: what can mostly be built: two or three controls away from the defaults
_NEAR = st.builds(
    lambda state, names: replace(State(), **{name: getattr(state, name) for name in names}),
    _STATES,
    st.sets(st.sampled_from(sorted(State.__dataclass_fields__)), min_size=1, max_size=4),
)


@settings(
    max_examples=120, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
@given(
    st.one_of(_NEAR, _NEAR, _STATES).filter(
        lambda s: s.racks * s.servers * s.gpus <= 1024 or s.racks > 4096
    )
)
def test_every_corner_of_the_controls_builds_or_says_why_not(state: State) -> None:
    again, problems = from_query(
        State, dict(part.split("=") for part in _plain(to_query(state)) if part)
    )
    assert not problems
    assert again == state
    view = study(state)
    if isinstance(view, Refusal):
        assert len(view.sentence) > 20
        return
    assert number(view, "gpus") > 0
    assert number(view, "bisection") >= 0
    assert view.scene.nodes
    assert {part.id for part in view.parts} == (
        {node.id for node in view.scene.nodes} | {link.id for link in view.scene.links}
    )
    assert isinstance(flows_of(state), str) or flows_of(state)


def _plain(query: str) -> list[str]:
    from urllib.parse import parse_qsl

    return [f"{key}={value}" for key, value in parse_qsl(query, keep_blank_values=True)]


# ---------------------------------------------------------------- failures


def test_a_device_falls_and_comes_back() -> None:
    whole = built_design(design_text(State()))
    fallen = actions.toggled(whole, (), "spine-1")
    assert fallen.out == ("spine-1",)
    assert actions.toggled(whole, fallen.out, "spine-1").out == ()


def test_a_bundle_loses_its_cables_one_by_one() -> None:
    whole = built_design(design_text(State()))
    out: tuple[str, ...] = ()
    for _ in range(8):
        out = actions.toggled(whole, out, "leaf-1 – spine-2").out
    assert len(out) == 8
    up = whole.fail(out).fabric.link_up
    assert int((~up).sum()) == 16
    assert actions.toggled(whole, out, "leaf-1 – spine-2").out == ()
    assert actions.take_out(whole, (), "leaf-1 – spine-2").out == out
    # named by its other end it is the same cable
    assert actions.put_back(whole, ("spine-2:port-1",), "leaf-1 – spine-2").out == ()


def test_a_cable_of_a_dead_switch_is_not_taken_out_again() -> None:
    whole = built_design(design_text(State()))
    outcome = actions.take_out(whole, ("spine-1",), "leaf-1:port-33")
    assert outcome.out == ("spine-1",)
    assert "at one of its ends" in outcome.sentence
    covered = actions.take_out(whole, ("spine-*",), "spine-3")
    assert covered.out == ("spine-*",)
    assert "spine-*" in covered.sentence


def test_a_box_of_several_devices_must_be_opened_first() -> None:
    whole = built_design(design_text(State()))
    for how in (actions.toggled, actions.take_out, actions.put_back):
        assert "open its group" in how(whole, (), "leaf-1 +3 – spine-1").sentence


def test_more_names_than_the_address_holds_are_refused() -> None:
    whole = built_design(design_text(State()))
    out: tuple[str, ...] = ()
    for spine in range(1, 5):
        outcome = actions.take_out(whole, out, f"leaf-1 – spine-{spine}")
        out = outcome.out
    assert "put something back" in outcome.sentence
    assert from_query(State, {"out": ",".join(out)})[1] == ()


def test_history_goes_back_and_forth() -> None:
    history = actions.History(())
    history.put(("a",))
    history.put(("a", "b"))
    assert history.undo() == ("a",)
    assert history.undo() == ()
    assert not history.can_undo
    assert history.redo() == ("a",)
    history.put(("c",))
    assert not history.can_redo
    assert history.undo() == ("a",)


def test_parts_that_a_new_fabric_lacks_are_left_out_and_said() -> None:
    view = view_of(State(spines=2, out=("spine-2", "spine-4")))
    assert view.out == ("spine-2",)
    assert "the last is 'spine-2'" in view.note
    assert view.unknown == (view.note,)


def test_names_of_an_address_that_a_fabric_lacks_are_said() -> None:
    view = view_of(State(out=("spine-9",), source="gpu-x", target="leaf-1", open=("pod-7", ALL)))
    out, group, source, target = view.unknown
    assert "spine-9" in out
    assert "no group 'pod-7' in this drawing" in group
    assert source.startswith("From GPU (source): there is no 'gpu-x'")
    assert target.startswith("To GPU (target): leaf-1 is no GPU")
    assert all(one.endswith(".") for one in view.unknown)
    assert view_of(State(open=(ALL,), source="node001")).unknown == ()


# ---------------------------------------------------------------- flows and paths


def test_a_collective_takes_longer_without_a_spine() -> None:
    table = collective_times(State(racks=2, servers=2, out=("spine-1", "spine-2", "spine-3")))
    assert not isinstance(table, str)
    assert [row[0] for row in table.table.rows] == ["before", "after"]
    before, after = (float(row[2].split()[0]) for row in table.table.rows)
    assert after < before
    dead = collective_times(State(racks=2, servers=2, out=("leaf-1",)))
    assert not isinstance(dead, str)
    assert dead.table.rows[1][1] == "cannot run"
    assert (dead.before, dead.after) == (True, False)


def test_queue_pairs_and_spraying_even_the_flows_out() -> None:
    def worst(state: State) -> float:
        flows = flows_of(state)
        assert not isinstance(flows, str)
        return next(one.value for one in flows.numbers if one.key == "hash_spread")

    one = worst(State(pattern="permutation"))
    many = worst(State(pattern="permutation", queue_pairs=32))
    assert 1 < many < one
    assert worst(State(pattern="permutation", routing="spray")) == pytest.approx(1.0)
    assert worst(State(pattern="permutation", seed=5)) != one


def test_loads_are_shares_of_the_fullest_link() -> None:
    import numpy as np

    built = built_design(design_text(State()))
    load = link_loads(built, State())
    assert float(np.nanmax(load)) == 1.0
    assert float(np.nanmin(load)) == 0.0
    view = view_of(State(loads=True))
    assert any(link.state == "hot" for link in view.scene.links)


def test_a_path_is_what_routing_gives_and_is_marked() -> None:
    view = view_of(State(target="node009"))
    assert view.path.table is not None
    assert view.path.target == "node009"
    assert view.path.table.rows[-1][2] == "node009/gpu0"
    marked = {link.id for link in view.scene.links if link.state == "marked"}
    assert len(marked) == 4
    assert [row.time_s for row in view.trace] == sorted(row.time_s for row in view.trace)
    assert "leaf-1" in {row.where for row in view.trace}


def test_paths_that_cannot_be_are_said() -> None:
    same = view_of(State(source="node001/gpu0", target="node001")).path
    assert "same GPU" in same.sentence
    lost = view_of(State(out=("leaf-1",))).path
    assert "no way is left" in lost.sentence
    assert "is no GPU" in view_of(State(source="leaf-1")).path.sentence
    assert "there is no 'nowhere'" in view_of(State(source="nowhere")).path.sentence


# ---------------------------------------------------------------- from a design


@pytest.mark.parametrize("name", ["superpod-h100-1su", "superpod-h100-4su", "star-64-gpus"])
def test_the_controls_take_a_loaded_design_over(name: str) -> None:
    loaded = railweave.load(EXAMPLES / f"{name}.yaml")
    state, left = state_of_design(loaded)
    theirs = loaded.build().summary().backend
    view = view_of(state)
    assert number(view, "servers") == theirs.counts.servers
    assert number(view, "gpus") == theirs.counts.gpus
    assert number(view, "leaves") == dict(theirs.counts.switches)["leaf"]
    if loaded.design.jobs:
        assert "jobs" in left


def test_a_design_that_the_controls_do_not_know_is_refused() -> None:
    loaded = railweave.load(EXAMPLES / "ring-of-switches.yaml")
    with pytest.raises(InputError, match="this lab builds"):
        state_of_design(loaded)


def test_its_own_design_comes_back_as_the_same_state() -> None:
    for state in (
        State(),
        State(topology="rail-optimized", spines=0, racks=9, empty=1, ratio=2.0, queue_pairs=4),
        State(server="dgx-h100", transport="infiniband", switch="qm9700", spines=0, seed=3),
        State(routing="e-ecmp", hash="xor", equal_seeds=True, uplink_speed="200 Gb/s"),
    ):
        again, left = state_of_design(railweave.parse(design_text(state)))
        kept = replace(state, top_of_rack=state.top_of_rack and state.topology == "leaf-spine")
        assert again == kept
        assert left == ()
