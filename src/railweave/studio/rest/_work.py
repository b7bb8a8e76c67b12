"""What workers do for the API, beside runs of designs (:mod:`railweave.studio.design_run`).

A design that comes in is text and opens no file. Each function returns its answer under
``document``, since stores keep mappings only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from railweave.errors import DesignError, InputError, SizingError

if TYPE_CHECKING:
    from railweave.api import LoadedDesign
    from railweave.runs.jobs import JobContext

__all__ = [
    "DESIGN_NAME",
    "Check",
    "Congest",
    "Sizes",
    "build",
    "check",
    "congest",
    "validate",
]

#: what the errors and findings of a text call it
DESIGN_NAME: Final = "design.yaml"
#: what is counted, and the field that says how much of it there is
_NAMES: Final = {
    "gpus": ("GPUs", ("cluster",)),
    "hosts": ("hosts", ("cluster",)),
    "links": ("network links", ("planes",)),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """The largest design that is taken."""

    gpus: int
    hosts: int
    links: int


@dataclass(frozen=True, slots=True)
class Check:
    """A design to check or to build."""

    text: str
    sizes: Sizes
    fail: tuple[str, ...] = ()
    monte_carlo: int = 0
    draws: int = 100


@dataclass(frozen=True, slots=True)
class Congest:
    """One congested switch, options as text."""

    senders: int
    sender_speed: str
    egress_speed: str
    buffer: str
    ecn: str | None
    pmax: float
    pfc: str | None
    profile: str | None
    compare: str | None
    size: str | None
    duration: str | None
    cable: str
    mtu: str
    seed: int


def _load(text: str, sizes: Sizes) -> LoadedDesign:
    """Read a design and refuse one that is too large, before anything of it is built.

    Raises:
        DesignError: the text has problems, names files, or is too large.
        SizingError: it cannot be built.
    """
    import railweave
    from railweave.fabric.planned import planned_hosts, planned_size

    loaded = railweave.parse(text, DESIGN_NAME, files=False)
    document = loaded.document
    try:
        for count in (planned_hosts, planned_size):
            found = count(loaded.design, document.catalog)
            for what, most in asdict(sizes).items():
                has = getattr(found, what)
                if has > most:
                    unit, where = _NAMES[what]
                    text = f"{has:,} {unit} are more than this server takes"
                    problem = document.document.problem(where, text, allowed=f"up to {most:,}")
                    raise DesignError([problem])
    except SizingError as error:
        line, column = document.position(error.problem.path)
        raise error.located(document.file, line, column) from None
    return loaded


def validate(asked: Check, context: JobContext) -> dict[str, Any]:
    """Read a design and nothing more; what is wrong with it is raised."""
    context.progress("read", 0.0)
    return {"document": _load(asked.text, asked.sizes).design.name}


def check(asked: Check, context: JobContext) -> dict[str, Any]:
    """Return the findings, as ``railweave check --json`` prints them."""
    from railweave.report.documents import check_json, finite

    context.progress("read", 0.0)
    loaded = _load(asked.text, asked.sizes)
    context.progress("build", 0.3)
    built = loaded.build().fail(asked.fail)
    context.progress("check", 0.5)
    return {"document": finite(check_json(built.check()))}


def build(asked: Check, context: JobContext) -> dict[str, Any]:
    """Return the fabric in numbers, as ``railweave build --json`` prints it."""
    from railweave.report.documents import build_json, finite

    context.progress("read", 0.0)
    loaded = _load(asked.text, asked.sizes)
    context.progress("build", 0.3)
    built = loaded.build()
    what_if = built.what_if(asked.fail) if asked.fail else None
    failed = built.fail(asked.fail)
    context.progress("count", 0.4)
    summary = failed.summary()
    draw = failed.monte_carlo(asked.monte_carlo, asked.draws) if asked.monte_carlo else None
    return {"document": finite(build_json(summary, what_if, draw))}


def congest(asked: Congest, context: JobContext) -> dict[str, Any]:
    """Return the time axis of one congested switch, as ``railweave congest --json`` prints it."""
    from railweave.engine.congest import simulate_congest
    from railweave.report.congest import congest_json
    from railweave.report.documents import finite

    cases = congest_cases(asked)
    outcomes = []
    for number, case in enumerate(cases):
        outcomes.append(
            simulate_congest(case, progress=_part(context, case.profile, number, len(cases)))
        )
        context.publish(finite(congest_json(outcomes)))
    return {"document": finite(congest_json(outcomes))}


def congest_cases(asked: Congest) -> list[Any]:
    """Read the options; quick, so that a wrong one is refused before anything is queued.

    Raises:
        InputError: an option that cannot be read or cannot be.
    """
    from railweave.report.congest_options import base_case, with_thresholds

    base = base_case(
        asked.senders,
        (asked.sender_speed, asked.egress_speed),
        asked.buffer,
        asked.size,
        asked.duration,
        asked.cable,
        asked.mtu,
        asked.seed,
        name=str,
    )
    read = with_thresholds(
        base,
        ecn=asked.ecn,
        pmax=asked.pmax,
        pfc=asked.pfc,
        profile=asked.profile,
        sweep=False,
        name=str,
    )
    profiles = read.profiles + ([] if asked.compare is None else [asked.compare])
    if len(set(profiles)) < len(profiles):
        raise InputError(f"compare {asked.compare}: that is the profile itself; name another one")
    return [
        replace(base, ecn=read.ecn[0], pfc_bytes=read.pfc[0], profile=name) for name in profiles
    ]


def _part(context: JobContext, step: str, number: int, count: int) -> Callable[[float], None]:
    return lambda part: context.progress(step, (number + part) / count)
