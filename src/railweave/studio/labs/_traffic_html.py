"""Lab 2's tables as HTML: small ones that change with every input."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from railweave.report.patterns_figures import PLACE_COLOURS
from railweave.report.patterns_groups import PLACE_NAMES
from railweave.studio.parts import table_html
from railweave.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from railweave.report.patterns import PatternStudy
    from railweave.report.patterns_compare import Variation
    from railweave.workload.patterns import Strategy

__all__ = ["comparison_html", "key_html", "list_html", "variations_html"]


def list_html(sentences: Sequence[str]) -> str:
    """Return sentences as a list."""
    return (
        '<ul class="rw-traffic-words">'
        + "".join(f"<li>{escape(text)}</li>" for text in sentences)
        + "</ul>"
    )


def key_html() -> str:
    """Return what the colours of tokens, ribbons and shares mean."""
    return (
        '<ul class="rw-traffic-key">'
        + "".join(
            f'<li><i style="--place:{colour}"></i>{name}</li>'
            for name, colour in zip(PLACE_NAMES, PLACE_COLOURS, strict=True)
        )
        + "</ul>"
    )


def comparison_html(studies: Sequence[PatternStudy], chosen: Strategy) -> str:
    """Return the strategies at the same settings, fastest first."""
    header = (
        "strategy", "time", "closed form", "of latency", "bound by", "sent by a GPU", "by all",
        "one after another", "in the server", "across a spine or core",
    )  # fmt: skip
    rows = [
        (
            study.title,
            format_seconds(study.time_s),
            format_seconds(study.analytic_s),
            format_seconds(study.latency_s),
            study.bound,
            format_bytes(study.bytes_sent_per_gpu),
            format_bytes(study.total_bytes),
            f"{study.steps:,}",
            f"{study.share_server:.1%}",
            f"{study.share_spine + study.share_core:.1%}",
        )
        for study in studies
    ]
    mine = next((k for k, s in enumerate(studies) if s.case.strategy is chosen), -1)
    return table_html(header, rows, name="comparison", marked=mine)


def variations_html(variations: Sequence[Variation]) -> str:
    """Return the order of the strategies with one setting changed."""
    if not variations:
        return ""
    rows = [
        (
            one.change,
            ", ".join(f"{s.case.strategy.value} {format_seconds(s.time_s)}" for s in one.studies),
            "; ".join(f"{a.value} overtakes {b.value}" for a, b in one.reverses) or "same order",
        )
        for one in variations
    ]
    return table_html(
        ("with this changed", "fastest first", "against the order above"), rows, name="variations"
    )
