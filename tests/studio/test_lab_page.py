"""What the shell does for a lab, without a browser."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from asyncs import apart

from railweave.errors import InputError
from railweave.studio import page
from railweave.studio.page import LabPage


def test_a_fault_in_a_labs_work_is_said_on_the_page_and_logged(monkeypatch):
    said, begun = [], []
    monkeypatch.setattr(page.background_tasks, "create_lazy", lambda run, name: begun.append(run))
    here = SimpleNamespace(main=nullcontext(), problem=said.append)

    async def work() -> None:
        raise ZeroDivisionError("what only the log should say")

    LabPage.soon(here, work)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        apart(begun[0])
    assert said == ["A fault of railweave (ZeroDivisionError); the server's log has more."]


def test_what_cannot_be_done_is_said_and_not_logged(monkeypatch):
    said, begun = [], {}
    monkeypatch.setattr(
        page.background_tasks, "create_lazy", lambda run, name: begun.update({name: run})
    )
    here = SimpleNamespace(main=nullcontext(), problem=said.append)

    async def work() -> None:
        raise InputError("racks: 0 cannot be")

    LabPage.soon(here, work, "flows")  # type: ignore[arg-type]
    apart(begun[f"flows {id(here)}"])
    assert said == ["racks: 0 cannot be"]
