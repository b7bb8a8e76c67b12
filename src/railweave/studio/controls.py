"""The inputs of labs: labelled, with help, usable with a keyboard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from nicegui import ui
from nicegui.elements.mixins.value_element import ValueElement
from nicegui.events import ValueChangeEventArguments

from railweave.errors import RailweaveError
from railweave.studio.help import help_button
from railweave.units import parse_quantity

__all__ = [
    "GPU_STOPS",
    "LATENCY_STOPS",
    "SIZE_STOPS",
    "choice",
    "heading",
    "integer",
    "quantity",
    "ratio",
    "switch",
]

Changed = Callable[[str], None]

#: where sliders stop: sizes of messages, latencies of one, numbers of GPUs
SIZE_STOPS: Final = (
    "1 kB", "4 kB", "16 kB", "64 kB", "256 kB", "1 MB", "4 MB", "16 MB", "64 MB", "128 MB",
    "256 MB", "512 MB", "1 GB", "4 GB", "16 GB",
)  # fmt: skip
LATENCY_STOPS: Final = (
    "0 s", "200 ns", "500 ns", "1 us", "2 us", "3 us", "5 us", "10 us", "20 us", "50 us", "100 us",
    "1 ms",
)  # fmt: skip
GPU_STOPS: Final = (
    2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 96, 128, 256, 512, 1024,
)  # fmt: skip


def heading(text: str) -> None:
    """Add a heading between controls."""
    ui.label(text).classes("rw-h3").props("role=heading aria-level=3")


def _label(label: str, help_key: str) -> None:
    with ui.row(wrap=False).classes("rw-label"):
        ui.label(label)
        help_button(help_key)


Value = TypeVar("Value")


@dataclass(frozen=True)
class _Kind(Generic[Value]):
    """How a slider and a field show the same value.

    ``at`` is the slider's position for a value and ``of`` the value there; ``read`` is the value of
    what stands in the field, None where that is none.
    """

    at: Callable[[Value], float]
    of: Callable[[float], Value]
    read: Callable[[Any], Value | None]


def _pair(
    label: str,
    value: Value,
    on_change: Callable[[Value], None],
    *,
    help_key: str,
    kind: _Kind[Value],
    ends: tuple[float, float, float],
    field: Callable[[], ValueElement[Any]],
) -> None:
    """Add a slider over usual values with a field for any; ``ends`` are its ends and its step."""
    low, high, step = ends
    with ui.element("div").classes("rw-control"):
        _label(label, help_key)
        with ui.element("div").classes("rw-pair"):
            slider = (
                ui.slider(min=low, max=high, step=step, value=kind.at(value))
                .props(f'aria-label="{label}" dense')
                .classes("rw-grow")
            )
            exact = (
                field()
                .props("dense outlined hide-bottom-space input-class=rw-mono")
                .props(f'aria-label="{label}, exact"')
                .classes("rw-exact")
            )
    busy: list[bool] = []  # one moves the other, which must not answer
    told = [value]

    def tell(now: Value, other: ValueElement[Any], shown: object) -> None:
        told[0] = now
        busy.append(True)
        other.set_value(shown)
        busy.clear()
        on_change(now)

    def slid(event: ValueChangeEventArguments[float | None]) -> None:
        if not busy and event.value is not None:
            now = kind.of(event.value)
            tell(now, exact, now)

    def typed() -> None:
        now = kind.read(exact.value)
        if exact.value is None:  # a number that was taken out and not replaced
            exact.set_value(told[0])
        if not busy and now is not None and now != told[0]:
            tell(now, slider, kind.at(now))

    slider.on_value_change(slid)
    exact.on("keydown.enter", typed)
    exact.on("blur", typed)


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

    def at(text: str) -> int:
        if _wrong(text, dimension):  # as an address may give it; the lab says what is wrong
            return 0
        return _nearest(plain, parse_quantity(text, dimension))

    def read(text: object) -> str | None:
        return None if _wrong(str(text or ""), dimension) else str(text)

    _pair(
        label,
        value,
        on_change,
        help_key=help_key,
        kind=_Kind(at, lambda position: stops[int(position)], read),
        ends=(0, len(stops) - 1, 1),
        field=lambda: ui.input(value=value, validation=lambda text: _wrong(text, dimension)),
    )


def _nearest(stops: Sequence[float], value: float) -> int:
    return min(range(len(stops)), key=lambda i: abs(stops[i] - value))


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
    stops: Sequence[int] = (),
) -> None:
    """Add a whole number from ``low`` to ``high``: a slider with its value beside it.

    With ``stops`` the slider goes over these only; the field takes every number.
    """
    usual = [stop for stop in stops if low <= stop <= high]

    def read(given: float | None) -> int | None:
        return int(given) if given is not None and low <= given <= high else None

    if usual:
        kind = _Kind[int](
            lambda now: _nearest(usual, now), lambda position: usual[int(position)], read
        )
        ends = (0, len(usual) - 1, 1)
    else:
        kind = _Kind[int](lambda now: max(low, min(high, now)), int, read)
        ends = (low, high, step)
    _pair(
        label,
        value,
        on_change,
        help_key=help_key,
        kind=kind,
        ends=ends,
        field=lambda: ui.number(
            value=value,
            min=low,
            max=high,
            step=1 if usual else step,
            precision=0,
            format="%d",
        ),
    )


def ratio(
    label: str, value: float, on_change: Callable[[float], None], *, help_key: str = ""
) -> None:
    """Add a ratio to one: a slider in quarters from 0.5 to 8, and a field for 0.1 to 100."""

    def read(given: float | None) -> float | None:
        return float(given) if given is not None and 0.1 <= given <= 100 else None

    _pair(
        label,
        value,
        on_change,
        help_key=help_key,
        kind=_Kind[float](lambda now: min(8.0, max(0.5, now)), float, read),
        ends=(0.5, 8, 0.25),
        field=lambda: ui.number(value=value, min=0.1, max=100, suffix=": 1", format="%g"),
    )


def choice(
    label: str,
    value: str,
    options: Mapping[str, str],
    on_change: Callable[[str], object],
    *,
    help_key: str = "",
) -> ui.select:
    """Add one of several: ``options`` map the value to what the reader sees.

    A value that is none of them shows the first. The element is returned, to be told what to show.
    """
    with ui.element("div").classes("rw-control"):
        _label(label, help_key)
        return (
            ui.select(
                dict(options),
                value=value if value in options else next(iter(options), None),
                on_change=lambda event: on_change(str(event.value or "")),
            )
            .props(f'dense outlined options-dense aria-label="{label}"')
            .classes("w-full")
        )


def switch(
    label: str, value: bool, on_change: Callable[[bool], None], *, help_key: str = ""
) -> None:
    """Add a thing that is on or off."""
    with ui.row(wrap=False).classes("rw-control items-center"):
        ui.switch(label, value=value, on_change=lambda event: on_change(bool(event.value))).props(
            "dense"
        )
        help_button(help_key)
