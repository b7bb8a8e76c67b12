"""A k-ary fat tree with explicit routes, in NumPy only: the ground the flow benchmarks run on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LINE_RATE_BPS = 400e9 / 8


@dataclass(frozen=True)
class FatTree:
    """Three tiers, full bisection: `k` pods of k/2 leaves with k/2 hosts each."""

    k: int

    @property
    def hosts(self) -> int:
        return self.k**3 // 4

    @property
    def links(self) -> int:
        return 6 * self.hosts

    def capacity(self) -> np.ndarray:
        return np.full(self.links, LINE_RATE_BPS)

    def routes(
        self, src: np.ndarray, dst: np.ndarray, seed: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """CSR of directed links; ECMP with a random spine, or (seed None) D-mod-k."""
        half, n = self.k // 2, self.hosts
        if seed is None:
            agg, core = dst % half, (dst // half) % half
        else:
            rng = np.random.default_rng(seed)
            agg = rng.integers(0, half, len(src))
            core = rng.integers(0, half, len(src))
        leaf_s, leaf_d = src // half, dst // half
        pod_s, pod_d = leaf_s // half, leaf_d // half
        up1 = leaf_s * half + agg
        up2 = (pod_s * half + agg) * half + core
        down2 = (pod_d * half + agg) * half + core
        down1 = leaf_d * half + agg
        hops = np.stack(
            [src, n + up1, 2 * n + up2, 3 * n + down2, 4 * n + down1, 5 * n + dst], axis=1
        )
        same_leaf, same_pod = leaf_s == leaf_d, pod_s == pod_d
        keep = np.ones_like(hops, dtype=bool)
        keep[:, 1] = keep[:, 4] = ~same_leaf
        keep[:, 2] = keep[:, 3] = ~same_pod
        ptr = np.zeros(len(src) + 1, dtype=np.int64)
        np.cumsum(keep.sum(axis=1), out=ptr[1:])
        return ptr, hops[keep].astype(np.int32)


def tree_for(hosts: int) -> FatTree:
    k = 2
    while k**3 // 4 < hosts:
        k += 2
    return FatTree(k)


def all_to_all(n: int) -> tuple[np.ndarray, np.ndarray]:
    src, dst = np.divmod(np.arange(n * n), n)
    keep = src != dst
    return src[keep], dst[keep]


def one_shot(
    capacity: np.ndarray, ptr: np.ndarray, link: np.ndarray, size: np.ndarray, **more: object
) -> dict[str, object]:
    """FlowSim arguments: one task a flow, all starting at time 0."""
    n = len(size)
    zero = np.zeros(n)
    return {
        "capacity_Bps": capacity,
        "row_ptr": ptr,
        "row_link": link,
        "row_weight": None,
        "flow_bytes": size,
        "flow_latency_s": zero,
        "task_flow_ptr": np.arange(n + 1, dtype=np.int64),
        "task_start_s": zero,
        "task_delay_s": zero,
        "dep_ptr": np.zeros(n + 1, dtype=np.int64),
        "dep_task": np.zeros(0, dtype=np.int32),
        "dep_kind": np.zeros(0, dtype=np.uint8),
        "task_rounds": np.ones(n, dtype=np.int32),
        **more,
    }
