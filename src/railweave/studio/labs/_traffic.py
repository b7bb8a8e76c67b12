"""Lab 2 without its page: from the inputs to everything that is shown, by the public API."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from railweave.design.models import ALGORITHMS, Algorithm, Collective, PlacementName, Recompute
from railweave.errors import InputError
from railweave.report.patterns import PatternStudy, compare_strategies, study_pattern
from railweave.report.patterns_compare import (
    Variation,
    pattern_variations,
    turning_payloads,
    what_reorders,
)
from railweave.report.patterns_figures import (
    draw_chord,
    draw_comparison,
    draw_matrix,
    draw_shares,
)
from railweave.studio.designs import built_design, routing_of
from railweave.studio.lab import Number, Reproduce, TraceRow
from railweave.studio.labs._traffic_scene import pattern_scene
from railweave.studio.labs._traffic_words import (
    explanation_rows,
    limits,
    numbers,
    part_rows,
    peer_rows,
    picked_text,
    reproduce,
)
from railweave.studio.scene import Scene
from railweave.units import parse_bps, parse_bytes, parse_seconds
from railweave.workload.patterns import PatternCase, Strategy

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from railweave.api import BuiltDesign
    from railweave.fabric.routing import RoutingSet

__all__ = [
    "BIG_GPUS",
    "Comparison",
    "Figures",
    "Shown",
    "State",
    "View",
    "WhatIf",
    "Where",
    "algorithms_of",
    "case_of",
    "compare",
    "figures",
    "pick",
    "study",
    "what_if",
    "with_model",
    "with_strategy",
]

#: GPUs up to which all is shown at once; beyond, it is said that it takes time
BIG_GPUS: Final = 64


class Where(StrEnum):
    """The network that a pattern runs on."""

    PLAIN = "plain"
    DESIGN = "design"


class Shown(StrEnum):
    """The groups of a model that matrix, chords and shares are drawn of."""

    ALL = "all"
    TENSOR = "tensor"
    CONTEXT = "context"
    DATA = "data"
    PIPELINE = "pipeline"
    EXPERT = "expert"
    EXPERT_DATA = "expert-data"


@dataclass(frozen=True, slots=True)
class State:
    """The lab's inputs; quantities are text with units, ``skew`` is in per cent.

    ``servers`` 0: as many as the GPUs fill. ``scale_up_latency`` "": as ``latency``. ``picked`` is
    the rank that stands out in all views, −1 for none.

    Where ``whole``, a model is studied in place of a strategy: ``model`` to ``sequence_parallel``
    say which and how it is trained (``sequence`` 0: as long as the model's), and ``shown`` which of
    its groups are drawn.
    """

    strategy: Strategy = Strategy.DATA
    gpus: int = 4
    payload: str = "256 MB"
    speed: str = "100 Gb/s"
    exchanges: int = 1
    latency: str = "0 s"
    per_server: int = 1
    per_leaf: int = 16
    servers: int = 0
    scale_up: str = "3.6 Tb/s"
    scale_up_latency: str = ""
    placement: PlacementName = PlacementName.PACKED
    skew: int = 0
    algorithm: Algorithm | None = None
    where: Where = Where.PLAIN
    picked: int = -1
    whole: bool = False
    model: str = "llama3-8b"
    tensor: int = 4
    context: int = 1
    pipeline: int = 2
    expert: int = 1
    micro_batches: int = 8
    micro_batch: int = 1
    sequence: int = 0
    zero: int = 1
    recompute: Recompute = Recompute.SELECTIVE
    interleave: int = 1
    sequence_parallel: bool = True
    shown: Shown = Shown.ALL


def algorithms_of(strategy: Strategy) -> tuple[Algorithm, ...]:
    """Return the algorithms of a strategy's collective, the default first; none for a pipeline."""
    op: Collective | None = PatternCase(strategy).collective
    return () if op is None else tuple(ALGORITHMS[op])


def with_strategy(state: State, strategy: Strategy) -> State:
    """Change the strategy; what the new one does not have goes back to its default."""
    able = algorithms_of(strategy)
    return replace(
        state,
        whole=False,
        strategy=strategy,
        algorithm=state.algorithm if state.algorithm in able[1:] else None,
        skew=state.skew if strategy is Strategy.EXPERT else 0,
    )


#: GPUs, of a server, and servers of a leaf on which a model is shown first
_MODEL_GPUS, _MODEL_SERVER, _MODEL_LEAF = 32, 8, 2


def with_model(state: State) -> State:
    """Change to a whole model; four GPUs alone, as the lab begins, become servers of eight.

    Degrees that do not fit the GPUs become tensor parallelism, as far as that divides them.
    """
    first = State()
    begun = (state.gpus, state.per_server, state.per_leaf, state.where)
    if begun != (first.gpus, first.per_server, first.per_leaf, first.where):
        fits = state.gpus % (state.tensor * state.context * state.pipeline) == 0
        if fits:
            return replace(state, whole=True)
        tensor = math.gcd(state.gpus, _MODEL_SERVER)
        return replace(state, whole=True, tensor=tensor, context=1, pipeline=1, expert=1)
    return replace(
        state, whole=True, gpus=_MODEL_GPUS, per_server=_MODEL_SERVER, per_leaf=_MODEL_LEAF
    )


def case_of(state: State) -> PatternCase:
    """Read the inputs.

    Raises:
        InputError: one that cannot be read, or is out of range.
    """
    if not 0 <= state.skew <= 100:
        raise InputError(f"skew: {state.skew} % is not allowed; give 0 to 100 %")
    common: dict[str, Any] = {
        "strategy": state.strategy,
        "gpus": state.gpus,
        "payload_bytes": parse_bytes(state.payload),
        "exchanges": state.exchanges,
        "placement": state.placement,
        "skew": state.skew / 100,
        "algorithm": state.algorithm,
    }
    if state.where is Where.DESIGN:
        return PatternCase(**common)
    slow = state.scale_up_latency
    return PatternCase(
        **common,
        link_bps=parse_bps(state.speed),
        latency_s=parse_seconds(state.latency),
        gpus_per_server=state.per_server,
        servers=state.servers or None,
        servers_per_leaf=state.per_leaf,
        scale_up_bps=parse_bps(state.scale_up),
        scale_up_latency_s=parse_seconds(slow) if slow else None,
    )


@lru_cache(maxsize=24)
def _studied(case: PatternCase, text: str) -> PatternStudy:
    """Study a case on its own network, or on the design of this text."""
    built, routing = _network(text)
    return study_pattern(case, built, routing=routing)


def _network(text: str) -> tuple[BuiltDesign | None, RoutingSet | None]:
    """Return a visitor's design, built, and its routing; neither without a design."""
    return (built_design(text), routing_of(text)) if text else (None, None)


# ---------------------------------------------------------------- what is shown


@dataclass(frozen=True, eq=False)
class View:
    """What the lab shows at once; figures follow (see :func:`figures`)."""

    study: PatternStudy
    numbers: tuple[Number, ...]
    words: tuple[str, ...]
    scene: Scene
    trace: tuple[TraceRow, ...]
    reproduce: Reproduce
    limits: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]
    explanations: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Figures:
    """Who talks to whom, with the picked rank standing out."""

    matrix: go.Figure
    chord: go.Figure
    shares: go.Figure
    picked: str
    peers: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Comparison:
    """The strategies at the same settings, fastest first."""

    studies: tuple[PatternStudy, ...]
    figure: go.Figure
    words: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class WhatIf:
    """What would put the strategies in another order."""

    variations: tuple[Variation, ...]
    words: tuple[str, ...]


def study(state: State, text: str, design_name: str) -> View:
    """Study the inputs.

    Args:
        state: the inputs.
        text: the visitor's design where it runs on that, "" otherwise.
        design_name: what the design's file is called.

    Raises:
        InputError: what cannot be studied, in a sentence.
    """
    case = case_of(state)
    done = _studied(case, text)
    return View(
        study=done,
        numbers=numbers(done),
        words=done.interpretation,
        scene=pattern_scene(done, _picked(state, done)),
        trace=tuple(TraceRow(event.time_s, event.where, event.what) for event in done.trace),
        reproduce=reproduce(case, design_name if text else ""),
        limits=limits(done),
        parts=part_rows(done),
        explanations=explanation_rows(done),
    )


def pick(state: State, text: str) -> Scene:
    """Draw the animation again with the picked rank standing out."""
    done = _studied(case_of(state), text)
    return pattern_scene(done, _picked(state, done))


def figures(state: State, text: str) -> Figures:
    """Draw who talks to whom."""
    done = _studied(case_of(state), text)
    picked = _picked(state, done)
    return Figures(
        draw_matrix(done, picked=picked),
        draw_chord(done, picked=picked),
        draw_shares(done),
        picked_text(done, picked),
        peer_rows(done, picked),
    )


def compare(state: State, text: str) -> Comparison:
    """Compare the strategies at these settings."""
    studies = _compared(case_of(state), text)
    return Comparison(studies, draw_comparison(studies), what_reorders(studies))


@lru_cache(maxsize=16)
def _compared(case: PatternCase, text: str) -> tuple[PatternStudy, ...]:
    built, routing = _network(text)
    return compare_strategies(case, built, routing=routing)


def what_if(state: State, text: str) -> WhatIf:
    """Say what would put the strategies in another order.

    Raises:
        InputError: too many GPUs for that many studies.
    """
    case = case_of(state)
    if case.gpus > BIG_GPUS:
        raise InputError(
            f"what would put {case.gpus:,} GPUs in another order takes too many studies; give up "
            f"to {BIG_GPUS}"
        )
    built, routing = _network(text)
    studies = _compared(case, text)
    return WhatIf(
        pattern_variations(case, studies, built, routing=routing),
        turning_payloads(studies, built, routing=routing),
    )


def _picked(state: State, done: PatternStudy) -> int | None:
    return state.picked if 0 <= state.picked < done.case.gpus else None
