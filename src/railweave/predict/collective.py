"""What a collective takes on a cluster, and which algorithm and protocol the library picks for it.

The shape of the model is that of NCCL's tuner: time = latency + size / bandwidth for every
algorithm and protocol, with a term for the filling of pipelines. NCCL's own constants decide which
option runs; parameters fitted to published measurements say how long it takes. See
``docs/model/collective-model.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Collective
from railweave.errors import InputError
from railweave.predict._calibration_file import default_calibration
from railweave.predict._nccl_names import NcclAlgorithm, NcclProtocol
from railweave.predict._nccl_options import FabricShares, Option, options_of
from railweave.predict._nccl_parameters import Calibration, library_calibration
from railweave.predict._nccl_usable import DIRECT_OPERATIONS
from railweave.predict._nccl_words import why_best
from railweave.predict.system import CollectiveSystem
from railweave.provenance import Assumption, Certainty
from railweave.workload import bus_factor

__all__ = [
    "Calibration",
    "CollectiveChoice",
    "ExpectedBusbw",
    "NcclAlgorithm",
    "NcclProtocol",
    "NetworkPart",
    "OptionTime",
    "Term",
    "choose",
    "collective_time_s",
    "collective_times_s",
    "decided_by_library",
    "expected_busbw",
    "size_band",
]

F64 = npt.NDArray[np.float64]

#: nine of ten healthy clusters, were the residuals normal
BAND_SIGMAS: Final = 1.645
#: a band is never narrower: runs differ by as much
LEAST_SPREAD: Final = 0.03
#: of a class and size that no published table has
UNKNOWN_SPREAD: Final = 0.2
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class NetworkPart:
    """What the real fabric leaves of the NICs' line rate, and how long a message travels.

    Shares are of a domain's line rate (all NICs that its ranks use), for the slowest domain,
    between 0 and 1: what oversubscription, ECMP collisions and failures leave. ``latency_s`` is
    one way through cables and switches (not the NICs); None takes the class's usual one.
    """

    ring_share: float = 1.0
    tree_share: float = 1.0
    pairwise_share: float = 1.0
    latency_s: float | None = None
    engine: str = ""  #: how it was found: "flow", "packet", "analytic"; "" where not measured
    source: str = "full line rate, no fabric given"
    failed: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """One named part of a time: ``kind`` is "latency" or "transfer"."""

    name: str
    seconds: float
    formula: str
    kind: str = "latency"


@dataclass(frozen=True, slots=True)
class OptionTime:
    """One algorithm with one protocol.

    ``time_s`` = ``latency_s`` + ``transfer_s``. ``bus_Bps`` is the bus bandwidth it reaches at
    this size, ``peak_bus_Bps`` for an endless one, bound by ``bound``. ``library_s`` is what the
    library's own published constants alone give. An option that cannot be used has infinite times
    and the ``reason``.
    """

    algorithm: NcclAlgorithm | None  #: None: the operation has no algorithms (direct messages)
    protocol: NcclProtocol
    time_s: float
    latency_s: float
    transfer_s: float
    bus_Bps: float  # noqa: N815 - byte/s
    peak_bus_Bps: float  # noqa: N815
    bound: str
    terms: tuple[Term, ...] = ()
    usable: bool = True
    reason: str = ""
    library_s: float = float("inf")

    @property
    def name(self) -> str:
        """Name it as NCCL does: ``Ring/LL128``."""
        return f"{self.algorithm.value if self.algorithm else 'Direct'}/{self.protocol.value}"


@dataclass(frozen=True, slots=True)
class CollectiveChoice:
    """The options for one operation and size, the best of them, and why.

    ``busbw_Bps`` and ``algbw_Bps`` are the best option's, as nccl-tests defines them;
    ``busbw_low_Bps``…``busbw_high_Bps`` the band to expect of a healthy cluster, from the spread of
    the calibration's residuals for this size and network class.
    """

    system: CollectiveSystem
    op: Collective
    size_bytes: float
    ranks: int
    best: OptionTime
    options: tuple[OptionTime, ...]
    library: OptionTime  #: what the library's own constants alone would pick
    why: tuple[str, ...]
    algbw_Bps: float  # noqa: N815
    busbw_Bps: float  # noqa: N815
    busbw_low_Bps: float  # noqa: N815
    busbw_high_Bps: float  # noqa: N815
    network: NetworkPart
    assumptions: tuple[Assumption, ...] = ()

    @property
    def time_s(self) -> float:
        """Time of the best option."""
        return self.best.time_s


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedBusbw:
    """Bus bandwidths to expect by size, byte/s; nine of ten healthy clusters lie in the band."""

    sizes_bytes: F64
    low_Bps: F64  # noqa: N815
    expected_Bps: F64  # noqa: N815
    high_Bps: F64  # noqa: N815


@cache
def _library() -> Calibration:
    return library_calibration()


def decided_by_library(system: CollectiveSystem, op: Collective) -> bool:
    """Return whether NCCL's own constants decide which option runs.

    They do on NVIDIA GPUs inside a domain and over InfiniBand and RoCE. RCCL (AMD) and the
    plug-ins of EFA and TCP networks have tuners of their own, which are not known: there the
    option with the smallest predicted time is taken.
    """
    if op in DIRECT_OPERATIONS:
        return False
    return system.scale_up != "xgmi" and system.network in ("none", "infiniband", "rocev2")


def size_band(size_bytes: float) -> str:
    """Return the band of a size: "latency" below 1 MiB, "large" from 256 MiB on, else "middle"."""
    if size_bytes < _MIB:
        return "latency"
    return "middle" if size_bytes < 256 * _MIB else "large"


def _spread(system: CollectiveSystem, size_bytes: float, calibration: Calibration) -> float:
    """Return how far healthy systems stray from the prediction, as a standard deviation of ln."""
    known = calibration.spread.get(f"{system.network}/{size_band(size_bytes)}", UNKNOWN_SPREAD)
    return max(known, LEAST_SPREAD)


def _shares(network: NetworkPart | None) -> FabricShares:
    if network is None:
        return FabricShares()
    shares = (network.ring_share, network.tree_share, network.pairwise_share)
    if not all(share > 0 for share in shares):
        raise InputError(
            f"network part: shares of {shares} are not allowed; a share of 0 means that the ranks "
            "cannot reach each other: restore a path, or take those ranks out"
        )
    return FabricShares(*shares, network.latency_s)


def _require(system: CollectiveSystem, size_bytes: float) -> None:
    if system.ranks < 2:
        raise InputError("collective: 1 rank has nobody to talk to; give 2 or more")
    if not (math.isfinite(size_bytes) and size_bytes >= 0):
        raise InputError(f"size: {size_bytes:g} B is not allowed; give 0 or more")


def _candidates(
    options: tuple[Option, ...], algorithm: NcclAlgorithm | None, protocol: NcclProtocol | None
) -> list[int]:
    """Return the numbers of the options that can be used and were not ruled out."""
    wanted = [
        number
        for number, option in enumerate(options)
        if (algorithm is None or option.algorithm in (algorithm, None))
        and (protocol is None or option.algorithm is None or option.protocol is protocol)
    ]
    found = [number for number in wanted if not options[number].reason]
    if not found:
        asked = "/".join(each.value for each in (algorithm, protocol) if each is not None)
        allowed = sorted({_name(option) for option in options if not option.reason})
        reason = options[wanted[0]].reason if wanted else "there is no such option"
        raise InputError(f"{asked}: {reason}; allowed here: {', '.join(allowed)}")
    return found


def _name(option: Option) -> str:
    return f"{option.algorithm.value if option.algorithm else 'Direct'}/{option.protocol.value}"


def _pick(
    system: CollectiveSystem,
    op: Collective,
    size_bytes: float,
    options: tuple[Option, ...],
    numbers: list[int],
) -> tuple[int, int]:
    """Return the numbers of (the option that runs, the one NCCL's constants would pick)."""
    own = options_of(system, op, FabricShares(), _library())
    library = min(numbers, key=lambda number: own[number].time_s(size_bytes))
    if decided_by_library(system, op):
        return library, library
    return min(numbers, key=lambda number: options[number].time_s(size_bytes)), library


def choose(
    system: CollectiveSystem,
    op: Collective,
    size_bytes: float,
    *,
    network: NetworkPart | None = None,
    calibration: Calibration | None = None,
    algorithm: NcclAlgorithm | None = None,
    protocol: NcclProtocol | None = None,
) -> CollectiveChoice:
    """Return every option for an operation and size, the one that runs, and why.

    Args:
        system: the ranks and what joins them.
        op: operation.
        size_bytes: size as nccl-tests counts it (all-gather the receive buffer, reduce-scatter the
            send buffer, all-to-all one rank's buffer).
        network: what the real fabric leaves of the line rate; default: all of it.
        calibration: default: the one fitted to published measurements.
        algorithm: consider this one only, as NCCL_ALGO does.
        protocol: consider this one only, as NCCL_PROTO does.

    Raises:
        InputError: fewer than two ranks, a size out of range, or an algorithm or protocol that
            cannot be used here (the reason is given).
    """
    _require(system, size_bytes)
    cal = calibration or default_calibration()
    options = options_of(system, op, _shares(network), cal)
    numbers = _candidates(options, algorithm, protocol)
    chosen, library = _pick(system, op, size_bytes, options, numbers)
    own = options_of(system, op, FabricShares(), _library())
    factor = bus_factor(op, system.ranks)
    times = tuple(
        _option_time(option, each.time_s(size_bytes), size_bytes, factor)
        for option, each in zip(options, own, strict=True)
    )
    best = times[chosen]
    busbw = factor * size_bytes / best.time_s
    spread = _spread(system, size_bytes, cal)
    reach = math.exp(BAND_SIGMAS * spread)
    return CollectiveChoice(
        system=system,
        op=op,
        size_bytes=size_bytes,
        ranks=system.ranks,
        best=best,
        options=times,
        library=times[library],
        why=why_best(
            best,
            times,
            times[library],
            decided_by_library=decided_by_library(system, op),
            forced=algorithm is not None or protocol is not None,
        ),
        algbw_Bps=size_bytes / best.time_s,
        busbw_Bps=busbw,
        busbw_low_Bps=busbw / reach,
        busbw_high_Bps=busbw * reach,
        network=network or NetworkPart(),
        assumptions=_assumptions(system, op, cal, network, spread),
    )


@cache
def _unusable(algorithm: NcclAlgorithm | None, protocol: NcclProtocol, reason: str) -> OptionTime:
    never = float("inf")
    return OptionTime(
        algorithm=algorithm,
        protocol=protocol,
        time_s=never,
        latency_s=never,
        transfer_s=never,
        bus_Bps=0.0,
        peak_bus_Bps=0.0,
        bound="",
        usable=False,
        reason=reason,
    )


def _option_time(option: Option, library_s: float, size_bytes: float, factor: float) -> OptionTime:
    if option.reason:
        return _unusable(option.algorithm, option.protocol, option.reason)
    limit = option.binding
    filling = option.fill_at(size_bytes)
    moving = size_bytes / (limit.algbw_Bps * option.correction(size_bytes))
    terms = [Term(part.name, part.seconds, part.formula) for part in option.parts]
    if filling:
        formula = f"{option.fill_s * 1e6:.4g} µs × S/(S + {option.half_bytes / _MIB:.4g} MiB)"
        terms.append(Term("filling the pipeline", filling, formula, "transfer"))
    terms.append(
        Term("moving the bytes", moving, f"S / {limit.algbw_Bps / 1e9:.4g} GB/s", "transfer")
    )
    total = option.latency_s + filling + moving
    return OptionTime(
        algorithm=option.algorithm,
        protocol=option.protocol,
        time_s=total,
        latency_s=option.latency_s,
        transfer_s=filling + moving,
        bus_Bps=factor * size_bytes / total,
        peak_bus_Bps=factor * limit.algbw_Bps,
        bound=limit.name,
        terms=tuple(terms),
        library_s=library_s,
    )


def _assumptions(
    system: CollectiveSystem,
    op: Collective,
    calibration: Calibration,
    network: NetworkPart | None,
    spread: float,
) -> tuple[Assumption, ...]:
    said = [
        Assumption(
            "collective model",
            f"times by NCCL's tuning formulas with the calibration '{calibration.name}' "
            f"({calibration.points} points of {calibration.systems} systems); published systems of "
            f"this network class and size stray from it by {spread:.0%} (root mean square)",
            Certainty.ESTIMATED,
        )
    ]
    if not decided_by_library(system, op) and op not in DIRECT_OPERATIONS:
        said.append(
            Assumption(
                "choice of algorithm",
                "this network or library has a tuner of its own, which is not known: the option "
                "with the smallest predicted time is taken",
            )
        )
    if system.domains > 1 and network is None:
        said.append(
            Assumption(
                "network", "full line rate between domains: no oversubscription, collision or fault"
            )
        )
    if system.rank_count:
        said.append(
            Assumption(
                "uneven domains",
                f"{system.ranks} ranks in {system.domains} domains are reckoned as if each had "
                f"{system.ranks_per_domain}",
            )
        )
    return tuple(said) + (network.assumptions if network else ())


def collective_time_s(
    system: CollectiveSystem,
    op: Collective,
    size_bytes: float,
    *,
    network: NetworkPart | None = None,
    calibration: Calibration | None = None,
    algorithm: NcclAlgorithm | None = None,
    protocol: NcclProtocol | None = None,
) -> float:
    """Return the time of the option that runs, 0 for a single rank; see :func:`choose`."""
    if system.ranks == 1:
        return 0.0
    _require(system, size_bytes)
    options = options_of(system, op, _shares(network), calibration or default_calibration())
    numbers = _candidates(options, algorithm, protocol)
    chosen, _ = _pick(system, op, size_bytes, options, numbers)
    return options[chosen].time_s(size_bytes)


def collective_times_s(
    system: CollectiveSystem,
    op: Collective,
    sizes_bytes: npt.ArrayLike,
    *,
    network: NetworkPart | None = None,
    calibration: Calibration | None = None,
    algorithm: NcclAlgorithm | None = None,
    protocol: NcclProtocol | None = None,
) -> F64:
    """Return the times for many sizes, in the shape of ``sizes_bytes``; see :func:`choose`."""
    sizes = np.asarray(sizes_bytes, dtype=np.float64)
    if system.ranks == 1:
        return np.zeros(sizes.shape)
    if sizes.size:
        _require(system, float(sizes.min()))
        _require(system, float(sizes.max()))
    options = options_of(system, op, _shares(network), calibration or default_calibration())
    numbers = _candidates(options, algorithm, protocol)
    times = np.stack([options[number].times_s(sizes) for number in numbers])
    decides = times
    if decided_by_library(system, op):
        own = options_of(system, op, FabricShares(), _library())
        decides = np.stack([own[number].times_s(sizes) for number in numbers])
    picked: F64 = np.take_along_axis(times, np.argmin(decides, axis=0)[None], axis=0)[0]
    return picked


def expected_busbw(
    system: CollectiveSystem,
    op: Collective,
    sizes_bytes: npt.ArrayLike,
    *,
    network: NetworkPart | None = None,
    calibration: Calibration | None = None,
) -> ExpectedBusbw:
    """Return the bus bandwidths a healthy cluster shows, with the band around them.

    The band is the spread of the calibration's residuals for the network class and size.

    Raises:
        InputError: as :func:`choose`; a size of 0 has no bandwidth.
    """
    cal = calibration or default_calibration()
    sizes = np.atleast_1d(np.asarray(sizes_bytes, dtype=np.float64))
    if system.ranks < 2 or (sizes.size and sizes.min() <= 0):
        raise InputError("busbw: needs 2 ranks or more and sizes above 0 B")
    times = collective_times_s(system, op, sizes, network=network, calibration=cal)
    expected = bus_factor(op, system.ranks) * sizes / times
    spread = np.array([_spread(system, float(size), cal) for size in sizes])
    reach = np.exp(BAND_SIGMAS * spread)
    return ExpectedBusbw(sizes, expected / reach, expected, expected * reach)
