"""Lab 6's inputs: to a case, to a command, to an address and back."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final
from urllib.parse import parse_qsl

from railweave.engine.congest import CongestCase, simulate_congest
from railweave.engine.congest_summary import CongestSummary, summarise
from railweave.engine.congest_thresholds import fitting_pfc_bytes, marking, threshold_bytes
from railweave.errors import UnitError
from railweave.qos import PROFILE_NAMES
from railweave.studio.state import from_query, to_query
from railweave.units import parse_bps, parse_bytes, parse_metres, parse_quantity, parse_seconds

__all__ = [
    "CongestionState",
    "baseline_query",
    "case_of",
    "command_of",
    "is_lowered",
    "is_short",
    "python_of",
    "read_baseline",
    "readable",
    "run_case",
    "without_baseline",
]

#: packets through the egress up to which a run is short enough to wait for (about 0.3 s)
_SHORT_PACKETS: Final = 600_000


@dataclass(frozen=True, slots=True)
class CongestionState:
    """The lab's inputs; thresholds in percent of the buffer, ``pmax`` in percent.

    ``baseline`` holds the inputs that are compared with, as a query of their own; "" is none.
    """

    senders: int = 1
    sender_speed: str = "120 Gb/s"
    egress_speed: str = "100 Gb/s"
    buffer: str = "16 MB"
    ecn: bool = True
    kmin: int = 40
    ramp: bool = False
    kmax: int = 80
    pmax: int = 20
    pfc: bool = True
    xoff: int = 80
    profile: str = "dcqcn-firmware"
    duration: str = "20 ms"
    cable: str = "5 m"
    baseline: str = ""


_QUANTITIES: Final = (
    ("sender_speed", "rate"),
    ("egress_speed", "rate"),
    ("buffer", "size"),
    ("duration", "time"),
    ("cable", "length"),
)


def readable(state: CongestionState) -> tuple[CongestionState, tuple[str, ...]]:
    """Return the inputs with defaults for what cannot be read, and a sentence for each of those."""
    default, problems = CongestionState(), []
    wrong: dict[str, str] = {}
    for name, dimension in _QUANTITIES:
        try:
            parse_quantity(getattr(state, name), dimension)
        except UnitError as error:
            problems.append(f"{name}: {error}; the default is used.")
            wrong[name] = getattr(default, name)
    if state.profile not in PROFILE_NAMES:
        problems.append(f"profile: {state.profile[:40]!r} is not known; the default is used.")
        wrong["profile"] = default.profile
    return replace(state, **wrong), tuple(problems)  # type: ignore[arg-type]


def without_baseline(state: CongestionState) -> CongestionState:
    """Return the inputs alone."""
    return replace(state, baseline="")


def read_baseline(state: CongestionState) -> CongestionState | None:
    """Return the inputs that are compared with, or None."""
    query = state.baseline
    if not query:
        return None
    pairs = dict(parse_qsl(query.removeprefix("defaults"), keep_blank_values=True))
    read, _ = from_query(CongestionState, pairs)
    return without_baseline(readable(read)[0])


def baseline_query(state: CongestionState) -> str:
    """Return inputs as the value of ``baseline``: their query, or a word for the defaults."""
    return to_query(without_baseline(state)) or "defaults"


def _marks(state: CongestionState) -> str:
    """Return the ECN thresholds as the command takes them."""
    if not state.ecn:
        return "off"
    return f"{state.kmin}%..{state.kmax}%" if state.ramp else f"{state.kmin}%"


def case_of(state: CongestionState) -> CongestCase:
    """Return the case that the inputs describe; PFC's threshold is lowered to what fits.

    Raises:
        RailweaveError: an input that cannot be; says what is allowed.
    """
    buffer = int(parse_bytes(state.buffer))
    base = CongestCase(
        senders=state.senders,
        sender_bps=parse_bps(state.sender_speed),
        egress_bps=parse_bps(state.egress_speed),
        buffer_bytes=buffer,
        ecn=None,
        pfc_bytes=None,
        profile=state.profile,
        duration_s=parse_seconds(state.duration),
        cable_m=parse_metres(state.cable),
    )
    pmax = state.pmax / 100 if state.ramp else 1.0
    pfc = None
    if state.pfc:
        pfc = fitting_pfc_bytes(base, threshold_bytes("PFC", f"{state.xoff}%", buffer))
    return replace(base, ecn=marking("ECN", _marks(state), pmax, buffer), pfc_bytes=pfc)


def is_lowered(state: CongestionState, case: CongestCase) -> bool:
    """Return whether PFC's threshold is not as asked for, since headroom needs the room."""
    asked = threshold_bytes("PFC", f"{state.xoff}%", case.buffer_bytes)
    return case.pfc_bytes is not None and case.pfc_bytes < asked


def is_short(case: CongestCase) -> bool:
    """Return whether a run takes less than about a third of a second."""
    through = min(case.senders * case.sender_bps, case.egress_bps)
    return through / 8 * case.ideal_s / case.mtu_bytes <= _SHORT_PACKETS


def run_case(case: CongestCase) -> CongestSummary:
    """Simulate a case and return what is kept of it."""
    return summarise(simulate_congest(case))


# ---------------------------------------------------------------- reproduce


def command_of(state: CongestionState) -> str:
    """Return the command that prints the same numbers."""
    case = case_of(state)
    default = CongestionState()
    words = ["railweave congest"]

    def option(name: str, field: str, text: str) -> None:
        if getattr(state, field) != getattr(default, field):
            words.append(f"--{name} {text}")

    option("senders", "senders", str(state.senders))
    option("sender-speed", "sender_speed", f'"{state.sender_speed}"')
    option("egress-speed", "egress_speed", f'"{state.egress_speed}"')
    option("buffer", "buffer", f'"{state.buffer}"')
    if _marks(state) != _marks(default):
        words.append(f"--ecn {_marks(state)}")
    if state.ecn and state.ramp:
        words.append(f"--pmax {state.pmax / 100:g}")
    if not state.pfc:
        words.append("--pfc off")
    elif state.xoff != default.xoff:
        words.append(
            f'--pfc "{case.pfc_bytes} B"' if is_lowered(state, case) else f"--pfc {state.xoff}%"
        )
    option("profile", "profile", state.profile)
    option("duration", "duration", f'"{state.duration}"')
    option("cable", "cable", f'"{state.cable}"')
    return " ".join(words)


def python_of(case: CongestCase) -> str:
    """Return the Python that prints the same numbers."""
    plain = CongestCase()
    changed = [
        (field.name, getattr(case, field.name))
        for field in fields(case)
        if getattr(case, field.name) != getattr(plain, field.name)
    ]
    given = "".join(f"\n    {name}={value!r}," for name, value in changed)
    lines = ["from railweave.engine.congest import CongestCase, simulate_congest"]
    if case.ecn is not None and case.ecn != plain.ecn:
        lines.append("from railweave.qos import EcnThresholds")
    call = f"CongestCase({given}\n)" if given else "CongestCase()"
    return "\n".join([*lines, "", f"outcome = simulate_congest({call})", "print(outcome.metrics)"])
