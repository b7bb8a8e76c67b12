import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from collective_systems import amd, system
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.design.models import Algorithm, Collective
from railweave.errors import InputError
from railweave.predict._nccl_options import FabricShares, grown, options_of
from railweave.predict._nccl_usable import why_not
from railweave.predict._nccl_volume import nccl_volume, tree_of_domains
from railweave.predict.calibration import library_calibration, prior_calibration
from railweave.predict.collective import (
    NcclAlgorithm,
    NcclProtocol,
    NetworkPart,
    choose,
    collective_time_s,
    collective_times_s,
    expected_busbw,
    size_band,
)
from railweave.workload import bus_factor, collective_volume

AR, AG, RS = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER
A, P = NcclAlgorithm, NcclProtocol
MIB, GIB = 1 << 20, 1 << 30
LIBRARY = library_calibration()


def options(some_system, op=AR, calibration=LIBRARY):
    found = options_of(some_system, op, FabricShares(), calibration)
    return {(option.algorithm, option.protocol): option for option in found}


# ---------------------------------------------------------------- NCCL's published formulas


def test_ring_latency_is_the_published_formula():
    # base + (steps − inter)·max(intra, overhead) + inter·net; 2 nodes of 8, all-reduce
    assert options(system(2))[A.RING, P.LL].latency_s == pytest.approx(
        (6.6 + (30 - 2) * 1.0 + 2 * 2.7) * 1e-6
    )
    # Simple posts three times as much: max(3.4, 3), and Ring/Simple has its plateau of 1.4
    expected = (8.4 + 1.4 * ((30 - 2) * 3.4 + 2 * 14)) * 1e-6
    assert options(system(2))[A.RING, P.SIMPLE].latency_s == pytest.approx(expected)
    assert options(system())[A.RING, P.LL128].latency_s == pytest.approx((14 + 14 * 1.9) * 1e-6)


@pytest.mark.parametrize(("domains", "levels"), [(1, 0), (2, 1), (3, 1), (4, 2), (31, 4), (32, 5)])
def test_tree_latency_is_the_published_formula(domains, levels):
    # base + 2·((per node − 1)·intra + log2(nodes)·inter)
    expected = (6.8 + 2 * (7 * 0.6 + levels * 5.0)) * 1e-6
    assert options(system(domains))[A.TREE, P.LL].latency_s == pytest.approx(expected)


def test_latencies_of_the_others():
    sharp = system(4, in_network=True)
    found = options(sharp)
    assert found[A.NVLS_TREE, P.SIMPLE].latency_s == pytest.approx((25 + 2 * 2 * 20.9) * 1e-6)
    assert found[A.NVLS, P.SIMPLE].latency_s == pytest.approx((25 + 18) * 1e-6)
    direct = 2 * (3.7 + 7 * 0.4) + 31
    assert found[A.COLLNET_DIRECT, P.SIMPLE].latency_s == pytest.approx(direct * 1e-6)
    assert found[A.COLLNET_CHAIN, P.SIMPLE].latency_s == pytest.approx((2 * 7 * 2.8 + 30) * 1e-6)
    alone = options(system(16, 1), AG)[A.PAT, P.SIMPLE]
    assert alone.latency_s == pytest.approx((8 + 4 * 14 / 3.5 + 16 * 2.8) * 1e-6)


def test_bandwidths_are_nvlinks_and_the_published_corrections():
    inside = options(system())
    ring = 450e9 * 0.824  # 18 links of 20.6 GB/s
    factor = 8 / 14
    assert inside[A.RING, P.SIMPLE].binding.algbw_Bps == pytest.approx(ring * factor)
    assert inside[A.RING, P.LL128].binding.algbw_Bps == pytest.approx(0.92 * ring * factor)
    assert inside[A.RING, P.LL].binding.algbw_Bps == pytest.approx(141e9 * factor)
    assert inside[A.TREE, P.SIMPLE].binding.algbw_Bps == pytest.approx(0.92 * ring / 2)
    assert inside[A.TREE, P.LL].binding.algbw_Bps == pytest.approx(0.92 * ring / 2 / 3.8)
    two = options(system(2))
    assert two[A.TREE, P.LL].binding.algbw_Bps == pytest.approx(45e9 / 2)


def test_trees_at_middle_sizes_have_ncclls_correction():
    option = options(system(2))[A.TREE, P.LL128]
    assert [option.correction(size) for size in (8, 64, MIB, GIB)] == [1.0, 1.0, 0.6, 1.0]
    sizes = np.array([8.0, 64, 1000, MIB, 16 * MIB, GIB])
    assert option.times_s(sizes) == pytest.approx([option.time_s(size) for size in sizes])


# ---------------------------------------------------------------- what can be used


@pytest.mark.parametrize(
    ("where", "op", "algorithm", "protocol", "reason"),
    [
        (system(2), AG, A.TREE, P.SIMPLE, "serves all-reduce only"),
        (system(2), AR, A.PAT, P.SIMPLE, "serves all-gather, reduce-scatter only"),
        (system(2), AR, A.NVLS_TREE, P.LL, "Simple only"),
        (system(), AR, A.NVLS_TREE, P.SIMPLE, "several domains"),
        (system(2), AR, A.NVLS, P.SIMPLE, "SHARP"),
        (system(2), AR, A.COLLNET_DIRECT, P.SIMPLE, "SHARP"),
        (system(), AR, A.COLLNET_CHAIN, P.SIMPLE, "several domains"),
        (system(generation="ampere", multicast=False), AR, A.NVLS, P.SIMPLE, "NVSwitch"),
        (system(2, scale_up="pcie"), AR, A.RING, P.LL128, "not PCIe"),
        (system(2, network="tcp"), AR, A.RING, P.LL128, "not TCP"),
        (system(2), AG, A.PAT, P.SIMPLE, "one rank a domain"),
        (system(2, nics_per_domain=4, in_network=True), AG, A.NVLS, P.SIMPLE, "a NIC for every"),
    ],
)
def test_what_cannot_be_used_says_why(where, op, algorithm, protocol, reason):
    assert reason in why_not(where, op, algorithm, protocol)
    asked = {"algorithm": algorithm, "protocol": protocol}
    with pytest.raises(InputError, match=r"allowed here: .*Ring/Simple"):
        choose(where, op, MIB, **asked)
    listed = choose(where, op, MIB).options
    assert any(o.reason and not o.usable and math.isinf(o.time_s) for o in listed)


@pytest.mark.parametrize(
    ("where", "op", "algorithm"),
    [
        (system(), AR, A.NVLS),
        (system(), AG, A.NVLS),
        (system(2), AR, A.NVLS_TREE),
        (system(2, in_network=True), AR, A.COLLNET_DIRECT),
        (system(2, in_network=True), AG, A.NVLS),
        (system(4, 1), AG, A.PAT),
        (system(4, 1), RS, A.PAT),
        (amd(), AR, A.TREE),
    ],
)
def test_what_can_be_used(where, op, algorithm):
    assert why_not(where, op, algorithm, P.SIMPLE) == ""
    assert choose(where, op, MIB, algorithm=algorithm).best.algorithm is algorithm


def test_every_combination_is_listed_once():
    names = [option.name for option in choose(system(2), AR, MIB).options]
    assert len(names) == len(set(names)) == len(A) * len(P)


# ---------------------------------------------------------------- the choice


def test_small_messages_take_ll_and_large_ones_simple():
    assert choose(system(2), AR, 8).best.name == "Tree/LL"
    assert choose(system(2), AR, GIB).best.name == "NVLSTree/Simple"
    assert choose(system(), AR, GIB).best.name == "NVLS/Simple"
    assert choose(system(2), AG, GIB).best.name == "Ring/Simple"
    assert choose(amd(2), AR, GIB).best.name == "Ring/Simple"


def test_nccl_decides_by_its_own_constants():
    choice = choose(system(4), AR, 4 * MIB)
    usable = [option for option in choice.options if option.usable]
    assert choice.best is min(usable, key=lambda option: option.library_s) is choice.library


@pytest.mark.parametrize("where", [amd(2), system(2, network="efa"), system(2, network="tcp")])
def test_where_another_tuner_decides_the_quickest_is_taken(where):
    for size in (8, MIB, GIB):
        choice = choose(where, AR, size)
        assert choice.time_s == min(option.time_s for option in choice.options)
        assert any(a.subject == "choice of algorithm" for a in choice.assumptions)


@pytest.mark.parametrize("op", [Collective.ALL_TO_ALL, Collective.SEND_RECV])
def test_direct_operations_have_no_choice(op):
    choice = choose(system(2), op, MIB)
    assert [option.name for option in choice.options] == ["Direct/Simple"]


def test_the_reasons_come_from_the_numbers():
    small = choose(system(4), AR, 8)
    assert any("Latency binds" in why for why in small.why)
    large = choose(system(4), AR, 16 * GIB)
    assert any("Bandwidth binds" in why and "the NICs of a domain" in why for why in large.why)
    assert any("by its own constants" in why for why in large.why)
    forced = choose(system(4), AR, GIB, algorithm=A.TREE, protocol=P.LL)
    assert any("was asked for" in why for why in forced.why)
    assert any("would be quicker" in why for why in forced.why)


def test_terms_add_up_and_explain_the_time():
    for size in (8, 64 * MIB, GIB):
        for option in choose(system(4, in_network=True), AR, size).options:
            if not option.usable:
                continue
            latency = sum(t.seconds for t in option.terms if t.kind == "latency")
            transfer = sum(t.seconds for t in option.terms if t.kind == "transfer")
            assert latency == pytest.approx(option.latency_s)
            assert transfer == pytest.approx(option.transfer_s)
            assert option.time_s == pytest.approx(latency + transfer)
            assert all(term.formula for term in option.terms)


def test_bandwidths_are_those_of_nccl_tests():
    choice = choose(system(2), AR, GIB)
    assert choice.algbw_Bps == pytest.approx(GIB / choice.time_s)
    assert choice.busbw_Bps == pytest.approx(choice.algbw_Bps * bus_factor(AR, 16))
    assert choice.best.bus_Bps == pytest.approx(choice.busbw_Bps)
    assert choice.best.peak_bus_Bps > choice.best.bus_Bps


def test_the_band_is_wider_where_less_is_known():
    small, large = choose(system(2), AR, 8), choose(system(2), AR, GIB)
    for choice in (small, large):
        assert choice.busbw_low_Bps < choice.busbw_Bps < choice.busbw_high_Bps
    assert small.busbw_high_Bps / small.busbw_Bps > large.busbw_high_Bps / large.busbw_Bps
    assert [size_band(size) for size in (8, MIB, 64 * MIB, 256 * MIB)] == [
        "latency",
        "middle",
        "middle",
        "large",
    ]


def test_the_band_over_many_sizes_is_that_of_each():
    band = expected_busbw(system(2), AR, [8, MIB, GIB])
    for number, size in enumerate((8, MIB, GIB)):
        choice = choose(system(2), AR, size)
        one = (choice.busbw_low_Bps, choice.busbw_Bps, choice.busbw_high_Bps)
        many = (band.low_Bps[number], band.expected_Bps[number], band.high_Bps[number])
        assert many == pytest.approx(one)
    with pytest.raises(InputError, match="above 0 B"):
        expected_busbw(system(2), AR, [0, 8])


# ---------------------------------------------------------------- the network part


def test_half_the_line_rate_takes_about_twice_as_long():
    where = system(8, nic_Bps=25e9)
    whole = collective_time_s(where, AG, 16 * GIB)
    half = collective_time_s(where, AG, 16 * GIB, network=NetworkPart(ring_share=0.5))
    assert half / whole == pytest.approx(2, rel=0.25)
    untouched = collective_time_s(where, AG, 16 * GIB, network=NetworkPart(pairwise_share=0.5))
    assert untouched == whole


def test_a_long_way_adds_to_every_hop_between_domains():
    near = collective_time_s(system(4), AR, 8, network=NetworkPart(latency_s=1.5e-6))
    assert near == collective_time_s(system(4), AR, 8)
    far = collective_time_s(system(4), AR, 8, network=NetworkPart(latency_s=11.5e-6))
    assert far - near == pytest.approx(2 * 2 * 10e-6)  # two levels, up and down
    short = collective_time_s(system(4), AR, 8, network=NetworkPart(latency_s=0.0))
    assert 0 < short < near


def test_what_the_network_part_assumes_is_said():
    assert any(a.subject == "network" for a in choose(system(2), AR, 8).assumptions)
    part = NetworkPart(ring_share=0.9, source="flow engine")
    choice = choose(system(2), AR, 8, network=part)
    assert choice.network is part
    assert not any(a.subject == "network" for a in choice.assumptions)
    with pytest.raises(InputError, match="cannot reach each other"):
        choose(system(2), AR, 8, network=NetworkPart(tree_share=0.0))


# ---------------------------------------------------------------- properties

SYSTEMS = st.builds(
    system,
    domains=st.integers(1, 64),
    each=st.integers(1, 16),
    network=st.sampled_from(["infiniband", "rocev2", "efa", "tcp"]),
    in_network=st.booleans(),
    nics_per_domain=st.integers(1, 32),
).filter(lambda s: s.ranks > 1)


@settings(max_examples=60, deadline=None)
@given(SYSTEMS, st.sampled_from(list(Collective)), st.integers(1, 1 << 34))
def test_more_bytes_never_take_less_time_with_one_option(where, op, size):
    for option in options_of(where, op, FabricShares(), prior_calibration()):
        if not option.reason:
            assert 0 < option.time_s(size) <= option.time_s(2 * size) <= option.time_s(4 * size)


@settings(max_examples=60, deadline=None)
@given(SYSTEMS, st.sampled_from(list(Collective)), st.lists(st.integers(1, 1 << 36), min_size=1))
def test_many_sizes_at_once_agree_with_one(where, op, sizes):
    at_once = collective_times_s(where, op, sizes)
    assert at_once == pytest.approx([collective_time_s(where, op, size) for size in sizes])
    assert collective_time_s(where, op, sizes[0]) == choose(where, op, sizes[0]).time_s


@settings(max_examples=60, deadline=None)
@given(SYSTEMS, st.sampled_from(list(Collective)))
def test_no_option_moves_more_than_the_links_carry(where, op):
    for option in options_of(where, op, FabricShares(), prior_calibration()):
        if option.reason or option.algorithm in (A.NVLS, A.NVLS_TREE):
            continue  # the switches of NVLS add up: their rate is measured, not a link's
        moved = nccl_volume(op, option.algorithm, where.domains, where.ranks_per_domain)
        rate = option.binding.algbw_Bps
        if op is not Collective.SEND_RECV:
            assert float(moved.inside) * rate <= where.scale_up_Bps * (1 + 1e-9)
            assert float(moved.between) * rate <= where.network_Bps * (1 + 1e-9)


def test_a_single_rank_takes_no_time_and_has_no_choice():
    alone = system(1, 1, multicast=False)
    assert collective_time_s(alone, AR, GIB) == 0.0
    assert collective_times_s(alone, AR, [1, 2]).tolist() == [0.0, 0.0]
    with pytest.raises(InputError, match="2 or more"):
        choose(alone, AR, 8)


@pytest.mark.parametrize("size", [-1.0, math.nan, math.inf])
def test_wrong_sizes_are_refused(size):
    with pytest.raises(InputError, match="size"):
        choose(system(2), AR, size)
    with pytest.raises(InputError, match="size"):
        collective_times_s(system(2), AR, [8, size])


# ---------------------------------------------------------------- volumes, 2 to 64 ranks

SHAPES = [(n // each, each) for n in range(2, 65) for each in range(1, n + 1) if n % each == 0]


@pytest.mark.parametrize("op", [AR, AG, RS, Collective.BROADCAST, Collective.REDUCE])
def test_rings_move_the_closed_form(op):
    for domains, each in SHAPES:
        n = domains * each
        expected = (
            Fraction(
                collective_volume(op, Algorithm.RING, n, n).bytes_sent_per_rank
            ).limit_denominator()
            / n
        )
        moved = nccl_volume(op, A.RING, domains, each)
        assert moved.inside == (expected if each > 1 else 0)
        assert moved.between == (expected if domains > 1 else 0)


def test_trees_over_domains_move_the_closed_form():
    for domains in range(2, 65):
        volume = collective_volume(AR, Algorithm.TREE, domains, 4)
        assert tree_of_domains(domains) == Fraction(volume.bytes_sent_per_rank) / 4
        assert nccl_volume(AR, A.NVLS_TREE, domains, 8).between == tree_of_domains(domains)
    assert tree_of_domains(1) == 0


@pytest.mark.parametrize("algorithm", [A.COLLNET_DIRECT, A.COLLNET_CHAIN, A.NVLS])
def test_with_sharp_the_data_cross_the_network_once(algorithm):
    for domains, each in SHAPES:
        assert nccl_volume(AR, algorithm, domains, each).between == (domains > 1)


def test_an_all_to_all_moves_every_byte_once():
    for domains, each in SHAPES:
        n = domains * each
        moved = nccl_volume(Collective.ALL_TO_ALL, None, domains, each)
        assert moved.inside + moved.between / each == Fraction(n - 1, n)


@pytest.mark.parametrize("op", [AR, AG, RS])
def test_no_algorithm_moves_less_than_it_must(op):
    """Each domain must send its share of the sum, or receive what it lacks."""
    for domains, each in SHAPES:
        if domains == 1:
            continue
        least = Fraction(domains - 1, domains)
        for algorithm in A:
            if why_not(system(domains, each), op, algorithm, P.SIMPLE):
                continue
            must = 2 * least if op is AR else least
            assert nccl_volume(op, algorithm, domains, each).between >= must


def test_rubin_and_other_gpus_have_their_nearest_constants():
    for generation, nearest in (("rubin", "blackwell"), ("other", "hopper")):
        one = system(2, generation=generation)
        assert collective_time_s(one, AR, GIB) == collective_time_s(
            replace(one, generation=nearest), AR, GIB
        )


def test_the_filling_grows_by_the_log_beyond_what_was_measured():
    assert [grown(n, 0.65) for n in (1, 2, 20)] == pytest.approx([1, 2**0.65, 20**0.65])
    steps = [grown(20 * 2**k, 0.65) for k in range(10)]
    assert np.diff(steps) == pytest.approx([20**0.65 * 0.65 * math.log(2)] * 9)
