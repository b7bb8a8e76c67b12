"""Bad usage ends with a sentence and exit code 2, never with a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DESIGN = "tests/golden/small.yaml"
COMMANDS = ("run", "build", "check", "simulate")

BAD = [
    pytest.param(("collective", "all-reduce", "--size", "12 parsecs"), "parsecs", id="unit"),
    pytest.param(("collective", "all-reduce", "--size", "many"), "size such as", id="no-number"),
    pytest.param(("collective", "all-reduce", "--size", "400 Gb/s"), "size", id="rate-for-size"),
    pytest.param(("collective", "all-reduce", "--size", "-1 GiB"), "1 B or more", id="negative"),
    pytest.param(("collective", "all-reduce", "--ranks", "1"), "--ranks", id="one-rank"),
    pytest.param(("collective", "all-reduce", "--ranks", "0"), "--ranks", id="no-rank"),
    pytest.param(("collective", "all-reduce", "--ranks", "x"), "--ranks", id="rank-text"),
    pytest.param(("collective", "all-reduce", "--bandwidth", "0 Gb/s"), "above 0", id="no-rate"),
    pytest.param(("collective", "all-reduce", "--bandwidth", "9 GB"), "rate", id="size-for-rate"),
    pytest.param(("collective", "all-redcue"), "all-reduce", id="operation"),
    pytest.param(("collective", "all-reduce", "--algorithm", "direct"), "ring", id="algorithm"),
    pytest.param(("collective", "all-reduce", "--engine", "flow"), "--design", id="no-fabric"),
    pytest.param(("collective", "all-reduce", "--placement", "packed"), "--design", id="no-place"),
    pytest.param(
        ("collective", "all-reduce", "--design", DESIGN, "--ranks", "33"), "1…32", id="too-many"
    ),
    pytest.param(
        ("collective", "all-reduce", "--design", DESIGN, "--latency", "1 us"),
        "leave them out",
        id="latency-twice",
    ),
    pytest.param(("build", DESIGN, "--monte-carlo", "-1"), "--monte-carlo", id="monte-carlo"),
    pytest.param(("build", DESIGN, "--monte-carlo", "99999"), "allowed", id="too-many-failures"),
    pytest.param(("build", DESIGN, "--fail", "leaf-1:port-999"), "port", id="port"),
    pytest.param(
        ("simulate", DESIGN, "--engine", "fluid"), "'analytic', 'flow', 'packet'", id="engine"
    ),
    pytest.param(("simulate", DESIGN, "--routing", "magic"), "ecmp", id="routing"),
    pytest.param(("simulate", DESIGN, "--tolerance", "3"), "--tolerance", id="tolerance"),
    pytest.param(
        ("simulate", DESIGN, "--engine", "analytic", "--tolerance", "0.1"),
        "--tolerance speaks of the flow engine",
        id="analytic-tolerance",
    ),
    pytest.param(
        ("run", DESIGN, "--engine", "analytic", "--tolerance", "0.1"),
        "--tolerance speaks of the flow engine",
        id="run-analytic-tolerance",
    ),
    pytest.param(("build", DESIGN, "--draws", "5"), "--monte-carlo K", id="draws-of-nothing"),
    pytest.param(("simulate", DESIGN, "--seed", "-1"), "--seed", id="seed"),
    pytest.param(("headroom",), "--switch sn5600", id="no-port"),
    pytest.param(("headroom", "--switch", "sn5600"), "a switch and a length", id="no-length"),
    pytest.param(("headroom", DESIGN, "--length", "3m"), "leave one of both", id="port-twice"),
    pytest.param(
        ("headroom", "--switch", "sn5601", "--length", "3m"), "did you mean", id="no-such-switch"
    ),
    pytest.param(
        ("headroom", "--switch", "qm9700", "--length", "3m"), "no PFC", id="credit-switch"
    ),
    pytest.param(
        ("headroom", "--switch", "sn5600", "--length", "3m", "--speed", "40G"),
        "no ports or breakouts of 40 Gb/s; allowed: 800 Gb/s",
        id="port-speed",
    ),
    pytest.param(
        ("headroom", "--switch", "sn2201", "--length", "3m"),
        "no pause quanta are published for 1 Gb/s; allowed: 10 Gb/s",
        id="no-quanta",
    ),
    pytest.param(("headroom", "--switch", "sn5600", "--length", "3"), "length", id="bare-length"),
    pytest.param(
        ("headroom", "--switch", "sn5600", "--length", "3m", "--mtu", "9"),
        "allowed: 64 B",
        id="mtu",
    ),
    pytest.param(("bogus",), "bogus", id="command"),
    pytest.param(("build",), "DESIGN", id="no-design"),
    pytest.param(("build", DESIGN, "--bogus"), "--bogus", id="option"),
]


def assert_answered(outcome, expected: str) -> None:
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert expected in outcome.err
    assert "Traceback" not in outcome.err
    assert "Value error" not in outcome.err


@pytest.mark.parametrize(("arguments", "expected"), BAD)
def test_bad_usage_is_answered_with_a_sentence(cli, arguments, expected):
    assert_answered(cli(*arguments), expected)


@pytest.mark.parametrize("command", COMMANDS)
def test_design_that_is_not_there(cli, command, tmp_path):
    out = ("--out", str(tmp_path / "out")) if command == "run" else ()
    assert_answered(cli(command, "no-such.yaml", *out), "no-such.yaml: there is no such file")
    assert_answered(cli(command, "examples", *out), "examples: this is a directory")
    assert_answered(cli(command, DESIGN, "--fail", "spine-99", *out), "there is no 'spine-99'")
    assert not (tmp_path / "out").exists()


def test_design_errors_stand_one_a_line_at_their_place(cli):
    outcome = cli("check", "tests/bad/13-unknown-field.yaml")
    assert outcome.code == 2
    lines = outcome.err.splitlines()
    assert lines
    for line in lines:
        assert line.startswith("tests/bad/13-unknown-field.yaml:")
        _file, row, column, path, message = line.split(":", 4)
        assert int(row) > 0
        assert int(column) > 0
        assert path.strip().startswith("cluster")
        assert message.strip()


def test_out_that_is_a_file_is_said_before_any_work(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("railweave.api.LoadedDesign.build", lambda self: pytest.fail("worked"))
    file = tmp_path / "file"
    file.write_text("kept")
    assert_answered(cli("run", DESIGN, "--out", str(file)), "is a file")
    assert_answered(cli("run", DESIGN, "--out", str(file / "below")), "is a file")
    assert file.read_text() == "kept"


def test_out_that_may_not_be_written_to(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda place, mode: not mode & os.W_OK)
    assert_answered(cli("run", DESIGN, "--out", str(tmp_path / "out")), "may not be written to")


def test_out_with_a_folder_in_the_place_of_a_file_leaves_nothing_else(cli, tmp_path):
    (tmp_path / "result.json").mkdir()
    assert_answered(cli("run", DESIGN, "--out", str(tmp_path)), "result.json: is a folder")
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_failing_writer_leaves_the_old_files(tmp_path: Path):
    from railweave.formats.files import staged

    (tmp_path / "a.txt").write_text("old")

    def write_both() -> None:
        with staged(tmp_path) as stage:
            stage.write_text("a.txt", "new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_both()
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_folder_made_for_nothing_is_removed(tmp_path: Path):
    from railweave.formats.files import staged

    with pytest.raises(RuntimeError), staged(tmp_path / "a" / "b"):
        raise RuntimeError
    assert not (tmp_path / "a").exists()


def test_a_fault_of_our_own_is_one_sentence(cli, monkeypatch):
    def fail(self: object) -> None:
        raise ValueError("first line\nsecond line")

    monkeypatch.delenv("RAILWEAVE_DEBUG", raising=False)
    monkeypatch.setattr("railweave.api.LoadedDesign.build", fail)
    outcome = cli("build", DESIGN)
    assert outcome.code == 1
    assert outcome.err.count("\n") == 1
    assert "ValueError: first line; please report it" in outcome.err
