"""Names of NCCL's algorithms and protocols, as it writes them in NCCL_ALGO and NCCL_PROTO."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["NcclAlgorithm", "NcclProtocol"]


class NcclAlgorithm(StrEnum):
    """Algorithms of NCCL 2.30."""

    RING = "Ring"
    TREE = "Tree"
    COLLNET_DIRECT = "CollNetDirect"
    COLLNET_CHAIN = "CollNetChain"
    NVLS = "NVLS"
    NVLS_TREE = "NVLSTree"
    PAT = "PAT"


class NcclProtocol(StrEnum):
    """Protocols: LL flags every 8 bytes, LL128 every 128, Simple synchronises by chunk."""

    LL = "LL"
    LL128 = "LL128"
    SIMPLE = "Simple"
