"""What the options of ``railweave packet decode`` do."""

from __future__ import annotations

from pathlib import Path

from _effects_base import Effect, Seen, becomes, exits, to_json

_MIXED = Path(__file__).parents[1] / "golden" / "mixed.pcap"
_MARKED = Path(__file__).parents[1] / "golden" / "marked.pcap"
_DECODE = f"packet decode {_MIXED}"
_LIST = f"{_DECODE} --packets"


def _one_packet(before: Seen, after: Seen) -> bool:
    return "Queue pairs" in before.out and "DestQP" in after.out and "Queue pairs" not in after.out


def _a_line_each(before: Seen, after: Seen) -> bool:
    return "Queue pairs" in before.out and after.out.count("\n") >= 20 and "PSN 100" in after.out


def packet_decode_effects() -> dict[str, Effect]:
    """Return the effects of ``packet decode``'s options."""
    return {
        "packet decode file": Effect(
            f"{_DECODE} --json", f"packet decode {_MARKED} --json", becomes("packets", 25, 4)
        ),
        "packet decode --packet": Effect(_DECODE, f"{_DECODE} --packet 1", _one_packet),
        "packet decode --packets": Effect(_DECODE, _LIST, _a_line_each),
        "packet decode --start": Effect(
            f"{_LIST} --json", f"{_LIST} --json --start 4", becomes("0.number", 1, 4)
        ),
        "packet decode --limit": Effect(
            f"{_DECODE} --json",
            f"{_DECODE} --json --limit 2",
            lambda before, after: (
                len(before.at("messages")) == 8 and len(after.at("messages")) == 2
            ),
        ),
        "packet decode --qp": Effect(
            f"{_LIST} --json", f"{_LIST} --json --qp 0x11", becomes("0.qp", 0x22, 0x11)
        ),
        "packet decode --strict": Effect(
            f"packet decode {_MARKED}", f"packet decode {_MARKED} --strict", exits(0, 1)
        ),
        "packet decode --json": Effect(_DECODE, f"{_DECODE} --json", to_json),
    }
