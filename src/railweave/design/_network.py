"""What a design says of its network planes: switches, shape, routing, congestion."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from railweave.design._congestion import CongestionSpec
from railweave.design._values import (
    Also,
    Few,
    Name,
    NonNegative,
    Positive,
    Power,
    Ratio,
    Size,
    Some,
    SpecModel,
    Speed,
    Text,
    Truth,
    choose,
    is_mapping,
    is_number,
    is_text,
    not_empty,
    short_for,
)
from railweave.formats.quantity import Seconds, SizeBytes


class PlaneName(StrEnum):
    """The four network planes."""

    BACKEND = "backend"
    FRONTEND = "frontend"
    STORAGE = "storage"
    MANAGEMENT = "management"


class Transport(StrEnum):
    """What carries the traffic of a plane; ``ethernet`` in a file means ``tcp``."""

    INFINIBAND = "infiniband"
    ROCEV2 = "rocev2"
    TCP = "tcp"


class Topology(StrEnum):
    """Shape of a plane. The last two names before ``graph`` are rail-optimized with two planes."""

    STAR = "star"
    LEAF_SPINE = "leaf-spine"
    RAIL_OPTIMIZED = "rail-optimized"
    FAT_TREE = "fat-tree"
    MULTI_ZONE = "multi-zone"
    RAIL_ONLY = "rail-only"
    DUAL_PLANE_DUAL_TOR = "dual-plane-dual-tor"
    TWIN_PLANAR = "twin-planar"
    GRAPH = "graph"


def _ethernet_is_tcp(value: object) -> object:
    return "tcp" if value == "ethernet" else value


class InlineSwitch(SpecModel):
    """A switch described by what sizing needs of it."""

    radix: Some = Field(description="Ports at full speed.")
    speed: Speed = Field(description="Speed of one port.")
    max_breakout: Few = Field(
        1, description="Into how many links one port may be split (each at speed / ways or more)."
    )
    power: Power = Field(1_500.0, description="Highest power draw.")
    latency: Seconds = Field(600e-9, description="Port-to-port latency.")
    buffer: Size = Field(64_000_000, description="Packet buffer.")


def _names_tiers(value: object) -> bool:
    return isinstance(value, dict) and bool(value.keys() & {"leaf", "spine", "core"})


#: a catalog name or an inline switch
NamedOrInline: TypeAlias = Annotated[
    str | InlineSwitch,
    choose(
        "a catalog name, or {radix, speed} of an inline switch",
        (is_text, Text),
        (is_mapping, InlineSwitch),
    ),
]


class TierSwitches(SpecModel):
    """Another switch for each tier; spine and core default to the tier below."""

    leaf: NamedOrInline = Field(description="Switch of the lowest tier.")
    spine: NamedOrInline | None = Field(None, description="Default: the leaf's.")
    core: NamedOrInline | None = Field(None, description="Default: the spine's.")


#: a catalog name, an inline switch, or one for each tier
SwitchChoice: TypeAlias = Annotated[
    str | InlineSwitch | TierSwitches,
    choose(
        "a catalog name, {radix, speed} of an inline switch, or {leaf, spine, core} with one each",
        (is_text, Text),
        (_names_tiers, TierSwitches),
        (is_mapping, InlineSwitch),
    ),
]


class TierRatios(SpecModel):
    """Oversubscription (down : up) by tier, as a number: 2 means 2:1."""

    leaf: Ratio = Field(1.0, description="Of each leaf: host ports down, uplinks up.")
    spine: Ratio = Field(1.0, description="Of each spine, where there is a tier above.")


class TierPorts(SpecModel):
    """A number of ports by tier."""

    leaf: NonNegative = Field(0, description="On each leaf, at the speed of the hosts.")
    spine: NonNegative = Field(0, description="On each spine.")


class TierCounts(SpecModel):
    """Switch counts given by the user: the fabric is built with them, or refused with a reason."""

    leaf: Some | None = Field(None, description="Leaves in all.")
    spine: Some | None = Field(None, description="Spines in all.")
    core: Some | None = Field(None, description="Cores in all.")


LinksInCable: TypeAlias = Annotated[int, Field(ge=1, le=8, strict=True)]


class LinksPerCable(SpecModel):
    """How many links one cable carries: 2 for twin-port (2 × 400G in one OSFP)."""

    host_leaf: LinksInCable = Field(
        1,
        alias="host-leaf",
        description="Between a host and its leaf.",
    )
    leaf_spine: LinksInCable = Field(
        1,
        alias="leaf-spine",
        description="Between leaf and spine.",
    )
    spine_core: LinksInCable = Field(
        1,
        alias="spine-core",
        description="Between spine and core.",
    )


class RoutingScheme(StrEnum):
    """How a path is chosen among equals."""

    ECMP = "ecmp"
    E_ECMP = "e-ecmp"
    STATIC = "static"
    FLOWLET = "flowlet"
    ADAPTIVE = "adaptive"
    SPRAY = "spray"
    DESTINATION = "destination"
    TABLE = "table"


class HashFunction(StrEnum):
    """Hash over the chosen header fields."""

    CRC16 = "crc16"
    CRC32 = "crc32"
    XOR = "xor"


class HashField(StrEnum):
    """Header fields that enter the hash."""

    SRC_IP = "src-ip"
    DST_IP = "dst-ip"
    PROTOCOL = "protocol"
    SRC_PORT = "src-port"
    DST_PORT = "dst-port"


class Spraying(StrEnum):
    """What decides the way of a sprayed packet."""

    RANDOM = "random"
    ROUND_ROBIN = "round-robin"
    RECYCLE = "recycle"  #: entropies whose packets came through unmarked are used again


class RoutingSpec(SpecModel):
    """Routing of one plane. A plain string is short for the scheme alone."""

    scheme: RoutingScheme | None = Field(
        None, description="Default: destination on InfiniBand, ecmp elsewhere."
    )
    hash: HashFunction = Field(HashFunction.CRC32, description="Hash function of the switches.")
    fields: Annotated[tuple[HashField, ...], AfterValidator(not_empty)] = Field(
        tuple(HashField), description="Header fields the switches hash."
    )
    seeds: Literal["per-switch", "equal"] = Field(
        "per-switch", description="Equal seeds in all tiers polarise."
    )
    queue_pairs: Few = Field(1, description="Queue pairs a connection is spread over.")
    flowlets: Few = Field(8, description="Flowlets a message breaks into (scheme flowlet).")
    spraying: Spraying = Field(
        Spraying.RANDOM,
        description="How packets are sprayed (scheme spray, packet engine): at random, in turn, or "
        "by entropies that came through unmarked.",
    )
    table: Text | None = Field(
        None, description="Forwarding-table file (scheme table), relative to the design."
    )


class Plane(SpecModel):
    """One network plane: a network of its own, or a share of another one."""

    shares: PlaneName | None = Field(
        None, description="Logically shared: this plane's traffic runs on that plane's network."
    )
    transport: (
        Annotated[Transport, BeforeValidator(_ethernet_is_tcp), Also({"const": "ethernet"})] | None
    ) = Field(None, description="InfiniBand, RoCEv2 or TCP; ethernet means tcp.")
    topology: Topology | None = Field(None, description="Shape; default leaf-spine.")
    switch: SwitchChoice | None = Field(
        None, description="Switch: a catalog name, an inline switch, or one for each tier."
    )
    speed: Speed | None = Field(None, description="Host link speed; default: the NIC's.")
    uplink_speed: Speed | None = Field(
        None, description="Link speed between switches; default: the switch's port speed."
    )
    host_links: Few | None = Field(
        None, description="Links of one server into this plane; default: from its NICs."
    )
    tiers: Annotated[int, Field(ge=1, le=3, strict=True)] | None = Field(
        None, description="Switch tiers; default: the fewest that reach the size."
    )
    oversubscription: Annotated[
        Ratio | TierRatios,
        choose(
            "a number such as 2, a text such as '2:1', or {leaf, spine} with one of these each",
            (is_number, Ratio),
            (is_text, Ratio),
            (is_mapping, TierRatios),
        ),
    ] = Field(1.0, description="Down : up target of the leaf, or by tier.")
    scalable_unit: Positive | None = Field(
        None, description="Servers in a scalable unit; default: what fills one leaf a rail."
    )
    zone: Positive | None = Field(
        None, description="Servers in a zone (pod); default: what the radix allows."
    )
    top_of_rack: Truth | None = Field(
        None, description="One leaf a rack; default: in multi-zone only."
    )
    planes: Annotated[int, Field(ge=1, le=8, strict=True)] = Field(
        1, description="Parallel planes; every NIC's ports are split over them."
    )
    dual_tor: Truth = Field(
        False, description="Each server's links into this plane alternate over two leaves."
    )
    spare_ports: Annotated[
        NonNegative | TierPorts,
        choose(
            "a number of ports, or {leaf, spine} with one each",
            (is_number, NonNegative),
            (is_mapping, TierPorts),
        ),
    ] = Field(
        0, description="Ports kept free on each switch, by tier (host-speed ports on a leaf)."
    )
    min_spines: Some | None = Field(None, description="Fewest spines wanted.")
    counts: TierCounts | None = Field(None, description="Switch counts; given ones are checked.")
    extra_hosts: dict[Name, Some] = Field(
        default_factory=dict, description="Other hosts' ports on the leaves, such as ufm: 4."
    )
    links_per_cable: LinksPerCable = Field(
        LinksPerCable(),
        description="Links in one cable by tier, counted at its lower end; 2 for twin-port cages.",
    )
    mtu: SizeBytes | None = Field(None, description="Largest payload of a packet.")
    routing: Annotated[RoutingSpec, short_for("scheme"), Also({"definition": "RoutingScheme"})] = (
        Field(RoutingSpec(), description="How paths are chosen; a scheme alone is enough.")
    )
    congestion: (
        Annotated[CongestionSpec, short_for("scheme"), Also({"definition": "CongestionName"})]
        | None
    ) = Field(None, description="How senders are held back; a scheme alone is enough.")
    isolation: Literal["none", "vlan", "vrf", "vxlan-evpn", "pkey"] = Field(
        "none", description="What keeps tenants apart here."
    )
    encryption_required: Truth | None = Field(
        None, description="Traffic here must be encrypted; left out: not stated."
    )
    encryption: Literal["none", "macsec", "ipsec", "psp", "tls"] = Field(
        "none", description="What encrypts it."
    )
    graph: Text | None = Field(
        None, description="Graph file (topology graph), relative to the design."
    )


class Planes(SpecModel):
    """The four planes; only the back-end must be there."""

    backend: Plane = Field(description="GPU to GPU.")
    frontend: Plane | None = Field(None, description="Users, services, general traffic.")
    storage: Plane | None = Field(None, description="Datasets and checkpoints.")
    management: Plane | None = Field(None, description="Out-of-band access to every device.")
