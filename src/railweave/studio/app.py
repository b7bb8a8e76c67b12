"""The studio as one web application: pages, REST API, guard. Made once a process."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from nicegui import app as nicegui_app
from nicegui import ui

from railweave.runs.jobs import JobQueue
from railweave.studio.compute import Calculator
from railweave.studio.editor import add_report_route, design_page
from railweave.studio.guard import Guard
from railweave.studio.home import home_page
from railweave.studio.page import LabPage
from railweave.studio.registry import find_lab, pages_beside
from railweave.studio.rest import ApiSettings, create_api
from railweave.studio.session import Session, Sessions
from railweave.studio.settings import StudioSettings
from railweave.studio.shell import frame

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["Studio", "create_app"]

API = "/api/v1"
STATIC = Path(__file__).parent / "static"
_ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><g stroke='#0072b2' "
    "stroke-width='3' fill='none'><path d='M6 26 16 6 26 26M6 26 26 6M26 26 6 6'/></g></svg>"
)


class Studio:
    """What pages share: visitors' sessions, the calculator, the job queue."""

    def __init__(self, settings: StudioSettings, design_text: str, design_name: str) -> None:
        from railweave.runs import ResultStore

        self.settings = settings
        self.sessions = Sessions(design_text, design_name)
        self.compute = Calculator()
        store = ResultStore(settings.store) if settings.store else None
        self.queue = JobQueue(settings.workers, store, preload=("railweave.runs.congest",))

    def session(self) -> Session:
        """Return the session of the visitor whose page is being built."""
        return self.sessions.of(str(nicegui_app.storage.browser["id"]))

    def close(self) -> None:
        """Stop what works."""
        self.compute.close()
        self.queue.close()


def create_app(settings: StudioSettings, design_text: str, design_name: str) -> ASGIApp:
    """Return the studio; every visitor starts with this design.

    NiceGUI keeps its pages in one application a process, so this is called once.
    """
    studio = Studio(settings, design_text, design_name)
    api = FastAPI(title="railweave", docs_url=None, redoc_url=None, openapi_url=None)
    rest = create_api(studio.queue, ApiSettings(host=settings.host, token=settings.token))
    api.mount(API, rest)
    nicegui_app.add_static_files("/studio-static", STATIC)
    nicegui_app.on_startup(rest.state.start)
    nicegui_app.on_startup(studio.queue.warm)  # a first long run shows something within a second
    nicegui_app.on_shutdown(rest.state.close)
    nicegui_app.on_shutdown(studio.close)
    _add_pages(studio)
    ui.run_with(
        api,
        title="railweave",
        favicon=_ICON,
        dark=None,
        language="en-US",
        tailwind=False,
        storage_secret=secrets.token_hex(),
        # By default a browser that is busy for two seconds loses its page, and with it its runs.
        reconnect_timeout=20.0,
        show_welcome_message=False,
    )
    return Guard(api, settings, open_below=API)  # the API has a guard of its own


def _add_pages(studio: Studio) -> None:
    add_report_route(studio)

    @ui.page("/")
    def home() -> None:
        home_page(studio, studio.session())

    @ui.page("/design")
    def design() -> None:
        session = studio.session()
        with frame("Design", session):
            design_page(studio, session)

    @ui.page("/lab/{key}")
    def lab(key: str, request: Request) -> None:
        _lab_page(studio, key, request)


def _lab_page(studio: Studio, key: str, request: Request) -> None:
    session = studio.session()
    lab = find_lab(key)
    if lab is None:
        ui.status_code(404)
    if lab is None or lab.build is None:
        with frame("Not there", session):
            ui.label(lab.missing if lab else f"There is no lab {key[:40]!r}.")
            ui.link("Back to the labs", "/")
        return
    with frame(lab.name, session, lab):
        ui.label(lab.summary).classes("rw-quiet")
        for other in pages_beside(lab):
            ui.link(f"{other.title}: {other.summary}", f"/lab/{other.key}").classes("rw-quiet")
        page = LabPage(studio, session, lab, dict(request.query_params))
        lab.build(page)
