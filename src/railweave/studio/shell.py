"""The frame of every page: header, the nine labs as numbered circles, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nicegui import ui

from railweave.report.style import ROLE_COLOURS
from railweave.studio.lab import Lab
from railweave.studio.registry import installed_labs

if TYPE_CHECKING:
    from railweave.studio.session import Session

__all__ = ["frame"]

#: where the circles do not all fit, those around the page's own are shown
_TO_HERE = """
const here = document.querySelector(".rw-here");
const labs = here?.closest(".rw-labs");
if (labs) {
  const box = here.getBoundingClientRect();
  labs.scrollLeft += box.left + box.width / 2 - labs.clientWidth / 2;
}
"""


@contextmanager
def frame(title: str, session: Session, current: Lab | None = None) -> Iterator[None]:
    """Build a page's frame; what is built inside the block is the page."""
    ui.page_title(f"{title} · railweave")
    ui.add_head_html(_head())
    # Quasar's colours follow the one palette.
    ui.colors(
        primary=ROLE_COLOURS["backend"],
        positive=ROLE_COLOURS["frontend"],
        warning=ROLE_COLOURS["congestion"],
        negative=ROLE_COLOURS["fault"],
    )
    dark = ui.dark_mode(value=session.dark)
    ui.link("Skip to the content", "#content").classes("rw-skip")
    with ui.element("header").classes("rw-header"):
        ui.link("railweave", "/").classes("rw-brand")
        with ui.element("nav").props('aria-label="Pages"').classes("rw-pages"):
            ui.link("Home", "/")
            ui.link("Design", "/design")
        ui.space()

        def turn() -> None:
            session.dark = not (dark.value or False)
            dark.set_value(session.dark)

        ui.button("Light / dark", on_click=turn).props("flat dense no-caps").classes("rw-dark")
    _labs(current)
    with ui.element("div").props("id=content tabindex=-1").classes("rw-content"):
        ui.label(title).classes("rw-h1").props("role=heading aria-level=1")
        yield


def _labs(current: Lab | None) -> None:
    """Add the labs as numbered circles joined by a line."""
    with (
        ui.element("nav").props('aria-label="Labs"').classes("rw-labs"),
        ui.element("ol"),
    ):
        for lab in (one for one in installed_labs() if one.number is not None):
            with ui.element("li").style(f"--hue: {lab.hue}"):
                _circle(lab, here=lab is current)


def _circle(lab: Lab, *, here: bool) -> None:
    if lab.build is None:
        with ui.element("span").classes("rw-circle rw-absent"):
            ui.label(str(lab.number)).classes("rw-number")
            ui.label(lab.title).classes("rw-lab-title")
            ui.tooltip(lab.missing)
            ui.label(f"not there yet: {lab.missing}").classes("sr-only")
        return
    with ui.link(target=f"/lab/{lab.key}").classes("rw-circle" + (" rw-here" if here else "")) as a:
        ui.label(str(lab.number)).classes("rw-number")
        ui.label(lab.title).classes("rw-lab-title")
    if here:
        a.props("aria-current=page")
        ui.run_javascript(_TO_HERE)


def _head() -> str:
    """Return the palette as custom properties, and the style sheet's link."""
    palette = "".join(f"--rw-{name}: {colour};" for name, colour in ROLE_COLOURS.items())
    return (
        f"<style>:root {{{palette}}}</style>"
        '<link rel="stylesheet" href="/studio-static/studio.css">'
        '<meta name="description" content="railweave studio">'
    )
