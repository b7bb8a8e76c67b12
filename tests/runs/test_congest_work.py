"""Long runs of the congested switch as jobs: the same numbers, and something to see on the way."""

from __future__ import annotations

import pytest

from railweave.engine.congest import CongestCase, simulate_congest
from railweave.engine.congest_summary import CongestSummary, summarise
from railweave.runs import Cancelled
from railweave.runs import congest as work

CASE = CongestCase(senders=4, duration_s=60e-3)


class Listener:
    """A job's context that remembers what it is told."""

    def __init__(self, *, stop: bool = False) -> None:
        self.parts: list[float] = []
        self.documents: list[dict] = []
        self._stop = stop

    def progress(self, step: str, fraction: float) -> None:
        assert step
        self.parts.append(fraction)
        self.check()

    def publish(self, document: dict) -> None:
        self.documents.append(document)

    def check(self) -> None:
        if self._stop:
            raise Cancelled


def test_a_job_gives_what_a_call_gives():
    heard = Listener()
    document = work.congest_work(CASE, heard)
    assert document == summarise(simulate_congest(CASE)).document()
    assert heard.parts == sorted(heard.parts)


def test_what_is_known_is_published_on_the_way(monkeypatch):
    monkeypatch.setattr(work, "_FIRST_S", 0.0)
    monkeypatch.setattr(work, "_NEXT_S", 0.0)
    monkeypatch.setattr(work, "_NEXT_PART", 0.0)
    heard = Listener()
    work.congest_work(CASE, heard)
    reached = [CongestSummary.read(one).metrics.elapsed_s for one in heard.documents]
    assert len(reached) > 2
    assert reached == sorted(reached)
    assert 0 < reached[0] < 60e-3


def test_a_cancelled_job_stops():
    with pytest.raises(Cancelled):
        work.congest_work(CASE, Listener(stop=True))


@pytest.mark.parametrize(("often", "least"), [(0.0, 4), (1e9, 1)])
def test_the_bar_moves_now_and_then(monkeypatch, often, least):
    monkeypatch.setattr(work, "_TOLD_S", often)
    heard = Listener()
    work.congest_work(CASE, heard)
    assert heard.parts[-1] == 1
    assert len(heard.parts) >= least
    assert len(heard.parts) < 3 or often == 0
