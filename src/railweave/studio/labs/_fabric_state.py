"""The fabric lab's inputs, the design that they write, and the inputs that a design comes to.

The design is the only thing that is built: whatever the lab shows comes from its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from railweave.design.models import (
    Design,
    HashFunction,
    InlineServer,
    InlineSwitch,
    Plane,
    RoutingScheme,
    Topology,
    Transport,
)
from railweave.errors import InputError
from railweave.formats.validation import list_names, nearest
from railweave.units import parse_bps, parse_bytes

if TYPE_CHECKING:
    from railweave.api import LoadedDesign

__all__ = [
    "MOST_GPUS",
    "PATTERNS",
    "PLAIN",
    "ROUTINGS",
    "SPEEDS",
    "TOPOLOGIES",
    "State",
    "design_text",
    "server_choices",
    "state_of_design",
    "switch_choices",
    "usable",
]

#: GPUs of the largest fabric that the lab builds
MOST_GPUS: Final = 65_536
#: the server or switch that the controls describe, instead of one of the catalog
PLAIN: Final = "plain"
SPEEDS: Final = ("100 Gb/s", "200 Gb/s", "400 Gb/s", "800 Gb/s", "1600 Gb/s")
#: NVLink of an H100 one way, which a plain server has
_SCALE_UP: Final = "3.6 Tb/s"

TOPOLOGIES: Final[dict[str, str]] = {
    "leaf-spine": "Leaf and spine",
    "rail-optimized": "Rail-optimised",
    "rail-only": "Rails only, not joined",
    "fat-tree": "Fat tree",
    "multi-zone": "Zones joined by cores",
    "dual-plane-dual-tor": "Two planes, two leaves a server",
    "twin-planar": "Twin planes",
    "star": "Star (one switch)",
}
TRANSPORTS: Final = {Transport.ROCEV2.value: "RoCEv2", Transport.INFINIBAND.value: "InfiniBand"}
ROUTINGS: Final[dict[str, str]] = {
    "": "The transport's own",
    "ecmp": "ECMP (hash of the headers)",
    "e-ecmp": "Enhanced ECMP (queue pair too)",
    "flowlet": "Flowlets",
    "static": "Pinned by port",
    "adaptive": "Adaptive, flow by flow",
    "spray": "Packet spray",
    "destination": "By destination (d-mod-k)",
}
HASHES: Final = {one.value: one.value.upper() for one in HashFunction}
PATTERNS: Final[dict[str, str]] = {
    "ring": "Ring all-reduce of all GPUs",
    "permutation": "Permutation: each GPU to one other",
    "all-to-all": "All-to-all",
}
#: shapes in which a leaf may be given to each rack
RACK_SHAPES: Final = ("leaf-spine", "fat-tree")
#: shapes with one tier of leaves and none above that could be counted
NO_COUNTS: Final = ("star",)

#: whole numbers: the least and the most of each
BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "racks": (1, 8192),
    "servers": (1, 64),
    "empty": (0, 63),
    "gpus": (1, 16),
    "nics": (1, 16),
    "planes": (1, 8),
    "radix": (4, 1024),
    "spines": (0, 4096),
    "tiers": (0, 3),
    "zone": (0, 65_536),
    "queue_pairs": (1, 64),
    "seed": (0, 2**31 - 1),
}
_TITLES: Final = {
    "racks": "racks",
    "servers": "servers a rack",
    "empty": "empty places",
    "gpus": "GPUs a server",
    "nics": "NICs a server",
    "planes": "parallel planes",
    "radix": "radix",
    "spines": "spines",
    "tiers": "tiers",
    "zone": "servers a zone",
    "queue_pairs": "queue pairs",
    "seed": "seed",
}


@dataclass(frozen=True, slots=True)
class State:
    """What the controls say; quantities are texts with units, 0 and "" mean "worked out".

    ``servers`` are of a rack and ``empty`` the places left free in the last. ``out`` are parts that
    are out, as ``--fail`` takes them; ``open`` the groups that are drawn in full. ``source`` and
    ``target`` are the two GPUs of the traced path, the first and the last where left out.
    """

    name: str = "fabric"
    racks: int = 4
    servers: int = 4
    empty: int = 0
    server: str = PLAIN
    gpus: int = 8
    nics: int = 8
    nic_speed: str = "400 Gb/s"
    transport: str = "rocev2"
    topology: str = "leaf-spine"
    top_of_rack: bool = True
    planes: int = 1
    switch: str = PLAIN
    radix: int = 64
    port_speed: str = "400 Gb/s"
    uplink_speed: str = ""
    spines: int = 4
    tiers: int = 0
    ratio: float = 1.0
    spine_ratio: float = 1.0
    zone: int = 0
    routing: str = ""
    hash: str = "crc32"
    equal_seeds: bool = False
    queue_pairs: int = 1
    seed: int = 0
    pattern: str = "ring"
    size: str = "1 GiB"
    loads: bool = False
    out: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    source: str = ""
    target: str = ""

    @property
    def server_count(self) -> int:
        """Servers in all."""
        return self.racks * self.servers - self.empty


# ---------------------------------------------------------------- what can be chosen


@lru_cache(maxsize=1)
def server_choices() -> dict[str, str]:
    """Return the servers with GPUs: name → what is shown; the plain one first."""
    from railweave.catalog import default_catalog

    found = {PLAIN: "Plain, as given below"}
    for server in default_catalog().servers():
        if server.gpu_count and "backend" in server.nics:
            found[server.name] = f"{server.title} ({server.gpu_count} GPUs)"
    return found


@lru_cache(maxsize=4)
def switch_choices(transport: str) -> dict[str, str]:
    """Return the switches that carry a transport: name → what is shown; the plain one first."""
    from railweave.catalog import default_catalog

    found = {PLAIN: "Plain, as given below"}
    for switch in default_catalog().switches():
        if transport in {str(one) for one in switch.transports}:
            speed = switch.port_speed_bps / 1e9
            found[switch.name] = f"{switch.title} ({switch.ports} × {speed:g}G)"
    return found


def usable(state: State) -> tuple[State, tuple[str, ...]]:
    """Return the inputs with what no control can show replaced by its default, and what was.

    Whole numbers stay, however large: what cannot be built of them is said where it is built.
    """
    said = []
    for field, read in (
        ("nic_speed", _rate),
        ("port_speed", _rate),
        ("uplink_speed", lambda text: text and _rate(text)),
        ("size", parse_bytes),
    ):
        try:
            read(getattr(state, field))
        except InputError as error:
            said.append(f"{field}: {error}; the default is used")
            state = replace(state, **{field: getattr(State(), field)})
    for what, value, known in _choices(state):
        if value not in known:
            said.append(f"{_unknown(what, value, known)}; the default is used")
            state = replace(state, **{what: getattr(State(), what)})
    return state, tuple(said)


def _choices(state: State) -> tuple[tuple[str, str, Mapping[str, str]], ...]:
    return (
        ("transport", state.transport, TRANSPORTS),
        ("topology", state.topology, TOPOLOGIES),
        ("routing", state.routing, ROUTINGS),
        ("hash", state.hash, HASHES),
        ("pattern", state.pattern, PATTERNS),
        ("server", state.server, server_choices()),
        ("switch", state.switch, switch_choices(state.transport)),
    )


def _unknown(what: str, value: str, known: Mapping[str, str]) -> str:
    near = nearest(value, known)
    names = list_names(name for name in known if name)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"{what}: {value[:40]!r} is not known here; allowed: {names}{hint}"


# ---------------------------------------------------------------- state → design


def design_text(state: State) -> str:
    """Return the design that the controls describe, as short as it can be.

    Raises:
        InputError: a value out of its bounds, or an unknown choice; the sentence names both.
    """
    _check(state)
    lines = ["railweave: 1", f"name: {_quoted(state.name)}"]
    lines += [f"seed: {state.seed}"] if state.seed else []
    lines += ["cluster:", f"  racks: {state.racks}", f"  servers_per_rack: {state.servers}"]
    lines += _server_lines(state)
    lines += ["planes:", "  backend:"]
    lines += [f"    {key}: {value}" for key, value in _plane_fields(state)]
    return "\n".join(lines) + "\n"


def _server_lines(state: State) -> list[str]:
    if state.server != PLAIN:
        return [f"  servers: {{model: {state.server}, count: {state.server_count}}}"]
    return [
        "  servers:",
        f"    count: {state.server_count}",
        f"    inline: {{gpus: {state.gpus}, scale_up_bandwidth: {_SCALE_UP}, "
        f"nics: {state.nics}, nic_speed: {_rate(state.nic_speed)}}}",
    ]


def _plane_fields(state: State) -> list[tuple[str, str]]:
    """Return the fields of the back-end that differ from what sizing assumes."""
    fields = [("transport", state.transport), ("topology", state.topology)]
    switch = state.switch
    if switch == PLAIN:
        split = ", max_breakout: 8" if _has_slower_links(state) else ""
        switch = f"{{radix: {state.radix}, speed: {_rate(state.port_speed)}{split}}}"
    fields.append(("switch", switch))
    if state.uplink_speed:
        fields.append(("uplink_speed", _rate(state.uplink_speed)))
    if state.planes > 1:
        fields.append(("planes", str(state.planes)))
    if state.tiers:
        fields.append(("tiers", str(state.tiers)))
    if state.topology in RACK_SHAPES and state.top_of_rack:
        fields.append(("top_of_rack", "true"))
    if state.topology not in NO_COUNTS:
        fields += _shape_fields(state)
    fields += _routing_fields(state)
    return fields


def _has_slower_links(state: State) -> bool:
    """Say whether ports of a plain switch may have to be split into slower links."""
    port, up = parse_bps(state.port_speed), state.uplink_speed
    slower = bool(up) and parse_bps(up) < port
    if state.server != PLAIN or state.planes > 1:
        return True
    return slower or parse_bps(state.nic_speed) < port


def _shape_fields(state: State) -> list[tuple[str, str]]:
    fields = []
    if state.spine_ratio != 1.0:
        ratios = f"{{leaf: {state.ratio:g}, spine: {state.spine_ratio:g}}}"
        fields.append(("oversubscription", ratios))
    elif state.ratio != 1.0:
        fields.append(("oversubscription", f"{state.ratio:g}"))
    if state.spines:
        fields.append(("counts", f"{{spine: {state.spines}}}"))
    if state.zone and state.topology != Topology.RAIL_ONLY.value:
        fields.append(("zone", str(state.zone)))
    return fields


def _routing_fields(state: State) -> list[tuple[str, str]]:
    parts = []
    if state.routing:
        parts.append(f"scheme: {state.routing}")
    if state.hash != HashFunction.CRC32.value:
        parts.append(f"hash: {state.hash}")
    if state.equal_seeds:
        parts.append("seeds: equal")
    if state.queue_pairs > 1:
        parts.append(f"queue_pairs: {state.queue_pairs}")
    return [("routing", f"{{{', '.join(parts)}}}")] if parts else []


def _check(state: State) -> None:
    for name, (low, high) in BOUNDS.items():
        value = getattr(state, name)
        if not low <= value <= high:
            raise InputError(
                f"{_TITLES[name]}: {value:,} is not possible here; allowed: {low:,} to {high:,}"
            )
    for what, value, known in _choices(state):
        if value not in known:
            raise InputError(_unknown(what, value, known))
    for what, ratio in (("oversubscription", state.ratio), ("at the spines", state.spine_ratio)):
        if not 0.1 <= ratio <= 100:
            raise InputError(f"{what}: {ratio:g} : 1 is not possible here; allowed: 0.1 to 100")
    _check_size(state)


def _check_size(state: State) -> None:
    if state.empty >= state.servers:
        raise InputError(
            f"empty places: {state.empty} of the {state.servers} places of the last rack; take a "
            "rack away instead"
        )
    gpus = state.server_count * gpus_a_server(state)
    if gpus > MOST_GPUS:
        raise InputError(
            f"{gpus:,} GPUs are more than the {MOST_GPUS:,} that this lab builds; take fewer "
            "racks, servers a rack or GPUs a server (the command line builds larger fabrics)"
        )
    if not 0 < len(state.name) <= 100:
        raise InputError("name: give the design a name of at most 100 characters")
    if parse_bytes(state.size) < 1:
        raise InputError("size: give at least 1 B")


def gpus_a_server(state: State) -> int:
    """Return the GPUs of one server, the catalog's where it has it."""
    if state.server == PLAIN:
        return state.gpus
    from railweave.catalog import default_catalog

    return default_catalog().server(state.server).gpu_count


def _rate(text: str) -> str:
    """Write a rate in one way only, whatever was typed."""
    value = parse_bps(text)
    if value <= 0:
        raise InputError(f"speed: {text!r} must be more than 0")
    return f"{value / 1e9:.12g} Gb/s"


def _quoted(text: str) -> str:
    """Write a name so that YAML reads it as text."""
    if text.replace("-", "").isalpha() and text.isascii() and text.lower() not in _YAML_WORDS:
        return text
    import json

    return json.dumps(text)


_YAML_WORDS: Final = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")

# ---------------------------------------------------------------- design → state


def state_of_design(loaded: LoadedDesign) -> tuple[State, tuple[str, ...]]:
    """Return the controls that come nearest to a design, and what of it they do not carry.

    Raises:
        InputError: its back-end or its servers have a shape that the controls do not know.
    """
    design = loaded.design
    group, backend = design.cluster.servers[0], design.planes.backend
    topology = (backend.topology or Topology.LEAF_SPINE).value
    if len(design.cluster.servers) > 1:
        raise InputError("the loaded design has several groups of servers; this lab builds one")
    if topology not in TOPOLOGIES or (backend.transport or Transport.TCP).value not in TRANSPORTS:
        raise InputError(
            "the loaded design's back-end is a graph or runs over TCP; this lab builds "
            f"{list_names(TOPOLOGIES)} over RoCEv2 or InfiniBand"
        )
    state = _with_servers(State(name=design.name, seed=design.seed), loaded)
    state = _with_plane(state, backend, topology)
    if state.server == PLAIN and group.inline is None:
        raise InputError(f"the loaded design's server {group.model!r} is not of the catalog")
    design_text(state)  # says what lies outside the controls
    return state, _left_out(design, state)


def _with_servers(state: State, loaded: LoadedDesign) -> State:
    import numpy as np

    from railweave.fabric import NodeKind

    fabric = loaded.build().fabric
    rack = fabric.node_rack[fabric.node_kind == NodeKind.HOST]
    each = int(np.bincount(rack[rack >= 0]).max())
    racks = -(-len(rack) // each)
    state = replace(state, racks=racks, servers=each, empty=racks * each - len(rack))
    group = loaded.design.cluster.servers[0]
    inline: InlineServer | None = group.inline
    if inline is None:
        return replace(state, server=group.model if group.model in server_choices() else PLAIN)
    speed = f"{inline.nic_speed / 1e9:.12g} Gb/s"
    return replace(state, gpus=inline.gpus, nics=inline.nics, nic_speed=speed)


def _with_plane(state: State, plane: Plane, topology: str) -> State:
    ratio = plane.oversubscription
    leaf, spine = (ratio, 1.0) if isinstance(ratio, float | int) else (ratio.leaf, ratio.spine)
    transport = (plane.transport or Transport.TCP).value
    counts, scheme = plane.counts, plane.routing.scheme
    state = replace(
        state,
        transport=transport,
        topology=topology,
        top_of_rack=bool(plane.top_of_rack),
        planes=plane.planes,
        uplink_speed=f"{plane.uplink_speed / 1e9:.12g} Gb/s" if plane.uplink_speed else "",
        spines=(counts.spine or 0) if counts else 0,
        tiers=plane.tiers or 0,
        ratio=float(leaf),
        spine_ratio=float(spine),
        zone=plane.zone or 0,
        routing=scheme.value if scheme not in (None, RoutingScheme.TABLE) else "",
        hash=plane.routing.hash.value,
        equal_seeds=plane.routing.seeds == "equal",
        queue_pairs=plane.routing.queue_pairs,
    )
    switch = plane.switch
    if isinstance(switch, InlineSwitch):
        speed = f"{switch.speed / 1e9:.12g} Gb/s"
        return replace(state, radix=switch.radix, port_speed=speed)
    if isinstance(switch, str) and switch in switch_choices(transport):
        return replace(state, switch=switch)
    raise InputError(
        "the loaded design names no switch, or one for each tier; this lab builds with one kind"
    )


def _left_out(design: Design, state: State) -> tuple[str, ...]:
    """Name what the loaded design says beyond the controls."""
    from railweave.design import parse_design

    ours = parse_design(design_text(state), "fabric.yaml").design
    left = []
    for part in ("jobs", "background", "storage_traffic", "stragglers", "facility", "tenants",
                 "objectives", "software", "services", "catalog"):  # fmt: skip
        if getattr(design, part) != getattr(ours, part):
            left.append(part)
    for name in ("frontend", "storage", "management"):
        if getattr(design.planes, name) is not None:
            left.append(f"planes.{name}")
    mine, theirs = ours.planes.backend, design.planes.backend
    left += [
        f"planes.backend.{field}"
        for field in Plane.model_fields
        if getattr(mine, field) != getattr(theirs, field) and _says_more(field, theirs)
    ]
    if design.cluster.storage_servers is not None:
        left.append("cluster.storage_servers")
    group = design.cluster.servers[0]
    if group.model and (group.nics is not None or group.nic_speed is not None):
        left.append("cluster.servers: NICs that differ from the catalog's")
    return tuple(left)


def _says_more(field: str, plane: Plane) -> bool:
    """Say whether a field of a plane is set to something that the controls drop."""
    return bool(getattr(plane, field)) and field not in {"switch", "topology", "transport"}
