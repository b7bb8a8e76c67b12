"""The headroom rule gives the published values, its terms add up, and it refuses to guess."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.errors import InputError
from railweave.provenance import Certainty
from railweave.qos import ASICS, PAUSE_QUANTA, headroom

LENGTHS_M = (5, 40, 300)
#: SONiC's tables of lossless profiles: Gb/s → xoff at 5, 40 and 300 m
SN5600 = {
    10: (45056, 46080, 56320),
    25: (48128, 52224, 76800),
    40: (57344, 62464, 101376),
    50: (63488, 69632, 118784),
    100: (113664, 126976, 225280),
    200: (131072, 157696, 355328),
    400: (231424, 283648, 677888),
    800: (257024, 362496, 1150976),
}
SN4700 = {
    10: (32768, 33792, 40960),
    25: (32768, 35840, 54272),
    40: (33792, 37888, 66560),
    50: (33792, 38912, 75776),
    100: (33792, 44032, 117760),
    200: (35840, 55296, 203776),
    400: (38912, 77824, 373760),
}
SN3700 = {speed: row for speed, row in SN4700.items() if speed <= 200}
SN2700 = {
    10: (29696, 29696, 36864),
    25: (29696, 31744, 48128),
    40: (29696, 32768, 59392),
    50: (29696, 33792, 66560),
    100: (30720, 38912, 104448),
}
TABLES = {
    "Spectrum-1": SN2700,
    "Spectrum-2": SN3700,
    "Spectrum-3": SN4700,
    "Spectrum-4": SN5600,
}
PUBLISHED = [
    (asic, speed, length, xoff)
    for asic, table in TABLES.items()
    for speed, row in table.items()
    for length, xoff in zip(LENGTHS_M, row, strict=True)
]


@pytest.mark.parametrize(
    ("asic", "gbps", "xoff"),
    [
        ("Spectrum-3", 100, 44_032),
        ("Spectrum-3", 400, 77_824),
        ("Spectrum-4", 100, 126_976),
        ("Spectrum-4", 400, 283_648),
        ("Spectrum-4", 800, 362_496),
    ],
)
def test_right_values_at_40_m_with_the_mtu_of_a_port(asic: str, gbps: int, xoff: int) -> None:
    found = headroom(gbps * 1e9, 40, asic)
    assert found.mtu_bytes == 9100
    assert found.xoff_bytes == xoff
    assert found.certainty is Certainty.CONFIRMED
    assert found.notes == ()


@pytest.mark.parametrize(("asic", "gbps", "length_m", "xoff"), PUBLISHED)
def test_published_tables_to_the_byte_with_the_largest_frame(
    asic: str, gbps: int, length_m: int, xoff: int
) -> None:
    assert headroom(gbps * 1e9, length_m, asic, 9216).xoff_bytes == xoff


@pytest.mark.parametrize(
    ("asic", "gbps", "xon", "size"),
    [
        ("Spectrum-1", 100, 19_456, 58_368),
        ("Spectrum-3", 200, 19_456, 74_752),
        ("Spectrum-3", 400, 37_888, 124_928),
        ("Spectrum-4", 400, 19_456, 303_104),
        ("Spectrum-4", 800, 38_912, 410_624),
    ],
)
def test_published_xon_and_size_at_40_m(asic: str, gbps: int, xon: int, size: int) -> None:
    found = headroom(gbps * 1e9, 40, asic, 9216)
    assert (found.xon_bytes, found.size_bytes) == (xon, size)


def test_terms_of_the_worked_example() -> None:
    found = headroom(400e9, 40, "Spectrum-4")
    assert found.cable_bytes == pytest.approx(2 * 40 * 400e9 / 1.98e8 / 8)
    assert found.peer_response_bytes == 905 * 64
    assert found.pipeline_bytes == pytest.approx(400e9 * 120e-9 / 8)
    assert found.cell_factor == 3
    terms = {name: size for name, size, _ in found.terms()}
    assert terms["xoff"] == 283_648
    parts = ("MTU", "cable", "MAC and PHY", "peer response", "pipeline")
    assert sum(terms[name] for name in parts) == pytest.approx(terms["propagation"])
    assert found.to_json()["certainty"] == "confirmed"


def test_a_small_cell_takes_the_other_factor() -> None:
    assert headroom(100e9, 5, "Spectrum-1").cell_factor == pytest.approx(192 / 97)
    assert headroom(100e9, 5, "Spectrum-3").cell_factor == 144 / 64


@pytest.mark.parametrize("asic", ["Tomahawk 3", "Tomahawk 4", "Tomahawk 5", "Tomahawk 6"])
def test_another_vendor_is_an_estimate_and_says_so(asic: str) -> None:
    found = headroom(400e9, 40, asic)
    assert found.certainty is Certainty.ESTIMATED
    assert "724,662 B" in found.notes[0]
    assert found.peer_response_bytes == 905 * 64
    assert found.cell_factor == ASICS[asic].cell_bytes / 64


def test_the_estimate_for_tomahawk_5_is_below_its_published_profile() -> None:
    """What the note says: 2.5 times."""
    assert 724_662 / headroom(800e9, 5, "Tomahawk 5").xoff_bytes == pytest.approx(2.5, abs=0.02)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((120e9, 40, "Spectrum-4"), "120 Gb/s; allowed: 10 Gb/s, 25 Gb/s"),
        ((1.6e12, 40, "Spectrum-4"), "800 Gb/s"),
        ((400e9, 40, "Spektrum-4"), "did you mean 'Spectrum-4'?"),
        ((400e9, -1, "Spectrum-4"), "0 m to 100,000 m"),
        ((400e9, float("nan"), "Spectrum-4"), "0 m to 100,000 m"),
        ((400e9, 40, "Spectrum-4", 9), "64 B to 65,535 B"),
    ],
)
def test_nothing_is_guessed_in_silence(arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        headroom(*arguments)  # type: ignore[arg-type]


def test_an_odd_speed_on_request_takes_the_next_faster_response_and_is_marked() -> None:
    found = headroom(120e9, 40, "Spectrum-4", any_speed=True)
    assert found.peer_response_bytes == 453 * 64
    assert found.certainty is Certainty.ESTIMATED
    assert found.notes == ("no pause quanta for 120 Gb/s: those of 200 Gb/s",)
    double = headroom(1.6e12, 40, "generic", any_speed=True)
    assert double.peer_response_bytes == 2 * 905 * 64
    assert double.certainty is Certainty.ASSUMED
    assert "in proportion" in double.notes[-1]


ANY = {
    "asic": st.sampled_from(sorted(ASICS)),
    "speed": st.sampled_from(sorted(PAUSE_QUANTA)),
    "length": st.floats(0, 10_000),
    "mtu": st.integers(64, 9216),
}


@given(**ANY)
def test_it_is_whole_kilobytes_and_holds_what_propagates(
    asic: str, speed: int, length: float, mtu: int
) -> None:
    found = headroom(float(speed), length, asic, mtu)
    assert found.xoff_bytes % 1024 == 0
    least = 1024 + found.propagation_bytes * found.cell_factor
    assert found.xoff_bytes == pytest.approx(ceil(round(least / 1024, 6)) * 1024, abs=1)
    assert found.size_bytes >= found.xoff_bytes
    assert found.size_bytes % 1024 == 0


@given(**ANY, more=st.floats(0, 1_000))
def test_more_cable_never_takes_less(
    asic: str, speed: int, length: float, mtu: int, more: float
) -> None:
    near, far = (headroom(float(speed), metres, asic, mtu) for metres in (length, length + more))
    assert near.xoff_bytes <= far.xoff_bytes


@given(**ANY, grown=st.integers(0, 1_000))
def test_larger_frames_never_take_less(
    asic: str, speed: int, length: float, mtu: int, grown: int
) -> None:
    small, large = (headroom(float(speed), length, asic, size) for size in (mtu, mtu + grown))
    assert small.xoff_bytes <= large.xoff_bytes


@given(asic=ANY["asic"], low=ANY["speed"], high=ANY["speed"])
def test_a_faster_port_never_needs_less(asic: str, low: int, high: int) -> None:
    slow, fast = (headroom(float(s), 40, asic).xoff_bytes for s in sorted((low, high)))
    assert slow <= fast
