"""``like: NAME``: a part that is as another one but for the fields it writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from railweave.catalog._parts import Part
from railweave.provenance import Certainty

__all__ = ["based_on"]

_OWN = frozenset({"name", "like", "source", "certainty", "facts", "note"})


def based_on(base: Part, written: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Give the whole fields of a part written as changes to a base.

    Each fact that is taken over keeps the source and certainty it had; each that is written has
    the part's own source, or the file.
    """
    taken = base.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=set(_OWN))
    own = {
        "source": written.get("source") or file,
        "certainty": written.get("certainty") or Certainty.ASSUMED.value,
    }
    facts: dict[str, Any] = {}
    for name in taken:
        facts[name] = _fact(base, name)
    for name, note in base.facts.items():
        facts[name] = {**_fact(base, name), "note": note.note}
    for path in _paths({name: value for name, value in written.items() if name not in _OWN}):
        below = [name for name in facts if name == path or name.startswith(f"{path}.")]
        for name in below:
            del facts[name]
        facts[path] = own
    if isinstance(written.get("facts"), Mapping):
        facts.update(written["facts"])
    return {**_merged(taken, written), "facts": facts}


def _fact(base: Part, name: str) -> dict[str, str]:
    source = base.provenance(name)
    return {"source": source.title, "certainty": source.certainty.value}


def _paths(written: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the dotted path of each value written."""
    for name, value in written.items():
        if isinstance(value, Mapping) and value:
            yield from _paths(value, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def _merged(taken: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Lay what is written over what is taken, field by field, within fields too."""
    merged = dict(taken)
    for name, value in written.items():
        under = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        merged[name] = _merged(under, value) if both else value  # type: ignore[arg-type]
    return merged
