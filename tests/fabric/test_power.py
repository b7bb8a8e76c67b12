"""Power by rack and plane, cable bill and findings, on fabrics small enough to add up by hand."""

import dataclasses
from types import MappingProxyType

import numpy as np
import pytest
from _tiny import G, clos

from railweave.catalog import Cable, Catalog
from railweave.design.models import Facility
from railweave.fabric._arrays import LinkLayer, NodeKind, PlaneId
from railweave.fabric.power import ServerDraw, cable_bill, length_class, power_report

BACK = PlaneId.BACKEND


def cable(name, kind, speed, reach, power, *, links=1):
    return Cable.model_validate(
        {
            "name": name,
            "title": name,
            "vendor": "any",
            "kind": kind,
            "speed": f"{speed / G:g} Gb/s",
            "links": links,
            "reach": f"{reach:g} m",
            "medium": "copper" if kind == "DAC" else "smf",
            "connector": "OSFP",
            "power": f"{power:g} W",
            "latency": "0 s",
            "velocity_factor": 0.66,
            "relative_cost": 1.0 if kind == "DAC" else 5.0,
        }
    )


CATALOG = Catalog(
    _cables=MappingProxyType(
        {
            c.name: c
            for c in (
                cable("dac", "DAC", 400 * G, 3.0, 0.0),
                cable("dr", "DR", 400 * G, 500.0, 9.0),
                cable("twin", "DR", 400 * G, 500.0, 16.0, links=2),
            )
        }
    )
)
SWITCH_W = {"": 1000.0}


def report(fabric, draws, facility=None, **kw):
    kw.setdefault("inline_switch_w", SWITCH_W)
    return power_report(fabric, draws, facility or Facility(), catalog=CATALOG, **kw)


def ids(result):
    return [finding.id for finding in result.findings]


def test_sums_by_rack_plane_and_hall():
    fabric = clos(servers=4, per_leaf=2, spines=2, tor=True)
    result = report(fabric, [ServerDraw("a", 3, 5000.0), ServerDraw("b", 1, 6000.0)])
    assert result.servers_w == 21_000.0
    assert result.switches_w == 4_000.0
    assert result.optics_w == 0.0  # a stated switch power includes its modules
    assert result.total_w == 25_000.0
    assert [rack.total_w for rack in result.racks] == [11_000.0, 12_000.0, 2_000.0]
    assert [p.plane for p in result.planes] == ["backend"]
    assert not result.findings
    assert result.worst_rack is not None
    assert result.to_json()["worst_rack"] == {"rack": 1, "power_w": 12_000.0}


class Bare(Catalog):
    """A catalog with one switch, whose modules come on top of its base power."""

    def switch(self, name):
        part = type("Part", (), {"power_base_w": 700.0, "cooling": "liquid"})
        return part() if name == "bare" else super().switch(name)


def bare(fabric):
    models = {int(node): "bare" for node in fabric.switches(BACK)}
    return dataclasses.replace(fabric, switch_models=models)


def test_modules_in_the_ports_of_a_catalog_switch_come_on_top():
    fabric = bare(clos(servers=4, per_leaf=2, spines=2, uplinks=3))
    result = power_report(
        fabric,
        [ServerDraw("a", 4, 1.0)],
        Facility(cooling="liquid"),
        catalog=Bare(_cables=CATALOG._cables),
    )
    assert result.switches_w == 4 * 700.0
    # 12 leaf–spine links of 30 m, both ends in switches; host links of 3 m are passive copper.
    assert result.optics_w == 12 * 2 * 9.0
    assert not result.findings


def test_a_liquid_cooled_switch_or_server_in_an_air_cooled_hall_is_an_error():
    fabric = bare(clos(servers=2, per_leaf=2, spines=0))
    catalog = Bare(_cables=CATALOG._cables)
    draws = [ServerDraw("nvl72", 2, 1.0, "liquid")]
    wet = power_report(fabric, draws, Facility(), catalog=catalog)
    assert ids(wet) == ["liquid-cooling-needed"] * 2
    assert all(f.severity == "error" for f in wet.findings)
    dry = power_report(fabric, draws, Facility(cooling="liquid"), catalog=catalog)
    assert not dry.findings


def test_rack_hall_and_air_limits():
    fabric = clos(servers=4, per_leaf=2, spines=0)
    draws = [ServerDraw("a", 4, 20_500.0)]
    result = report(fabric, draws, Facility(rack_power="50 kW", power="80 kW"))
    assert ids(result) == ["hall-power-exceeded", "air-cooled-rack-hot"]
    assert "assumed" in result.findings[1].evidence
    tight = report(fabric, draws, Facility(rack_power="40 kW", cooling="liquid"))
    assert ids(tight) == ["rack-power-exceeded"]
    assert "2 of 3 racks" in tight.findings[0].message
    assert "41 kW" in tight.findings[0].message


def test_unknown_switch_power_is_said():
    result = report(clos(servers=2, spines=0), [ServerDraw("a", 2, 1.0)], inline_switch_w={})
    assert ids(result) == ["power-unknown"]


def test_cable_bill_by_place_part_and_length():
    lines = cable_bill(clos(servers=4, per_leaf=2, spines=2, uplinks=2), catalog=CATALOG)
    assert [(x.between, x.part, x.length_m, x.count) for x in lines] == [
        ("host-leaf", "dac", 3.0, 4),
        ("leaf-spine", "dr", 30.0, 8),
    ]
    assert [x.power_w for x in lines] == [0.0, 18.0]


def test_twin_port_cables_count_once_for_two_links():
    fabric = clos(servers=2, per_leaf=1, spines=2, uplinks=2)
    numbers = fabric.duplex_cable.copy()
    trunk = np.flatnonzero(fabric.link_layer[::2] == LinkLayer.LEAF_SPINE)
    numbers[trunk] = 1000 + np.arange(len(trunk)) // 2
    twin = dataclasses.replace(fabric, duplex_cable=numbers)
    lines = [x for x in cable_bill(twin, catalog=CATALOG) if x.between == "leaf-spine"]
    assert [(x.part, x.links_per_cable, x.count) for x in lines] == [("twin", 2, 4)]


def test_a_speed_without_cable_is_said_and_not_guessed():
    result = report(clos(servers=2, spines=0, host_bps=123 * G), [ServerDraw("a", 2, 1.0)])
    assert ids(result) == ["no-cable-in-catalog"]
    assert "123 Gb/s" in result.findings[0].message
    assert result.cables[0].part == ""


@pytest.mark.parametrize(
    ("length", "sold"), [(0.2, 0.5), (3.0, 3.0), (3.01, 4.0), (100.0, 100.0), (101.0, 150.0)]
)
def test_length_classes(length, sold):
    assert length_class(length) == sold


def test_storage_and_extra_hosts_draw_nothing_here():
    fabric = clos(servers=2, spines=0)
    assert not (fabric.node_kind == NodeKind.EXTRA).any()
    assert report(fabric, [ServerDraw("a", 2, 7.0)]).servers_w == 14.0
