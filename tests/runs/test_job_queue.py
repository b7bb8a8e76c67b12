"""The job queue over real worker processes."""

import logging
import os
import signal
import threading
import time

import jobworks as works
import psutil
import pytest

from railweave.errors import InputError
from railweave.runs import (
    Cancelled,
    JobLimits,
    JobQueue,
    JobState,
    QueueFull,
    ResultStore,
    UnknownJob,
    content_key,
)

PATIENCE_S = 30


def key(*parts):
    return content_key({}, {"parts": [str(part) for part in parts]}, "test")


def wait_until(jobs, job, condition):
    """Wait for a snapshot that meets a condition; woken by the queue, not by a clock."""
    met = threading.Event()
    seen = []

    def look(snapshot):
        seen.append(snapshot)
        if condition(snapshot):
            met.set()

    end = jobs.watch(job, look)
    assert met.wait(PATIENCE_S), seen[-1]
    end()
    return seen


def has_published(snapshot):
    return snapshot.published > 0


def done(jobs, job):
    job = jobs.wait(job, PATIENCE_S)
    assert job.state is JobState.DONE, job
    return job


@pytest.fixture(scope="module")
def shared():
    """One queue for tests that leave it as they found it."""
    with JobQueue(2, limits=JobLimits(memory_bytes=2**30, grace_s=0.3)) as jobs:
        jobs.warm()
        yield jobs


@pytest.fixture
def single():
    """A queue with one worker, so that order shows."""
    with JobQueue(1, limits=JobLimits(grace_s=0.3, per_owner=3, queued=4)) as jobs:
        yield jobs


def gate(jobs, tmp_path, owner="gate"):
    """Occupy the only worker until the returned file is made."""
    path = tmp_path / "gate"
    job = jobs.submit("gate", works.until_file, str(path), key("gate", path), owner)
    wait_until(jobs, job, lambda s: s.progress > 0)
    return path, job


def test_a_job_runs_elsewhere_and_comes_back(shared):
    job = shared.submit("square", works.square, 7, key("square", 7), "ada")
    assert (job.state, job.kind, job.owner, job.result) == (JobState.QUEUED, "square", "ada", None)
    ended = done(shared, job)
    assert ended.result["square"] == 49
    assert ended.result["pid"] != os.getpid()
    assert ended.progress == 1
    assert ended.queued_at_s <= ended.started_at_s <= ended.ended_at_s
    assert shared.status(job).result is None
    assert shared.get(job.id).result == ended.result


def test_progress_steps_and_intermediate_documents_come_in_order(shared):
    job = shared.submit("count", works.many_steps, 5000, key("count"))
    seen = wait_until(shared, job, lambda s: s.state.ended)
    assert [s.version for s in seen] == sorted({s.version for s in seen})
    parts = [s.progress for s in seen]
    assert parts == sorted(parts)
    assert len(seen) < 100  # fast progress is thinned out
    assert seen[-1].partial == {"number": 2}
    assert seen[-1].published == 3
    assert seen[-1].state is JobState.DONE
    assert all(s.result is None for s in seen)


@pytest.mark.parametrize("work", [works.obey, works.disobey, works.stubborn])
def test_cancel_stops_a_running_job_within_a_second(shared, work):
    job = shared.submit("endless", work, None, key("endless", work.__name__))
    pid = wait_until(shared, job, has_published)[-1].partial["pid"]
    began = time.monotonic()
    shared.cancel(job)
    ended = shared.wait(job, PATIENCE_S)
    assert ended.state is JobState.CANCELLED
    assert time.monotonic() - began < 2  # on a busy machine; 0.3 s otherwise
    assert (pid in shared.worker_pids()) is (work is works.obey)  # who obeys may stay
    assert psutil.pid_exists(pid) is (work is works.obey)
    assert shared.cancel(job) == shared.status(job)  # once more changes nothing
    done(shared, shared.submit("square", works.square, 2, key("after", work.__name__)))


def test_a_job_that_ends_before_it_hears_of_the_cancel_is_done(shared):
    job = shared.submit("late", works.finish_anyway, None, key("late"))
    wait_until(shared, job, has_published)
    assert shared.cancel(job).step == "cancelling"
    assert done(shared, job).result == {"finished": "anyway"}


@pytest.mark.parametrize(
    ("work", "argument", "kind", "words"),
    [
        (works.fail, "the speed is wrong", "input", "the speed is wrong"),
        (works.stall, "a cycle of waits", "engine", "a cycle of waits"),
        (works.die, signal.SIGSEGV, "crash", "SIGSEGV"),
        (works.die, signal.SIGKILL, "memory", "killed from outside"),
        (works.leave, 3, "crash", "exit code 3"),
        (works.hog, 2**31, "memory", "more memory than a worker may use"),
    ],
)
def test_what_goes_wrong_is_a_sentence_and_the_queue_goes_on(shared, work, argument, kind, words):
    job = shared.submit("bad", work, argument, key(work.__name__, argument))
    ended = shared.wait(job, PATIENCE_S)
    assert ended.state is JobState.FAILED
    assert ended.error_kind == kind
    assert words in ended.error
    assert ended.result is None
    done(shared, shared.submit("square", works.square, 3, key("go on", work.__name__, argument)))


@pytest.mark.parametrize(
    ("work", "name"), [(works.blunder, "KeyError"), (works.unpicklable, "TypeError")]
)
def test_faults_of_ours_are_logged_but_not_told(shared, caplog, work, name):
    with caplog.at_level(logging.ERROR, "railweave.runs"):
        ended = shared.wait(
            shared.submit("bad", work, "/secret/place", key(work.__name__)), PATIENCE_S
        )
    assert ended.error_kind == "internal"
    assert name in ended.error
    assert "secret" not in ended.error
    assert "Traceback" not in ended.error
    assert "Traceback" in caplog.text


def test_work_that_cannot_be_sent_is_refused(shared):
    with pytest.raises(InputError, match="top of a module"):
        shared.submit("local", lambda argument, context: None, 1, key("local"))
    with pytest.raises(InputError, match="picklable"):
        shared.submit("lock", works.square, threading.Lock(), key("lock"))


def test_the_same_work_is_done_once_for_all_who_ask(tmp_path):
    store = ResultStore(tmp_path / "results")
    mark = tmp_path / "mark"
    with JobQueue(2, store) as jobs:
        name = key("mark")
        found = []

        def ask(owner):
            found.append(done(jobs, jobs.submit("m", works.leave_a_mark, str(mark), name, owner)))

        askers = [threading.Thread(target=ask, args=(f"owner-{k % 4}",)) for k in range(16)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        assert mark.read_bytes() == b"x"
        assert {job.result["path"] for job in found} == {str(mark)}
        assert all(job.stored for job in found)
        assert store.keys() == (name,)
        again = jobs.submit("m", works.leave_a_mark, str(mark), name, "late")
        assert (again.state, again.reused) == (JobState.DONE, True)
        assert again.result == {"path": str(mark)}
    with JobQueue(1, store) as jobs:  # and for those who ask tomorrow
        assert jobs.submit("m", works.leave_a_mark, str(mark), name).result == {"path": str(mark)}
        assert jobs.worker_pids() == ()
    assert mark.read_bytes() == b"x"


def test_without_a_store_results_live_as_long_as_their_job(tmp_path):
    mark = tmp_path / "mark"
    with JobQueue(1, limits=JobLimits(kept=2)) as jobs:
        first = done(jobs, jobs.submit("m", works.leave_a_mark, str(mark), "m"))
        again = jobs.submit("m", works.leave_a_mark, str(mark), "m", "other")
        assert again.reused
        assert again.result == first.result
        for number in range(2):
            done(jobs, jobs.submit("s", works.square, number, f"s{number}"))
        with pytest.raises(UnknownJob, match="the last 2 are known"):
            jobs.get(first)
        done(jobs, jobs.submit("m", works.leave_a_mark, str(mark), "m"))
    assert mark.read_bytes() == b"xx"


def test_failures_are_not_kept(shared, tmp_path):
    name = key("again")
    path = tmp_path / "no" / "such"
    first = shared.wait(shared.submit("m", works.leave_a_mark, str(path), name), PATIENCE_S)
    assert first.state is JobState.FAILED
    path.parent.mkdir()
    assert done(shared, shared.submit("m", works.leave_a_mark, str(path), name)).id != first.id


def test_tables_are_stored_beside_the_document(tmp_path):
    store = ResultStore(tmp_path)
    with JobQueue(1, store) as jobs:
        job = done(jobs, jobs.submit("t", works.tables, 9, key("tables")))
        assert job.result == {"value": 9}
        assert store.get(job.key).table("rows")["a"].to_list() == [1, 2, 9]
        bad = jobs.wait(jobs.submit("t", works.not_json, 9, key("bad")), PATIENCE_S)
        assert bad.error_kind == "internal"
        with pytest.raises(InputError, match="64 hexadecimal"):
            jobs.submit("t", works.tables, 9, "../../etc/passwd")


def test_a_result_that_cannot_be_stored_is_answered_all_the_same(tmp_path, caplog):
    store = ResultStore(tmp_path / "file")
    (tmp_path / "file").write_text("no folder")
    with JobQueue(1, store) as jobs, caplog.at_level(logging.WARNING, "railweave.runs"):
        job = done(jobs, jobs.submit("s", works.square, 2, key("x")))
        assert (job.result["square"], job.stored) == (4, False)
    assert "could not be stored" in caplog.text


def test_a_result_that_was_deleted_is_said(tmp_path):
    store = ResultStore(tmp_path)
    with JobQueue(1, store) as jobs:
        job = done(jobs, jobs.submit("s", works.square, 2, key("x")))
        (store.get(job.key).directory / "result.json").unlink()
        with pytest.raises(UnknownJob, match="ask for it again"):
            jobs.get(job)


def test_owners_see_and_touch_only_their_own(shared):
    mine = done(shared, shared.submit("s", works.square, 1, key("mine"), "ada"))
    assert mine.id in {job.id for job in shared.jobs("ada")}
    assert mine.id not in {job.id for job in shared.jobs("bob")}
    for ask in (shared.get, shared.status, shared.cancel):
        with pytest.raises(UnknownJob):
            ask(mine.id, "bob")
    assert all(job.result is None and job.partial is None for job in shared.jobs())


def test_owners_take_turns(single, tmp_path):
    path, first = gate(single, tmp_path)
    order = [
        single.submit("s", works.square, number, key("turn", owner, number), owner)
        for owner in ("ada", "bob")
        for number in range(2)
    ]
    path.touch()
    ended = sorted((done(single, job) for job in order), key=lambda job: job.started_at_s)
    assert [job.owner for job in ended] == ["ada", "bob", "ada", "bob"]
    done(single, first)


def test_too_many_jobs_are_refused_kindly(single, tmp_path):
    path, first = gate(single, tmp_path, "ada")
    for number in range(2):
        single.submit("s", works.square, number, key("many", number), "ada")
    with pytest.raises(QueueFull, match="3 of your jobs wait or run and 3 are allowed") as refused:
        single.submit("s", works.square, 9, key("many", 9), "ada")
    assert refused.value.own
    for number in range(2):
        single.submit("s", works.square, number, key("more", number), "bob")
    with pytest.raises(QueueFull, match="4 jobs are waiting") as refused:
        single.submit("s", works.square, 9, key("most", 9), "eve")
    assert not refused.value.own
    joined = single.submit("gate", works.until_file, str(path), first.key, "ada")
    assert joined.id == first.id  # asking for what already runs is no new job
    path.touch()


def test_a_job_that_two_owners_share_survives_one_of_them(single, tmp_path):
    path, first = gate(single, tmp_path, "ada")
    second = single.submit("gate", works.until_file, str(path), first.key, "bob")
    assert second.id != first.id
    assert (second.state, second.progress) == (JobState.RUNNING, 0.1)
    assert single.cancel(first).state is JobState.CANCELLED
    assert single.status(second).state is JobState.RUNNING
    path.touch()
    assert done(single, second).result == {"path": str(path)}


def test_a_waiting_job_is_cancelled_at_once_and_never_begun(single, tmp_path):
    path, _ = gate(single, tmp_path)
    mark = tmp_path / "mark"
    waiting = single.submit("m", works.leave_a_mark, str(mark), key("never"))
    assert single.cancel(waiting).state is JobState.CANCELLED
    assert single.wait(waiting, 0).started_at_s is None
    path.touch()
    done(single, single.submit("s", works.square, 1, key("last")))
    assert not mark.exists()


def test_after_a_cancel_the_same_key_starts_anew(single):
    first = single.submit("endless", works.disobey, None, key("anew"))
    wait_until(single, first, has_published)
    single.cancel(first)
    second = single.submit("endless", works.disobey, None, key("anew"))
    assert second.id != first.id
    wait_until(single, second, has_published)
    assert single.status(first).state is JobState.CANCELLED
    single.cancel(second)


@pytest.mark.parametrize("work", [works.obey, works.disobey])
def test_a_job_may_run_only_so_long(work):
    with JobQueue(1, limits=JobLimits(time_s=0.3, grace_s=0.2)) as jobs:
        ended = jobs.wait(jobs.submit("slow", work, None, key("slow")), PATIENCE_S)
        assert (ended.state, ended.error_kind) == (JobState.FAILED, "time")
        assert "stopped after 0.3 s" in ended.error
        assert ended.ended_at_s - ended.started_at_s < 2


def test_waiting_has_an_end(single, tmp_path):
    path, job = gate(single, tmp_path)
    assert single.wait(job, 0.01).state is JobState.RUNNING
    path.touch()


class Told:
    def __init__(self):
        self.seen = []

    def started(self, task):
        self.seen.append(("started", task))

    def advanced(self, task, fraction):
        self.seen.append(("advanced", fraction))

    def ended(self, task, error):
        self.seen.append(("ended", error))


class Clumsy(Told):
    def started(self, task):
        raise RuntimeError("clumsy")


def test_observers_are_told_and_their_faults_do_no_harm(caplog):
    told = Told()
    with JobQueue(1, observers=(Clumsy(), told)) as jobs:
        good = done(jobs, jobs.submit("s", works.square, 1, "a"))
        bad = jobs.wait(jobs.submit("f", works.fail, "no", "b"), PATIENCE_S)
        gone = jobs.submit("o", works.obey, None, "c")
        wait_until(jobs, gone, has_published)
        jobs.cancel(gone)
        jobs.wait(gone, PATIENCE_S)
    starts = [task for word, task in told.seen if word == "started"]
    assert starts == [good.id, bad.id, gone.id]
    ends = [error for word, error in told.seen if word == "ended"]
    assert ends[0] is None
    assert str(ends[1]) == "no"
    assert isinstance(ends[2], Cancelled)
    assert told.seen.index(("advanced", 0.5)) < told.seen.index(("advanced", 1.0))
    assert "clumsy" in caplog.text


def test_close_leaves_no_process_and_no_waiter_behind(tmp_path):
    jobs = JobQueue(2, limits=JobLimits(grace_s=0.3))
    running = [jobs.submit("e", works.disobey, k, key("close", k)) for k in range(2)]
    for job in running:
        wait_until(jobs, job, has_published)
    waiting = jobs.submit("s", works.square, 1, key("close", "waits"))
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(jobs.wait(waiting)))
    waiter.start()
    pids = jobs.worker_pids()
    assert len(pids) == 2
    began = time.monotonic()
    jobs.close()
    assert time.monotonic() - began < 4
    waiter.join(PATIENCE_S)
    assert [job.state for job in answers] == [JobState.CANCELLED]
    assert {jobs.status(job).state for job in running} == {JobState.CANCELLED}
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not [
        t
        for t in threading.enumerate()
        if t.name.startswith("railweave-")
        and t.is_alive()
        and t in (jobs._supervisor, jobs._teller._thread)
    ]
    with pytest.raises(QueueFull, match="closed"):
        jobs.submit("s", works.square, 1, key("close", "late"))
    jobs.close()


def test_closing_a_queue_that_just_started_is_quick():
    jobs = JobQueue(2)
    jobs.warm()
    began = time.monotonic()
    jobs.close()
    assert time.monotonic() - began < 2  # on a busy machine; 0.3 s otherwise
    assert jobs.worker_pids() == ()


def test_a_worker_that_cannot_start_is_said(capfd):
    with JobQueue(1, preload=("no_such_module_here",)) as jobs:
        ended = jobs.wait(jobs.submit("s", works.square, 1, "a"), PATIENCE_S)
    assert ended.state is JobState.FAILED
    assert "no worker process can be started" in ended.error
    assert "no_such_module_here" in capfd.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [{"time_s": 0}, {"memory_bytes": -1}, {"queued": 0}, {"kept": 0}, {"grace_s": float("nan")}],
)
def test_limits_that_mean_nothing_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        JobLimits(**wrong)
    with pytest.raises(InputError, match="workers is 0"):
        JobQueue(0)
