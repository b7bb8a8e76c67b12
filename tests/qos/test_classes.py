"""Classes: RoCE and its notifications in the right ones, and the mistake of the default map."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railweave.errors import InputError
from railweave.findings import Severity
from railweave.qos import CLASSES, CNP_DSCP, ROCE_DSCP, class_findings, classes_named


def test_roce_is_lossless_and_notifications_go_first() -> None:
    roce = classes_named("roce")
    assert (ROCE_DSCP, CNP_DSCP) == (26, 48)
    assert roce.priority(26) == 3
    assert roce.is_lossless(26)
    assert roce.queue(48) == 6
    assert roce.strict == (6,)
    assert not roce.is_lossless(0)
    assert list(class_findings(roce, "p", pfc=True)) == []


def test_sonics_default_map_is_the_classic_mistake() -> None:
    sonic = classes_named("sonic-default")
    assert sonic.lossless == (3, 4)
    assert [d for d in range(64) if sonic.is_lossless(d)] == [3, 4]
    assert sonic.priority(26) == 1
    assert sonic.queue(48) == 6
    found = list(class_findings(sonic, "planes.backend.congestion", pfc=True))
    assert [(f.id, f.severity) for f in found] == [
        ("roce-in-lossy-class", Severity.WARNING),
        ("cnp-not-strict", Severity.INFO),
    ]
    assert "lossless are DSCP 3, 4" in found[0].evidence
    assert [f.id for f in class_findings(sonic, "p", pfc=False)] == ["cnp-not-strict"]


def test_class_selectors_keep_the_upper_bits() -> None:
    selector = classes_named("class-selector")
    assert [selector.priority(8 * p) for p in range(8)] == list(range(8))
    assert selector.is_lossless(26)


def test_unknown_classes_are_answered() -> None:
    with pytest.raises(InputError, match="did you mean 'sonic-default'"):
        classes_named("sonic-defualt")


@pytest.mark.parametrize(
    "change",
    [
        {"dscp_priority": (0,) * 63},
        {"priority_queue": (8,) * 8},
        {"lossless": (9,)},
        {"weights": (0,) * 8},
    ],
)
def test_impossible_classes_are_refused(change: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(InputError, match=r"allowed|1 or more"):
        replace(CLASSES["roce"], **change)
