"""A lab's inputs in the page's address."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.studio.state import MOST_TEXT, from_query, to_query


class Shape(StrEnum):
    RING = "ring"
    TREE = "tree"


@dataclass(frozen=True)
class Inputs:
    payload: str = "256 MB"
    ranks: int = 4
    skew: float = 0.0
    ecn: bool = True
    shape: Shape = Shape.RING
    seed: int | None = None
    failed: tuple[str, ...] = ()


NAMES = st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1, max_size=20)
INPUTS = st.builds(
    Inputs,
    payload=st.text(max_size=40),
    ranks=st.integers(-(10**9), 10**9),
    skew=st.floats(allow_nan=False, allow_infinity=False),
    ecn=st.booleans(),
    shape=st.sampled_from(Shape),
    seed=st.none() | st.integers(0, 99),
    failed=st.lists(NAMES, max_size=3).map(tuple),
)


@given(INPUTS)
def test_an_address_gives_the_same_inputs_again(inputs: Inputs) -> None:
    query = dict(parse_qsl(to_query(inputs), keep_blank_values=True))
    assert from_query(Inputs, query) == (inputs, ())


def test_defaults_are_not_in_the_address() -> None:
    assert to_query(Inputs()) == ""
    assert to_query(Inputs(ranks=8, ecn=False)) == "ranks=8&ecn=no"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"ranks": "many"}, "ranks=many: not a whole number; the default is used"),
        ({"skew": "nan"}, "skew=nan: not a finite number; the default is used"),
        ({"ecn": "maybe"}, "ecn=maybe: allowed: yes, no; the default is used"),
        ({"shape": "star"}, "shape=star: allowed: ring, tree; the default is used"),
        ({"payload": "x" * 500}, f"longer than {MOST_TEXT} characters; the default is used"),
    ],
)
def test_what_cannot_be_read_is_said_and_has_its_default(query: dict[str, str], says: str) -> None:
    inputs, problems = from_query(Inputs, query)
    assert inputs == Inputs()
    assert len(problems) == 1
    assert problems[0].endswith(says)


def test_names_that_the_lab_does_not_know_are_ignored() -> None:
    assert from_query(Inputs, {"utm_source": "mail"}) == (Inputs(), ())


@given(st.dictionaries(st.sampled_from(["ranks", "skew", "ecn", "shape", "seed"]), st.text()))
def test_any_text_is_read_or_refused(query: dict[str, str]) -> None:
    inputs, problems = from_query(Inputs, query)
    assert isinstance(inputs, Inputs)
    assert len(problems) <= len(query)
