"""What the headroom rule needs to know of a switch ASIC, family by family.

Cell sizes, the fixed response and the pipeline figures of the Spectrum families are SONiC's ASIC
table; cell sizes of the Tomahawks stand in SONiC's QoS test parameters. Families whose vendor
publishes no rule take the same rule with their own cell size and the pause quanta of IEEE 802.3,
and say that this is an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from railweave.errors import InputError
from railweave.formats.validation import list_names, nearest
from railweave.provenance import Certainty, Source

if TYPE_CHECKING:
    from railweave.catalog import Switch

__all__ = ["ASICS", "GENERIC", "KIB", "PAUSE_QUANTA", "Asic", "asic_named", "asic_of"]

KIB: Final = 1024
#: pause quanta (of 512 bits) within which a port must stop, by speed in b/s (IEEE 802.3, 31B.3.7)
PAUSE_QUANTA: Final[dict[int, int]] = {
    10_000_000_000: 67,
    25_000_000_000: 80,
    40_000_000_000: 118,
    50_000_000_000: 147,
    100_000_000_000: 394,
    200_000_000_000: 453,
    400_000_000_000: 905,
    800_000_000_000: 905,
}
_SONIC: Final = Source("SONiC buffer calculation, ASIC table and published profiles")
_TH5_PROFILE: Final = (
    "the rule is not this vendor's: SONiC's profile of a Tomahawk 5 device holds 724,662 B at"
    " 800 Gb/s and 5 m, 2.5 times what the rule gives; take the vendor's figure where there is one"
)


@dataclass(frozen=True, slots=True)
class Asic:
    """One ASIC family.

    ``fixed_response_bytes`` is what a peer still sends after a pause has reached it, where the
    rule fixes it; None takes the pause quanta of the speed. ``tile_s`` is the part of the pipeline
    that a packet passes before the buffer admits it. ``xon_bytes`` is reserved for a priority
    group beside its headroom; ``wide`` maps the speeds that take eight lanes to their own figure,
    and there the rule adds one MTU. ``xon_offset_cells`` is how far below the pause threshold a
    group must fall to resume; 0 where none is published: two MTU then. ``queue_reserved_bytes``
    and ``queue_alpha`` are those of a lossy egress queue.
    """

    name: str
    cell_bytes: int
    fixed_response_bytes: Fraction | None = None
    tile_s: Fraction = Fraction(0)
    xon_bytes: int = 19 * KIB
    wide: tuple[tuple[int, int], ...] = ()
    reserved_cells: int = 0
    xon_offset_cells: int = 0
    queue_reserved_bytes: int = 4096
    queue_alpha: float = 8.0
    cut_through: bool = False
    source: Source = _SONIC
    note: str = ""

    @property
    def group_reserved_bytes(self) -> int:
        """Room that a lossless priority group has to itself, beside its headroom."""
        return self.xon_bytes or self.reserved_cells * self.cell_bytes


_FIXED: Final = Fraction(38, 10) * KIB
_TILE: Final = Fraction(120, 10**9)
_ESTIMATED: Final = Source(
    "the rule of the Spectrum families with this cell size", Certainty.ESTIMATED
)
_ASSUMED: Final = Source("the rule of the Spectrum families, cell size taken", Certainty.ASSUMED)


def _spectrum(number: int, cell: int, wide: tuple[tuple[int, int], ...] = ()) -> Asic:
    if number <= 3:
        return Asic(f"Spectrum-{number}", cell, _FIXED, wide=wide, cut_through=True)
    return Asic(f"Spectrum-{number}", cell, tile_s=_TILE, wide=wide, cut_through=True)


def _tomahawk(number: int, cell: int, source: Source = _ESTIMATED) -> Asic:
    return Asic(
        f"Tomahawk {number}",
        cell,
        xon_bytes=0,
        reserved_cells=34,
        xon_offset_cells=14,
        queue_reserved_bytes=7 * cell,
        queue_alpha=1.0,
        source=source,
        note=_TH5_PROFILE,
    )


#: taken where nothing is known of an ASIC, as of a switch that a design describes itself
GENERIC: Final = Asic(
    "generic", 256, source=_ASSUMED, note="cells of 256 B and SONiC's rule are assumed"
)
ASICS: Final[dict[str, Asic]] = {
    asic.name: asic
    for asic in (
        _spectrum(1, 96),
        _spectrum(2, 144),
        _spectrum(3, 144, ((400_000_000_000, 37 * KIB),)),
        _spectrum(4, 192, ((800_000_000_000, 38 * KIB),)),
        _spectrum(5, 192, ((800_000_000_000, 38 * KIB),)),
        Asic(
            "Spectrum-6",
            256,
            xon_bytes=42 * KIB,
            cut_through=True,
            source=_ESTIMATED,
            note="cell size and pipeline are SONiC's; no profile of it is published",
        ),
        _tomahawk(3, 254),
        _tomahawk(4, 254),
        _tomahawk(5, 254),
        _tomahawk(6, 420),
        GENERIC,
    )
}


def asic_named(name: str) -> Asic:
    """Return a family by its name, such as ``Spectrum-4``; case does not matter.

    Raises:
        InputError: no rule for such an ASIC.
    """
    known = {asic.lower(): asic for asic in ASICS}
    found = known.get(name.strip().lower())
    if found is None:
        near = nearest(name.lower(), known)
        raise InputError(
            f"no headroom rule for the ASIC {name!r}; allowed: {list_names(ASICS)}"
            + (f"; did you mean {known[near]!r}?" if near in known else "")
        )
    return ASICS[found]


def asic_of(switch: Switch) -> Asic:
    """Return the family of a catalog switch; a switch without one gets the generic rule.

    The switch's own cell size, where the catalog has it, replaces the family's.
    """
    from dataclasses import replace

    family = ASICS.get(switch.asic)
    if family is None:
        note = f"no rule is known for {switch.asic}: {GENERIC.note}"
        family = replace(GENERIC, name=switch.asic, note=note)
    if switch.cell_bytes and switch.cell_bytes != family.cell_bytes:
        family = replace(family, cell_bytes=switch.cell_bytes)
    return family
