"""The transport labs' lessons hold by what the model does, and can fail."""

from __future__ import annotations

import math

import pytest

from railweave.report.experiments import draw_chart
from railweave.transport._lessons_reachable import reachable
from railweave.transport.lessons import TRANSPORT_LESSONS
from railweave.transport.verbs import Access, DirectWire, WcStatus

# ---------------------------------------------------------------- rdma


def test_a_missing_right_or_receive_fails_though_pings_are_answered():
    outcome = TRANSPORT_LESSONS["rdma"].run()
    values = outcome.values
    assert outcome.holds, dict(values)
    assert all(math.isfinite(value) for value in values.values())
    for case in ("good_write", "no_right", "good_send", "no_receive"):
        assert values[f"{case}_pings_answered"] == 2
        # two datagrams over 1 µs each, and what the adapters take
        assert 2e-6 < values[f"{case}_ping_s"] < 4e-6
    assert values["good_write_moved_bytes"] == values["good_send_moved_bytes"] == 65_536
    assert values["no_right_moved_bytes"] == values["no_receive_moved_bytes"] == 0
    assert values["no_right_status"] == WcStatus.REM_ACCESS_ERR
    assert values["no_receive_status"] == WcStatus.RNR_RETRY_EXC_ERR
    assert outcome.reading.startswith("8 of 8 pings")
    (chart,) = outcome.charts
    assert len(draw_chart(chart).data) == 2


@pytest.mark.parametrize(
    "given", [{"right": Access.REMOTE_WRITE}, {"receives": 1}], ids=["the right", "a receive"]
)
def test_with_what_was_missing_nothing_fails(given):
    outcome = reachable(**given)
    assert not outcome.holds
    failed = [key for key, value in outcome.values.items() if key.endswith("_status") and value]
    assert len(failed) == 1


def test_without_an_answer_to_a_ping_the_claim_is_not_shown():
    outcome = reachable(wire=DirectWire(lost=[0]))
    assert not outcome.holds
    assert outcome.values["good_write_pings_answered"] == 1
    assert outcome.values["no_right_pings_answered"] == 2
