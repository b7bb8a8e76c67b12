"""What a prediction gives the cluster: a configuration of NCCL's tuner, and environment variables.

The tuner file is that of the example plugin in NCCL's own sources (``ext-tuner/example``): comma-
separated values of collective, smallest and largest bytes, algorithm, protocol, channels, nodes,
ranks, pipelined operations, registered buffers; −1 matches anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from railweave.design.models import Collective, PlaneName, RoutingScheme, Topology, Transport
from railweave.errors import InputError
from railweave.fabric import PlaneId
from railweave.predict.collective import (
    CollectiveChoice,
    NcclAlgorithm,
    NcclProtocol,
    OptionTime,
)
from railweave.predict.network_part import MeasuredNetwork, measure_network
from railweave.qos import ROCE_DSCP, classes_of
from railweave.units import counted

if TYPE_CHECKING:
    import numpy.typing as npt

    from railweave.api import BuiltDesign
    from railweave.design.models import Plane, ServerGroup
    from railweave.predict.system import CollectiveSystem

__all__ = [
    "EnvironmentVariable",
    "SizeRange",
    "environment_text",
    "quickest",
    "recommended_environment",
    "size_ranges",
    "tuner_csv",
]

#: the plugin's name of each operation; it knows no others
_TUNER_OPERATIONS: Final[dict[Collective, str]] = {
    Collective.ALL_REDUCE: "allreduce",
    Collective.ALL_GATHER: "allgather",
    Collective.REDUCE_SCATTER: "reducescatter",
    Collective.BROADCAST: "broadcast",
    Collective.REDUCE: "reduce",
}
#: of a range that does not end: the plugin reads an unsigned 64-bit number
_NO_END: Final = (1 << 63) - 1
#: change-overs are found to this share of the size
_SHARP: Final = 1 / 64
#: below this share of line rate more queue pairs are tried
_COLLIDES: Final = 0.95
_TRIED_QUEUE_PAIRS: Final = 4
_HASHED: Final = frozenset({RoutingScheme.ECMP, RoutingScheme.E_ECMP, RoutingScheme.FLOWLET})
_REORDERING: Final = frozenset({RoutingScheme.ADAPTIVE, RoutingScheme.SPRAY})
#: names of RDMA devices by the adapter's vendor, without their number
_DEVICES: Final = {"NVIDIA": "mlx5", "Broadcom": "bnxt_re", "AMD": "ionic"}
_RAILS: Final = frozenset(
    {
        Topology.RAIL_OPTIMIZED,
        Topology.RAIL_ONLY,
        Topology.DUAL_PLANE_DUAL_TOR,
        Topology.TWIN_PLANAR,
    }
)


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Sizes for which one option is taken, both ends included."""

    first_bytes: int
    last_bytes: int
    option: OptionTime


@dataclass(frozen=True, slots=True)
class EnvironmentVariable:
    """A setting for the library and why. ``known`` is False where the value names what only the
    installed system knows (device names): it then says what to put there.
    """

    name: str
    value: str
    reason: str
    known: bool = True


def quickest(
    choice: CollectiveChoice,
    algorithm: NcclAlgorithm | None = None,
    protocol: NcclProtocol | None = None,
) -> OptionTime:
    """Return the option with the smallest predicted time, which need not be what NCCL picks.

    Args:
        choice: of one size.
        algorithm: consider this one only, and
        protocol: this one only.
    """
    return min(
        (
            option
            for option in choice.options
            if option.usable
            and (algorithm is None or option.algorithm in (algorithm, None))
            and (protocol is None or option.protocol is protocol or option.algorithm is None)
        ),
        key=lambda option: option.time_s,
    )


def size_ranges(
    option_at: Callable[[float], OptionTime], sizes_bytes: Sequence[int]
) -> tuple[SizeRange, ...]:
    """Return which option is taken from which size on.

    Args:
        option_at: the option of a size.
        sizes_bytes: rising; change-overs between two of them are found to 1/64 of the size.
    """
    made: list[SizeRange] = []
    start, option = sizes_bytes[0], option_at(sizes_bytes[0])
    for low, high in pairwise(sizes_bytes):
        then, at = option_at(high), low
        while _key(then) != _key(option):  # several may change over between two sizes
            below, above, other = at, high, then
            while above - below > max(1, below * _SHARP):
                middle = (below + above) // 2
                found = option_at(middle)
                if _key(found) == _key(option):
                    below = middle
                else:
                    above, other = middle, found
            made.append(SizeRange(start, above - 1, option))
            start, option, at = above, other, above
    return (*made, SizeRange(start, sizes_bytes[-1], option))


def _key(option: OptionTime) -> tuple[object, object]:
    return option.algorithm, option.protocol


def tuner_csv(
    op: Collective, system: CollectiveSystem, ranges: Sequence[SizeRange], notes: Iterable[str] = ()
) -> str:
    """Return the configuration of NCCL's example tuner plugin for one operation.

    What NCCL picks by itself needs no tuner: the ranges are to be those of :func:`quickest`. The
    first range is taken down to 0 bytes and the last one up to the end; only communicators of
    the system's nodes and ranks match.

    Raises:
        InputError: an operation that the plugin does not know.
    """
    name = _TUNER_OPERATIONS.get(op)
    if name is None or any(item.option.algorithm is None for item in ranges):
        allowed = ", ".join(known.value for known in _TUNER_OPERATIONS)
        raise InputError(
            f"--export-tuner: NCCL's tuner chooses nothing for {op.value}; allowed: {allowed}"
        )
    lines = [
        f"# {system.describe()}",
        *(f"# {note}" for note in notes),
        "# Load with NCCL_TUNER_PLUGIN and NCCL_TUNER_CONFIG_FILE; NCCL_DEBUG=INFO shows what is",
        "# applied. Channels -1 leaves their number to the library: make sure that your build of",
        "# the plugin does so, as some start from 1 channel.",
        "# colltype,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff",
    ]
    for number, item in enumerate(ranges):
        first = 0 if number == 0 else item.first_bytes
        last = _NO_END if number == len(ranges) - 1 else item.last_bytes
        algorithm, protocol = _csv_names(item.option)
        lines.append(
            f"{name},{first},{last},{algorithm},{protocol},-1,{system.domains},{system.ranks},-1,-1"
        )
    return "\n".join(lines) + "\n"


def _csv_names(option: OptionTime) -> tuple[str, str]:
    """Return algorithm and protocol as the plugin spells them: ``nvls_tree``, ``ll128``."""
    algorithm = option.algorithm.name if option.algorithm else ""
    return algorithm.lower(), option.protocol.name.lower()


def environment_text(variables: Iterable[EnvironmentVariable]) -> str:
    """Return the variables in the form of ``nccl.conf``, each below its reason.

    Those whose value is not known stand behind ``#``.
    """
    import textwrap

    lines: list[str] = []
    for item in variables:
        lines += textwrap.wrap(item.reason, 78, initial_indent="# ", subsequent_indent="# ")
        lines.append(f"{'' if item.known else '#'}{item.name}={item.value}")
    return "\n".join(lines) + "\n" if lines else ""


def recommended_environment(
    built: BuiltDesign,
    system: CollectiveSystem,
    measured: MeasuredNetwork,
    nodes: npt.ArrayLike | None = None,
    *,
    tuner_file: str = "",
) -> tuple[EnvironmentVariable, ...]:
    """Return the variables that the design says or implies, most important first.

    Args:
        built: a built design.
        system: what the library sees of the ranks.
        measured: what the fabric leaves of the line rate; where hashing costs, more queue pairs
            are tried on the same fabric.
        nodes: the GPU node of each rank; None takes all GPUs.
        tuner_file: a tuner file that was written.
    """
    plane = built.design.planes.backend
    found: list[EnvironmentVariable] = []
    if system.network in ("infiniband", "rocev2"):
        found += _adapters(built)
    if system.network == "rocev2":
        found += _roce(built, plane)
    if system.network == "tcp" and system.domains > 1:
        found.append(
            EnvironmentVariable("NCCL_IB_DISABLE", "1", "the back-end is TCP: no RDMA to look for")
        )
    if system.network == "efa":
        found.append(
            EnvironmentVariable(
                "FI_PROVIDER",
                "efa",
                "the back-end adapters are EFA: libfabric's provider, below its plugin for NCCL",
            )
        )
    if system.network != "none":
        found += _queue_pairs(built, plane, measured, nodes)
        found += _topology(plane, system)
        found += _timeouts(built, plane)
    if system.in_network:
        found.append(
            EnvironmentVariable(
                "NCCL_COLLNET_ENABLE", "1", "SHARP is wanted on the back-end: lets CollNet run"
            )
        )
    found += _channels(built)
    found += _bootstrap(built, system)
    if tuner_file:
        found.append(
            EnvironmentVariable(
                "NCCL_TUNER_CONFIG_FILE", tuner_file, "the choice by size that was written there"
            )
        )
    return tuple(found)


def _version(built: BuiltDesign) -> tuple[int, ...] | None:
    text = built.design.software.nccl
    parts = (text or "").split(".")
    return tuple(int(part) for part in parts) if all(p.isdigit() for p in parts) else None


def _groups(built: BuiltDesign) -> list[ServerGroup]:
    return [group for group in built.design.cluster.servers if group.model is not None]


def _adapters(built: BuiltDesign) -> list[EnvironmentVariable]:
    """Return which adapters the library is to use, where servers have others as well."""
    catalog = built.document.catalog
    for group in _groups(built):
        server = catalog.server(group.model or "")
        mine = server.nics.get("backend")
        if mine is None:
            continue
        device = _DEVICES.get(catalog.nic(mine.nic).vendor, "")
        others = [
            role
            for role, nics in server.nics.items()
            if role != "backend" and _DEVICES.get(catalog.nic(nics.nic).vendor) == device
        ]
        count = group.nics or mine.count
        if device and not others:
            reason = f"the {count} back-end adapters are the only {device} devices of a server"
            return [EnvironmentVariable("NCCL_IB_HCA", device, reason)]
        if device:
            reason = (
                f"only the {count} back-end adapters: those of {' and '.join(others)} are {device} "
                "devices too, and NCCL would use them; ibdev2netdev names them"
            )
            value = f"=<the {count} back-end {device} devices, with commas>"
            return [EnvironmentVariable("NCCL_IB_HCA", value, reason, known=False)]
    return []


def _roce(built: BuiltDesign, plane: Plane) -> list[EnvironmentVariable]:
    """Return GID and traffic class: what RoCE needs that InfiniBand does not."""
    found: list[EnvironmentVariable] = []
    version = _version(built)
    if version is None or version < (2, 21):
        found.append(
            EnvironmentVariable(
                "NCCL_IB_GID_INDEX",
                "3",
                "RoCEv2 over IPv4 is usually the GID of index 3 (show_gids tells); from NCCL 2.21 "
                "on the library finds it by itself",
            )
        )
    classes = classes_of(plane.congestion, Transport.ROCEV2)
    lossless = [dscp for dscp in range(64) if classes.is_lossless(dscp)]
    dscp = ROCE_DSCP if not lossless or ROCE_DSCP in lossless else lossless[0]
    what = f"lossless priority {classes.priority(dscp)}" if lossless else "the RoCE queue"
    found.append(
        EnvironmentVariable(
            "NCCL_IB_TC",
            str(dscp << 2),
            f"DSCP {dscp} (× 4: the low two bits are ECN's), which the switches of the design put "
            f"into {what}; without it packets carry DSCP 0",
        )
    )
    scheme = plane.routing.scheme
    if scheme in _REORDERING:
        found.append(
            EnvironmentVariable(
                "NCCL_IB_ADAPTIVE_ROUTING",
                "1",
                f"routing {scheme.value}: packets take many ways; on RoCE the library does not "
                "expect that by itself",
            )
        )
    return found


def _queue_pairs(
    built: BuiltDesign, plane: Plane, measured: MeasuredNetwork, nodes: npt.ArrayLike | None
) -> list[EnvironmentVariable]:
    """Return how many queue pairs a connection has: the design's, or more where hashing costs."""
    stated = plane.routing.queue_pairs
    count, reason = stated, f"the design's routing.queue_pairs is {stated}"
    before = measured.part
    hashed = built.routing().planes[PlaneId.BACKEND].scheme in _HASHED
    if hashed and before.ring_share < _COLLIDES and stated < _TRIED_QUEUE_PAIRS:
        after = measure_network(
            built, nodes, engine="analytic", queue_pairs=_TRIED_QUEUE_PAIRS
        ).part
        if after.ring_share > before.ring_share * 1.02:
            count = _TRIED_QUEUE_PAIRS
            reason = (
                f"flows collide: rings reach {before.ring_share:.0%} of the line rate with "
                f"{counted(stated, 'queue pair')}, {after.ring_share:.0%} with "
                f"{count} on the same fabric and seed"
            )
    if count == 1:
        return []
    return [
        EnvironmentVariable("NCCL_IB_QPS_PER_CONNECTION", str(count), reason),
        EnvironmentVariable(
            "NCCL_IB_SPLIT_DATA_ON_QPS",
            "1",
            f"each message is cut over the {count} queue pairs, as assumed here",
        ),
    ]


def _topology(plane: Plane, system: CollectiveSystem) -> list[EnvironmentVariable]:
    """Return whether a ring may change its NIC on the way."""
    if system.domains < 2 or system.nics_per_domain < 2:
        return []
    if plane.topology in _RAILS:
        reason = f"topology {plane.topology.value}: rings and trees keep to their rail"
        return [EnvironmentVariable("NCCL_CROSS_NIC", "0", reason)]
    if plane.topology in (Topology.STAR, Topology.MULTI_ZONE) or plane.top_of_rack:
        reason = "all adapters of a server are on one leaf: crossing over costs nothing there"
        return [EnvironmentVariable("NCCL_CROSS_NIC", "1", reason)]
    return []


def _timeouts(built: BuiltDesign, plane: Plane) -> list[EnvironmentVariable]:
    """Return the verbs' timer and retries where the design wants others than the library."""
    spec, version = plane.congestion, _version(built)
    if spec is None or plane.transport is Transport.TCP:
        return []
    usual = 18 if version is not None and version < (2, 23) else 20
    found: list[EnvironmentVariable] = []
    if spec.timeout != usual:
        found.append(
            EnvironmentVariable(
                "NCCL_IB_TIMEOUT",
                str(spec.timeout),
                f"the design's congestion.timeout: 4.096 us × 2^{spec.timeout} = "
                f"{4.096e-6 * 2**spec.timeout:.3g} s before a retry; the library's own is {usual}",
            )
        )
    if spec.retries != 7:
        found.append(
            EnvironmentVariable(
                "NCCL_IB_RETRY_CNT", str(spec.retries), "the design's congestion.retries"
            )
        )
    return found


def _channels(built: BuiltDesign) -> list[EnvironmentVariable]:
    """Return the channels that the design's jobs state, if they agree."""
    stated = {job.channels for job in built.design.jobs if job.channels is not None}
    if len(stated) != 1:
        return []
    count = str(stated.pop())
    return [
        EnvironmentVariable("NCCL_MIN_NCHANNELS", count, f"the design's jobs state {count}"),
        EnvironmentVariable("NCCL_MAX_NCHANNELS", count, "the same, as the upper bound"),
    ]


def _bootstrap(built: BuiltDesign, system: CollectiveSystem) -> list[EnvironmentVariable]:
    """Return the interface for connection set-up: never the back-end, where there is another."""
    planes = built.design.planes
    if system.domains < 2:
        return []
    for name in (PlaneName.FRONTEND, PlaneName.MANAGEMENT):
        if getattr(planes, name.value) is not None:
            return [
                EnvironmentVariable(
                    "NCCL_SOCKET_IFNAME",
                    f"=<interface of the {name.value} plane>",
                    f"ranks find each other over the {name.value} plane, which all servers share; "
                    "otherwise the library takes the first interface that is up",
                    known=False,
                )
            ]
    return []
