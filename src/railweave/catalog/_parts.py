"""The kinds of parts a catalog holds, as immutable models which know where each fact comes from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from railweave.catalog._errors import CatalogError
from railweave.formats.quantity import (
    BytesPerSecond,
    FlopsRate,
    Metres,
    RateBps,
    Seconds,
    SizeBytes,
    Watts,
)
from railweave.formats.validation import field_error, list_names, nearest
from railweave.provenance import Certainty, Source

__all__ = [
    "Breakout",
    "Cable",
    "CableKind",
    "FactNote",
    "Gpu",
    "ModelShape",
    "Nic",
    "NicRole",
    "Part",
    "ScaleUp",
    "Server",
    "ServerNics",
    "Status",
    "Switch",
    "Transport",
    "yaml_name",
]

Status: TypeAlias = Literal["shipping", "announced"]
Transport: TypeAlias = Literal["infiniband", "rocev2", "tcp", "srd"]
NicRole: TypeAlias = Literal["backend", "frontend", "storage", "management"]
ScaleUp: TypeAlias = Literal["nvlink", "xgmi", "pcie", "none"]
CableKind: TypeAlias = Literal[
    "UTP", "DAC", "ACC", "AEC", "AOC", "SR", "DR", "FR", "LR", "LPO", "CPO"
]
Generation: TypeAlias = Literal["ampere", "hopper", "blackwell", "rubin", "cdna3", "cdna4", "other"]

LIGHT_M_PER_S: Final = 299_792_458.0

_UNITS: Final = ("_bps", "_Bps", "_bytes", "_w", "_s", "_m")
Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$", max_length=80)]
Count: TypeAlias = Annotated[int, Field(ge=0, le=1_000_000)]
Positive: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]


def yaml_name(field: str) -> str:
    """Give a field's name in YAML, where the value carries its unit: ``power_w`` → ``power``."""
    if field == "scale_up_bps":  # "scale_up" is the kind of link
        return "scale_up_rate"
    for unit in _UNITS:
        if field.endswith(unit):
            return field.removesuffix(unit)
    return field


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(alias=yaml_name),
    )


class FactNote(_Frozen):
    """What is particular about one fact: its own source or certainty, and a remark."""

    source: str | None = None
    certainty: Certainty | None = None
    note: str = ""


class Part(_Frozen):
    """What every part has: a name, a state and, for each of its facts, a source.

    ``source`` names an entry of the file's ``sources`` and ``certainty`` says how sure its facts
    are; ``facts`` overrides both for single fields. ``like`` names the part it was made from.
    """

    name: Name
    title: str
    vendor: str
    status: Status = "shipping"
    source: str = ""
    certainty: Certainty = Certainty.ASSUMED
    facts: dict[str, FactNote] = {}
    note: str = ""
    like: str | None = None

    _sources: Mapping[str, str] = PrivateAttr(default_factory=lambda: MappingProxyType({}))

    @model_validator(mode="after")
    def _check_facts(self) -> Part:
        names = {yaml_name(name): name for name in type(self).model_fields}
        for key in self.facts:
            first = key.split(".")[0]
            if first not in names and first not in names.values():
                raise field_error(
                    f"facts speak of {key!r}, which is no field of this part",
                    allowed=list_names(names),
                    nearest=nearest(first, names),
                    at=("facts", key),
                )
        return self

    def provenance(self, field: str) -> Source:
        """Say where a fact comes from and how sure it is.

        Args:
            field: a field's name, ``"power_w"`` or as in YAML ``"power"``; a dotted path such as
                ``"nics.backend.count"`` for one within.

        Raises:
            CatalogError: this kind of part has no such field.
        """
        steps = [yaml_name(step) for step in field.split(".")]
        known = {yaml_name(name) for name in type(self).model_fields}
        if steps[0] not in known:
            raise CatalogError(
                f"a {type(self).__name__} has no field {field!r}",
                path=f"{self.name}.{field}",
                allowed=list_names(known),
                nearest=nearest(steps[0], known),
            )
        notes = {
            tuple(yaml_name(step) for step in key.split(".")): note
            for key, note in self.facts.items()
        }
        source, certainty = self.source, self.certainty
        for length in range(1, len(steps) + 1):
            note = notes.get(tuple(steps[:length]))
            if note:
                source = note.source or source
                certainty = note.certainty or certainty
        return Source(self._sources.get(source, source), certainty)


class Gpu(Part):
    """An accelerator: its memory, its arithmetic and its way to the others in the server.

    ``bf16_flops`` and ``fp8_flops`` are dense; ``scale_up_bps`` is one direction of one GPU.
    """

    generation: Generation
    memory_bytes: SizeBytes
    hbm_bandwidth_Bps: BytesPerSecond  # noqa: N815 - B is byte, and a byte is not a bit
    scale_up: ScaleUp
    scale_up_bps: RateBps
    bf16_flops: FlopsRate
    fp8_flops: FlopsRate | None = None
    power_w: Watts


class Breakout(_Frozen):
    """One way of splitting a port: ``ways`` links of ``speed_bps`` each."""

    ways: Positive
    speed_bps: RateBps


class Nic(Part):
    """A network adapter; ``pcie_bps`` is what its slot can carry in one direction."""

    ports: Positive
    port_speed_bps: RateBps
    total_speed_bps: RateBps
    splits: tuple[Breakout, ...] = ()
    connector: str
    pcie_gen: Annotated[int, Field(ge=1, le=7)]
    pcie_lanes: Annotated[int, Field(ge=1, le=64)]
    pcie_bps: RateBps
    transports: tuple[Transport, ...]
    power_w: Watts
    latency_s: Seconds
    features: tuple[str, ...] = ()


class ServerNics(_Frozen):
    """The links of one role: ``count`` links of ``speed_bps`` each, ``links_per_cage`` a cage."""

    nic: str
    count: Positive
    speed_bps: RateBps
    links_per_cage: Annotated[int, Field(ge=1, le=8)] = 1

    @property
    def cages(self) -> int:
        """Number of cages, and so of modules or cable ends, that carry the links."""
        return -(-self.count // self.links_per_cage)


class Server(Part):
    """A server: its GPUs, its scale-up domain and the links it has into each plane."""

    gpu: str | None = None
    gpu_count: Count
    scale_up: ScaleUp
    scale_up_domain_gpus: Count
    scale_up_bps: RateBps
    nics: dict[NicRole, ServerNics]
    pcie_gen: Annotated[int, Field(ge=3, le=7)]
    numa_sockets: Annotated[int, Field(ge=1, le=8)]
    cpu_memory_bytes: SizeBytes
    power_w: Watts
    rack_units: Annotated[float, Field(gt=0, le=60)]
    cooling: Literal["air", "liquid"] = "air"

    @model_validator(mode="after")
    def _check_gpus(self) -> Server:
        if (self.gpu is None) != (self.gpu_count == 0):
            raise field_error(
                "gpu and gpu_count do not agree",
                allowed="a gpu with gpu_count 1 or more, or none with gpu_count 0",
                at=("gpu_count",),
            )
        if self.gpu_count and self.scale_up_domain_gpus % self.gpu_count:
            raise field_error(
                f"a scale-up domain of {self.scale_up_domain_gpus} GPUs is not whole servers",
                allowed=f"a multiple of {self.gpu_count}",
                at=("scale_up_domain_gpus",),
            )
        return self

    @property
    def servers_per_domain(self) -> int:
        """Number of servers which share one scale-up domain: 1, or 18 trays of an NVL72 rack."""
        return self.scale_up_domain_gpus // self.gpu_count if self.gpu_count else 1


class Switch(Part):
    """A switch: cages in front, logical ports at full speed, what each splits into, its memory.

    ``ports`` and ``port_speed_bps`` describe the main ports; ``uplink_ports`` those of a second
    kind, as on a management switch. ``power_w`` is the rated maximum with optics in all cages and
    ``power_base_w`` the draw with passive copper: optics on top of it are the cables'.
    """

    asic: str
    cages: Positive
    cage_speed_bps: RateBps
    connector: str
    ports: Positive
    port_speed_bps: RateBps
    uplink_ports: Count = 0
    uplink_speed_bps: RateBps | None = None
    breakouts: tuple[Breakout, ...]
    max_logical_ports: Positive
    buffer_bytes: SizeBytes
    cell_bytes: SizeBytes | None = None
    latency_s: Seconds
    power_w: Watts
    power_base_w: Watts
    transports: tuple[Transport, ...]
    nos: tuple[str, ...]
    cooling: Literal["air", "liquid"] = "air"
    rack_units: Annotated[float, Field(gt=0, le=60)]
    features: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_ports(self) -> Switch:
        for position, split in enumerate(self.breakouts):
            if split.ways * split.speed_bps > self.port_speed_bps * (1 + 1e-9):
                raise field_error(
                    "this breakout is faster than its port",
                    allowed=f"ways × speed of at most {self.port_speed_bps / 1e9:g} Gb/s",
                    at=("breakouts", position),
                )
        if (self.uplink_ports > 0) != (self.uplink_speed_bps is not None):
            raise field_error("uplink_ports and uplink_speed go together", at=("uplink_ports",))
        return self

    @property
    def capacity_bps(self) -> float:
        """Sum of all ports' speeds, one direction."""
        return self.ports * self.port_speed_bps + self.uplink_ports * (self.uplink_speed_bps or 0.0)

    @property
    def ports_per_cage(self) -> int:
        """Number of full-speed ports in a cage: 2 where the cage is twin-port."""
        return max(1, self.ports // self.cages)

    def breakout_for(self, speed_bps: float) -> Breakout | None:
        """Return how a main port is split into links of this speed, or None where it cannot be."""
        fitting = [split for split in self.breakouts if split.speed_bps == speed_bps]
        return max(fitting, key=lambda split: split.ways, default=None)

    def ports_at(self, speed_bps: float) -> int:
        """Count the logical ports with all main ports split to this speed; 0 where impossible."""
        split = self.breakout_for(speed_bps)
        return min(self.ports * split.ways, self.max_logical_ports) if split else 0


class Cable(Part):
    """A cable, or an optical link with its two modules, of one speed and reach.

    ``speed_bps`` is of one link and ``links`` the number of them in one cable or module (2 for
    twin-port). ``power_w`` is of one end and all its links; ``latency_s`` what its electronics add,
    both ends together. ``relative_cost`` is of one link, against a 400 Gb/s passive cable.
    """

    kind: CableKind
    speed_bps: RateBps
    links: Annotated[int, Field(ge=1, le=8)] = 1
    reach_m: Metres
    medium: Literal["copper", "mmf", "smf"]
    connector: str
    power_w: Watts
    latency_s: Seconds
    velocity_factor: Annotated[float, Field(gt=0, le=1)]
    relative_cost: Annotated[float, Field(gt=0)]

    @property
    def delay_s_per_m(self) -> float:
        """Propagation delay of a metre."""
        return 1.0 / (LIGHT_M_PER_S * self.velocity_factor)

    @property
    def power_per_link_w(self) -> float:
        """Power of one end for each of its links."""
        return self.power_w / self.links

    def delay_s(self, length_m: float) -> float:
        """Return the time a bit needs over this cable of a length, electronics included."""
        return self.latency_s + length_m * self.delay_s_per_m


class ModelShape(Part):
    """The shape of a transformer, from which parameters, memory and traffic follow.

    ``ffn`` is the inner width of a dense feed-forward block. With ``experts`` above 1, all layers
    but the first ``dense_layers`` have that many of ``expert_ffn`` width (``ffn`` when not given),
    of which ``top_k`` are used for each token, and ``shared_experts`` always are. ``kv_latent`` is
    what latent attention caches of a token in a layer, in place of keys and values (elements).
    """

    layers: Positive
    hidden: Positive
    heads: Positive
    kv_heads: Positive
    head_dim: Positive | None = None
    ffn: Positive
    gated: bool = True
    vocabulary: Positive
    tied_embeddings: bool = False
    learned_positions: bool = False
    sequence: Positive
    experts: Positive = 1
    top_k: Positive = 1
    shared_experts: Count = 0
    expert_ffn: Positive | None = None
    dense_layers: Count = 0
    attention_parameters: Annotated[int, Field(ge=1)] | None = None
    kv_latent: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _check_shape(self) -> ModelShape:
        if self.heads % self.kv_heads:
            raise field_error(
                f"{self.heads} heads do not divide among {self.kv_heads} KV heads",
                allowed=f"a divisor of {self.heads}",
                at=("kv_heads",),
            )
        if self.top_k > self.experts:
            raise field_error(
                "top_k exceeds the experts", allowed=f"at most {self.experts}", at=("top_k",)
            )
        return self

    @property
    def width_per_head(self) -> int:
        """Width of one attention head."""
        return self.head_dim or self.hidden // self.heads

    @property
    def attention_parameters_per_layer(self) -> int:
        """Weights of a layer's attention: those of grouped queries, where not given."""
        heads = 2 * self.heads + 2 * self.kv_heads
        return self.attention_parameters or self.hidden * self.width_per_head * heads

    @property
    def embedding_parameters(self) -> int:
        """Weights of the embedding, the head and learned positions."""
        tables = 1 if self.tied_embeddings else 2
        positions = self.sequence if self.learned_positions else 0
        return (tables * self.vocabulary + positions) * self.hidden

    @property
    def parameters(self) -> int:
        """All weights."""
        return self._parameters(self.experts + self.shared_experts)

    @property
    def active_parameters(self) -> int:
        """The weights one token passes through; as many as ``parameters`` without experts."""
        return self._parameters(self.top_k + self.shared_experts)

    def _parameters(self, experts: int) -> int:
        matrices = 3 if self.gated else 2
        norms = 2 * self.hidden
        dense = matrices * self.hidden * self.ffn
        if self.experts == 1:
            blocks = self.layers * dense
        else:
            expert = matrices * self.hidden * (self.expert_ffn or self.ffn)
            sparse = experts * expert + self.hidden * self.experts
            blocks = self.dense_layers * dense + (self.layers - self.dense_layers) * sparse
        attention = self.layers * (self.attention_parameters_per_layer + norms)
        return blocks + attention + self.embedding_parameters + self.hidden


AnyPart = TypeVar("AnyPart", bound=Part)
