"""The queue's rules, held by a state machine: a fake pool plays the worker processes."""

from types import SimpleNamespace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from railweave.runs import JobLimits, JobQueue, JobState, QueueFull, UnknownJob
from railweave.runs._jobs_worker import Failure

OWNERS = st.sampled_from(["ada", "bob", "eve"])
KEYS = st.sampled_from([f"key-{k}" for k in range(4)])
LIMITS = JobLimits(time_s=None, grace_s=3600, queued=4, per_owner=3, kept=6)


def work(argument, context):
    """Stand for work; the fake pool never does it."""


class Hands:
    """A worker of the fake pool."""

    def __init__(self):
        self.run, self.ready, self.retired, self.killed = -1, True, False, False
        self.process = SimpleNamespace(pid=1, exitcode=-11)

    @property
    def idle(self):
        return self.run < 0


class FakePool:
    """Has two workers, who say what the state machine wants them to say."""

    broken = False

    def __init__(self):
        self.workers = [Hands(), Hands()]
        self.given, self.cancelled, self.killed = [], [], []
        self.said, self.dying = [], []

    def idle(self):
        return [worker for worker in self.workers if worker.idle]

    def give(self, worker, task):
        self.given.append(task)

    def cancel(self, worker):
        self.cancelled.append(worker.run)

    def wait(self, wake, timeout_s, heard):
        while wake.poll():
            wake.recv_bytes()
        for message in self.said:
            heard(*message)
        dead, self.said, self.dying = self.dying, [], []
        for worker in dead:
            self.workers[self.workers.index(worker)] = Hands()
        return dead

    def kill(self, worker):
        self.killed.append(worker.run)

    def grow(self, wanted):
        pass

    def kill_late(self, now):
        pass

    def deadlines(self):
        return []


class Machine(RuleBasedStateMachine):
    """Submits, cancels, and plays workers that report, fail and die, in any order."""

    def __init__(self):
        super().__init__()
        self.queue = JobQueue(2, limits=LIMITS)
        self.queue._pool = self.pool = FakePool()
        self.queue._start_supervisor = lambda: None  # its steps are taken here
        self.last = {}
        self.turn = 0

    def teardown(self):
        self.queue._bell.close()
        self.queue._ear.close()

    def step(self):
        self.queue._attend()
        for job in self.queue.jobs():  # states only go forward, ended jobs never change
            before = self.last.get(job.id)
            if before is not None:
                assert job.version >= before.version
                assert job.progress >= before.progress
                if before.state.ended:
                    assert job == before
                elif before.state is JobState.RUNNING:
                    assert job.state is not JobState.QUEUED
            self.last[job.id] = job

    @rule(key=KEYS, owner=OWNERS)
    def submit(self, key, owner):
        live = [j for j in self.queue.jobs() if not j.state.ended]
        refused = None
        try:
            job = self.queue.submit("work", work, None, key, owner)
        except QueueFull as full:
            refused = full
        if refused is not None:
            mine = [j for j in live if j.owner == owner]
            queued = [j for j in live if j.state is JobState.QUEUED]
            assert (len(mine) >= 3) if refused.own else (len(queued) >= 4)
            return
        assert (job.key, job.owner) == (key, owner)
        if job.state is JobState.DONE:
            assert job.reused
            assert job.result == {"key": key}
        self.step()

    @precondition(lambda self: self.queue.jobs())
    @rule(data=st.data(), owner=OWNERS)
    def cancel(self, data, owner):
        jobs = self.queue.jobs()
        job = jobs[data.draw(st.integers(0, len(jobs) - 1))]
        if owner != job.owner:
            try:
                self.queue.cancel(job, owner)
            except UnknownJob:
                assert self.queue.status(job).version == job.version
                return
            raise AssertionError("somebody else's job was cancelled")
        now = self.queue.cancel(job, owner)
        if job.state is JobState.QUEUED:
            assert now.state is JobState.CANCELLED
        self.step()

    def busy(self):
        return [worker for worker in self.pool.workers if worker.run >= 0]

    @precondition(lambda self: self.busy())
    @rule(data=st.data(), part=st.floats(0, 1))
    def report(self, data, part):
        busy = self.busy()
        worker = busy[data.draw(st.integers(0, len(busy) - 1))]
        running = [j for j in self.queue.jobs() if j.state is JobState.RUNNING]
        most = max(j.progress for j in running)
        self.pool.said.append((worker, "progress", worker.run, ("at it", max(part, most))))
        self.pool.said.append((worker, "partial", worker.run, {"part": part}))
        self.step()

    @precondition(lambda self: self.busy())
    @rule(data=st.data(), how=st.sampled_from(["done", "failed", "cancelled", "dies"]))
    def end(self, data, how):
        busy = self.busy()
        worker = busy[data.draw(st.integers(0, len(busy) - 1))]
        task = next(task for task in self.pool.given if task.run == worker.run)
        if how == "dies":
            self.pool.dying.append(worker)
        elif how == "cancelled":
            if worker.run not in self.pool.cancelled:
                return  # nobody asked it to
            self.pool.said.append((worker, how, worker.run, None))
        elif how == "failed":
            self.pool.said.append((worker, how, worker.run, Failure("input", "no good")))
        else:
            self.pool.said.append((worker, how, worker.run, ({"key": task.key}, False)))
        self.step()
        self.step()  # the next one is begun

    @invariant()
    def one_run_for_one_key_that_is_not_to_stop(self):
        going = [run.task.key for run in self.queue._books.runs.values() if not run.stopping]
        assert len(going) == len(set(going))

    @invariant()
    def every_live_job_has_a_run_and_only_those(self):
        for entry in self.queue._books.entries.values():
            assert (entry.run is None) is entry.job.state.ended
            if entry.run is not None:
                assert entry in entry.run.jobs
                assert entry.run.begun is (entry.job.state is JobState.RUNNING)
                going = self.queue._books.runs.get(entry.run.task.run)
                assert going is (entry.run if entry.run.begun else None)

    @invariant()
    def what_waits_is_what_is_queued(self):
        waiting = {entry.job.id for entry in self.queue._books.waiting()}
        assert waiting == {j.id for j in self.queue.jobs() if j.state is JobState.QUEUED}

    @invariant()
    def no_worker_rests_while_work_waits(self):
        if self.pool.idle() and not self.queue._rung:
            assert not list(self.queue._books.waiting())

    @invariant()
    def limits_are_kept(self):
        jobs = self.queue.jobs()
        assert sum(j.state.ended for j in jobs) <= LIMITS.kept
        for owner in ("ada", "bob", "eve"):
            assert sum(j.owner == owner and not j.state.ended for j in jobs) <= LIMITS.per_owner

    @invariant()
    def done_jobs_have_their_own_result(self):
        for job in self.queue.jobs():
            if job.state is JobState.DONE:
                assert self.queue.get(job).result == {"key": job.key}
                assert job.progress == 1
            assert (job.error != "") is (job.state is JobState.FAILED)


Machine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestQueueRules = Machine.TestCase


def test_the_fake_pool_has_what_the_real_one_has():
    from railweave.runs._jobs_pool import Pool

    public = {name for name in vars(FakePool) if not name.startswith("_")}
    real = {name for name in vars(Pool) if not name.startswith("_")}
    assert public <= real
