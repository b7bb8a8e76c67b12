"""The constants that NCCL's own tuner is built with, as published with NCCL 2.30.

Times in microseconds and bandwidths in GB/s, as NCCL writes them; everything else in railweave is
SI. Columns of the caps are 1, 2 and 4 or more nodes (scale-up domains).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from railweave.predict._nccl_names import NcclAlgorithm, NcclProtocol
from railweave.predict.system import Generation

__all__ = [
    "BASE_LATENCY_US",
    "CHANNELS",
    "LIBRARY_LINK_SHARE",
    "NET_OVERHEAD_US",
    "TREE_CORRECTION",
    "Caps",
    "Hardware",
    "caps_of",
    "hop_us",
    "node_column",
]

Hardware: TypeAlias = Literal["nvlink", "pcie", "network"]

_A, _P = NcclAlgorithm, NcclProtocol
_PROTOCOLS: Final = (_P.LL, _P.LL128, _P.SIMPLE)


def _by_protocol(values: tuple[float, float, float]) -> Mapping[NcclProtocol, float]:
    return MappingProxyType(dict(zip(_PROTOCOLS, values, strict=True)))


#: what every launch costs, whatever it does
BASE_LATENCY_US: Final[Mapping[NcclAlgorithm, Mapping[NcclProtocol, float]]] = MappingProxyType(
    {
        _A.TREE: _by_protocol((6.8, 14.0, 8.4)),
        _A.RING: _by_protocol((6.6, 14.0, 8.4)),
        _A.COLLNET_DIRECT: _by_protocol((0.0, 0.0, 0.0)),
        _A.COLLNET_CHAIN: _by_protocol((0.0, 0.0, 0.0)),
        _A.NVLS: _by_protocol((0.0, 0.0, 0.0)),
        _A.NVLS_TREE: _by_protocol((0.0, 0.0, 0.0)),
        _A.PAT: _by_protocol((8.0, 8.0, 8.0)),
    }
)

_HOPS_US: Final[Mapping[Hardware, Mapping[NcclAlgorithm, tuple[float, float, float]]]] = (
    MappingProxyType(
        {
            "nvlink": {
                _A.TREE: (0.6, 1.25, 4.0),
                _A.RING: (0.6, 1.9, 3.4),
                _A.COLLNET_DIRECT: (0.0, 0.0, 3.7),
                _A.COLLNET_CHAIN: (0.0, 0.0, 2.8),
                _A.NVLS: (0.0, 0.0, 25.0),
                _A.NVLS_TREE: (0.0, 0.0, 25.0),
                _A.PAT: (0.0, 0.0, 4.0),
            },
            "pcie": {
                _A.TREE: (1.0, 1.9, 4.0),
                _A.RING: (1.0, 2.5, 5.7),
                _A.COLLNET_DIRECT: (0.0, 0.0, 3.7),
                _A.COLLNET_CHAIN: (0.0, 0.0, 2.8),
                _A.NVLS: (0.0, 0.0, 0.0),
                _A.NVLS_TREE: (0.0, 0.0, 0.0),
                _A.PAT: (0.0, 0.0, 4.0),
            },
            "network": {
                _A.TREE: (5.0, 8.5, 14.0),
                _A.RING: (2.7, 4.0, 14.0),
                _A.COLLNET_DIRECT: (0.0, 0.0, 31.0),
                _A.COLLNET_CHAIN: (0.0, 0.0, 30.0),
                _A.NVLS: (0.0, 0.0, 18.0),
                _A.NVLS_TREE: (0.0, 0.0, 20.9),
                _A.PAT: (0.0, 0.0, 14.0),
            },
        }
    )
)

#: posting one message to a NIC; three times as much with Simple
NET_OVERHEAD_US: Final = 1.0

#: what NCCL's trees lose at middle sizes, by powers of two from 64 B to 256 MB
TREE_CORRECTION: Final[Mapping[NcclProtocol, tuple[float, ...]]] = MappingProxyType(
    {
        _P.LL: (
            *(1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5),
            *(0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0),
        ),
        _P.LL128: (
            *(1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6),
            *(0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0),
        ),
        _P.SIMPLE: (
            *(0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5),
            *(0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
        ),
    }
)

#: NVLink's rate in NCCL's eyes over the nominal one: 20 of 25, 20.6 of 25, 40.1 of 50 GB/s a link
LIBRARY_LINK_SHARE: Final[Mapping[Generation, float]] = MappingProxyType(
    {"ampere": 0.8, "hopper": 0.824, "blackwell": 0.802, "rubin": 0.802}
)

#: channels of rings and trees on systems with NVSwitch, single and several domains (estimated
#: from the library's logs; they matter only where a cap a channel binds)
CHANNELS: Final[Mapping[Generation, int]] = MappingProxyType(
    {"ampere": 24, "hopper": 16, "blackwell": 18, "rubin": 18}
)


class Caps(NamedTuple):
    """Highest bandwidths that NVIDIA measured, GB/s for 1, 2 and 4 or more nodes.

    ``ll`` is of the whole; the others of one channel, 0 where the algorithm does not run.
    """

    ll: tuple[float, float, float]
    ring_ll128: tuple[float, float, float]
    tree: tuple[float, float, float]
    tree_ll128: tuple[float, float, float]
    nvls_tree: tuple[float, float, float]
    nvls_efficiency: float


_CAPS: Final[Mapping[Generation, Caps]] = MappingProxyType(
    {
        "ampere": Caps(
            ll=(87.7, 22.5, 19.0),
            ring_ll128=(20.0, 20.0, 20.0),
            tree=(24.0, 23.6, 17.8),
            tree_ll128=(20.0, 20.0, 20.0),
            nvls_tree=(0.0, 0.0, 0.0),
            nvls_efficiency=0.0,
        ),
        "hopper": Caps(
            ll=(141.0, 45.0, 35.0),
            ring_ll128=(36.7, 36.7, 36.7),
            tree=(38.7, 41.4, 36.0),
            tree_ll128=(36.7, 36.7, 29.0),
            nvls_tree=(0.0, 57.7, 45.5),
            nvls_efficiency=0.85,
        ),
        "blackwell": Caps(
            ll=(282.0, 90.0, 70.0),
            ring_ll128=(73.4, 73.4, 73.4),
            tree=(70.0, 42.8, 24.0),
            tree_ll128=(55.6, 31.67, 20.0),
            nvls_tree=(0.0, 96.0, 80.0),
            nvls_efficiency=0.74,
        ),
    }
)


def caps_of(generation: Generation) -> Caps:
    """Return the caps of a generation; what NCCL has none for takes those of the nearest.

    Rubin takes Blackwell's. AMD's GPUs run RCCL, a port of NCCL with a tuner of its own; they and
    others take Hopper's.
    """
    nearest: Mapping[Generation, Generation] = {"rubin": "blackwell"}
    return _CAPS.get(nearest.get(generation, generation), _CAPS["hopper"])


def hop_us(hardware: Hardware, algorithm: NcclAlgorithm, protocol: NcclProtocol) -> float:
    """Return the latency of one hop, µs."""
    return _HOPS_US[hardware][algorithm][_PROTOCOLS.index(protocol)]


def node_column(domains: int) -> int:
    """Return the column of the caps for a number of domains, as NCCL picks it."""
    return min(domains, 3) - 1
