"""What ``--json`` promises: names, numbers, and nothing but JSON on stdout."""

from __future__ import annotations

import json

import pytest

DESIGN = "tests/golden/small.yaml"


def document(outcome, code: int = 0) -> object:
    assert outcome.code == code, outcome.err
    assert outcome.err == ""

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(outcome.out, parse_constant=refuse)


def test_build(cli):
    found = document(cli("build", DESIGN, "--json"))
    assert found["counts"]["servers"] == 4
    assert found["counts"]["gpus"] == 32
    assert found["counts"]["nics"] == 32
    assert found["counts"]["switches"] == {"leaf": 16, "spine": 2}
    assert found["cables"] == {"host-leaf": 32, "leaf-spine": 32}
    assert found["links"] == {"host-leaf": 32, "leaf-spine": 32}
    capacity = found["capacity"]
    assert capacity["host_bps"] == 32 * 400e9
    assert capacity["bisection_bps"] == 16 * 400e9
    assert [tier["tier"] for tier in capacity["tiers"]] == ["leaf", "spine"]
    for tier in capacity["tiers"]:
        assert {"down_bps", "up_bps", "oversubscription"} <= tier.keys()
    assert capacity["ecmp_paths"] >= 1
    assert isinstance(capacity["ecmp_paths"], int)
    assert set(found["planes"]) == {"frontend"}
    assert found["planes"]["frontend"]["counts"]["switches"] == {"leaf": 1}


def test_shared_plane_names_its_carrier(cli):
    found = document(cli("build", "examples/star-64-gpus.yaml", "--json"))
    assert found["planes"]["storage"] == {"shares": "frontend"}


def test_build_with_failures(cli):
    found = document(
        cli("build", DESIGN, "--json", "--fail", "leaf-1", "--monte-carlo", "1", "--draws", "5")
    )
    whole = document(cli("build", DESIGN, "--json"))
    assert found["capacity"]["bisection_bps"] < whole["capacity"]["bisection_bps"]
    assert found["what_if"]
    assert found["monte_carlo"]
    assert "what_if" not in whole


def test_draws_are_as_many_as_asked(cli):
    few = document(cli("build", DESIGN, "--json", "--monte-carlo", "2", "--draws", "3"))
    assert few["monte_carlo"]["draws"] == 3


def test_ring_all_reduce_of_a_gibibyte(cli):
    found = document(
        cli(
            "collective",
            "all-reduce",
            "--ranks",
            "8",
            "--size",
            "1GiB",
            "--algorithm",
            "ring",
            "--json",
        )
    )
    assert found["bytes_sent_per_rank"] == 1879048192
    assert found["steps"] == 14
    assert found["busbw_Bps"] == pytest.approx(found["algbw_Bps"] * 2 * 7 / 8)
    assert found["algbw_Bps"] == pytest.approx(2**30 / found["time_s"])
    assert found["bandwidth"] == "400 Gb/s"


def test_ring_over_four_ranks(cli):
    found = document(
        cli(
            "collective",
            "all-reduce",
            "--ranks",
            "4",
            "--size",
            "256 MB",
            "--bandwidth",
            "100 Gb/s",
            "--algorithm",
            "ring",
            "--json",
        )
    )
    assert found["steps"] == 6
    assert found["bytes_sent_per_rank"] == 384_000_000
    assert found["time_s"] == pytest.approx(0.03072, rel=1e-12)
    assert found["lower_bound_s"] == pytest.approx(0.03072, rel=1e-12)
    slower = document(
        cli(
            "collective",
            "all-reduce",
            "--ranks",
            "4",
            "--size",
            "256 MB",
            "--bandwidth",
            "100 Gb/s",
            "--latency",
            "10 us",
            "--json",
        )
    )
    assert slower["time_s"] == pytest.approx(0.03072 + 6 * 10e-6, rel=1e-12)


@pytest.mark.parametrize("engine", ["flow", "analytic"])
def test_collective_on_a_fabric(cli, engine):
    found = document(
        cli(
            "collective",
            "all-reduce",
            "--design",
            DESIGN,
            "--size",
            "64 MiB",
            "--engine",
            engine,
            "--json",
        )
    )
    assert found["ranks"] == 32
    assert found["engine"] == engine
    assert found["busbw_Bps"] == pytest.approx(found["algbw_Bps"] * 2 * 31 / 32)
    shares = [found[f"share_{place}"] for place in ("server", "leaf", "spine", "core")]
    assert sum(shares) == pytest.approx(1)


def test_placement_changes_where_bytes_go(cli):
    def shares(placement: str) -> float:
        return document(
            cli(
                "collective",
                "all-reduce",
                "--design",
                DESIGN,
                "--ranks",
                "8",
                "--size",
                "1 MiB",
                "--placement",
                placement,
                "--json",
            )
        )["share_server"]

    assert shares("packed") > shares("spread")


def test_check_gives_findings_and_exit_code(cli):
    found = document(cli("check", DESIGN, "--json"))
    assert found
    for finding in found:
        assert set(finding) == {"id", "severity", "path", "message", "evidence", "fix"}
        assert finding["severity"] in ("error", "warning", "info")
    assert any(finding["severity"] == "warning" for finding in found)
    document(cli("check", DESIGN, "--json", "--strict"), code=1)


def test_check_of_a_broken_fabric(cli):
    broken = document(cli("check", DESIGN, "--json", "--fail", "leaf-1"))
    failed = [finding for finding in broken if finding["id"] == "parts-failed"]
    assert [finding["severity"] for finding in failed] == ["warning"]
    assert "leaf-1" in failed[0]["path"]
    dead = document(cli("check", DESIGN, "--json", "--fail", "leaf-*"), code=1)
    assert [f["severity"] for f in dead if f["id"] == "parts-failed"] == ["error"]
    harmless = document(cli("check", DESIGN, "--json", "--fail", "frontend-leaf-1"))
    assert [f["severity"] for f in harmless if f["id"] == "parts-failed"] == ["info"]


def test_run_writes_what_it_prints(cli, tmp_path):
    found = document(cli("run", DESIGN, "--out", str(tmp_path / "out"), "--json"))
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == found
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "completions.parquet",
        "links.parquet",
        "racks.parquet",
        "report.html",
        "result.json",
        "switches.parquet",
        "tasks.parquet",
    ]
    assert found["jobs"][0]["name"] == "gradients"
    assert {"slowdown_p50", "slowdown_p99"} <= found["completions"][0].keys()
    assert {item["label"].split("/")[0] for item in found["completions"]} == {"gradients", "users"}
    total = found["bytes_delivered"] + found["bytes_dropped"] + found["bytes_in_flight"]
    assert found["bytes_sent"] == pytest.approx(total)
    assert found["what_ifs"]
    assert "design_yaml" in found


def test_run_strict_ends_with_one(cli, tmp_path):
    assert cli("run", DESIGN, "--out", str(tmp_path), "--strict").code == 1


def test_simulate_heeds_its_options(cli):
    plain = document(cli("simulate", DESIGN, "--json"))
    assert plain["what_ifs"] == []
    assert plain["engine"] == "flow"
    assert document(cli("simulate", DESIGN, "--json")) == plain
    analytic = document(cli("simulate", DESIGN, "--json", "--engine", "analytic"))
    assert analytic["engine"] == "analytic"
    assert document(cli("simulate", DESIGN, "--json", "--seed", "7"))["seed"] == 7
    loose = document(cli("simulate", DESIGN, "--json", "--tolerance", "0.1"))
    assert "--tolerance 0.1" in loose["command"]
    sprayed = document(cli("simulate", DESIGN, "--json", "--routing", "spray"))
    fairness = [run["spreads"][0]["fairness"] for run in (sprayed, plain)]
    assert fairness[0] == pytest.approx(1)
    assert fairness[1] < 1
    failed = document(cli("simulate", DESIGN, "--json", "--fail", "leaf-1"))
    assert failed["jobs"][0]["time_s"] > plain["jobs"][0]["time_s"]


def test_schema_is_json(cli):
    found = document(cli("schema"))
    assert "planes" in found["properties"]


def test_defaults_read_back_to_the_same_design(cli, tmp_path):
    first = cli("build", DESIGN, "--show-defaults")
    assert first.code == 0
    copy = tmp_path / "copy.yaml"
    copy.write_text(first.out)
    assert cli("build", str(copy), "--show-defaults").out == first.out
    assert document(cli("build", str(copy), "--json")) == document(cli("build", DESIGN, "--json"))


def test_show_defaults_as_json_is_a_design_file_too(cli, tmp_path):
    text = cli("build", DESIGN, "--show-defaults").out
    outcome = cli("build", DESIGN, "--show-defaults", "--json")
    assert document(outcome)["railweave"] == 1
    copy = tmp_path / "copy.json"
    copy.write_text(outcome.out, "utf-8")
    assert cli("build", str(copy), "--show-defaults").out == text
