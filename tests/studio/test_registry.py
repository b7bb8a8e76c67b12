"""The nine labs."""

from __future__ import annotations

from railweave.studio.registry import find_lab, installed_labs


def test_nine_labs_are_numbered_and_those_without_an_engine_say_so() -> None:
    labs = installed_labs()
    assert [lab.number for lab in labs] == list(range(1, 10))
    assert len({lab.key for lab in labs}) == len({lab.hue for lab in labs}) == 9
    for lab in labs:
        assert lab.title
        assert lab.summary
        assert (lab.build is None) == bool(lab.missing)


def test_labs_are_found_by_their_key() -> None:
    lab = find_lab("congestion")
    assert lab is not None
    assert lab.number == 6
    assert find_lab("no-such") is None
