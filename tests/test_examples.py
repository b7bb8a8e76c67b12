"""Every example builds to the size it claims, is checked, and runs to a report."""

from __future__ import annotations

from pathlib import Path

import pytest

import railweave
from railweave.report.output import write_outputs

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
#: leaves, spines and cores, host-leaf cables; published for these designs
PUBLISHED = {
    "superpod-h100-1su": ({"leaf": 8, "spine": 4}, 252, 256),
    "superpod-h100-2su": ({"leaf": 16, "spine": 8}, 508, 512),
    "superpod-h100-3su": ({"leaf": 24, "spine": 16}, 764, 768),
    "superpod-h100-4su": ({"leaf": 32, "spine": 16}, 1020, 1024),
    "superpod-b200-4su": ({"leaf": 32, "spine": 16}, 1024, 1024),
    "superpod-b200-16su": ({"leaf": 128, "spine": 128, "core": 64}, 4096, 4096),
}
GPUS = {
    "two-servers-4-gpus": 8,
    "star-64-gpus": 64,
    "juniper-16-leaf": 64,
    "hpn-pod-15k": 15_360,
    "meta-llama3-24k": 24_576,
    "superpod-h100-4su": 1_016,
    "superpod-b200-16su": 4_096,
}
SLOW = {"meta-llama3-24k", "superpod-b200-16su", "hpn-pod-15k"}


def name(path: Path) -> str:
    return path.stem


def test_the_promised_examples_are_there():
    assert {*PUBLISHED, *GPUS} <= {path.stem for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_example_builds_and_has_no_errors(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    built = railweave.load(path.relative_to(ROOT)).build()
    plane = built.summary().backend
    if path.stem in GPUS:
        assert plane.counts.gpus == GPUS[path.stem]
    if path.stem in PUBLISHED:
        switches, hosts, uplinks = PUBLISHED[path.stem]
        assert dict(plane.counts.switches) == switches
        assert dict(plane.cables)["host-leaf"] == hosts
        assert dict(plane.cables)["leaf-spine"] == uplinks
    findings = built.check()
    assert not [str(item) for item in findings if item.severity is railweave.Severity.ERROR]
    assert all(item.message and item.path for item in findings)


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] * (p.stem in SLOW)) for p in EXAMPLES],
)
def test_example_runs_to_a_report(path, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    record = railweave.load(path.relative_to(ROOT)).build().run()
    assert record.jobs
    for job in record.jobs:
        assert 0 < job.analytic_s <= job.time_s * 1.05
    assert record.bytes_delivered == pytest.approx(record.bytes_sent)
    assert record.what_ifs
    page = write_outputs(record, tmp_path).read_text("utf-8")
    assert record.name in page
