"""``railweave collective`` over sizes: what is printed, written, and refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from railweave.formats.nccl_tests import parse_nccl_tests

DESIGN = "tests/golden/small.yaml"
OVER = ("collective", "all-reduce", "--design", DESIGN, "--size", "1MiB..1GiB", "--factor", "8")


def read(cli, *arguments):
    outcome = cli(*arguments)
    assert outcome.code == 0, outcome.err
    return outcome


def document(cli, *arguments):
    return json.loads(read(cli, *arguments, "--json").out)


def log(rows, *, ranks=16, hosts=2, device="NVIDIA H100 80GB HBM3", command="all_reduce_perf"):
    """Return nccl-tests output with rows (bytes, us)."""
    each = ranks // hosts
    lines = [f"$ mpirun -np {ranks} ./build/{command} -b 1M", "# Using devices"]
    lines += [
        f"#  Rank {r:2} Group  0 Pid {r} on h{r // each} device {r % each} [0x0{r % each}] {device}"
        for r in range(ranks)
    ]
    lines.append("# size count type redop root time algbw busbw #wrong")
    for size, time_us in rows:
        algbw = size / time_us / 1e3
        busbw = algbw * 2 * (ranks - 1) / ranks
        lines.append(f"{size} {size // 4} float sum -1 {time_us} {algbw:.2f} {busbw:.2f} 0")
    return "\n".join([*lines, "# Avg bus bandwidth : 1"]) + "\n"


# ---------------------------------------------------------------- over sizes


def test_table_is_in_the_layout_of_nccl_tests(cli):
    out = read(cli, *OVER).out
    (table,) = parse_nccl_tests(out)
    found = document(cli, *OVER)
    assert (table.op, found["operation"], found["ranks"]) == ("all-reduce", "all-reduce", 32)
    assert [row.size_bytes for row in table.rows] == [1 << 20, 8 << 20, 64 << 20, 512 << 20]
    for row, size in zip(table.rows, found["sizes"], strict=True):
        assert row.time_s == pytest.approx(size["time_s"], rel=1e-3)
        assert row.busbw_Bps == pytest.approx(size["busbw_Bps"], rel=1e-2)
        assert size["busbw_low_Bps"] < size["busbw_Bps"] < size["busbw_high_Bps"]
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "# NCCL picks" in out
    assert "# expected of a healthy cluster at 512 MiB: busbw" in out


def test_network_part_is_that_of_the_fabric(cli):
    whole, hurt = (document(cli, *OVER, *more) for more in ((), ("--fail", "leaf-1")))
    assert whole["network"]["engine"] == "flow"
    assert whole["network"]["ring_share"] == pytest.approx(1)
    assert hurt["network"]["failed"] == ["leaf-1"]
    assert hurt["network"]["ring_share"] < 0.7
    assert hurt["sizes"][-1]["busbw_Bps"] < 0.8 * whole["sizes"][-1]["busbw_Bps"]
    binds = {item["pattern"]: item["bottleneck"] for item in hurt["network"]["patterns"]}
    assert "want" in binds["ring"]


def test_explain_lists_options_and_why(cli):
    out = read(cli, *OVER, "--explain").out
    assert "by NCCL" in out
    assert "Ring/Simple" in out
    assert "NCCL picks" in out
    assert "Not usable: PAT (" in out
    assert "What the fabric leaves of the adapters' line rate" in out
    assert "stray from it by" in out
    found = document(cli, *OVER, "--explain")
    options = found["sizes"][0]["options"]
    assert {o["option"] for o in options if o["usable"]} >= {"Ring/LL", "Tree/Simple"}
    for option in options:
        if option["usable"]:
            assert option["time_s"] == pytest.approx(option["latency_s"] + option["transfer_s"])
            assert sum(t["seconds"] for t in option["terms"]) == pytest.approx(option["time_s"])


def test_only_narrows_the_choice(cli):
    found = document(cli, *OVER, "--only", "ring")
    assert {size["option"].split("/")[0] for size in found["sizes"]} == {"Ring"}
    assert {item["option"].split("/")[0] for item in found["quickest"]} == {"Ring"}
    assert document(cli, *OVER, "--only", "/LL")["sizes"][0]["option"].endswith("/LL")


def test_one_size_with_explain_is_the_choice(cli):
    line = ("collective", "all-gather", "--design", DESIGN, "--size", "64MiB")
    assert "analytic_s" in document(cli, *line)  # simulated, as ever
    assert len(document(cli, *line, "--explain")["sizes"]) == 1


def test_ranks_and_placement(cli):
    found = document(cli, *OVER, "--ranks", "8")
    assert (found["ranks"], found["system"]["domains"]) == (8, 1)
    assert found["network"]["patterns"] == []
    found = document(cli, *OVER, "--ranks", "8", "--placement", "spread")
    assert (found["ranks"], found["system"]["domains"]) == (8, 4)


def test_point_to_point_has_no_algorithms(cli):
    line = [("all-to-all" if word == "all-reduce" else word) for word in OVER]
    out = read(cli, *line).out
    assert "NCCL picks" not in out
    assert "quickest by this model at every size: Direct/Simple" in out


def test_closed_forms_over_sizes_need_no_design(cli):
    line = ("collective", "all-reduce", "--ranks", "4", "--size", "1MiB..1GiB", "--factor", "32")
    (table,) = parse_nccl_tests(read(cli, *line).out)
    assert [row.size_bytes for row in table.rows] == [1 << 20, 32 << 20, 1 << 30]
    assert table.rows[0].busbw_Bps == pytest.approx(50e9, rel=1e-4)
    assert [item["size_bytes"] for item in document(cli, *line)] == [1 << 20, 32 << 20, 1 << 30]


# ---------------------------------------------------------------- files


def test_page_and_numbers(cli, tmp_path):
    out = read(cli, *OVER, "--env", "--out", str(tmp_path / "new"))
    page = (tmp_path / "new" / "collective.html").read_text(encoding="utf-8")
    assert str(tmp_path / "new" / "collective.html") in out.out
    for text in ("busbw [GB", "time of each option", "NCCL_IB_TC", "band of healthy"):
        assert text in page
    assert "http://" not in page.split("plotly.js")[0]
    rows = (tmp_path / "new" / "collective.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("size_bytes,time_s,algbw_Bps,busbw_Bps")
    assert len(rows) == 5
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "collective.csv",
        "collective.html",
    ]


def test_tuner_file_holds_the_quickest(cli, tmp_path):
    tuner = tmp_path / "tuner.csv"
    found = document(cli, *OVER, "--export-tuner", str(tuner), "--env")
    lines = [line for line in tuner.read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == len(found["quickest"])
    for line, item in zip(lines, found["quickest"], strict=True):
        cells = line.split(",")
        assert len(cells) == 10
        name = item["option"].lower().replace("nvlstree", "nvls_tree")
        assert f"{cells[3]}/{cells[4]}" == name
        assert cells[6:8] == ["4", "32"]
    named = {item["name"]: item["value"] for item in found["environment"]}
    assert named["NCCL_TUNER_CONFIG_FILE"] == str(tuner)


def test_environment_is_printed_with_reasons(cli):
    out = read(cli, *OVER, "--env").out
    assert "\nNCCL_IB_TC=104\n" in out
    assert "# DSCP 26" in out


# ---------------------------------------------------------------- measured


def test_validate_compares_with_published_results(cli):
    out = read(cli, "collective", "--validate").out
    assert "Mean error by system and operation" in out
    assert "from 256 MiB" in out
    assert "on EFA and TCP" in out
    found = document(cli, "collective", "--validate")
    assert len(found["points"]) > 300
    assert {band["band"] for band in found["bands"]} == {"large", "middle", "latency", "between"}
    assert "Every point" in read(cli, "collective", "--validate", "--explain").out


def test_calibrate_moves_towards_own_results(cli, tmp_path):
    before = document(cli, *OVER, "--ranks", "16")["sizes"][-1]
    rows = [(256 << 20, 3000.0), (512 << 20, before["time_s"] * 1e6 * 1.5), (1 << 30, 11000.0)]
    (tmp_path / "run.txt").write_text(log(rows))
    saved = tmp_path / "own.yaml"
    line = ("collective", "--design", DESIGN, "--calibrate", str(tmp_path / "run.txt"))
    out = read(cli, *line, "--save", str(saved), "--explain").out
    assert "Before: calibration published" in out
    assert "After: calibration small" in out
    assert "Parameters that these points inform" in out
    assert f"use it with --calibration {saved}" in out
    found = document(cli, *line)
    errors = [
        sum(abs(point["error"]) for point in found[when]["points"]) for when in ("before", "after")
    ]
    assert errors[1] < errors[0] / 2
    after = document(cli, *OVER, "--ranks", "16", "--calibration", str(saved))["sizes"][-1]
    assert after["time_s"] > before["time_s"] * 1.2


def test_forced_algorithm_of_a_run_is_taken(cli, tmp_path):
    text = log([(1 << 30, 9000.0)]).replace("mpirun", "mpirun -x NCCL_ALGO=Ring")
    (tmp_path / "run.txt").write_text(text)
    found = document(
        cli, "collective", "--design", DESIGN, "--calibrate", str(tmp_path / "run.txt")
    )
    assert found["before"]["points"][0]["option"].startswith("Ring/")


def test_what_cannot_be_used_is_said(cli, tmp_path):
    good = log([(1 << 30, 9000.0)])
    nameless = good.replace("all_reduce_perf", "x").replace(" sum ", " none ")
    (tmp_path / "run.txt").write_text(good + nameless + "1048576 262144 float sum -1\n")
    out = read(cli, "collective", "--design", DESIGN, "--calibrate", str(tmp_path / "run.txt")).out
    assert "has no times" in out
    assert "does not say which operation" in out


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--size", "1GiB..1MiB"), "ends before it starts; did you mean 1MiB..1GiB?"),
        (("--size", "1MiB.."), "is no range; write the smallest and the largest"),
        (("--size", "1MiB..2..3"), "is no range"),
        (("--size", "0 B..1MiB"), "nothing to send"),
        (("--size", "1..1MiB"), "--size 1..1MiB: '1' is not a number with a unit"),
        (("--size", "1 km..2 km"), "is not a size"),
        (("--size", "1MiB", "--factor", "4"), "--factor speaks of a range"),
        (("--explain",), "--explain: only on a fabric; name one with --design"),
        (("--env", "--sharp"), "--sharp and --env: only on a fabric"),
        (("--fail", "spine-1"), "--fail: only on a fabric"),
        (("--save", "x.yaml"), "OP: of no use"),
    ],
)
def test_bad_options(cli, arguments, message):
    outcome = cli("collective", "all-reduce", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "Foo"), "allowed: Ring, Tree, CollNetDirect"),
        (("--only", "Ring/LL64"), "--only Ring/LL64: is no algorithm and protocol of NCCL"),
        (("--only", "NVLS/LL"), "NVLS"),
        (("--algorithm", "tree"), "--algorithm: names a schedule to simulate at one size"),
        (("--bandwidth", "1 Gb/s"), "--bandwidth: with --design these come from the design"),
        (("--sharp",), "SHARP"),
        (("--ranks", "33"), "32 of 32 GPUs are free"),
        (("--fail", "spine-77"), "there is no 'spine-77'"),
        (("--calibration", "gone.yaml"), "cannot be read (No such file"),
        (("--calibration", DESIGN), "field"),
        (("--export-tuner", "tests"), "is a folder; name a file in it"),
        (("--export-tuner", f"{DESIGN}/t.csv"), "is a file; name a folder"),
        (("--out", DESIGN), "is a file; name a folder"),
    ],
)
def test_bad_options_on_a_fabric(cli, arguments, message):
    outcome = cli(*OVER, *arguments)
    assert (outcome.code, outcome.out) == (2, ""), outcome
    assert message in outcome.err


def test_tuner_of_an_operation_that_it_does_not_know(cli, tmp_path):
    line = [("all-to-all" if word == "all-reduce" else word) for word in OVER]
    outcome = cli(*line, "--export-tuner", str(tmp_path / "t.csv"))
    assert outcome.code == 2
    assert "chooses nothing for all-to-all" in outcome.err
    assert not list(tmp_path.iterdir())


def test_operation_is_needed(cli):
    outcome = cli("collective", "--design", DESIGN)
    assert outcome.code == 2
    assert "OP: which operation? allowed: all-reduce" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "which cluster was measured? name its design with --design"),
        (("--design", DESIGN, "--validate"), "of no use with --validate"),
        (("--design", DESIGN, "--out", "x"), "--out: of no use with --calibrate"),
        (("--design", DESIGN, "--size", "1MiB"), "--size: of no use with --calibrate"),
        (("--design", DESIGN, "--ranks", "8", "--fail", "x"), "--ranks and --fail: of no use"),
        (("--design", DESIGN, "--save", "{folder}"), "is a folder; name a file in it"),
    ],
)
def test_bad_calibrations(cli, tmp_path, arguments, message):
    (tmp_path / "run.txt").write_text(log([(1 << 30, 9000.0)]))
    given = [text.replace("{folder}", str(tmp_path)) for text in arguments]
    outcome = cli("collective", "--calibrate", str(tmp_path / "run.txt"), *given)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing here\n", "holds no results of nccl-tests"),
        (log([(1 << 30, 9000.0)], ranks=64, hosts=8), "design has 4 servers of 8 GPUs"),
        (log([(1 << 30, 9000.0)], device="NVIDIA A100-SXM4-80GB"), "measured on NVIDIA A100"),
        (log([(1 << 30, 9000.0)], command="gather_perf"), "hold no usable row"),
    ],
)
def test_measurements_of_another_cluster(cli, tmp_path, text, message):
    (tmp_path / "run.txt").write_text(text)
    outcome = cli("collective", "--design", DESIGN, "--calibrate", str(tmp_path / "run.txt"))
    assert outcome.code == 2
    assert message in outcome.err


def test_nothing_is_left_of_a_file_that_cannot_be_written(cli, tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    shutil.copy(Path(DESIGN) if Path(DESIGN).exists() else __file__, folder / "own.yaml")
    kept = (folder / "own.yaml").read_bytes()
    (tmp_path / "run.txt").write_text("nothing\n")
    outcome = cli(
        "collective",
        "--design",
        DESIGN,
        "--calibrate",
        str(tmp_path / "run.txt"),
        "--save",
        str(folder / "own.yaml"),
    )
    assert outcome.code == 2
    assert (folder / "own.yaml").read_bytes() == kept
    assert [file.name for file in folder.iterdir()] == ["own.yaml"]


def test_ranks_are_placed_for_the_collective_they_run(cli):
    told = ("collective", "all-to-all", "--design", DESIGN, "--ranks", "4", "--size", "1MiB..2MiB")
    outcome = cli(*told, "--placement", "optimized", "--json")
    assert outcome.code == 0, outcome.err


def test_what_nccl_does_not_choose_cannot_be_narrowed(cli):
    outcome = cli("collective", "all-to-all", "--design", DESIGN, "--explain", "--only", "Ring")
    assert outcome.code == 2
    assert "--only" in outcome.err
    assert "nothing is chosen" in " ".join(outcome.err.split())
