"""``railweave congest``: what it refuses, what it adjusts and says, Ctrl-C."""

from __future__ import annotations

import json

import pytest

from railweave.engine import congest as engine


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--ecn 120%", "--ecn 120%: out of range; allowed: 1% to 100% of the buffer, a size up to"),
        ("--ecn much", "--ecn much: neither a percentage nor a size"),
        ("--ecn x%", "--ecn x%: not a number before %"),
        ("--ecn 80%..20%", "allowed: 0 ≤ kmin ≤ kmax"),
        ("--ecn 20%,40%", "several values need --sweep"),
        ("--profile none,hpcc", "several values need --sweep"),
        ("--ecn ,", "--ecn: nothing is named"),
        ("--pmax 2", "allowed: pmax above 0"),
        ("--pfc 100%", "and the headroom of 2 ports"),
        ("--senders 900", "no threshold fits; take fewer senders"),
        ("--pfc 16", "is not a number with a unit"),
        ("--profile dcqnc-paper", "did you mean 'dcqcn-paper'?"),
        ("--compare dcqcn-firmware", "that is the profile itself"),
        ("--compare none --sweep", "name several profiles with --profile"),
        ("--workers 2", "--workers speaks of a sweep"),
        ("--size 1MB --duration 1ms", "--size and --duration"),
        ("--senders 0", "senders: 0 cannot be; allowed: 1 to 1,024"),
        ("--sender-speed 120", "'120' is not a number with a unit"),
        ("--buffer 1kB", "the buffer: 1 kB cannot be; allowed: 100 kB to 4 GB"),
        ("--mtu 100", "the MTU: 100 B cannot be"),
    ],
)
def test_refused(cli, line, said):
    outcome = cli("congest", *line.split())
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.out == ""


def test_pfc_by_default_leaves_the_headroom_and_says_so(cli):
    outcome = cli("congest", "--senders", "100", "--duration", "300us")
    assert outcome.code == 0
    assert outcome.out.startswith("PFC at ")
    assert ", not 80%: that is what the headroom of\n101 ports leaves of the buffer" in outcome.out
    text = cli("congest", "--senders", "100", "--duration", "300us", "--json").out
    assert json.loads(text)[0]["metrics"]["drops"] == 0


def test_ecn_above_pfc_is_said_and_runs(cli):
    outcome = cli("congest", "--ecn", "60%", "--pfc", "20%", "--duration", "3ms")
    assert outcome.code == 0
    assert "warning pfc-before-ecn" in outcome.out
    assert "PFC fires first" in outcome.out


def test_lines_fit_80_columns(cli):
    for more in ((), ("--senders", "16", "--compare", "swift", "--ecn", "10%..30%")):
        lines = cli("congest", "--duration", "3ms", *more).out.splitlines()
        table = lines[: next(k for k, line in enumerate(lines) if line.startswith("simulated"))]
        assert max(len(line.rstrip()) for line in table) <= 80


def test_interrupted_run_leaves_no_files(cli, tmp_path, monkeypatch):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "set_up", stop)
    outcome = cli("congest", "--out", str(tmp_path / "out"))
    assert outcome.code == 130
    assert "interrupted" in outcome.err
    assert not (tmp_path / "out").exists()


def test_sweep_fits_80_columns_and_reads_itself(cli):
    outcome = cli(
        "congest", "--sweep", "--workers", "1", "--duration", "4ms", "--ecn", "5%,60%",
        "--pfc", "20%,80%", "--profile", "dcqcn-firmware",
    )  # fmt: skip
    assert outcome.code == 0
    assert max(len(line.rstrip()) for line in outcome.out.splitlines()) <= 80
    assert "PFC does all the work" in outcome.out


def test_sweep_says_when_headroom_lowers_its_thresholds(cli):
    line = ("congest", "--sweep", "--workers", "1", "--senders", "100", "--duration", "300us")
    outcome = cli(*line, "--profile", "none", "--ecn", "5%")
    assert outcome.code == 0
    assert ", not 20%,50%,80%: that is what the headroom of\n101 ports" in outcome.out
