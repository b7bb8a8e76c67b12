"""How each kind of traffic spreads over equal-cost uplinks: mice even out, elephants collide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from railweave.engine.result import Result
from railweave.fabric import Fabric, NodeKind, PlaneId
from railweave.fabric.routing import Paths
from railweave.report.style import COLOURS, PLANE_COLOURS, apply_style
from railweave.units import format_si
from railweave.workload import Traffic

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["SpreadCurve", "draw_spread", "path_curves", "spread_curves"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
POINTS = 200
LEAST_FLOWS = 2


@dataclass(frozen=True, eq=False)
class SpreadCurve:
    """Load of every leaf uplink of the back-end over its leaf's mean, ascending, for one traffic.

    1 everywhere is a perfect spread. Leaves that this traffic does not leave are not in it.
    ``flows`` counts flows that cross such an uplink; ``bytes_per_flow`` is their mean size.
    """

    label: str
    flows: int
    bytes_per_flow: float
    relative_load: F64

    @property
    def worst(self) -> float:
        """Fullest uplink over the mean of its leaf."""
        return float(self.relative_load[-1])

    @property
    def idle_share(self) -> float:
        """Part of the uplinks which carry nothing."""
        return float(np.mean(self.relative_load == 0))


def _uplinks(fabric: Fabric) -> I64:
    switch = fabric.node_kind == NodeKind.SWITCH
    src, dst = fabric.link_src, fabric.link_dst
    up = switch[src] & switch[dst] & fabric.link_up & (fabric.link_plane == PlaneId.BACKEND)
    up &= (fabric.node_tier[src] == 1) & (fabric.node_tier[dst] > 1)
    return np.flatnonzero(up).astype(np.int64)


def spread_curves(fabric: Fabric, result: Result) -> tuple[SpreadCurve, ...]:
    """Return a curve for each job and each background traffic that crosses leaf uplinks.

    A traffic with fewer than two such flows has none. Loads are payload bytes of the whole run,
    whenever they were sent: it is the choice of links that shows, not who met whom on them.
    """
    if result.paths is None:
        return ()
    return path_curves(fabric, result.traffic, result.paths)


def path_curves(fabric: Fabric, traffic: Traffic, paths: Paths) -> tuple[SpreadCurve, ...]:
    """Return the curves of traffic on the paths that routing gives its streams, unsimulated."""
    links = _uplinks(fabric)
    if not links.size or not traffic.labels:
        return ()
    owner = [label.split("#")[0].split("/")[0] for label in traffic.labels]
    names = tuple(dict.fromkeys(owner))
    of_label = np.array([names.index(name) for name in owner])
    of_flow = of_label[traffic.task_label[traffic.stream_task]][paths.message]
    size = traffic.stream_bytes[paths.message] * paths.share
    flow = np.repeat(np.arange(paths.n_flows), np.diff(paths.ptr))
    weight = size[flow] if paths.weight is None else size[flow] * paths.weight
    place = np.full(fabric.n_links, -1, dtype=np.int64)
    place[links] = np.arange(len(links))
    at = place[paths.link]
    _, leaf = np.unique(fabric.link_src[links], return_inverse=True)
    leaf = leaf.reshape(-1)
    curves = []
    for number, name in enumerate(names):
        mine = (at >= 0) & (of_flow[flow] == number)
        ids = np.unique(flow[mine])
        if len(ids) < LEAST_FLOWS:
            continue
        load = np.bincount(at[mine], weights=weight[mine], minlength=len(links))
        mean = (np.bincount(leaf, weights=load) / np.bincount(leaf))[leaf]
        used = mean > 0
        relative = np.sort(load[used] / mean[used])
        curves.append(SpreadCurve(name, len(ids), float(size[ids].mean()), relative))
    return tuple(curves)


def draw_spread(curves: Sequence[SpreadCurve]) -> go.Figure:
    """Draw the curves over the share of uplinks; a flat line at 1 is a perfect spread."""
    import plotly.graph_objects as go

    figure = go.Figure()
    colours = (COLOURS["second"], COLOURS["first"], *PLANE_COLOURS)
    for number, curve in enumerate(curves):
        n = len(curve.relative_load)
        at = np.unique(np.linspace(0, n - 1, min(n, POINTS)).astype(int))
        load = curve.relative_load[at]
        figure.add_scatter(
            x=np.concatenate(([0.0], 100 * (at + 1) / n)),
            y=np.concatenate((load[:1], load)),
            mode="lines",
            line={"shape": "vh", "width": 2, "color": colours[number % len(colours)]},
            name=(
                f"{curve.label}: {curve.flows:,} flows of "
                f"{format_si(curve.bytes_per_flow, 'B', 3)}, "
                f"fullest {curve.worst:.3g} ×"
            ),
            hovertemplate="%{x:.3g} % of uplinks carry at most %{y:.3g} × the mean<extra></extra>",
        )
    figure.add_hline(y=1, line={"dash": "dot", "width": 1, "color": COLOURS["host"]})
    figure.update_xaxes(title="leaf uplinks, least loaded first [%]", range=[0, 100])
    figure.update_yaxes(title="load / mean of its leaf", rangemode="tozero")
    return apply_style(figure, height=340)
