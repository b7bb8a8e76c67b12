"""The nine labs."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from railweave.errors import InputError
from railweave.studio import registry
from railweave.studio.registry import find_lab, installed_labs, pages_beside


def test_nine_labs_are_numbered_and_those_without_an_engine_say_so() -> None:
    labs = installed_labs()
    assert [lab.number for lab in labs[:9]] == list(range(1, 10))
    assert len({lab.key for lab in labs}) == len({lab.hue for lab in labs}) == len(labs)
    for lab in labs:
        assert lab.title
        assert lab.summary
        assert (lab.build is None) == bool(lab.missing)


def test_a_page_without_a_number_stands_behind_the_labs_that_lead_to_it() -> None:
    labs = installed_labs()
    assert [lab.key for lab in labs if lab.number is None] == ["training"] == [labs[-1].key]
    assert labs[-1].name == "Training step"
    assert labs[0].name == "1 · Architecture explorer"
    leading = [lab.key for lab in labs if labs[-1] in pages_beside(lab)]
    assert leading == ["traffic", "collectives"]


def test_labs_are_found_by_their_key() -> None:
    lab = find_lab("congestion")
    assert lab is not None
    assert lab.number == 6
    assert find_lab("no-such") is None


OURS = EntryPoint("congestion", "railweave.studio.labs.congestion:LAB", registry.GROUP)


def labs_of(monkeypatch: pytest.MonkeyPatch, *others: str) -> list[str]:
    entries = [OURS, *(EntryPoint(f"other{i}", o, registry.GROUP) for i, o in enumerate(others))]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)
    return [lab.key for lab in installed_labs.__wrapped__()]


def test_a_lab_that_cannot_be_imported_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert labs_of(monkeypatch, "no.such.module:LAB") == ["congestion"]
    assert "no.such.module:LAB cannot be loaded" in caplog.text


def test_what_is_no_lab_or_has_a_number_of_another_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InputError, match="holds no Lab"):
        labs_of(monkeypatch, "railweave.studio.registry:GROUP")
    with pytest.raises(InputError, match="both have the number 6"):
        labs_of(monkeypatch, OURS.value)
    with pytest.raises(InputError, match="both have the key training"):
        labs_of(monkeypatch, *["railweave.studio.labs.training:LAB"] * 2)
