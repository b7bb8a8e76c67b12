"""Lab 6's exercises on the page: a prediction is committed before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from nicegui import ui

from railweave.studio import controls
from railweave.studio.lab import fault_text
from railweave.studio.labs._congestion import baseline_query
from railweave.studio.labs._congestion_exercises import EXERCISES, Exercise, answer, verdict
from railweave.studio.state import to_query

if TYPE_CHECKING:
    from railweave.studio.page import LabPage

__all__ = ["build_practice"]


def build_practice(page: LabPage) -> None:
    """Add the exercises, one at a time."""
    _Practice(page)


class _Practice:
    """The exercise at hand, and how many predictions came true."""

    def __init__(self, page: LabPage) -> None:
        self._page = page
        self._done: dict[str, bool] = {}
        shown = {e.key: f"{k}. {e.title}" for k, e in enumerate(EXERCISES, 1)}
        controls.choice("Exercise", EXERCISES[0].key, shown, self._ask)
        self._place = ui.element("div").classes("rw-exercise")
        self._score = ui.label("").classes("rw-quiet")
        self._ask(EXERCISES[0].key)

    def _ask(self, key: str) -> None:
        exercise = next(e for e in EXERCISES if e.key == key)
        self._place.clear()
        with self._place:
            ui.label(exercise.question)
            with ui.element("div").classes("w-full rw-prediction"):
                given: ui.radio | ui.number
                if exercise.options:
                    given = ui.radio(dict(enumerate(exercise.options))).props(
                        'dense aria-label="Your prediction"'
                    )
                else:
                    given = ui.number(suffix=exercise.unit, min=0).props(
                        'dense outlined aria-label="Your prediction"'
                    )
            commit = ui.button("Commit the prediction").props("no-caps")
            commit.bind_enabled_from(given, "value", lambda value: value is not None)
            result = ui.element("div").props("role=status")

        async def reveal() -> None:
            if given.value is None:
                return
            predicted = float(given.value)
            given.disable()
            commit.delete()
            with result:
                ui.spinner()
            try:
                measured = await self._page.studio.compute(answer, exercise.key)
            except Exception as error:
                result.clear()
                with result:
                    ui.label(fault_text(error))
                raise
            result.clear()
            with result:
                self._tell(exercise, predicted, measured)

        commit.on_click(reveal)

    def _tell(self, exercise: Exercise, predicted: float, measured: object) -> None:
        from railweave.studio.labs._congestion_exercises import Measured

        assert isinstance(measured, Measured)
        said = verdict(exercise, predicted, measured)
        self._done.setdefault(exercise.key, said.right)
        mood = "rw-right" if said.right else "rw-wrong"
        with ui.element("div").classes(f"rw-verdict {mood}"):
            ui.label(said.headline).classes("rw-verdict-headline")
            ui.label(said.why)
            ui.link("See this run in the lab", _address(exercise))
        right = sum(self._done.values())
        self._score.set_text(f"Right at the first prediction: {right} of {len(self._done)}.")


def _address(exercise: Exercise) -> str:
    """Return the lab's address with the exercise's last case, beside its first where they are two.

    Of several profiles the first and the last are shown.
    """
    query = to_query(exercise.states[-1])
    if len(exercise.states) > 1:
        other = urlencode({"baseline": baseline_query(exercise.states[0])})
        query = f"{query}&{other}" if query else other
    return f"/lab/congestion?{query}"
