"""Lesson of the training step: what fills a pipeline's bubble, and what does not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from railweave.experiments import Chart, Experiment, Outcome
from railweave.predict.step import TrainingPlan, estimate_step
from railweave.predict.training_costs import costs_of_links
from railweave.workload.groups import Degrees

__all__ = ["TRAINING_LESSONS", "bubbles"]

_STAGES: Final = 8
_FASTER: Final = 4.0
#: how near the played bubble comes to the closed form
_NEAR: Final = 0.05
#: what a faster network may gain at most, of what chunks or micro-batches do
_LITTLE: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Case:
    """A way to run the pipeline; ``faster`` is the network's speed against the first case's."""

    name: str
    micro_batches: int
    chunks: int = 1
    faster: float = 1.0

    @property
    def closed(self) -> float:
        """The bubble over the arithmetic, by the textbook."""
        return (_STAGES - 1) / (self.chunks * self.micro_batches)


def _played(case: _Case) -> tuple[float, float]:
    """Return the bubble of the played step over its arithmetic, and the share of it that is idle.

    Means of a GPU; what tensor ranks exchange within a pass counts as arithmetic.
    """
    from railweave.catalog import default_catalog
    from railweave.predict.plan_cluster import cluster_of_server

    catalog = default_catalog()
    cluster = cluster_of_server(catalog, "dgx-h100", 8 * _STAGES)
    degrees = Degrees(tensor=8, data=1, pipeline=_STAGES, expert=1)
    plan = TrainingPlan(
        catalog.model("llama3-8b"),
        degrees,
        micro_batches=case.micro_batches,
        interleave=case.chunks,
        zero=0,
    )
    links = replace(cluster.links, network_Bps=case.faster * cluster.links.network_Bps)
    step = estimate_step(plan, cluster.gpu, costs_of_links(degrees, links))
    busy = float(step.compute_by_stage.mean()) + step.idle_s["exposed tensor"]
    return step.bubble_s / busy, 1 - busy / step.step_s


def bubbles(few: int = _STAGES, many: int = 8 * _STAGES, chunks: int = 4) -> Outcome:
    """Play a pipeline of 8 stages with few and many micro-batches, in chunks, on a faster network.

    Args:
        few: micro-batches of the first case, a multiple of the stages.
        many: of the second.
        chunks: that a stage has in the third, with the few.
    """
    from railweave.experiments._bench import series

    cases = {
        "few": _Case(f"{few} micro-batches", few),
        "network": _Case(f"{few}, network {_FASTER:g} times as fast", few, faster=_FASTER),
        "chunks": _Case(f"{few} in {chunks} chunks a stage", few, chunks),
        "many": _Case(f"{many} micro-batches", many),
    }
    played = {key: _played(case) for key, case in cases.items()}
    bubble = {key: one[0] for key, one in played.items()}
    idle = {key: one[1] for key, one in played.items()}
    values = {f"{key}_bubble": value for key, value in bubble.items()}
    values |= {f"{key}_closed_form": case.closed for key, case in cases.items()}
    values |= {f"{key}_idle_share": value for key, value in idle.items()}
    near = all(abs(bubble[key] / case.closed - 1) < _NEAR for key, case in cases.items())
    gained = {key: idle["few"] - value for key, value in idle.items()}
    least = min(gained["chunks"], gained["many"])
    holds = near and least > 0 and gained["network"] < _LITTLE * least
    names = [case.name for case in cases.values()]
    drawn = [
        ("idle, of the step", names, [100 * value for value in idle.values()]),
        ("bubble, of the arithmetic", names, [100 * value for value in bubble.values()]),
    ]
    chart = Chart("bubble", series(drawn), "", "%", kind="bar")
    told = "; ".join(f"{case.name} {100 * idle[key]:.1f} %" for key, case in cases.items())
    return Outcome(values, (chart,), holds, f"Of a step a GPU is idle: {told}.")


#: by the key of the studio's page
TRAINING_LESSONS: Final[dict[str, Experiment]] = {
    "training": Experiment(
        "lesson-bubble",
        "More micro-batches fill a pipeline's bubble, a faster network does not",
        f"The bubble of {_STAGES} stages is (P − 1)/(V·M) of the arithmetic within 5 %, and a "
        f"network {_FASTER:g} times as fast gains less than a tenth of what chunks gain.",
        {
            "model": "Llama 3 8B on 64 H100, 8 tensor ranks in each of 8 stages",
            "schedule": "1F1B, and interleaved with 4 chunks a stage; every pass is played",
            "communication": "closed forms over NVLink and 400 Gb/s a GPU",
        },
        bubbles,
    )
}
