"""Collectives of the workload room on built fabrics: both forms agree, and known times come out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.catalog import default_catalog
from railweave.design.models import Algorithm, Collective, Design, RoutingSpec, Transport
from railweave.engine.flow import simulate_flow
from railweave.fabric import LinkLayer, PlaneId, build_fabric
from railweave.fabric.routing import compile_routing
from railweave.fabric.wire import framing, wire_bytes
from railweave.workload import Communicator, collective_traffic

BACKEND = PlaneId.BACKEND
SCALE_UP_BPS = 450e9  # bytes a second
CACHE = {}


def fabric_of(servers, gpus=4, topology="rail-optimized"):
    key = (servers, gpus, topology)
    if key not in CACHE:
        inline = {
            "gpus": gpus,
            "nics": gpus,
            "nic_speed": "400 Gb/s",
            "scale_up_bandwidth": "450 GB/s",
        }
        design = Design.model_validate(
            {
                "railweave": 1,
                "name": "t",
                "cluster": {"servers": [{"inline": inline, "count": servers}]},
                "planes": {
                    "backend": {
                        "transport": "rocev2",
                        "topology": topology,
                        "switch": {"radix": 16, "speed": "400 Gb/s"},
                    }
                },
            }
        )
        CACHE[key] = build_fabric(design, default_catalog()).fabric
    return CACHE[key]


def nic_duplex(fabric, number):
    mine = fabric.link_src == fabric.nics(BACKEND)[number]
    return int(np.flatnonzero(mine & (fabric.link_layer == LinkLayer.HOST_LEAF))[0]) // 2


def routing_of(fabric, scheme="static"):
    return compile_routing(fabric, BACKEND, RoutingSpec(scheme=scheme))


def both_forms(servers, channels, size, factor, operation, *, algorithm=Algorithm.RING, **options):
    whole = fabric_of(servers)
    fabric = whole.with_capacity({nic_duplex(whole, 1): factor})
    comm = Communicator.from_fabric(fabric, fabric.gpus, channels=channels)
    work = collective_traffic(operation, comm, size, algorithm=algorithm)
    routing = routing_of(fabric)
    short = simulate_flow(fabric, work, routing, **options)
    return short, simulate_flow(fabric, work.expand(), routing)


@settings(max_examples=12, deadline=None)
@given(
    servers=st.integers(2, 6),
    operation=st.sampled_from([Collective.ALL_REDUCE, Collective.ALL_GATHER]),
    size=st.integers(1 << 16, 1 << 26),
    factor=st.sampled_from([1.0, 0.5]),
)
def test_a_ring_compressed_and_expanded_agree(*, servers, operation, size, factor):
    short, long = both_forms(servers, 1, size, factor, operation)
    assert short.makespan_s == pytest.approx(long.makespan_s, rel=1e-9)
    np.testing.assert_allclose(short.link_bytes, long.link_bytes, rtol=1e-9)


@pytest.mark.parametrize("servers", [2, 4])
@pytest.mark.parametrize("size", [2**20, 2**28])
def test_rings_that_share_links_agree_to_three_percent(servers, size):
    # Rings of several channels meet on NVLink now and then; averaged, they share it all the time.
    short, long = both_forms(servers, 4, size, 1.0, Collective.ALL_REDUCE, exact_messages=0)
    assert short.makespan_s == pytest.approx(long.makespan_s, rel=0.03)
    np.testing.assert_allclose(short.link_bytes, long.link_bytes, rtol=1e-9)
    said = [a.statement for a in short.assumptions if a.subject == "coupled tasks"]
    assert len(said) == 1
    assert "4 coupled tasks share links by their average rates" in said[0]


@pytest.mark.parametrize("size", [2**22, 2**24, 2**26])
def test_rings_that_wait_for_latency_share_links_to_three_percent(size):
    """Streams with pauses find a rhythm: their chunks meet less often than by chance."""
    fabric = fabric_of(8, gpus=8)
    comm = Communicator.from_fabric(fabric, fabric.gpus, channels=8)
    work = collective_traffic(Collective.ALL_REDUCE, comm, size, algorithm=Algorithm.RING)
    averaged, exact = (
        simulate_flow(fabric, work, routing_of(fabric), exact_messages=most).makespan_s
        for most in (0, 10**9)
    )
    assert averaged == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize("algorithm", [Algorithm.RING, Algorithm.TREE])
@pytest.mark.parametrize(("servers", "channels"), [(2, 8), (3, 4)])
@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_channels_that_share_links_are_exact_where_small(algorithm, servers, channels, factor):
    operation, size = Collective.ALL_REDUCE, 2**23
    short, long = both_forms(servers, channels, size, factor, operation, algorithm=algorithm)
    assert short.makespan_s == pytest.approx(long.makespan_s, rel=1e-9)
    np.testing.assert_allclose(short.link_bytes, long.link_bytes, rtol=1e-9)
    np.testing.assert_allclose(short.link_peak, long.link_peak, rtol=1e-9)
    said = [a.statement for a in short.assumptions if a.subject == "coupled tasks"]
    assert len(said) == 1
    assert "expanded: exact" in said[0]


@pytest.mark.parametrize("servers", [2, 4, 6])
def test_ring_all_reduce_fills_every_nic(servers):
    fabric = fabric_of(servers)
    comm = Communicator.from_fabric(fabric, fabric.gpus)
    size, ranks = 2**30, comm.n
    result = simulate_flow(
        fabric, collective_traffic(Collective.ALL_REDUCE, comm, size), routing_of(fabric)
    )
    # Four channels, each crossing one NIC a server: 2(n−1) chunks of size / (4 n) on each.
    chunk = float(wire_bytes(size / 4 / ranks, framing(Transport.ROCEV2)))
    least = 2 * (ranks - 1) * chunk / 50e9
    # The last chunk may still have to be handed over NVLink, beside those of the other channels.
    chunk_over_nvlink = size / ranks / SCALE_UP_BPS
    assert least <= result.makespan_s <= (least + chunk_over_nvlink) * 1.005


def test_half_speed_link_halves_the_ring():
    whole = fabric_of(4)
    slow = whole.with_capacity({nic_duplex(whole, 0): 0.5})
    comm = Communicator.from_fabric(whole, whole.gpus)
    work = collective_traffic(Collective.ALL_REDUCE, comm, 2**30)
    times = [simulate_flow(f, work, routing_of(whole)).makespan_s for f in (whole, slow)]
    assert times[1] / times[0] == pytest.approx(2.0, rel=0.02)


def test_all_to_all_on_a_star_is_the_closed_form():
    fabric = fabric_of(4, topology="star")
    comm = Communicator.from_fabric(fabric, fabric.gpus)
    size = 16 * 2**20
    result = simulate_flow(
        fabric, collective_traffic(Collective.ALL_TO_ALL, comm, size), routing_of(fabric)
    )
    # Every NIC sends to the 12 ranks of the other servers; NVLink takes the rest meanwhile.
    piece = float(wire_bytes(size / 16, framing(Transport.ROCEV2)))
    delay = result.stream_ideal_s.max() - piece / 50e9
    assert result.makespan_s == pytest.approx(12 * piece / 50e9 + delay, rel=1e-9)


@pytest.mark.parametrize("operation", list(Collective))
def test_every_collective_ends_and_conserves(operation):
    fabric = fabric_of(3)
    comm = Communicator.from_fabric(fabric, fabric.gpus)
    result = simulate_flow(fabric, collective_traffic(operation, comm, 2**20), routing_of(fabric))
    assert result.finished
    assert result.bytes_delivered == pytest.approx(result.bytes_sent)
    assert np.nanmin(result.stream_slowdown) >= 1 - 1e-9
