"""Every field of the design file, and every choice it offers, has an effect that can be seen."""

from __future__ import annotations

import pytest
from _effects import BASES, EFFECTS, Effect
from _effects_cluster import CLUSTER_EFFECTS
from _effects_congestion import CONGESTION_EFFECTS
from _effects_network import NETWORK_EFFECTS
from _effects_security import SECURITY_EFFECTS
from _effects_work import WORK_EFFECTS
from _fields import field_keys
from _observers import OBSERVERS, load

KEYS = field_keys()


def test_enumeration_reaches_unions_and_nested_models() -> None:
    for key in (
        "Design.name",
        "InlineSwitch.latency",
        "TierSwitches.core",
        "TierRatios.spine",
        "RoutingSpec.fields=dst-port",
        "CongestionSpec.scheme=pfc+receiver-driven",
        "Job.placement=random",
        "LinksPerCable.spine_core",
    ):
        assert key in KEYS
    assert len(KEYS) == len(set(KEYS))


@pytest.mark.parametrize("key", KEYS)
def test_field_is_registered(key: str) -> None:
    assert key in EFFECTS, f"{key} has no entry in _effects.py: what does it do?"


def test_no_field_has_two_entries() -> None:
    groups = (
        CLUSTER_EFFECTS,
        NETWORK_EFFECTS,
        CONGESTION_EFFECTS,
        WORK_EFFECTS,
        SECURITY_EFFECTS,
    )
    keys = [effect.key for group in groups for effect in group]
    assert len(keys) == len(set(keys))


def test_no_entry_is_left_over() -> None:
    assert sorted(set(EFFECTS) - set(KEYS)) == []


@pytest.mark.parametrize("name", sorted(BASES))
def test_base_is_a_right_design(name: str) -> None:
    assert load(BASES[name]).design.railweave == 1


@pytest.mark.parametrize("effect", EFFECTS.values(), ids=list(EFFECTS))
def test_field_has_an_effect(effect: Effect) -> None:
    before, after = effect.designs()
    assert before != after
    observe = OBSERVERS[effect.observe]
    assert observe(before) != observe(after)
