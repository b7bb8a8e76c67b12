"""``railweave export`` writes what Python gives, whole files or none; and --interference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import railweave
from railweave import deploy

SU = "examples/superpod-h100-2su.yaml"
TWO_JOBS = """\
railweave: 1
name: two-jobs
cluster:
  servers:
    count: 4
    inline: {gpus: 1, nics: 1, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}
planes:
  backend:
    transport: rocev2
    topology: leaf-spine
    switch: {radix: 3, speed: 100 Gb/s}
    oversubscription: 2
jobs:
  - {name: one, collective: send-recv, size: 100 MB, ranks: 2, placement: spread}
  - {name: two, collective: send-recv, size: 100 MB, ranks: 2, placement: spread}
"""


def test_files_are_what_python_gives(cli, tmp_path):
    view = deploy.scheduler_view(railweave.load(SU).build().fabric, unit="su")
    options = {
        "slurm": deploy.slurm_tree,
        "slurm-yaml": deploy.slurm_yaml,
        "kueue": deploy.kueue_objects,
        "node-labels": deploy.node_labels,
    }
    paths = {kind: tmp_path / "new" / kind for kind in options}
    words = [word for kind, path in paths.items() for word in (f"--{kind}", str(path))]
    outcome = cli("export", SU, *words)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[0] == "superpod-h100-2su: 63 servers in 2 units"
    for kind, write in options.items():
        assert paths[kind].read_text("utf-8") == write(view)
        assert f"({kind})" in outcome.out


def test_json_says_the_tree_and_the_files(cli, tmp_path):
    outcome = cli("export", SU, "--slurm", str(tmp_path / "t"), "--json")
    found = json.loads(outcome.out)
    assert [unit["name"] for unit in found["units"]] == ["su-1", "su-2"]
    assert found["files"] == {"slurm": str(tmp_path / "t")}
    assert found["domains"] == found["pods"] == []
    assert json.loads(cli("export", SU, "--json").out)["files"] == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give a file to one or more of --slurm, --slurm-block"),
        (("--slurm", "OUT/a", "--kueue", "OUT/a"), "two exports have the same file"),
        (("--slurm", "OUT/a", "--slurm-block", "OUT/b"), "every domain is one server"),
        (("--slurm", "OUT/a", "--kueue", f"{__file__}/x"), "is a file; name a folder"),
    ],
)
def test_what_cannot_be_written_leaves_nothing(cli, tmp_path, words, said):
    words = [word.replace("OUT", str(tmp_path)) for word in words]
    outcome = cli("export", SU, *words)
    assert outcome.code == 2
    assert said in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_interference_tells_each_placement(cli, tmp_path):
    design = Path(tmp_path / "two.yaml")
    design.write_text(TWO_JOBS, encoding="utf-8")
    outcome = cli("simulate", str(design), "--interference")
    assert outcome.code == 0, outcome.err
    for text in ("as designed", "packed", "fragments", "optimized", "2×", "Links that jobs share"):
        assert text in outcome.out
    found = json.loads(cli("simulate", str(design), "--interference", "--json").out)
    assert [one["placement"] for one in found] == [
        "as designed",
        "packed",
        "fragments",
        "optimized",
    ]
    designed, packed = found[:2]
    assert [job["slowdown"] for job in designed["jobs"]] == pytest.approx([2.0, 2.0], rel=0.01)
    assert [job["slowdown"] for job in packed["jobs"]] == [1.0, 1.0]
    outcome = cli("simulate", str(design), "--interference", "--engine", "analytic")
    assert outcome.code == 2
    assert "allowed: flow, packet" in outcome.err
