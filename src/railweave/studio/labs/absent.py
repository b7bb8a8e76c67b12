"""Labs whose engines are not there yet: shown greyed, with what is missing."""

from __future__ import annotations

from railweave.studio.content import lab
from railweave.studio.lab import Lab

__all__ = ["DESIGN", "INCIDENT"]


def _absent(number: int, key: str, hue: int) -> Lab:
    text = lab(key)
    return Lab(number, key, text.title, text.summary, hue, None, text.missing)


INCIDENT = _absent(8, "incident", 5)
DESIGN = _absent(9, "design", 230)
