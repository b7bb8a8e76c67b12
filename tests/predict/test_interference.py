"""Interference: what closed forms say of jobs that share one uplink, all of it, or nothing."""

import dataclasses

import numpy as np
import pytest

import railweave
from railweave.design.models import PlacementName
from railweave.engine.choice import EngineChoice
from railweave.errors import InputError
from railweave.fabric import LinkLayer
from railweave.predict.interference import COMPARED, compare_placements, interference
from railweave.report.interference import (
    interference_json,
    interference_table,
    shared_link_table,
)

#: four servers of one GPU, two a leaf, one spine: each leaf has as much up as one server can send
DESIGN = """\
railweave: 1
name: two-jobs
cluster:
  servers:
    count: 4
    inline: {gpus: 1, nics: 1, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}
planes:
  backend:
    transport: rocev2
    topology: leaf-spine
    switch: {radix: 3, speed: 100 Gb/s}
    oversubscription: 2
"""
ACROSS = """\
jobs:
  - {name: one, collective: send-recv, size: 100 MB, placement: [0, 2]}
  - {name: two, collective: send-recv, size: 100 MB, placement: [1, 3]}
"""
APART = ACROSS.replace("[0, 2]", "[0, 1]").replace("[1, 3]", "[2, 3]")


def built(jobs, head=DESIGN):
    return railweave.parse(head + jobs).build()


def by_name(found):
    return {job.name: job for job in found.jobs}


def test_the_fabric_is_what_the_closed_forms_need():
    fabric = built(ACROSS).fabric
    assert len(fabric.gpus) == 4
    up = fabric.link_layer == LinkLayer.LEAF_SPINE
    leaves = fabric.node_tier[fabric.link_src[up]] == 1
    assert np.unique(fabric.link_src[up][leaves], return_counts=True)[1].tolist() == [1, 1]
    assert set(fabric.link_capacity_bps[up].tolist()) == {100e9}


def test_two_jobs_across_one_uplink_take_twice_as_long():
    found = interference(built(ACROSS))
    for job in found.jobs:
        assert job.slowdown == pytest.approx(2.0, rel=1e-3)
        assert job.overlap == pytest.approx(1.0, abs=1e-5)
        assert job.share_crossing == 1.0
        assert job.shared_links > 0
    link = found.links[0]
    assert link.jobs == ("one", "two")
    assert link.asked == pytest.approx(2.0, rel=1e-3)
    assert {end.split("-")[0] for end in (link.source, link.destination)} == {"leaf", "spine"}
    assert found.contended_links == found.shared_links == len(found.links)
    assert found.placement is None
    assert found.engine == "flow"


def test_jobs_under_leaves_of_their_own_do_not_meet():
    found = interference(built(APART))
    assert [job.slowdown for job in found.jobs] == pytest.approx([1.0, 1.0], rel=1e-12)
    assert found.shared_links == found.contended_links == 0
    assert found.links == ()
    assert [job.share_crossing for job in found.jobs] == [0.0, 0.0]


def test_jobs_one_after_the_other_share_links_but_do_not_slow_each_other():
    found = interference(built(ACROSS.replace("[1, 3]", "[1, 3], start: 1 s")))
    assert [job.slowdown for job in found.jobs] == pytest.approx([1.0, 1.0], rel=1e-9)
    assert [job.overlap for job in found.jobs] == [0.0, 0.0]
    assert found.shared_links > 0


def test_half_the_time_side_by_side():
    # The shorter runs at half pace all along: t = 2 of its own; the longer is slowed for as long.
    longer = ACROSS.replace("size: 100 MB, placement: [1, 3]", "size: 200 MB, placement: [1, 3]")
    jobs = by_name(interference(built(longer)))
    assert jobs["one"].slowdown == pytest.approx(2.0, rel=1e-3)
    assert jobs["two"].slowdown == pytest.approx(1.5, rel=1e-3)
    assert jobs["two"].overlap == pytest.approx(2 / 3, rel=1e-3)


def test_iterations_count_for_one():
    once = interference(built(ACROSS))
    more = interference(built(ACROSS.replace("MB,", "MB, iterations: 3,")))
    for a, b in zip(once.jobs, more.jobs, strict=True):
        assert b.alone_s == pytest.approx(a.alone_s, rel=1e-3)
        assert b.together_s == pytest.approx(a.together_s, rel=1e-2)


def test_the_packet_engine_sees_it_too():
    small = ACROSS.replace("100 MB", "1 MB")
    whole = built(small)
    choice = EngineChoice("packet", settings=whole.packet_settings())
    found = interference(whole, choice=choice)
    assert found.engine == "packet"
    assert found.worst.slowdown > 1.9  # rate control costs more than the fair share
    assert found.links[0].asked > 1.5


def test_other_traffic_runs_with_the_jobs_and_is_named():
    web = ACROSS + (
        "background:\n  - {name: web, plane: backend, load: 0.3, duration: 5 ms, sizes: 1 MB}\n"
    )
    found = interference(built(web))
    assert found.others == ("web",)
    assert found.worst.slowdown > interference(built(ACROSS)).worst.slowdown
    assert "Together includes web." in interference_table([found]).notes


RULES = """\
jobs:
  - {name: one, collective: all-reduce, size: 10 MB, ranks: 8}
  - {name: two, collective: all-reduce, size: 10 MB, ranks: 8, placement: spread}
  - {name: set, collective: all-reduce, size: 10 MB, placement: [0, 15]}
"""
LARGER = DESIGN.replace("count: 4", "count: 16").replace("radix: 3", "radix: 6")


def test_rules_place_all_but_lists_and_what_would_be_the_same_is_left_out():
    whole = built(RULES, LARGER)
    found = compare_placements(whole)
    assert [one.placement for one in found] == [None, *COMPARED]
    spread = [None, PlacementName.SPREAD]
    alone = whole.design.jobs[:2]
    same = tuple(job.model_copy(update={"placement": PlacementName.SPREAD}) for job in alone)
    all_spread = dataclasses.replace(
        whole,
        document=dataclasses.replace(
            whole.document, design=whole.design.model_copy(update={"jobs": same})
        ),
    )
    assert [one.placement for one in compare_placements(all_spread, spread)] == [None]
    assert [one.placement for one in compare_placements(built(ACROSS))] == [None]
    packed = interference(whole, rule=PlacementName.PACKED)
    as_stated = interference(whole)
    assert by_name(packed)["set"].share_crossing == by_name(as_stated)["set"].share_crossing == 1.0
    assert by_name(packed)["two"].share_crossing < by_name(as_stated)["two"].share_crossing
    optimized = interference(whole, rule=PlacementName.OPTIMIZED)
    first = (by_name(one)["one"].share_crossing for one in (optimized, packed))
    assert next(first) <= next(first)
    assert any("optimized: " in item.statement for item in optimized.assumptions)


def test_progress_grows_and_names_what_is_done():
    seen = []
    compare_placements(built(RULES, LARGER), progress=lambda step, part: seen.append((part, step)))
    assert seen == sorted(seen, key=lambda one: one[0])
    assert seen[-1][0] == 1.0
    assert any(step == "fragments: two alone" for _, step in seen)


def test_what_cannot_be_compared_is_refused():
    one = DESIGN + ACROSS.splitlines()[0] + "\n" + ACROSS.splitlines()[1] + "\n"
    with pytest.raises(InputError, match="takes two jobs, and the design has 1"):
        interference(railweave.parse(one).build())
    with pytest.raises(InputError, match="allowed: flow, packet"):
        interference(built(ACROSS), choice=EngineChoice("analytic"))


def test_tables_and_document():
    found = compare_placements(built(RULES, LARGER))
    table = interference_table(found)
    assert [row[:2] for row in table.rows[:2]] == [("one", "as designed"), ("one", "packed")]
    assert len(table.rows) == 3 * len(found)
    links = shared_link_table(found[0])
    assert links.rows
    assert len(links.rows) <= 12
    document = interference_json(found)
    assert document[0]["placement"] == "as designed"
    assert document[0]["jobs"][0]["slowdown"] == found[0].jobs[0].slowdown
    assert document[0]["links"][0]["asked"] == found[0].links[0].asked
    nothing = shared_link_table(interference(built(APART)))
    assert nothing.rows == ()


def test_a_training_step_takes_its_arithmetic_as_in_a_run():
    train = """\
jobs:
  - {name: train, model: llama3-8b, parallelism: {data: 2}, ranks: 2, placement: [0, 2]}
"""
    both = built(train + ACROSS.partition("\n")[2].partition("\n")[2])
    alone = by_name(interference(both))["train"].alone_s
    assert both.workload().jobs[0].step.compute_s > 0.2 * alone
    assert alone == pytest.approx(built(train).simulate().makespan_s, rel=1e-6)
