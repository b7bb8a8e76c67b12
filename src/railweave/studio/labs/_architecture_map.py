"""Lab 1's map of a visitor's design, made once for all pages."""

from __future__ import annotations

from functools import lru_cache

from railweave.studio.designs import built_design
from railweave.transport.planes.system_map import (
    OUTSIDE,
    PLANES,
    Bundle,
    Station,
    SystemMap,
    system_map,
)

__all__ = ["OUTSIDE", "PLANES", "Bundle", "Station", "SystemMap", "map_of"]


@lru_cache(maxsize=8)
def map_of(text: str) -> SystemMap:
    """Draw up the map of a design.

    Raises:
        DesignError: problems of the text.
        SizingError: it cannot be built as asked.
    """
    return system_map(built_design(text))
