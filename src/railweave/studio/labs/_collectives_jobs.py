"""Lab 7's longer work, in worker processes: packet by packet, and sizes over a design's fabric."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from railweave.design.models import ALGORITHMS
from railweave.engine.choice import EngineChoice
from railweave.errors import InputError
from railweave.studio.designs import open_design
from railweave.studio.labs._collectives import ALGORITHM_NAMES, State, Where, read
from railweave.studio.labs._collectives_run import setting_of
from railweave.units import format_bytes
from railweave.workload import collective_volume

if TYPE_CHECKING:
    from railweave.runs.jobs import JobContext

__all__ = ["MOST_PACKET_BYTES", "SWEEP_SIZES", "job_key", "packet_job", "sweep_job"]

#: bytes of all GPUs together that are simulated packet by packet: about ten seconds
MOST_PACKET_BYTES: Final = 20_000_000_000
SWEEP_SIZES: Final = tuple(1 << k for k in range(12, 33, 2))

#: what the workers are given: the state, and the design's text
Argument = tuple[State, str]


def job_key(given: Argument) -> dict[str, Any]:
    """Return what a job's result depends on."""
    state, text = given
    apart = ("drawing", "servers", "network", "sharp")
    fields = {
        name: None if value is None else str(value)
        for name, value in asdict(state).items()
        if name not in apart
    }
    return {"state": fields, "design": text}


def packet_job(given: Argument, context: JobContext) -> dict[str, Any]:
    """Simulate a state packet by packet; return its time in seconds.

    Raises:
        InputError: more bytes than the lab lets a reader wait for.
    """
    state, text = given
    inputs = read(state)
    volume = collective_volume(
        inputs.op, inputs.algorithm, inputs.ranks, inputs.size_bytes,
        ranks_per_server=inputs.per_server,
    )  # fmt: skip
    if volume.total_bytes > MOST_PACKET_BYTES:
        raise InputError(
            f"{format_bytes(float(volume.total_bytes))} in all are too many packets to wait for; "
            f"give a smaller size or fewer GPUs (up to {format_bytes(MOST_PACKET_BYTES)} in all)"
        )
    context.progress("prepare", 0.0)
    built = open_design(text).build() if state.where is Where.DESIGN else None
    setting = setting_of(state, inputs, built, built.routing() if built else None)
    fabric, traffic = setting.fabric, setting.traffic
    if inputs.slow is not None:
        fabric, traffic = inputs.slow.apply(fabric, traffic, setting.comm)
    settings = built.packet_settings() if built else None
    result = EngineChoice("packet", settings=settings).simulate(
        fabric,
        traffic,
        setting.routing.on(fabric),
        lambda part: context.progress("packet by packet", part),
    )
    return {
        "time_s": result.makespan_s,
        "events": result.events,
        "bytes_sent": result.bytes_sent,
    }


def sweep_job(given: Argument, context: JobContext) -> dict[str, Any]:
    """Run every algorithm over sizes on a design's fabric; publish each point as it is there."""
    state, text = given
    inputs = read(state)
    built = open_design(text).build()
    points: list[dict[str, Any]] = []
    algorithms = ALGORITHMS[inputs.op]
    for done, (size, algorithm) in enumerate((s, a) for s in SWEEP_SIZES for a in algorithms):
        part = done / (len(SWEEP_SIZES) * len(algorithms))
        context.progress(f"{format_bytes(size)}, {ALGORITHM_NAMES[algorithm]}", part)
        try:
            outcome = built.collective(
                inputs.op, size, ranks=inputs.ranks, algorithm=algorithm, placement=state.placement
            )
        except InputError:
            continue  # a placement that this algorithm cannot use
        points.append(
            {"algorithm": algorithm.value, "size": size, "time_s": outcome.time_s,
             "busbw_Bps": outcome.busbw_Bps}
        )  # fmt: skip
        context.publish({"points": points})
    return {"points": points}
