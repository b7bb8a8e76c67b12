"""The text side of the design page: the editor, what is wrong with the text, help at the cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nicegui import ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from railweave.design.completion import FieldHelp, complete, describe, describe_path
from railweave.errors import RailweaveError
from railweave.studio.design_check import Mark, apply_fix
from railweave.studio.designs import MOST_TEXT_B

if TYPE_CHECKING:
    from railweave.formats.yaml_source import PathStep
    from railweave.studio.app import Studio

__all__ = ["EditorAssist", "TextPane", "keys_help"]

KEYS = (
    ("Ctrl-Space", "what may be written here; Enter takes it, Escape closes"),
    ("F8, Shift-F8", "to the next or previous error or warning"),
    ("Ctrl-.", "put the proposed value in, on this line"),
    ("Ctrl-Enter", "run the design"),
    ("Ctrl-Z, Ctrl-Y", "undo and redo, changes by forms too"),
    ("Ctrl-F", "search and replace"),
    ("Tab, Shift-Tab", "indent and outdent"),
    ("Escape, then Tab", "leave the editor (Ctrl-M keeps Tab for leaving)"),
)
_SIGNS = {"error": "●", "warning": "▲", "info": "·"}
_NAMES = {"error": "error", "warning": "warning", "info": "note"}
#: rows of the list of problems that are shown at once
_SHOWN = 60


class EditorAssist(Element, component="static/editor_assist.js"):
    """Joins the code editor of this id; see the script."""

    def __init__(self, editor: int, label: str, described: str, most: int) -> None:
        super().__init__()
        self._props["editor"] = editor
        self._props["label"] = label
        self._props["described"] = described
        self._props["most"] = most


class TextPane:
    """The editor with its list of problems and the help of the field at the cursor.

    Args:
        studio: for its calculator.
        text: to begin with.
        on_text: called with each new text, typed or set.
        on_run: called when the keyboard asks for a run.
    """

    def __init__(
        self,
        studio: Studio,
        text: str,
        on_text: Callable[[str], None],
        on_run: Callable[[], None],
    ) -> None:
        self._studio = studio
        self._marks: tuple[Mark, ...] = ()
        self._looked = ("", -1)
        self._suspect = False
        with ui.element("div").classes("rw-editor"):
            self.code = ui.codemirror(
                text, language="YAML", theme="githubLight", indent="  ", line_wrapping=True
            ).classes("rw-code")
            self.code.on_value_change(lambda event: on_text(str(event.value or "")))
            self.assist = EditorAssist(
                self.code.id, "Design, as YAML", "rw-editor-keys", MOST_TEXT_B
            )
        self.assist.on("ask", self._asked, ["id", "kind", "offset"])
        self.assist.on("cursor", self._moved, ["offset", "length"])
        self.assist.on("fix", lambda event: self._fix(int(event.args["number"])), ["number"])
        self.assist.on("run", lambda _: on_run(), [])
        self.assist.on("refused", self._refused, [])
        self.assist.on("ready", lambda _: self._send_marks(), [])
        with (
            ui.element("section")
            .classes("rw-card rw-inspector")
            .props('aria-label="Field at the cursor"')
        ):
            self._help = ui.element("div")
        self._status = ui.label("").props("role=status").classes("rw-design-status")
        self._list = (
            ui.element("ol")
            .classes("rw-problems")
            .props('aria-label="Errors and findings" tabindex=0')
        )
        self.show_help(None)

    @property
    def text(self) -> str:
        """The text as it now stands."""
        return str(self.code.value or "")

    def set_text(self, text: str) -> None:
        """Put another text in; undo brings the one before back."""
        if text != self.text:
            self.code.set_value(text)

    def undo(self) -> None:
        """Take the last change back."""
        self.assist.run_method("undo")

    def redo(self) -> None:
        """Make the change again that was taken back."""
        self.assist.run_method("redo")

    # ---------------------------------------------------------- problems

    def building(self) -> None:
        """Say that the text reads well and more is being found out; errors of before are gone."""
        if any(mark.severity == "error" for mark in self._marks):
            self.show_marks((), "")
        self._status.set_text("Reads well; building …")

    def show_marks(self, marks: Sequence[Mark], status: str) -> None:
        """Show what is wrong, in the text and in the list below it."""
        same = self._marks == tuple(marks)
        self._marks = tuple(marks)
        self._send_marks()
        self._status.set_text(status)
        if same:
            return
        self._list.clear()
        with self._list:
            for number, mark in enumerate(self._marks[:_SHOWN]):
                self._row(number, mark)
            if len(self._marks) > _SHOWN:
                with ui.element("li"):
                    ui.label(f"and {len(self._marks) - _SHOWN} more")

    def _send_marks(self) -> None:
        rows = [
            {
                "number": number,
                "start": mark.start,
                "end": mark.end,
                "severity": mark.severity,
                "message": f"{mark.path}: {mark.message}" if mark.path else mark.message,
                "allowed": mark.allowed,
                "nearest": mark.nearest,
                "fixable": mark.fixable,
            }
            for number, mark in enumerate(self._marks)
            if mark.line
        ]
        self.assist.run_method("mark", rows, len(self.text))

    def _row(self, number: int, mark: Mark) -> None:
        name = _NAMES[mark.severity]
        with ui.element("li").classes(f"rw-problem rw-problem-{mark.severity}"):
            ui.label(_SIGNS[mark.severity]).props("aria-hidden=true").classes("rw-problem-sign")
            with ui.element("div").classes("rw-problem-body"):
                with ui.row().classes("rw-problem-head"):
                    place = f"{name}, {mark.line}:{mark.column}" if mark.line else name
                    if mark.line:
                        ui.button(place, on_click=lambda: self._go(mark)).props(
                            f'flat dense no-caps aria-label="{place}: go there"'
                        ).classes("rw-place")
                    else:
                        ui.label(place).classes("rw-place")
                    if mark.fixable:
                        ui.button(f"Put {mark.nearest}", on_click=lambda: self._fix(number)).props(
                            "outline dense no-caps"
                        ).classes("rw-fix")
                ui.label(f"{mark.path}: {mark.message}" if mark.path else mark.message)
                if mark.allowed:
                    lead = "Allowed" if mark.severity == "error" and mark.path else "Remedy"
                    ui.label(f"{lead}: {mark.allowed}").classes("rw-quiet")

    def _go(self, mark: Mark) -> None:
        self.assist.run_method("go", mark.start)

    async def _fix(self, number: int) -> None:
        if not 0 <= number < len(self._marks) or not self._marks[number].fixable:
            return
        text = self.text
        try:
            changed = await self._studio.compute(apply_fix, text, self._marks[number])
        except RailweaveError as error:
            ui.notify(str(error))
            return
        if text == self.text:
            self.set_text(changed)

    def _refused(self) -> None:
        ui.notify(f"A design has at most {MOST_TEXT_B:,} characters; the change was not made.")

    # ---------------------------------------------------------- help and completion

    async def _asked(self, event: GenericEventArguments) -> None:
        number, offset = int(event.args["id"]), int(event.args["offset"])
        work = {"complete": complete, "describe": describe}.get(str(event.args["kind"]))
        answer: dict[str, Any] | None = None
        if work is not None:
            found = await self._studio.compute(_as_plain, work.__name__, self.text, offset)
            answer = found
        self.assist.run_method("answer", number, answer)

    async def _moved(self, event: GenericEventArguments) -> None:
        offset, length = int(event.args["offset"]), int(event.args["length"])
        if length != len(self.text):
            await self._settle()
            return
        self._suspect = False
        if (self.text, offset) != self._looked:
            self._looked = (self.text, offset)
            self.show_help(await self._studio.compute(describe, self.text, offset))

    async def _settle(self) -> None:
        """Take the browser's text where the two differ for longer than an update's way."""
        if self._suspect:
            return
        self._suspect = True
        await asyncio.sleep(0.3)
        text = await self.assist.run_method("text", timeout=3)
        self._suspect = False
        if isinstance(text, str) and text != self.text:
            self.code.set_value(text)

    def look_at(self, path: Sequence[PathStep]) -> None:
        """Show the help of a field that a form has the focus on."""
        named = tuple(path)
        while named and isinstance(named[-1], int):
            named = named[:-1]
        self.show_help(describe_path(named))

    def show_help(self, help_: FieldHelp | None) -> None:
        """Show what a field is."""
        self._help.clear()
        with self._help:
            if help_ is None:
                ui.label("Put the cursor on a field to read what it means.").classes("rw-quiet")
                return
            with ui.row().classes("rw-inspector-head"):
                ui.label(help_.path).classes("rw-mono rw-inspector-path")
                if help_.required:
                    ui.label("must be written").classes("rw-quiet")
                elif help_.default:
                    ui.label(f"default: {help_.default}").classes("rw-quiet")
            ui.label(help_.description)
            if help_.allowed:
                ui.label(f"Takes {help_.allowed}").classes("rw-quiet rw-inspector-takes")


def _as_plain(kind: str, text: str, offset: int) -> dict[str, Any] | None:
    """Answer a question of the editor as plain data."""
    found = complete(text, offset) if kind == "complete" else describe(text, offset)
    return None if found is None else asdict(found)


def keys_help() -> None:
    """Add the table of keys, folded."""
    with (
        ui.expansion("Keys of the editor").classes("rw-card w-full"),
        ui.element("dl").classes("rw-concepts").props("id=rw-editor-keys"),
    ):
        for keys, what in KEYS:
            with ui.element("dt"):
                ui.label(keys).classes("rw-mono")
            with ui.element("dd"):
                ui.label(what)
