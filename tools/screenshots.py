#!/usr/bin/env python3
"""Make the pictures of the README and the docs with the product itself: PNG files in docs/img.

Usage: tools/screenshots.py [NAME ...]; without names, all of them. Needs Chromium, no network.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import railweave
from railweave.design.models import HashFunction, RoutingSpec, Transport
from railweave.engine.congest import CongestCase, simulate_congest
from railweave.engine.congest_sweep import grid
from railweave.engine.metrics import uplink_spread
from railweave.fabric import PlaneId
from railweave.fabric.routing import compile_routing
from railweave.formats.files import staged
from railweave.qos import EcnThresholds
from railweave.report.congest import draw_congest, draw_sweep
from railweave.report.drawing import draw_topology
from railweave.report.spread import draw_spread, spread_curves
from railweave.report.style import COLOURS, apply_style
from railweave.report.topology import collapse
from railweave.runs.congest import sweep

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "img"
WIDTH = 860
SCALE = 2  # pictures stay sharp on dense screens
CHROMIUM = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--font-render-hinting=none",
)


def mice_and_elephants() -> go.Figure:
    """Draw how the example's ring and its background spread over the leaves' uplinks."""
    built = railweave.load(ROOT / "examples" / "mice-and-elephants.yaml").build()
    return draw_spread(spread_curves(built.fabric, built.simulate()))


def polarisation() -> go.Figure:
    """Draw the part of the uplinks that hashing uses, with equal seeds and one for each switch."""
    import plotly.graph_objects as go

    built = railweave.parse(
        """
        railweave: 1
        name: three-tier
        cluster: {servers: {model: hgx-h100-8gpu-roce, count: 64}}
        planes:
          backend: {transport: rocev2, topology: fat-tree, tiers: 3,
                    switch: {radix: 16, speed: 400 Gb/s}}
        """
    ).build()
    fabric, flows = built.fabric, 200_000
    ends = np.random.default_rng(0).choice(fabric.gpus, (2, flows))
    figure = go.Figure()
    for seeds, label, colour in (
        ("equal", "equal seeds", COLOURS["bad"]),
        ("per-switch", "a seed for each switch", COLOURS["good"]),
    ):
        spec = RoutingSpec(scheme="ecmp", hash=HashFunction.CRC32, seeds=seeds)
        routing = compile_routing(fabric, PlaneId.BACKEND, spec, Transport.ROCEV2)
        paths = routing.paths(ends[0], ends[1], connection=np.arange(flows, dtype=np.int32))
        used = [100 * (1 - uplink_spread(fabric, paths, tier=tier).idle_share) for tier in (2, 1)]
        figure.add_bar(
            y=["spines' uplinks", "leaves' uplinks"],
            x=used,
            text=[f"{value:.4g} %" for value in used],
            textposition="auto",
            orientation="h",
            name=label,
            marker_color=colour,
        )
    figure.update_xaxes(title="uplinks that carry anything [%]", range=[0, 100])
    figure.update_layout(bargap=0.35)
    return apply_style(figure, height=240)


def topology() -> go.Figure:
    """Draw the example of four scalable units as the report does."""
    built = railweave.load(ROOT / "examples" / "superpod-h100-4su.yaml").build()
    return draw_topology(collapse(built.fabric, pod_name="SU"))


def congest() -> go.Figure:
    """Draw four senders on one egress, with DCQCN and with PFC alone."""
    cases = (CongestCase(senders=4, profile=name) for name in ("dcqcn-firmware", "none"))
    return draw_congest([simulate_congest(case) for case in cases])


def congest_sweep() -> go.Figure:
    """Draw ECN × PFC thresholds × the profiles of DCQCN, four senders on one egress."""
    base = CongestCase(senders=4)
    part = base.buffer_bytes // 100
    marks = [EcnThresholds(n * part, n * part, 1.0) for n in (5, 20, 40, 60)]
    profiles = ("dcqcn-firmware", "dcqcn-paper", "dcqcn-simulator")
    return draw_sweep(sweep(grid(base, marks, [n * part for n in (20, 50, 80)], profiles)))


#: file name in docs/img → what draws it
PICTURES: dict[str, Callable[[], go.Figure]] = {
    "congest": congest,
    "congest-sweep": congest_sweep,
    "mice-and-elephants": mice_and_elephants,
    "polarisation": polarisation,
    "topology": topology,
}


def shoot(browser: Browser, figure: go.Figure) -> bytes:
    """Render a figure in Chromium on a transparent ground and return the PNG."""
    page = browser.new_page(
        viewport={"width": WIDTH, "height": int(figure.layout.height)}, device_scale_factor=SCALE
    )
    asked: list[str] = []
    page.route("**/*", lambda route: (asked.append(route.request.url), route.abort()))
    body = figure.to_html(
        full_html=False, include_plotlyjs=True, div_id="figure", config={"displayModeBar": False}
    )
    page.set_content(f'<body style="margin:0">{body}</body>')
    page.wait_for_function("document.querySelector('#figure .main-svg') !== null", timeout=30_000)
    picture = page.locator("#figure").screenshot(omit_background=True)
    page.close()
    if asked:
        raise SystemExit(f"screenshots: a figure asked the network for {asked[0]}")
    return picture


def main(names: list[str]) -> None:
    """Draw the named pictures, or all."""
    unknown = sorted(set(names) - PICTURES.keys())
    if unknown:
        raise SystemExit(f"screenshots: no picture {unknown[0]!r}; allowed: {', '.join(PICTURES)}")
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("screenshots: Chromium is not installed; tools/system-packages does it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM))
        for name in names or list(PICTURES):
            picture = shoot(browser, PICTURES[name]())
            with staged(IMAGES) as files:
                files.write(f"{name}.png", lambda path, data=picture: path.write_bytes(data))
            print(f"docs/img/{name}.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
