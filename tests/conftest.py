"""Makes the helpers beside it importable from every test; what holds for all of them."""

import pytest
from hypothesis import HealthCheck, settings

# A machine that is busy is no fault: examples may take as long as they take.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse cases without an order: several processes would collect different lists."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if isinstance(mark.args[1], set | frozenset):
            raise pytest.Collector.CollectError(
                f"{metafunc.definition.nodeid}: cases in a set have no order; give a list"
            )
