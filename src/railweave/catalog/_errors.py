"""The error of a catalog: a part or a fact that is not there."""

from __future__ import annotations

from railweave.errors import InputError, Problem

__all__ = ["CatalogError"]


class CatalogError(InputError):
    """A part, fact or cable that the catalog does not have; ``problem`` says what it does have."""

    def __init__(self, message: str, *, path: str, allowed: str = "", nearest: str = "") -> None:
        self.problem = Problem(path=path, message=message, allowed=allowed, nearest=nearest)
        super().__init__(str(self.problem))
