"""The protocol stacks side by side, and under them the two fabrics they run on: one SVG."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator
from typing import Final

from railweave.report.style import COLOURS, ROLE_COLOURS
from railweave.transport.compare import Technology, technology_facts

__all__ = ["draw_stacks"]

#: Ethernet's three stand together over their fabric
_ORDER: Final = (
    Technology.TCP,
    Technology.ROCEV2,
    Technology.ADAPTIVE,
    Technology.INFINIBAND,
)
_COLUMN, _GAP, _LAYER, _LEFT = 205, 12, 56, 8
_TOP, _LETTERS = 34, 29
_WIDTH: Final = _LEFT * 2 + 4 * _COLUMN + 3 * _GAP
_STACK_END: Final = _TOP + 5 * (_LAYER + 4)
_FABRIC_TOP: Final = _STACK_END + 30
_HEIGHT: Final = _FABRIC_TOP + 190
_WHERE: Final = {
    "host": ("host software", COLOURS["host"]),
    "nic": ("in the adapter", COLOURS["warn"]),
    "fabric": ("in the fabric", ROLE_COLOURS["backend"]),
}


def draw_stacks() -> str:
    """Return the drawing as SVG that takes the page's ink, light or dark."""
    facts = technology_facts()
    parts = [*_legend()]
    for place, technology in enumerate(_ORDER):
        text = facts.technologies[technology]
        x = _x(place)
        parts.append(_text(x + _COLUMN / 2, 22, text.title, size=14, weight=600, middle=True))
        for level, ((layer, what), where) in enumerate(zip(text.stack, text.where, strict=True)):
            parts += _box(x, _TOP + level * (_LAYER + 4), layer, what, _WHERE[where][1])
        parts.append(_line(x + _COLUMN / 2, _STACK_END, x + _COLUMN / 2, _FABRIC_TOP - 2))
    ethernet_end = _x(2) + _COLUMN
    parts += _fabric(
        _LEFT,
        ethernet_end,
        COLOURS["leaf"],
        "Ethernet fabric: leaves and spines of any maker, each switch routes by itself",
    )
    parts += _fabric(
        _x(3),
        _x(3) + _COLUMN,
        COLOURS["spine"],
        "InfiniBand fabric",
        manager=True,
    )
    spoken = "; ".join(
        f"{facts.technologies[t].title}: "
        + ", ".join(f"{layer} {what}" for layer, what in facts.technologies[t].stack)
        for t in _ORDER
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        'font-family="system-ui, sans-serif" '
        f'aria-label="{html.escape("Protocol stacks and fabrics. " + spoken)}">'
        + "".join(parts)
        + "</svg>"
    )


def _x(place: int) -> float:
    return _LEFT + place * (_COLUMN + _GAP)


def _text(
    x: float, y: float, text: str, size: int = 12, weight: int = 400, *, middle: bool = False
) -> str:
    anchor = ' text-anchor="middle"' if middle else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" '
        f'fill="currentColor"{anchor}>{html.escape(text)}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{COLOURS["link"]}" '
        'stroke-width="1.5"/>'
    )


def _rect(
    x: float, y: float, width: float, height: float, colour: str, *, strength: float = 0.16
) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" '
        f'fill="{colour}" fill-opacity="{strength}" stroke="{colour}"/>'
    )


def _box(x: float, y: float, layer: str, what: str, colour: str) -> Iterator[str]:
    """Draw a layer: its name, and in two lines what fills it."""
    yield _rect(x, y, _COLUMN, _LAYER, colour)
    yield _text(x + 8, y + 15, layer, 10, 600)
    for number, line in enumerate(textwrap.wrap(what, _LETTERS)[:2]):
        yield _text(x + 8, y + 31 + 15 * number, line)


def _fabric(
    left: float, right: float, colour: str, title: str, *, manager: bool = False
) -> Iterator[str]:
    """Draw a leaf-spine fabric between two edges, with a subnet manager where there is one."""
    top = _FABRIC_TOP
    middle = (left + right) / 2
    yield _rect(left, top, right - left, 152, colour, strength=0.06)
    yield _text(middle, top + 144, title, 11, middle=True)
    leaves = 3 if manager else 6
    spines = 2 if manager else 4
    span = right - left
    if manager:
        span -= 66
        yield _rect(right - 70, top + 14, 62, 40, COLOURS["warn"])
        yield _text(right - 39, top + 31, "subnet", 10, middle=True)
        yield _text(right - 39, top + 45, "manager", 10, middle=True)
        yield _line(right - 70, top + 34, left + span - 4, top + 34)
    size = 44.0
    up = [left + span * (k + 0.5) / spines for k in range(spines)]
    down = [left + (right - left) * (k + 0.5) / leaves for k in range(leaves)]
    for a in up:
        for b in down:
            yield _line(a, top + 46, b, top + 92)
    for kind, places, y in (("spine", up, top + 22), ("leaf", down, top + 92)):
        for place in places:
            yield _rect(place - size / 2, y, size, 24, colour, strength=0.3)
            yield _text(place, y + 16, kind, 10, middle=True)


def _legend() -> Iterator[str]:
    y = _HEIGHT - 22
    x = float(_LEFT)
    for words, colour in _WHERE.values():
        yield _rect(x, y, 14, 14, colour)
        yield _text(x + 20, y + 12, words, 11)
        x += 150
