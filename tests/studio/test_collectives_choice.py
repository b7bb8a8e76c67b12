"""Lab 7's section on NCCL's choice without a browser: its numbers are the command line's."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from railweave.cli._app import app
from railweave.design.models import Collective, PlacementName
from railweave.errors import InputError
from railweave.studio.labs._collectives import Slow, State, Where, of_points, undrawn
from railweave.studio.labs._collectives_choice import (
    CURVE_SIZES,
    choice_view,
    measured_of,
    network_names,
    over_sizes,
    server_names,
    source_of,
)
from railweave.studio.labs._collectives_jobs import job_key
from railweave.units import format_seconds

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SUPERPOD = (EXAMPLES / "superpod-h100-1su.yaml").read_text(encoding="utf-8")
DESIGN = """\
railweave: 1
name: pairs
cluster:
  servers: {count: 8, inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}}
planes:
  backend: {transport: rocev2, topology: leaf-spine, switch: {radix: 8, speed: 100 Gb/s}}
"""
STATES = (
    (State(where=Where.DESIGN, ranks=8, size="8 MiB", placement=PlacementName.SPREAD), DESIGN),
    (State(ranks=64, sharp=True), SUPERPOD),
    (State(ranks=64, operation=Collective.ALL_GATHER, size="1 kB"), SUPERPOD),
    (State(ranks=24, operation=Collective.ALL_TO_ALL, servers="mi300x-8gpu"), ""),
    (State(ranks=128, servers="hgx-h100-8gpu", network="rocev2", size="1 GiB"), SUPERPOD),
    (State(ranks=80, servers="p5-h100-efa"), ""),
)


def cli(command):
    answer = CliRunner().invoke(app, [*shlex.split(command)[1:], "--json"])
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.output)


def run_commands(command: str) -> list[str]:
    """Do what the lab's command says, as a shell would; return its railweave lines."""
    lines = command.splitlines()
    if lines[0].startswith("cat > "):
        end = lines.index("EOF")
        name = lines[0].split()[2]
        Path(name).write_text("\n".join(lines[1:end]) + "\n", encoding="utf-8")
        lines = lines[end + 1 :]
    return lines


@pytest.mark.parametrize(("state", "text"), STATES)
def test_the_choice_is_the_command_lines(state, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my design.yaml").write_text(text, encoding="utf-8")
    source = source_of(state, text, "my design.yaml")
    measured = measured_of(source)
    view, over = choice_view(state, source, measured), over_sizes(state, source, measured)
    here, curve, _ = run_commands(view.reproduce.command)
    said = cli(here)
    (one,) = said["sizes"]
    shown = {number.key: number for number in view.numbers}
    assert shown["nccl_choice"].text == one["option"]
    assert shown["nccl_time"].value == one["time_s"]
    assert shown["nccl_busbw"].value == one["busbw_Bps"]
    assert shown["healthy_band"].value == one["busbw_low_Bps"]
    assert f"to {one['busbw_high_Bps'] / 1e9:.4g} GB/s" in shown["healthy_band"].text
    assert view.why == tuple(f"{text.rstrip('.')}." for text in one["why"])
    usable = sorted((o for o in one["options"] if o["usable"]), key=lambda o: o["time_s"])
    assert [row[:4] for row in view.options.rows] == [
        (
            option["option"],
            format_seconds(option["time_s"]),
            format_seconds(option["latency_s"]),
            f"{option['busbw_Bps'] / 1e9:.3g}",
        )
        for option in usable
    ]
    (won,) = (option for option in one["options"] if option["option"] == one["option"])
    assert shown["nccl_latency"].value == won["latency_s"]
    assert view.choice.best.bound == won["bound"]
    assert [row[0] for row in view.terms.rows] == [term["name"] for term in won["terms"]]
    reasons = {option["reason"] for option in one["options"] if not option["usable"]}
    said_why = {row[1] for row in view.unusable.rows} if view.unusable else set()
    assert said_why <= reasons
    assert bool(said_why) == bool(reasons)
    assert [pattern["share"] for pattern in said["network"]["patterns"]] == [
        item.share for item in measured.patterns
    ]
    wide = cli(curve)
    assert [size["size_bytes"] for size in wide["sizes"]] == list(CURVE_SIZES)
    assert [c.time_s for c in over.prediction.choices] == [s["time_s"] for s in wide["sizes"]]
    for name in ("picked", "quickest"):
        assert [
            (item.first_bytes, item.option.name) for item in getattr(over.prediction, name)
        ] == [(item["first_bytes"], item["option"]) for item in wide[name]]
    exec(view.reproduce.python, {})
    assert repr(one["time_s"]) in capsys.readouterr().out


def test_what_is_given_to_the_cluster_is_the_command_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state, text = STATES[0]
    (tmp_path / "my.yaml").write_text(text, encoding="utf-8")
    source = source_of(state, text, "my.yaml")
    over = over_sizes(state, source, measured_of(source))
    command = run_commands(choice_view(state, source).reproduce.command)[-1]
    answer = CliRunner().invoke(app, shlex.split(command)[1:])
    assert answer.exit_code == 0, answer.output
    assert Path("tuner.csv").read_text(encoding="utf-8").rstrip() == over.tuner
    wanted = [line for line in answer.output.splitlines() if line.startswith("NCCL_")]
    shown = [line for line in over.environment.splitlines() if line.startswith("NCCL_")]
    # The command names the tuner file that it has written, too.
    assert shown == [line for line in wanted if "TUNER" not in line]
    assert "NCCL_IB_QPS_PER_CONNECTION=4" in shown
    direct = STATES[3][0]
    nothing = over_sizes(direct, source_of(direct), measured_of(source_of(direct)))
    assert "chooses nothing for all-to-all" in nothing.tuner


def test_collisions_on_the_fabric_change_times_and_are_named():
    state, text = STATES[0]
    source = source_of(state, text, "my.yaml")
    before, after = choice_view(state, source), choice_view(state, source, measured_of(source))
    assert (before.measured, after.measured) == (False, True)
    assert before.network is None
    assert any("full line rate" in text for text in before.rests_on)
    assert after.choice.time_s > 1.2 * before.choice.time_s
    assert "want 200 Gb/s" in after.network_said
    # The library does not see them: it picks the same.
    assert after.choice.best.name == before.choice.best.name


def test_sharp_changes_the_choice():
    plain, sharp = (
        choice_view(state, source_of(state, SUPERPOD, "pod.yaml"))
        for state in (State(ranks=64), State(ranks=64, sharp=True))
    )
    assert plain.numbers[0].text == "NVLSTree/Simple"
    assert sharp.numbers[0].text == "NVLS/Simple"
    (row,) = (row for row in plain.unusable.rows if row[0].startswith("CollNet"))
    assert "SHARP" in row[1]
    assert " --sharp " in sharp.reproduce.command
    roce = State(ranks=64, servers="hgx-h100-8gpu", network="rocev2", sharp=True)
    with pytest.raises(InputError, match="InfiniBand"):
        choice_view(roce, source_of(roce))


def test_the_figures_mark_this_size_and_where_the_choice_changes():
    state = State(ranks=64)
    source = source_of(state)
    over = over_sizes(state, source, measured_of(source))
    view = choice_view(state, source, measured_of(source))
    for figure, value in ((over.times, view.choice.time_s), (over.busbw, view.choice.busbw_Bps)):
        (mark,) = (trace for trace in figure.data if trace.name == "this size")
        assert list(mark.x) == [256e6]
        assert mark.y[0] in (value, value / 1e9)
        assert [line.x0 for line in figure.layout.shapes] == [
            item.first_bytes for item in over.prediction.picked[1:]
        ]
    assert len(over.prediction.picked) > 1


def test_what_nccl_cannot_be_asked_is_said():
    for state, says in (
        (State(servers="dgx-h1000"), "did you mean 'dgx-h100'"),
        (State(servers="mi300x-8gpu", network="infiniband"), "allowed: rocev2, tcp"),
        (State(servers="storage-2s"), "no server with GPUs"),
    ):
        with pytest.raises(InputError, match=re.escape(says)):
            source_of(state)
    state = State(ranks=17)
    with pytest.raises(InputError, match="16 of 16 GPUs"):
        measured_of(source_of(state, DESIGN, "my.yaml"))
    best = State(ranks=4, where=Where.DESIGN, placement=PlacementName.OPTIMIZED)
    assert "placed optimized" in choice_view(best, source_of(best, DESIGN, "my.yaml")).headline
    assert next(iter(server_names())) == "dgx-h100"
    assert network_names("mi300x-8gpu") == {"rocev2": "RoCEv2", "tcp": "TCP"}
    assert network_names("p5-h100-efa") == {"tcp": "EFA"}


def test_the_choices_inputs_do_not_touch_the_drawn_collective():
    state = State(ranks=8, slow=Slow.LINK)
    other = dataclasses.replace(state, servers="dgx-b200", network="rocev2", sharp=True)
    assert undrawn(other) == undrawn(state) == state
    assert of_points(other) == of_points(state) == State(ranks=8)
    assert job_key((other, "")) == job_key((state, ""))
