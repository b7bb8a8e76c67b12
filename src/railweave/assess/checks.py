"""Design checks: plain functions ``(CheckContext) -> Iterable[Finding]``, in a table.

Others add theirs by an entry point of group ``railweave.checks`` that names such a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Final, TypeAlias

from railweave.assess._deadlock import DEADLOCK_CHECKS
from railweave.assess._network import NETWORK_CHECKS
from railweave.assess._operations import OPERATIONS_CHECKS
from railweave.assess._security import SECURITY_CHECKS
from railweave.assess._workload import WORKLOAD_CHECKS
from railweave.assess.context import CheckContext
from railweave.design import LoadedDesign
from railweave.fabric.build import BuiltFabric, build_fabric
from railweave.findings import Finding, Severity

__all__ = ["CHECKS", "Check", "installed_checks", "run_checks"]

Check: TypeAlias = Callable[[CheckContext], Iterable[Finding]]

GROUP: Final = "railweave.checks"
CHECKS: Final[tuple[Check, ...]] = (
    *NETWORK_CHECKS,
    *DEADLOCK_CHECKS,
    *OPERATIONS_CHECKS,
    *SECURITY_CHECKS,
    *WORKLOAD_CHECKS,
)

_ORDER: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def installed_checks() -> tuple[Check, ...]:
    """Return the checks that other packages add, in the order of their names."""
    found = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    return tuple(entry.load() for entry in found)


def run_checks(
    loaded: LoadedDesign,
    built: BuiltFabric | None = None,
    checks: Iterable[Check] | None = None,
) -> tuple[Finding, ...]:
    """Run checks on a design and return what they found, the gravest first.

    What sizing and building had to say is among it. Findings about a field of the design have its
    ``file:line:col``.

    Args:
        loaded: the design.
        built: its fabric; built here where not given.
        checks: default: :data:`CHECKS` and those that are installed beside railweave.
    """
    built = build_fabric(loaded.design, loaded.catalog) if built is None else built
    context = CheckContext(loaded, built)
    chosen = (*CHECKS, *installed_checks()) if checks is None else tuple(checks)
    found = [*built.findings, *(finding for check in chosen for finding in check(context))]
    unique = dict.fromkeys(context.placed(finding) for finding in found)
    return tuple(sorted(unique, key=lambda finding: _ORDER[finding.severity]))
