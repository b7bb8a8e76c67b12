"""Which technology: Ethernet with TCP, RoCEv2, InfiniBand, and Ethernet with load-aware packets.

The four are measured by the engines on the same cluster and the same traffic, joined with stated
facts (``data/technologies.yaml``), scored, weighed, and ranked:

>>> found = measure(railweave.load("design.yaml").build(), case_for("training"))  # doctest: +SKIP
>>> judge(Requirements(workload="training"), found).winner                       # doctest: +SKIP

Measuring takes seconds and depends on the cluster and the case alone; judging takes none, so
weights can be moved at will. See ``docs/model/technology.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from railweave.transport.compare._measure import MOST_RANKS, Progress, case_key, measure
from railweave.transport.compare._score import excluded, flips_of, scores_of, totals_of, weights_of
from railweave.transport.compare._swap import Swapped, swap, synthetic_design, technology_of
from railweave.transport.compare._technologies import (
    CLASS_WORDS,
    Cell,
    Criterion,
    HostFacts,
    Row,
    Technology,
    TechnologyFacts,
    WorkloadKind,
    technology_facts,
)
from railweave.transport.compare._types import (
    CollectiveTime,
    CompareCase,
    Comparison,
    Exclusion,
    Flip,
    Measured,
    Measurements,
    MixPart,
    Requirements,
    Score,
    Term,
    case_for,
    mix_text,
    parse_mix,
)
from railweave.transport.compare._words import benchmarks_for, flip_text, reasons_for

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = [
    "CLASS_WORDS",
    "MOST_RANKS",
    "Cell",
    "CollectiveTime",
    "CompareCase",
    "Comparison",
    "Criterion",
    "Exclusion",
    "Flip",
    "HostFacts",
    "Measured",
    "Measurements",
    "MixPart",
    "Requirements",
    "Row",
    "Score",
    "Swapped",
    "Technology",
    "TechnologyFacts",
    "Term",
    "case_for",
    "case_key",
    "case_of",
    "flip_text",
    "judge",
    "measure",
    "measured_once",
    "mix_text",
    "parse_mix",
    "swap",
    "synthetic_design",
    "technology_facts",
    "technology_of",
    "weights_of",
]

#: of the document that is kept; counts up when its fields or what they mean change
_FORM: Final = 2


def judge(asked: Requirements, found: Measurements) -> Comparison:
    """Weigh what was measured and what is stated.

    Args:
        asked: requirements and weights.
        found: of :func:`measure`.

    Returns:
        Scores with their arithmetic, the ranking, what is out, where the answer turns, and the
        recommendation in words.

    Raises:
        InputError: all weights are 0.
    """
    weights = weights_of(asked)
    scores = scores_of(asked, found)
    totals = totals_of(scores, weights)
    out = excluded(asked, found)
    gone = {one.technology for one in out}
    left = [technology for technology in Technology if technology not in gone]
    ranking = tuple(sorted(left, key=lambda technology: -totals[technology]))
    flips = flips_of(scores, weights, ranking)
    return Comparison(
        requirements=asked,
        measurements=found,
        weights=weights,
        scores=scores,
        totals=totals,
        excluded=out,
        ranking=ranking,
        flips=flips,
        reasons=reasons_for(ranking, scores, totals, weights, flips, out),
        benchmarks=benchmarks_for(ranking, found, weights, flips),
    )


def case_of(built: BuiltDesign, workload: WorkloadKind, **more: Any) -> CompareCase:  # noqa: ANN401
    """Return what is measured for a design: the collectives of its jobs, or those of the workload.

    Jobs that train a model are not collectives of a size; where there are no others the workload's
    are taken. The first such job also says how many GPUs take part.

    Args:
        built: the design.
        workload: see :func:`case_for`.
        more: fields of :class:`CompareCase`, in place of these.
    """
    jobs = [job for job in built.design.jobs if job.collective and job.size]
    given: dict[str, Any] = {}
    if jobs:
        given["mix"] = tuple(
            MixPart(job.collective, job.size, 1.0, job.algorithm)
            for job in jobs
            if job.collective and job.size
        )
        ranks = jobs[0].ranks
        if isinstance(ranks, int) and ranks > 1:
            given["ranks"] = ranks
    return case_for(workload, **{**given, **more})


def _silent(step: str, fraction: float) -> None:
    """Report progress to nobody."""


def measured_once(
    built: BuiltDesign,
    case: CompareCase,
    store: Path | None = None,
    *,
    progress: Progress = _silent,
) -> Measurements:
    """Measure, or take what is kept of the same cluster and case.

    Args:
        built: as for :func:`measure`.
        case: as for :func:`measure`.
        store: folder of results (:class:`railweave.runs.ResultStore`); None keeps nothing.
        progress: as for :func:`measure`.
    """
    if store is None:
        return measure(built, case, progress=progress)
    from railweave import __version__
    from railweave.runs import ResultStore, content_key

    results = ResultStore(store)
    key = content_key(
        case_key(built, case), {"kind": "transport-compare", "form": _FORM}, __version__
    )
    kept = results.get(key)
    if kept is None:
        kept = results.put(key, measure(built, case, progress=progress).document())
    return Measurements.of({**kept.document, "design": built.design.name})
