"""Bursts of the comparison: what they are held against, and that their length does not decide."""

from __future__ import annotations

import numpy as np
import pytest
from compare_designs import CASE, SMALL, measured

import railweave
from railweave.transport.compare import Technology, swap, synthetic_design
from railweave.transport.compare._bursts import BURST_S, SHORT_S, PacketBench
from railweave.transport.compare._slice import take_slice

#: the cluster of the lesson: rails, leaves at 2:1, 400 Gb/s
RAILS = synthetic_design(32, oversubscription=2.0)
#: senders at a quarter of the receiver's speed, or the other way round, whoever is drawn
MIXED = SMALL.replace(
    "servers: {count: 8, inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s, "
    "scale_up_bandwidth: 1 Tb/s}}",
    "servers:\n"
    "    - {name: fast, count: 4, inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s, "
    "scale_up_bandwidth: 1 Tb/s}}\n"
    "    - {name: slow, count: 4, inline: {gpus: 2, nics: 2, nic_speed: 25 Gb/s, "
    "scale_up_bandwidth: 1 Tb/s}}",
)


def bench(text: str, technology: Technology) -> PacketBench:
    built = railweave.parse(text, files=False).build()
    return PacketBench(swap(built, technology).built, technology, CASE, take_slice(built))


# ---------------------------------------------------------------- held against the ideal


@pytest.mark.parametrize("text", [SMALL, RAILS, MIXED], ids=["small", "rails", "mixed"])
@pytest.mark.parametrize("technology", Technology)
def test_no_incast_is_faster_than_ideal(text, technology):
    own = bench(text, technology)
    for size in (4096.0, 1e6, 1e7):
        run, ratio, bystander = own.incast(size)
        assert run is not None
        assert ratio >= 1 - 1e-9, f"{size:g} B"
        assert bystander >= 1 - 1e-9
    if technology is Technology.INFINIBAND:  # held back by credits, the port is never idle
        assert ratio < 1.001


def test_the_incasts_ideal_counts_the_latency_once():
    own = bench(SMALL, Technology.INFINIBAND)
    sender, receiver = own.part.senders[0], own.part.receiver
    one, two = (own.incast_ideal_s([(sender, receiver)] * n, 1e6) for n in (1, 2))
    alone = own.run([(sender, receiver)], 1e6)
    assert one == pytest.approx(float(alone.stream_ideal_s[0]), rel=1e-12)
    frames = np.ceil(1e6 / 4096)
    wire_s = (two - one) * 100e9 / 8
    assert 1e6 + 16 * frames < wire_s < 1e6 + 100 * frames


# ---------------------------------------------------------------- its length does not decide


@pytest.mark.parametrize("text", [SMALL, RAILS], ids=["small", "rails"])
@pytest.mark.parametrize("technology", Technology)
def test_twice_the_burst_changes_the_ratios_little(text, technology):
    own = bench(text, technology)
    once, twice = own.burst_bytes(), 2 * own.burst_bytes()
    before, after = own.permutation(once)[1], own.permutation(twice)[1]
    assert after == pytest.approx(before, rel=0.15)
    for before, after in zip(own.incast(once)[1:], own.incast(twice)[1:], strict=True):
        assert after == pytest.approx(before, rel=0.15)


def test_a_short_burst_tells_how_senders_start():
    """DCQCN is cut at once and comes back over milliseconds; credits cut nobody."""
    roce = bench(RAILS, Technology.ROCEV2).congestion()
    assert roce.short_ratio > 1.5 * roce.permutation_ratio
    credits_ = bench(RAILS, Technology.INFINIBAND).congestion()
    assert credits_.short_ratio == pytest.approx(credits_.permutation_ratio, rel=0.02)
    assert BURST_S > 10 * SHORT_S


@pytest.mark.parametrize("technology", Technology)
def test_the_comparison_takes_these_bursts_quick_or_not(technology):
    own = bench(SMALL, technology).congestion()
    found = measured().measured[technology]
    for name in ("permutation_ratio", "short_ratio", "incast_ratio", "bystander_ratio",
                 "dropped_bytes", "marks", "pauses", "unfinished"):  # fmt: skip
        assert getattr(found, name) == getattr(own, name)
    assert CASE.quick


def test_tcp_does_not_wait_for_the_timer_of_verbs():
    """A burst that fills buffers to its end loses its tail: no duplicate ACK tells of that."""
    own = bench(SMALL, Technology.TCP)
    run, ratio = own.permutation(50e6)
    assert run.bytes_dropped > 0
    assert not np.isnan(run.stream_finish_s).any()
    assert ratio < 5
