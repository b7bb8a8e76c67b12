"""Each experiment runs once for all tests."""

from __future__ import annotations

from functools import cache

import pytest

from railweave.experiments import Outcome, experiment


@pytest.fixture(scope="session")
def outcome_of():
    @cache
    def run(name: str) -> Outcome:
        return experiment(name).run()

    return run
