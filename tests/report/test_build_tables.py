"""Tables of a build: what they leave out they say below."""

from __future__ import annotations

import pytest

import railweave
from railweave.report.page_table import DASH
from railweave.report.tables import plane_tables

DESIGN = """\
railweave: 1
name: t
cluster: {{servers: {{model: dgx-h100, count: {count}}}}}
planes:
  backend:
    {{transport: infiniband, topology: {topology}, switch: qm9700, oversubscription: {ratio}{more}}}
"""


def tables(count, topology, ratio=1, more="", fail=()):
    text = DESIGN.format(count=count, topology=topology, ratio=ratio, more=more)
    summary = railweave.parse(text, "t.yaml").build().fail(fail).summary()
    return summary, {table.id: table for table in plane_tables(summary)}


def test_halvings_that_do_not_count_are_said_below_and_kept_in_json():
    summary, found = tables(4, "rail-only")
    cuts = found["cuts"]
    assert [row[0] for row in cuts.rows] == [
        "servers: first | second half (worst)",
        "servers: even | odd",
    ]
    (said,) = [note for note in cuts.notes if note.startswith("Not counted: ")]
    assert "leaves: even | odd (0 b/s); this network joins the sides nowhere" in said
    kept = summary.to_json()["capacity"]["bisection_cuts"]
    assert {cut["cut"] for cut in kept if not cut["counted"]} == {
        "leaves: first | second half",
        "leaves: even | odd",
    }


def test_uneven_halves_say_what_they_count_as():
    _, found = tables(20, "leaf-spine", 3)  # leaves of 6, 6, 6 and 2 servers
    cuts = found["cuts"]
    assert any(row[0].startswith("leaves: first | second half") for row in cuts.rows)
    (said,) = [note for note in cuts.notes if note.startswith("Uneven sides")]
    assert "leaves: first | second half" in said
    assert not any("Uneven" in note for note in tables(16, "rail-optimized")[1]["cuts"].notes)


def test_a_fabric_in_pieces_is_the_worst_row():
    summary, found = tables(16, "leaf-spine", 4, fail=["spine-1"])
    assert summary.backend.capacity.bisection_bps == 0.0
    cuts = found["cuts"]
    assert cuts.rows[0] == ("the fabric is in 3 pieces (worst)", "0 b/s", "25.6 Tb/s", "0.0%")
    assert any("more pieces than when it is whole" in note for note in cuts.notes)
    assert {row[-1] for row in found["domains"].rows} == {DASH}  # nothing is left to lose


@pytest.mark.parametrize(("count", "noted"), [(4, True), (16, False)])
def test_leaves_without_spines_show_no_way_up(count, noted):
    _, found = tables(count, "leaf-spine", 3)
    capacity = found["capacity-backend"]
    up, achieved, populated = (
        capacity.rows[0][capacity.header.index(name)] for name in ("up", "achieved", "populated")
    )
    assert (up == achieved == populated == DASH) is noted
    assert any(note.startswith("No spines are built") for note in capacity.notes) is noted


def test_notes_on_host_capacity_racks_and_growth():
    _, plain = tables(4, "rail-only")
    _, others = tables(4, "rail-optimized", more=", extra_hosts: {ufm: 4}")
    note = "Host capacity counts all ports of hosts"
    assert not any(text.startswith(note) for text in plain["counts"].notes)
    assert any(text.startswith(note) for text in others["counts"].notes)
    assert any("rail-only to 512 GPUs" in text for text in plain["counts"].notes)
    assert any("switch-rack holds switches only" in text for text in plain["domains"].notes)
