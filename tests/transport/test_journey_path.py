"""The ways that journeys take: the routing's own, by the headers that the packets carry."""

from itertools import pairwise

import numpy as np
import pytest
from _journey_designs import built, infiniband, roce

from railweave.errors import InputError
from railweave.fabric import LinkLayer, PlaneId
from railweave.fabric._headers import udp_source_port
from railweave.fabric.names import UnknownNameError, find_node
from railweave.fabric.trace import trace_path
from railweave.transport.journey._ends import find_ends
from railweave.transport.journey._path import find_ways
from railweave.transport.journey._setup import plane_setup

BACKEND = PlaneId.BACKEND
PAIRS = [(a, b) for a in range(4) for b in range(4)]


def ways(design, source="node001/gpu0", target="node002/gpu3", **more):
    return plane_setup(design, BACKEND, (source, target), **more).ways


@pytest.mark.parametrize("design", [roce(), infiniband()], ids=["rocev2", "infiniband"])
def test_the_way_there_is_the_routings_own(design):
    routing = design.routing().planes[BACKEND]
    for a, b in PAIRS:
        source, target = f"node001/gpu{a}", f"node003/gpu{b}"
        ends = (find_node(design.fabric, source), find_node(design.fabric, target))
        (flow,) = trace_path(routing, *ends)
        found = ways(design, source, target)
        assert [hop.link for hop in found.forward.hops] == [hop.link for hop in flow.hops]
        assert [hop.choices for hop in found.forward.hops] == [hop.choices for hop in flow.hops]
        if flow.hash_input is not None:
            assert found.forward.source_port == flow.hash_input.src_port
            assert found.target_qp == flow.hash_input.queue_pair
            assert found.forward.hash_text == flow.hash_input.describe()


def test_both_ends_derive_one_source_port_from_their_queue_pairs():
    for a, b in PAIRS:
        found = ways(roce(), f"node001/gpu{a}", f"node003/gpu{b}")
        pair = [np.array([n], dtype=np.uint64) for n in (found.source_qp, found.target_qp)]
        assert found.forward.source_port == int(udp_source_port(*pair)[0])
        assert found.back.source_port == found.forward.source_port
        assert found.back.target_port == found.forward.target_port == 4791


def test_the_way_back_is_what_the_switches_hash_of_the_answers():
    """They join the same ends; some mirror the way there and some do not."""
    mirrored = 0
    for a, b in PAIRS:
        found = ways(roce(), f"node001/gpu{a}", f"node003/gpu{b}")
        there, back = found.forward, found.back
        assert back.nodes[0] == there.nodes[-1]
        assert back.nodes[-1] == there.nodes[0]
        assert (back.source_ip, back.target_ip) == (there.target_ip, there.source_ip)
        assert f"dst-ip {there.source_ip}" in back.hash_text
        mirrored += back.nodes == there.nodes[::-1]
    assert 0 < mirrored < len(PAIRS)


def test_a_way_back_found_by_its_headers_is_that_of_a_flow_that_has_them():
    """The walk back of one connection is that of the connection which carries these headers."""
    design = roce()
    routing = design.routing().planes[BACKEND]
    fabric = design.fabric
    found = ways(design)
    table, ip = routing.table, routing.addresses.node_ip
    wired = [h.link for h in found.back.hops if fabric.link_layer[h.link] >= LinkLayer.HOST_LEAF]
    a, b = int(fabric.link_src[wired[0]]), int(fabric.link_dst[wired[-1]])
    _, links, _, _ = table.walk(
        np.array([a], dtype=np.int32),
        np.array([b], dtype=np.int32),
        hash_function=routing.spec.hash.value,
        seeds=routing.switch_seeds,
        src_ip=ip[[a]],
        dst_ip=ip[[b]],
        src_port=np.array([found.back.source_port], dtype=np.uint16),
        dst_port=np.array([4791], dtype=np.uint16),
    )
    assert links.tolist() == wired


def test_routed_hops_rewrite_mac_and_ttl():
    hops = [hop for hop in ways(roce()).forward.hops if hop.on_network]
    assert [hop.ttl for hop in hops] == [64, 63, 62, 61]
    assert [hop.rewritten for hop in hops] == [False, True, True, True]
    for before, after in pairwise(hops):
        assert before.target_mac == after.source_mac  # the switch between them
    macs = {mac for hop in hops for mac in (hop.source_mac, hop.target_mac)}
    assert len(macs) == 5
    assert all(int(mac[:2], 16) & 3 == 2 for mac in macs)  # local, for one receiver


def test_one_subnet_is_bridged():
    way = ways(roce(), "node001/gpu1", "node002/gpu1").forward
    hops = [hop for hop in way.hops if hop.on_network]
    assert way.bridged
    assert [hop.ttl for hop in hops] == [64, 64]
    assert {(hop.source_mac, hop.target_mac) for hop in hops} == {
        (hops[0].source_mac, hops[-1].target_mac)
    }


def test_infiniband_has_lids_and_no_addresses():
    found = ways(infiniband())
    assert (found.forward.source_lid, found.forward.target_lid) == (
        found.back.target_lid,
        found.back.source_lid,
    )
    assert 1 <= found.forward.source_lid != found.forward.target_lid
    assert found.forward.source_ip == ""
    assert all(hop.source_mac == "" and hop.ttl == 0 for hop in found.forward.hops)
    assert all(hop.cut_through for hop in found.forward.hops if hop.is_switch)


def test_ipv6_addresses_hold_the_ipv4_ones():
    four, six = ways(roce()).forward, ways(roce(), ip_version=6).forward
    parts = [int(part) for part in four.source_ip.split(".")]
    last = f"{parts[0] << 8 | parts[1]:x}:{parts[2] << 8 | parts[3]:x}"
    assert six.source_ip == f"fd72:6169:6c77::{last}"
    assert [hop.link for hop in six.hops] == [hop.link for hop in four.hops]


def test_stages_of_a_way():
    text = ways(roce()).forward.stages()
    words = text.split(" → ")
    assert words[:3] == ["node001/gpu0", "PCIe", "node001/nic0"]
    assert words[3] == "leaf-1 (rail leaf)"
    assert words[4].endswith("(spine)")
    assert words[-3:] == ["node002/nic3", "PCIe", "node002/gpu3"]


def test_gpus_of_one_domain_stay_inside():
    found = ways(roce(), "node001/gpu0", "node001/gpu2")
    assert found.inside
    assert found.forward.nodes == ("node001/gpu0", "node001/scale-up", "node001/gpu2")


def test_an_adapter_is_reached_over_pcie_and_itself_over_nothing():
    found = ways(roce(), "node001/gpu0", "node001/nic0")
    assert found.inside
    assert found.forward.nodes == ("node001/gpu0", "node001/nic0")
    design = built(servers=", frontend_nics: 1")
    with pytest.raises(InputError, match="nothing is crossed: both use one adapter"):
        plane_setup(design, PlaneId.FRONTEND, ("node001/gpu0", "node001/frontend-nic0"))


@pytest.mark.parametrize("scheme", ["spray", "flowlet", "adaptive", "static", "e-ecmp"])
def test_other_schemes_have_a_way_and_say_what_it_is(scheme):
    found = ways(built(more=f"routing: {scheme}"))
    assert found.forward.nodes[-1] == "node002/gpu3"
    assert found.back.nodes[-1] == "node001/gpu0"
    said = any(scheme in note for note in found.notes)
    assert said == (scheme in ("spray", "flowlet", "adaptive"))


def test_queue_pairs_of_a_connection():
    design = built(more="routing: {queue_pairs: 4}")
    ports = {ways(design, queue_pair=n).forward.source_port for n in range(4)}
    assert len(ports) == 4
    with pytest.raises(InputError, match="allowed: 0 to 3"):
        ways(design, queue_pair=4)


def test_failed_links_are_avoided():
    whole = ways(roce())
    spine = next(hop.target for hop in whole.forward.hops if hop.device == "spine")
    left = ways(roce().fail([spine]))
    assert spine in whole.forward.nodes
    assert spine not in left.forward.nodes
    with pytest.raises(InputError, match="no way from node001/gpu0 to node002/gpu3"):
        ways(roce().fail(["node001/nic0", "node001/nic1", "node001/nic2", "node001/nic3"]))


def test_names():
    fabric = roce().fabric
    ends = find_ends(fabric, "node1/gpu0", "node02")
    assert (ends.source_name, ends.target_name) == ("node001/gpu0", "node002")
    assert ends.notes == ("node1/gpu0 is taken for node001/gpu0", "node02 is taken for node002")
    assert find_ends(fabric, "node001/gpu0", "node002").notes == ()
    for name, says in (
        ("node009/gpu0", "node009"),
        ("node001/gpu7", "node001/gpu"),
        ("gpu0", "did you mean"),
        ("", "there is no ''"),
    ):
        with pytest.raises(UnknownNameError, match=says):
            find_ends(fabric, name, "node002")
    with pytest.raises(InputError, match="is a switch and ends no connection"):
        find_ends(fabric, "leaf-1", "node002")
    with pytest.raises(InputError, match="name two different ones"):
        find_ends(fabric, "node001/gpu0", "node1/gpu0")


def test_planes():
    with pytest.raises(InputError, match="no storage plane; it has: backend, frontend"):
        plane_setup(roce(), PlaneId.STORAGE, ("node001", "node002"))
    with pytest.raises(InputError, match="leave the IP version out"):
        ways(infiniband(), ip_version=6)
    with pytest.raises(InputError, match="allowed: 4 or 6"):
        ways(roce(), ip_version=5)
    setup = plane_setup(roce(), PlaneId.FRONTEND, ("node001", "node002"))
    found = find_ways(setup.routing, setup.settings, PlaneId.FRONTEND, setup.ends)
    assert found.back.source_port == found.forward.target_port == 5201
    assert found.back.target_port == found.forward.source_port
