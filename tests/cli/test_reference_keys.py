"""Every key of ``result.json`` and column of the tables stands in the command-line reference."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import railweave
from railweave.report.output import record_json
from railweave.report.record import (
    CompletionStats,
    GroupOutcome,
    JobOutcome,
    RunRecord,
    SpreadOutcome,
    StorageOutcome,
    WhatIfOutcome,
)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/command-line.md").read_text("utf-8")


@pytest.fixture(scope="module")
def record() -> RunRecord:
    return railweave.load(ROOT / "tests/golden/small.yaml").build().run(what_ifs=False)


def test_keys_of_the_record(record):
    files = PAGE[PAGE.index("## Files of a run") :]
    missing = [key for key in record_json(record) if f"`{key}`" not in files]
    assert missing == []


@pytest.mark.parametrize(
    "kind",
    [JobOutcome, GroupOutcome, CompletionStats, SpreadOutcome, StorageOutcome, WhatIfOutcome],
)
def test_keys_of_outcomes(kind):
    said = {"name", "label", "flows", "links", "share_server", "share_leaf", "share_spine"}
    said |= {"share_core", "bisection_bps"}
    missing = [
        field.name
        for field in dataclasses.fields(kind)
        if field.name not in said and f"`{field.name}`" not in PAGE
    ]
    assert missing == []


def test_keys_of_a_build(record):
    start = PAGE.index("## railweave build")
    section = PAGE[start : PAGE.index("\n## ", start + 1)]
    document = record.summary.to_json()
    known = {"name", "plane", "topology", "transport"}
    assert [key for key in document if key not in known and f"`{key}`" not in section] == []


def test_columns_of_tables(record):
    for name, frame in record.tables:
        section = PAGE[PAGE.index(f"`{name}.parquet` has one row") :]
        assert [column for column in frame.columns if f"`{column}`" not in section] == []
