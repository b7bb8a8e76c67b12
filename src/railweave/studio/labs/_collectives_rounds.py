"""Lab 7's rounds in words: who sends what in a round, and what every GPU holds after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Collective
from railweave.studio.lab import TraceRow
from railweave.studio.labs._collectives import bytes_text
from railweave.studio.labs._collectives_scene import count_ranks, round_ends, round_text, rounds_of
from railweave.studio.parts import table_html
from railweave.units import format_seconds

if TYPE_CHECKING:
    from railweave.studio.labs._collectives_run import Message, Run
    from railweave.workload.schedule import Schedule

__all__ = ["Round", "holdings_html", "round_html", "rounds", "trace_rows"]

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
Bool = npt.NDArray[np.bool_]

#: rows of a round's table
MOST_ROWS: Final = 64
#: ranks and pieces that are written out; more are drawn as small cells
MOST_WRITTEN: Final = 12
#: cells that are drawn
MOST_CELLS: Final = 4_096
#: a wait counts from this part of the whole time
_LEAST_WAIT: Final = 0.005


@dataclass(frozen=True, slots=True)
class Round:
    """One round: when it is over, what it is called, its messages, and who waited before it.

    ``waits`` are (rank, seconds) between a rank's last send and this one.
    """

    number: int
    count: int
    end_s: float
    text: str
    messages: tuple[Message, ...]
    waits: tuple[tuple[int, float], ...]


def rounds(messages: Sequence[Message], *, waiting: bool = False) -> tuple[Round, ...]:
    """Return the rounds of a drawing, with ``waiting`` who waits for a slow rank."""
    made: list[Round] = []
    ends = round_ends(messages)
    sent: dict[int, float] = {}
    for k, some in enumerate(rounds_of(messages)):
        waits = []
        for rank in sorted({m.src for m in some}):
            first = min(m.start_s for m in some if m.src == rank)
            wait = first - sent.get(rank, first if k == 0 else 0.0)
            if waiting and wait > _LEAST_WAIT * ends[-1]:
                waits.append((rank, wait))
        for m in some:
            sent[m.src] = max(sent.get(m.src, 0.0), m.end_s)
        made.append(
            Round(k, len(ends), ends[k], round_text(k, len(ends), some), tuple(some), tuple(waits))
        )
    return tuple(made)


def at_time(all_rounds: Sequence[Round], time_s: float) -> int:
    """Return how many rounds are over at a time."""
    nearly = 2e-6 * all_rounds[-1].end_s if all_rounds else 0.0  # the canvas rounds its times
    return sum(r.end_s <= time_s + nearly for r in all_rounds)


# ---------------------------------------------------------------- a round's transfers


def round_html(one: Round, schedule: Schedule) -> str:
    """Return a round's transfers as a table."""
    known = any(m.chunks for m in one.messages)
    names = ("from", "to", "pieces", "bytes", "does", "time") if known else _PLAIN
    rows = [_row(m, schedule, known) for m in one.messages[:MOST_ROWS]]
    more = len(one.messages) - MOST_ROWS
    after = f"<p class='rw-quiet'>and {more:,} more</p>" if more > 0 else ""
    waits = ""
    if one.waits:
        listed = ", ".join(f"GPU {r} {format_seconds(s)}" for r, s in one.waits[:8])
        others = f" and {len(one.waits) - 8} more" if len(one.waits) > 8 else ""
        waits = f"<p class='rw-waits'>Waited before it: {listed}{others}</p>"
    return f"<p class='rw-round'>{escape(one.text)}</p>{waits}{table_html(names, rows)}{after}"


_PLAIN: Final = ("from", "to", "bytes", "time")


def _row(message: Message, schedule: Schedule, known: bool) -> tuple[str, ...]:
    names = [schedule.chunk_names[chunk] for chunk in message.chunks]
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    does = {"reduce": "adds", "copy": "copies"}.get(message.action, "")
    when = f"{format_seconds(message.start_s)} – {format_seconds(message.end_s)}"
    ends = (f"GPU {message.src}", f"GPU {message.dst}")
    size = bytes_text(message.size_bytes)
    return (*ends, shown, size, does, when) if known else (*ends, size, when)


# ---------------------------------------------------------------- what every GPU holds


def holdings_html(schedule: Schedule, after: int) -> str:
    """Return what every rank holds after so many rounds: cells, and the same as text."""
    pieces = _columns(schedule)
    held = np.take_along_axis(schedule.held(after), pieces, axis=1)
    wanted = np.take_along_axis(schedule.wanted, pieces, axis=1)
    before = np.take_along_axis(schedule.held(max(after - 1, 0)), pieces, axis=1)
    fresh = held != before
    if max(pieces.shape) <= MOST_WRITTEN:
        return _written(schedule, pieces, held, wanted, fresh)
    return _drawn(held, wanted, fresh)


def _columns(schedule: Schedule) -> I64:
    """Return the pieces that stand in each rank's row, (ranks, columns).

    In an all-to-all each rank wants pieces of its own: only these are shown.
    """
    n, count = schedule.wanted.shape
    if schedule.op in (Collective.ALL_TO_ALL, Collective.SEND_RECV):
        wanted = [np.flatnonzero(row) for row in schedule.wanted > 0]
        return np.stack(wanted).astype(np.int64)
    return np.broadcast_to(np.arange(count), (n, count)).astype(np.int64)


def _count(bits: int) -> int:
    return bits.bit_count()


def _members(bits: int) -> list[int]:
    return [r for r in range(64) if bits >> r & 1]


def _written(schedule: Schedule, pieces: I64, held: U64, wanted: U64,
             fresh: Bool) -> str:  # fmt: skip
    own = schedule.op in (Collective.ALL_TO_ALL, Collective.SEND_RECV)
    names = (
        [f"from {_members(int(bits))[0]}" for bits in wanted[0]]
        if own and schedule.op is Collective.ALL_TO_ALL
        else ["its piece"]
        if own
        else [schedule.chunk_names[c] for c in pieces[0]]
    )
    head = '<th scope="col">GPU</th>' + "".join(f'<th scope="col">{_short(n)}</th>' for n in names)
    rows = []
    for rank in range(schedule.ranks):
        cells = "".join(
            _cell(int(h), int(w), schedule.ranks, bool(f))
            for h, w, f in zip(held[rank], wanted[rank], fresh[rank], strict=True)
        )
        rows.append(f'<tr><th scope="row">{rank}</th>{cells}</tr>')
    caption = "" if own else '<caption class="rw-quiet">pieces</caption>'
    return (
        f'<table class="rw-holds">{caption}<thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _short(name: str) -> str:
    """Return a piece's name for a narrow column: its number is seen, all of it is said."""
    number = name.removeprefix("piece ")
    hidden = '<span class="sr-only">piece </span>' if number != name else ""
    return hidden + escape(number)


def _cell(held: int, wanted: int, ranks: int, fresh: bool) -> str:
    """Return one piece of one rank: whose contributions are in it, as text and as a bar."""
    of = _count(wanted) or ranks
    done = wanted > 0 and held & wanted == wanted
    members = _members(held)
    if not members:
        text = "–"
    elif len(members) == ranks and ranks > 1:
        text = "all"
    else:
        text = "+".join(map(str, members)) if len(members) <= 4 else f"{len(members)} of {of}"
    share = 100 if done else min(100, 100 * len(members) // max(of, 1))
    kind = ("done " if done else "") + ("fresh" if fresh else "")
    mark = '<b aria-hidden="true">✓</b>' if done else ""
    said = '<span class="sr-only"> complete</span>' if done else ""
    return (
        f'<td class="{kind.strip()}" style="--share:{share}%"><span>{text}</span>{mark}{said}</td>'
    )


_SIDE: Final = 8
_WIDE: Final = 400
_MOST_NAMED: Final = 24


def _drawn(held: U64, wanted: U64, fresh: Bool) -> str:
    """Return small cells, GPUs downwards and pieces to the right, and how many are complete."""
    rows, columns = held.shape
    if rows * columns > MOST_CELLS:
        return f"<p>{rows} × {columns} pieces are too many to draw.</p>" + _summary(held, wanted)
    size = count_ranks(held)
    whole = np.where(wanted > 0, count_ranks(wanted), size.max(initial=1))
    done = (wanted > 0) & ((held & wanted) == wanted)
    paths: dict[str, list[str]] = {"some": [], "half": [], "done": [], "fresh": []}
    for r in range(rows):
        for c in range(columns):
            share = size[r, c] / max(int(whole[r, c]), 1)
            if done[r, c]:
                kind = "done"
            elif size[r, c]:
                kind = "half" if share >= 0.5 else "some"
            else:
                kind = ""
            x, y = c * _SIDE, r * _SIDE
            if kind:  # more is a larger square, so that colour is not needed
                side = {"some": 3, "half": 5, "done": 7}[kind]
                inset = (_SIDE - side) / 2
                paths[kind].append(f"M{x + inset:g} {y + inset:g}h{side}v{side}h-{side}z")
            if fresh[r, c]:
                paths["fresh"].append(f"M{x} {y}h{_SIDE}v{_SIDE}h-{_SIDE}z")
    drawn = "".join(f'<path class="{k}" d="{"".join(p)}"/>' for k, p in paths.items() if p)
    named = rows <= _MOST_NAMED
    left = 2 * _SIDE if named else 0
    labels = "".join(
        f'<text x="{-_SIDE / 2:g}" y="{(r + 0.8) * _SIDE:g}">{r}</text>' for r in range(rows)
    )
    width, height = columns * _SIDE + left, rows * _SIDE
    scale = min(max(_WIDE / width, 1.0), 2.5)
    return (
        f'<svg class="rw-cells" viewBox="{-left} 0 {width} {height}" width="{width * scale:.0f}" '
        f'role="img" aria-label="Pieces by GPU">{drawn}{labels if named else ""}</svg>'
        "<p class='rw-quiet'>GPUs downwards, pieces to the right; a larger square holds more "
        "contributions, the largest all; outlined: new in this round.</p>" + _summary(held, wanted)
    )


def _summary(held: U64, wanted: U64) -> str:
    """Say for every GPU how many of the pieces that it is to have are complete."""
    done = ((wanted > 0) & ((held & wanted) == wanted)).sum(axis=1)
    of = (wanted > 0).sum(axis=1)
    items = "".join(
        f"<li>GPU {r}: {int(d)} of {int(o)} complete</li>"
        for r, (d, o) in enumerate(zip(done, of, strict=True))
    )
    return (
        f"<p>{int(done.sum()):,} of {int(of.sum()):,} pieces complete.</p>"
        f'<ul class="sr-only">{items}</ul>'
    )


# ---------------------------------------------------------------- trace


def trace_rows(run: Run) -> tuple[TraceRow, ...]:
    """Return what every GPU sends, when, as the engine timed it."""
    rows = []
    for m in sorted(run.messages, key=lambda m: (m.start_s, m.round, m.src, m.dst)):
        what = ", ".join(str(chunk) for chunk in m.chunks[:4])
        pieces = f" piece {what}" if m.chunks else ""
        does = {"reduce": ", which adds it", "copy": ", which copies it"}.get(m.action, "")
        rows.append(
            TraceRow(
                m.start_s,
                f"GPU {m.src}",
                f"round {m.round + 1}: sends{pieces} ({bytes_text(m.size_bytes)}) to "
                f"GPU {m.dst}{does}; there at {format_seconds(m.end_s)}",
            )
        )
    return tuple(rows)
