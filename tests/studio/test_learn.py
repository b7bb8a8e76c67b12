"""The takeaway's button: whatever comes of the experiment is said, and it can be run again."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace

import pytest
from asyncs import apart

from railweave.errors import EngineError
from railweave.studio import learn


class _Place(AbstractContextManager["_Place"]):
    """Where the outcome is shown; ``gone`` once the visitor has left."""

    def __init__(self, *, gone: bool = False) -> None:
        self.is_deleted = gone
        self.holds: list[str] = []

    def clear(self) -> None:
        self.holds.clear()

    def __exit__(self, *_: object) -> None:
        return None


class _Button:
    def __init__(self) -> None:
        self.states: list[str] = []

    def disable(self) -> None:
        self.states.append("off")

    def enable(self) -> None:
        self.states.append("on")


@pytest.fixture
def place(monkeypatch):
    place = _Place()
    label = SimpleNamespace(classes=lambda _: None)
    monkeypatch.setattr(learn.ui, "spinner", lambda: place.holds.append("spinner"))
    monkeypatch.setattr(learn.ui, "label", lambda text: place.holds.append(text) or label)
    return place


def test_an_outcome_is_shown_and_the_button_works_again(place):
    button = _Button()
    outcome = SimpleNamespace(holds=True, reading="Twice as long.", charts=())
    apart(learn._show_proof(lambda: outcome, place, button))
    assert place.holds == ["Holds", "Twice as long."]
    assert button.states == ["off", "on"]


def test_what_an_experiment_refuses_is_said(place):
    def refuse() -> None:
        raise EngineError("no room for it")

    button = _Button()
    apart(learn._show_proof(refuse, place, button))
    assert place.holds == ["The experiment cannot be run", "no room for it"]
    assert button.states == ["off", "on"]


def test_a_fault_is_said_and_goes_to_the_log(place):
    button = _Button()
    with pytest.raises(ZeroDivisionError):
        apart(learn._show_proof(lambda: 1 // 0, place, button))
    assert place.holds[1].startswith("A fault of railweave (ZeroDivisionError)")
    assert button.states == ["off", "on"]


def test_nothing_is_shown_to_a_visitor_who_has_left(place):
    button = _Button()
    outcome = SimpleNamespace(holds=True, reading="So.", charts=())

    def leave() -> object:
        place.is_deleted = True
        return outcome

    apart(learn._show_proof(leave, place, button))
    assert place.holds == ["spinner"]
    assert button.states == ["off"]
