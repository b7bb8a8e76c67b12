"""Makes the helpers beside it importable from every test; no property test judges by the clock."""

from hypothesis import HealthCheck, settings

# A machine that is busy is no fault: examples may take as long as they take.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")
