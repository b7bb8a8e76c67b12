"""The inputs of labs: labelled, with help, usable with a keyboard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from railweave.errors import RailweaveError
from railweave.studio.help import help_button
from railweave.units import parse_quantity

__all__ = ["choice", "heading", "integer", "quantity", "switch"]

Changed = Callable[[str], None]


def heading(text: str) -> None:
    """Add a heading between controls."""
    ui.label(text).classes("rw-h3").props("role=heading aria-level=3")


def _label(label: str, help_key: str) -> None:
    with ui.row(wrap=False).classes("rw-label"):
        ui.label(label)
        help_button(help_key)


def quantity(
    label: str,
    value: str,
    stops: Sequence[str],
    dimension: str,
    on_change: Changed,
    *,
    help_key: str = "",
) -> None:
    """Add a quantity: a text field for any value, and a slider over usual ones.

    Args:
        label: what it is.
        value: with its unit.
        stops: values of the slider, from small to large.
        dimension: of :data:`railweave.units.DIMENSIONS`.
        on_change: is given the text, once it can be read.
        help_key: of the glossary.
    """
    plain = [parse_quantity(stop, dimension) for stop in stops]

    def nearest(text: str) -> int:
        if _wrong(text, dimension):  # as an address may give it; the lab says what is wrong
            return 0
        at = parse_quantity(text, dimension)
        return min(range(len(plain)), key=lambda i: abs(plain[i] - at))

    with ui.element("div").classes("rw-control"):
        _label(label, help_key)
        with ui.element("div").classes("rw-pair"):
            slider = (
                ui.slider(min=0, max=len(stops) - 1, step=1, value=nearest(value))
                .props(f'aria-label="{label}" dense')
                .classes("rw-grow")
            )
            field = (
                ui.input(value=value, validation=lambda text: _wrong(text, dimension))
                .props(
                    f'dense outlined hide-bottom-space aria-label="{label}, exact" '
                    'input-class="rw-mono"'
                )
                .classes("rw-exact")
            )
        busy: list[bool] = []  # one moves the other, which must not answer
        told = [value]

        def slid(event: ValueChangeEventArguments[float | None]) -> None:
            if busy or event.value is None:
                return
            told[0] = stops[int(event.value)]
            busy.append(True)
            field.set_value(told[0])
            busy.clear()
            on_change(told[0])

        def typed() -> None:
            text = str(field.value or "")
            if busy or text == told[0] or _wrong(text, dimension):
                return
            told[0] = text
            busy.append(True)
            slider.set_value(nearest(text))
            busy.clear()
            on_change(text)

        slider.on_value_change(slid)
        field.on("keydown.enter", typed)
        field.on("blur", typed)


def _wrong(text: str, dimension: str) -> str | None:
    try:
        parse_quantity(text or "", dimension)
    except RailweaveError as error:
        return str(error)
    return None


def integer(
    label: str,
    value: int,
    low: int,
    high: int,
    on_change: Callable[[int], None],
    *,
    help_key: str = "",
    step: int = 1,
) -> None:
    """Add a whole number from ``low`` to ``high``: a slider with its value beside it."""
    with ui.element("div").classes("rw-control"):
        _label(label, help_key)
        with ui.element("div").classes("rw-pair"):
            slider = (
                ui.slider(min=low, max=high, step=step, value=max(low, min(high, value)))
                .props(f'aria-label="{label}" dense')
                .classes("rw-grow")
            )
            field = (
                ui.number(value=value, min=low, max=high, step=step, precision=0)
                .props(
                    f'dense outlined hide-bottom-space aria-label="{label}, exact" '
                    'input-class="rw-mono"'
                )
                .classes("rw-exact")
            )
        busy: list[bool] = []
        told = [value]

        def slid(event: ValueChangeEventArguments[float | None]) -> None:
            if busy or event.value is None:
                return
            told[0] = int(event.value)
            busy.append(True)
            field.set_value(told[0])
            busy.clear()
            on_change(told[0])

        def typed() -> None:
            if busy or field.value is None or not low <= field.value <= high:
                return
            if int(field.value) == told[0]:
                return
            told[0] = int(field.value)
            busy.append(True)
            slider.set_value(told[0])
            busy.clear()
            on_change(told[0])

        slider.on_value_change(slid)
        field.on("keydown.enter", typed)
        field.on("blur", typed)


def choice(
    label: str,
    value: str,
    options: Mapping[str, str],
    on_change: Changed,
    *,
    help_key: str = "",
) -> None:
    """Add one of several: ``options`` map the value to what the reader sees."""
    with ui.element("div").classes("rw-control"):
        _label(label, help_key)
        ui.select(
            dict(options),
            value=value if value in options else next(iter(options)),
            on_change=lambda event: on_change(str(event.value)),
        ).props(f'dense outlined options-dense aria-label="{label}"').classes("w-full")


def switch(
    label: str, value: bool, on_change: Callable[[bool], None], *, help_key: str = ""
) -> None:
    """Add a thing that is on or off."""
    with ui.row(wrap=False).classes("rw-control items-center"):
        ui.switch(label, value=value, on_change=lambda event: on_change(bool(event.value))).props(
            "dense"
        )
        help_button(help_key)
