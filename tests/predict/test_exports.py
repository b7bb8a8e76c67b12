"""What is exported for the cluster: the tuner's file and the environment, each with its reason."""

from __future__ import annotations

from itertools import pairwise

import pytest

import railweave
from railweave.design.models import Collective
from railweave.errors import InputError
from railweave.predict.collective import NcclAlgorithm, NcclProtocol, OptionTime
from railweave.predict.exports import (
    SizeRange,
    environment_text,
    recommended_environment,
    size_ranges,
    tuner_csv,
)
from railweave.predict.network_part import measure_network
from railweave.predict.system import CollectiveSystem, system_of

SYSTEM = CollectiveSystem("hopper", 4, 8, "nvlink", 450e9, "infiniband", 8, 50e9)
GIB = 1 << 30


def option(algorithm, protocol):
    return OptionTime(algorithm, protocol, 1e-3, 1e-4, 9e-4, 1e11, 2e11, "network")


TREE = option(NcclAlgorithm.TREE, NcclProtocol.LL128)
NVLS = option(NcclAlgorithm.NVLS_TREE, NcclProtocol.SIMPLE)
RING = option(NcclAlgorithm.RING, NcclProtocol.SIMPLE)


def chooser(*changes):
    """Return the option by size: (from bytes, option), rising."""
    return lambda size: next(best for first, best in reversed(changes) if size >= first)


SIZES = [1 << power for power in range(20, 31)]


def test_one_winner_is_one_range():
    assert size_ranges(chooser((0, RING)), SIZES) == (SizeRange(1 << 20, GIB, RING),)
    assert size_ranges(chooser((0, RING)), [5]) == (SizeRange(5, 5, RING),)


def test_change_overs_are_found_to_a_64th():
    at = 7_000_000
    first, second = size_ranges(chooser((0, TREE), (at, RING)), SIZES)
    assert (first.option, second.option) == (TREE, RING)
    assert (first.first_bytes, second.last_bytes) == (1 << 20, GIB)
    assert second.first_bytes == first.last_bytes + 1
    assert at <= second.first_bytes <= at * (1 + 1 / 63)


def test_several_change_overs_between_two_sizes():
    ranges = size_ranges(chooser((0, TREE), (5_000_000, NVLS), (7_000_000, RING)), SIZES)
    assert [item.option for item in ranges] == [TREE, NVLS, RING]
    assert all(a.last_bytes + 1 == b.first_bytes for a, b in pairwise(ranges))


def test_tuner_file():
    text = tuner_csv(
        Collective.ALL_REDUCE,
        SYSTEM,
        (SizeRange(1 << 20, 6_999_999, TREE), SizeRange(7_000_000, GIB, NVLS)),
        ["for a test"],
    )
    lines = text.splitlines()
    assert all(len(line) <= 255 for line in lines)  # the plugin reads 256 at a time
    assert "# for a test" in lines
    # The plugin skips lines that begin with #, and matches from the first line on.
    assert [line for line in lines if not line.startswith("#")] == [
        "allreduce,0,6999999,tree,ll128,-1,4,32,-1,-1",
        "allreduce,7000000,9223372036854775807,nvls_tree,simple,-1,4,32,-1,-1",
    ]


@pytest.mark.parametrize("op", [Collective.ALL_TO_ALL, Collective.SEND_RECV])
def test_the_tuner_knows_no_point_to_point(op):
    with pytest.raises(InputError, match=r"chooses nothing for .*; allowed: all-reduce"):
        tuner_csv(op, SYSTEM, (SizeRange(1, 2, RING),))


DESIGN = """\
railweave: 1
name: exported
cluster:
  servers: {{model: {server}, count: {count}}}
planes:
  backend:
    transport: {transport}
    topology: {topology}
    switch: {switch}
    {more}
  {frontend}
{end}
"""


def variables(
    *,
    server="dgx-h100",
    count=4,
    transport="rocev2",
    topology="rail-optimized",
    switch="{radix: 64, speed: 400 Gb/s}",
    more="",
    frontend="frontend: {transport: tcp, topology: star, switch: sn4700}",
    end="",
    in_network=False,
    **options,
):
    text = DESIGN.format(
        server=server,
        count=count,
        transport=transport,
        topology=topology,
        switch=switch,
        more=more,
        frontend=frontend,
        end=end,
    )
    design = railweave.parse(text).build()
    system = system_of(design, in_network=in_network)
    found = recommended_environment(design, system, measure_network(design), **options)
    assert all(len(item.reason) > 20 for item in found)
    assert len({item.name for item in found}) == len(found)
    return {item.name: item for item in found}


def test_roce_on_rails():
    found = variables()
    assert found["NCCL_IB_TC"].value == "104"
    assert "lossless priority 3" in found["NCCL_IB_TC"].reason
    assert found["NCCL_IB_GID_INDEX"].value == "3"
    assert found["NCCL_CROSS_NIC"].value == "0"
    # DGX H100 has adapters of the same kind for storage and front end
    assert not found["NCCL_IB_HCA"].known
    assert "storage and frontend" in found["NCCL_IB_HCA"].reason
    assert "frontend" in found["NCCL_SOCKET_IFNAME"].value
    assert "NCCL_IB_QPS_PER_CONNECTION" not in found  # one path a rail: nothing collides
    assert "NCCL_IB_TIMEOUT" not in found
    assert "NCCL_COLLNET_ENABLE" not in found


def test_new_library_finds_the_gid_itself():
    assert "NCCL_IB_GID_INDEX" not in variables(end='software: {nccl: "2.27.3"}')
    assert "NCCL_IB_GID_INDEX" in variables(end='software: {nccl: "2.19.4"}')


def test_traffic_class_is_that_of_the_lossless_class():
    found = variables(more="congestion: {scheme: pfc+dcqcn, classes: sonic-default}")
    assert found["NCCL_IB_TC"].value == str(3 << 2)  # DSCP 26 has no PFC there
    found = variables(more="congestion: dcqcn")
    assert (found["NCCL_IB_TC"].value, "lossless" in found["NCCL_IB_TC"].reason) == ("104", False)


def test_infiniband_needs_neither_gid_nor_class():
    found = variables(transport="infiniband", switch="qm9700")
    assert not {"NCCL_IB_TC", "NCCL_IB_GID_INDEX", "NCCL_IB_ADAPTIVE_ROUTING"} & set(found)
    assert found["NCCL_CROSS_NIC"].value == "0"


def test_sharp():
    found = variables(transport="infiniband", switch="qm9700", in_network=True)
    assert found["NCCL_COLLNET_ENABLE"].value == "1"


def test_adaptive_routing_on_roce():
    found = variables(more="routing: adaptive")
    assert found["NCCL_IB_ADAPTIVE_ROUTING"].value == "1"


SMALL_LEAVES = {"count": 16, "topology": "leaf-spine", "switch": "{radix: 16, speed: 400 Gb/s}"}


def test_more_queue_pairs_where_hashing_collides():
    found = variables(**SMALL_LEAVES)
    assert found["NCCL_IB_QPS_PER_CONNECTION"].value == "4"
    assert found["NCCL_IB_SPLIT_DATA_ON_QPS"].value == "1"
    reason = found["NCCL_IB_QPS_PER_CONNECTION"].reason
    before, after = (int(word.rstrip("%")) for word in reason.split() if word.endswith("%"))
    assert before < after
    assert "NCCL_IB_QPS_PER_CONNECTION" not in variables(**SMALL_LEAVES, more="routing: spray")


def test_queue_pairs_of_the_design():
    found = variables(more="routing: {scheme: ecmp, queue_pairs: 2}")
    assert found["NCCL_IB_QPS_PER_CONNECTION"].value == "2"
    assert "routing.queue_pairs is 2" in found["NCCL_IB_QPS_PER_CONNECTION"].reason


def test_timer_and_retries_of_the_design():
    found = variables(more="congestion: {timeout: 18, retries: 3}")
    assert found["NCCL_IB_TIMEOUT"].value == "18"
    assert "1.07 s" in found["NCCL_IB_TIMEOUT"].reason
    assert found["NCCL_IB_RETRY_CNT"].value == "3"
    old = variables(more="congestion: {timeout: 18}", end='software: {nccl: "2.20"}')
    assert "NCCL_IB_TIMEOUT" not in old  # that library's own


def test_channels_of_the_jobs():
    job = "jobs: [{name: j, collective: all-reduce, size: 1 MiB, channels: 16}]"
    found = variables(end=job)
    assert found["NCCL_MIN_NCHANNELS"].value == found["NCCL_MAX_NCHANNELS"].value == "16"


def test_tcp_and_no_front_end():
    found = variables(transport="tcp", topology="star", frontend="")
    assert found["NCCL_IB_DISABLE"].value == "1"
    assert found["NCCL_CROSS_NIC"].value == "1"
    assert not {"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA"} & set(found)


def test_one_server_needs_nothing_of_the_network():
    found = variables(count=1, topology="star")
    assert not [name for name in found if name.startswith("NCCL_IB")]


def test_tuner_file_is_named():
    assert variables(tuner_file="t.csv")["NCCL_TUNER_CONFIG_FILE"].value == "t.csv"


def test_text_is_that_of_nccl_conf():
    found = variables(more="routing: adaptive")
    text = environment_text(found.values())
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\nNCCL_IB_TC=104\n" in text
    assert "\n#NCCL_IB_HCA==<the 8 back-end mlx5 devices, with commas>\n" in text
    assert environment_text([]) == ""
