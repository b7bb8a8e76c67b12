"""What is written is the trace event format: fields, units, names, order."""

from __future__ import annotations

import gzip
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.errors import InputError
from railweave.formats.trace_events import (
    TraceCounter,
    TraceSpan,
    TraceThread,
    trace_lines,
    write_trace,
)

THREADS = (
    TraceThread(0, 0, "rank 0", "compute"),
    TraceThread(0, 1, "rank 0", "tensor"),
    TraceThread(3, 0, "rank 3", "compute"),
)


def document(*events, about=None):
    return json.loads("".join(trace_lines(THREADS, events, about=about)))


def test_spans_are_complete_events_in_microseconds():
    found = document(TraceSpan(3, 0, "forward 0", 1.5e-3, 20e-6, "compute", {"layer": 4}))
    assert found["traceEvents"][-1] == {
        "ph": "X",
        "name": "forward 0",
        "ts": 1500.0,
        "dur": 20.0,
        "pid": 3,
        "tid": 0,
        "cat": "compute",
        "args": {"layer": 4},
    }


def test_counters_have_values_at_a_time():
    event = document(TraceCounter(3, "memory", 1e-6, {"weights": 2.0}))["traceEvents"][-1]
    assert (event["ph"], event["ts"], event["pid"]) == ("C", 1.0, 3)
    assert event["args"] == {"weights": 2.0}


def test_processes_and_threads_are_named_once_and_ordered():
    found = [event for event in document()["traceEvents"] if event["ph"] == "M"]
    names = [(e["pid"], e["args"]["name"]) for e in found if e["name"] == "process_name"]
    assert names == [(0, "rank 0"), (3, "rank 3")]
    threads = [(e["pid"], e["tid"], e["args"]["name"]) for e in found if e["name"] == "thread_name"]
    assert threads == [(0, 0, "compute"), (0, 1, "tensor"), (3, 0, "compute")]
    order = [(e["pid"], e["args"]["sort_index"]) for e in found if e["name"].endswith("sort_index")]
    assert order == [(0, 0), (0, 0), (0, 1), (3, 3), (3, 0)]


def test_an_empty_trace_is_a_document():
    assert json.loads("".join(trace_lines((), ()))) == {
        "displayTimeUnit": "ns",
        "traceEvents": [],
        "otherData": {},
    }


def test_the_traces_own_facts_are_kept():
    assert document(about={"model": "llama3-8b"})["otherData"] == {"model": "llama3-8b"}


finite = st.floats(0, 1e5, allow_nan=False)


@given(st.lists(st.tuples(st.text(), finite, finite), max_size=20))
def test_any_spans_load_again_to_the_picosecond(spans):
    events = [TraceSpan(1, 2, name, start, long) for name, start, long in spans]
    found = document(*events)["traceEvents"]
    loaded = [event for event in found if event["ph"] == "X"]
    for event, (name, start, long) in zip(loaded, spans, strict=True):
        assert event["name"] == name
        assert event["ts"] == pytest.approx(start * 1e6, abs=1e-6)
        assert event["dur"] == pytest.approx(long * 1e6, abs=1e-6)
        assert (event["pid"], event["tid"]) == (1, 2)


@pytest.mark.parametrize(
    "event",
    [
        TraceSpan(0, 0, "late", math.inf, 1.0),
        TraceSpan(0, 0, "long", 0.0, math.nan),
        TraceSpan(0, 0, "backwards", 0.0, -1.0),
        TraceCounter(0, "when", math.nan, {}),
    ],
)
def test_times_that_mean_nothing_are_refused_and_nothing_is_left(tmp_path, event):
    with pytest.raises(InputError, match=f"{event.name}.*allowed"):
        write_trace(tmp_path / "trace.json", THREADS, [event])
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_written_and_streamed(tmp_path):
    def events():
        for i in range(1000):
            yield TraceSpan(0, 0, f"step {i}", i * 1e-6, 1e-6)

    path = write_trace(tmp_path / "deep" / "trace.json", THREADS, events())
    loaded = json.loads(path.read_text("utf-8"))
    assert sum(event["ph"] == "X" for event in loaded["traceEvents"]) == 1000


def test_a_compressed_file_holds_the_same_and_repeats_itself(tmp_path):
    events = [TraceSpan(0, 0, "µ-batch", 0.0, 1e-6)]
    plain = write_trace(tmp_path / "a.json", THREADS, events)
    packed = [write_trace(tmp_path / f"{name}.json.gz", THREADS, events) for name in "bc"]
    assert gzip.decompress(packed[0].read_bytes()) == plain.read_bytes()
    assert packed[0].read_bytes() == packed[1].read_bytes()


def test_a_file_cannot_stand_where_a_folder_is(tmp_path):
    (tmp_path / "trace.json").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        write_trace(tmp_path / "trace.json", THREADS, [])
