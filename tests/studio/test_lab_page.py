"""What the shell does for a lab, without a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from asyncs import apart

from railweave.errors import InputError
from railweave.studio import page
from railweave.studio.page import LabPage

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Shell:
    """A page of which only what follows a refresh is there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.begun: list[tuple[str, Coroutine[Any, Any, None]]] = []
        self.marks: list[str] = []
        self.main = self
        self._under_way: dict[str, int] = {}
        self._begun = 0
        monkeypatch.setattr(
            page.background_tasks, "create_lazy", lambda run, name: self.begun.append((name, run))
        )

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def problem(self, text: str) -> None:
        self.said.append(text)

    def props(self, text: str) -> None:
        self.marks.append(text)

    soon, _ended = LabPage.soon, LabPage._ended  # type: ignore[assignment]


async def nothing() -> None:
    pass


def test_a_fault_in_a_labs_work_is_said_on_the_page_and_logged(monkeypatch):
    here = Shell(monkeypatch)

    async def work() -> None:
        raise ZeroDivisionError("what only the log should say")

    here.soon(work)
    with pytest.raises(ZeroDivisionError):
        apart(here.begun[0][1])
    assert here.said == ["A fault of railweave (ZeroDivisionError); the server's log has more."]
    assert here.marks[-1] == "aria-busy=false"


def test_what_cannot_be_done_is_said_and_not_logged(monkeypatch):
    here = Shell(monkeypatch)

    async def work() -> None:
        raise InputError("racks: 0 cannot be")

    here.soon(work, "flows")
    ((name, run),) = here.begun
    assert name == f"flows {id(here)}"
    apart(run)
    assert here.said == ["racks: 0 cannot be"]


def test_a_page_is_busy_until_the_last_of_what_was_begun_has_ended(monkeypatch):
    here = Shell(monkeypatch)
    for name in ("refresh", "refresh", "flows"):
        here.soon(nothing, name)
    assert here.marks == [f"aria-busy=true data-turn={turn}" for turn in (1, 2, 3)]
    first, second, flows = (run for _, run in here.begun)
    apart(first)  # the second of its name waits
    apart(flows)
    assert len(here.marks) == 3
    apart(second)
    assert here.marks[3:] == ["aria-busy=false"]
