"""railweave: the workbench for GPU-cluster networks.

``railweave.load("design.yaml").build().simulate(engine="flow").frame()``

Names are imported when first used, so that ``import railweave`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railweave.api import BuiltDesign, LoadedDesign, load, parse
    from railweave.errors import DesignError, InputError, RailweaveError
    from railweave.findings import Finding, Severity

__version__ = "0.1.0"

__all__ = [
    "BuiltDesign",
    "DesignError",
    "Finding",
    "InputError",
    "LoadedDesign",
    "RailweaveError",
    "Severity",
    "__version__",
    "load",
    "parse",
]

_HOME = {
    "BuiltDesign": "api",
    "LoadedDesign": "api",
    "load": "api",
    "parse": "api",
    "DesignError": "errors",
    "InputError": "errors",
    "RailweaveError": "errors",
    "Finding": "findings",
    "Severity": "findings",
}


def __getattr__(name: str) -> object:
    """Import a public name from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module 'railweave' has no attribute {name!r}")
    return getattr(importlib.import_module(f"railweave.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
