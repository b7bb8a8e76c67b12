"""Designs on which journeys are tested: small, and of every transport."""

from __future__ import annotations

from functools import cache

import railweave
from railweave.api import BuiltDesign

_SERVERS = "gpus: 4, nics: 4, nic_speed: 400 Gb/s, scale_up_bandwidth: 3.6 Tb/s"
_DESIGN = """\
railweave: 1
name: journeys
cluster: {{servers: {{count: 4, inline: {{{servers}}}}}}}
planes:
  backend:
    transport: {transport}
    topology: {topology}
    switch: {switch}
    {more}
  frontend: {{transport: tcp, topology: leaf-spine, switch: sn4700, min_spines: 2}}
"""


@cache
def built(
    transport: str = "rocev2",
    topology: str = "rail-optimized",
    switch: str = "{radix: 8, speed: 400 Gb/s}",
    more: str = "",
    servers: str = "",
) -> BuiltDesign:
    """Return a built design of four servers with four GPUs."""
    text = _DESIGN.format(
        transport=transport,
        topology=topology,
        switch=switch,
        more=more,
        servers=_SERVERS + servers,
    )
    return railweave.parse(text).build()


def roce(**other: str) -> BuiltDesign:
    """Return the design of RoCEv2: store and forward, leaves and spines."""
    return built(**other)


def infiniband(scheme: str = "credits+cc") -> BuiltDesign:
    """Return the design of InfiniBand: cut-through."""
    return built("infiniband", more=f"congestion: {{scheme: {scheme}}}")
