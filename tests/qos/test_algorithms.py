"""Parameter sets of the congestion control algorithms, and their seam to the native units."""

import dataclasses
import math

import pytest

from railweave._native import CcProbe
from railweave.errors import InputError
from railweave.provenance import Certainty
from railweave.qos import _algorithms as cc


def build(control: cc.CongestionControl) -> CcProbe:
    return CcProbe(control.kind, control.parameters(), 50e9, 8e6, 4178)


@pytest.mark.parametrize("name", cc.PROFILE_NAMES)
def test_every_profile_is_what_its_native_unit_demands(name):
    control = cc.algorithm(name, 400e9)
    assert build(control).rate_Bps == 50e9
    for key in control.parameters():
        short = {k: v for k, v in control.parameters().items() if k != key}
        with pytest.raises(ValueError, match=key):
            CcProbe(control.kind, short, 50e9, 8e6, 4178)


@pytest.mark.parametrize("name", cc.PROFILE_NAMES)
def test_every_profile_says_where_it_is_from(name):
    control = cc.algorithm(name, 100e9)
    assert control.source.title
    names = {item.name for item in dataclasses.fields(control)}
    assert set(control.assumed) <= names - {"source", "assumed"}


def test_every_profile_says_what_it_is():
    said = {name: cc.algorithm(name, 100e9).about for name in cc.PROFILE_NAMES}
    assert all(text.endswith(".") and "\n" not in text for text in said.values())
    assert (
        said["dctcp"] == "DCTCP: the window shrinks in proportion to the share of marked packets."
    )
    assert len(set(said.values())) == len(said) - 2  # the three of DCQCN are one algorithm


def test_profiles_hold_the_published_values():
    firmware = cc.algorithm("dcqcn-firmware", 400e9)
    assert isinstance(firmware, cc.Dcqcn)
    assert firmware.g == pytest.approx(5 / 1024)
    assert firmware.initial_alpha == 1023 / 1024
    assert (firmware.min_rate_bps, firmware.rate_decrease_period_s) == (1e6, 4e-6)
    assert (firmware.time_reset_s, firmware.byte_reset_bytes) == (300e-6, 2_097_088)
    assert firmware.source.certainty is Certainty.CONFIRMED
    paper = cc.algorithm("dcqcn-paper", 40e9)
    assert isinstance(paper, cc.Dcqcn)
    assert (paper.g, paper.alpha_period_s, paper.cnp_interval_s) == (1 / 256, 55e-6, 50e-6)
    assert (paper.fast_recovery_rounds, paper.byte_reset_bytes) == (5, 10e6)
    assert paper.rate_ai_bps == 40e6
    assert paper.source.certainty is Certainty.ASSUMED
    simulator = cc.algorithm("dcqcn-simulator", 100e9)
    assert isinstance(simulator, cc.Dcqcn)
    assert (simulator.g, simulator.alpha_period_s, simulator.time_reset_s) == (1 / 256, 1e-6, 9e-4)
    assert (simulator.rate_ai_bps, simulator.rate_hai_bps) == (50e6, 100e6)


def test_steps_that_scale_with_the_line_rate_do():
    slow, fast = cc.algorithm("timely", 10e9), cc.algorithm("timely", 400e9)
    assert isinstance(slow, cc.Timely)
    assert isinstance(fast, cc.Timely)
    assert (slow.rate_ai_bps, fast.rate_ai_bps) == (10e6, 400e6)


def test_rates_go_to_the_native_side_in_bytes():
    assert cc.algorithm("dcqcn-paper", 40e9).parameters()["rate_ai_Bps"] == 5e6
    assert "cnp_interval_s" not in cc.algorithm("dcqcn-paper", 40e9).parameters()


def test_unknown_profile_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'dcqcn-paper'"):
        cc.algorithm("dcqcn_paper", 40e9)
    with pytest.raises(InputError, match="line_rate_bps"):
        cc.algorithm("dcqcn-paper", 0.0)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, "0.5", None])
def test_a_value_out_of_range_is_refused(value):
    with pytest.raises(InputError, match="hpcc: eta is"):
        dataclasses.replace(cc.algorithm("hpcc", 1e11), eta=value)


def test_parameters_that_contradict_each_other_are_refused():
    with pytest.raises(InputError, match="t_low_s"):
        dataclasses.replace(cc.algorithm("timely", 1e10), t_low_s=1e-3)
    with pytest.raises(InputError, match="fs_min"):
        dataclasses.replace(cc.algorithm("swift", 1e10), fs_min_cwnd_packets=100.0)
    with pytest.raises(InputError, match="ccti_min"):
        dataclasses.replace(cc.algorithm("ib-cc", 1e10), ccti_min=200)


def test_every_range_is_the_native_units_range():
    """At both ends of each declared range the native unit agrees; beyond, it refuses as well."""
    for name in cc.PROFILE_NAMES:
        control = cc.algorithm(name, 400e9)
        for item in dataclasses.fields(control):
            if not item.metadata.get("native"):
                continue
            public = item.name.replace("_bps", "_Bps")
            for bound in (item.metadata["low"], item.metadata["high"]):
                if math.isfinite(bound):
                    given = control.parameters() | {public: float(bound)}
                    CcProbe(control.kind, given, 50e9, 8e6, 4178)
            beyond = control.parameters() | {public: -1.0}
            with pytest.raises(ValueError, match=public):
                CcProbe(control.kind, beyond, 50e9, 8e6, 4178)


def test_the_native_side_names_what_is_wrong():
    with pytest.raises(ValueError, match="'reno' is not known; allowed: none, dcqcn"):
        CcProbe("reno", {}, 50e9, 8e6, 4178)
    with pytest.raises(ValueError, match="unknown parameter 'eta'; allowed: none"):
        CcProbe("none", {"eta": 1.0}, 50e9, 8e6, 4178)
    with pytest.raises(ValueError, match="must be above 0"):
        CcProbe("none", {}, 0.0, 8e6, 4178)


def test_profiles_are_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        cc.algorithm("hpcc", 1e11).eta = 0.5  # type: ignore[misc]
