"""How it is written down what a field does: two designs that differ in it, and what must differ.

An entry names a field (or a choice of it) as :mod:`_fields` does, a base design, changes by field
path, and an observer of :mod:`_observers` whose answers must be unequal.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DROP = object()  #: as a value: the field is left out

_BACKEND: dict[str, Any] = {
    "transport": "rocev2",
    "topology": "rail-optimized",
    "switch": {"radix": 16, "speed": "400 Gb/s", "max_breakout": 2},
}
_SERVERS: dict[str, Any] = {
    "count": 16,
    "inline": {
        "gpus": 4,
        "nics": 4,
        "nic_speed": "400 Gb/s",
        "scale_up_bandwidth": "3.6 Tb/s",
        "pcie_bandwidth": "500 Gb/s",
    },
}
_CATALOG_SERVERS = {"model": "dgx-h100", "count": 4}
_SMALL_SWITCH = {"radix": 16, "speed": "200 Gb/s"}


def _design(**parts: Any) -> dict[str, Any]:
    base = {
        "railweave": 1,
        "name": "base",
        "cluster": {"servers": copy.deepcopy(_SERVERS)},
        "planes": {"backend": copy.deepcopy(_BACKEND)},
        "jobs": [{"name": "sum", "collective": "all-reduce", "size": "64 MiB"}],
    }
    return {**base, **parts}


def _planes(**planes: Any) -> dict[str, Any]:
    return {"backend": copy.deepcopy(_BACKEND), **planes}


FRONTEND = {"transport": "tcp", "topology": "leaf-spine", "switch": _SMALL_SWITCH}

#: small designs that the entries change; each is valid as it stands
BASES: dict[str, dict[str, Any]] = {
    "roce": _design(),
    "tcp": _design(
        planes={"backend": {**_BACKEND, "transport": "tcp", "topology": "leaf-spine"}},
    ),
    "infiniband": _design(planes={"backend": {**_BACKEND, "transport": "infiniband"}}),
    "leaf-spine": _design(planes={"backend": {**_BACKEND, "topology": "leaf-spine"}}),
    "fat-tree": _design(
        planes={
            "backend": {
                "transport": "rocev2",
                "topology": "fat-tree",
                "tiers": 3,
                "switch": {"radix": 8, "speed": "400 Gb/s"},
            }
        },
    ),
    "multi-zone": _design(
        planes={
            "backend": {
                "transport": "rocev2",
                "topology": "multi-zone",
                "zone": 8,
                "switch": {"radix": 16, "speed": "400 Gb/s"},
            }
        },
        cluster={"servers": copy.deepcopy(_SERVERS), "servers_per_rack": 2},
    ),
    "frontend": _design(
        planes=_planes(frontend=FRONTEND),
        background=[{"name": "web", "load": 0.3, "duration": "2 ms"}],
    ),
    "four-planes": _design(
        planes=_planes(
            frontend=FRONTEND,
            storage={**FRONTEND},
            management={"transport": "tcp", "topology": "star", "speed": "1 Gb/s"},
        ),
        background=[{"name": "web", "load": 0.3, "duration": "2 ms", "plane": "frontend"}],
        cluster={
            "servers": copy.deepcopy(_SERVERS),
            "storage_servers": {"count": 2, "ports": 2, "speed": "200 Gb/s"},
        },
        storage_traffic=[
            {
                "name": "data",
                "ingest": "1 GB/s",
                "duration": "5 ms",
                "checkpoint_size": "1 GB",
                "checkpoint_period": "20 ms",
            }
        ],
    ),
    "catalog": _design(
        cluster={"servers": copy.deepcopy(_CATALOG_SERVERS)},
        planes={
            "backend": {
                "transport": "infiniband",
                "topology": "rail-optimized",
                "switch": "qm9700",
            }
        },
    ),
    "training": _design(
        jobs=[
            {
                "name": "train",
                "model": "llama3-8b",
                "parallelism": {"tensor": 4, "pipeline": 2},
                "micro_batches": 2,
            }
        ],
    ),
    "pairs": _design(
        planes={
            "backend": {
                **_BACKEND,
                "topology": "leaf-spine",
                "routing": {"scheme": "ecmp"},
            }
        },
        jobs=[{"name": "mix", "collective": "all-to-all", "size": "4 MiB"}],
    ),
    "tenants": _design(
        tenants=[{"name": "blue"}, {"name": "green"}],
        jobs=[{"name": "sum", "collective": "all-reduce", "size": "64 MiB", "tenant": "blue"}],
        planes=_planes(
            frontend=FRONTEND,
            storage={**FRONTEND},
            management={"transport": "tcp", "topology": "star", "speed": "1 Gb/s"},
        ),
    ),
}


@dataclass(frozen=True)
class Effect:
    """One proof that a field matters.

    ``before`` is applied to both designs, ``change`` to the second only; both map dotted field
    paths to values, and :data:`DROP` leaves a field out.
    """

    key: str
    base: str
    change: Mapping[str, Any]
    observe: str
    before: Mapping[str, Any] = field(default_factory=dict)

    def designs(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the two designs as plain data."""
        one = changed(BASES[self.base], self.before)
        return one, changed(one, self.change)


def changed(design: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a design with fields set, or left out, by their dotted path."""
    copied = copy.deepcopy(design)
    for path, value in changes.items():
        *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
        target: Any = copied
        for step in steps:
            if isinstance(target, dict) and step not in target:
                target[step] = {}
            target = target[step]
        if value is DROP:
            target.pop(last, None)
        else:
            target[last] = copy.deepcopy(value)
    return copied


def choices(
    key: str, base: str, path: str, observe: str, others: Mapping[str, Any], **before: Any
) -> list[Effect]:
    """Make one entry a choice: from another choice (the value) to this one (the key)."""
    found = []
    for choice, other in others.items():
        to = {"true": True, "false": False}.get(choice, choice)
        found.append(
            Effect(
                f"{key}={choice}",
                base,
                {path: to},
                observe,
                {**before.get("before", {}), path: other},
            )
        )
    return found


BE = "planes.backend"
JOB = "jobs.0"
INLINE = "cluster.servers.inline"
LEAF_SWITCH = {"radix": 16, "speed": "400 Gb/s"}
BIG_SWITCH = {"radix": 32, "speed": "400 Gb/s"}
#: eight servers of 10.2 kW in a rack that may draw them: too much for air
HOT_RACK = {"cluster.servers_per_rack": 8, "facility.rack_power": "120 kW"}
ALL_PLANES = ("backend", "frontend", "storage", "management")


def other(choices: tuple[str, ...]) -> dict[str, str]:
    """Pair each choice with the next one."""
    return dict(zip(choices, (*choices[1:], choices[0]), strict=True))
