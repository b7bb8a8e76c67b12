"""What the experiments must show, in numbers of their own and not by their own verdict."""

from __future__ import annotations

import math

import pytest

from railweave.experiments import EXPERIMENTS

GB = 1e9


@pytest.mark.parametrize("item", EXPERIMENTS, ids=lambda item: item.name)
def test_the_claim_holds(item, outcome_of):
    outcome = outcome_of(item.name)
    assert outcome.holds, dict(outcome.values)
    assert all(math.isfinite(value) for value in outcome.values.values())


@pytest.mark.parametrize("senders", [2, 8, 32])
def test_dcqcn_as_in_the_paper_is_fair_with_its_queue_between_the_thresholds(senders, outcome_of):
    values = outcome_of("dcqcn-paper").values
    assert values[f"senders_{senders}_jain"] >= 0.95
    assert 5_000 <= values[f"senders_{senders}_median_queue_bytes"] <= 200_000
    assert values[f"senders_{senders}_pauses"] == 0
    assert values[f"senders_{senders}_use"] > 0.9


def test_ninety_to_ten_converges(outcome_of):
    values = outcome_of("dcqcn-converges").values
    assert values["small_before_share"] == pytest.approx(0.1, abs=0.03)
    assert values["small_after_share"] == pytest.approx(0.5, abs=0.05)
    assert values["jain_095_after_s"] < 0.05


@pytest.mark.parametrize("profile", ["firmware", "simulator", "paper"])
@pytest.mark.parametrize("speed", [100, 200, 400])
def test_profiles_are_measured_at_every_speed(profile, speed, outcome_of):
    values = outcome_of("dcqcn-profiles").values
    for senders in (2, 8, 32):
        at = f"{profile}_{speed}g_{senders}"
        assert values[f"{at}_jain"] >= 0.95
        assert 0.3 < values[f"{at}_use"] <= 1.01


def test_pfc_alone_is_unfair_and_dcqcn_is_not(outcome_of):
    values = outcome_of("pfc-parking-lot").values
    assert values["pfc_3_1_most_over_least"] == pytest.approx(3, rel=0.1)
    assert values["pfc_2_1_1_most_over_least"] == pytest.approx(2, rel=0.1)
    for lot in ("2_2", "2_1_1", "3_1"):
        assert values[f"dcqcn_{lot}_jain"] >= 0.95
        assert values[f"dcqcn_{lot}_pauses"] == 0 < values[f"pfc_{lot}_pauses"]


def test_pfc_alone_has_a_victim_and_dcqcn_has_none(outcome_of):
    values = outcome_of("pfc-victim").values
    assert values["pfc_2_victim_bps"] < values["pfc_0_victim_bps"] < 12 * GB
    assert min(values[f"dcqcn_{k}_victim_bps"] for k in range(3)) > 38 * GB


def test_a_stuck_receiver_stops_others_until_the_watchdog_acts(outcome_of):
    values = outcome_of("pause-storm").values
    assert values["off_unrelated_before_bps"] > 95 * GB
    assert values["off_unrelated_after_bps"] == 0
    assert values["off_dropped_packets"] == values["off_storms"] == 0
    assert values["on_unrelated_during_bps"] == 0
    assert values["on_unrelated_after_bps"] > 95 * GB
    assert values["on_storms"] == 1
    assert values["on_dropped_packets"] > 0


def test_a_paused_priority_leaves_the_other_at_full_rate(outcome_of):
    values = outcome_of("paused-priority").values
    assert values["other_priority_paused_bps"] > 97 * GB
    assert values["other_priority_middle_paused_s"] > 10e-3
    assert values["same_priority_paused_bps"] == 0


def test_reordering_breaks_go_back_n_only(outcome_of):
    values = outcome_of("reordering").values
    assert values["gbn_random_goodput_bps"] < 100 * GB
    assert values["sr_random_goodput_bps"] > 360 * GB
    assert values["sr_random_out_of_order"] > 0
    assert values["sr_random_repeated_per_packet"] == 0


def test_loss_hurts_go_back_n_as_the_formula_says(outcome_of):
    values = outcome_of("goodput-against-loss").values
    losses = ("0", "1e-05", "0.0001", "0.001", "0.002", "0.005", "0.01")
    for loss in losses:
        rule = values[f"rule_500m_loss_{loss}_share"]
        assert values[f"gbn_500m_loss_{loss}_share"] == pytest.approx(rule, abs=0.03)
        assert values[f"sr_500m_loss_{loss}_share"] >= 0.95
    falling = [values[f"gbn_500m_loss_{loss}_share"] for loss in losses]
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] < 0.4
    assert values["gbn_20m_loss_0.01_share"] > 0.55


def test_hashing_loses_what_it_must_and_spraying_recovers_it(outcome_of):
    values = outcome_of("ecmp-elephants").values
    assert values["ecmp_most_off_paths"] < 0.01
    assert values["ecmp_share"] == pytest.approx(values["hashing_expects_share"], abs=0.05)
    assert values["hashing_expects_share"] == pytest.approx(1 - (15 / 16) ** 16)
    assert values["queue_pairs_16_recovered"] >= 0.60
    assert values["spray_recovered"] >= 0.95
    assert values["queue_pairs_16_pfc_only_recovered"] < values["queue_pairs_16_recovered"]


def test_a_slow_uplink_tells_adaptive_routing_from_blind_spraying(outcome_of):
    values = outcome_of("slow-uplink").values
    assert values["spray_random_slow_share"] == pytest.approx(0.5, abs=0.03)
    assert values["spray_round_robin_slow_share"] == pytest.approx(0.5, abs=0.03)
    assert values["adaptive_slow_share"] == pytest.approx(7.5 / 8, abs=0.02)
    assert values["spray_random_whole_share"] > 0.95


def test_infiniband_congestion_control_relieves_the_victim(outcome_of):
    values = outcome_of("infiniband-incast").values
    for senders in (4, 6):
        assert values[f"credits_{senders}_uplink_waits_for_credits_share"] > 0.4
        assert values[f"credits_{senders}_victim_bps"] < 30 * GB
        assert values[f"becn_{senders}_victim_bps"] > 95 * GB
        assert values[f"becn_{senders}_notifications"] > 0


@pytest.mark.parametrize("op", ["allreduce", "alltoall"])
def test_dcqcn_off_wins_where_flows_collide_and_loses_beside_an_incast(op, outcome_of):
    values = outcome_of("collectives-without-dcqcn").values
    assert values[f"{op}_ecmp_pfc_s"] < 0.9 * values[f"{op}_ecmp_dcqcn_s"]
    assert values[f"{op}_ecmp_cts_s"] < 0.9 * values[f"{op}_ecmp_dcqcn_s"]
    assert values[f"{op}_incast_pfc_s"] > 1.5 * values[f"{op}_incast_dcqcn_s"]
    assert values[f"{op}_incast_cts_s"] < 0.9 * values[f"{op}_incast_dcqcn_s"]
    assert values[f"{op}_adaptive_pfc_s"] == values[f"{op}_adaptive_dcqcn_s"]
    assert values[f"{op}_incast_pfc_pauses"] > 0


def test_the_slowest_message_sets_the_time_of_the_collective(outcome_of):
    values = outcome_of("slowest-message").values
    for op in ("allreduce", "alltoall"):
        for state in ("healthy", "ecmp", "slow_nic"):
            at = f"{op}_{state}"
            assert values[f"{at}_p50_s"] <= values[f"{at}_p99_s"] <= values[f"{at}_max_s"]
            assert values[f"{at}_max_s"] <= values[f"{at}_collective_s"] * (1 + 1e-9)
        slow, healthy = (values[f"{op}_{k}_collective_s"] for k in ("slow_nic", "healthy"))
        assert slow == pytest.approx(2 * healthy, rel=0.1)
        # one rank in 16 is slow: the median message is not, the whole is
        ratio = values[f"{op}_slow_nic_p50_s"] / values[f"{op}_healthy_p50_s"]
        assert ratio == pytest.approx(1, rel=0.05)
    assert values["alltoall_slow_nic_cts_p50_s"] > 1.5 * values["alltoall_healthy_p50_s"]


def test_an_adapter_that_ignores_cnps_harms_the_others(outcome_of):
    values = outcome_of("cnp-ignored").values
    assert values["all_react_first_share"] == pytest.approx(0.25, abs=0.03)
    assert values["one_deaf_first_share"] > 0.6
    assert values["one_deaf_others_bps"] < 0.5 * values["all_react_others_bps"]
