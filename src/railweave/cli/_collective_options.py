"""Options of ``railweave collective``, and what is read from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from railweave.cli._options import EngineName
from railweave.design.models import Algorithm, Collective, PlacementName
from railweave.errors import InputError, UnitError

if TYPE_CHECKING:
    from railweave.predict.collective import NcclAlgorithm, NcclProtocol

__all__ = [
    "DEFAULT_BANDWIDTH",
    "DEFAULT_RANKS",
    "DEFAULT_SIZE",
    "Bandwidth",
    "Calibrate",
    "CalibrationFile",
    "DesignOption",
    "EngineOption",
    "Environment",
    "Explain",
    "ExportTuner",
    "Factor",
    "Latency",
    "Only",
    "Operation",
    "Out",
    "Placement",
    "Ranks",
    "RanksPerServer",
    "Save",
    "Schedule",
    "Sharp",
    "SizeText",
    "Validate",
    "read_only",
    "read_sizes",
]

DEFAULT_BANDWIDTH: Final = "400 Gb/s"
DEFAULT_RANKS: Final = 8
DEFAULT_SIZE: Final = "1 GiB"
_DEFAULT_FACTOR: Final = 2
_MOST_SIZES: Final = 256

Operation = Annotated[
    Collective | None,
    typer.Argument(metavar="[OP]", help="The operation; not needed to calibrate or validate."),
]
SizeText = Annotated[
    str,
    typer.Option("--size", help="Bytes, such as 1GiB; or a range with --design: 1MiB..16GiB."),
]
Factor = Annotated[
    int | None,
    typer.Option("--factor", min=2, help="Between the sizes of a range. Default 2."),
]
Ranks = Annotated[
    int | None,
    typer.Option(
        "--ranks", min=2, help=f"Ranks; default {DEFAULT_RANKS}, or all GPUs of the design."
    ),
]
Schedule = Annotated[
    Algorithm | None,
    typer.Option(
        "--algorithm",
        help="Schedule to simulate. Default: ring; direct for all-to-all and send-recv.",
    ),
]
Bandwidth = Annotated[
    str | None,
    typer.Option(
        "--bandwidth", help=f"Of one rank, one way; not with --design. Default {DEFAULT_BANDWIDTH}."
    ),
]
Latency = Annotated[
    str | None,
    typer.Option("--latency", help="Of one message; not with --design. Default 0 s."),
]
RanksPerServer = Annotated[
    int | None,
    typer.Option(
        "--ranks-per-server",
        min=1,
        help="For hierarchical and rail-aligned; not with --design. Default 1.",
    ),
]
DesignOption = Annotated[
    Path | None, typer.Option("--design", help="Run it on this design's fabric.")
]
Placement = Annotated[
    PlacementName | None,
    typer.Option("--placement", help="Of the ranks; with --design. Default packed."),
]
EngineOption = Annotated[
    EngineName | None,
    typer.Option("--engine", help="With --design; measures the network. Default flow."),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain", help="What each algorithm and protocol would take, and why the winner won."
    ),
]
Only = Annotated[
    str | None,
    typer.Option(
        "--only",
        metavar="ALGO[/PROTO]",
        help="Only this one, named as in NCCL_ALGO and NCCL_PROTO: Ring, Tree/LL128, NVLS.",
    ),
]
Sharp = Annotated[
    bool, typer.Option("--sharp", help="The back-end's switches add up (SHARP; InfiniBand).")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for collective.html (figures) and collective.csv."),
]
ExportTuner = Annotated[
    Path | None,
    typer.Option("--export-tuner", metavar="FILE", help="Write the choice for NCCL's tuner (CSV)."),
]
Environment = Annotated[
    bool,
    typer.Option("--env", help="Environment variables that the design implies, with reasons."),
]
CalibrationFile = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE", help="Use this calibration (see --save)."),
]
Calibrate = Annotated[
    list[Path] | None,
    typer.Option(
        "--calibrate",
        metavar="FILE",
        help="Fit to your nccl-tests output from the cluster of --design; may be repeated.",
    ),
]
Save = Annotated[
    Path | None,
    typer.Option("--save", metavar="FILE", help="Keep the calibration that --calibrate finds."),
]
Validate = Annotated[
    bool, typer.Option("--validate", help="Compare with published results of nccl-tests.")
]


def read_sizes(text: str, factor: int | None) -> list[int]:
    """Return the sizes of ``--size``: one, or those of a range from its start on.

    Raises:
        InputError: no size, a range that is empty or whose end is below its start, a factor without
            a range.
    """
    from railweave.units import parse_bytes

    ends = [part.strip() for part in text.split("..")]
    if len(ends) > 2 or not all(ends):
        raise InputError(
            f"--size {text}: is no range; write the smallest and the largest: 1MiB..16GiB"
        )
    try:
        sizes = [parse_bytes(part) for part in ends]
    except UnitError as error:
        raise InputError(f"--size {text}: {error}") from None
    if min(sizes) < 1:
        raise InputError(f"--size {text}: nothing to send; give 1 B or more")
    if len(sizes) == 1:
        if factor is not None:
            raise InputError("--factor speaks of a range of sizes; write --size 1MiB..16GiB")
        return sizes
    first, last = sizes
    if first > last:
        raise InputError(
            f"--size {text}: ends before it starts; did you mean {ends[1]}..{ends[0]}?"
        )
    found: list[int] = []
    while first <= last and len(found) < _MOST_SIZES:
        found.append(first)
        first *= factor or _DEFAULT_FACTOR
    return found


def read_only(text: str | None) -> tuple[NcclAlgorithm | None, NcclProtocol | None]:
    """Return algorithm and protocol of ``--only``: ``Tree/LL128``, ``nvls``, ``/Simple``.

    Raises:
        InputError: a name that NCCL does not have.
    """
    from railweave.predict.collective import NcclAlgorithm, NcclProtocol

    if text is None:
        return None, None
    first, _, second = text.partition("/")
    algorithm = next((a for a in NcclAlgorithm if a.value.lower() == first.strip().lower()), None)
    protocol = next((p for p in NcclProtocol if p.value.lower() == second.strip().lower()), None)
    if (first.strip() and algorithm is None) or (second.strip() and protocol is None):
        raise InputError(
            f"--only {text}: is no algorithm and protocol of NCCL; allowed: "
            f"{', '.join(a.value for a in NcclAlgorithm)}, each alone or with / and "
            f"{', '.join(p.value for p in NcclProtocol)}"
        )
    return algorithm, protocol
