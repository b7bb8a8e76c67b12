"""Lab 4's element: drawing, trace and packet inspector with one selection, in the browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from nicegui.element import Element

__all__ = ["OperationView"]

Wanted: TypeAlias = Callable[[str, int], Awaitable[str | None]]
Picked: TypeAlias = Callable[[int, int, str], object]


class OperationView(
    Element,
    component="../static/rdma.js",
    esm={"railweave-rdma": "../static/rdma"},
):
    """Shows one run: two hosts with what is at work lit, who did what, and every packet's bytes.

    Args:
        want: is given a run's key and a packet's number, and returns that packet as JSON, None
            where it is not there any more.
        picked: is told the step, the packet and the field that are selected.
        chosen: what is selected at first.
    """

    def __init__(self, want: Wanted, picked: Picked, chosen: tuple[int, int, str]) -> None:
        super().__init__()
        step, packet, field = chosen
        self._props["document"] = ""
        self._props["chosen"] = {"step": step, "packet": packet, "field": field}

        async def answer(key: str, packet: int) -> None:
            text = await want(key, packet)
            if text is not None and not self.is_deleted:
                self.run_method("show", text)

        self.on(
            "want", lambda event: answer(str(event.args["key"]), int(event.args["packet"])),
            ["key", "packet"],
        )  # fmt: skip
        self.on(
            "picked",
            lambda event: picked(
                int(event.args["step"]), int(event.args["packet"]), str(event.args["field"])
            ),
            ["step", "packet", "field"],
        )

    def show(self, document: str) -> None:
        """Show a run (see :func:`railweave.studio.labs._rdma_document.run_text`)."""
        if document != self._props["document"]:
            self._props["document"] = document
            self.update()
