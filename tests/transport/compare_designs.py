"""Small clusters that the tests of the comparison share."""

from __future__ import annotations

from functools import cache

import railweave
from railweave.design.models import Algorithm, Collective
from railweave.transport.compare import CompareCase, Measurements, MixPart, measure

#: eight servers behind four leaves, so that rings and exchanges cross spines
SMALL = """\
railweave: 1
name: small
cluster:
  servers: {count: 8, inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}}
planes:
  backend:
    transport: rocev2
    topology: leaf-spine
    switch: {radix: 8, speed: 100 Gb/s}
"""
MIX = (
    MixPart(Collective.ALL_REDUCE, 4 << 20, 0.6),
    MixPart(Collective.ALL_TO_ALL, 2 << 20, 0.4),
)
CASE = CompareCase(
    mix=MIX, small=MixPart(Collective.ALL_REDUCE, 64 << 10, 1.0, Algorithm.TREE), quick=True
)


@cache
def measured(text: str = SMALL, case: CompareCase = CASE) -> Measurements:
    """Measure a design, once."""
    return measure(railweave.parse(text, files=False).build(), case)
