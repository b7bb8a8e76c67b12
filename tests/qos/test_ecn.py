"""ECN thresholds: the published sets as they are, and a rule that marks before PFC pauses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.errors import InputError
from railweave.qos import ECN_PROFILES, EcnThresholds, ecn_ceiling_bytes, ecn_profile, ecn_rule

KB, KIB, MIB = 1000, 1024, 1 << 20


@pytest.mark.parametrize(
    ("name", "gbps", "kmin", "kmax", "pmax"),
    [
        ("cumulus", 400, 150 * KB, 1500 * KB, 1.0),
        ("cisco", 400, 150 * KB, 3000 * KB, 0.07),
        ("sonic", 100, MIB, 2 * MIB, 0.05),
        ("tomahawk5", 800, 128 * KIB, 256 * KIB, 0.05),
        ("juniper", 400, 550 * KB, 900 * KB, 1.0),
        ("paper", 40, 5 * KB, 200 * KB, 0.01),
        ("simulator", 100, 400 * KB, 1600 * KB, 0.2),
        ("simulator", 400, 800 * KB, 3200 * KB, 0.2),
    ],
)
def test_published_sets(name: str, gbps: int, kmin: int, kmax: int, pmax: float) -> None:
    found = ecn_profile(name).at(gbps * 1e9, full_bytes=1e6)
    assert (found.kmin_bytes, found.kmax_bytes, found.pmax) == (kmin, kmax, pmax)
    assert found.weight == 0


def test_every_set_names_its_source() -> None:
    assert all(profile.source.title for profile in ECN_PROFILES.values())


def test_a_speed_without_thresholds_is_answered() -> None:
    with pytest.raises(InputError, match="no thresholds for 200 Gb/s; allowed: 100 Gb/s, 400 Gb/s"):
        ecn_profile("simulator").at(200e9, 1e6)
    with pytest.raises(InputError, match="did you mean 'cumulus'"):
        ecn_profile("cumulos")


def test_marking_grows_from_kmin_to_kmax_and_is_certain_above() -> None:
    marks = EcnThresholds(100, 300, 0.2)
    seen = [marks.probability(queue) for queue in (0, 100, 200, 300, 301)]
    assert seen == pytest.approx([0, 0, 0.1, 0.2, 1])
    step = EcnThresholds(100, 100, 1.0)
    assert [step.probability(queue) for queue in (100, 101)] == [0, 1]


@pytest.mark.parametrize(
    "wrong", [(200, 100, 0.1), (-1, 100, 0.1), (1, 2, 0), (1, 2, 1.1), (1, 2, 0.5, 1.0)]
)
def test_impossible_thresholds_are_refused(wrong: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="allowed"):
        EcnThresholds(*wrong)  # type: ignore[arg-type]


def test_the_rule_starts_from_one_round_trip() -> None:
    found = ecn_rule(400e9, 1e9, rtt_s=8e-6)
    assert (found.kmin_bytes, found.kmax_bytes) == (400_000, 1_600_000)
    assert found.kmin_bytes > 400e9 * 8e-6 / 8 / 7  # what DCTCP needs at least


SHARED = st.floats(5e6, 5e8)
ALPHA = st.floats(0.125, 8)
PORTS = st.integers(1, 256)


@given(SHARED, ALPHA, PORTS, st.floats(10e9, 1.6e12), st.floats(1e-6, 1e-4))
def test_with_the_rule_ecn_acts_before_pfc_even_if_every_port_is_congested(
    shared: float, alpha: float, ports: int, speed: float, rtt: float
) -> None:
    ceiling = ecn_ceiling_bytes(shared, alpha, ports)
    marks = ecn_rule(speed, ceiling, rtt_s=rtt)
    assert 0 < marks.kmin_bytes < marks.kmax_bytes
    if ceiling > 4 * 2 * 1518:  # less does not hold a few frames
        pause_at = alpha * (shared - ports * marks.kmax_bytes)
        assert marks.kmax_bytes <= pause_at * (1 + 1e-9) + 1
