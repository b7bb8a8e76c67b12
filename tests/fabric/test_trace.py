"""Tracing one message: the hops are routing's, the choices and headers those that were hashed."""

import dataclasses

import numpy as np
import pytest

from minifabric import clos
from railweave.design.models import RoutingScheme, RoutingSpec, Transport
from railweave.fabric import NodeKind, PlaneId, node_name
from railweave.fabric.routing import PathStatus, compile_routing
from railweave.fabric.trace import trace_path

BACKEND = PlaneId.BACKEND


def route(fabric, scheme=RoutingScheme.ECMP, transport=Transport.ROCEV2, seed=0, **options):
    spec = RoutingSpec(scheme=scheme, **options)
    return compile_routing(fabric, BACKEND, spec, transport, seed)


@pytest.mark.parametrize("scheme", [s for s in RoutingScheme if s.value not in ("spray", "table")])
def test_hops_are_the_links_of_routing(scheme):
    fabric, names = clos(servers=4, gpus=4, spines=3, leaves=2)
    ends = names["server-0:gpu-0"], names["server-3:gpu-1"]
    routing = route(fabric, scheme, queue_pairs=3)
    flows = trace_path(routing, *ends, size_bytes=1e6)
    links = routing.paths([ends[0]], [ends[1]], size_bytes=1e6).links_of(0)
    assert [[hop.link for hop in flow.hops] for flow in flows] == [list(one) for one in links]
    assert sum(flow.share for flow in flows) == pytest.approx(1.0)
    for flow in flows:
        assert flow.hops[0].source == node_name(fabric, ends[0])
        assert flow.hops[-1].target == node_name(fabric, ends[1])
        assert [hop.target for hop in flow.hops[:-1]] == [hop.source for hop in flow.hops[1:]]
        assert flow.delay_s == pytest.approx(sum(hop.delay_s for hop in flow.hops))
        assert (flow.hash_input is not None) == (scheme.value in ("ecmp", "e-ecmp", "flowlet"))


def test_choices_count_the_equal_links():
    fabric, names = clos(servers=4, gpus=4, spines=3, leaves=2)
    (flow,) = trace_path(route(fabric), names["server-0:gpu-0"], names["server-3:gpu-0"])
    at_switch = [hop for hop in flow.hops if hop.source.startswith(("leaf", "spine"))]
    table = route(fabric).table
    src = fabric.link_src
    leaf, edge = src[at_switch[0].link], src[at_switch[-1].link]
    assert at_switch[0].choices == len(table.next_links(int(leaf), int(edge))) > 1
    assert at_switch[-1].choices == 1
    ways = np.prod([hop.choices for hop in flow.hops])
    assert ways == table.path_count(
        int(src[flow.hops[1].link]), int(fabric.link_dst[at_switch[-1].link])
    )


def test_headers_are_those_that_the_switches_hash():
    fabric, names = clos(servers=4, gpus=4, spines=8, leaves=2)
    ends = names["server-0:gpu-0"], names["server-3:gpu-0"]
    seen = {}
    for seed in range(20):
        (flow,) = trace_path(route(fabric, seed=seed, seeds="equal"), *ends)
        header = flow.hash_input
        assert header.protocol == 17
        assert header.dst_port == 4791
        assert header.src_port >= 0xC000
        assert header.src_ip.startswith("10.")
        assert header.describe().startswith("crc32(src-ip 10.")
        seen[header.src_port] = flow.hops
    assert len(seen) > 1
    again = trace_path(route(fabric, fields=("src-ip", "dst-ip")), *ends)[0].hash_input
    assert again.fields == ("src-ip", "dst-ip")
    assert "port" not in again.describe()
    pair = trace_path(route(fabric, RoutingScheme.E_ECMP), *ends)[0].hash_input
    assert pair.fields[-1] == "queue-pair"
    assert str(pair.queue_pair) in pair.describe()


def test_sprayed_packets_take_all_links_in_order():
    fabric, names = clos(servers=4, gpus=4, spines=3, leaves=2)
    (flow,) = trace_path(
        route(fabric, RoutingScheme.SPRAY), names["server-0:gpu-0"], names["server-3:gpu-0"]
    )
    weights = [hop.weight for hop in flow.hops]
    assert weights[0] == weights[-1] == 1.0
    assert min(weights) == pytest.approx(1 / 3)
    reached = {flow.hops[0].source}
    for hop in flow.hops:
        assert hop.source in reached
        reached.add(hop.target)
    single = trace_path(route(fabric), names["server-0:gpu-0"], names["server-3:gpu-0"])[0]
    assert flow.delay_s == pytest.approx(single.delay_s)


def test_a_message_inside_a_server_is_not_hashed_and_a_lost_one_has_no_hops():
    fabric, names = clos(servers=4, gpus=4, spines=3, leaves=2)
    (inside,) = trace_path(route(fabric), names["server-0:gpu-0"], names["server-0:gpu-1"])
    assert inside.hash_input is None
    assert all(not hop.port for hop in inside.hops)
    spines = (fabric.node_kind == NodeKind.SWITCH) & (fabric.node_tier == 2)
    dead = dataclasses.replace(
        fabric,
        link_up=fabric.link_up & ~(spines[fabric.link_src] | spines[fabric.link_dst]),
    )
    lost = trace_path(route(dead), names["server-0:gpu-0"], names["server-3:gpu-0"])
    assert {flow.status for flow in lost} == {PathStatus.UNREACHABLE}
    assert not any(flow.hops for flow in lost)
