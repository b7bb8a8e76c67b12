"""Studies of traffic patterns: the numbers, where they come from, and sentences they bear out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import railweave
from railweave.design.models import Algorithm, Collective, PlacementName
from railweave.engine.analytic import collective_time, simulate_analytic, simulate_split
from railweave.engine.flow import simulate_flow
from railweave.errors import InputError
from railweave.report import _pattern_run
from railweave.report.patterns import compare_strategies, study_pattern
from railweave.workload.patterns import (
    PatternCase,
    Strategy,
    pattern_network,
    pattern_ranks,
    pattern_traffic,
)

DATA, TENSOR, CONTEXT, PIPELINE, EXPERT = Strategy
TREE = Algorithm.TREE
DESIGN = Path(__file__).parents[1] / "golden" / "small.yaml"


@pytest.fixture(scope="module")
def built():
    return railweave.load(DESIGN).build()


def said(study, text: str) -> bool:
    return any(text in sentence for sentence in study.interpretation)


# ---------------------------------------------------------------- the default case


def test_four_gpus_at_the_defaults():
    study = study_pattern(PatternCase())
    assert study.bytes_sent_per_gpu == 384_000_000
    assert study.time_s == pytest.approx(0.03072, rel=1e-12)
    assert study.analytic_s == pytest.approx(0.03072, rel=1e-12)
    assert (study.latency_s, study.bound) == (0.0, "bandwidth")
    assert study.total_bytes == 1_536_000_000
    assert (study.messages, study.steps) == (24, 6)
    assert (study.share_server, study.share_leaf) == (0.0, 1.0)
    ring = np.roll(np.eye(4), 1, axis=1) * 384e6
    assert study.matrix_bytes == pytest.approx(ring)
    assert said(study, "Each GPU sends 384 MB")
    assert said(study, "Every GPU sends to one other.")
    assert said(study, "links twice as fast would halve it")
    assert said(study, "The flow engine agrees")
    assert study.title == "Data parallel"
    assert study.link_bps == 100e9


def test_headers_are_assumed_where_they_are_counted_only(built):
    plain, on_fabric = study_pattern(PatternCase()), study_pattern(PatternCase(), built)
    headers = [
        [item.statement for item in study.assumptions if "headers" in item.statement]
        for study in (plain, on_fabric)
    ]
    assert [len(said) for said in headers] == [1, 1]
    assert "packets have no headers" in headers[0][0]
    assert "count packet headers" in headers[1][0]


def test_trace_has_every_message_and_the_end():
    study = study_pattern(PatternCase())
    assert study.trace_whole
    assert len(study.trace) == 24 + 1
    assert study.trace[0].where == "rank 0 → rank 1"
    assert study.trace[0].what == "gradients, 1 of 6: 64 MB, there at 5.12 ms"
    times = [event.time_s for event in study.trace]
    assert times == sorted(times)
    assert times[-1] == study.time_s


def test_trace_of_many_messages_has_parts():
    study = study_pattern(PatternCase(EXPERT, 40, exchanges=3))
    assert not study.trace_whole
    assert [event.what for event in study.trace] == [
        "dispatch begins: 1,560 messages",
        "combine begins: 1,560 messages",
        "exchange 1 of 3 is over",
        "the step's communication is over",
    ]


# ---------------------------------------------------------------- bandwidth and latency


@pytest.mark.parametrize(
    ("strategy", "op", "algorithm"),
    [
        (DATA, Collective.ALL_REDUCE, Algorithm.RING),
        (TENSOR, Collective.ALL_REDUCE, Algorithm.HALVING_DOUBLING),
        (EXPERT, Collective.ALL_TO_ALL, Algorithm.DIRECT),
    ],
)
def test_terms_are_those_of_the_closed_form(strategy, op, algorithm):
    case = PatternCase(strategy, 8, 4_000_000, exchanges=3, latency_s=20e-6, algorithm=algorithm)
    times = 3 * (2 if strategy is EXPERT else 1)
    study = study_pattern(case)
    whole = collective_time(op, algorithm, 8, 4_000_000, 100e9, 20e-6).time_s
    prompt = collective_time(op, algorithm, 8, 4_000_000, 100e9).time_s
    assert study.analytic_s == pytest.approx(times * whole)
    assert study.bandwidth_s == pytest.approx(times * prompt)
    assert study.latency_s == pytest.approx(times * (whole - prompt))
    assert study.time_s == pytest.approx(times * whole, rel=1e-6)


def test_a_pipeline_fills_and_then_keeps_its_pace():
    case = PatternCase(PIPELINE, 4, 10_000_000, exchanges=6, latency_s=1e-4)
    one = 10e6 * 8 / 100e9
    # six hops; a stage in the middle sends two messages a micro-batch by one link
    assert study_pattern(case).analytic_s == pytest.approx(6 * (one + 1e-4) + 5 * 2 * one, rel=0.05)
    two = replace(case, gpus=2)
    assert study_pattern(two).time_s == pytest.approx(2 * (one + 1e-4) + 5 * one)


def test_small_messages_are_bound_by_latency():
    small = study_pattern(PatternCase(TENSOR, 8, 10_000, latency_s=5e-6))
    assert small.bound == "latency"
    assert said(small, "so latency binds")
    # at the payload that it names the two terms are equal
    sentence = next(s for s in small.interpretation if s.startswith("The two weigh"))
    assert sentence == "The two weigh about the same at a payload of 500 kB."
    even = study_pattern(PatternCase(TENSOR, 8, 500_000, latency_s=5e-6))
    assert even.latency_s == pytest.approx(even.bandwidth_s)
    assert study_pattern(PatternCase(TENSOR, 8, 5_000_000, latency_s=5e-6)).bound == "bandwidth"


def test_size_and_latency_reorder_algorithms_and_strategies():
    def time_s(**fields) -> float:
        return study_pattern(PatternCase(TENSOR, 16, latency_s=5e-6, **fields)).time_s

    assert time_s(payload_bytes=10_000) > time_s(payload_bytes=10_000, algorithm=TREE)
    assert time_s(payload_bytes=256_000_000) < time_s(payload_bytes=256_000_000, algorithm=TREE)
    names = [study.case.strategy for study in compare_strategies(PatternCase(exchanges=4))]
    assert sorted(names) == sorted(Strategy)
    assert names[-1] is PIPELINE


def test_comparison_keeps_what_a_strategy_can_have():
    case = PatternCase(EXPERT, skew=0.5)
    studies = {study.case.strategy: study for study in compare_strategies(case)}
    assert studies[EXPERT].case.skew == 0.5
    assert studies[DATA].case.skew == 0.0
    trees = compare_strategies(PatternCase(TENSOR, algorithm=TREE))
    kept = {study.case.strategy: study.case.algorithm for study in trees}
    assert kept == {DATA: TREE, TENSOR: TREE, CONTEXT: None, PIPELINE: None, EXPERT: None}


# ---------------------------------------------------------------- what is simulated of a step


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("per_server", [1, 4])
def test_a_step_is_what_all_its_exchanges_take(strategy, per_server):
    case = PatternCase(
        strategy, 8, 1_000_000, exchanges=4, latency_s=2e-6, gpus_per_server=per_server
    )
    net = pattern_network(case)
    traffic = pattern_traffic(case, pattern_ranks(case, net.fabric))
    study = study_pattern(case)
    assert study.time_s == pytest.approx(
        simulate_flow(net.fabric, traffic, net.routing).makespan_s, rel=1e-6
    )
    assert study.total_bytes == pytest.approx(traffic.total_bytes)
    assert study.messages == int(traffic.task_rounds[traffic.stream_task].sum())


@pytest.mark.parametrize(
    ("case", "within"),
    [
        (PatternCase(TENSOR, 32, latency_s=5e-6, algorithm=TREE), 0.001),
        (PatternCase(TENSOR, 32, latency_s=5e-6, algorithm=TREE, gpus_per_server=8), 0.02),
        (PatternCase(PIPELINE, 16, 16_000_000, exchanges=700, latency_s=5e-6), 0.001),
        (
            PatternCase(PIPELINE, 64, 16_000_000, 400, latency_s=5e-6, gpus_per_server=8),
            0.02,
        ),
    ],
)
def test_a_long_pipeline_goes_on_at_its_pace(case, within, monkeypatch):
    short = study_pattern(case)
    assert any(item.subject == "pipeline" for item in short.assumptions)
    monkeypatch.setattr(_pattern_run, "_EXACT", 10**9)
    exact = study_pattern(case)
    assert not any(item.subject == "pipeline" for item in exact.assumptions)
    assert short.time_s == pytest.approx(exact.time_s, rel=within)
    assert short.total_bytes == exact.total_bytes
    assert short.messages == exact.messages


@pytest.mark.parametrize(("per_server", "skew"), [(1, 0.0), (8, 0.0), (8, 0.3), (1, 0.3)])
def test_very_many_messages_travel_together(per_server, skew, monkeypatch):
    case = PatternCase(
        EXPERT, 192, 8_000_000, gpus_per_server=per_server, skew=skew, latency_s=1e-6
    )
    joined = study_pattern(case)
    assert any(item.subject == "messages" for item in joined.assumptions)
    monkeypatch.setattr(_pattern_run, "_DIRECT", 10**9)
    whole = study_pattern(case)
    assert joined.time_s == pytest.approx(whole.time_s, rel=0.001)
    assert joined.analytic_s == pytest.approx(whole.analytic_s, rel=0.001)
    assert joined.matrix_bytes == pytest.approx(whole.matrix_bytes)
    assert joined.messages == whole.messages
    assert joined.share_leaf == pytest.approx(whole.share_leaf)


def test_what_bandwidth_takes_is_the_fabric_without_delays():
    case = PatternCase(EXPERT, 12, 1_000_000, latency_s=1e-5, gpus_per_server=4)
    net = pattern_network(case)
    traffic = pattern_traffic(case, pattern_ranks(case, net.fabric))
    result, bandwidth_s = simulate_split(net.fabric, traffic, net.routing)
    prompt = replace(net.fabric, link_delay_s=np.zeros(net.fabric.n_links))
    assert bandwidth_s == simulate_analytic(prompt, traffic, net.routing).makespan_s
    assert result.makespan_s == simulate_analytic(net.fabric, traffic, net.routing).makespan_s
    assert bandwidth_s < result.makespan_s


# ---------------------------------------------------------------- who and where


def test_servers_keep_bytes_inside():
    study = study_pattern(PatternCase(TENSOR, 8, gpus_per_server=8))
    assert study.share_server == 1.0
    assert said(study, "All bytes stay inside a server.")
    apart = study_pattern(PatternCase(TENSOR, 8, servers_per_leaf=2))
    assert (apart.share_leaf, apart.share_spine) == (0.5, 0.5)
    assert said(apart, "Of the bytes, 50.0% cross no more than a leaf and 50.0% cross a spine.")
    assert study.time_s < apart.time_s


def test_a_pipeline_sends_to_neighbours():
    study = study_pattern(PatternCase(PIPELINE, 5, 1_000_000))
    assert said(study, "A GPU sends to 1 to 2 others.")
    assert np.flatnonzero(study.matrix_bytes[2]).tolist() == [1, 3]
    assert study.bytes_sent_per_gpu == 2_000_000
    assert said(study, "The GPU that sends most sends")


def test_a_hot_expert_slows_the_exchange():
    even, hot = (study_pattern(PatternCase(EXPERT, 8, skew=skew)) for skew in (0.0, 0.3))
    assert hot.time_s > 2 * even.time_s
    assert said(hot, "Rank 0 takes in 1.9 times what a GPU does on average")
    assert not said(even, "incast")
    assert said(even, "Every GPU sends to every other.")


def test_hand_overs_are_told():
    study = study_pattern(PatternCase(DATA, 16, gpus_per_server=4))
    extra = study.total_bytes / study.volume.total_bytes - 1
    assert said(study, f"add {extra:.1%} to the algorithm's own volume")


def test_explanations_give_the_numbers():
    study = study_pattern(PatternCase(latency_s=1e-5))
    found = {item.quantity: item for item in study.explanations}
    assert found["bytes a GPU"].value == 384e6
    assert found["bytes a GPU"].formula == "E·(2(n-1)/n·S)"
    assert found["time"].value == study.analytic_s
    assert found["engine time"].value == study.time_s
    assert sum(found["time"].inputs.values()) == pytest.approx(found["time"].value)
    assert all(item.source for item in study.explanations)


# ---------------------------------------------------------------- a design's own fabric


def test_a_design_s_fabric(built):
    case = PatternCase(DATA, 16, 64_000_000)
    study = study_pattern(case, built, routing=built.routing())
    outcome = built.collective(Collective.ALL_REDUCE, 64_000_000, ranks=16)
    assert study.time_s == pytest.approx(outcome.time_s, rel=1e-6)
    assert study.share_spine == pytest.approx(outcome.share_spine)
    assert study.network == "16 GPUs on 2 servers of small, packed"
    assert study_pattern(case, built).time_s == study.time_s
    spread = study_pattern(replace(case, gpus=4, placement=PlacementName.SPREAD), built)
    packed = study_pattern(replace(case, gpus=4), built)
    assert (spread.share_server, packed.share_server) == (0.0, 1.0)


def test_more_gpus_than_the_design_has(built):
    with pytest.raises(InputError, match="33 are wanted, but 32"):
        study_pattern(PatternCase(gpus=33), built)


def test_servers_that_an_algorithm_cannot_use():
    case = PatternCase(DATA, 6, gpus_per_server=4, algorithm=Algorithm.HIERARCHICAL)
    with pytest.raises(InputError, match="hierarchical: servers hold from 2 to 4"):
        study_pattern(case)


def test_json_has_all_of_it():
    study = study_pattern(PatternCase(EXPERT, skew=0.2))
    document = json.loads(json.dumps(study.to_json(), allow_nan=False))
    assert document["bytes_sent_per_gpu"] == study.bytes_sent_per_gpu
    assert document["matrix_bytes"] == study.matrix_bytes.tolist()
    assert document["interpretation"] == list(study.interpretation)
    assert document["case"]["skew"] == 0.2
    assert [part["name"] for part in document["parts"]] == ["dispatch", "combine"]
    assert len(document["trace"]) == len(study.trace)


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("per_server", [1, 4])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_sentences_are_whole(strategy, per_server, times):
    case = PatternCase(
        strategy, 8, 100_000, exchanges=times, gpus_per_server=per_server, latency_s=1e-6
    )
    for sentence in study_pattern(case).interpretation:
        assert sentence[0].isupper()
        assert sentence.endswith(".")
        assert "  " not in sentence
        assert " 1 times" not in sentence
        assert "1 others" not in sentence.replace("to 1 to", "")
        assert "nan" not in sentence
