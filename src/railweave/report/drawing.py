"""The one topology drawing: servers at the bottom, the highest tier on top, pods in frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railweave.fabric import TIER_NAMES
from railweave.report.layout import Place, pod_slots, tier_places
from railweave.report.style import COLOURS, PLANE_COLOURS, apply_style
from railweave.report.topology import DisplayNode, TopologyView, tier_plural
from railweave.units import format_bits_rate

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["draw_topology", "drawing_width"]

Places = dict[int, Place]


def drawing_width(view: TopologyView) -> int:
    """Return the width in pixels below which labels would run into each other."""
    pods = len({node.pod for node in view.nodes if node.tier == 0})
    shared = sum(node.pod < 0 for node in view.nodes if node.tier > 0)
    boxes = len([node for node in view.nodes if node.tier == 1])
    return max(320, 72 * pods, 22 * shared, 16 * boxes)


def draw_topology(view: TopologyView) -> go.Figure:
    """Draw a collapsed plane; bundles with links out are red, parallel planes have own colours."""
    import plotly.graph_objects as go

    places = tier_places(view)
    figure = go.Figure()
    _frame_pods(figure, view)
    _add_bundles(figure, view, places)
    _add_bundle_texts(figure, view, places)
    top = max((node.tier for node in view.nodes), default=0)
    for tier in range(top + 1):
        _add_tier(figure, view, tier, places)
    figure.update_xaxes(visible=False, range=[-0.01, 1.01], fixedrange=True)
    figure.update_yaxes(visible=False, range=[-0.5, top + 0.38], fixedrange=True)
    apply_style(figure, height=130 + 125 * top)
    figure.update_layout(
        legend={"y": -0.02, "yanchor": "top"}, margin={"l": 4, "r": 4, "t": 4, "b": 8}
    )
    return figure


def _frame_pods(figure: go.Figure, view: TopologyView) -> None:
    """Frame everything of a pod, from its servers to its highest switches, and name it."""
    slots = pod_slots(view)
    if len(slots) < 3:
        return
    gap = 0.004
    for pod, (left, right) in slots.items():
        if pod < 0:
            continue
        top = max(node.tier for node in view.nodes if node.pod == pod)
        figure.add_shape(
            type="rect",
            x0=left + gap,
            x1=right - gap,
            y0=-0.46,
            y1=top + 0.3,
            layer="below",
            line={"color": COLOURS["link"], "width": 1, "dash": "dot"},
            fillcolor="rgba(128,140,155,0.07)",
        )
        wide = len(slots) <= 9
        figure.add_annotation(
            x=(left + right) / 2,
            y=-0.45,
            showarrow=False,
            yanchor="bottom",
            font={"size": 11},
            text=f"{view.pod_name} {pod + 1}" if wide else f"{pod + 1}",
        )


def _add_bundles(figure: go.Figure, view: TopologyView, places: Places) -> None:
    """Add the lines between boxes: one trace for each parallel plane, one for what is broken."""
    box = {node.key: node for node in view.nodes}
    kinds: dict[tuple[bool, int], list[tuple[int, int]]] = {}
    for edge in view.edges:
        subplane = max(box[edge.lower].subplane, box[edge.upper].subplane)
        kinds.setdefault((edge.down_links > 0, subplane), []).append((edge.lower, edge.upper))
    for (broken, subplane), pairs in sorted(kinds.items()):
        xs: list[float | None] = []
        ys: list[float | None] = []
        for lower, upper in pairs:
            (x0, y0), (x1, y1) = places[lower], places[upper]
            xs += [x0, x1, None]
            ys += [y0, y1, None]
        colour = COLOURS["link"] if subplane < 0 else PLANE_COLOURS[subplane % 8]
        name = "links out" if broken else f"plane {'ABCDEFGH'[subplane]}"
        figure.add_scatter(
            x=xs,
            y=ys,
            mode="lines",
            hoverinfo="skip",
            name=name,
            showlegend=broken or subplane >= 0,
            opacity=0.9 if broken else 0.6 if len(pairs) < 120 else 0.3,
            line={"width": 1.8 if broken else 1, "color": COLOURS["bad"] if broken else colour},
        )


def _add_bundle_texts(figure: go.Figure, view: TopologyView, places: Places) -> None:
    """Add invisible points in the middle of the bundles which say what is in them."""
    box = {node.key: node for node in view.nodes}
    texts = []
    for edge in view.edges:
        out = f", {edge.down_links:,} of them out" if edge.down_links else ""
        texts.append(
            f"{box[edge.lower].label} – {box[edge.upper].label}<br>{edge.links:,} links{out}, "
            f"{format_bits_rate(edge.capacity_bps)} each way"
        )
    middles = [
        [(places[edge.lower][axis] + places[edge.upper][axis]) / 2 for edge in view.edges]
        for axis in (0, 1)
    ]
    figure.add_scatter(
        x=middles[0],
        y=middles[1],
        mode="markers",
        hovertext=texts,
        hoverinfo="text",
        showlegend=False,
        marker={"size": 9, "color": "rgba(0,0,0,0)"},
    )


def _hover(view: TopologyView, node: DisplayNode) -> str:
    up = [edge for edge in view.edges if edge.lower == node.key]
    if not up:
        return node.detail
    rate = format_bits_rate(sum(edge.capacity_bps for edge in up))
    return f"{node.detail}<br>{sum(edge.links for edge in up):,} links up, {rate}"


def _add_tier(figure: go.Figure, view: TopologyView, tier: int, places: Places) -> None:
    """Add the boxes of one tier; they are labelled where there is room for it."""
    row = [node for node in view.nodes if node.tier == tier]
    if not row:
        return
    name = TIER_NAMES.get(tier, "switch") if tier else "host"
    few = len(row) <= (9 if tier == 0 else 8)
    short = tier == 0 and not few
    figure.add_scatter(
        x=[places[node.key][0] for node in row],
        y=[places[node.key][1] for node in row],
        mode="markers+text" if few or short else "markers",
        text=[f"{node.count:,}" if short else node.label for node in row],
        textposition="bottom center" if tier == 0 else "top center",
        hovertext=[_hover(view, node) for node in row],
        hoverinfo="text",
        name=tier_plural(tier, dict(view.totals)[tier]),
        marker={
            "size": 13 if few else 9,
            "symbol": "square",
            "color": COLOURS.get(name, COLOURS["host"]),
            "line": {
                "width": [2 if node.subplane >= 0 else 0 for node in row],
                "color": [PLANE_COLOURS[max(node.subplane, 0) % 8] for node in row],
            },
        },
    )
