"""PFC headroom by SONiC's published rule, with every term of it.

After a switch port decides to pause its peer, bytes go on arriving: those on the cable in both
directions, those of the peer while it reacts, a frame begun before the pause could leave, and what
is in MAC and PHY. The headroom is the room for them, in the worst packet size for the buffer's
cells::

    cable         = 2 · length · speed / 1.98e8 m/s / 8
    peer response = pause quanta of the speed · 64 B, or 3.8 KiB (Spectrum-1 to -3)
    propagation   = MTU + cable + 0.8 KiB + peer response (+ speed · 120 ns, Spectrum-4 and -5)
    cell factor   = 2 · cell / (1 + cell) for cells up to 128 B, else cell / 64
    xoff          = 1,024 B + propagation · cell factor, rounded up to 1,024 B

Arithmetic is exact (rational numbers), so that rounding is the rule's. With an MTU of 9,216 B it
gives each of the 78 values in SONiC's tables for SN2700, SN3700, SN4700 and SN5600.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any, Final

from railweave.errors import InputError
from railweave.formats.validation import list_names
from railweave.provenance import Certainty, Source
from railweave.qos._asics import KIB, PAUSE_QUANTA, Asic, asic_named
from railweave.units import format_bits_rate

__all__ = ["DEFAULT_MTU_BYTES", "Headroom", "headroom", "peer_response_bytes"]

#: MTU of a switch port in SONiC; 9,216 B is the largest in common use
DEFAULT_MTU_BYTES: Final = 9100
LIGHT_IN_CABLE_M_PER_S: Final = 198_000_000
QUANTUM_BYTES: Final = 64
SMALLEST_FRAME_BYTES: Final = 64
LOSSLESS_PACKET_BYTES: Final = 1024
MAC_PHY_BYTES: Final = Fraction(8, 10) * KIB
MOST_CABLE_M: Final = 100_000


@dataclass(frozen=True, slots=True)
class Headroom:
    """The headroom of one lossless priority group at one port, and how it comes about.

    Sizes are bytes. ``xoff_bytes`` is the headroom proper: what the group may still take in after
    it has asked for a pause. ``xon_bytes`` is reserved beside it, ``size_bytes`` both together
    (with one MTU more at eight lanes). A paused group resumes ``xon_offset_bytes`` below the
    threshold at which it paused.
    """

    asic: str
    speed_bps: float
    cable_m: float
    mtu_bytes: int
    cell_bytes: int
    cable_bytes: float
    mac_phy_bytes: float
    peer_response_bytes: float
    pipeline_bytes: float
    propagation_bytes: float
    cell_factor: float
    xoff_bytes: int
    xon_bytes: int
    xon_offset_bytes: int
    size_bytes: int
    source: Source
    notes: tuple[str, ...] = ()

    @property
    def certainty(self) -> Certainty:
        """How far the figure can be trusted."""
        return self.source.certainty

    def terms(self) -> tuple[tuple[str, float, str], ...]:
        """Return name, bytes and formula of each term, in the order they are added up."""
        speed, added = format_bits_rate(self.speed_bps), "MTU + cable + MAC and PHY + response"
        pipeline = " + pipeline" if self.pipeline_bytes else ""
        return (
            ("MTU", self.mtu_bytes, "a frame begun before the pause could leave"),
            ("cable", self.cable_bytes, f"2 × {self.cable_m:g} m × {speed} / 1.98e8 m/s / 8"),
            ("MAC and PHY", self.mac_phy_bytes, "0.8 KiB"),
            ("peer response", self.peer_response_bytes, "what the peer sends until it stops"),
            ("pipeline", self.pipeline_bytes, "before the buffer admits a packet"),
            ("propagation", self.propagation_bytes, added + pipeline),
            (
                "xoff",
                self.xoff_bytes,
                f"1,024 B + propagation × {self.cell_factor:.4g}, up to 1,024 B",
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        found = asdict(self)
        found["source"] = self.source.title
        found["certainty"] = self.certainty.value
        found["notes"] = list(self.notes)
        return found


def headroom(
    speed_bps: float,
    cable_m: float,
    asic: Asic | str,
    mtu_bytes: int = DEFAULT_MTU_BYTES,
    *,
    any_speed: bool = False,
) -> Headroom:
    """Return the headroom of one lossless priority group at a port.

    Args:
        speed_bps: speed of the port.
        cable_m: length of its cable.
        asic: the switch's family, or its name.
        mtu_bytes: largest frame on the link.
        any_speed: at a speed without pause quanta of its own, take the response of the next
            faster one (beyond the fastest, in proportion) and mark the result as estimated;
            otherwise such a speed is an error.

    Raises:
        InputError: no rule for the ASIC, a speed without pause quanta, a length or an MTU that
            cannot be.
    """
    family = asic_named(asic) if isinstance(asic, str) else asic
    if not 0 <= cable_m <= MOST_CABLE_M:
        raise InputError(f"a cable of {cable_m:g} m cannot be; allowed: 0 m to {MOST_CABLE_M:,} m")
    if not SMALLEST_FRAME_BYTES <= mtu_bytes <= 65_535:
        raise InputError(
            f"an MTU of {mtu_bytes} B cannot be; allowed: {SMALLEST_FRAME_BYTES} B to 65,535 B,"
            " such as 9100 B"
        )
    speed, length = Fraction(str(speed_bps)), Fraction(str(cable_m))
    response, notes, source = _response(family, speed, any_speed)
    cable = 2 * length * speed / LIGHT_IN_CABLE_M_PER_S / 8
    pipeline = speed * family.tile_s / 8
    propagation = mtu_bytes + cable + MAC_PHY_BYTES + response + pipeline
    factor = _cell_factor(family)
    xoff = _up(LOSSLESS_PACKET_BYTES + propagation * factor)
    wide = dict(family.wide).get(int(speed))
    xon = family.xon_bytes if wide is None else wide
    offset = family.xon_offset_cells * family.cell_bytes or 2 * mtu_bytes
    return Headroom(
        asic=family.name,
        speed_bps=speed_bps,
        cable_m=cable_m,
        mtu_bytes=mtu_bytes,
        cell_bytes=family.cell_bytes,
        cable_bytes=float(cable),
        mac_phy_bytes=float(MAC_PHY_BYTES),
        peer_response_bytes=float(response),
        pipeline_bytes=float(pipeline),
        propagation_bytes=float(propagation),
        cell_factor=float(factor),
        xoff_bytes=xoff,
        xon_bytes=xon,
        xon_offset_bytes=offset,
        size_bytes=_up(Fraction(xoff + xon + (mtu_bytes if wide is not None else 0))),
        source=source,
        notes=notes,
    )


def peer_response_bytes(asic: Asic, speed_bps: float) -> float:
    """Return what a device of this family still sends after a pause has reached it.

    At a speed without pause quanta, that of the next faster one.
    """
    return float(_response(asic, Fraction(str(speed_bps)), any_speed=True)[0])


def _response(
    asic: Asic, speed: Fraction, any_speed: bool
) -> tuple[Fraction, tuple[str, ...], Source]:
    """Return the peer's response in bytes, with what is to be said of it and its source."""
    notes = (asic.note,) if asic.note else ()
    quanta: Fraction | int | None = PAUSE_QUANTA.get(int(speed)) if speed == int(speed) else None
    source = asic.source
    if quanta is None:
        if not any_speed or speed <= 0:
            raise InputError(
                f"no pause quanta are published for {format_bits_rate(float(speed))}; allowed: "
                + list_names(format_bits_rate(known) for known in PAUSE_QUANTA)
            )
        faster = next((known for known in PAUSE_QUANTA if known > speed), None)
        fastest = max(PAUSE_QUANTA)
        quanta = PAUSE_QUANTA[faster] if faster else PAUSE_QUANTA[fastest] * speed / fastest
        taken = format_bits_rate(faster or fastest)
        notes = (
            *notes,
            f"no pause quanta for {format_bits_rate(float(speed))}: those of {taken}"
            + ("" if faster else ", in proportion"),
        )
        worst = max(source.certainty, Certainty.ESTIMATED, key=_DOUBT.__getitem__)
        source = replace(source, certainty=worst)
    fixed = asic.fixed_response_bytes
    return (Fraction(quanta) * QUANTUM_BYTES if fixed is None else fixed), notes, source


_DOUBT: Final = {Certainty.CONFIRMED: 0, Certainty.ESTIMATED: 1, Certainty.ASSUMED: 2}


def _cell_factor(asic: Asic) -> Fraction:
    """Return how many bytes of cells a byte of the worst packets takes."""
    cell = asic.cell_bytes
    if cell <= 2 * SMALLEST_FRAME_BYTES:
        return Fraction(2 * cell, 1 + cell)
    factor = Fraction(cell, SMALLEST_FRAME_BYTES)
    return Fraction(ceil(factor)) if asic.tile_s else factor


def _up(size: Fraction) -> int:
    """Round up to the unit in which buffers are set aside."""
    return ceil(size / KIB) * KIB
