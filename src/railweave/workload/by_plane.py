"""How many bytes each job and each other traffic of a design puts on each plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.fabric import PlaneId
from railweave.workload._traffic import Traffic

__all__ = ["PlaneBytes", "bytes_by_plane"]


@dataclass(frozen=True, slots=True)
class PlaneBytes:
    """Payload that one job, background or storage entry sends as traffic of one plane.

    ``name`` is the entry's name in the design. ``size_bytes`` counts everything it sends in the
    simulated time, what stays inside servers included. ``streams`` is how many sources and
    destinations it has between them.
    """

    name: str
    plane: PlaneId
    size_bytes: float
    streams: int


def bytes_by_plane(traffic: Traffic) -> tuple[PlaneBytes, ...]:
    """Return the payload of each named part of a traffic by plane; nothing where nothing is sent.

    A label's name is what stands before its first ``/``. The sum over all is
    :attr:`~railweave.workload.Traffic.total_bytes`.
    """
    names = [label.partition("/")[0] for label in traffic.labels]
    distinct = list(dict.fromkeys(names))
    number = {name: at for at, name in enumerate(distinct)}
    of_label = np.array([number[name] for name in names], dtype=np.int64)
    plane = (
        np.zeros(traffic.n_streams, dtype=np.int64)
        if traffic.stream_plane is None
        else traffic.stream_plane.astype(np.int64)
    )
    if not traffic.n_streams:
        return ()
    key = of_label[traffic.task_label[traffic.stream_task]] * len(PlaneId) + plane
    length = len(distinct) * len(PlaneId)
    sizes = np.bincount(key, traffic.stream_bytes, minlength=length)
    streams = np.bincount(key, minlength=length)
    return tuple(
        PlaneBytes(
            distinct[at // len(PlaneId)],
            PlaneId(at % len(PlaneId)),
            float(sizes[at]),
            int(streams[at]),
        )
        for at in np.flatnonzero(streams).tolist()
    )
