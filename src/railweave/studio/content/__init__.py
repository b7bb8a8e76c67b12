"""The studio's words: the glossary of quantities, the labs' names and their Learn panels.

All of it is YAML beside this module, read once and checked: a fault in a file is a
:class:`~railweave.errors.DesignError` with its line and column.
"""

from __future__ import annotations

from railweave.studio.content._load import lab, labs, learn, quantities, quantity
from railweave.studio.content._records import (
    ChecklistItem,
    ComparisonTable,
    Concept,
    LabText,
    LearnPanel,
    Quantity,
    Takeaway,
)

__all__ = [
    "ChecklistItem",
    "ComparisonTable",
    "Concept",
    "LabText",
    "LearnPanel",
    "Quantity",
    "Takeaway",
    "lab",
    "labs",
    "learn",
    "quantities",
    "quantity",
]
