"""Files of a run: JSON without gaps, Parquet tables that agree with it."""

from __future__ import annotations

import json

import polars as pl
import pytest

from railweave.report.output import record_json, write_outputs
from railweave.report.run_tables import (
    completion_table,
    job_table,
    spread_table,
    storage_table,
    what_if_table,
)
from railweave.report.tables import plane_tables


def test_json_is_whole(rich):
    document = record_json(rich)
    text = json.dumps(document, allow_nan=False)
    assert json.loads(text) == document
    assert {"summary", "findings", "jobs", "completions", "spreads", "storage", "what_ifs"} <= set(
        document
    )
    assert document["name"] == rich.name
    assert len(document["design_sha256"]) == 64  # of the text, as of a file that holds it


def test_parquet_tables_agree_with_the_record(rich, tmp_path):
    write_outputs(rich, tmp_path)
    tasks = pl.read_parquet(tmp_path / "tasks.parquet")
    links = pl.read_parquet(tmp_path / "links.parquet")
    assert tasks["finish_s"].max() == pytest.approx(rich.makespan_s)
    assert {"source", "destination", "plane", "layer", "up", "capacity_bps", "length_m"} <= set(
        links.columns
    )
    assert {"wire_bytes", "utilisation", "peak"} <= set(links.columns)
    assert (links["utilisation"] <= 1 + 1e-9).all()
    assert set(links["plane"]) == {"backend", "frontend", "management"}
    number = sum(n for plane in rich.summary.planes for _, n in plane.links)
    assert links.height == 2 * number


def test_tables_are_rectangular_and_their_options_exist(rich):
    makers = (job_table, completion_table, spread_table, storage_table, what_if_table)
    for table in (*plane_tables(rich.summary), *(make(rich) for make in makers), *rich.stated):
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.header)}, table.id
        assert set(table.text_columns) <= set(table.header), table.id
        assert table.header[0] not in table.optional


def test_storage_costs_are_worked_out(rich):
    (storage,) = rich.storage
    # 8 GB over two servers that write 40 Gb/s each cannot take less than 0.8 s
    assert storage.checkpoint_s >= 0.8
    assert storage.lost_share == pytest.approx(storage.checkpoint_s / 1800, rel=0.01)
    assert storage.ingest_wanted_Bps == pytest.approx(4e9)
    assert storage.ingest_reached_Bps <= storage.ingest_wanted_Bps


def test_shares_of_bytes_make_one(rich):
    for job in rich.jobs:
        total = job.share_server + job.share_leaf + job.share_spine + job.share_core
        assert total == pytest.approx(1)


def test_what_ifs_name_one_part_of_each_kind(rich):
    names = [outcome.name for outcome in rich.what_ifs]
    assert names[-2:] == ["spine-1", "leaf-1"]
    assert ":port-" in names[0]
    leaf = rich.what_ifs[-1]
    assert leaf.gpus_cut_off == 2
    assert [name for name, _ in leaf.job_factors] == ["gradients", "training"]
    assert all(0.5 < factor < 100 for _, factor in leaf.job_factors)
