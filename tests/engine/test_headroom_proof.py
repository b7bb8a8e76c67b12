"""The headroom rule held against the smallest headroom that loses nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from railweave.engine.headroom_proof import (
    _AROUND_IP_BYTES,
    _Bench,
    _drops,
    _peak,
    prove_headroom,
    worst_frames,
)
from railweave.errors import InputError
from railweave.qos import asic_named, headroom


def test_rule_is_enough_and_four_fifths_of_the_need_is_not():
    proof = prove_headroom("Spectrum-5", 400e9, 40.0)
    assert proof.holds
    assert proof.drops_at_rule == 0
    assert proof.drops_at_80_percent > 0
    assert proof.ratio == pytest.approx(proof.needed_bytes / proof.rule_bytes)
    assert proof.rule_bytes == headroom(400e9, 40.0, "Spectrum-5").xoff_bytes


def test_one_cell_less_than_needed_drops():
    proof = prove_headroom("Spectrum-4", 400e9, 40.0)
    cell = asic_named("Spectrum-4").cell_bytes
    bench = _Bench(asic_named("Spectrum-4"), asic_named("Spectrum-4"), 400e9, 40.0, 9100, 0, False)
    assert _drops(bench, proof.frame_bytes, proof.needed_bytes) == 0
    assert _drops(bench, proof.frame_bytes, proof.needed_bytes - cell) > 0


def test_need_is_at_least_what_is_on_the_way():
    """Bytes on the cable both ways and in the peer's response arrive whatever happens."""
    proof = prove_headroom("Spectrum-4", 400e9, 300.0)
    on_the_way = 2 * 300 / 1.98e8 * 400e9 / 8 + proof.peer_response_bytes
    cells = on_the_way * 192 / proof.frame_bytes
    assert cells < proof.needed_bytes < 1.25 * cells


def test_small_frames_need_most():
    family = asic_named("Spectrum-4")
    sizes = worst_frames(family, 9100)
    assert sizes == (83, 193, 385, 769, 9100 + _AROUND_IP_BYTES)
    bench = _Bench(family, family, 400e9, 40.0, 9100, 283_648, False)
    peaks = [_peak(bench, size) for size in sizes]
    assert max(peaks) == peaks[0]
    assert peaks[-1] < peaks[0]


def test_a_peer_that_stops_late_needs_more_than_the_rule_for_a_quick_one():
    """Spectrum-1 to -3: the rule takes 3.8 KiB for the response, IEEE 802.3 allows 57,920 B."""
    proof = prove_headroom("Spectrum-3", 400e9, 40.0, peer="generic")
    assert not proof.holds
    assert proof.drops_at_rule > 0
    assert proof.ratio > 2


def test_longer_frames_on_the_way_back_delay_the_pause():
    small = prove_headroom("Spectrum-4", 100e9, 5.0, mtu_bytes=1500)
    large = prove_headroom("Spectrum-4", 100e9, 5.0, mtu_bytes=9100)
    assert small.needed_bytes < large.needed_bytes


@pytest.mark.parametrize("asic", ["Spectrum-1", "Spectrum-3", "Spectrum-4"])
def test_the_latency_of_a_whole_switch_leaves_the_rule_enough(asic: str):
    simulated = prove_headroom(
        asic, 400e9 if asic != "Spectrum-1" else 100e9, 5.0, as_simulated=True
    )
    assert simulated.holds
    assert simulated.drops_at_rule == 0


def test_speed_without_quanta_is_refused():
    with pytest.raises(InputError, match="no pause quanta"):
        prove_headroom("Spectrum-4", 120e9, 5.0)


# ---------------------------------------------------------------- the tables of the guide

PAGE = (Path(__file__).parents[2] / "docs/guide/lossless.md").read_text("utf-8")
CABLES_M = (5.0, 40.0, 300.0)


def published() -> list[tuple[str, float, str | None, list[tuple[str, str, str]]]]:
    """Return ASIC, speed, peer and (needed, rule, ratio) at each length of every row."""
    start = PAGE.index("## Is the rule enough?")
    rows = []
    for line in PAGE[start : PAGE.index("## Does it fit?")].splitlines():
        cells = re.findall(r"([\d,]+) of ([\d,]+) = ([\d.]+)", line)
        head = re.match(r"\| (?:([\w -]+) \| )?(\d+)G \|", line)
        if cells and head:
            asic, peer = (head[1], None) if head[1] else ("Spectrum-3", "generic")
            rows.append((asic, float(head[2]) * 1e9, peer, cells))
    return rows


def test_guide_has_both_tables():
    assert [len(cells) for *_, cells in published()] == [3] * 20


@pytest.mark.parametrize("row", published(), ids=lambda row: f"{row[0]}-{row[1]:g}-{row[2]}")
def test_guide_says_what_is_measured(row):
    asic, speed_bps, peer, cells = row
    for cable_m, (needed, rule, ratio) in zip(CABLES_M, cells, strict=True):
        proof = prove_headroom(asic, speed_bps, cable_m, peer=peer)
        assert (f"{proof.needed_bytes:,}", f"{proof.rule_bytes:,}") == (needed, rule)
        assert f"{proof.ratio:.2f}" == ratio
        assert proof.drops_at_80_percent > 0
        assert proof.holds or peer is not None
