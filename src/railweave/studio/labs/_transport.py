"""Lab 3's inputs: to a cluster and a case, to requirements, to a command, and the measuring."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from railweave.design.models import Topology
from railweave.errors import InputError
from railweave.transport.compare import (
    CompareCase,
    Requirements,
    case_of,
    measure,
    parse_mix,
    synthetic_design,
    technology_facts,
)
from railweave.units import parse_bps, parse_watts

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.runs.jobs import JobContext

__all__ = [
    "DESIGN",
    "Given",
    "TransportState",
    "command_of",
    "default_weights",
    "measure_key",
    "measure_work",
    "python_of",
    "requirements_of",
    "weights_of_state",
    "with_weight",
]

DESIGN: Final = "design"
MADE_UP: Final = "made-up"
TOPOLOGIES: Final = ("rail-optimized", "leaf-spine", "fat-tree")
_SERVER: Final = "hgx-h100-8gpu"
#: values that a command leaves out
_DEFAULTS: Final = {
    "team": "ethernet",
    "vendors": "any",
    "tenancy": "any",
    "encryption": "any",
    "reach": "hall",
    "budget": "medium",
}


@dataclass(frozen=True, slots=True)
class TransportState:
    """The lab's inputs.

    ``where`` is the loaded design or a made-up cluster, whose GPUs, speed, oversubscription and
    topology follow. ``mix`` "": the design's collectives, or the workload's. ``weights`` are those
    that the reader has set, as ``name=number``; the others follow from the requirements.
    ``max_power`` of 0 W bounds nothing.
    """

    where: str = MADE_UP
    gpus: int = 64
    speed: str = "400 Gb/s"
    oversubscription: float = 1.0
    topology: str = "rail-optimized"
    quick: bool = True
    queue_pairs: int = 1
    mix: str = ""
    workload: str = "training"
    team: str = "ethernet"
    vendors: str = "any"
    automation: bool = False
    tenancy: str = "any"
    encryption: str = "any"
    reach: str = "hall"
    budget: str = "medium"
    max_power: str = "0 W"
    weights: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """A visitor's inputs and the design that they speak of; no text: a made-up cluster.

    ``file`` is the design that the studio was started with, whose text may name files beside it.
    """

    state: TransportState
    text: str = ""
    name: str = ""
    file: str = ""


# ---------------------------------------------------------------- weights


def weights_of_state(state: TransportState) -> dict[str, float]:
    """Return the weights that the reader has set.

    Raises:
        InputError: one that cannot be read.
    """
    found = {}
    for entry in state.weights:
        name, equals, value = entry.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError(f"weights: {entry!r} is not read; allowed: latency=8")
    return found


def with_weight(state: TransportState, name: str, weight: float) -> tuple[str, ...]:
    """Return the state's weights with one set; what follows from the rest anyway is left out."""
    found = {**weights_of_state(state), name: weight}
    if default_weights(state).get(name) == weight:
        del found[name]
    return tuple(f"{key}={found[key]:g}" for key in technology_facts().criteria if key in found)


def default_weights(state: TransportState) -> dict[str, float]:
    """Return the weights that follow from workload and requirements."""
    from railweave.transport.compare import weights_of

    asked = _requirements(state, {})
    return {term.criterion: term.weight for term in weights_of(asked)}


# ---------------------------------------------------------------- what is asked


def requirements_of(state: TransportState) -> Requirements:
    """Return the requirements.

    Raises:
        InputError: a value that is not known; says what is allowed.
    """
    return _requirements(state, weights_of_state(state))


def _requirements(state: TransportState, weights: Mapping[str, float]) -> Requirements:
    bound = parse_watts(state.max_power)
    given: dict[str, Any] = {
        name: getattr(state, name) for name in (*_DEFAULTS, "workload", "automation")
    }
    return Requirements(**given, max_power_w=bound or None, weights=weights)


def made_up_text(state: TransportState) -> str:
    """Return the text of the made-up cluster.

    Raises:
        InputError: GPUs, a speed or a topology that cannot be.
    """
    if state.topology not in TOPOLOGIES:
        raise InputError(f"topology: {state.topology[:40]!r}; allowed: {', '.join(TOPOLOGIES)}")
    parse_bps(state.speed)
    if not 0 < state.oversubscription <= 1000:
        raise InputError("oversubscription: allowed: above 0, at most 1000")
    return synthetic_design(
        state.gpus,
        speed=state.speed,
        oversubscription=state.oversubscription,
        topology=Topology(state.topology),
    )


def _case(built: BuiltDesign, state: TransportState) -> CompareCase:
    more: dict[str, Any] = {"quick": state.quick, "queue_pairs": state.queue_pairs}
    if state.mix:
        more["mix"] = parse_mix(state.mix)
    _requirements(state, {})  # refuses a workload that is not known
    return case_of(built, state.workload, **more)  # type: ignore[arg-type]


def _built(given: Given) -> BuiltDesign:
    import railweave
    from railweave.studio.designs import built_design, local_file

    if not given.text:
        return railweave.parse(made_up_text(given.state), "cluster", files=False).build()
    # A worker process has not opened the file that the studio was started with.
    file = given.file
    if file and local_file(given.text) is None:
        path = Path(file)
        if path.read_text(encoding="utf-8") == given.text:
            return railweave.load(path).build()
    return built_design(given.text)


def measure_key(given: Given) -> dict[str, Any]:
    """Return what the measurements depend on; weights and requirements are no part of it.

    Raises:
        InputError: a made-up cluster that cannot be.
    """
    state = given.state
    text = given.text or made_up_text(state)
    return {
        "design": hashlib.sha256(text.encode()).hexdigest(),
        "file": given.file,
        "workload": state.workload,
        "mix": state.mix,
        "quick": state.quick,
        "queue_pairs": state.queue_pairs,
    }


def measure_work(given: Given, context: JobContext) -> dict[str, Any]:
    """Measure the four technologies in a worker; the measurements' document."""
    built = _built(given)
    found = measure(built, _case(built, given.state), progress=context.progress)
    return found.document()


# ---------------------------------------------------------------- the same outside


def command_of(given: Given) -> str:
    """Return the command line that gives the same."""
    state = given.state
    words = ["railweave transport compare"]
    if given.text:
        words.append(f"--design {shlex.quote(given.name or 'design.yaml')}")
    else:
        words.append(f"--gpus {state.gpus} --speed {shlex.quote(state.speed)}")
        if state.oversubscription != 1:
            words.append(f"--oversubscription {state.oversubscription:g}")
        if state.topology != TOPOLOGIES[0]:
            words.append(f"--topology {state.topology}")
    words.append(f"--workload {state.workload}")
    if state.mix:
        words.append(f"--mix {shlex.quote(state.mix)}")
    if state.queue_pairs != 1:
        words.append(f"--queue-pairs {state.queue_pairs}")
    words += [
        f"--{name} {getattr(state, name)}"
        for name, default in _DEFAULTS.items()
        if getattr(state, name) != default
    ]
    if parse_watts(state.max_power):
        words.append(f"--max-power {shlex.quote(state.max_power)}")
    words += ["--automation"] * state.automation
    words += [f"--weight {shlex.quote(entry)}" for entry in state.weights]
    words += ["--quick"] * state.quick
    return " ".join(words)


def python_of(given: Given) -> str:
    """Return the Python that gives the same."""
    state = given.state
    if given.text:
        cluster = f"railweave.load({given.name or 'design.yaml'!r})"
    else:
        shape = f", topology=Topology({state.topology!r})"
        cluster = (
            f"railweave.parse(synthetic_design({state.gpus}, speed={state.speed!r}, "
            f"oversubscription={state.oversubscription!r}{shape}))"
        )
    mix = f", mix=parse_mix({state.mix!r})" if state.mix else ""
    asked = [f"workload={state.workload!r}"]
    asked += [f"{k}={getattr(state, k)!r}" for k, v in _DEFAULTS.items() if getattr(state, k) != v]
    if state.automation:
        asked.append("automation=True")
    if bound := parse_watts(state.max_power):
        asked.append(f"max_power_w={bound!r}")
    if weights := weights_of_state(state):
        asked.append(f"weights={weights!r}")
    topology = "" if given.text else "from railweave.design.models import Topology\n"
    return (
        "import railweave\n"
        f"{topology}"
        "from railweave.transport.compare import (\n"
        "    Requirements, case_of, judge, measure, parse_mix, synthetic_design,\n"
        ")\n\n"
        f"built = {cluster}.build()\n"
        f"case = case_of(built, {state.workload!r}, quick={state.quick}, "
        f"queue_pairs={state.queue_pairs}{mix})\n"
        f"found = judge(Requirements({', '.join(asked)}), measure(built, case))\n"
        "print(found.winner, found.totals)\n"
    )
