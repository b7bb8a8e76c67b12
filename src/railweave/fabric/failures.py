"""What-if: parts taken out of a fabric, by name or by lot, and what remains.

Items of ``--fail``: a device (``spine-3``, ``p2-leaf-3``, ``node001/nic0``, a server ``node001``
with all that is in it), one port of a device (``leaf-1:port-12``), or a device pattern with ``*``
(``spine-*``). The fabric itself never changes: `Failure.apply` returns a narrowed copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from railweave.errors import InputError
from railweave.fabric._arrays import Fabric, NodeKind, PlaneId
from railweave.fabric._random import stream
from railweave.fabric._reach import Reach, reach
from railweave.fabric.bisection import HalvingModel, halving_model
from railweave.fabric.capacity import switch_capacities
from railweave.fabric.diversity import path_facts
from railweave.fabric.names import find_duplex, find_node, node_name, port_name
from railweave.units import format_bits_rate

__all__ = [
    "Distribution",
    "Failure",
    "FailureKinds",
    "MonteCarlo",
    "PlaneState",
    "WhatIf",
    "monte_carlo",
    "parse_failures",
    "part_names",
    "plane_state",
    "what_if",
    "without_parts",
]

Bool = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
FailureKinds: TypeAlias = Literal["any", "switches", "links"]


@dataclass(frozen=True, slots=True)
class Failure:
    """What has failed: the items as given, and the nodes and duplex links they mean."""

    items: tuple[str, ...]
    nodes: tuple[int, ...]
    duplex: tuple[int, ...]

    def apply(self, fabric: Fabric) -> Fabric:
        """Return the fabric without what has failed."""
        return fabric.without(duplex=self.duplex, nodes=self.nodes)


@dataclass(frozen=True, slots=True)
class PlaneState:
    """What a plane offers as its links stand: rates in bit/s, one direction.

    ``host_bps`` counts live host links with a way into the plane. ``tiers`` are (tier, down, up)
    of live links.
    """

    links_up: int
    host_bps: float
    bisection_bps: float
    bisection_cut: str
    ecmp_paths: float
    diameter: int
    gpus_cut_off: int
    servers_cut_off: int
    tiers: tuple[tuple[str, float, float], ...]

    def to_json(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {
            "links_up": self.links_up,
            "host_bps": self.host_bps,
            "bisection_bps": self.bisection_bps,
            "bisection_cut": self.bisection_cut,
            "ecmp_paths": self.ecmp_paths,
            "diameter": self.diameter,
            "gpus_cut_off": self.gpus_cut_off,
            "servers_cut_off": self.servers_cut_off,
            "tiers": [{"tier": t, "down_bps": d, "up_bps": u} for t, d, u in self.tiers],
        }


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A plane before and after a failure; the halvings are those of the plane before."""

    plane: PlaneId
    failed: tuple[str, ...]
    links_down: int
    switches_down: int
    before: PlaneState
    after: PlaneState

    @property
    def bisection_left(self) -> float:
        """Share of the bisection bandwidth that remains, 0..1; 1 where there was none."""
        before = self.before.bisection_bps
        return self.after.bisection_bps / before if before else 1.0

    @property
    def gpus_cut_off(self) -> int:
        """GPUs which the failure cut off."""
        return self.after.gpus_cut_off - self.before.gpus_cut_off

    def to_json(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {
            "plane": self.plane.name.lower(),
            "failed": list(self.failed),
            "links_down": self.links_down,
            "switches_down": self.switches_down,
            "bisection_left": self.bisection_left,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
        }

    def describe(self) -> str:
        """Say in one line what the failure costs."""
        a, b = self.before, self.after
        return (
            f"without {', '.join(self.failed) or 'anything'} ({self.plane.name.lower()}): "
            f"{self.links_down:,} links down; bisection {format_bits_rate(a.bisection_bps)} → "
            f"{format_bits_rate(b.bisection_bps)} ({self.bisection_left:.1%}, {b.bisection_cut}); "
            f"paths {a.ecmp_paths:,.0f} → {b.ecmp_paths:,.0f}; "
            f"GPUs cut off {b.gpus_cut_off:,}, servers {b.servers_cut_off:,}"
        )


@dataclass(frozen=True, slots=True)
class Distribution:
    """Lowest, 5th and 50th percentile, mean and highest of the draws.

    Percentiles are values that occurred: the smallest that 5 % (50 %) of the draws do not exceed.
    """

    min: float
    p5: float
    p50: float
    mean: float
    max: float

    @classmethod
    def of(cls, values: F64) -> Distribution:
        """Summarise one value a draw."""
        p5, p50 = np.percentile(values, [5, 50], method="inverted_cdf")
        return cls(
            float(values.min()), float(p5), float(p50), float(values.mean()), float(values.max())
        )

    def to_json(self) -> dict[str, float]:
        """Return plain data for JSON."""
        return {
            "min": self.min,
            "p5": self.p5,
            "p50": self.p50,
            "mean": self.mean,
            "max": self.max,
        }


@dataclass(frozen=True, slots=True)
class MonteCarlo:
    """What k failures at random leave, over many draws.

    Each draw takes ``failures`` different parts out of ``population`` (the plane's switches, its
    links or both), every part being equally likely. The worst draw has the lowest bisection, then
    the most GPUs cut off.
    """

    plane: PlaneId
    kinds: FailureKinds
    failures: int
    draws: int
    seed: int
    population: int
    intact_bps: float
    bisection_bps: Distribution
    gpus_cut_off: Distribution
    worst_draw: int
    worst_items: tuple[str, ...]
    worst_bps: float
    worst_gpus_cut_off: int

    def to_json(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {
            "plane": self.plane.name.lower(),
            "kinds": self.kinds,
            "failures": self.failures,
            "draws": self.draws,
            "seed": self.seed,
            "population": self.population,
            "intact_bps": self.intact_bps,
            "bisection_bps": self.bisection_bps.to_json(),
            "gpus_cut_off": self.gpus_cut_off.to_json(),
            "worst": {
                "draw": self.worst_draw,
                "failed": list(self.worst_items),
                "bisection_bps": self.worst_bps,
                "gpus_cut_off": self.worst_gpus_cut_off,
            },
        }

    def describe(self) -> str:
        """Say in one line what the draws gave."""
        b, g = self.bisection_bps, self.gpus_cut_off
        rates = " / ".join(format_bits_rate(v) for v in (b.min, b.p5, b.p50, b.max))
        return (
            f"{self.draws:,} draws of {self.failures} failures among {self.population:,} "
            f"{'parts' if self.kinds == 'any' else self.kinds} ({self.plane.name.lower()}, seed "
            f"{self.seed}): bisection min / p5 / p50 / max {rates} of "
            f"{format_bits_rate(self.intact_bps)}; GPUs cut off mean {g.mean:.3g}, "
            f"max {g.max:,.0f}; worst draw {self.worst_draw}: {', '.join(self.worst_items)}"
        )


def parse_failures(fabric: Fabric, items: Iterable[str]) -> Failure:
    """Read the items of ``--fail`` against a fabric.

    Args:
        fabric: the fabric whose parts are named.
        items: device names, ``device:port`` names, or device patterns with ``*``.

    Raises:
        InputError: a name or pattern that means nothing here; it says what is there.
    """
    given = tuple(items)
    nodes: list[int] = []
    duplex: list[int] = []
    for item in given:
        if ":" in item:
            duplex.append(find_duplex(fabric, item))
        elif "*" in item:
            nodes += _matching(fabric, item)
        else:
            nodes += _with_insides(fabric, find_node(fabric, item))
    return Failure(given, tuple(dict.fromkeys(nodes)), tuple(dict.fromkeys(duplex)))


def _matching(fabric: Fabric, pattern: str) -> list[int]:
    """Return the switches, servers and NICs whose names match a pattern."""
    kinds = (NodeKind.SWITCH, NodeKind.HOST, NodeKind.NIC, NodeKind.STORAGE, NodeKind.EXTRA)
    found: list[int] = []
    for node in np.flatnonzero(np.isin(fabric.node_kind, kinds)):
        if fnmatchcase(node_name(fabric, int(node)), pattern):
            found += _with_insides(fabric, int(node))
    if not found:
        example = node_name(fabric, int(np.flatnonzero(fabric.node_kind == NodeKind.SWITCH)[0]))
        raise InputError(
            f"--fail {pattern}: no device has such a name; allowed: device names and patterns, "
            f"such as {example} or {example.rstrip('0123456789')}*"
        )
    return found


def _with_insides(fabric: Fabric, node: int) -> list[int]:
    """Return a node, and for a server all that is in it."""
    if fabric.node_kind[node] != NodeKind.HOST or fabric.node_server[node] < 0:
        return [node]
    inside = (fabric.node_server == fabric.node_server[node]) & np.isin(
        fabric.node_kind, (NodeKind.HOST, NodeKind.GPU, NodeKind.NIC)
    )
    return [int(n) for n in np.flatnonzero(inside)]


def plane_state(fabric: Fabric, plane: PlaneId, model: HalvingModel, attached: Reach) -> PlaneState:
    """Return what a plane offers as the links of ``fabric`` stand.

    ``model`` and ``attached`` are prepared from the intact fabric, so that states compare.
    """
    lost = attached.cut_off(fabric.link_up)
    paths = path_facts(fabric, plane)
    bps, cut = model.worst(fabric.link_up)
    return PlaneState(
        links_up=int(((fabric.link_plane[::2] == plane) & fabric.link_up[::2]).sum()),
        host_bps=lost.host_bps,
        bisection_bps=bps,
        bisection_cut=cut,
        ecmp_paths=paths.ecmp_paths,
        diameter=paths.diameter,
        gpus_cut_off=len(lost.gpus),
        servers_cut_off=len(lost.servers),
        tiers=switch_capacities(fabric, plane).by_tier(),
    )


def what_if(fabric: Fabric, failure: Failure, plane: PlaneId = PlaneId.BACKEND) -> WhatIf:
    """Return a plane before and after a failure.

    Args:
        fabric: the fabric before.
        failure: what fails.
        plane: a plane with a network of its own.
    """
    model = halving_model(fabric, plane)
    attached = reach(fabric, plane, model.network)
    after = failure.apply(fabric)
    lost = (fabric.link_plane == plane) & fabric.link_up & ~after.link_up
    return WhatIf(
        plane=plane,
        failed=failure.items,
        links_down=int(lost.sum()) // 2,
        switches_down=int(np.isin(fabric.switches(plane), np.array(failure.nodes, int)).sum()),
        before=plane_state(fabric, plane, model, attached),
        after=plane_state(after, plane, model, attached),
    )


def monte_carlo(
    fabric: Fabric,
    *,
    failures: int,
    draws: int,
    seed: int,
    plane: PlaneId = PlaneId.BACKEND,
    kinds: FailureKinds = "any",
    on_draw: Callable[[int], None] | None = None,
) -> MonteCarlo:
    """Take ``failures`` random parts out of a plane, ``draws`` times over.

    Args:
        fabric: the fabric before; what is down already is not drawn.
        failures: parts that fail at once in each draw.
        draws: how often.
        seed: same seed, same draws.
        plane: a plane with a network of its own.
        kinds: draw switches, links or both.
        on_draw: called with the number of draws done, for progress.

    Raises:
        InputError: more failures than there are parts, or none of either.
    """
    model = halving_model(fabric, plane)
    attached = reach(fabric, plane, model.network)
    live = np.flatnonzero((fabric.link_plane[::2] == plane) & fabric.link_up[::2])
    switches = fabric.switches(plane).astype(np.int64)
    # Switches stand first, as numbers 0..; links follow.
    parts = np.concatenate(
        (switches if kinds != "links" else switches[:0], live if kinds != "switches" else live[:0])
    )
    n_switches = len(switches) if kinds != "links" else 0
    if draws < 1 or not 1 <= failures <= len(parts):
        raise InputError(
            f"{failures} failures in {draws} draws among {len(parts)} parts cannot be drawn; "
            f"allowed: 1 to {len(parts)} failures and at least 1 draw"
        )
    generator = stream(seed, f"monte-carlo:{plane.name}:{kinds}:{failures}")
    bps, gpus = np.zeros(draws), np.zeros(draws)
    picks: list[I64] = []
    for draw in range(draws):
        pick = np.sort(generator.choice(len(parts), size=failures, replace=False)).astype(np.int64)
        picks.append(pick)
        up = without_parts(fabric, parts[pick[pick < n_switches]], parts[pick[pick >= n_switches]])
        bps[draw] = model.worst(up)[0]
        gpus[draw] = len(attached.cut_off(up).gpus)
        if on_draw:
            on_draw(draw + 1)
    worst = int(np.lexsort((np.arange(draws), -gpus, bps))[0])
    pick = picks[worst]
    names = part_names(fabric, parts[pick[pick < n_switches]], parts[pick[pick >= n_switches]])
    return MonteCarlo(
        plane=plane,
        kinds=kinds,
        failures=failures,
        draws=draws,
        seed=seed,
        population=len(parts),
        intact_bps=model.worst(fabric.link_up)[0],
        bisection_bps=Distribution.of(bps),
        gpus_cut_off=Distribution.of(gpus),
        worst_draw=worst + 1,
        worst_items=names,
        worst_bps=float(bps[worst]),
        worst_gpus_cut_off=int(gpus[worst]),
    )


def part_names(fabric: Fabric, nodes: I64, duplex: I64) -> tuple[str, ...]:
    """Name nodes and links so that ``--fail`` reads them back."""
    return (
        *(node_name(fabric, int(node)) for node in nodes),
        *(_link_name(fabric, int(k)) for k in duplex),
    )


def _link_name(fabric: Fabric, duplex: int) -> str:
    """Name a link by its port at a switch, the lower one where both ends are switches."""
    at_host = fabric.node_kind[fabric.link_src[2 * duplex]] != NodeKind.SWITCH
    return port_name(fabric, 2 * duplex, head=bool(at_host))


def without_parts(fabric: Fabric, nodes: I64, duplex: I64) -> Bool:
    """Return which links are up once these nodes and duplex links are gone."""
    gone = np.zeros(fabric.n_nodes, dtype=np.bool_)
    gone[nodes] = True
    up: Bool = fabric.link_up & ~(gone[fabric.link_src] | gone[fabric.link_dst])
    up[2 * duplex] = False
    up[2 * duplex + 1] = False
    return up
