"""Judgement: whether a design that can be built is also wise."""

from railweave.assess.checks import CHECKS, run_checks
from railweave.assess.context import CheckContext

__all__ = ["CHECKS", "CheckContext", "run_checks"]
