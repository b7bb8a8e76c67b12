"""Help in place: a small button beside a quantity that shows what it is."""

from __future__ import annotations

from nicegui import ui

from railweave.errors import InputError
from railweave.studio.content import quantity

__all__ = ["help_button"]


def help_button(key: str) -> None:
    """Add the "?" of a quantity; it opens definition, formula, unit and source.

    A quantity that the glossary does not have gets none.
    """
    try:
        entry = quantity(key)
    except InputError:
        return
    with (
        ui.button("?")
        .props(f'flat round dense size=xs aria-label="What is {entry.name}?"')
        .classes("rw-help")
    ):
        # Filled when first opened: a page has dozens of these.
        menu = ui.menu().classes("rw-help-menu").props('aria-label="Help"')
        done: list[bool] = []

        def fill() -> None:
            if done:
                return
            done.append(True)
            with menu, ui.element("div").classes("rw-help-body"):
                ui.label(entry.name).classes("rw-h3")
                ui.label(entry.definition)
                if entry.formula:
                    ui.label(entry.formula).classes("rw-formula")
                for name, text in (("Unit", entry.unit), ("Source", entry.source)):
                    if text:
                        ui.label(f"{name}: {text}").classes("rw-quiet")

        menu.on("before-show", fill)
