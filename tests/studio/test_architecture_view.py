"""Lab 1's pure part: maps count what was built, invent nothing, and journeys follow the routing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from railweave.fabric import LinkLayer, PlaneId
from railweave.fabric.domains import failure_domains
from railweave.report.page_table import PageTable
from railweave.report.style import ROLE_COLOURS
from railweave.studio.content import learn
from railweave.studio.designs import built_design, examples
from railweave.studio.labs._architecture import (
    NOTHING,
    State,
    chosen_with,
    inspect,
    look_along,
    look_deeper,
    part_in_fabric,
    picture,
    usable,
)
from railweave.studio.labs._architecture_journey import (
    JOURNEYS,
    ends_of,
    journey_of,
    motion,
    study_of,
    trace_rows,
)
from railweave.studio.labs._architecture_map import PLANES, map_of
from railweave.studio.labs._architecture_parts import failure_of, part_view
from railweave.studio.labs._architecture_planes import plane_view, summary_of
from railweave.studio.labs._architecture_scene import map_scene
from railweave.transport.planes import plane_role
from railweave.transport.planes.journeys import JourneyKind, plane_journey

EXAMPLES = Path(__file__).parents[2] / "examples"
DESIGNS = {one.name: one.text for one in examples()}
LLAMA = DESIGNS["llama3-70b-training"]
POD = DESIGNS["superpod-h100-1su"]
ALONE = DESIGNS["hpn-pod-15k"]

#: two server groups, a storage network of its own, three tiers, management on the front-end
OWN = """
railweave: 1
name: own-storage
cluster:
  servers:
    - {model: dgx-h100, count: 40, name: alpha}
    - {model: dgx-b200, count: 12, name: beta}
  storage_servers: {count: 6}
planes:
  backend: {transport: rocev2, topology: fat-tree, tiers: 3, switch: {radix: 16, speed: 400 Gb/s},
            extra_hosts: {probe: 2}, isolation: vrf}
  frontend: {transport: ethernet, topology: leaf-spine, switch: sn4700}
  storage: {transport: rocev2, topology: leaf-spine, switch: sn4700, encryption: macsec,
            encryption_required: true}
  management: {shares: frontend}
services:
  - {kind: scheduler, plane: frontend, instances: 2}
  - {kind: scheduler, plane: backend}
"""


def pairs(table: PageTable) -> dict[str, str]:
    return {row[0]: row[1] for row in table.rows}


def test_the_maps_of_all_examples_count_what_the_summary_counts() -> None:
    assert len(DESIGNS) >= 10
    for name, text in DESIGNS.items():
        system, summary = map_of(text), summary_of(text)
        fabric = built_design(text).fabric
        assert (system.station_of >= 0).all(), name  # every node is somewhere on the map
        assert sum(one.count for one in system.stations.values()) == fabric.n_nodes
        assert system.stations["gpu"].count == summary.backend.counts.gpus
        servers = sum(s.count for s in system.stations.values() if s.what == "server")
        assert servers == summary.backend.counts.servers
        for plane in summary.planes:
            switches = {s.tier: s.count for s in system.switches(plane.plane)}
            assert switches == dict(plane.counts.switches), (name, plane.plane)
            nics = system.stations.get(f"{plane.plane}-nic")
            assert (nics.count if nics else 0) == plane.counts.nics
            every = (*system.bundles, *system.inner)
            for place, links in plane.links:
                found = [b for b in every if b.plane == plane.plane and b.place == place]
                assert sum(b.links for b in found) == links, (name, plane.plane, place)
            host = sum(
                b.capacity_bps for b in every if b.plane == plane.plane and b.place == "host-leaf"
            )
            assert host == pytest.approx(plane.capacity.host_bps)
        inside = sum(b.links for b in system.bundles if not b.plane)
        assert inside == int((fabric.link_layer <= LinkLayer.PCIE).sum()) // 2
        shares = tuple((p, c) for p, c in system.carrier.items() if p != c)
        assert shares == summary.shares


def test_every_example_is_drawn_both_ways_with_names_and_known_colours() -> None:
    for text in DESIGNS.values():
        system = map_of(text)
        for tall in (False, True):
            scene = map_scene(system, "map", tall=tall)
            assert {node.role for node in scene.nodes} <= {"", *ROLE_COLOURS}
            assert {node.id for node in scene.nodes} == set(system.stations)
            places = {(node.x, node.y) for node in scene.nodes}
            assert len(places) == len(scene.nodes)  # nothing stands on something else
            for node in scene.nodes:
                one = system.stations[node.id]
                # The colour of a plane never stands alone: its name is there too.
                if one.what == "switch":
                    assert PLANES[one.plane] in node.label
                assert node.count == max(1, one.count)
        wide, high = (map_scene(system, "map", tall=tall) for tall in (False, True))
        assert [(n.y, n.x) for n in wide.nodes] == [(n.x, n.y) for n in high.nodes]


def test_a_shared_plane_is_drawn_as_sharing() -> None:
    system = map_of(LLAMA)
    assert system.carrier["storage"] == "frontend"
    assert "storage-leaf" not in system.stations
    scene = map_scene(system, "map")
    arcs = {link.id: link for link in scene.links if link.style == "curve"}
    assert set(arcs) == {
        "frontend-nic – frontend-leaf (storage)",
        "frontend-leaf – frontend-spine (storage)",
    }
    assert all(arc.role == "storage" for arc in arcs.values())
    frame = next(group for group in scene.groups if group.id == "net-frontend")
    assert frame.label == "front-end + storage"
    words = plane_view(LLAMA, "storage").sentences
    assert any("storage traffic is on the front-end network" in one for one in words)
    assert any("The load of storage on the same links" in one
               for one in plane_view(LLAMA, "frontend").sentences)  # fmt: skip


def test_what_a_design_has_not_is_said_and_not_drawn() -> None:
    view = picture(ALONE, State(), False)
    said = " ".join(view.sentences)
    for text in ("no front-end", "no storage plane", "no management plane", "no storage servers"):
        assert text in said
    assert said.count("back-end") == 0
    drawn = {node.id for node in view.scene.nodes}
    assert drawn == {
        "gpu-server",
        "gpu",
        "scale-up",
        "backend-nic",
        "backend-leaf",
        "backend-spine",
    }
    for journey in JOURNEYS:
        way = journey_of(ALONE, journey)
        assert bool(way.hops) == (journey in ("gradient", "tensor", "expert"))
        assert way.hops or "no" in way.sentence
    seen = inspect(ALONE, State(plane="storage", journey=NOTHING))
    assert seen.numbers == ()
    assert "no storage plane" in seen.plane.sentences[-1]


def test_one_plane_shown_leaves_colour_to_its_parts() -> None:
    scene = map_scene(map_of(LLAMA), "map", plane="backend")
    assert {node.role for node in scene.nodes} == {"", "backend"}
    scene = map_scene(map_of(LLAMA), "map", plane="storage")
    roles = {node.id: node.role for node in scene.nodes}
    assert roles["storage-server"] == "storage"
    assert roles["frontend-leaf"] == "frontend"  # what carries it
    assert roles["backend-leaf"] == ""


def test_the_plane_inspector_says_what_build_says() -> None:
    for text in (LLAMA, POD, OWN):
        summary = summary_of(text)
        for plane in summary.planes:
            view = plane_view(text, plane.plane)
            values = {number.key: number.value for number in view.numbers}
            assert values["bisection"] == plane.capacity.bisection_bps
            assert values["host_bandwidth"] == plane.capacity.host_bps
            assert values["ecmp_paths"] == plane.capacity.ecmp_paths
            assert values["diameter"] == plane.paths.diameter
            assert values["cables"] == sum(count for _, count in plane.cables)
            rows = pairs(view.tables[0])
            assert rows["transport"] == plane.transport
            assert rows["topology"] == plane.topology
    rows = pairs(plane_view(OWN, "storage").tables[0])
    assert rows["encryption"] == "macsec (the design requires it)"
    assert rows["priority"] == "priority 3 (DSCP 26), lossless under PFC"
    assert pairs(plane_view(OWN, "backend").tables[0])["isolation"] == "VRFs"
    assert pairs(plane_view(LLAMA, "frontend").tables[0])["priority"].endswith("may drop")


def test_findings_of_a_plane_are_those_of_check() -> None:
    found = built_design(LLAMA).check()
    every = look_deeper(LLAMA, "all", "").findings
    assert [row[1] for row in every.rows] == [one.id for one in found]
    front = look_deeper(LLAMA, "frontend", "").findings
    named = {row[1] for row in front.rows}
    assert {"few-spines", "plane-shared", "attached-to-one-switch"} <= named
    assert "management-single-switch" not in named
    assert "software-unknown" not in named
    back = {row[2] for row in look_deeper(LLAMA, "backend", "").findings.rows}
    assert any("of 256 host ports" in text for text in back)  # at the back-end's line
    assert not any("of 80 host ports" in text for text in back)  # at the front-end's


def test_traffic_of_a_plane_is_that_of_the_workload() -> None:
    shown = {
        plane: [row[0] for row in look_deeper(LLAMA, plane, "").traffic.rows]
        for plane in ("backend", "frontend", "storage", "management")
    }
    assert shown["backend"] == ["llama3-70b", "mixtral"]
    assert shown["frontend"] == shown["storage"] == ["users", "dataset"]  # one network
    assert shown["management"] == []


def test_catalog_facts_have_source_and_certainty() -> None:
    catalog = built_design(LLAMA).document.catalog
    server = catalog.server("dgx-h100")
    table = next(t for t in part_view(LLAMA, "gpu-server").tables if t.id == "facts-dgx-h100")
    power = next(row for row in table.rows if row[0] == "power")
    assert power[1] == "10.2 kW"
    assert power[2] == server.provenance("power_w").certainty.value
    number = int(power[3].strip("[]"))
    assert server.provenance("power_w").title in table.notes[number - 1]
    storage = next(row for row in table.rows if row[0] == "nics, storage")
    assert storage[2] == "estimated"
    assert all(row[2] in ("confirmed", "estimated", "assumed") for row in table.rows)
    for part in ("gpu", "backend-nic", "backend-leaf", "management-nic"):
        assert any(t.id.startswith("facts-") for t in part_view(LLAMA, part).tables), part
    # What the design describes itself has no source: it is said to be the design's.
    stated = part_view(ALONE, "backend-leaf").tables
    assert [t.id for t in stated] == ["ports", "stated"]
    assert pairs(stated[1])["ports"] == "128"


def test_ports_are_counted_on_the_fabric() -> None:
    rows = part_view(POD, "gpu-server").tables[0].rows
    assert rows == (
        ("back-end", "back-end leaves", "8", "400 Gb/s"),
        ("front-end + storage", "front-end leaves", "2", "200 Gb/s"),
        ("management", "management leaf", "1", "1 Gb/s"),
    )
    leaf = part_view(POD, "backend-leaf").tables[0].rows
    down = next(row for row in leaf if row[1] == "back-end NICs")
    fabric = built_design(POD).fabric
    ends = fabric.link_dst[(fabric.link_layer == LinkLayer.HOST_LEAF)
                           & (fabric.link_plane == PlaneId.BACKEND)]  # fmt: skip
    hosts = np.bincount(ends)[fabric.switches(PlaneId.BACKEND, 1)]
    assert hosts.max() == 32
    assert down[2] == "31"  # UFM's ports are rows of their own
    assert ("back-end", "back-end spines", "32", "400 Gb/s") in leaf


def test_what_stops_is_what_the_failure_domains_say() -> None:
    for part, kind, plane in (
        ("backend-leaf", "leaf", PlaneId.BACKEND),
        ("frontend-spine", "spine", PlaneId.FRONTEND),
    ):
        wanted = next(d for d in failure_domains(built_design(POD).fabric, plane) if d.kind == kind)
        (row,) = failure_of(POD, part).rows
        assert row[1:] == (
            f"{wanted.gpus_cut_off:,}",
            f"{wanted.servers_cut_off:,}",
            f"{wanted.host_share_lost:.1%}",
            f"{wanted.bisection_share_lost:.1%}",
        )
    server = failure_of(POD, "gpu-server").rows
    assert [row[:3] for row in server] == [
        ("back-end", "8", "1"), ("front-end", "8", "1"), ("management", "8", "1")
    ]  # fmt: skip
    assert "12.5%" in failure_of(POD, "storage-server").notes[0]


def test_journeys_are_those_of_the_transport_room() -> None:
    built = built_design(LLAMA)
    for key in JOURNEYS:
        way = journey_of(LLAMA, key)
        own = plane_journey(built, JourneyKind(key))
        assert way.to_json() == own.to_json()
        flights, steps, end_s = motion(way)
        assert end_s == way.time_s
        assert [flight.source for flight in flights] == list(way.stations[:-1])
        assert len(steps) == len(way.hops) + 1
        assert [row.time_s for row in trace_rows(way)] == [time_s for time_s, _ in steps]
    request = journey_of(LLAMA, "request")
    assert request.stations[0] == "frontend-spine"  # the way up is left out, and that is said
    assert "the design names no gateway" in request.sentence


def test_the_ends_of_a_journey_are_chosen_and_kept_in_the_address() -> None:
    across = "node001/gpu0>node031/gpu7"
    choices = ends_of(LLAMA, "gradient", "")
    assert across in choices
    assert choices[""].startswith("as the design suggests: node")
    way = journey_of(LLAMA, "gradient", across)
    assert "backend-spine" in way.stations  # across rails, over a spine
    view = picture(LLAMA, State(ends=across), False)
    assert view.journey is way
    assert not view.unknown
    how = inspect(LLAMA, State(ends=across)).reproduce
    assert "--from node001/gpu0 --to node031/gpu7" in how.command
    odd = picture(LLAMA, State(ends="node001>storage001"), False)
    assert any("ends: from node001" in said for said in odd.unknown)
    assert odd.journey is journey_of(LLAMA, "gradient")
    assert "--from" not in inspect(LLAMA, State(ends="node001>storage001")).reproduce.command


def test_what_breaks_is_what_the_transport_room_measures() -> None:
    study = study_of(LLAMA, "request")
    times, neighbours = look_along(LLAMA, "request", "")
    assert [row[-2:] for row in times.rows] == [
        (f"{one.half:.3g}×", f"{one.lost:.3g}×") for one in study.hops
    ]
    assert len(neighbours.rows) == len(study.measured) > 2
    assert look_along(LLAMA, NOTHING, "") == ()
    assert look_along(ALONE, "request", "") == ()


def test_on_a_large_design_what_breaks_waits_to_be_asked_for() -> None:
    assert picture(ALONE, State(), False).long  # 15,360 GPUs
    assert not picture(ALONE, State(), False).big
    assert not picture(LLAMA, State(), False).long


def test_the_learn_panel_says_of_planes_what_the_transport_room_says() -> None:
    table = next(one for one in learn("architecture").tables if one.header[0] == "plane")
    for plane, name in PLANES.items():
        row = next(row for row in table.rows if row[0] == name)
        assert row[1:] == (plane_role(plane).carries, plane_role(plane).late)


def test_a_journey_is_seen_on_the_map_and_on_the_fabric() -> None:
    view = picture(LLAMA, State(plane="storage", journey="checkpoint"), False)
    assert view.journey is not None
    flights = view.scene.flights
    assert [flight.source for flight in flights] == list(view.journey.stations[:-1])
    assert {flight.role for flight in flights} == {"storage"}
    assert view.scene.duration_s == pytest.approx(view.journey.time_s)
    fabric = picture(
        LLAMA, State(plane="storage", journey="checkpoint", picture="fabric"), False
    ).scene
    marked = [link for link in fabric.links if link.state == "marked"]
    assert len(marked) == 4  # host, up, down, storage: inside the server nothing is drawn
    elsewhere = picture(LLAMA, State(journey="checkpoint", picture="fabric"), False).scene
    assert not any(link.state == "marked" for link in elsewhere.links)


def test_a_planes_fabric_is_collapsed_and_opens_part_by_part() -> None:
    text = DESIGNS["superpod-h100-4su"]
    closed = picture(text, State(picture="fabric"), False).scene
    group = next(one.id for one in closed.groups if one.collapsed)
    opened = picture(text, State(picture="fabric", open=(group,)), False).scene
    assert len(opened.nodes) > len(closed.nodes)
    # All planes have no one fabric, and a plane that is not there has none: the map stays.
    assert picture(text, State(plane="all", picture="fabric"), False).scene.title.startswith("Map")
    absent = picture(ALONE, State(plane="storage", picture="fabric"), False).scene
    assert absent.title.startswith("Map")


def test_a_selection_brings_its_plane() -> None:
    for part, plane in (
        ("frontend-leaf", "frontend"),
        ("storage-server", "storage"),
        ("frontend-leaf – frontend-spine (storage)", "storage"),
        ("management-nic – management-leaf", "management"),
        ("scheduler", "management"),
        ("gpu-server", "backend"),
        ("backend-nic – backend-leaf", "backend"),
    ):
        assert chosen_with(LLAMA, State(), part) == plane, part
        assert chosen_with(LLAMA, State(plane="all"), part) == "all"
    # The front-end's switches carry storage: they are no reason to leave it.
    assert chosen_with(LLAMA, State(plane="storage"), "frontend-leaf") == "storage"


def test_devices_of_a_fabric_belong_to_components() -> None:
    for name, part in (
        ("leaf-1", "backend-leaf"),
        ("node001", "gpu-server"),
        ("node001/nic0 +247", "backend-nic"),
        ("leaf-1:port-1", "backend-nic – backend-leaf"),
        ("leaf-1 – spine-1", "backend-leaf – backend-spine"),
        ("frontend-spine-1", "frontend-spine"),
        ("nothing", ""),
    ):
        assert part_in_fabric(LLAMA, name) == part, name


def test_odd_addresses_get_the_default_and_a_sentence() -> None:
    state, said = usable(State(plane="sideways", journey="nowhere", picture="film", part="x"))
    assert state == State(part="x")
    assert len(said) == 3
    assert "no component 'x'" in inspect(LLAMA, State(part="x", journey=NOTHING)).part.sentences[0]
    asked = State(part="storage-serve", picture="fabric", open=("pod-77",))
    part, groups = picture(LLAMA, asked, tall=False).unknown
    assert "'storage-serve' is no component here" in part
    assert "did you mean 'storage-server'?" in part
    assert "no group 'pod-77' in this drawing; allowed: hosts, pod-1, tier-2" in groups
    known = State(part="storage-server", picture="fabric", open=("pod-1",))
    assert picture(LLAMA, known, tall=False).unknown == ()


def test_services_and_hosts_of_one_name_are_kept_apart_by_network() -> None:
    system = map_of(OWN)
    assert system.stations["frontend-scheduler"].count == 2
    assert system.stations["backend-scheduler"].count == 1
    assert system.stations["probe"].plane == "backend"
    assert [s.id for s in system.stations.values() if s.what == "server"] == [
        "server-alpha",
        "server-beta",
    ]
    assert system.stations["server-alpha"].count == 40


def test_python_and_command_name_the_loaded_design(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = inspect(LLAMA, State(journey="request"), "my llama.yaml").reproduce
    assert how.command.splitlines() == [
        "railweave build 'my llama.yaml' --json",
        "railweave check 'my llama.yaml'",
        "railweave transport planes 'my llama.yaml'",
        "railweave transport journey request --design 'my llama.yaml'",
    ]
    (tmp_path / "my llama.yaml").write_text(LLAMA, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(how.python, "shown", "exec"), {})
