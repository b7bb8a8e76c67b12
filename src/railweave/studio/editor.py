"""The design page: YAML with completion and errors at their lines, in step with forms; runs."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nicegui import background_tasks, ui
from nicegui.events import UploadEventArguments

from railweave.design.edit import value_span
from railweave.errors import DesignError, RailweaveError
from railweave.formats.yaml_source import PathStep, parse_yaml
from railweave.studio._editor_forms import Change, FormPane
from railweave.studio._editor_run import RunPane, add_report_route
from railweave.studio._editor_text import TextPane, keys_help
from railweave.studio.design_check import Checked, Mark, check_text, find_findings
from railweave.studio.design_forms import worked_out_of
from railweave.studio.designs import MOST_TEXT_B, examples, open_design
from railweave.units import counted

if TYPE_CHECKING:
    from railweave.studio.app import Studio
    from railweave.studio.session import Session

__all__ = ["add_report_route", "design_page"]

#: what is typed within this time is looked at together
_PAUSE_S = 0.12
#: so many characters more, and looking waits a second longer: reading them takes its time
_SLOW_CHARACTERS = 150_000
#: a run waits so long for the text to be looked at
_PATIENCE_S = 30.0


def design_page(studio: Studio, session: Session) -> None:
    """Build the page."""
    ui.add_head_html('<link rel="stylesheet" href="/studio-static/editor.css">')
    _Page(studio, session)


@dataclass(frozen=True)
class _Looked:
    """What one look at a text gives: problems, its data, and what is worked out from it."""

    checked: Checked
    data: object
    worked: Mapping[str, str]


def look(text: str) -> _Looked:
    """Read a text for the page; nothing is raised."""
    checked = check_text(text)
    try:
        data: object = parse_yaml(text, "design.yaml").data
    except DesignError:
        data = None
    return _Looked(checked, data, worked_out_of(text) if checked.good else {})


def with_defaults(text: str) -> str:
    """Return a good design with every default written out."""
    return open_design(text).with_defaults()


class _Page:
    """One visitor's design page: text, forms and runs, and what keeps them in step."""

    def __init__(self, studio: Studio, session: Session) -> None:
        self._studio = studio
        self._session = session
        self._seen = ""
        self._good = False
        self._worked: Mapping[str, str] = {}
        self._lock = asyncio.Lock()
        self._settled = asyncio.Event()  # the text as it stands has been looked at to the end
        first = session.design_text if session.draft_text is None else session.draft_text
        self._tools()
        self._state = ui.label("").props("role=status").classes("rw-loaded")
        with ui.element("div").classes("rw-design") as self._root:
            with ui.element("section").classes("rw-design-text").props('aria-label="Text"'):
                self._pane = TextPane(studio, first, self._changed, self._run_soon)
                keys_help()
            with (
                ui.element("section")
                .classes("rw-panel rw-design-forms")
                .props('aria-label="Forms"')
            ):
                self._forms = FormPane(self._change, self._focus)
        self._runs = RunPane(studio, session, self._to_run, self._put)
        self._changed(first)

    # ---------------------------------------------------------- start from, keep

    def _tools(self) -> None:
        with ui.row().classes("rw-tools rw-design-tools"):
            self._example = (
                ui.select(
                    {"": _START}, value="", on_change=lambda e: self._start(str(e.value or ""))
                )
                .props('dense outlined options-dense aria-label="Start from an example"')
                .classes("rw-examples")
            )
            upload = (
                ui.upload(
                    on_upload=self._opened,
                    on_rejected=lambda: ui.notify(_TOO_LARGE),
                    auto_upload=True,
                    max_file_size=MOST_TEXT_B,
                )
                .props('accept=".yaml,.yml,.txt"')
                .classes("hidden rw-upload")
            )
            for text, act in (
                ("Open a file", lambda: upload.run_method("pickFiles")),
                ("Download", self._download),
                ("Show with defaults", self._defaults),
                ("Undo", self._undo),
                ("Redo", self._redo),
            ):
                ui.button(text, on_click=act).props("outline dense no-caps")

        ui.timer(0.01, self._offer, once=True)

    async def _offer(self) -> None:
        """Offer the examples once they are read, which takes a moment the first time."""
        found = await self._studio.compute(examples)
        self._example.set_options({"": _START, **{e.name: e.name for e in found}}, value="")

    def _undo(self) -> None:
        self._pane.undo()

    def _redo(self) -> None:
        self._pane.redo()

    def _start(self, name: str) -> None:
        example = next((e for e in examples() if e.name == name), None)
        if example is not None:
            self._put(example.text, f"{example.name}.yaml")
            self._example.set_value("")

    def _put(self, text: str, name: str) -> None:
        self._session.design_name = name
        self._pane.set_text(text)

    async def _opened(self, event: UploadEventArguments) -> None:
        event.sender.reset()  # type: ignore[attr-defined]
        raw = await event.file.read()
        if len(raw) > MOST_TEXT_B:
            ui.notify(_TOO_LARGE)
            return
        try:
            text = raw.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            ui.notify(f"The file is no UTF-8 text (byte {error.start:,}); save it as UTF-8.")
            return
        if "\0" in text:
            ui.notify("The file is no text: it holds NUL characters.")
            return
        self._put(text, _file_name(event.file.name))

    def _download(self) -> None:
        ui.download.content(
            self._pane.text, _file_name(self._session.design_name), "application/yaml"
        )

    async def _defaults(self) -> None:
        try:
            text = await self._studio.compute(with_defaults, self._pane.text)
        except RailweaveError as error:
            ui.notify(f"Defaults are known once the design is good: {str(error).splitlines()[0]}")
            return
        with ui.dialog() as dialog, ui.card().classes("rw-defaults"):
            ui.label("The design with every default").classes("rw-h2").props(
                "role=heading aria-level=2"
            )
            ui.code(text, language="yaml").classes("w-full rw-defaults-text")
            with ui.row():

                def take() -> None:
                    dialog.close()
                    self._pane.set_text(text)

                ui.button("Put it into the editor", on_click=take).props("outline dense no-caps")
                ui.button("Close", on_click=dialog.close).props("flat dense no-caps")
        dialog.open()

    # ---------------------------------------------------------- in step

    def _changed(self, text: str) -> None:
        """Take in a new text, by whomever; what is not looked at yet is looked at together."""
        self._settled.clear()
        self._session.draft_text = text

        async def run() -> None:
            with self._root:
                await self._look()

        background_tasks.create_lazy(run(), name=f"design {id(self)}")

    async def _look(self) -> None:
        if self._seen:
            await asyncio.sleep(_PAUSE_S + len(self._pane.text) / _SLOW_CHARACTERS)
        text = self._pane.text
        self._seen = text
        looked = await self._studio.compute(look, text)
        if text != self._pane.text:
            return  # the next look is on its way
        self._good = False
        if not looked.checked.good:
            self._show(text, looked, looked.checked.marks)
            return
        self._worked = looked.worked
        self._pane.building()
        self._fill(looked, ())
        findings = await self._studio.compute(find_findings, text)
        if text != self._pane.text:
            return
        self._good = not any(mark.severity == "error" and mark.path for mark in findings)
        if self._good:
            self._session.design_text = text
            self._session.draft_text = None
        self._show(text, looked, findings)

    def _show(self, text: str, looked: _Looked, marks: Sequence[Mark]) -> None:
        self._pane.show_marks(marks, _counted(marks))
        self._fill(looked, marks)
        name = self._session.design_name or "design.yaml"
        if self._good or text == self._session.design_text:
            self._state.set_text(f"{name} is loaded: the labs use it as it stands here.")
        else:
            self._state.set_text(
                f"{name}: this text is kept, and not loaded while it has errors; the labs go on "
                "with the last good design."
            )
        self._settled.set()

    def _fill(self, looked: _Looked, marks: Sequence[Mark]) -> None:
        """Bring the forms in step."""
        if looked.checked.readable and isinstance(looked.data, dict):
            problems = {mark.path: mark.text for mark in marks if mark.path}
            self._forms.show(looked.data, looked.worked or self._worked, problems)
        else:
            self._forms.wait("The text is no sound YAML at the moment; the forms wait for it.")

    def _change(self, function: Change, arguments: Sequence[object]) -> None:
        async def run() -> None:
            with self._root:
                await self._apply(function, arguments)

        background_tasks.create(run(), name="design form")

    async def _apply(self, function: Change, arguments: Sequence[object]) -> None:
        """Make a form's change in the text as it is by then."""
        async with self._lock:
            for _ in range(5):
                text = self._pane.text
                try:
                    changed = await self._studio.compute(function, text, *arguments)
                except RailweaveError as error:
                    ui.notify(str(error))
                    self._changed(text)
                    return
                if text == self._pane.text:
                    self._pane.set_text(changed)
                    self._reveal(changed, arguments[0])
                    return

    def _reveal(self, text: str, path: Any) -> None:  # noqa: ANN401 - a field's path
        span = value_span(text, path)
        if span is not None:
            self._pane.assist.run_method("reveal", span[0])

    def _focus(self, path: Sequence[PathStep]) -> None:
        self._pane.look_at(path)

    # ---------------------------------------------------------- run

    async def _to_run(self) -> tuple[str, str]:
        """Return the text to run once it is looked at, or why it cannot be run."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), _PATIENCE_S)
        text = self._pane.text
        if not self._settled.is_set():
            return text, "The design is still being looked at; try again in a moment."
        if not self._good:
            return text, "The design has errors; mend them first, they are listed under the text."
        return text, ""

    def _run_soon(self) -> None:
        async def run() -> None:
            with self._root:
                await self._runs.run()

        background_tasks.create(run(), name="design run")


_START = "Start from an example …"
_TOO_LARGE = f"A design file has at most {MOST_TEXT_B // 1024:,} KiB; this one is larger."


def _file_name(name: str) -> str:
    """Return a name for a design file that is safe anywhere."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name.rpartition("/")[2]).strip("-.")[:80]
    stem = stem or "design"
    return stem if stem.endswith((".yaml", ".yml")) else f"{stem}.yaml"


def _counted(marks: Sequence[Mark]) -> str:
    """Count what is wrong in words."""
    counts = {name: sum(m.severity == name for m in marks) for name in ("error", "warning", "info")}
    words = [
        counted(count, word)
        for count, word in zip(counts.values(), ("error", "warning", "note"), strict=True)
        if count
    ]
    return ", ".join(words) if words else "No errors, no findings."
