import numpy as np
import pytest

from minifabric import clos
from railweave.design.models import BackgroundTraffic
from railweave.errors import InputError
from railweave.fabric import NodeKind, PlaneId
from railweave.provenance import Certainty
from railweave.workload import SIZE_TABLES, background_traffic, poisson_flows
from railweave.workload.background import host_rates

FABRIC = clos(servers=8, gpus=2, spines=2)[0]


def flows(load=0.3, sizes=SIZE_TABLES["web-search"], duration=0.05, **options):
    return poisson_flows(FABRIC, PlaneId.BACKEND, load, sizes, duration, **options)


def test_hosts_and_their_rates_come_from_the_plane():
    nodes, rate = host_rates(FABRIC, PlaneId.BACKEND)
    assert bool((FABRIC.node_kind[nodes] == NodeKind.HOST).all())
    assert rate.tolist() == [800e9] * 8
    assert host_rates(FABRIC, PlaneId.FRONTEND)[0].size == 0


def test_a_dead_link_offers_less():
    links = np.flatnonzero((FABRIC.link_layer == 2) & (FABRIC.link_src < FABRIC.link_dst))
    narrowed = FABRIC.without(duplex=[int(links[0]) // 2])
    assert sorted(host_rates(narrowed, PlaneId.BACKEND)[1].tolist()) == [400e9] + [800e9] * 7


@pytest.mark.parametrize("load", [0.1, 0.6])
def test_the_load_is_offered(load):
    traffic = flows(load, duration=0.2)
    offered = load * 8 * 800e9 / 8 * 0.2
    assert traffic.total_bytes == pytest.approx(offered, rel=0.1)


def test_one_size_for_all():
    traffic = flows(sizes=1e6, duration=0.02)
    assert set(traffic.chunk_bytes.tolist()) == {1e6}


@pytest.mark.parametrize("name", SIZE_TABLES)
def test_tables_are_distributions_with_heavy_tails(name):
    table = SIZE_TABLES[name]
    assert table.shares[0] == 0
    assert table.shares[-1] == 1
    assert bool((np.diff(table.shares) > 0).all() and (np.diff(table.sizes_bytes) > 0).all())
    drawn = table.sizes(np.random.default_rng(0).random(200_000))
    assert drawn.mean() == pytest.approx(table.mean_bytes, rel=0.1)
    assert np.median(drawn) < table.mean_bytes / 5
    assert table.assumption.certainty is Certainty.ESTIMATED


def test_flows_are_mice_with_their_own_connection_and_time():
    traffic = flows(start_s=1.0)
    assert traffic.n_tasks == traffic.n_streams > 1000
    assert len(np.unique(traffic.stream_connection)) == traffic.n_streams
    assert bool((traffic.src != traffic.dst).all())
    assert bool((traffic.task_start_s >= 1.0).all() and (traffic.task_start_s < 1.05).all())
    assert bool((np.diff(traffic.task_start_s) >= 0).all())
    gaps = np.diff(traffic.task_start_s)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.15)  # exponential gaps


def test_seed_and_name_decide():
    first, again, other = flows(seed=1), flows(seed=1), flows(seed=2)
    assert np.array_equal(first.task_start_s, again.task_start_s)
    assert np.array_equal(first.chunk_bytes, again.chunk_bytes)
    assert not np.array_equal(first.src[:50], other.src[:50])
    assert not np.array_equal(first.src[:50], flows(seed=1, name="b").src[:50])


def test_entry_of_a_design():
    spec = BackgroundTraffic(
        name="web", plane="backend", load=0.2, sizes="data-mining", duration="5 ms", start="1 s"
    )
    traffic = background_traffic(spec, FABRIC, seed=3)
    assert traffic.labels == ("web",)
    assert traffic.task_start_s.min() >= 1.0
    shared = spec.model_copy(update={"plane": type(spec.plane).FRONTEND})
    carried = background_traffic(shared, FABRIC, network=PlaneId.BACKEND)
    assert set(carried.stream_plane.tolist()) == {PlaneId.FRONTEND}


def test_limits_are_explained():
    with pytest.raises(InputError, match="frontend plane has 0 servers"):
        poisson_flows(FABRIC, PlaneId.FRONTEND, 0.1, 1e6, 1.0)
    with pytest.raises(InputError, match=r"allowed: 5,000,000; shorten"):
        flows(1.0, sizes=100.0, duration=100.0)
