"""One server that most tests of the API share."""

import pytest
import restserver

from railweave.runs import JobLimits, JobQueue, ResultStore


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return ResultStore(tmp_path_factory.mktemp("rest") / "results")


@pytest.fixture(scope="session")
def client(store):
    limits = JobLimits(per_owner=50, grace_s=0.3)
    with JobQueue(2, store, limits) as queue, restserver.api(queue) as client:
        yield client
