"""Lab 4's answer: one run as numbers, sentences, times on the way, what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass

from railweave.report.page_table import DASH, PageTable
from railweave.studio.lab import Number, Reproduce
from railweave.studio.labs._rdma import State, played
from railweave.studio.labs._rdma_words import numbers_of, reproduce, sentences
from railweave.units import format_bits_rate, format_seconds

__all__ = ["View", "hops_of", "study"]


@dataclass(frozen=True)
class View:
    """What the lab shows beside its drawing, its packets and its trace.

    On a design ``ports`` are where packets can be seen, ``at`` the one where they are; ``ends``
    are the names as the design spells them.
    """

    numbers: tuple[Number, ...]
    sentences: tuple[str, ...]
    reproduce: Reproduce
    limits: tuple[str, ...]
    ports: tuple[str, ...]
    at: str
    ends: tuple[str, str]


def study(state: State, text: str, name: str) -> View:
    """Run an operation and return what is to be shown.

    Args:
        state: of :func:`railweave.studio.labs._rdma.bare`.
        text: the design; "" for a wire.
        name: what its file is called.

    Raises:
        InputError: what cannot be run; says what is allowed.
    """
    run = played(state, text)
    journey = run.journey
    ports: tuple[str, ...] = ()
    at = ""
    limits: tuple[str, ...] = ()
    if journey is not None:
        from railweave.transport.journey._frames import viewpoint

        ports = tuple(point.name for point in journey.viewpoints())
        at = viewpoint(journey, state.at).name
        limits = tuple(f"{note[:1].upper()}{note[1:]}." for note in journey.notes)
    return View(
        numbers=numbers_of(run),
        sentences=sentences(run),
        reproduce=reproduce(state, text, name),
        limits=limits,
        ports=ports,
        at=at,
        ends=run.names,
    )


def hops_of(state: State, text: str, packet: int) -> PageTable | None:
    """Return the hops of a packet with the parts of their times; None where there is no way.

    Args:
        state: of :func:`railweave.studio.labs._rdma.bare`.
        text: the design; "" for a wire.
        packet: its number.

    Raises:
        InputError: no such packet.
    """
    run = played(state, text)
    journey = run.journey
    if journey is None:
        return None

    def spent(seconds: float) -> str:
        return format_seconds(seconds) if seconds else DASH

    times = journey.hop_times(packet)
    rows = [
        (
            one.hop.source,
            one.hop.target,
            one.hop.medium,
            format_bits_rate(one.hop.rate_bps),
            spent(one.queueing_s + one.behind_own_s),
            spent(one.serialisation_s),
            spent(one.propagation_s),
            spent(one.device_s),
            format_seconds(one.total_s),
        )
        for one in times
    ]
    header = ("from", "to", "over", "rate", "waits", "serialisation", "wire", "device", "in all")
    way = journey.ways[run.run.sent[packet].source]
    notes = [way.hash_text] if way.hash_text else []
    total = format_seconds(sum(one.total_s for one in times))
    notes.append(f"In all {total} on the way; {way.stages()}.")
    return PageTable(
        "rdma-hops",
        f"The way of packet {packet}, hop by hop",
        header,
        tuple(rows),
        tuple(notes),
        text_columns=("from", "to", "over"),
    )
