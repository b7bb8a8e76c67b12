"""Bytes by plane: every byte once, on the plane of its traffic, whatever network carries it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import railweave
from railweave.fabric import PlaneId
from railweave.workload import Traffic, TrafficBuilder, bytes_by_plane, merge_traffic

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_every_byte_of_a_design_is_on_one_plane() -> None:
    traffic = railweave.load(EXAMPLES / "llama3-70b-training.yaml").build().workload().traffic
    parts = {part.name: part for part in bytes_by_plane(traffic)}
    assert {name: part.plane for name, part in parts.items()} == {
        "llama3-70b": PlaneId.BACKEND,
        "mixtral": PlaneId.BACKEND,
        "users": PlaneId.FRONTEND,
        "dataset": PlaneId.STORAGE,  # carried by the front-end's network, and still storage's
    }
    # 2 GB/s to each of 31 servers for a second, and one checkpoint
    assert parts["dataset"].size_bytes == pytest.approx(31 * 2e9 + 640e9)
    total = sum(part.size_bytes for part in parts.values())
    assert total == pytest.approx(traffic.total_bytes, rel=1e-12)
    assert sum(part.streams for part in parts.values()) == traffic.n_streams


def _one(label: str, size: float, plane: PlaneId) -> Traffic:
    builder = TrafficBuilder(plane=int(plane))
    builder.plain(np.array([0]), np.array([1]), size, label=label)
    return builder.build()


def test_labels_of_one_name_are_summed_and_planes_kept_apart() -> None:
    traffic = merge_traffic(
        (
            _one("a/x#0", 3.0, PlaneId.BACKEND),
            _one("a/y#1", 4.0, PlaneId.BACKEND),
            _one("a/x#0", 5.0, PlaneId.STORAGE),
        )
    )
    found = [(part.name, part.plane, part.size_bytes, part.streams) for part in
             bytes_by_plane(traffic)]  # fmt: skip
    assert found == [("a", PlaneId.BACKEND, 7.0, 2), ("a", PlaneId.STORAGE, 5.0, 1)]


def test_no_traffic_has_no_bytes() -> None:
    assert bytes_by_plane(TrafficBuilder().build()) == ()
