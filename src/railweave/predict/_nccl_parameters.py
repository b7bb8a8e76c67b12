"""The free parameters of the collective model, and `Calibration`, the values they take.

Every parameter belongs to a GPU generation, to a class of network, or to the library as a whole;
none to a system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from railweave.errors import InputError
from railweave.predict._nccl_tuning import LIBRARY_LINK_SHARE, caps_of
from railweave.predict.system import Generation, NetworkClass
from railweave.provenance import Certainty

__all__ = ["PARAMETERS", "Calibration", "ParameterSpec", "library_calibration", "prior_calibration"]


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """One free parameter: where a fit starts, how far it may go, and what it means.

    ``prior`` is what is assumed where no point informs it.
    """

    name: str
    prior: float
    low: float
    high: float
    unit: str
    meaning: str

    @property
    def scope(self) -> str:
        """The generation or class of network it belongs to, or "library"."""
        return self.name.partition("/")[2] or "library"


def _shares(
    kind: str, priors: Mapping[str, float], high: float, meaning: str
) -> list[ParameterSpec]:
    return [
        ParameterSpec(f"{kind}/{key}", prior, 0.3, high, "1", meaning)
        for key, prior in priors.items()
    ]


def _scales(kind: str, priors: Mapping[str, float], meaning: str) -> list[ParameterSpec]:
    return [
        ParameterSpec(f"{kind}/{key}", prior, 0.3, 100.0, "1", meaning)
        for key, prior in priors.items()
    ]


#: every free parameter, in the order of the documents
PARAMETERS: Final[tuple[ParameterSpec, ...]] = (
    *_shares(
        "ring_share",
        {"ampere": 0.78, "hopper": 0.82, "blackwell": 0.76, "cdna3": 0.70, "cdna4": 0.76},
        1.0,
        "share of a GPU's scale-up rate that rings and direct messages reach",
    ),
    *_shares(
        "nvls_share",
        {"hopper": 1.07, "blackwell": 0.95},
        1.6,
        "bus bandwidth of NVLink SHARP over a GPU's scale-up rate",
    ),
    *_shares(
        "nic_share",
        {"infiniband": 0.95, "rocev2": 0.94, "efa": 0.9, "tcp": 0.75},
        1.0,
        "share of the NICs' line rate that reaches the library",
    ),
    *_scales(
        "hop_scale",
        {"ampere": 1.0, "hopper": 1.0, "blackwell": 1.5, "cdna": 1.2},
        "latency of a hop inside a domain over NCCL's constant",
    ),
    *[
        ParameterSpec(
            f"net_extra_us/{name}", prior, 0.01, 2000.0, "µs",
            "what a hop between domains takes beyond NCCL's constant; twice with Simple (flush)",
        )
        for name, prior in (("infiniband", 0.5), ("rocev2", 6.0), ("efa", 22.0), ("tcp", 50.0))
    ],
    ParameterSpec(
        "nvls_tree_share", 0.93, 0.3, 1.2, "1",
        "NVLSTree's rate over that of NVLS, two or three domains",
    ),
    # from four domains on NCCL cuts NVLSTree's chunks to 64 KiB; priors: its caps for four nodes
    # over those for two (45.5/57.7 for Hopper; 43.1/96 for Blackwell, until NCCL 2.28)
    *_shares(
        "nvls_tree_share_4",
        {"hopper": 0.79, "blackwell": 0.45},
        1.2,
        "the same from four domains on",
    ),
    ParameterSpec(
        "sharp_share", 0.8, 0.3, 1.2, "1", "rate with SHARP on the network over that of NVLS"
    ),
    ParameterSpec(
        "nvls_rank_us", 1.5, 0.01, 10.0, "µs",
        "latency of NVLS for each rank of a domain beyond eight",
    ),
    ParameterSpec(
        "fill_rank_us", 9.0, 0.0, 40.0, "µs",
        "filling the pipeline of NVLS and of direct messages, for each rank of a domain",
    ),
    *[
        ParameterSpec(
            f"fill_growth/{name}",
            0.6,
            0.05,
            1.0,
            "1",
            "power of the number of domains with which that grows",
        )
        for name in ("hopper", "blackwell")
    ],
    ParameterSpec(
        "half_rank_mib", 3.0, 0.1, 40.0, "MiB",
        "size at which half of that is paid, for each rank of a domain: chunks grow with the size",
    ),
    ParameterSpec(
        "ring_plateau", 1.2, 0.5, 3.0, "1",
        "latency of a Simple ring over several domains over NCCL's constants",
    ),
)  # fmt: skip

_SPECS: Final = MappingProxyType({spec.name: spec for spec in PARAMETERS})
#: what has no parameter of its own takes that of the nearest
_NEAREST: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ring_share/rubin": "ring_share/blackwell",
        "ring_share/other": "ring_share/hopper",
        "hop_scale/rubin": "hop_scale/blackwell",
        "hop_scale/cdna3": "hop_scale/cdna",
        "hop_scale/cdna4": "hop_scale/cdna",
        "hop_scale/other": "hop_scale/hopper",
        **{
            f"{kind}/{generation}": f"{kind}/{'blackwell' if generation == 'rubin' else 'hopper'}"
            for kind in ("nvls_share", "nvls_tree_share_4", "fill_growth")
            for generation in ("rubin", "ampere", "cdna3", "cdna4", "other")
        },
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Values of the parameters, how they were found, and how far predictions stray.

    ``values`` has every parameter of :data:`PARAMETERS` by name. ``informed`` counts the fitted
    points that each depends on: 0 means that the value is the prior. ``spread`` is the root mean
    square of ln(predicted / measured) by ``"<class>/<band>"`` (bands: latency, middle, large).
    ``tree_correction`` applies NCCL's table for trees at middle sizes, as its own tuner does;
    fitted calibrations have the filling of the pipeline in its place.
    """

    name: str
    values: Mapping[str, float]
    source: str = ""
    certainty: Certainty = Certainty.ASSUMED
    informed: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    spread: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    points: int = 0
    systems: int = 0
    tree_correction: bool = False

    def __post_init__(self) -> None:
        missing = [name for name in _SPECS if name not in self.values]
        unknown = [name for name in self.values if name not in _SPECS]
        if missing or unknown:
            raise InputError(
                f"calibration {self.name}: "
                + (f"{missing[0]} is missing" if missing else f"{unknown[0]} is no parameter")
                + f"; allowed: {', '.join(_SPECS)}"
            )
        for name, value in self.values.items():
            if not value >= 0:
                raise InputError(
                    f"calibration {self.name}: {name} = {value:g} is not allowed; give 0 or more"
                )

    def __getitem__(self, name: str) -> float:
        """Return a value; a generation without one of its own has that of the nearest."""
        return self.values[_NEAREST.get(name, name)]

    def of_generation(self, kind: str, generation: Generation) -> float:
        """Return a generation's value of ``ring_share``, ``hop_scale`` and the like."""
        return self[f"{kind}/{generation}"]

    def of_network(self, kind: str, network: NetworkClass) -> float:
        """Return a class's value of ``nic_share`` or ``net_extra_us``; 0 without a network."""
        return 0.0 if network == "none" else self[f"{kind}/{network}"]


def prior_calibration() -> Calibration:
    """Return the calibration in which every parameter has its prior."""
    return Calibration("prior", MappingProxyType({spec.name: spec.prior for spec in PARAMETERS}))


def library_calibration() -> Calibration:
    """Return the values with which the model is NCCL's own tuner: what it chooses by.

    The scale-up rate is NCCL's link constant, NICs reach the nearest rate below line rate that its
    topology search tries (0.96), and nothing is lost to the filling of pipelines.
    """
    values = {spec.name: spec.prior for spec in PARAMETERS}
    for generation, share in LIBRARY_LINK_SHARE.items():
        if f"ring_share/{generation}" in values:
            values[f"ring_share/{generation}"] = share
        if f"nvls_share/{generation}" in values:
            # a channel fewer than there are, and AllReduce pipelines two operations
            values[f"nvls_share/{generation}"] = (
                share * caps_of(generation).nvls_efficiency * 2 * 15 / 16
            )
    for name in values:
        kind = name.partition("/")[0]
        if kind in ("hop_scale", "nvls_tree_share", "nvls_tree_share_4"):
            values[name] = 1.0
        elif kind == "nic_share":
            values[name] = 0.96
        elif kind in ("fill_rank_us", "net_extra_us", "nvls_rank_us"):
            values[name] = 0.0
    values["sharp_share"] = 0.85
    values["ring_plateau"] = 1.4
    return Calibration(
        "NCCL 2.30",
        MappingProxyType(values),
        "NCCL 2.30 tuning constants",
        Certainty.CONFIRMED,
        tree_correction=True,
    )
