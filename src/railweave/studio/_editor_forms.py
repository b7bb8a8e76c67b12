"""The forms side of the design page: sections of controls in step with the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nicegui import ui

from railweave.design.edit import add_item, remove_field, set_field
from railweave.errors import RailweaveError
from railweave.formats.yaml_source import format_path
from railweave.studio.design_forms import (
    SECTIONS,
    FormField,
    FormGroup,
    form_of,
    new_entry,
    read_value,
)

if TYPE_CHECKING:
    from railweave.formats.yaml_source import PathStep

__all__ = ["FormPane"]

Change = Callable[..., str]


class FormPane:
    """One section of the form at a time; what it changes, it changes in the text.

    Args:
        on_change: is given a function of the text, its further arguments, and the field's path.
        on_focus: is given the path of the field that the focus is on.
    """

    def __init__(
        self,
        on_change: Callable[[Change, Sequence[object]], None],
        on_focus: Callable[[Sequence[PathStep]], None],
    ) -> None:
        self._on_change = on_change
        self._on_focus = on_focus
        self._section = SECTIONS[0]
        self._data: object = None
        self._worked: Mapping[str, str] = {}
        self._problems: Mapping[str, str] = {}
        self._shown: FormGroup | None = None
        self._controls: dict[str, _Control] = {}
        self._open: set[str] = set()
        with (
            ui.tabs()
            .props("dense no-caps inline-label mobile-arrows outside-arrows align=left")
            .classes("rw-form-tabs") as tabs
        ):
            names = {s.key: ui.tab(s.key, s.title) for s in SECTIONS}
        tabs.set_value(names[self._section.key])
        tabs.on_value_change(self._turn)
        self._note = ui.label("").classes("rw-quiet hidden").props("role=status")
        self._body = (
            ui.element("div")
            .classes("rw-form")
            .props('role=tabpanel aria-label="Fields of the section"')
        )

    def show(self, data: object, worked: Mapping[str, str], problems: Mapping[str, str]) -> None:
        """Take in the text's data; controls keep the focus where the fields are the same.

        Args:
            data: plain data of the text.
            worked: what fields left out come to, by path.
            problems: what is wrong, by path.
        """
        self._data, self._worked, self._problems = data, worked, problems
        self._note.classes(add="hidden")
        self._body.classes(remove="rw-form-off").props(remove="inert")
        self._refresh()

    def wait(self, why: str) -> None:
        """Stand still while the text is no YAML."""
        self._note.set_text(why)
        self._note.classes(remove="hidden")
        self._body.classes(add="rw-form-off").props("inert")

    @property
    def _waiting(self) -> bool:
        return "rw-form-off" in self._body.classes

    def _turn(self, event: Any) -> None:  # noqa: ANN401 - NiceGUI's event
        self._section = next(s for s in SECTIONS if s.key == event.value)
        self._shown = None
        self._refresh()

    def _refresh(self) -> None:
        group = form_of(self._data, self._section, self._worked)
        if self._shown is not None and _shape(group) == _shape(self._shown):
            for field in group.walk():
                control = self._controls.get(format_path(field.path))
                if control is not None:
                    control.show(field, self._problems.get(format_path(field.path), ""))
        else:
            self._controls.clear()
            self._body.clear()
            with self._body:
                self._group(group, 2)
        self._shown = group

    # ---------------------------------------------------------- building

    def _group(self, group: FormGroup, level: int) -> None:
        if not group.path and not group.fields:  # a section of several parts has the tab's name
            for inner in group.groups:
                self._section_of(inner)
            return
        self._head(group, level)
        if not group.present:
            ui.button(f"Add {group.title.lower()}", on_click=lambda: self._add(group)).props(
                "outline dense no-caps"
            )
            return
        if group.fields:
            with ui.element("div").classes("rw-fields"):
                for field in group.fields:
                    self._control(field)
        if group.more:
            self._folded(f"More of {group.title.lower()}", group, level, only_more=True)
        for inner in group.groups:
            if group.listed or inner.listed:
                self._section_of(inner)
            elif not inner.present:
                self._group(inner, level)
            else:
                self._folded(inner.title, inner, level + 1, only_more=False)
        if group.listed and group.addable:
            ui.button(f"Add to {group.title.lower()}", on_click=lambda: self._add(group)).props(
                "outline dense no-caps"
            )

    def _head(self, group: FormGroup, level: int) -> None:
        with ui.row().classes("rw-form-head"):
            if level <= 2:
                ui.label(group.title).classes("rw-h3").props(f"role=heading aria-level={level}")
            if group.removable:
                ui.button("Remove", on_click=lambda: self._remove(group.path)).props(
                    f'flat dense no-caps aria-label="Remove {_attribute(group.title)}"'
                )
        if group.info and level <= 2:
            ui.label(group.info).classes("rw-quiet")

    def _section_of(self, group: FormGroup) -> None:
        with (
            ui.element("section")
            .classes("rw-form-group")
            .props(f'aria-label="{_attribute(group.title)}"')
        ):
            self._group(group, 2)

    def _folded(self, title: str, group: FormGroup, level: int, *, only_more: bool) -> None:
        """Add a part that is built when it is first opened."""
        name = f"{format_path(group.path)} {title}"
        box = ui.expansion(title).classes("rw-form-fold w-full").props("dense")
        built: list[bool] = []

        def build() -> None:
            if built:
                return
            built.append(True)
            with box:
                if only_more:
                    with ui.element("div").classes("rw-fields"):
                        for field in group.more:
                            self._control(field)
                else:
                    self._group(group, level + 1)

        def turned(opened: bool) -> None:
            (self._open.add if opened else self._open.discard)(name)
            if opened:
                build()

        if name in self._open or any(
            field.written or format_path(field.path) in self._problems
            for field in (group.more if only_more else group.walk())
        ):
            build()
            box.set_value(True)
        box.on_value_change(lambda event: turned(bool(event.value)))

    def _control(self, field: FormField) -> None:
        name = format_path(field.path)
        self._controls[name] = _Control(field, self._problems.get(name, ""), self._set, self._focus)

    # ---------------------------------------------------------- changing

    def _focus(self, field: FormField) -> None:
        self._on_focus(field.path)

    def _set(self, field: FormField, text: str) -> None:
        if self._waiting:
            return
        if not text.strip():
            if field.written:
                self._on_change(remove_field, (field.path,))
            return
        try:
            value = read_value(field, text)
        except RailweaveError as error:
            self._controls[format_path(field.path)].wrong(str(error))
            return
        self._on_change(set_field, (field.path, value))

    def _remove(self, path: Sequence[PathStep]) -> None:
        if not self._waiting:
            self._on_change(remove_field, (tuple(path),))

    def _add(self, group: FormGroup) -> None:
        if self._waiting:
            return
        entry = new_entry(group.path, self._data)
        if group.listed:
            self._on_change(add_item, (group.path, entry))
        else:
            self._on_change(set_field, (group.path, entry))


class _Control:
    """One control; its label is the field's name, its help the inspector."""

    def __init__(
        self,
        field: FormField,
        problem: str,
        on_set: Callable[[FormField, str], None],
        on_focus: Callable[[FormField], None],
    ) -> None:
        self._field = field
        self._on_set = on_set
        self._quiet = False
        self._problem = ""
        label = field.label + (" *" if field.required else "")
        name = f'data-field="{format_path(field.path)}"'
        self._box = ui.element("div").classes("rw-field").props(name)
        with self._box:
            if field.kind in {"choice", "several"}:
                self._element: Any = ui.select(
                    self._options(field),
                    label=label,
                    value=self._value(field),
                    multiple=field.kind == "several",
                    on_change=lambda _: self._chosen(),
                ).props("dense outlined options-dense stack-label")
            else:
                self._element = ui.input(label=label, value=field.value).props(
                    "dense outlined stack-label"
                )
                if field.options:
                    self._element.set_autocomplete(list(field.options))
                self._element.on("keydown.enter", self._typed)
                self._element.on("blur", self._typed)
            self._element.classes("w-full")
            self._element.on("focus", lambda: on_focus(self._field))
        self.show(field, problem)

    @staticmethod
    def _options(field: FormField) -> Any:  # noqa: ANN401 - as ui.select takes them
        if field.kind == "several":
            return list(field.options)
        empty = f"default: {field.default}" if field.default else "not set"
        options = {"": empty, **{option: option for option in field.options}}
        if field.value and field.value not in options:
            options[field.value] = field.value  # wrong, but what the text says
        return options

    @staticmethod
    def _value(field: FormField) -> object:
        if field.kind == "several":
            return [part for part in field.value.split(", ") if part in field.options]
        return field.value

    def show(self, field: FormField, problem: str) -> None:
        """Take in what the text says now."""
        # What is being typed here stays, unless the text now says something else.
        changed, before = field != self._field, self._field.value
        self._field = field
        self._quiet = True
        if field.kind in {"choice", "several"}:
            if changed:
                self._element.set_options(self._options(field), value=self._value(field))
        elif field.value != before:
            self._element.set_value(field.value)
        self._quiet = False
        if field.kind not in {"choice", "several"}:
            self._element.props(f'placeholder="{_attribute(field.default)}"')
        self.wrong(problem)

    def wrong(self, problem: str) -> None:
        """Say what is wrong with the value, or nothing."""
        if problem == self._problem:
            return
        self._problem = problem
        if problem:
            self._element.props(f'error error-message="{_attribute(problem)}"')
        else:
            self._element.props(remove="error error-message")

    def _chosen(self) -> None:
        if self._quiet:
            return
        value = self._element.value
        text = ", ".join(value) if isinstance(value, list) else str(value or "")
        if text != self._field.value:
            self._on_set(self._field, text)

    def _typed(self) -> None:
        text = str(self._element.value or "")
        if not self._quiet and text.strip() != self._field.value:
            self._on_set(self._field, text)


def _attribute(text: str) -> str:
    """Return a text that can stand in a quoted attribute, whoever wrote it."""
    plain = text.replace('"', "'").replace("\\", "/")
    return "".join(char if char.isprintable() else " " for char in plain)[:300]


def _shape(group: FormGroup) -> object:
    """Return what decides whether controls can stay: which there are, not what they say."""
    return (
        group.path,
        group.title,
        group.present,
        group.removable,
        group.addable,
        tuple((f.path, f.kind) for f in group.fields),
        tuple((f.path, f.kind) for f in group.more),
        tuple(_shape(inner) for inner in group.groups),
    )
