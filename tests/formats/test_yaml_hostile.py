"""YAML texts made to exhaust a reader end in a sentence with a position."""

import hashlib

import pytest

from railweave.errors import DesignError
from railweave.formats.yaml_source import MAX_SCALAR, parse_yaml, read_yaml


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a: 1\nb: " + "x" * (MAX_SCALAR + 1), 2, 4),
        ("a: '" + "x" * (MAX_SCALAR + 1) + "'", 1, 4),
        ("a: |\n" + "  x\n" * MAX_SCALAR, 1, 4),
        ("x" * (MAX_SCALAR + 1) + ": 1", 1, 1),
    ],
)
def test_long_texts_are_refused_where_they_stand(text, line, column):
    with pytest.raises(DesignError, match="at most 65,536 are allowed") as refused:
        parse_yaml(text, "t")
    (problem,) = refused.value.problems
    assert (problem.line, problem.column) == (line, column)
    assert len(str(problem)) < 200


def test_the_longest_text_is_taken():
    assert parse_yaml("a: " + "x" * MAX_SCALAR, "t").data == {"a": "x" * MAX_SCALAR}


@pytest.mark.parametrize("before", ["", "a: ", "a: [", "a: [1,", "a:\n  - "])
def test_long_tags_are_refused_before_they_are_read(before):
    with pytest.raises(DesignError, match="are not allowed") as refused:
        parse_yaml(before + "!" + "x" * 3_000_000 + " 1", "t")
    (problem,) = refused.value.problems
    assert problem.line == before.count("\n") + 1
    assert problem.column == len(before.rpartition("\n")[2]) + 1
    assert len(str(problem)) < 200


def test_exclamations_in_texts_are_no_tags():
    assert parse_yaml("a: 'x" + "!" * 1000 + "'", "t").data["a"].endswith("!!!")


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(DesignError, match="no character") as refused:
        parse_yaml("a: 1\nb: x\ud800", "t")
    assert (refused.value.problems[0].line, refused.value.problems[0].column) == (2, 5)


def test_names_are_repeated_in_part_only():
    with pytest.raises(DesignError) as refused:
        parse_yaml("a: *" + "x" * 10_000, "t")
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("raw", [b"a: 1\n", b"\xef\xbb\xbfa: 1\n", "ä: 1\r\n".encode()])
def test_the_hash_is_of_the_bytes(tmp_path, raw):
    path = tmp_path / "t.yaml"
    path.write_bytes(raw)
    assert read_yaml(path).sha256 == hashlib.sha256(raw).hexdigest()
    text = raw.decode()
    assert parse_yaml(text.removeprefix("\ufeff"), "t").sha256 == (
        hashlib.sha256(text.removeprefix("\ufeff").encode()).hexdigest()
    )
