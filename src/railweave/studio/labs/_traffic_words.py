"""Lab 2 in words: tiles, tables, what reproduces the numbers, what they leave out."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.design.models import PlacementName
from railweave.fabric.names import node_name
from railweave.studio.content import learn
from railweave.studio.lab import Number, Reproduce
from railweave.units import counted, format_bits_rate, format_bytes, format_seconds, format_si
from railweave.workload.patterns import PatternCase, Strategy

if TYPE_CHECKING:
    from railweave.report.patterns import PatternStudy
    from railweave.report.patterns_groups import Talk

__all__ = [
    "STRATEGY_NAMES",
    "case_python",
    "explanation_rows",
    "limits",
    "network_options",
    "numbers",
    "part_rows",
    "peer_rows",
    "picked_text",
    "reproduce",
    "value_text",
]

STRATEGY_NAMES: Final = {
    Strategy.DATA: "data parallel",
    Strategy.TENSOR: "tensor parallel",
    Strategy.CONTEXT: "context parallel",
    Strategy.PIPELINE: "pipeline parallel",
    Strategy.EXPERT: "expert parallel",
}
#: peers that are listed of the picked rank
MOST_PEERS: Final = 8


def numbers(study: PatternStudy) -> tuple[Number, ...]:
    """Return the tiles."""
    peers = int((study.matrix_bytes > 0).sum(axis=1).max())
    latency = study.latency_s / study.analytic_s if study.analytic_s > 0 else 0.0
    said = [
        ("volume_per_gpu", "Sent by a GPU", format_bytes, study.bytes_sent_per_gpu),
        ("total_volume", "Sent by all", format_bytes, study.total_bytes),
        ("transfer_time", "Time of a step", format_seconds, study.time_s),
        ("closed_form_time", "Closed form", format_seconds, study.analytic_s),
        ("bandwidth_term", "Of bandwidth", format_seconds, study.bandwidth_s),
        ("latency_term", "Of latency", format_seconds, study.latency_s),
        ("latency_share", "Bound by", lambda _: study.bound, latency),
        ("messages", "Messages", _count, study.messages),
        ("rounds", "One after another", _count, study.steps),
        ("peers", "Peers of a GPU", _count, peers),
        ("share_server", "Bytes in the server", _share, study.share_server),
        ("share_leaf", "Under a leaf", _share, study.share_leaf),
        ("share_spine", "Across a spine", _share, study.share_spine),
    ]
    if study.share_core > 0:
        said.append(("share_core", "Across a core", _share, study.share_core))
    return tuple(Number(key, label, text(value), float(value)) for key, label, text, value in said)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _share(value: float) -> str:
    return f"{value:.1%}"


# ---------------------------------------------------------------- tables


def part_rows(study: PatternStudy) -> tuple[tuple[str, ...], ...]:
    """Return which collectives a step is made of: part, operation, algorithm, payload, times."""
    return tuple(
        (
            part.name,
            part.collective.value if part.collective else "send and receive",
            part.algorithm.value if part.algorithm else "neighbour to neighbour",
            format_bytes(part.size_bytes),
            f"{part.times:,}",
        )
        for part in study.volume.parts
    )


def explanation_rows(study: PatternStudy) -> tuple[tuple[str, ...], ...]:
    """Return how each number comes about: what, value, formula, inputs, source."""
    return tuple(
        (
            item.quantity,
            value_text(item.value, item.unit),
            item.formula,
            ", ".join(f"{name} = {value:,.10g}" for name, value in item.inputs.items()),
            item.source,
        )
        for item in study.explanations
    )


def value_text(value: float, unit: str) -> str:
    """Return a number with its unit."""
    write = {"B": format_bytes, "s": format_seconds, "b/s": format_bits_rate}.get(unit)
    return write(value) if write else format_si(value, unit)


def picked_text(study: Talk, picked: int | None) -> str:
    """Say what the picked rank does."""
    if picked is None:
        return "No rank is picked: pick one here, in the drawing, the matrix or the chords."
    name = node_name(study.fabric, int(study.nodes[picked]))
    matrix = study.matrix_bytes
    out, into = matrix[picked], matrix[:, picked]
    to, of = (counted(int((part > 0).sum()), "rank") for part in (out, into))
    return (
        f"Rank {picked} ({name}) sends {format_bytes(float(out.sum()))} to {to} and receives "
        f"{format_bytes(float(into.sum()))} from {of}."
    )


def peer_rows(study: Talk, picked: int | None) -> tuple[tuple[str, ...], ...]:
    """Return the peers of the picked rank that it exchanges most with: who, sent, received."""
    if picked is None:
        return ()
    out, into = study.matrix_bytes[picked], study.matrix_bytes[:, picked]
    order = np.argsort(-(out + into), kind="stable")[:MOST_PEERS]
    return tuple(
        (
            f"rank {peer}",
            node_name(study.fabric, int(study.nodes[peer])),
            format_bytes(float(out[peer])),
            format_bytes(float(into[peer])),
        )
        for peer in order.tolist()
        if out[peer] + into[peer] > 0
    )


def limits(study: PatternStudy) -> tuple[str, ...]:
    """Return what the results leave out."""
    said = [*learn("traffic").limits, *(f"{a.subject}: {a.statement}" for a in study.assumptions)]
    return tuple(dict.fromkeys(said))


# ---------------------------------------------------------------- outside the studio


def reproduce(case: PatternCase, design_name: str) -> Reproduce:
    """Return the command and the Python that give the same numbers.

    Args:
        case: what is studied.
        design_name: the design's file, "" where the case has its own network.
    """
    return Reproduce(_command(case, design_name), _python(case, design_name))


def _command(case: PatternCase, design_name: str) -> str:
    plain = PatternCase()
    options = ["--gpus", str(case.gpus), "--payload", _bytes(case.payload_bytes)]
    for flag, value, usual in (
        ("--exchanges", str(case.exchanges), str(plain.exchanges)),
        ("--placement", case.placement.value, PlacementName.PACKED.value),
        ("--skew", f"{case.skew:g}", "0"),
        ("--algorithm", case.algorithm.value if case.algorithm else "", ""),
    ):
        if value != usual:
            options += [flag, value]
    if design_name:
        options += ["--design", design_name]
    else:
        options += network_options(case)
    return " ".join(["railweave", "pattern", case.strategy.value, *map(shlex.quote, options)])


def network_options(case: PatternCase) -> list[str]:
    """Return the command's options for the case's own network."""
    plain = PatternCase()
    options = ["--speed", _exact(case.link_bps, "b/s")]
    inside = case.scale_up_latency_s
    for flag, given, text in (
        ("--latency", case.latency_s != plain.latency_s, _exact(case.latency_s, "s")),
        ("--gpus-per-server", case.gpus_per_server != 1, str(case.gpus_per_server)),
        ("--servers", case.servers is not None, str(case.servers)),
        (
            "--servers-per-leaf",
            case.servers_per_leaf != plain.servers_per_leaf,
            str(case.servers_per_leaf),
        ),
        (
            "--scale-up-speed",
            case.scale_up_bps != plain.scale_up_bps,
            _exact(case.scale_up_bps, "b/s"),
        ),
        ("--scale-up-latency", inside is not None, _exact(inside or 0.0, "s")),
    ):
        if given:
            options += [flag, text]
    return options


_PREFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL: Final = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


def _exact(value: float, unit: str) -> str:
    """Write a quantity so that it reads back as the same."""
    prefixes = _SMALL if unit == "s" else _PREFIXES
    for size, prefix in prefixes:
        if value >= size:
            return f"{value / size:.12g} {prefix}{unit}"
    return f"{value:.12g} {unit}"


def _bytes(size: int) -> str:
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def case_python(case: PatternCase, design_name: str) -> tuple[list[str], str]:
    """Return the imports and the expression that make a case, on a design or its own network."""
    plain = PatternCase(case.strategy)
    names = (
        "gpus", "payload_bytes", "exchanges", "link_bps", "latency_s", "gpus_per_server",
        "servers", "servers_per_leaf", "scale_up_bps", "scale_up_latency_s", "skew",
    )  # fmt: skip
    always = {"gpus", "payload_bytes"} if design_name else {"gpus", "payload_bytes", "link_bps"}
    strategy = case.strategy is not Strategy.DATA
    arguments = [f"Strategy.{case.strategy.name}"] if strategy else []
    arguments += [
        f"{name}={getattr(case, name)!r}"
        for name in names
        if name in always or getattr(case, name) != getattr(plain, name)
    ]
    enums = []
    if case.placement is not plain.placement:
        arguments.append(f"placement=PlacementName.{case.placement.name}")
        enums.append("PlacementName")
    if case.algorithm is not None:
        arguments.append(f"algorithm=Algorithm.{case.algorithm.name}")
        enums.insert(0, "Algorithm")
    lines = ["import railweave"] if design_name else []
    if enums:
        lines.append(f"from railweave.design.models import {', '.join(enums)}")
    return lines, f"PatternCase({', '.join(arguments)})"


def _python(case: PatternCase, design_name: str) -> str:
    imports, made = case_python(case, design_name)
    words = "PatternCase" if case.strategy is Strategy.DATA else "PatternCase, Strategy"
    built = f", railweave.load({design_name!r}).build()" if design_name else ""
    lines = [
        *imports,
        "from railweave.report.patterns import study_pattern",
        f"from railweave.workload.patterns import {words}",
        "",
        f"case = {made}",
        f"study = study_pattern(case{built})",
        "print(study.bytes_sent_per_gpu, study.total_bytes, study.time_s, study.bound)",
        'print("\\n".join(study.interpretation))',
    ]
    return "\n".join(lines) + "\n"
