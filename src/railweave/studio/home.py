"""The home page: the loaded design, the labs, kept runs with the pinned baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from railweave.studio.design_summary import design_numbers
from railweave.studio.parts import Tiles
from railweave.studio.registry import installed_labs
from railweave.studio.run_overlays import run_overlays
from railweave.studio.shell import frame

if TYPE_CHECKING:
    from railweave.studio.app import Studio
    from railweave.studio.session import Session

__all__ = ["home_page"]


def home_page(studio: Studio, session: Session) -> None:
    """Build the home page."""
    with frame("railweave studio", session):
        _design(studio, session)
        _title("Labs")
        with ui.element("ul").classes("rw-cards"):
            for lab in installed_labs():
                with (
                    ui.element("li")
                    .classes("rw-card rw-lab-card" + ("" if lab.build else " rw-absent"))
                    .style(f"--hue: {lab.hue}")
                ):
                    if lab.build:
                        ui.link(lab.name, f"/lab/{lab.key}").classes("rw-h3")
                    else:
                        ui.label(lab.name).classes("rw-h3")
                    ui.label(lab.summary)
                    if lab.build is None:
                        ui.label(f"Not there yet: {lab.missing}").classes("rw-quiet")
        _title("Kept runs")
        place = ui.element("section").props('aria-label="Kept runs"')
        run_overlays(session, place)


def _title(text: str) -> None:
    ui.label(text).classes("rw-h2").props("role=heading aria-level=2")


def _design(studio: Studio, session: Session) -> None:
    """Show the loaded design in numbers, once they are there."""
    with ui.element("section").classes("rw-card").props('aria-label="Loaded design"'):
        with ui.row().classes("items-center"):
            ui.label(session.design_name).classes("rw-h2").props("role=heading aria-level=2")
            ui.link("Edit it, or start from an example", "/design")
        said = ui.label("Building…").classes("rw-quiet").props("role=status")
        tiles = Tiles()

    async def fill() -> None:
        from railweave.errors import RailweaveError

        try:
            tiles.show(await studio.compute(design_numbers, session.design_text))
        except RailweaveError as error:
            said.set_text(str(error))
            said.classes(replace="rw-banner").props("role=alert")
        else:
            said.set_visibility(False)

    ui.timer(0.01, fill, once=True)
