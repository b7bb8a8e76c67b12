import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.errors import DesignError
from railweave.formats.yaml_source import format_path, parse_yaml, read_yaml

TEXT = """\
a: 1
planes:
  backend: {speed: 400 Gb/s, on: yes}
jobs:
  - name: x
    size: 1 GiB
  - name: y
"""


def problem(text):
    with pytest.raises(DesignError) as error:
        parse_yaml(text, "f.yaml")
    return error.value.problems[-1]


def test_data_is_plain_and_yaml_1_2():
    document = parse_yaml(TEXT, "f.yaml")
    assert document.data == {
        "a": 1,
        "planes": {"backend": {"speed": "400 Gb/s", "on": "yes"}},
        "jobs": [{"name": "x", "size": "1 GiB"}, {"name": "y"}],
    }
    scalars = parse_yaml("[~, true, 1.5, 1e3, 0x10, 0o10, '1', 1:30, -4, 2024-01-01]", "f").data
    assert scalars == [None, True, 1.5, 1000.0, 16, 8, "1", "1:30", -4, "2024-01-01"]
    assert parse_yaml("", "f").data is None


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        ((), (1, 1), (1, 1)),
        (("planes", "backend", "speed"), (3, 13), (3, 20)),
        (("planes", "backend", "missing", "deeper"), (3, 3), (3, 12)),
        (("jobs", 1), (7, 5), (7, 5)),
        (("jobs", 0, "size"), (6, 5), (6, 11)),
        (("jobs", 9), (4, 1), (5, 3)),
    ],
)
def test_positions(path, key, value):
    document = parse_yaml(TEXT, "f.yaml")
    assert document.position(path) == key
    assert document.value_position(path) == value


def test_format_path():
    assert format_path(("jobs", 0, "size")) == "jobs[0].size"
    assert format_path(()) == ""


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a:\n\tb: 1\n", 2, 1, "tab"),
        ("a: 1\nb: 2\na: 3\n", 3, 1, "twice (first in line 1)"),
        ("a: b: c", 1, 5, "':'"),
        ("a: [1\nb: 2", 2, 2, "starts in line 1"),
        ("a: 'x\nb: 2\n", 1, 4, "never closed"),
        ("a: @x", 1, 4, "cannot start with '@'"),
        ("a: 1\n---\nb: 2\n", 2, 1, "only one YAML document"),
        ("a: *z", 1, 4, "above it"),
        ("a: &x [*x]", 1, 8, "above it"),
        ("? [1, 2]\n: 3", 1, 3, "a key must be plain text"),
        ("b: &b 1\n*b : 3", 2, 1, "not an alias"),
        ("a: !!python/object:x 1", 1, 4, "tags"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", 3, 3, "merge keys"),
        ("a: \x01", 1, 4, "control character"),
        ("[" * 5000, 1, 65, "nested more than 64 deep"),
    ],
)
def test_bad_yaml_says_where_and_what(text, line, column, words):
    found = problem(text)
    assert (found.file, found.line, found.column) == ("f.yaml", line, column)
    assert words in found.message


def test_every_duplicate_key_is_told():
    with pytest.raises(DesignError) as error:
        parse_yaml("a: 1\na: 2\nb: {c: 1, c: 2}\n", "f")
    assert [(p.line, p.path) for p in error.value.problems] == [(2, "a"), (3, "c")]


def test_aliases_repeat_a_value_and_are_bounded():
    assert parse_yaml("a: &x {b: 1}\nc: *x\n", "f").data == {"a": {"b": 1}, "c": {"b": 1}}
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for level in range(1, 10):
        bomb += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n"
    assert "aliases expanded" in problem(bomb).message


def test_files(tmp_path):
    good = tmp_path / "design.yaml"
    good.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_yaml(good).data == {"a": 1}
    cases = {"desing.yaml": "no such file", ".": "directory"}
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xe9\n")
    (tmp_path / "big.yaml").write_bytes(b"#" * (4 * 1024 * 1024 + 1))
    cases |= {"latin.yaml": "not UTF-8", "big.yaml": "too large"}
    for name, words in cases.items():
        with pytest.raises(DesignError, match=words) as error:
            read_yaml(tmp_path / name)
        if name == "desing.yaml":
            assert error.value.problems[0].nearest == str(good)
        if name == "latin.yaml":
            assert (error.value.problems[0].line, error.value.problems[0].column) == (2, 4)


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#\n\t ,?%@1~<", max_size=60))
def test_any_text_is_read_or_refused_with_a_position(text):
    found = ()
    try:
        parse_yaml(text, "f.yaml")
    except DesignError as error:
        found = error.problems
    assert all(p.line >= 1 and p.column >= 1 for p in found)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text("abc é:'#", max_size=6),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text("abcxyz", min_size=1, max_size=4), inner, max_size=3)
        ),
        max_leaves=10,
    )
)
def test_json_is_read_as_written(data):
    import json

    assert parse_yaml(json.dumps(data, ensure_ascii=False), "f").data == data
