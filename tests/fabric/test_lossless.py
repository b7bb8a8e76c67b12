"""Headroom of a built design: its ports and cables, its switches, and whether it all fits."""

from __future__ import annotations

from functools import cache

import pytest

import railweave
from railweave.api import BuiltDesign
from railweave.catalog import default_catalog
from railweave.errors import InputError
from railweave.fabric import PlaneId
from railweave.fabric.lossless import plane_qos, switch_report
from railweave.qos import headroom


@cache
def built(congestion: str = "pfc+dcqcn", switch: str = "sn5600", more: str = "") -> BuiltDesign:
    return railweave.parse(
        "railweave: 1\nname: rails\n"
        "cluster: {servers: {model: hgx-h100-8gpu-roce, count: 16}}\n"
        "planes:\n"
        "  backend: {transport: rocev2, topology: rail-optimized,"
        f" switch: {switch}, congestion: {congestion}{more}}}\n"
        "  frontend: {transport: tcp, topology: star}\n"
    ).build()


def test_every_speed_and_length_has_its_row() -> None:
    report = built().headroom()
    fabric = built().fabric
    mine = (fabric.link_plane == PlaneId.BACKEND) & (fabric.link_dst_port > 0)
    wanted = {
        (bps, round(metres, 3))
        for bps, metres, dst in zip(
            fabric.link_capacity_bps[mine],
            fabric.link_length_m[mine],
            fabric.link_dst[mine],
            strict=True,
        )
        if dst in fabric.switches(PlaneId.BACKEND)
    }
    assert {(row.headroom.speed_bps, row.headroom.cable_m) for row in report.rows} == wanted
    for row in report.rows:
        rule = headroom(row.headroom.speed_bps, row.headroom.cable_m, "Spectrum-4")
        assert row.headroom == rule
        assert row.set_bytes == rule.xoff_bytes
        assert (row.plane, row.model) == ("backend", "sn5600")


def test_room_of_the_fullest_switch_adds_up() -> None:
    report = built().headroom()
    assert {room.tier for room in report.rooms} == {"leaf", "spine"}
    for room in report.rooms:
        parts = room.headroom_bytes + room.reserved_bytes + room.shared_bytes
        assert parts == pytest.approx(room.buffer_bytes)
        assert room.pause_at_bytes == pytest.approx(room.shared_bytes / 2)
        ours = [row for row in report.rows if row.tier == room.tier]
        assert room.headroom_bytes <= room.ports * max(row.set_bytes for row in ours)
    assert report.findings == ()


def test_two_lossless_classes_take_twice_the_room() -> None:
    one, two = (
        built(f"{{classes: {classes}}}").headroom().rooms[0].headroom_bytes
        for classes in ("roce", "sonic-default")
    )
    assert two == pytest.approx(2 * one)


def test_a_headroom_that_is_set_is_told_beside_the_rule() -> None:
    (row, *_) = built("{headroom: 100 KiB}").headroom().rows
    assert row.set_bytes == 100 * 1024 < row.headroom.xoff_bytes
    ids = {finding.id for finding in built("{headroom: 100 KiB}").headroom().findings}
    assert ids == {"headroom-below-rule"}


def test_a_plane_without_lossless_classes_has_no_rows() -> None:
    report = built("dcqcn").headroom()
    assert (report.rows, report.rooms) == ((), ())


def test_thresholds_that_a_speed_does_not_have_are_a_finding() -> None:
    report = built("{ecn: simulator}", more=", speed: 200 Gb/s").headroom()
    assert "ecn-without-speed" in {finding.id for finding in report.findings}
    assert {row.ecn is None for row in report.rows if row.headroom.speed_bps == 200e9} == {True}


def test_switches_by_tier_have_settings_of_their_own() -> None:
    tiers = "{leaf: sn4700, spine: {radix: 64, speed: 400 Gb/s}}"
    base = built(switch=tiers)
    catalog = base.document.catalog
    made = plane_qos(base.fabric, base.design, catalog, PlaneId.BACKEND)
    assert set(made.switches) == {"sn4700", "inline-64x400G"}
    assert made.switches["sn4700"].cell_bytes == 144
    assert made.nic(400e9, 3.0).profile == "dcqcn-firmware"
    assert set(base.fabric.switch_models.values()) >= set(made.switches)


def test_large_packets_raise_the_mtu() -> None:
    for mtu, expected in (("", 9100), (", mtu: 9164 B", 9216)):
        base = railweave.parse(
            "railweave: 1\nname: t\ncluster: {servers: {model: dgx-h100, count: 4}}\n"
            f"planes: {{backend: {{transport: tcp, topology: leaf-spine, switch: sn5600{mtu}}}}}\n"
        ).build()
        made = plane_qos(base.fabric, base.design, base.document.catalog, PlaneId.BACKEND)
        assert made.mtu_bytes == expected


def test_one_switch_alone() -> None:
    part = default_catalog().switch("sn5600")
    report = switch_report(part, 400e9, 40.0)
    (row,), (room,) = report.rows, report.rooms
    assert row.headroom.xoff_bytes == 283_648
    assert (row.ports, room.ports) == (128, 128)
    assert room.shared_bytes == 160e6 - 128 * (283_648 + 19_456)
    document = report.to_json()
    assert document["ports"][0]["certainty"] == "confirmed"
    assert document["ports"][0]["ecn"]["kmax_bytes"] < document["switches"][0]["pause_at_bytes"]
    with pytest.raises(InputError, match="no ports or breakouts of 40 Gb/s"):
        switch_report(part, 40e9, 40.0)
    with pytest.raises(InputError, match="no PFC"):
        switch_report(default_catalog().switch("qm9700"), 400e9, 40.0)
