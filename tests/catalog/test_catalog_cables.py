import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.catalog import CatalogError, default_catalog, pick_cable

SPEEDS = [1e9, 10e9, 25e9, 100e9, 200e9, 400e9, 800e9]


@pytest.mark.parametrize(
    ("length", "name"),
    [
        (1, "dac-400g"),
        (3, "dac-400g"),
        (4, "acc-400g"),
        (6, "aec-400g"),
        (30, "aoc-400g"),
        (100, "dr4-400g"),
        (500, "dr4-400g"),
        (1000, "fr4-400g"),
        (5000, "lr4-400g"),
    ],
)
def test_the_cheapest_that_reaches(length, name):
    assert pick_cable(400e9, length).name == name


def test_preferences():
    assert pick_cable(400e9, 2, prefer="DR").name == "dr4-400g"
    assert pick_cable(400e9, 40, prefer="DAC").name == "aoc-400g"
    assert pick_cable(400e9, 40, links=2).name == "sr4-2x400g"
    assert pick_cable(800e9, 100, prefer="CPO").name == "dr8-800g"
    assert pick_cable(800e9, 100, prefer="CPO", announced=True).name == "cpo-dr4-800g"


@given(
    st.sampled_from(SPEEDS),
    st.floats(0, 12_000),
    st.floats(0, 12_000),
)
def test_a_longer_link_is_never_cheaper(speed, one, other):
    shorter, longer = sorted((one, other))

    def cost(length):
        try:
            cable = pick_cable(speed, length)
        except CatalogError:
            return float("inf")
        assert cable.reach_m >= length
        assert cable.speed_bps == speed
        return cable.relative_cost

    assert cost(shorter) <= cost(longer)


def test_what_cannot_be_had_is_said():
    with pytest.raises(CatalogError) as error:
        pick_cable(400e9, 20_000)
    assert error.value.problem.nearest == "lr4-400g"
    assert error.value.problem.allowed == "at most 10000 m"
    with pytest.raises(CatalogError, match="only announced are left out") as error:
        pick_cable(1.6e12, 1)
    assert error.value.problem.nearest == "800 Gb/s"
    assert pick_cable(1.6e12, 1, announced=True).name == "dac-1600g"


def test_delay_grows_with_length_and_is_near_five_nanoseconds_a_metre():
    for cable in default_catalog().cables():
        assert 4.4e-9 < cable.delay_s_per_m < 5.3e-9, cable.name
        assert cable.delay_s(10) == pytest.approx(cable.latency_s + 10 * cable.delay_s_per_m)
    twin = default_catalog().cable("dr4-2x400g")
    assert (twin.power_w, twin.power_per_link_w) == (17, 8.5)
