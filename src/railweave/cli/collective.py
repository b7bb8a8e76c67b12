"""``railweave collective``: volume, steps and time of one collective, with or without a fabric.

Over a range of sizes on a design, or with an option that asks for it, the answer is what NCCL would
choose and reach (:mod:`railweave.cli._collective_choice`).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from railweave.cli._collective_options import (
    DEFAULT_BANDWIDTH,
    DEFAULT_RANKS,
    DEFAULT_SIZE,
    Bandwidth,
    Calibrate,
    CalibrationFile,
    DesignOption,
    EngineOption,
    Environment,
    Explain,
    ExportTuner,
    Factor,
    Latency,
    Only,
    Operation,
    Out,
    Placement,
    Ranks,
    RanksPerServer,
    Save,
    Schedule,
    Sharp,
    SizeText,
    Validate,
    read_only,
    read_sizes,
)
from railweave.cli._options import EngineName, Fail, Json
from railweave.cli._output import print_json, print_text
from railweave.design.models import Algorithm, Collective, PlacementName
from railweave.errors import InputError

if TYPE_CHECKING:
    from railweave.engine.analytic import AnalyticResult
    from railweave.report.record import JobOutcome

__all__ = ["register"]


def _tell_alone(result: AnalyticResult, bandwidth: str) -> None:
    """Print what the closed form says."""
    from railweave.units import format_bytes, format_seconds

    sent = result.bytes_sent_per_rank
    print_text(
        f"{result.op.value} ({result.algorithm.value}) over {result.ranks:,} ranks, "
        f"{format_bytes(result.size_bytes)} at {bandwidth}",
        style="bold",
    )
    for name, value in (
        ("sent by each rank", f"{format_bytes(sent)} ({sent:,.0f} B)"),
        ("steps", f"{result.steps}"),
        ("time", format_seconds(result.time_s)),
        ("algbw", f"{result.algbw_Bps / 1e9:.4g} GB/s"),
        ("busbw", f"{result.busbw_Bps / 1e9:.4g} GB/s"),
        ("lower bound", format_seconds(result.lower_bound_s)),
        ("formula", result.explanation.formula),
    ):
        print_text(f"  {name:<19} {value}")


def _tell_outcome(outcome: JobOutcome, design: Path, engine: EngineName) -> None:
    """Print what came out on a fabric."""
    from railweave.units import format_bytes, format_seconds

    print_text(
        f"{outcome.what} ({outcome.algorithm}) over {outcome.ranks:,} ranks, "
        f"{format_bytes(outcome.size_bytes)} on {design}",
        style="bold",
    )
    for name, value in (
        (f"time ({engine.value})", format_seconds(outcome.time_s)),
        ("closed form", format_seconds(outcome.analytic_s)),
        ("algbw", f"{outcome.algbw_Bps / 1e9:.4g} GB/s"),
        ("busbw", f"{outcome.busbw_Bps / 1e9:.4g} GB/s"),
        (
            "bytes stay",
            f"{outcome.share_server:.1%} in the server, {outcome.share_leaf:.1%} under a leaf, "
            f"{outcome.share_spine:.1%} cross a spine, {outcome.share_core:.1%} a core",
        ),
    ):
        print_text(f"  {name:<19} {value}")


def _alone(
    operation: Collective,
    sizes: list[int],
    *,
    ranks: int | None,
    algorithm: Algorithm | None,
    bandwidth: str | None,
    latency: str | None,
    ranks_per_server: int | None,
    json: bool,
) -> None:
    """Print what the closed forms say, without a fabric."""
    from railweave.engine.analytic import collective_time
    from railweave.units import parse_bps, parse_seconds

    results = [
        collective_time(
            operation,
            algorithm,
            DEFAULT_RANKS if ranks is None else ranks,
            size,
            parse_bps(bandwidth or DEFAULT_BANDWIDTH),
            parse_seconds(latency or "0 s"),
            ranks_per_server=ranks_per_server or 1,
        )
        for size in sizes
    ]
    documents = [_document(result, bandwidth or DEFAULT_BANDWIDTH) for result in results]
    said = bandwidth or f"an assumed {DEFAULT_BANDWIDTH}"
    if json:
        print_json(documents[0] if len(documents) == 1 else documents)
    elif len(results) == 1:
        _tell_alone(results[0], said)
    else:
        _tell_sizes(results, said)


def _tell_sizes(results: list[AnalyticResult], bandwidth: str) -> None:
    """Print what the closed form says over sizes, in the layout of nccl-tests."""
    from railweave.formats.nccl_tests import NcclTestRow, write_nccl_tests

    first = results[0]
    rows = [
        NcclTestRow(
            op=result.op.value,
            ranks=result.ranks,
            size_bytes=round(result.size_bytes),
            time_s=result.time_s,
            algbw_Bps=result.algbw_Bps,
            busbw_Bps=result.busbw_Bps,
            in_place=False,
        )
        for result in results
    ]
    title = (
        f"closed form: {first.op.value} ({first.algorithm.value}), {first.ranks:,} ranks at "
        f"{bandwidth}",
    )
    print_text(write_nccl_tests(rows, title=title).rstrip())


def _on_fabric(
    operation: Collective,
    size_bytes: int,
    design: Path,
    *,
    fail: list[str] | None,
    ranks: int | None,
    algorithm: Algorithm | None,
    placement: PlacementName,
    engine: EngineName,
    json: bool,
) -> None:
    """Simulate one collective on a design's fabric."""
    from railweave.api import load

    outcome = (
        load(design)
        .build()
        .fail(fail or ())
        .collective(
            operation,
            size_bytes,
            ranks=ranks,
            algorithm=algorithm,
            placement=placement,
            engine=engine.value,
        )
    )
    if json:
        print_json(_fabric_document(operation, engine, outcome))
    else:
        _tell_outcome(outcome, design, engine)


def _against_measured(
    files: list[Path],
    design: Path | None,
    *,
    validate: bool,
    save: Path | None,
    given: Path | None,
    explain: bool,
    json: bool,
) -> None:
    """Compare with published results, or calibrate with own ones."""
    from railweave.cli._collective_calibrate import calibrate_design, validate_published

    if not validate:
        calibrate_design(files, design, given=given, save=save, explain=explain, json=json)
        return
    _refuse(
        {"--calibrate": files or None, "--save": save, "--design": design},
        "of no use with --validate, which compares with published results; leave it out",
    )
    validate_published(given, explain=explain, json=json)


def _refuse(wrong: dict[str, Any], sentence: str) -> None:
    """Refuse options that were given where they would do nothing.

    Raises:
        InputError: naming them.
    """
    given = [name for name, value in wrong.items() if value not in (None, False, [])]
    if given:
        raise InputError(f"{' and '.join(given)}: {sentence}")


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def collective(  # noqa: PLR0917 - the options of a command
        operation: Operation = None,
        size: SizeText = DEFAULT_SIZE,
        factor: Factor = None,
        ranks: Ranks = None,
        algorithm: Schedule = None,
        bandwidth: Bandwidth = None,
        latency: Latency = None,
        ranks_per_server: RanksPerServer = None,
        design: DesignOption = None,
        placement: Placement = None,
        engine: EngineOption = None,
        fail: Fail = None,
        explain: Explain = False,
        only: Only = None,
        sharp: Sharp = False,
        out: Out = None,
        export_tuner: ExportTuner = None,
        env: Environment = False,
        calibration: CalibrationFile = None,
        calibrate: Calibrate = None,
        save: Save = None,
        validate: Validate = False,
        json: Json = False,
    ) -> None:
        """Volume, steps and time of a collective.

        Over a range of sizes on a design: what NCCL chooses and reaches there, as nccl-tests
        prints it. --explain, --only, --sharp, --out, --export-tuner, --env and --calibration ask
        for that at one size too.

        Example: railweave collective all-reduce --ranks 4 --size "256 MB" --bandwidth "100 Gb/s"

        Example: railweave collective all-reduce --design FILE --size 1MiB..16GiB --explain
        """
        predicted = {
            "--explain": explain,
            "--only": only,
            "--sharp": sharp,
            "--out": out,
            "--export-tuner": export_tuner,
            "--env": env,
        }
        if validate or calibrate or save:
            predicted.pop("--explain")
            idle = {
                "OP": operation,
                "--size": None if size == DEFAULT_SIZE else size,
                "--factor": factor,
                "--ranks": ranks,
                "--algorithm": algorithm,
                "--bandwidth": bandwidth,
                "--latency": latency,
                "--ranks-per-server": ranks_per_server,
                "--placement": placement,
                "--engine": engine,
                "--fail": fail,
                **predicted,
            }
            _refuse(idle, "of no use with --calibrate, --save or --validate; leave it out")
            _against_measured(
                calibrate or [],
                design,
                validate=validate,
                save=save,
                given=calibration,
                explain=explain,
                json=json,
            )
            return
        if operation is None:
            names = ", ".join(op.value for op in Collective)
            raise InputError(f"OP: which operation? allowed: {names}")
        sizes = read_sizes(size, factor)
        if design is None:
            on_design = {"--placement": placement, "--engine": engine, "--fail": fail}
            _refuse(
                {**on_design, **predicted, "--calibration": calibration},
                "only on a fabric; name one with --design",
            )
            _alone(
                operation,
                sizes,
                ranks=ranks,
                algorithm=algorithm,
                bandwidth=bandwidth,
                latency=latency,
                ranks_per_server=ranks_per_server,
                json=json,
            )
            return
        _refuse(
            {
                "--bandwidth": bandwidth,
                "--latency": latency,
                "--ranks-per-server": ranks_per_server,
            },
            "with --design these come from the design; leave them out",
        )
        where, how = placement or PlacementName.PACKED, engine or EngineName.FLOW
        if len(sizes) == 1 and not any((*predicted.values(), calibration)):
            _on_fabric(
                operation,
                sizes[0],
                design,
                fail=fail,
                ranks=ranks,
                algorithm=algorithm,
                placement=where,
                engine=how,
                json=json,
            )
            return
        _refuse(
            {"--algorithm": algorithm},
            "names a schedule to simulate at one size; to narrow NCCL's choice use --only",
        )
        if operation in (Collective.ALL_TO_ALL, Collective.SEND_RECV):
            _refuse(
                {"--only": only},
                f"NCCL sends the messages of {operation.value} directly: nothing is chosen; "
                "leave it out",
            )
        from railweave.api import load
        from railweave.cli._collective_calibrate import read_calibration
        from railweave.cli._collective_choice import Asked, predict_collective

        forced, protocol = read_only(only)
        asked = Asked(
            operation,
            sizes,
            ranks,
            where,
            how,
            forced,
            protocol,
            sharp,
            explain,
            env,
            out,
            export_tuner,
            json,
        )
        calibrated = read_calibration(calibration)
        predict_collective(asked, load(design).build().fail(fail or ()), calibrated)


def _fabric_document(op: Collective, engine: EngineName, outcome: JobOutcome) -> dict[str, object]:
    """Return what came out on a fabric for JSON, with the volume of the collective."""
    from railweave.workload import collective_volume

    volume = collective_volume(
        op, Algorithm(outcome.algorithm), outcome.ranks, int(outcome.size_bytes)
    )
    return {
        "operation": op.value,
        "engine": engine.value,
        "bytes_sent_per_rank": volume.bytes_sent_per_rank,
        "steps": volume.steps,
        **dataclasses.asdict(outcome),
    }


def _document(result: AnalyticResult, bandwidth: str) -> dict[str, object]:
    """Return the closed form's result for JSON."""
    document = dataclasses.asdict(result)
    document["operation"] = document.pop("op")
    document["bandwidth"] = bandwidth
    return document
