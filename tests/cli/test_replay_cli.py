"""``railweave replay``: what people read, what machines read, and how wrong files end.

``RAILWEAVE_UPDATE_GOLDEN=1`` writes the golden file anew.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from golden_text import is_as_kept
from railweave.formats import _chakra_schema

DESIGN = "tests/golden/small.yaml"
TRACES = "tests/formats/data/traces"
GRAPHS = (f"{TRACES}/step.0.et", f"{TRACES}/step.1.et")
GOLDEN = Path(__file__).parents[1] / "golden" / "replay.txt"


def found(cli, *words):
    outcome = cli("replay", *words, "--design", DESIGN, "--json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_what_people_read(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    # What the collective model says is held elsewhere, and changes with its calibration.
    alone = {("all-to-all", float(4 << 20), 8): 2e-5, ("all-reduce", float(1 << 20), 2): math.nan}
    alone["all-gather", float(8 << 20), 8] = 4e-4
    monkeypatch.setattr("railweave.report.replay.library_times", lambda built, plan: alone)
    outcome = cli("replay", f"{TRACES}/profile-rank0.json", "--design", DESIGN)
    assert (outcome.code, outcome.err) == (0, "")
    assert is_as_kept(outcome.out, GOLDEN)


def test_tables_may_lose_columns_they_have(cli, monkeypatch):
    tables = []
    monkeypatch.setattr("railweave.cli.replay.print_table", tables.append)
    cli("replay", f"{TRACES}/profile-rank0.json", "--design", DESIGN)
    assert [table.id for table in tables] == ["replay-operations", "replay-farthest"]
    for table in tables:
        assert set(table.optional) < set(table.header)


def test_what_machines_read(cli):
    document = found(cli, f"{TRACES}/profile-rank0.json")
    assert document["source"] == "PyTorch profiler"
    assert (document["ranks"], document["traced_ranks"]) == (8, 1)
    assert document["gpus"] == list(range(8))
    assert document["operation_count"] == 3
    first = document["operations"][0]
    assert (first["op"], first["size_bytes"]) == ("all-to-all", 4 << 20)
    assert first["measured_s"] == pytest.approx(900e-6)
    assert document["measured_s"] == pytest.approx(1947e-6)
    # the dependencies with the measured times give the measured whole again
    assert document["traced_s"] == pytest.approx(document["measured_s"], rel=1e-3)
    assert {note["subject"] for note in document["assumptions"]} >= {"dependencies", "measured"}
    assert [item["id"] for item in document["findings"]] == ["ranks-without-trace"]


def test_every_kind_of_trace(cli):
    for files, source, count in (
        ([f"{TRACES}/inspector.log"], "NCCL Inspector", 3),
        ([f"{TRACES}/all-reduce.txt"], "nccl-tests", 2),
        (GRAPHS, "Chakra", 1),
    ):
        document = found(cli, *files)
        assert (document["source"], document["operation_count"]) == (source, count)
        assert document["measured_s"] is None  # no start times in any of them
        assert document["traced_s"] > 0


def test_groups_of_chakra_traces(cli):
    document = found(cli, *GRAPHS, "--groups", f"{TRACES}/groups.json")
    assert document["operations"][0]["ranks"] == 4


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("nothing.json",), 2, "nothing.json: No such file"),
        ((DESIGN,), 2, "holds no results of nccl-tests"),
        ((f"{TRACES}/groups.json",), 2, "groups.json"),
        ((f"{TRACES}/inspector.log", *GRAPHS), 2, "all of one kind"),
        ((GRAPHS[0], GRAPHS[0]), 2, "is of rank 0, as"),
        ((f"{TRACES}/inspector.log", "--groups", f"{TRACES}/groups.json"), 2, "leave --groups out"),
        ((f"{TRACES}/inspector.log", "--format", "kineto"), 2, "inspector.log:2"),
        ((f"{TRACES}/inspector.log", "--format", "pickle"), 2, "nccl-tests"),
        ((f"{TRACES}/inspector.log", "--top", "-1"), 2, "--top"),
        ((), 2, "FILE"),
    ],
)
def test_wrong_files_end_with_a_sentence(cli, words, code, says):
    outcome = cli("replay", *words, "--design", DESIGN)
    assert outcome.code == code
    assert says in outcome.err
    assert outcome.out == ""
    assert "Traceback" not in outcome.err


def test_without_protobuf_it_ends_with_three(cli, monkeypatch):
    _chakra_schema.schema.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor_pb2", None)
    outcome = cli("replay", *GRAPHS, "--design", DESIGN)
    assert outcome.code == 3
    assert "pip install 'railweave[traces]'" in outcome.err
