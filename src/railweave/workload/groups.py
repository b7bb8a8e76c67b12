"""Parallel groups of a training job, and how far their bytes travel.

Ranks are numbered with the tensor-parallel index fastest, then the context-parallel one, then the
data-parallel one, then the pipeline stage: ``rank = t + T·(c + C·(d + D·p))``. Experts are taken
out of the data-parallel ranks, their index fastest: ``d = e + E·b``. (Megatron-LM's default order.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from railweave.design.models import Parallelism
from railweave.errors import InputError
from railweave.fabric import Fabric, PlaneId
from railweave.workload._communicator import gpu_nic, gpu_rail, scale_up_hub
from railweave.workload._placement_groups import nic_leaves

__all__ = [
    "ByteShares",
    "Degrees",
    "GroupKind",
    "byte_shares",
    "message_reach",
    "parallel_groups",
    "resolve_degrees",
]

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

GroupKind = Literal["tensor", "context", "data", "pipeline", "expert", "expert-data"]


@dataclass(frozen=True, slots=True)
class Degrees:
    """Resolved degrees; tensor × context × data × pipeline ranks, expert a divisor of data."""

    tensor: int
    data: int
    pipeline: int
    expert: int
    context: int = 1

    @property
    def ranks(self) -> int:
        """Ranks of the job."""
        return self.tensor * self.context * self.data * self.pipeline

    @property
    def replicas(self) -> int:
        """Ranks that hold the same dense weights and reduce their gradients: data × context."""
        return self.data * self.context


def resolve_degrees(spec: Parallelism | None, ranks: int, name: str = "") -> Degrees:
    """Return the degrees, data-parallel being what the ranks leave.

    Raises:
        InputError: the product does not give the ranks, or experts do not divide the data ranks.
    """
    spec = spec or Parallelism()
    where = f"job {name}: parallelism" if name else "parallelism"
    model_ranks = spec.tensor * spec.pipeline * spec.context
    data = spec.data or ranks // model_ranks
    if data < 1 or model_ranks * data != ranks:
        context = f"context {spec.context} × " if spec.context > 1 else ""
        raise InputError(
            f"{where}: tensor {spec.tensor} × {context}data {max(data, 1)} × pipeline "
            f"{spec.pipeline} = "
            f"{model_ranks * max(data, 1)} is not the {ranks} ranks; allowed: degrees whose "
            f"product is {ranks}; or set ranks to {model_ranks * max(data, 1)}"
        )
    if data % spec.expert:
        raise InputError(
            f"{where}.expert: {spec.expert} does not divide the {data} data-parallel ranks; "
            f"allowed: a divisor of {data}"
        )
    return Degrees(spec.tensor, data, spec.pipeline, spec.expert, spec.context)


def parallel_groups(degrees: Degrees) -> dict[GroupKind, I64]:
    """Return for each kind a table of ranks, one row a group, (groups, members).

    ``data`` are the ranks that reduce the gradients of the same dense weights: the context ranks
    are among them. ``expert-data`` are those that hold the same experts.
    """
    t, c, d = degrees.tensor, degrees.context, degrees.data
    p, e = degrees.pipeline, degrees.expert
    # stage, block, expert, context, tensor
    cube = np.arange(degrees.ranks, dtype=np.int64).reshape(p, d // e, e, c, t)
    return {
        "tensor": cube.reshape(-1, t),
        "context": cube.reshape(-1, c, t).transpose(0, 2, 1).reshape(-1, c),
        "data": cube.reshape(p, d * c, t).transpose(0, 2, 1).reshape(-1, d * c),
        "pipeline": cube.reshape(p, -1).T.copy(),
        "expert": cube.transpose(0, 1, 3, 4, 2).reshape(-1, e),
        "expert-data": cube.transpose(0, 2, 4, 1, 3).reshape(-1, d // e * c),
    }


@dataclass(frozen=True, slots=True)
class ByteShares:
    """Bytes by the farthest thing they cross; they add up to all that was sent.

    ``server_bytes`` stay in a server or scale-up domain, ``leaf_bytes`` under one leaf,
    ``spine_bytes`` cross a spine and ``core_bytes`` a core switch.
    """

    server_bytes: float
    leaf_bytes: float
    spine_bytes: float
    core_bytes: float

    @property
    def total_bytes(self) -> float:
        """All of them."""
        return self.server_bytes + self.leaf_bytes + self.spine_bytes + self.core_bytes


def _rail_nic(fabric: Fabric, src: I32, dst: I32) -> I32:
    """Return the NIC each source uses: that of the destination's rail, else its own."""
    own = gpu_nic(fabric)[src]
    nics = fabric.nics(PlaneId.BACKEND)
    nics = nics[(fabric.node_server[nics] >= 0) & (fabric.node_rail[nics] >= 0)]
    if not nics.size:
        return own
    width = int(fabric.node_rail[nics].max()) + 1
    key = fabric.node_server[nics].astype(np.int64) * width + fabric.node_rail[nics]
    order = np.argsort(key, kind="stable")
    key, nics = key[order], nics[order]
    rail = gpu_rail(fabric)[dst]
    wanted = fabric.node_server[src].astype(np.int64) * width + rail
    at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    found = (rail >= 0) & (key[at] == wanted)
    reachable = scale_up_hub(fabric)[src] >= 0  # over NVLink to the GPU beside that NIC
    chosen: I32 = np.where(found & reachable, nics[at], own).astype(np.int32)
    return chosen


def byte_shares(
    fabric: Fabric,
    src: npt.ArrayLike,
    dst: npt.ArrayLike,
    size_bytes: npt.ArrayLike,
    *,
    rail_aware: bool = True,
) -> ByteShares:
    """Return how far messages between GPUs travel on the back-end.

    Args:
        fabric: where the GPUs are.
        src: GPU nodes that send, (M,).
        dst: GPU nodes that receive, (M,).
        size_bytes: one number or (M,).
        rail_aware: a message leaves through the NIC of its destination's rail, handed over inside
            the server where needed; else through the sender's own NIC.
    """
    reach = message_reach(fabric, src, dst, rail_aware=rail_aware)
    size = np.broadcast_to(np.asarray(size_bytes, dtype=np.float64), reach.shape)
    return ByteShares(*(float(size[reach == part].sum()) for part in range(4)))


def message_reach(
    fabric: Fabric, src: npt.ArrayLike, dst: npt.ArrayLike, *, rail_aware: bool = True
) -> I8:
    """Return the farthest place that each message between GPUs passes on the back-end, (M,).

    0: it stays in the server; 1: it crosses no more than a leaf; 2: a spine; 3: a core switch.
    Arguments as for :func:`byte_shares`.
    """
    a, b = np.asarray(src, dtype=np.int32), np.asarray(dst, dtype=np.int32)
    hub, server = scale_up_hub(fabric), fabric.node_server
    inside = (server[a] == server[b]) | ((hub[a] >= 0) & (hub[a] == hub[b]))
    out = _rail_nic(fabric, a, b) if rail_aware else gpu_nic(fabric)[a]
    into = gpu_nic(fabric)[b]
    leaves = nic_leaves(fabric)
    left, right = leaves[np.maximum(out, 0)], leaves[np.maximum(into, 0)]
    same_leaf = _any_equal(left, right)
    pod = fabric.node_pod
    same_pod = _any_equal(
        np.where(left >= 0, pod[np.maximum(left, 0)], -1),
        np.where(right >= 0, pod[np.maximum(right, 0)], -1),
    )
    has_core = len(fabric.switches(PlaneId.BACKEND, 3)) > 0
    reach = np.where(same_pod, 2, 3) if has_core else np.full(len(a), 2)
    reach[same_leaf] = 1
    reach[inside] = 0
    return reach.astype(np.int8)


def _any_equal(left: I32, right: I32) -> Bool:
    """Tell for each row whether a number ≥ 0 stands in both, shape (M,)."""
    found = np.zeros(len(left), dtype=bool)
    for i in range(left.shape[1]):
        for j in range(right.shape[1]):
            found |= (left[:, i] == right[:, j]) & (left[:, i] >= 0)
    return found
