"""Visitors' sessions."""

from __future__ import annotations

from railweave.studio.lab import Number
from railweave.studio.session import MOST_RUNS, MOST_SESSIONS, Session, Sessions

TIME = (Number("time", "Time", "1 ms", 1e-3),)


def test_visitors_do_not_see_each_other() -> None:
    sessions = Sessions("text", "name.yaml")
    sessions.of("a").design_text = "changed"
    sessions.of("a").keep("fabric", "mine", "/lab/fabric", TIME)
    assert sessions.of("b").design_text == "text"
    assert sessions.of("b").runs == []
    assert sessions.of("a").design_text == "changed"


def test_the_longest_unseen_visitor_is_forgotten_first() -> None:
    sessions = Sessions("", "")
    first = sessions.of("0")
    for i in range(1, MOST_SESSIONS):
        sessions.of(str(i))
    assert sessions.of("0") is first  # seen again: now the youngest
    sessions.of("one more")
    assert len(sessions) == MOST_SESSIONS
    assert sessions.of("0") is first
    assert sessions.of("2") is not None


def test_a_baseline_is_its_labs_and_outlives_other_runs() -> None:
    session = Session()
    kept = session.keep("fabric", "first", "/lab/fabric", TIME)
    session.pin(kept)
    assert session.baseline("fabric") is kept
    assert session.baseline("traffic") is None
    for i in range(MOST_RUNS + 5):
        session.keep("traffic", str(i), "/lab/traffic", TIME)
    assert len(session.runs) == MOST_RUNS
    assert session.baseline("fabric") is kept
    session.forget(kept.number)
    assert session.baseline("fabric") is None
    assert kept not in session.runs


def test_a_run_gives_its_numbers_by_key() -> None:
    run = Session().keep("fabric", "x", "/", TIME)
    assert run.value("time") == TIME[0]
    assert run.value("other") is None


def test_beside_a_baseline_names_are_compared_and_sizes_measured() -> None:
    nan = float("nan")
    kept = Session().keep("rdma", "", "", (*TIME, Number("status", "Status", "SUCCESS", nan)))
    longer = Number("time", "Time", "2 ms", 2e-3)
    flushed = Number("status", "Status", "WR_FLUSH_ERR", nan)
    assert kept.beside((longer, flushed)) == {
        "time": "baseline 1 ms (+100.0%)",
        "status": "baseline SUCCESS",
    }
    assert set(kept.beside(kept.numbers).values()) == {"as in the baseline"}
