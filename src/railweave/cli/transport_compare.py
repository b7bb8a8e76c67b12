"""``railweave transport compare``: which technology for the back-end, by engines and facts."""

from __future__ import annotations

import textwrap
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from railweave.cli._options import Fail, Json
from railweave.cli._output import print_json, print_table, print_text
from railweave.errors import InputError

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.transport.compare import CompareCase, Comparison, Requirements

__all__ = ["register"]

_WIDTH: Final = 80


class Workload(StrEnum):
    """What the cluster is for."""

    TRAINING = "training"
    INFERENCE = "inference"
    MIXED = "mixed"


class Team(StrEnum):
    """What the network team knows."""

    ETHERNET = "ethernet"
    INFINIBAND = "infiniband"
    BOTH = "both"
    NEITHER = "neither"


class Need(StrEnum):
    """How much something is needed."""

    ANY = "any"
    PREFERRED = "preferred"
    REQUIRED = "required"


class Encryption(StrEnum):
    """Whether traffic must be encrypted."""

    ANY = "any"
    PREFERRED = "preferred"
    REQUIRED = "required"
    TLS = "tls"


class Reach(StrEnum):
    """How far the network goes."""

    HALL = "hall"
    CAMPUS = "campus"
    ROUTED = "routed"


class Budget(StrEnum):
    """What may be spent."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Shape(StrEnum):
    """Topologies of a made-up cluster."""

    RAIL_OPTIMIZED = "rail-optimized"
    LEAF_SPINE = "leaf-spine"
    FAT_TREE = "fat-tree"


DesignOption = Annotated[
    Path | None,
    typer.Option("--design", help="Design whose cluster and collectives are taken."),
]
Gpus = Annotated[
    int | None, typer.Option("--gpus", min=1, help="GPUs of a made-up cluster. Default 128.")
]
Server = Annotated[
    str | None,
    typer.Option("--server", help="Its servers, from the catalog. Default hgx-h100-8gpu."),
]
Speed = Annotated[
    str | None, typer.Option("--speed", help="Its NICs' speed. Default: the server's.")
]
Ratio = Annotated[
    str | None, typer.Option("--oversubscription", help="Of its leaves, such as 2:1. Default 1:1.")
]
ShapeOption = Annotated[
    Shape | None, typer.Option("--topology", help="Of its back-end. Default rail-optimized.")
]
WorkloadOption = Annotated[
    Workload,
    typer.Option("--workload", help="What it is for: sets collectives and default weights."),
]
Mix = Annotated[
    str | None,
    typer.Option(
        "--mix",
        help="Large collectives, each operation:size:share, by commas:"
        " all-reduce:256MiB:0.7,all-to-all:64MiB:0.3; shares count by their sum."
        " Default: the design's, or the workload's.",
    ),
]
Small = Annotated[
    str | None,
    typer.Option("--small", help="Small collective. Default all-reduce/tree:64KiB."),
]
Ranks = Annotated[
    int | None,
    typer.Option("--ranks", min=2, help="GPUs that take part. Default: all, at most 256."),
]
QueuePairs = Annotated[
    int,
    typer.Option(
        "--queue-pairs", min=1, help="Of a RoCEv2 connection, where it is not the design's own."
    ),
]
Loss = Annotated[float, typer.Option("--loss", help="Chance of a packet on the lossy cable.")]
Cores = Annotated[
    int | None,
    typer.Option("--cores", min=1, help="Of one server. Default: 56 for each socket."),
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="Fewer GPUs (64) and packets on the lossy cable, without the library's model.",
    ),
]
TeamOption = Annotated[Team, typer.Option("--team", help="What the network team knows.")]
Vendors = Annotated[
    Need, typer.Option("--vendors", help="Several makers of switches and adapters.")
]
Automation = Annotated[
    bool, typer.Option("--automation", help="Ethernet automation is there already.")
]
Tenancy = Annotated[Need, typer.Option("--tenancy", help="Tenants share the back-end.")]
EncryptionOption = Annotated[
    Encryption, typer.Option("--encryption", help="Of the traffic; tls: by TLS and nothing else.")
]
ReachOption = Annotated[
    Reach, typer.Option("--reach", help="One hall, a campus, or routed over IP between sites.")
]
BudgetOption = Annotated[Budget, typer.Option("--budget", help="What may be spent.")]
MaxPower = Annotated[
    str | None,
    typer.Option("--max-power", help="Of switches and adapters together, such as '30 kW'."),
]
Weight = Annotated[
    list[str] | None,
    typer.Option(
        "--weight",
        metavar="NAME=0..10",
        help="Weight of a criterion, in place of the default; may be repeated: latency=8.",
    ),
]
Facts = Annotated[
    bool, typer.Option("--facts", help="Also every statement, the arithmetic and the sources.")
]
Store = Annotated[
    Path | None,
    typer.Option("--store", help="Folder of measurements: what is kept there is not done again."),
]
Html = Annotated[Path | None, typer.Option("--html", help="File for the report, one page.")]


# ---------------------------------------------------------------- what is asked


def _cluster(design: Path | None, made_up: dict[str, Any]) -> BuiltDesign:
    """Build the design, or a cluster as its options say."""
    import railweave
    from railweave.design.models import Topology
    from railweave.transport.compare import synthetic_design

    if design is not None:
        stated = [name for name, value in made_up.items() if value is not None]
        if stated:
            raise InputError(
                f"--{stated[0]} speaks of a made-up cluster, and --design names one; "
                "leave one of the two out"
            )
        return railweave.load(design).build()
    shape = made_up["topology"]
    text = synthetic_design(
        made_up["gpus"] or 128,
        server=made_up["server"] or "hgx-h100-8gpu",
        speed=made_up["speed"] or "",
        oversubscription=_ratio(made_up["oversubscription"]),
        topology=Topology(shape.value) if shape else Topology.RAIL_OPTIMIZED,
    )
    return railweave.parse(text, "made-up cluster", files=False).build()


def _ratio(text: str | None) -> float:
    if text is None:
        return 1.0
    whole, _, part = text.partition(":")
    try:
        value = float(whole) / float(part or 1)
    except (ValueError, ZeroDivisionError):
        value = 0.0
    if not 0 < value <= 1000:
        raise InputError(f"--oversubscription {text}: not a ratio; allowed: 2:1, 1.85")
    return value


def _case(built: BuiltDesign, workload: Workload, given: dict[str, Any]) -> CompareCase:
    from railweave.transport.compare import case_of, parse_mix

    more = {name: value for name, value in given.items() if value is not None}
    if "mix" in more:
        more["mix"] = parse_mix(more["mix"])
    if "small" in more:
        small = parse_mix(more["small"])
        if len(small) != 1:
            raise InputError(f"--small {given['small']}: name one collective")
        more["small"] = small[0]
    return case_of(built, workload.value, **more)


def _weights(texts: list[str] | None) -> dict[str, float]:
    found = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError(f"--weight {text}: not read; allowed: name=number, such as latency=8")
    return found


# ---------------------------------------------------------------- what is answered


def _tell(found: Comparison, *, facts: bool) -> None:
    from railweave.report.transport_compare import (
        answer_table,
        arithmetic_table,
        host_table,
        measured_table,
        not_modelled,
        score_table,
        sensitivity_table,
        sources_table,
        stated_table,
    )

    tables = [answer_table, measured_table, score_table, sensitivity_table]
    for table in tables:
        print_table(table(found))
        print_text("")
    if facts:
        for full in (stated_table(found), arithmetic_table(found), host_table(), sources_table()):
            print_table(full)
            print_text("")
    print_text("Recommendation", style="bold")
    _wrapped(found.reasons)
    if found.benchmarks:
        print_text("")
        print_text("Benchmark first", style="bold")
        _wrapped(f"{place}. {text}" for place, text in enumerate(found.benchmarks, 1))
    print_text("")
    print_text("What it rests on", style="bold")
    _wrapped(not_modelled(found))


def _wrapped(lines: Any) -> None:  # noqa: ANN401 - any lines
    for line in lines:
        text = textwrap.fill(line, _WIDTH, subsequent_indent="   ", break_on_hyphens=False)
        print_text(text)


def _answer(
    built: BuiltDesign, case: CompareCase, asked: Requirements, store: Path | None, quiet: bool
) -> Comparison:
    from railweave.cli._progress import progress
    from railweave.transport.compare import judge, measured_once, weights_of

    weights_of(asked)  # refuses what cannot be weighed before anything is measured
    with progress(quiet=quiet) as step:
        found = measured_once(built, case, store, progress=step)
    return judge(asked, found)


def register(group: typer.Typer) -> None:
    """Add the command to the group of transports."""

    @group.command()
    def compare(  # noqa: PLR0917 - the options of a command
        design: DesignOption = None,
        gpus: Gpus = None,
        server: Server = None,
        speed: Speed = None,
        oversubscription: Ratio = None,
        topology: ShapeOption = None,
        workload: WorkloadOption = Workload.TRAINING,
        mix: Mix = None,
        small: Small = None,
        ranks: Ranks = None,
        fail: Fail = None,
        queue_pairs: QueuePairs = 1,
        loss: Loss = 1e-3,
        cores: Cores = None,
        quick: Quick = False,
        team: TeamOption = Team.ETHERNET,
        vendors: Vendors = Need.ANY,
        automation: Automation = False,
        tenancy: Tenancy = Need.ANY,
        encryption: EncryptionOption = Encryption.ANY,
        reach: ReachOption = Reach.HALL,
        budget: BudgetOption = Budget.MEDIUM,
        max_power: MaxPower = None,
        weight: Weight = None,
        facts: Facts = False,
        store: Store = None,
        html: Html = None,
        json: Json = False,
    ) -> None:
        """Ethernet/TCP, RoCEv2, InfiniBand and adaptive Ethernet, measured, scored and weighed.

        The engines run the same collectives, bursts and faults on the same cluster with each of
        them; the rest is stated, with sources. It ends in a recommendation and what would turn it;
        exit code 1 where none of the four meets every requirement.

        Example: railweave transport compare --gpus 256 --workload inference --team ethernet
        """
        from railweave.formats.files import require_folder
        from railweave.transport.compare import Requirements
        from railweave.units import parse_watts

        if html is not None:
            require_folder(html.parent)
        asked = Requirements(
            workload=workload.value,
            team=team.value,
            vendors=vendors.value,
            automation=automation,
            tenancy=tenancy.value,
            encryption=encryption.value,
            reach=reach.value,
            budget=budget.value,
            max_power_w=None if max_power is None else parse_watts(max_power),
            weights=_weights(weight),
        )
        made_up = {
            "gpus": gpus,
            "server": server,
            "speed": speed,
            "oversubscription": oversubscription,
            "topology": topology,
        }
        built = _cluster(design, made_up).fail(fail or ())
        given = {
            "mix": mix,
            "small": small,
            "ranks": ranks,
            "queue_pairs": queue_pairs,
            "loss": loss,
            "cores": cores,
            "quick": quick,
        }
        found = _answer(built, _case(built, workload, given), asked, store, json)
        _hand_out(found, html, facts=facts, json=json)
        if found.winner is None:
            raise typer.Exit(1)


def _hand_out(found: Comparison, html: Path | None, *, facts: bool, json: bool) -> None:
    """Write the page where it is wanted and say what was found."""
    from railweave.report.transport_compare import compare_json, write_compare

    page = None if html is None else write_compare(found, html)
    if json:
        print_json(compare_json(found))
        return
    _tell(found, facts=facts)
    if page is not None:
        print_text(f"Report: {page}")
