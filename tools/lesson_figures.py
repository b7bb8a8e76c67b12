#!/usr/bin/env python3
"""Run the labs' lessons; write their figures and the page of the docs that shows them.

Usage: tools/lesson_figures.py. Needs Chromium, no network.
"""

from __future__ import annotations

import shutil

from experiment_figures import draw, section, write_page
from screenshots import CHROMIUM, ROOT

from railweave.report.lessons import all_lessons

PAGE = ROOT / "docs" / "model" / "lessons.md"
FOLDER = "lessons"

HEAD = """\
# Lessons of the labs

Each lab of the studio ends in a claim, and its Learn panel runs the experiment that shows it. These
are the same experiments and what they gave. The page is written by `tools/lesson_figures.py`; a
test runs them all, asserts the claims, and alters an input of each to see that its claim can fail.
`railweave.report.lessons.all_lessons()[lab].run()` repeats one, by the key in the lab's address.
"""


def main() -> None:
    """Draw all lessons and write the page."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("lessons: Chromium is not installed; tools/system-packages does it")
    from playwright.sync_api import sync_playwright

    lines = [HEAD]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM))
        for item in all_lessons().values():
            outcome = item.run()
            lines.extend(section(item, outcome, FOLDER))
            draw(browser, item, outcome, FOLDER)
        browser.close()
    write_page(PAGE, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
