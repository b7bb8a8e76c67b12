"""Hardware facts, every one with its source and its certainty.

Nothing is read at import: :func:`default_catalog` reads railweave's own files on first use.
"""

from __future__ import annotations

from railweave.catalog._cables import pick_cable
from railweave.catalog._errors import CatalogError
from railweave.catalog._load import Catalog, CatalogFile, default_catalog, load_catalog
from railweave.catalog._parts import (
    Breakout,
    Cable,
    CableKind,
    FactNote,
    Gpu,
    ModelShape,
    Nic,
    NicRole,
    Part,
    ScaleUp,
    Server,
    ServerNics,
    Status,
    Switch,
    Transport,
    yaml_name,
)

__all__ = [
    "Breakout",
    "Cable",
    "CableKind",
    "Catalog",
    "CatalogError",
    "CatalogFile",
    "FactNote",
    "Gpu",
    "ModelShape",
    "Nic",
    "NicRole",
    "Part",
    "ScaleUp",
    "Server",
    "ServerNics",
    "Status",
    "Switch",
    "Transport",
    "default_catalog",
    "load_catalog",
    "pick_cable",
    "yaml_name",
]
