"""Taking parts out and putting them back in lab 5, by the names that ``--fail`` takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.errors import InputError
from railweave.fabric import Fabric, NodeKind, PlaneId, find_duplex, find_node
from railweave.fabric.failures import parse_failures
from railweave.fabric.names import duplex_name
from railweave.studio.state import MOST_TEXT

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = ["History", "Outcome", "put_back", "take_out", "toggled"]

#: between the two ends in the id of a bundle; a box of several devices is "leaf-1 +3"
_JOIN: Final = " – "
_SEVERAL: Final = " +"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is out now, and a sentence on what was done, or why nothing was."""

    out: tuple[str, ...]
    sentence: str


class History:
    """What was out, step by step, to go back and forth in."""

    def __init__(self, first: tuple[str, ...]) -> None:
        self._steps = [first]
        self._at = 0

    @property
    def now(self) -> tuple[str, ...]:
        """What is out."""
        return self._steps[self._at]

    @property
    def can_undo(self) -> bool:
        """Whether there is a step before."""
        return self._at > 0

    @property
    def can_redo(self) -> bool:
        """Whether a step was undone."""
        return self._at + 1 < len(self._steps)

    def put(self, out: tuple[str, ...]) -> None:
        """Add a step; what was undone is forgotten."""
        if out != self.now:
            self._steps = [*self._steps[: self._at + 1], out]
            self._at += 1

    def replace(self, out: tuple[str, ...]) -> None:
        """Change the present step: parts that this fabric does not have."""
        self._steps[self._at] = out

    def undo(self) -> tuple[str, ...]:
        """Go one step back."""
        self._at = max(0, self._at - 1)
        return self.now

    def redo(self) -> tuple[str, ...]:
        """Go one step forth."""
        self._at = min(len(self._steps) - 1, self._at + 1)
        return self.now


def toggled(whole: BuiltDesign, out: Sequence[str], scene_id: str) -> Outcome:
    """Take a part of the drawing out, or put it back if it is out.

    A bundle of cables between two devices loses one cable at a time; when none is left, all of
    them are put back.
    """
    if _SEVERAL in scene_id:
        return Outcome(tuple(out), "This stands for several devices; open its group to choose one.")
    if _JOIN not in scene_id:
        name = scene_id.partition("@")[0]
        same = _meaning_same(whole.fabric, out, name)
        return _without(out, same) if same else take_out(whole, out, scene_id)
    cables = _bundle(whole.fabric, scene_id)
    up = whole.fail(out).fabric.link_up[::2]
    live = [cable for cable in cables if up[cable]]
    if live:
        return _with(out, duplex_name(whole.fabric, live[0]))
    return put_back(whole, out, scene_id)


def take_out(whole: BuiltDesign, out: Sequence[str], scene_id: str) -> Outcome:
    """Take out a device, a cable, or all cables of a bundle that are still up."""
    if _SEVERAL in scene_id:
        return Outcome(tuple(out), "This stands for several devices; open its group to choose one.")
    up = whole.fail(out).fabric.link_up[::2]
    if _JOIN in scene_id:
        names = [duplex_name(whole.fabric, k) for k in _bundle(whole.fabric, scene_id) if up[k]]
        return _with(out, *names)
    name = scene_id.partition("@")[0]
    if ":" in name and not up[find_duplex(whole.fabric, name)]:
        return Outcome(tuple(out), f"{name} is out with a device at one of its ends.")
    covered = parse_failures(whole.fabric, out).nodes
    if ":" not in name and find_node(whole.fabric, name) in covered:
        return Outcome(tuple(out), f"{name} is out already, by one of {', '.join(out)}.")
    return _with(out, name)


def put_back(whole: BuiltDesign, out: Sequence[str], scene_id: str) -> Outcome:
    """Put back what of a part was taken out by its own name."""
    if _SEVERAL in scene_id:
        return Outcome(tuple(out), "This stands for several devices; open its group to choose one.")
    if _JOIN in scene_id:
        mine = set(_bundle(whole.fabric, scene_id))
        same = [one for one in out if ":" in one and find_duplex(whole.fabric, one) in mine]
    else:
        same = _meaning_same(whole.fabric, out, scene_id.partition("@")[0])
    if not same:
        return Outcome(tuple(out), "It is out with another part; put that back instead.")
    return _without(out, same)


def _with(out: Sequence[str], *names: str) -> Outcome:
    now = tuple(dict.fromkeys((*out, *names)))
    if len(",".join(now)) > MOST_TEXT:
        return Outcome(
            tuple(out),
            f"More names than the {MOST_TEXT} characters that the page's address holds; put "
            "something back, or name many at once, such as spine-*.",
        )
    few = names if len(names) <= 3 else (*names[:3], f"{len(names) - 3} more")
    return Outcome(now, f"{', '.join(few)} out." if names else "Nothing of it is up.")


def _without(out: Sequence[str], names: Sequence[str]) -> Outcome:
    gone = set(names)
    few = names if len(names) <= 3 else (*names[:3], f"{len(names) - 3} more")
    return Outcome(tuple(one for one in out if one not in gone), f"{', '.join(few)} back.")


def _meaning_same(fabric: Fabric, out: Sequence[str], name: str) -> list[str]:
    """Return the items that mean just this device or cable, however they are written."""
    if ":" in name:
        cable = find_duplex(fabric, name)
        return [one for one in out if ":" in one and find_duplex(fabric, one) == cable]
    return [one for one in out if one == name]


def _bundle(fabric: Fabric, scene_id: str) -> list[int]:
    """Return the duplex links of a bundle between two single devices."""
    a, b = (_members(fabric, end) for end in scene_id.split(_JOIN))
    src, dst = fabric.link_src[::2], fabric.link_dst[::2]
    joined = (np.isin(src, a) & np.isin(dst, b)) | (np.isin(src, b) & np.isin(dst, a))
    joined &= fabric.link_plane[::2] == PlaneId.BACKEND
    return [int(k) for k in np.flatnonzero(joined)]


def _members(fabric: Fabric, end: str) -> list[int]:
    name = end.partition("@")[0]
    if _SEVERAL in name:
        raise InputError(f"{name} stands for several devices")
    node = find_node(fabric, name)
    if fabric.node_kind[node] != NodeKind.HOST or fabric.node_server[node] < 0:
        return [node]
    return [int(n) for n in np.flatnonzero(fabric.node_server == fabric.node_server[node])]
