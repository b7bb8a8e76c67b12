#!/usr/bin/env python3
"""Run the experiments; write their figures and the page of the docs that shows them.

Usage: tools/experiment_figures.py [NAME ...]; with names, only their figures. Needs Chromium, no
network.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from screenshots import CHROMIUM, IMAGES, ROOT, shoot

from railweave.experiments import EXPERIMENTS, Experiment, Outcome, experiment
from railweave.formats.files import staged
from railweave.report.experiments import draw_chart, value_table

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGE = ROOT / "docs" / "model" / "packet-experiments.md"
FOLDER = "experiments"

HEAD = """\
# Experiments with the packet engine

Each experiment is a small run with a claim. The page is written by `tools/experiment_figures.py`
from what the runs give; a test runs them all and asserts the claims, and
`railweave.experiments.experiment(name).run()` repeats one. Goodput is payload; a full packet of
4,096 B takes 4,178 B on an Ethernet wire. Where nothing else is said cables have 5 m, switches
600 ns from port to port and a shared buffer as of a 64 × 400 Gb/s switch, thresholds follow
railweave's rules, and senders go back to the first packet lost.
"""


def file_name(of: Experiment, chart: str) -> str:
    """Return the name of a chart's picture."""
    return f"{of.name}-{chart}.png"


def section(of: Experiment, outcome: Outcome, folder: str = FOLDER) -> Iterator[str]:
    """Give the lines of an experiment's section; its pictures stand in this folder."""
    yield f"\n## {of.title}\n"
    yield f"`{of.name}` — {of.claim} **{'Holds' if outcome.holds else 'Does not hold'}.**\n"
    yield f"{outcome.reading}\n"
    for chart in outcome.charts:
        yield f"![{of.title}: {chart.y_title}](../img/{folder}/{file_name(of, chart.name)})\n"
    yield "| parameter | |\n|---|---|"
    yield "\n".join(f"| {name} | {text} |" for name, text in of.parameters.items())
    table = value_table(of, outcome)
    yield "\n| " + " | ".join(table.header) + " |"
    yield "|" + "---|" * len(table.header)
    yield "\n".join("| " + " | ".join(row) + " |" for row in table.rows)


def main(names: list[str]) -> None:
    """Draw the named experiments, or all and the page."""
    chosen = [experiment(name) for name in names] or list(EXPERIMENTS)
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("experiments: Chromium is not installed; tools/system-packages does it")
    from playwright.sync_api import sync_playwright

    lines = [HEAD]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM))
        for item in chosen:
            outcome = item.run()
            lines.extend(section(item, outcome))
            draw(browser, item, outcome, FOLDER)
        browser.close()
    if not names:
        write_page(PAGE, "\n".join(lines) + "\n")


def draw(browser: Browser, of: Experiment, outcome: Outcome, folder: str) -> None:
    """Draw an experiment's charts into a folder of the docs' pictures, and say how it ended."""
    (IMAGES / folder).mkdir(exist_ok=True)
    for chart in outcome.charts:
        picture = shoot(browser, draw_chart(chart))
        with staged(IMAGES / folder) as files:
            files.write(
                file_name(of, chart.name),
                lambda path, data=picture: path.write_bytes(data),
            )
    print(f"{of.name}: {'holds' if outcome.holds else 'DOES NOT HOLD'}", flush=True)


def write_page(path: Path, text: str) -> None:
    """Write the page as a whole or not at all."""
    with staged(path.parent) as files:
        files.write(path.name, lambda to: to.write_text(text, encoding="utf-8"))


if __name__ == "__main__":
    main(sys.argv[1:])
