"""Executors, cancelling, progress and the result store."""

import math
import os

import polars as pl
import pytest

from railweave.errors import InputError
from railweave.runs import (
    Cancelled,
    CancelToken,
    InProcessExecutor,
    ProcessPool,
    ResultStore,
    SilentObserver,
    content_key,
    in_order,
    observe,
)


def square(value):
    if value < 0:
        raise ValueError(f"no root of {value}")
    return value * value, os.getpid()


def test_pool_and_process_give_the_same():
    here = in_order(InProcessExecutor().run(square, range(7)))
    there = in_order(ProcessPool(2).run(square, range(7)))
    assert [v for v, _ in here] == [v for v, _ in there] == [k * k for k in range(7)]
    assert {pid for _, pid in here} == {os.getpid()}
    assert os.getpid() not in {pid for _, pid in there}


def test_an_error_comes_out_and_ends_the_work():
    with pytest.raises(ValueError, match="no root of -1"):
        list(ProcessPool(1).run(square, [1, -1, 2]))
    with pytest.raises(ValueError, match="no root of -1"):
        list(InProcessExecutor().run(square, [1, -1, 2]))


def test_cancelling_stops_between_items():
    token = CancelToken()
    got = []

    def work():
        for number, _ in InProcessExecutor().run(square, range(10), token):
            got.append(number)
            if number == 2:
                token.cancel()

    with pytest.raises(Cancelled):
        work()
    assert got == [0, 1, 2]
    with pytest.raises(Cancelled):
        list(ProcessPool(1).run(square, range(10), token))


def test_progress_reaches_the_observer_and_the_token():
    class Told(SilentObserver):
        seen = ()

        def advanced(self, task, fraction):
            self.seen = (*self.seen, (task, fraction))

    told, token = Told(), CancelToken()
    progress = observe("work", told, token)
    progress(0.25)
    token.cancel()
    with pytest.raises(Cancelled):
        progress(0.5)
    assert told.seen == (("work", 0.25), ("work", 0.5))


def test_keys_follow_the_content():
    base = content_key({"a": 1, "b": [2]}, {"seed": 0}, "1")
    assert base == content_key({"b": [2], "a": 1}, {"seed": 0}, "1")
    others = {
        content_key({"a": 2, "b": [2]}, {"seed": 0}, "1"),
        content_key({"a": 1, "b": [2]}, {"seed": 1}, "1"),
        content_key({"a": 1, "b": [2]}, {"seed": 0}, "2"),
    }
    assert len(others | {base}) == 4
    for bad in (math.nan, object()):
        with pytest.raises(InputError, match="cannot be given a key"):
            content_key({"a": bad}, {}, "1")


def test_store_keeps_and_finds(tmp_path):
    store = ResultStore(tmp_path / "results")
    key = content_key({"a": 1}, {}, "1")
    assert store.get(key) is None
    assert store.keys() == ()
    frame = pl.DataFrame({"task": [1, 2], "time_s": [0.5, 0.25]})
    kept = store.put(key, {"makespan_s": 0.5}, {"tasks": frame})
    assert kept.document == {"makespan_s": 0.5}
    assert store.get(key).table("tasks").equals(frame)
    assert store.keys() == (key,)
    again = store.put(key, {"makespan_s": 99}, {})
    assert again.document == {"makespan_s": 0.5}
    with pytest.raises(InputError, match="it has: tasks"):
        kept.table("links")
    with pytest.raises(InputError, match="64 hexadecimal"):
        store.get("../../etc")


def test_a_failed_write_leaves_nothing(tmp_path):
    store = ResultStore(tmp_path)
    key = content_key({}, {}, "1")
    with pytest.raises(TypeError):
        store.put(key, {"bad": object()}, {"tasks": pl.DataFrame({"a": [1]})})
    assert store.get(key) is None
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
    assert list(tmp_path.glob("*/.new-*")) == []


def test_a_broken_document_is_said(tmp_path):
    store = ResultStore(tmp_path)
    key = content_key({}, {}, "1")
    store.put(key, {"x": 1})
    (tmp_path / key[:2] / key / "result.json").write_text("{")
    with pytest.raises(InputError, match="delete its directory"):
        store.get(key)


def test_a_file_is_no_store(tmp_path):
    (tmp_path / "store").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="is a file; results need a folder"):
        ResultStore(tmp_path / "store")
