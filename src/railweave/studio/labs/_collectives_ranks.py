"""Lab 7's control for the number of GPUs: usual numbers on the slider, any in the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from railweave.studio.help import help_button

__all__ = ["ranks_control"]

_STOPS: Final = (
    2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 96, 128, 256, 512, 1024,
)  # fmt: skip


def ranks_control(
    label: str, value: int, most: int, on_change: Callable[[int], None], *, help_key: str
) -> None:
    """Add the control; its numbers go from 2 to ``most``."""
    stops = [stop for stop in _STOPS if stop <= most]

    def nearest(number: float) -> int:
        return min(range(len(stops)), key=lambda k: abs(stops[k] - number))

    with ui.element("div").classes("rw-control"):
        with ui.row(wrap=False).classes("rw-label"):
            ui.label(label)
            help_button(help_key)
        with ui.row(wrap=False).classes("w-full items-center no-wrap"):
            slider = (
                ui.slider(min=0, max=len(stops) - 1, step=1, value=nearest(value))
                .props(f'aria-label="{label}" dense')
                .classes("grow")
            )
            field = (
                ui.number(value=value, min=2, max=most, step=1, precision=0)
                .props(f'dense outlined aria-label="{label}, exact" input-class="rw-mono"')
                .classes("rw-exact")
            )
    busy: list[bool] = []  # one moves the other, which must not answer

    def slid(event: ValueChangeEventArguments[float | None]) -> None:
        if busy or event.value is None:
            return
        busy.append(True)
        field.set_value(stops[int(event.value)])
        busy.clear()
        on_change(stops[int(event.value)])

    def typed() -> None:
        if busy or field.value is None or not 2 <= field.value <= most:
            return
        busy.append(True)
        slider.set_value(nearest(field.value))
        busy.clear()
        on_change(int(field.value))

    slider.on_value_change(slid)
    field.on("keydown.enter", typed)
    field.on("blur", typed)
