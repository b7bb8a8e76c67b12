"""Which of NCCL's algorithms and protocols an operation can use on a system, and why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from railweave.design.models import Collective
from railweave.predict._nccl_names import NcclAlgorithm, NcclProtocol
from railweave.predict.system import CollectiveSystem

__all__ = ["DIRECT_OPERATIONS", "why_not"]

_A, _P, _C = NcclAlgorithm, NcclProtocol, Collective

#: operations that are direct messages, with no choice of algorithm
DIRECT_OPERATIONS: Final = (_C.ALL_TO_ALL, _C.SEND_RECV)

_PIECES: Final = (_C.ALL_GATHER, _C.REDUCE_SCATTER)
_SERVES: Final[Mapping[NcclAlgorithm, tuple[Collective, ...]]] = MappingProxyType(
    {
        _A.RING: (_C.ALL_REDUCE, *_PIECES, _C.BROADCAST, _C.REDUCE),
        _A.TREE: (_C.ALL_REDUCE,),
        _A.COLLNET_DIRECT: (_C.ALL_REDUCE, *_PIECES),
        _A.COLLNET_CHAIN: (_C.ALL_REDUCE,),
        _A.NVLS: (_C.ALL_REDUCE, *_PIECES),
        _A.NVLS_TREE: (_C.ALL_REDUCE,),
        _A.PAT: _PIECES,
    }
)
#: with these, switches or peers handle whole chunks: there is no flag in every line
_SIMPLE_ONLY: Final = (_A.COLLNET_DIRECT, _A.COLLNET_CHAIN, _A.NVLS, _A.NVLS_TREE, _A.PAT)
_NO_NVSWITCH: Final = "it needs NVSwitch that adds up and multicasts (Hopper or later)"
_NO_SHARP: Final = "it needs SHARP: InfiniBand, and to be asked for (--sharp, in_network)"


def why_not(
    system: CollectiveSystem, op: Collective, algorithm: NcclAlgorithm, protocol: NcclProtocol
) -> str:
    """Return why an algorithm and protocol cannot be used, ``""`` where they can."""
    if op not in _SERVES[algorithm]:
        served = ", ".join(each.value for each in _SERVES[algorithm])
        return f"it serves {served} only"
    if algorithm in _SIMPLE_ONLY and protocol is not _P.SIMPLE:
        return "it runs with Simple only"
    return _of_system(system, op, algorithm) or _of_protocol(system, protocol)


def _of_system(system: CollectiveSystem, op: Collective, algorithm: NcclAlgorithm) -> str:
    """Return the first need of an algorithm that the system does not meet."""
    return next((text for met, text in _needs(system, op, algorithm) if not met), "")


def _needs(
    system: CollectiveSystem, op: Collective, algorithm: NcclAlgorithm
) -> Iterator[tuple[bool, str]]:
    """Yield (is it met, what is missing where it is not) of every need."""
    many, alone = system.domains > 1, system.ranks_per_domain == 1
    sharp = many and system.in_network
    if algorithm in (_A.COLLNET_DIRECT, _A.COLLNET_CHAIN):
        yield many, "it needs several domains: SHARP works on the network"
        yield sharp, _NO_SHARP
    if algorithm in (_A.COLLNET_DIRECT, _A.NVLS):
        yield system.multicast, _NO_NVSWITCH
    if algorithm is _A.NVLS:
        yield sharp or not many, "over several domains " + _NO_SHARP
    if algorithm is _A.NVLS_TREE:
        yield many, "it is for several domains; inside one, NVLS does the same"
        yield system.multicast and not alone, _NO_NVSWITCH
    if algorithm is _A.PAT:
        yield many and alone, "it needs one rank a domain, in several domains"
    if op in _PIECES and many and algorithm in (_A.COLLNET_DIRECT, _A.NVLS):
        a_nic_each = system.ranks_per_domain <= system.nics_per_domain
        yield a_nic_each, f"{op.value} with SHARP needs a NIC for every GPU"


def _of_protocol(system: CollectiveSystem, protocol: NcclProtocol) -> str:
    if protocol is not _P.LL128:
        return ""
    if system.ranks_per_domain > 1 and system.scale_up not in ("nvlink", "xgmi"):
        return "LL128 needs stores of 128 bytes that arrive whole: NVLink or xGMI, not PCIe"
    if system.domains > 1 and system.network == "tcp":
        return "LL128 needs a network that writes to the GPU directly, not TCP"
    return ""
