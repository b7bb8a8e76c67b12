"""Quantities in and out: what is refused, and how sizes are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.errors import UnitError
from railweave.units import counted, format_bytes, parse_bps, parse_bytes, parse_seconds


@pytest.mark.parametrize(
    ("read", "text"),
    [(parse_bytes, "1e400 GB"), (parse_bps, "1e308 Tb/s"), (parse_seconds, "-1e999 s")],
)
def test_what_no_number_holds_is_refused(read, text):
    with pytest.raises(UnitError, match="more than can be reckoned with"):
        read(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (4_000_000, "4 MB"),  # 3906.25 KiB too
        (8_000_000, "8 MB"),
        (64_000, "64 kB"),
        (128_000, "128 kB"),  # 125 KiB too
        (1024, "1 KiB"),
        (2048, "2 KiB"),  # 2.048 kB too
        (2**30, "1 GiB"),
        (3 * 2**19, "1.5 MiB"),
        (286_720, "280 KiB"),
        (256_000_000, "256 MB"),
        (1_536_000_000, "1.536 GB"),
        (384, "384 B"),
        (0, "0 B"),
    ],
)
def test_a_size_is_written_as_one_would_write_it(size, text):
    assert format_bytes(size) == text


@given(st.integers(1, 999), st.sampled_from(["B", "kB", "MB", "GB", "TB"]))
def test_a_round_size_is_read_and_written_as_it_was(number, unit):
    size = parse_bytes(f"{number} {unit}")
    assert parse_bytes(format_bytes(size)) == size
    assert "." not in format_bytes(size)


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (1, ("GPU",), "1 GPU"),
        (0, ("leaf", "leaves"), "0 leaves"),
        (12345, ("sequence",), "12,345 sequences"),
    ],
)
def test_things_are_counted_in_words(number, words, text):
    assert counted(number, *words) == text
