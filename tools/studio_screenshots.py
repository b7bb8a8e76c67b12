#!/usr/bin/env python3
"""Take pictures of every page of the studio, at both widths, in light and dark.

Usage: tools/studio_screenshots.py [PAGE ...]; without pages, all of them. They go to
out/screenshots; those that README and docs show go to docs/img/studio too. Needs Chromium, no
network.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from railweave.studio.registry import installed_labs

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "screenshots"
SHOWN = ROOT / "docs" / "img" / "studio"
DESIGN = ROOT / "examples" / "superpod-h100-1su.yaml"
WIDTHS = {1280: 900, 390: 844}
SCHEMES = ("light", "dark")
#: what README and docs show
IN_DOCS = (
    "home-1280-light",
    "architecture-1280-light",
    "traffic-1280-light",
    "fabric-1280-light",
    "congestion-1280-light",
    "congestion-390-dark",
    "collectives-1280-dark",
    "design-1280-light",
    "training-1280-light",
)
#: what comes last on pages that go on working
LAST = {"training": "[data-table=scaling]"}
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


def pages() -> dict[str, str]:
    """Return the pages by name: home, design, and every lab that is there."""
    labs = {lab.key: f"/lab/{lab.key}" for lab in installed_labs() if lab.build is not None}
    return {"home": "/", "design": "/design", **labs}


def shoot(browser: Browser, address: str, names: list[str]) -> None:
    """Take the pictures of these pages."""
    for width, height in WIDTHS.items():
        for scheme in SCHEMES:
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
                reduced_motion="reduce",
            )
            page = context.new_page()
            for name in names:
                page.goto(address + pages()[name])
                there = ".cm-content" if name == "design" else ".rw-tile .rw-value"
                page.wait_for_selector(there, timeout=90_000)
                if name in LAST:
                    page.wait_for_selector(LAST[name], timeout=90_000)
                page.wait_for_load_state("networkidle")
                page.wait_for_timeout(2_000)  # figures and drawings
                picture = f"{name}-{width}-{scheme}"
                page.screenshot(path=OUT / f"{picture}.png", full_page=width < 1280)
                if picture in IN_DOCS:
                    page.screenshot(path=SHOWN / f"{picture}.png")
                print(f"{picture}.png")
            context.close()


def main(names: list[str]) -> None:
    """Serve a studio, take the pictures, stop it."""
    unknown = sorted(set(names) - pages().keys())
    if unknown:
        raise SystemExit(f"no page {unknown[0]!r}; allowed: {', '.join(pages())}")
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("Chromium is not installed; tools/system-packages does it")
    from playwright.sync_api import sync_playwright

    OUT.mkdir(parents=True, exist_ok=True)
    SHOWN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("w") as out:
            studio = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "railweave",
                    "studio",
                    "--no-browser",
                    "--port",
                    "0",
                    DESIGN,
                ],
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=folder,
            )
        try:
            while "http://" not in log.read_text():
                if studio.poll() is not None:
                    raise SystemExit(log.read_text())
                time.sleep(0.05)
            address = "http://" + log.read_text().partition("http://")[2].split()[0].rstrip("/")
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
                shoot(browser, address, names or list(pages()))
                browser.close()
        finally:
            studio.terminate()
            studio.wait(10)


if __name__ == "__main__":
    main(sys.argv[1:])
