"""The one canvas of the studio: it draws a `Scene`, and says what the visitor does with it.

Drawing, moving about and animating happen in the browser (``static/canvas.js``); the server only
sends scenes and hears of selections. Everything that can be done with a mouse can be done with the
keyboard: the canvas's own "keys" popover lists how.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from nicegui.awaitable_response import AwaitableResponse
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from railweave.report.style import HEAT, PLANE_COLOURS, ROLE_COLOURS
from railweave.studio.scene import Scene

__all__ = ["PALETTE", "Canvas"]

Named: TypeAlias = Callable[[str], object | Awaitable[object]]
Selected: TypeAlias = Callable[[str | None], object | Awaitable[object]]
Timed: TypeAlias = Callable[[float], object | Awaitable[object]]

#: colour by role: those of the report, and ``plane-a`` to ``plane-h`` for parallel planes or series
PALETTE: Final[Mapping[str, str]] = {
    **ROLE_COLOURS,
    **{f"plane-{letter}": hue for letter, hue in zip("abcdefgh", PLANE_COLOURS, strict=True)},
}


class Canvas(
    Element,
    component="static/canvas.js",
    esm={"railweave-canvas": "static/canvas"},
):
    """A drawing to move about in, by mouse, touch or keyboard.

    Args:
        scene: what is drawn.
        on_select: called with the id of the node or link selected, None when nothing is.
        on_toggle: called with the id of a group that is to be opened or closed; the handler answers
            with :meth:`show`. Left out, groups are frames only.
        on_activate: called with the id of a node or link that was double-clicked, long-pressed or
            on which Enter was pressed.
        on_time: called with the scene's time when it stands still, and four times a second while
            it plays.
        height_px: of the drawing; it is as wide as there is room for.
        activate_hint: what activating does ("take it out or put it back"), said in the help.
        palette: further roles and their colours.
        autoplay: play at once, unless the visitor asked for less motion.
        loop: begin again at the end.
    """

    def __init__(
        self,
        scene: Scene,
        on_select: Selected | None = None,
        on_toggle: Named | None = None,
        on_activate: Named | None = None,
        on_time: Timed | None = None,
        *,
        height_px: int = 440,
        activate_hint: str = "",
        palette: Mapping[str, str] | None = None,
        autoplay: bool = False,
        loop: bool = False,
    ) -> None:
        super().__init__()
        self._scene = scene
        self._selected: str | None = None
        self._on_select = on_select
        self._props["document"] = scene.document()
        self._props["palette"] = {**PALETTE, **(palette or {})}
        self._props["heat"] = [list(stop) for stop in HEAT]
        self._props["height"] = height_px
        self._props["hint"] = activate_hint
        self._props["autoplay"] = autoplay
        self._props["loop"] = loop
        self._props["toggles"] = on_toggle is not None
        self._props["activates"] = on_activate is not None
        self._props["hears-time"] = on_time is not None
        self.on("select", self._hear_select, ["id"])
        self._forward("toggle", on_toggle)
        self._forward("activate", on_activate)
        if on_time is not None:
            hears = on_time
            self.on("time", lambda event: hears(float(event.args["t_s"])), ["t_s"])

    def _forward(self, name: str, handler: Named | None) -> None:
        if handler is not None:
            self.on(name, lambda event: handler(str(event.args["id"])), ["id"])

    def _hear_select(self, event: GenericEventArguments) -> object:
        chosen = event.args["id"]
        self._remember(None if chosen is None else str(chosen))
        return self._on_select(self._selected) if self._on_select else None

    def _remember(self, name: str | None) -> None:
        """Keep the selection for when the element is sent again; the browser has it already."""
        self._selected = name
        self._props["chosen"] = name

    @property
    def scene(self) -> Scene:
        """The scene that is shown."""
        return self._scene

    @property
    def selected(self) -> str | None:
        """The id of the node or link that is selected."""
        return self._selected

    def show(self, scene: Scene) -> None:
        """Draw another scene.

        The view stays where it is if most nodes are the same, and so does the selection if it still
        exists; a scene that moves starts again at its beginning, playing if it was.
        """
        self._scene = scene
        self._props["document"] = scene.document()
        self.update()

    def play(self) -> None:
        """Let the scene's time run."""
        self._tell("play")

    def pause(self) -> None:
        """Stop the scene's time."""
        self._tell("pause")

    def step(self, steps: int = 1) -> None:
        """Stop at the next step, or at the one before (−1)."""
        self._tell("step", steps)

    def seek(self, t_s: float) -> None:
        """Stop at a time of the scene, in seconds; outside its duration, at the nearest end."""
        self._tell("seek", t_s if math.isfinite(t_s) else 0.0)

    def speed(self, factor: float) -> None:
        """Play faster or slower; at 1 the whole scene takes ten seconds, however long it is."""
        self._tell("speed", factor if math.isfinite(factor) and factor > 0 else 1.0)

    def select(self, name: str | None) -> None:
        """Select a node or link, or nothing; `on_select` is not called."""
        self._remember(name)
        self._tell("select", name)

    def fit(self) -> None:
        """Show the whole scene."""
        self._tell("fit")

    def export_png(self, file_name: str = "railweave.png") -> None:
        """Let the browser download the drawing as it is seen."""
        self._tell("exportPng", file_name)

    def _tell(self, method: str, *arguments: object) -> AwaitableResponse:
        return self.run_method(method, *arguments)
