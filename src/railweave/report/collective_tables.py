"""A predicted collective for people and machines: tables, the nccl-tests layout, JSON, files."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from railweave.formats.files import staged
from railweave.formats.nccl_tests import NcclTestRow, write_nccl_tests
from railweave.predict.collective import (
    CollectiveChoice,
    NcclAlgorithm,
    NcclProtocol,
    OptionTime,
    decided_by_library,
)
from railweave.predict.exports import EnvironmentVariable, SizeRange, quickest, size_ranges
from railweave.predict.network_part import MeasuredNetwork
from railweave.report.collective_figures import draw_busbw, draw_options
from railweave.report.page_table import DASH, PageTable
from railweave.report.plain_page import plain_page
from railweave.units import format_bytes, format_seconds

__all__ = [
    "OPTION_NOTE",
    "Prediction",
    "choices_json",
    "environment_table",
    "nccl_text",
    "network_line",
    "network_table",
    "option_table",
    "size_table",
    "unusable_lines",
    "write_choices",
]

_WIDTH: Final = 78


@dataclass(frozen=True, slots=True)
class Prediction:
    """A collective over sizes on one system.

    ``choices`` has one entry a size, rising. ``picked`` are the ranges of what NCCL picks,
    ``quickest`` of what is predicted to be the quickest.
    """

    choices: tuple[CollectiveChoice, ...]
    picked: tuple[SizeRange, ...]
    quickest: tuple[SizeRange, ...]
    measured: MeasuredNetwork

    @property
    def first(self) -> CollectiveChoice:
        """The choice at the smallest size."""
        return self.choices[0]

    @property
    def title(self) -> str:
        """Operation and ranks."""
        return f"{self.first.op.value} over {self.first.ranks:,} ranks"

    def range_lines(self) -> list[str]:
        """Say which option runs from which size on, and which would be quicker."""
        if not decided_by_library(self.first.system, self.first.op):
            return _range_lines("quickest by this model", self.quickest)
        lines = _range_lines("NCCL picks", self.picked)
        if [_pair(item) for item in self.quickest] != [_pair(item) for item in self.picked]:
            lines += _range_lines("quickest by this model", self.quickest)
        return lines

    @classmethod
    def over(
        cls,
        choose_at: Callable[[float], CollectiveChoice],
        sizes_bytes: Sequence[int],
        measured: MeasuredNetwork,
        *,
        algorithm: NcclAlgorithm | None = None,
        protocol: NcclProtocol | None = None,
    ) -> Prediction:
        """Predict over sizes.

        Args:
            choose_at: the choice at a size in bytes.
            sizes_bytes: rising.
            measured: what the fabric leaves; ``choose_at`` has reckoned with it.
            algorithm: the quickest are looked for among its options; None takes all.
            protocol: the same.
        """
        at = cache(choose_at)  # the same size is asked for by the table and by both ranges
        return cls(
            choices=tuple(at(size) for size in sizes_bytes),
            picked=size_ranges(lambda size: at(size).best, sizes_bytes),
            quickest=size_ranges(lambda size: quickest(at(size), algorithm, protocol), sizes_bytes),
            measured=measured,
        )

    def explained(self) -> list[CollectiveChoice]:
        """Return the sizes whose options are listed: where another one is picked, and the last."""
        last = len(self.choices) - 1
        return [
            choice
            for at, choice in enumerate(self.choices)
            if at in (0, last) or self.choices[at - 1].best.name != choice.best.name
        ]


def _pair(item: SizeRange) -> tuple[int, str]:
    return item.first_bytes, item.option.name


def nccl_text(prediction: Prediction) -> str:
    """Return the prediction in the layout of nccl-tests, with what it rests on above and below."""
    first, last = prediction.first, prediction.choices[-1]
    title = [
        f"predicted by railweave: {first.op.value}, {first.ranks:,} ranks",
        *_wrapped(first.system.describe()),
        *_wrapped(network_line(prediction.measured)),
    ]
    band = (
        f"expected of a healthy cluster at {format_bytes(last.size_bytes)}: busbw "
        f"{last.busbw_low_Bps / 1e9:.4g} to {last.busbw_high_Bps / 1e9:.4g} GB/s"
    )
    notes = [*prediction.range_lines(), band]
    return write_nccl_tests(
        [_row(choice) for choice in prediction.choices], title=title, notes=notes
    )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH - 2, break_on_hyphens=False)


def _row(choice: CollectiveChoice) -> NcclTestRow:
    return NcclTestRow(
        op=choice.op.value,
        ranks=choice.ranks,
        size_bytes=round(choice.size_bytes),
        time_s=choice.time_s,
        algbw_Bps=choice.algbw_Bps,
        busbw_Bps=choice.busbw_Bps,
        in_place=False,
    )


def _range_lines(what: str, ranges: Sequence[SizeRange]) -> list[str]:
    """Return one line for each range: ``NCCL picks up to 51 MiB: Tree/LL128``."""
    lines = []
    for number, item in enumerate(ranges):
        start = "" if number == 0 else f"from {_near(item.first_bytes)}"
        end = "" if number == len(ranges) - 1 else f"up to {_near(item.last_bytes + 1)}"
        where = " ".join(part for part in (start, end) if part) or "at every size"
        lines.append(f"{what} {where}: {item.option.name}")
    return lines


def _near(size_bytes: int) -> str:
    """Write a change-over, which is known to 1/64, with two digits."""
    for factor, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size_bytes >= factor:
            return (
                f"{size_bytes / factor:.2g} {unit}"
                if size_bytes < 100 * factor
                else (f"{size_bytes / factor:.0f} {unit}")
            )
    return f"{size_bytes} B"


def network_line(measured: MeasuredNetwork) -> str:
    """Say in one sentence what the fabric leaves of the line rate."""
    part = measured.part
    if not measured.patterns:
        return part.source
    out = f", with {', '.join(part.failed)} out" if part.failed else ""
    return (
        f"network{out}: rings reach {part.ring_share:.0%} of the line rate, trees "
        f"{part.tree_share:.0%}, pairwise exchange {part.pairwise_share:.0%} ({part.source})"
    )


def network_table(measured: MeasuredNetwork) -> PageTable:
    """Return what each pattern reaches on the fabric, and the link that binds."""
    return PageTable(
        "network",
        "What the fabric leaves of the adapters' line rate",
        ("pattern", "share", "latency", "what binds"),
        tuple(
            (
                item.pattern,
                f"{item.share:.1%}",
                format_seconds(item.latency_s),
                item.bottleneck,
            )
            for item in measured.patterns
        ),
        text_columns=("what binds",),
    )


def option_table(choice: CollectiveChoice) -> PageTable:
    """Return what each option would take at one size, the quickest first, and why one is picked."""
    usable = sorted((o for o in choice.options if o.usable), key=lambda option: option.time_s)
    rows = tuple(
        (
            option.name,
            format_seconds(option.time_s),
            format_seconds(option.latency_s),
            f"{option.bus_Bps / 1e9:.3g}",
            format_seconds(option.library_s) if math.isfinite(option.library_s) else DASH,
            option.bound,
        )
        for option in usable
    )
    return PageTable(
        f"options-{round(choice.size_bytes)}",
        f"{format_bytes(choice.size_bytes)}: {choice.best.name}",
        ("option", "time", "latency", "GB/s", "by NCCL", "bound by"),
        rows,
        tuple(f"{text.rstrip('.')}." for text in choice.why),
        text_columns=("bound by",),
    )


OPTION_NOTE: Final = (
    "GB/s is busbw; 'by NCCL' is the time that its own constants give, by which it picks."
)


def unusable_lines(choice: CollectiveChoice) -> list[str]:
    """Say why algorithms are missing from the options: those that no protocol can run."""
    reasons: dict[str, list[str]] = {}
    for algorithm in dict.fromkeys(option.algorithm for option in choice.options):
        mine = [option for option in choice.options if option.algorithm is algorithm]
        if algorithm is not None and not any(option.usable for option in mine):
            reasons.setdefault(mine[-1].reason, []).append(algorithm.value)
    return [f"Not usable: {', '.join(names)} ({reason})." for reason, names in reasons.items()]


def environment_table(variables: Sequence[EnvironmentVariable]) -> PageTable:
    """Return recommended variables with their reasons."""
    return PageTable(
        "environment",
        "Recommended environment",
        ("variable", "value", "why"),
        tuple((item.name, item.value, item.reason) for item in variables),
        text_columns=("value", "why"),
    )


def _terms(option: OptionTime) -> list[dict[str, Any]]:
    return [dataclasses.asdict(term) for term in option.terms]


def _option_json(option: OptionTime) -> dict[str, Any]:
    return {
        "option": option.name,
        "algorithm": option.algorithm.value if option.algorithm else None,
        "protocol": option.protocol.value,
        "usable": option.usable,
        "time_s": option.time_s,
        "latency_s": option.latency_s,
        "transfer_s": option.transfer_s,
        "busbw_Bps": option.bus_Bps,
        "bound": option.bound,
        "reason": option.reason,
        "terms": _terms(option),
    }


def choices_json(prediction: Prediction, *, engine: str, explain: bool) -> dict[str, Any]:
    """Return the document of ``railweave collective`` over sizes; byte/s, seconds and bytes."""
    choices, measured = prediction.choices, prediction.measured
    first = choices[0]
    assumptions = dict.fromkeys(
        (*(a for choice in choices for a in choice.assumptions), *measured.part.assumptions)
    )
    return {
        "operation": first.op.value,
        "ranks": first.ranks,
        "engine": engine,
        "system": dataclasses.asdict(first.system),
        "network": {
            **{
                field.name: getattr(measured.part, field.name)
                for field in dataclasses.fields(measured.part)
                if field.name != "assumptions"
            },
            "patterns": [dataclasses.asdict(item) for item in measured.patterns],
        },
        "sizes": [
            {
                "size_bytes": round(choice.size_bytes),
                "time_s": choice.time_s,
                "algbw_Bps": choice.algbw_Bps,
                "busbw_Bps": choice.busbw_Bps,
                "busbw_low_Bps": choice.busbw_low_Bps,
                "busbw_high_Bps": choice.busbw_high_Bps,
                "option": choice.best.name,
                "library_option": choice.library.name,
                "why": list(choice.why),
                **({"options": [_option_json(o) for o in choice.options]} if explain else {}),
            }
            for choice in choices
        ],
        "picked": [_range_json(item) for item in prediction.picked],
        "quickest": [_range_json(item) for item in prediction.quickest],
        "assumptions": [dataclasses.asdict(item) for item in assumptions],
    }


def _range_json(item: SizeRange) -> dict[str, Any]:
    return {
        "first_bytes": item.first_bytes,
        "last_bytes": item.last_bytes,
        "option": item.option.name,
    }


def size_table(choices: Sequence[CollectiveChoice]) -> PageTable:
    """Return time, bandwidths, band and choice by size."""
    return PageTable(
        "sizes",
        "By size",
        ("size", "time", "algbw GB/s", "busbw GB/s", "healthy", "option", "bound by"),
        tuple(
            (
                format_bytes(choice.size_bytes),
                format_seconds(choice.time_s),
                f"{choice.algbw_Bps / 1e9:.4g}",
                f"{choice.busbw_Bps / 1e9:.4g}",
                _band(choice),
                choice.best.name,
                choice.best.bound,
            )
            for choice in choices
        ),
        text_columns=("option", "bound by"),
    )


def _band(choice: CollectiveChoice) -> str:
    if not math.isfinite(choice.busbw_low_Bps):
        return DASH
    return f"{choice.busbw_low_Bps / 1e9:.4g}–{choice.busbw_high_Bps / 1e9:.4g}"


def write_choices(
    prediction: Prediction, variables: Sequence[EnvironmentVariable], folder: Path
) -> Path:
    """Write ``collective.html`` and ``collective.csv`` into a folder; return the page's path."""
    import polars as pl

    choices, measured = prediction.choices, prediction.measured
    frame = pl.DataFrame(
        {
            "size_bytes": [round(choice.size_bytes) for choice in choices],
            "time_s": [choice.time_s for choice in choices],
            "algbw_Bps": [choice.algbw_Bps for choice in choices],
            "busbw_Bps": [choice.busbw_Bps for choice in choices],
            "busbw_low_Bps": [choice.busbw_low_Bps for choice in choices],
            "busbw_high_Bps": [choice.busbw_high_Bps for choice in choices],
            "option": [choice.best.name for choice in choices],
        }
    )
    said = [
        prediction.first.system.describe(),
        network_line(measured),
        *prediction.range_lines(),
        OPTION_NOTE,
        *unusable_lines(prediction.first),
    ]
    tables = [
        size_table(choices),
        *(option_table(choice) for choice in prediction.explained()),
        *([network_table(measured)] if measured.patterns else []),
        *([environment_table(variables)] if variables else []),
    ]
    page = plain_page(
        prediction.title,
        [draw_busbw(choices), draw_options(choices)],
        said,
        tables,
    )
    with staged(folder) as stage:
        stage.write("collective.csv", frame.write_csv)
        return stage.write_text("collective.html", page)
