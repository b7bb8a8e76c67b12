import pytest

from railweave.design.models import Collective
from railweave.errors import DesignError
from railweave.formats.validation import validate
from railweave.formats.yaml_source import parse_yaml
from railweave.predict.published import (
    _File,
    published_points,
    published_systems,
    table_size,
)

AR = Collective.ALL_REDUCE


def busbw(system_id, op=AR):
    return {
        point.size_bytes: point.busbw_Bps / 1e9
        for point in published_points("fit", "check", "excluded")
        if point.system_id == system_id and point.op is op and point.algorithm is None
    }


@pytest.mark.parametrize(
    ("text", "size"), [("8", 8), ("1K", 1024), ("64K", 65536), ("1M", 1 << 20), ("16G", 16 << 30)]
)
def test_sizes_are_those_of_nccl_tests(text, size):
    assert table_size(text) == size


def test_every_point_is_a_measurement_with_a_source():
    points = published_points("fit", "check", "excluded")
    assert len(points) > 400
    for point in points:
        assert point.time_s > 0
        assert point.size_bytes > 0
        assert point.source.title
        assert point.title
        # nothing is quicker than twice what a GPU's links carry: a slip of the pen would be
        assert point.busbw_Bps < 2 * point.system.scale_up_Bps


def test_what_is_kept_aside_is_not_fitted_to():
    fitted, kept = set(published_points("fit")), set(published_points("check"))
    assert fitted
    assert kept
    assert not fitted & kept
    assert set(published_points()) == fitted | kept


@pytest.mark.parametrize(
    ("system_id", "op", "rows"),
    [
        ("h100-efa-2", AR, {1 << 20: 15.95, 16 << 20: 105.5, 1 << 30: 437, 16 << 30: 487}),
        ("h100-ib-12-sharp", AR, {1 << 29: 356, 1 << 30: 366, 8 << 30: 387}),
        ("gb200-nvl72", AR, {1 << 29: 586, 4 << 30: 839}),
        ("gb200-20-racks", AR, {1 << 29: 151, 16 << 30: 406}),
        ("mi300x-roce-2", AR, {1 << 30: 350, 16 << 30: 358}),
        ("h100-tcp-2", Collective.ALL_GATHER, {1 << 20: 1.0, 1 << 29: 70.9}),
    ],
)
def test_times_and_bus_bandwidths_agree_with_what_was_printed(system_id, op, rows):
    found = busbw(system_id, op)
    for size, expected in rows.items():
        assert found[size] == pytest.approx(expected, rel=0.005)


def test_systems_are_what_they_say():
    systems = published_systems()
    assert systems["gb200-20-racks"].ranks == 1440
    assert systems["gb200-20-racks"].network_Bps == 72 * 50e9
    assert systems["h100-ib-12-sharp"].in_network
    assert systems["h100-efa-2"].network == "efa"
    assert not systems["a100-roce-2"].multicast


TABLE = """
sources: {{a: A source}}
systems:
  one: {{title: One, generation: hopper, domains: 1, ranks_per_domain: 8, scale_up: nvlink,
        scale_up_rate: 450 GB/s}}
tables:
  - {{system: {system}, op: all-reduce, source: {source}, certainty: confirmed, use: fit,
     times_us: {{"8": 12}}}}
"""


@pytest.mark.parametrize(
    ("system", "source", "message"),
    [
        ("on", "a", "'on' is not among this file's systems"),
        ("one", "b", "among this file's source"),
    ],
)
def test_unknown_names_in_the_data_are_found(system, source, message):
    good = parse_yaml(TABLE.format(system="one", source="a"), "t.yaml")
    assert validate(_File, good).tables[0].system == "one"
    with pytest.raises(DesignError, match=message):
        validate(_File, parse_yaml(TABLE.format(system=system, source=source), "t.yaml"))
