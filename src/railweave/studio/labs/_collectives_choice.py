"""Lab 7 without a browser: which algorithm and protocol NCCL chooses, and what each would take.

All numbers are those of :mod:`railweave.predict`; the command that is given prints the same table.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from railweave.catalog import Transport, default_catalog
from railweave.design.models import Collective, PlacementName
from railweave.errors import InputError
from railweave.formats.validation import list_names, nearest
from railweave.predict.calibration import default_calibration
from railweave.predict.collective import (
    CollectiveChoice,
    OptionTime,
    choose,
    decided_by_library,
)
from railweave.predict.exports import (
    environment_text,
    recommended_environment,
    tuner_csv,
)
from railweave.predict.network_part import MeasuredNetwork, measure_network
from railweave.predict.system import system_of
from railweave.report.collective_figures import draw_busbw, draw_options
from railweave.report.collective_tables import (
    OPTION_NOTE,
    Prediction,
    network_line,
    network_table,
    option_table,
)
from railweave.report.page_table import PageTable
from railweave.report.style import ROLE_COLOURS
from railweave.studio.designs import built_design
from railweave.studio.lab import Number, Reproduce
from railweave.studio.labs._collectives import (
    OPERATION_NAMES,
    Inputs,
    State,
    Where,
    byte_rate,
    read,
)
from railweave.units import format_bytes, format_seconds

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import plotly.graph_objects as go

    from railweave.api import BuiltDesign
    from railweave.catalog import Server

__all__ = [
    "CURVE_SIZES",
    "USUAL_SERVER",
    "ChoiceView",
    "OverSizes",
    "Source",
    "choice_view",
    "measured_of",
    "network_names",
    "over_sizes",
    "server_names",
    "source_of",
]

#: as ``--size 1KiB..16GiB`` makes them
CURVE_SIZES: Final = tuple(1 << k for k in range(10, 35))
_CURVE: Final = "1KiB..16GiB"
#: of a visitor without a design
USUAL_SERVER: Final = "dgx-h100"
_PLACED_BYTES: Final = 1 << 30
_TRANSPORTS: Final[dict[Transport, str]] = {
    "infiniband": "InfiniBand",
    "rocev2": "RoCEv2",
    "tcp": "TCP",
}


@dataclass(frozen=True, slots=True)
class Source:
    """Where the ranks are: a design's text, what its file is called, and their placement.

    ``given`` where the design is the visitor's own, not made from a server type. ``operation`` is
    what ``optimized`` places for; the other rules do not look at it, and so it is not told there.
    """

    text: str
    file: str
    ranks: int
    placement: PlacementName
    given: bool
    operation: Collective = Collective.ALL_REDUCE


@dataclass(frozen=True)
class ChoiceView:
    """What is chosen at the lab's size; ``measured`` is False while the network is not measured."""

    choice: CollectiveChoice
    measured: bool
    headline: str
    numbers: tuple[Number, ...]
    why: tuple[str, ...]
    options: PageTable
    terms: PageTable
    unusable: PageTable | None
    network: PageTable | None
    network_said: str
    rests_on: tuple[str, ...]
    reproduce: Reproduce


@dataclass(frozen=True)
class OverSizes:
    """What is chosen over sizes, and what the cluster can be given for it.

    ``ranges`` says which option runs from which size on, and which would be quicker. ``times`` and
    ``busbw`` are figures; ``environment`` is the text of ``nccl.conf`` and ``tuner`` that of a file
    for NCCL's tuner.
    """

    prediction: Prediction
    ranges: tuple[str, ...]
    times: go.Figure
    busbw: go.Figure
    environment: str
    tuner: str


# ---------------------------------------------------------------- where it runs


def server_names() -> dict[str, str]:
    """Return the catalog's servers with GPUs and their titles, the one that is taken first."""
    found = {item.name: item.title for item in default_catalog().servers() if item.gpu_count}
    return {USUAL_SERVER: found[USUAL_SERVER], **found}


def network_names(servers: str) -> dict[str, str]:
    """Return the transports that a server's back-end adapters speak, the first the usual one.

    EFA's adapters carry its own protocol, whichever is written in a design: they have one entry.
    """
    try:
        spoken = _spoken(_server(servers or USUAL_SERVER))
    except InputError:  # said where the numbers are made
        spoken = tuple(_TRANSPORTS)
    if "srd" in spoken:
        return {"tcp": "EFA"}
    return {name: title for name, title in _TRANSPORTS.items() if name in spoken}


def _spoken(server: Server) -> tuple[str, ...]:
    return default_catalog().nic(server.nics["backend"].nic).transports


def _server(name: str) -> Server:
    known = server_names()
    if name not in known:
        near = nearest(name, known)
        hint = f"; did you mean {near!r}?" if near else ""
        raise InputError(
            f"servers: {name!r} is no server with GPUs; allowed: {list_names(known)}{hint}"
        )
    return default_catalog().server(name)


def source_of(state: State, design_text: str = "", design_name: str = "") -> Source:
    """Return where a state's ranks are.

    Raises:
        InputError: a server that is not in the catalog, or a network that it cannot be on.
    """
    if design_text and not state.servers:
        placement = state.placement if state.where is Where.DESIGN else PlacementName.PACKED
        searched = placement is PlacementName.OPTIMIZED
        return Source(
            design_text,
            design_name or "design.yaml",
            state.ranks,
            placement,
            given=True,
            operation=state.operation if searched else Collective.ALL_REDUCE,
        )
    name = state.servers or USUAL_SERVER
    server = _server(name)
    able = network_names(name)
    network = state.network or next(iter(able))
    if network not in able:
        raise InputError(
            f"network: the adapters of {name} do not speak {network!r}; allowed: {list_names(able)}"
        )
    count = -(-state.ranks // server.gpu_count)
    text = (
        f"railweave: 1\nname: {name}-x{count}\n"
        f"cluster:\n  servers: {{model: {name}, count: {count}}}\n"
        f"planes:\n  backend: {{transport: {network}}}\n"
    )
    file = f"{name}-x{count}.yaml"
    return Source(text, file, state.ranks, PlacementName.PACKED, given=False)


def _nodes(source: Source, built: BuiltDesign) -> npt.NDArray[np.int32]:
    alone = built.with_collective(
        source.operation, _PLACED_BYTES, ranks=source.ranks, placement=source.placement
    )
    return alone.placed()[0]


def measured_of(source: Source) -> MeasuredNetwork:
    """Return what the fabric leaves of the line rate, by the flow engine.

    Raises:
        InputError: a design that cannot be built, or has too few GPUs.
        EngineError: ranks that cannot reach each other.
    """
    built = built_design(source.text)
    return measure_network(built, _nodes(source, built))


# ---------------------------------------------------------------- what is chosen


def choice_view(
    state: State, source: Source, measured: MeasuredNetwork | None = None
) -> ChoiceView:
    """Return what NCCL chooses at a state's size.

    Args:
        state: the lab's inputs.
        source: where its ranks are.
        measured: what the fabric leaves; None takes the full line rate.

    Raises:
        InputError: a value that cannot be, a design that cannot be built, or SHARP where there is
            none.
    """
    given = read(state)
    choice = _chooser(state, source, measured)(given.size_bytes)
    return ChoiceView(
        choice=choice,
        measured=measured is not None,
        headline=_headline(given, source, choice),
        numbers=_numbers(choice),
        why=tuple(_sentence(text) for text in choice.why),
        options=replace(
            option_table(choice),
            id="nccl-options",
            title=f"Every option at {given.size_text}",
            notes=(OPTION_NOTE,),
        ),
        terms=_terms(choice.best),
        unusable=_unusable(choice),
        network=network_table(measured) if measured is not None and measured.patterns else None,
        network_said=_sentence(network_line(measured)) if measured is not None else "",
        rests_on=tuple(
            _sentence(f"{item.subject}: {item.statement}") for item in choice.assumptions
        ),
        reproduce=_reproduce(state, given, source),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _chooser(
    state: State, source: Source, measured: MeasuredNetwork | None
) -> Callable[[float], CollectiveChoice]:
    """Return what gives the choice of a size in bytes."""
    built = built_design(source.text)
    system = system_of(built, _nodes(source, built), in_network=state.sharp)
    part = measured.part if measured is not None else None
    return lambda size_bytes: choose(system, state.operation, size_bytes, network=part)


def _headline(given: Inputs, source: Source, choice: CollectiveChoice) -> str:
    where = source.file if source.given else f"servers of the catalog ({source.file})"
    placed = f", placed {source.placement.value}" if source.given else ""
    return (
        f"{OPERATION_NAMES[given.op]} of {given.size_text} over {given.ranks:,} GPUs of {where}"
        f"{placed}: {choice.system.describe()}."
    )


def _numbers(choice: CollectiveChoice) -> tuple[Number, ...]:
    """Return the tiles; the winner stands under the quantity by which it was chosen."""
    best = choice.best
    by_library = decided_by_library(choice.system, choice.op)
    decides = best.library_s if by_library else best.time_s
    low, high = choice.busbw_low_Bps / 1e9, choice.busbw_high_Bps / 1e9
    band = f"{low:.4g} to {high:.4g} GB/s"  # as the command line writes it
    tiles = [
        Number("nccl_choice", "NCCL chooses" if by_library else "Quickest", best.name, decides),
        Number("nccl_time", "Time, predicted", format_seconds(best.time_s), best.time_s),
        Number("nccl_latency", "Of it latency", format_seconds(best.latency_s), best.latency_s),
        Number("nccl_busbw", "Bus bandwidth", byte_rate(choice.busbw_Bps), choice.busbw_Bps),
        Number("healthy_band", "Of healthy clusters", band, choice.busbw_low_Bps),
        Number(
            "peak_busbw",
            "Limit of bus bandwidth",
            byte_rate(best.peak_bus_Bps),
            best.peak_bus_Bps,
        ),
    ]
    if math.isfinite(best.library_s):
        shown = format_seconds(best.library_s)
        tiles.append(Number("library_time", "Time by NCCL's constants", shown, best.library_s))
    return tuple(tiles)


def _terms(best: OptionTime) -> PageTable:
    """Return what the winner's time is made of."""
    return PageTable(
        "nccl-terms",
        f"What the {format_seconds(best.time_s)} of {best.name} are made of",
        ("part", "kind", "time", "formula"),
        tuple(
            (term.name, term.kind, format_seconds(term.seconds), term.formula)
            for term in best.terms
        ),
        text_columns=("kind", "formula"),
    )


def _unusable(choice: CollectiveChoice) -> PageTable | None:
    """Return which options are missing and why; an algorithm that has none is named once."""
    rows: dict[str, list[str]] = {}
    for algorithm in dict.fromkeys(option.algorithm for option in choice.options):
        mine = [option for option in choice.options if option.algorithm is algorithm]
        missing = [option for option in mine if not option.usable]
        if algorithm is not None and len(missing) == len(mine):
            rows.setdefault(mine[-1].reason, []).append(algorithm.value)
            continue
        for option in missing:
            rows.setdefault(option.reason, []).append(option.name)
    if not rows:
        return None
    return PageTable(
        "nccl-unusable",
        "Not usable here",
        ("option", "why"),
        tuple((", ".join(names), reason) for reason, names in rows.items()),
        text_columns=("why",),
    )


# ---------------------------------------------------------------- curves


def over_sizes(state: State, source: Source, measured: MeasuredNetwork) -> OverSizes:
    """Return what is chosen over sizes, and what the cluster can be given.

    Raises:
        InputError: as :func:`choice_view`.
    """
    given, built = read(state), built_design(source.text)
    at = _chooser(state, source, measured)
    prediction = Prediction.over(at, CURVE_SIZES, measured)
    choice = at(given.size_bytes)
    variables = recommended_environment(built, choice.system, measured, _nodes(source, built))
    nothing = "# the design implies no setting: the library's own are right"
    return OverSizes(
        prediction=prediction,
        ranges=tuple(prediction.range_lines()),
        times=_marked(draw_options(prediction.choices), prediction, choice, choice.time_s),
        busbw=_marked(draw_busbw(prediction.choices), prediction, choice, choice.busbw_Bps / 1e9),
        environment=environment_text(variables).rstrip() or nothing,
        tuner=_tuner(prediction, built.design.name).rstrip(),
    )


def _marked(
    figure: go.Figure, prediction: Prediction, choice: CollectiveChoice, value: float
) -> go.Figure:
    """Add to a figure over sizes where the choice changes, and the lab's own size."""
    line = {"color": "rgba(128,140,155,0.8)", "dash": "dot"}
    ends = {"type": "line", "yref": "y domain", "y0": 0, "y1": 1, "line": line}
    changes = [item.first_bytes for item in prediction.picked[1:]]
    figure.update_layout(
        xaxis={"automargin": True},
        yaxis={"automargin": True},
        shapes=[{**ends, "x0": size, "x1": size} for size in changes],
    )
    return figure.add_scatter(
        x=[choice.size_bytes],
        y=[value],
        mode="markers",
        name="this size",
        marker={
            "symbol": "circle-open",
            "size": 14,
            "line": {"width": 3},
            "color": ROLE_COLOURS["fault"],
        },
        hovertemplate=f"{format_bytes(choice.size_bytes)}: {choice.best.name}<extra></extra>",
    )


# ---------------------------------------------------------------- to take away


def _tuner(prediction: Prediction, design: str) -> str:
    """Return the tuner file of what is quickest by size, as ``--export-tuner`` writes it."""
    first, calibration = prediction.first, default_calibration().name
    notes = [f"predicted by railweave for {design}, calibration {calibration}"]
    try:
        return tuner_csv(first.op, first.system, prediction.quickest, notes)
    except InputError as error:
        return f"# {error}"


def _reproduce(state: State, given: Inputs, source: Source) -> Reproduce:
    """Return the commands and the Python that give the same table, curve and exports."""
    options = ["--design", source.file, "--ranks", str(source.ranks)]
    options += ["--placement", source.placement.value]
    options += ["--sharp"] if state.sharp else []
    start = " ".join(["railweave", "collective", given.op.value, *map(shlex.quote, options)])
    command = (
        f"{start} --size {shlex.quote(state.size)} --explain\n"
        f"{start} --size {_CURVE} --explain\n"
        f"{start} --size {_CURVE} --env --export-tuner tuner.csv"
    )
    if not source.given:
        command = f"cat > {source.file} <<'EOF'\n{source.text}EOF\n{command}"
    opened = (
        f"railweave.load({source.file!r})"
        if source.given
        else f'railweave.parse("""{source.text}""")'
    )
    sharp = ", in_network=True" if state.sharp else ""
    return Reproduce(
        command,
        "import railweave\n"
        "from railweave.design.models import Collective, PlacementName\n"
        "from railweave.predict import choose, measure_network, system_of\n\n"
        f"built = {opened}.build()\n"
        f"alone = built.with_collective(Collective.{given.op.name}, {given.size_bytes}, "
        f"ranks={source.ranks}, placement=PlacementName.{source.placement.name})\n"
        "nodes = alone.placed()[0]\n"
        f"system, network = system_of(built, nodes{sharp}), measure_network(built, nodes).part\n"
        f"choice = choose(system, Collective.{given.op.name}, {given.size_bytes}, "
        "network=network)\n"
        "for option in choice.options:\n"
        "    print(option.name, option.time_s, option.latency_s, option.bus_Bps, option.library_s, "
        "option.bound or option.reason)\n"
        "print(choice.best.name, choice.time_s, choice.busbw_Bps, *choice.why, sep='\\n')\n",
    )
