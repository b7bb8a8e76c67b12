import numpy as np
import pytest

from minifabric import Mini, clos
from railweave.design.models import StorageServers, StorageTraffic
from railweave.errors import InputError
from railweave.fabric import LinkLayer, NodeKind, PlaneId
from railweave.workload import burst_times, checkpoint_cost, storage_traffic, write_floor_s


@pytest.fixture(scope="module")
def fabric():
    mini = Mini()
    leaf = mini.node("leaf", NodeKind.SWITCH, 1, plane=PlaneId.STORAGE)
    for s in range(6):
        host = mini.node(f"host-{s}", NodeKind.HOST, server=s)
        mini.link(host, leaf, 200, LinkLayer.HOST_LEAF, plane=PlaneId.STORAGE)
    for s in range(3):
        store = mini.node(f"store-{s}", NodeKind.STORAGE)
        mini.link(store, leaf, 200, LinkLayer.HOST_LEAF, plane=PlaneId.STORAGE)
    return mini.build()


def kinds(fabric, nodes):
    return set(fabric.node_kind[nodes].tolist())


def test_ingest_flows_at_its_rate(fabric):
    spec = StorageTraffic(name="data", ingest="8 Gb/s", duration="2 s", start="1 s")
    traffic = storage_traffic(spec, fabric)
    assert traffic.total_bytes == pytest.approx(6 * 2e9)
    assert kinds(fabric, traffic.src) == {NodeKind.STORAGE}
    assert kinds(fabric, traffic.dst) == {NodeKind.HOST}
    per_host = np.bincount(traffic.dst, traffic.chunk_bytes)
    assert per_host[per_host > 0] == pytest.approx(2e9)
    assert traffic.task_start_s.min() == 1.0
    assert traffic.task_start_s.max() < 3.0
    early = traffic.chunk_bytes[traffic.task_start_s < 2.0].sum()
    assert early == pytest.approx(traffic.total_bytes / 2, rel=0.05)
    assert set(traffic.stream_plane.tolist()) == {PlaneId.STORAGE}


def test_long_ingest_takes_larger_pieces(fabric):
    spec = StorageTraffic(name="data", ingest="100 Gb/s", duration="100 s")
    traffic = storage_traffic(spec, fabric)
    assert traffic.n_tasks == 6 * 64
    assert traffic.total_bytes == pytest.approx(6 * 100e9 * 100 / 8)


def test_ingest_is_bound_by_what_the_storage_servers_read(fabric):
    spec = StorageTraffic(name="data", ingest="8 Gb/s", duration="2 s")
    slow = StorageServers(count=3, read_bandwidth="8 Gb/s")  # 24 Gb/s for 6 readers
    bound = storage_traffic(spec, fabric, servers=slow)
    assert bound.total_bytes == pytest.approx(6 * 1e9)
    free = storage_traffic(spec, fabric, servers=StorageServers(count=3))
    assert free.total_bytes == pytest.approx(6 * 2e9)


def test_checkpoints_are_bursts_over_all_storage_servers(fabric):
    spec = StorageTraffic(
        name="save", checkpoint_size="18 GB", checkpoint_period="10 min", start="5 s"
    )
    traffic = storage_traffic(spec, fabric, bursts=2)
    assert traffic.n_tasks == 2
    assert traffic.task_start_s.tolist() == [5.0, 605.0]
    assert traffic.total_bytes == pytest.approx(36e9)
    into = np.bincount(traffic.dst, traffic.chunk_bytes)
    assert into[into > 0] == pytest.approx(12e9)
    assert kinds(fabric, traffic.src) == {NodeKind.HOST}
    assert burst_times(traffic, "save", np.array([7.0, 608.0])).tolist() == [2.0, 3.0]
    assert burst_times(traffic, "other", np.array([7.0, 608.0])).size == 0


def test_a_fabric_without_storage_servers_is_refused():
    spec = StorageTraffic(name="save", checkpoint_size="1 GB")
    with pytest.raises(InputError, match=r"6 servers and 0 storage servers.*storage_servers"):
        storage_traffic(spec, clos(servers=6, gpus=1)[0])


def test_cost_of_a_checkpoint():
    free = StorageServers(count=4)
    slow = StorageServers(count=4, write_bandwidth="10 Gb/s")
    assert write_floor_s(100e9, free) == 0
    assert write_floor_s(100e9, slow) == 20.0
    network = checkpoint_cost(100e9, 1790.0, 10.0, free)
    assert (network.write_s, network.limited_by) == (10.0, "network")
    assert network.lost_fraction == pytest.approx(10 / 1800)
    disks = checkpoint_cost(100e9, 1780.0, 10.0, slow)
    assert (disks.write_s, disks.limited_by) == (20.0, "storage servers")
    assert checkpoint_cost(100e9, 1780.0, 10.0, slow, overlap=1.0).lost_fraction == 0
