"""What people read: golden files at 80 columns, tables that fit, help with examples.

``RAILWEAVE_UPDATE_GOLDEN=1`` writes the files anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.main import get_command

from golden_text import is_as_kept
from railweave.cli import _output
from railweave.cli._app import app
from railweave.report.page_table import PageTable

GOLDEN = Path(__file__).parents[1] / "golden"
DESIGN = "tests/golden/small.yaml"

KEPT = {
    "build": ("build", DESIGN),
    "build-cables": ("build", DESIGN, "--cables", "--fail", "spine-1"),
    "check": ("check", DESIGN),
    "headroom": ("headroom", DESIGN),
    "headroom-port": ("headroom", "--switch", "sn5600", "--speed", "400G", "--length", "40m"),
    "simulate": ("simulate", DESIGN),
    "congest": ("congest",),
    "congest-compare": (
        "congest",
        "--senders",
        "4",
        "--pfc",
        "60%",
        "--compare",
        "none",
        "--duration",
        "8ms",
    ),
    "congest-sweep": (
        "congest",
        "--sweep",
        "--workers",
        "1",
        "--senders",
        "2",
        "--duration",
        "8ms",
        "--pfc",
        "20%,80%",
    ),
    "transport-compare": (*("transport", "compare", "--design", DESIGN), "--quick"),
    "transport-planes": ("transport", "planes", DESIGN),
    "transport-journey": ("transport", "journey", "gradient", "--design", DESIGN),
    "pattern": ("pattern", "data", "--trace"),
    "pattern-expert": (
        "pattern",
        "expert",
        "--gpus",
        "16",
        "--gpus-per-server",
        "4",
        "--exchanges",
        "3",
        "--payload",
        "1 MB",
        "--latency",
        "5 us",
        "--skew",
        "0.2",
    ),
    "pattern-design": ("pattern", "tensor", "--design", DESIGN, "--gpus", "16"),
    "collective": ("collective", "all-reduce", "--ranks", "4", "--size", "256 MB"),
    "collective-design": (
        "collective",
        "all-reduce",
        "--design",
        DESIGN,
        "--size",
        "64 MiB",
        "--ranks",
        "16",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_printed_output_is_as_kept(cli, name):
    outcome = cli(*KEPT[name])
    assert outcome.code == 0, outcome.err
    assert is_as_kept(outcome.out, GOLDEN / f"{name}.txt")


def test_build_says_that_check_has_the_rest(cli):
    last = cli("build", DESIGN).out.splitlines()[-1]
    assert last == "These are findings of sizing only; railweave check has the rest."


def test_run_says_where_the_report_lies(cli, tmp_path):
    outcome = cli("run", DESIGN, "--out", str(tmp_path / "out"))
    assert outcome.out.splitlines()[-1] == f"Report: {tmp_path / 'out' / 'report.html'}"


@pytest.mark.parametrize("example", ["superpod-h100-4su", "superpod-b200-16su"])
def test_tables_fit_80_columns_without_broken_cells(cli, example):
    lines = cli("build", f"examples/{example}.yaml").out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("topology"))
    assert "rail-optimized" in lines[start]
    notes = (
        "With these",
        "Exact",
        "The worst",
        "A server's",
        "Wider",
        "The catalog's",
        "Host capacity counts",
        "Not counted",
    )
    tables = [line for line in lines if not line.startswith((*notes, "  ", "info", "warning"))]
    assert max(len(line) for line in tables) <= 80


def wide_table() -> PageTable:
    return PageTable(
        "t", "T", ("one", "two", "three"), (("a" * 30, "b" * 30, "c" * 30),), (), ("two",)
    )


@pytest.mark.parametrize(("columns", "shown"), [(80, False), (120, True)])
def test_optional_columns_go_where_there_is_no_room(monkeypatch, capsys, columns, shown):
    monkeypatch.setenv("COLUMNS", str(columns))
    _output.print_table(wide_table())
    text = capsys.readouterr().out
    assert ("b" * 30 in text) is shown
    assert ("Wider terminals also show: two." in text) is not shown
    assert "a" * 30 in text
    assert "c" * 30 in text


def test_json_has_no_nan(capsys):
    _output.print_json({"a": [float("nan"), (float("inf"), 1.0)]})
    assert (
        capsys.readouterr().out
        == '{\n  "a": [\n    null,\n    [\n      null,\n      1.0\n    ]\n  ]\n}\n'
    )


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "build",
        "check",
        "simulate",
        "collective",
        "pattern",
        "headroom",
        "congest",
        "schema",
    ],
)
def test_help_has_an_example(cli, command):
    outcome = cli(command, "--help")
    assert outcome.code == 0
    assert f"Example: railweave {command}" in outcome.out


def test_help_and_version(cli):
    assert "Commands:" in cli("--help").out
    assert cli("--version").out.startswith("railweave ")


def leaf_commands(group, prefix=""):
    """Yield every command by its full name, those of groups included."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaf_commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def test_every_command_and_option_is_in_the_reference():
    page = (Path(__file__).parents[2] / "docs/reference/command-line.md").read_text("utf-8")
    for name, command in leaf_commands(get_command(app)):
        start = page.index(f"## railweave {name}")
        end = page.find("\n## ", start + 1)
        section = page[start : end if end > 0 else None]
        assert f"railweave {name}" in section.split("```", 1)[1]
        for parameter in command.params:
            names = [opt for opt in parameter.opts if opt.startswith("--")] or [
                str(parameter.metavar or parameter.name)
            ]
            for option in names:
                if option != "--help":
                    assert f"`{option}" in section, f"{name}: {option} is not in the reference"
    assert "`--version`" in page
