"""The comparison's numbers are the engines' own, and follow the design."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compare_designs import CASE, MIX, SMALL, measured

import railweave
from railweave.design.defaults import resolved_yaml
from railweave.errors import InputError
from railweave.fabric import PlaneId
from railweave.transport.compare import (
    CompareCase,
    Measurements,
    MixPart,
    Requirements,
    Technology,
    case_for,
    case_key,
    case_of,
    measure,
    measured_once,
    mix_text,
    parse_mix,
    swap,
    synthetic_design,
    technology_facts,
    technology_of,
)
from railweave.transport.compare._measure import _shares_text
from railweave.transport.compare._score import scores_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: what a user would write for each technology, in place of "transport: rocev2"
WRITTEN = {
    Technology.TCP: "transport: tcp",
    Technology.ROCEV2: "transport: rocev2",
    Technology.INFINIBAND: "transport: infiniband",
    Technology.ADAPTIVE: "transport: rocev2\n    routing: spray\n    congestion: nscc",
}


def built(text: str = SMALL) -> railweave.BuiltDesign:
    return railweave.parse(text, files=False).build()


# ---------------------------------------------------------------- the engines' own


@pytest.mark.parametrize("technology", Technology)
def test_collective_times_are_those_of_simulate_on_the_exchanged_design(technology):
    other = swap(built(), technology).built
    for part, found in zip(MIX, measured().measured[technology].large, strict=True):
        alone = other.with_collective(part.operation, part.size_bytes, ranks=16)
        assert found.network_s == alone.simulate("flow").makespan_s


@pytest.mark.parametrize(
    "technology", [one for one in Technology if one is not Technology.INFINIBAND]
)
def test_a_design_written_by_hand_takes_as_long(technology):
    text = SMALL.replace("transport: rocev2", WRITTEN[technology])
    text += "jobs:\n  - {name: one, collective: all-reduce, size: 4 MiB}\n"
    time_s = built(text).simulate("flow").makespan_s
    assert measured().measured[technology].large[0].network_s == time_s


def test_infiniband_by_hand_differs_by_its_switches_latency_alone():
    latency = swap(built(), Technology.INFINIBAND).built.design.planes.backend.switch.latency
    text = SMALL.replace("transport: rocev2", "transport: infiniband").replace(
        "speed: 100 Gb/s}", f"speed: 100 Gb/s, latency: {latency * 1e9:g} ns}}"
    )
    text += "jobs:\n  - {name: one, collective: all-reduce, size: 4 MiB}\n"
    time_s = built(text).simulate("flow").makespan_s
    found = measured().measured[Technology.INFINIBAND].large[0].network_s
    assert found == pytest.approx(time_s, rel=1e-12)


def test_a_message_takes_the_packet_engines_time_and_the_softwares():
    facts = technology_facts().host
    for technology, one in measured().measured.items():
        late = facts[technology].stack_latency_s
        assert one.message_s == pytest.approx(one.message_network_s + late)
        assert 1e-6 < one.message_network_s < 10e-6
    found = measured().measured
    assert found[Technology.INFINIBAND].message_s < found[Technology.ROCEV2].message_s
    assert found[Technology.TCP].message_s > 3 * found[Technology.ROCEV2].message_s


def test_the_small_collective_waits_for_the_software_before_messages():
    facts = technology_facts().host
    for technology, one in measured().measured.items():
        other = swap(built(), technology).built
        small = CASE.small
        alone = other.with_collective(
            small.operation, small.size_bytes, ranks=16, algorithm=small.algorithm
        )
        assert one.small.network_s == alone.simulate("flow").makespan_s
        late = facts[technology].stack_latency_s
        messages = (one.small.time_s - one.small.network_s) / late
        assert 3 < messages < 20  # a tree of 8 servers goes up and down


def test_processors_work_by_the_stated_cycles():
    one = measured().measured[Technology.TCP].large[0]
    other = swap(built(), Technology.TCP).built
    result = other.with_collective(MIX[0].operation, MIX[0].size_bytes, ranks=16).simulate("flow")
    fabric = other.fabric
    server = fabric.node_server
    network = (fabric.link_plane == PlaneId.BACKEND) & (fabric.link_layer == 2)
    worst = 0.0
    facts, machine = technology_facts().host[Technology.TCP], technology_facts().machine
    for number in range(8):
        out = result.link_bytes[network & (server[fabric.link_src] == number)].sum()
        into = result.link_bytes[network & (server[fabric.link_dst] == number)].sum()
        cycles = out * facts.send_cycles_per_byte + into * facts.receive_cycles_per_byte
        cycles += (out + into) / 2 / machine.chunk_bytes * facts.cycles_per_transfer
        worst = max(worst, cycles)
    seconds = worst / (measured().cores * machine.core_share * machine.clock_hz)
    assert one.host_s == pytest.approx(seconds)
    assert one.time_s == max(one.network_s, one.host_s)


def test_fewer_cores_slow_tcp_and_nothing_else():
    few = measured(SMALL, replace(CASE, cores=4))
    for technology in Technology:
        before, after = measured().measured[technology], few.measured[technology]
        slower = after.large[0].time_s > before.large[0].time_s
        assert slower == (technology is Technology.TCP)
        assert after.cores_needed == before.cores_needed


# ---------------------------------------------------------------- they follow the design


def test_twice_the_speed_takes_half_the_time():
    fast = measured(SMALL.replace("100 Gb/s", "200 Gb/s"))
    for technology in set(Technology) - {Technology.TCP}:
        slow_s = measured().measured[technology].large[1].network_s
        fast_s = fast.measured[technology].large[1].network_s
        assert 0.5 < fast_s / slow_s < 0.75
    assert fast.host_bps == 2 * measured().host_bps


def test_oversubscription_slows_exchanges_on_every_technology():
    thin = measured(SMALL + "    oversubscription: 3\n")
    for technology in Technology:
        before, after = measured().measured[technology], thin.measured[technology]
        assert after.large[1].network_s > 1.3 * before.large[1].network_s
        assert after.permutation_ratio > before.permutation_ratio


def test_a_failed_part_counts_on_every_technology():
    cut = built().fail(["spine-1"])
    found = measure(cut, CASE)
    for technology in Technology:
        assert swap(cut, technology).built.failed == ("spine-1",)
        before, after = measured().measured[technology], found.measured[technology]
        assert after.large[1].network_s > before.large[1].network_s


def test_the_failed_uplink_is_that_of_fail():
    found = measured()
    for technology in Technology:
        other = swap(built(), technology).built.fail([found.failed])
        one = found.measured[technology].large[1]
        alone = other.with_collective(MIX[1].operation, MIX[1].size_bytes, ranks=16)
        assert one.failed_s == max(alone.simulate("flow").makespan_s, one.host_s)
        share = found.measured[technology].failed_share
        assert share is not None
        assert 0 < share <= 1


def test_an_uplink_without_another_cuts_off():
    text = SMALL.replace("count: 8", "count: 3").replace("radix: 8", "radix: 4")
    whole = railweave.parse(text, files=False).build()
    found = measure(whole.fail(["spine-1"]), CASE)
    for technology in Technology:
        one = found.measured[technology]
        assert one.large[1].cut_off
        assert one.large[1].failed_s is None
        assert one.failed_share == 0


def test_more_loss_leaves_less():
    heavy = measured(SMALL, replace(CASE, loss=0.02))
    for technology in Technology:
        few, many = measured().measured[technology], heavy.measured[technology]
        assert many.loss_share < few.loss_share <= 1


def test_queue_pairs_spread_rocev2_where_it_is_not_the_designs_own():
    text = SMALL.replace("transport: rocev2", "transport: tcp")
    plain, spread = measured(text), measured(text, replace(CASE, queue_pairs=8))
    roce = Technology.ROCEV2
    assert spread.measured[roce].large[1].network_s < plain.measured[roce].large[1].network_s
    assert spread.measured[Technology.TCP] == plain.measured[Technology.TCP]


def test_the_adaptive_column_spreads_a_permutation():
    found = measured().measured
    hashed, spread = (found[t].permutation_ratio for t in (Technology.ROCEV2, Technology.ADAPTIVE))
    assert 1 <= spread < 0.8 * hashed


def test_the_same_cluster_gives_the_same_numbers():
    assert measure(built(), CASE) == measured()


# ---------------------------------------------------------------- the exchange


@pytest.mark.parametrize(
    "name", ["superpod-h100-1su", "juniper-16-leaf", "ring-of-switches", "star-64-gpus"]
)
def test_topology_counts_and_speeds_stay(name):
    own = railweave.load(EXAMPLES / f"{name}.yaml").build()
    for technology in Technology:
        other = swap(own, technology).built
        for plane in (own, other):
            assert technology_of(plane.design.planes.backend) in Technology
        assert technology_of(other.design.planes.backend) is technology
        mine, his = (one.built.plans[PlaneId.BACKEND].counts for one in (own, other))
        assert mine == his
        assert np.array_equal(own.fabric.link_capacity_bps, other.fabric.link_capacity_bps)
        assert np.array_equal(own.fabric.link_src, other.fabric.link_src)


@pytest.mark.parametrize("technology", Technology)
def test_the_exchanged_design_is_a_valid_one(technology):
    own = railweave.load(EXAMPLES / "superpod-h100-2su.yaml").build()
    other = swap(own, technology).built
    # The subnet manager stays as a host on the fabric, though on Ethernet it manages nothing.
    alone = other.design.model_copy(update={"services": ()})
    text = resolved_yaml(replace(other.document, design=alone))
    again = railweave.parse(text, files=False).design
    assert again.planes.backend.transport == other.design.planes.backend.transport
    assert again.planes.backend.routing == other.design.planes.backend.routing
    assert again.planes.backend.congestion == other.design.planes.backend.congestion


def test_the_designs_own_technology_stands_as_it_is():
    own = built(SMALL + "    routing: {scheme: e-ecmp, queue_pairs: 4}\n    congestion: dcqcn\n")
    kept = swap(own, Technology.ROCEV2)
    assert kept.own
    assert kept.built is own
    assert not swap(own, Technology.TCP).own


def test_a_switch_of_the_catalog_lends_latency_and_power():
    own = railweave.load(EXAMPLES / "superpod-h100-1su.yaml").build()
    catalog = own.document.catalog
    mine, roce = swap(own, Technology.INFINIBAND), swap(own, Technology.ROCEV2)
    assert mine.switches_w == 12 * catalog.switch("qm9700").power_w
    assert roce.switches_w == pytest.approx(12 * catalog.switch("sn5400").power_w)
    assert roce.built.design.planes.backend.switch.latency == catalog.switch("sn5400").latency_s
    assert mine.nics_w == roce.nics_w == 31 * 8 * catalog.nic("cx7-400g").power_w


def test_encryption_and_isolation_that_do_not_exist_there_are_said():
    own = built(SMALL + "    encryption: ipsec\n    isolation: vrf\n")
    there = swap(own, Technology.INFINIBAND)
    assert there.built.design.planes.backend.encryption == "none"
    assert there.built.design.planes.backend.isolation == "pkey"
    assert any("ipsec" in note for note in there.notes)
    assert swap(own, Technology.TCP).built.design.planes.backend.encryption == "ipsec"


def test_adapters_that_do_not_speak_it_are_named():
    text = synthetic_design(32, server="p5-h100-efa")
    found = measured(text)
    assert set(found.unable) == {"rocev2", "infiniband", "adaptive"}
    assert "p5-h100-efa" in found.unable["rocev2"][0]
    assert found.speaks == ("srd", "tcp")


# ---------------------------------------------------------------- what is kept and read


def test_a_document_reads_back():
    found = measured()
    assert Measurements.of(json.loads(json.dumps(found.document(), allow_nan=False))) == found


def test_what_is_kept_is_not_measured_again(tmp_path):
    told: list[str] = []

    def progress(step: str, fraction: float) -> None:
        told.append(step)

    first = measured_once(built(), CASE, tmp_path, progress=progress)
    assert told
    told.clear()
    renamed = built(SMALL.replace("name: small", "name: other"))
    again = measured_once(renamed, CASE, tmp_path, progress=progress)
    assert not told
    assert again == replace(first, design="other")
    measured_once(built(), replace(CASE, loss=0.01), tmp_path, progress=progress)
    assert told
    told.clear()
    cut = built().fail(["spine-1"])
    assert measured_once(cut, CASE, tmp_path, progress=progress) != first
    assert told


def test_a_cancelled_comparison_keeps_nothing(tmp_path):
    def progress(step: str, fraction: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured_once(built(), CASE, tmp_path, progress=progress)
    assert not list(tmp_path.rglob("*.json"))


def test_the_designs_collectives_are_the_mix():
    text = SMALL + (
        "jobs:\n  - {name: a, collective: all-to-all, size: 8 MiB, ranks: 8}\n"
        "  - {name: b, collective: all-reduce, size: 1 MiB, algorithm: tree}\n"
    )
    case = case_of(built(text), "training")
    assert mix_text(case.mix) == "all-to-all:8388608B:1,all-reduce/tree:1048576B:1"
    assert case.ranks == 8
    assert case_of(built(text), "training", ranks=4).ranks == 4
    assert case_of(built(), "inference") == case_for("inference")


def test_a_mix_is_read_and_written():
    text = "all-reduce/tree:256MiB:0.7,all-to-all:64MiB"
    mix = parse_mix(text)
    assert [part.share for part in mix] == [0.7, 1.0]
    assert parse_mix(mix_text(mix)) == mix


def shared(*shares: float) -> tuple[MixPart, ...]:
    return tuple(replace(part, share=share) for part, share in zip(MIX, shares, strict=True))


def test_shares_count_by_their_sum_and_it_is_said():
    found = measured(SMALL, replace(CASE, mix=shared(0.9, 0.6)))
    said = (
        "the shares of the mix add up to 1.5, not 1, and count by their sum: 60.0 % all-reduce, "
        "40.0 % all-to-all"
    )
    assert said in found.assumptions
    mine, plain = (scores_of(Requirements(), one) for one in (found, measured()))
    for technology in Technology:  # MIX has 0.6 and 0.4
        assert mine[technology][0].value == pytest.approx(plain[technology][0].value, rel=1e-12)


@pytest.mark.parametrize(
    ("shares", "said"),
    [((2.0, 2.0), True), ((1.0, 2.0), True), ((0.7, 0.3), False), ((1.0, 1.0), False)],
)
def test_shares_that_add_up_or_are_left_out_need_no_word(shares, said):
    assert bool(_shares_text(shared(*shares))) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("all-reduce", "operation:size:share"),
        ("all-redce:1MiB", "did you mean 'all-reduce'"),
        ("all-reduce:1MiB:x", "no share"),
        ("all-reduce:1MiB:0", "above 0"),
        ("all-to-all/ring:1MiB", "cannot do"),
        ("all-reduce:5", "unit"),
        ("", "operation:size:share"),
    ],
)
def test_a_wrong_mix_is_refused(text, said):
    with pytest.raises(InputError, match=said):
        parse_mix(text)


@pytest.mark.parametrize(
    "field", [{"queue_pairs": 0}, {"ranks": 1}, {"cores": 0}, {"loss": 0.0}, {"loss": 1.0}]
)
def test_a_wrong_case_is_refused(field):
    with pytest.raises(InputError, match=next(iter(field))):
        replace(CASE, **field)


def test_clusters_that_cannot_be_compared_are_refused():
    one = built(SMALL.replace("count: 8", "count: 1"))
    with pytest.raises(InputError, match="no two servers"):
        measure(one, CASE)
    with pytest.raises(InputError, match="17 are wanted and the design has 16"):
        measure(built(), replace(CASE, ranks=17))
    with pytest.raises(InputError, match="nearest: 96"):
        synthetic_design(100)
    with pytest.raises(InputError, match="the mix is empty"):
        CompareCase(mix=(), small=MixPart(MIX[0].operation, 1))


def test_an_own_catalog_that_changes_is_measured_again(tmp_path):
    part = (
        "switches:\n  ours:\n    like: sn5400\n    title: Ours\n    source: us\n"
        "    certainty: assumed\n    power: {power}\nsources: {{us: our own}}\n"
    )
    text = SMALL.replace("{radix: 8, speed: 100 Gb/s}", "ours") + "catalog: [parts.yaml]\n"
    (tmp_path / "design.yaml").write_text(text, encoding="utf-8")
    keys = []
    for power in ("2 kW", "3 kW"):
        (tmp_path / "parts.yaml").write_text(part.format(power=power), encoding="utf-8")
        keys.append(case_key(railweave.load(tmp_path / "design.yaml").build(), CASE))
    assert keys[0] != keys[1]
    assert keys[0]["design"] == keys[1]["design"]
