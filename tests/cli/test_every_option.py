"""Every option of the command line, and every choice it offers, has an effect that can be seen."""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
import typing
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest
from _effects_base import FILES, HELD_ELSEWHERE, TABLE, Effect, Seen
from _option_effects import EFFECTS
from typer.main import get_command

from railweave.cli._app import app


def _keys_of(prefix: str, function: object, opts: dict[str, str]) -> Iterator[str]:
    """Yield the keys of one command: its parameters by their option, and their choices."""
    hints = typing.get_type_hints(function)
    for name in inspect.signature(function).parameters:
        key = f"{prefix} {opts[name]}".strip()
        yield key
        for kind in (hints[name], *typing.get_args(hints[name])):
            if isinstance(kind, type) and issubclass(kind, StrEnum):
                yield from (f"{key}={choice.value}" for choice in kind)


def option_keys() -> list[str]:
    """Return a key of every option, argument and choice of every command."""
    root = get_command(app)
    keys = list(
        _keys_of("", app.registered_callback.callback, {p.name: p.opts[0] for p in root.params})
    )
    return [*keys, *_keys_below(app, root, "")]


def _keys_below(typer_app, group, prefix: str) -> Iterator[str]:
    """Yield the keys of the commands of a group, and of the groups in it."""
    for info in typer_app.registered_commands:
        name = info.name or info.callback.__name__
        opts = {p.name: p.opts[0] for p in group.commands[name].params}
        yield from _keys_of(f"{prefix}{name}", info.callback, opts)
    for info in typer_app.registered_groups:
        inner = info.typer_instance
        name = info.name or inner.info.name
        yield from _keys_below(inner, group.commands[name], f"{prefix}{name} ")


KEYS = option_keys()


def test_enumeration_reaches_arguments_options_and_choices():
    assert {"--version", "run design", "build --fail", "collective operation=reduce"} <= set(KEYS)
    assert "simulate --routing=spray" in KEYS
    assert len(KEYS) == len(set(KEYS))


@pytest.mark.parametrize("key", KEYS)
def test_option_is_registered(key):
    known = key in EFFECTS or key in HELD_ELSEWHERE
    assert known, f"{key!r} has no entry in _option_effects.py: what does it do?"


def test_no_entry_is_left_over():
    assert sorted({*EFFECTS, *HELD_ELSEWHERE} - set(KEYS)) == []


@pytest.mark.parametrize("key", EFFECTS)
def test_entry_uses_its_option(key):
    option, _, choice = re.fullmatch(r".*?([\w-]+)(=(.*))?", key).group(1, 2, 3)
    effect = EFFECTS[key]
    if choice:
        assert choice in effect.after.split()
        assert choice not in effect.before.split()
    elif option.startswith("--"):
        assert option in effect.after
    assert effect.before != effect.after


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    """Return the folder of the designs."""
    folder = tmp_path_factory.mktemp("designs")
    for name, text in FILES.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    shutil.copy(TABLE, folder / "table.csv")
    return {name: folder / f"{name}.yaml" for name in FILES}


@pytest.fixture(scope="module")
def seen() -> dict[str, Seen]:
    """Return what command lines left that were run before in this module."""
    return {}


@pytest.mark.parametrize("effect", EFFECTS.values(), ids=list(EFFECTS))
def test_option_has_an_effect(effect: Effect, cli, files, seen, tmp_path_factory):
    for line in (effect.before, effect.after):
        if line not in seen:
            out = tmp_path_factory.mktemp("out")
            outcome = cli(*shlex.split(line.format(out=out, **files)))
            names = tuple(sorted(file.name for file in out.iterdir()))
            seen[line] = Seen(outcome.code, outcome.out, outcome.err, names)
            assert outcome.code in (0, 1), outcome.err
    assert effect.holds(seen[effect.before], seen[effect.after])
