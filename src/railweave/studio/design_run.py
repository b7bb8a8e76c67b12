"""A run of a design, for the design page and the REST API alike, and what the page shows of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from railweave.errors import DesignError, InputError
from railweave.formats.yaml_source import PathStep, format_path, parse_yaml
from railweave.studio.lab import Number, Reproduce
from railweave.units import format_bits_rate, format_seconds

if TYPE_CHECKING:
    from railweave.api import BuiltDesign, LoadedDesign
    from railweave.engine.packet_settings import PacketSettings
    from railweave.runs.jobs import JobContext

__all__ = [
    "ENGINES",
    "MOST_CHANGES",
    "DesignRun",
    "changes",
    "report_page",
    "reproduce",
    "run_key",
    "run_label",
    "run_numbers",
    "run_work",
]

#: engines, from the quickest to the most exact
ENGINES: Final[Mapping[str, str]] = {
    "analytic": "Closed forms: each job without other traffic",
    "flow": "Flows: max-min fair shares",
    "packet": "Packets: queues, PFC, ECN (slow for large designs)",
}
#: stands for Plotly's script in a kept report; a kilobyte instead of four megabytes
_SCRIPT: Final = "/*plotly*/"
_MOST_JOBS: Final = 6
#: fields that a run's label names
MOST_CHANGES: Final = 3


@dataclass(frozen=True, slots=True)
class DesignRun:
    """What is run: a design's text and the options of ``railweave run``.

    Attributes:
        text: the design.
        engine: by name.
        fail: parts that are taken out first.
        file: the design that the studio was started with, whose text may name files beside it;
            empty for a text of a visitor or a client, which opens none.
        routing: used on the back-end instead of the design's scheme.
        seed: instead of the design's.
        tolerance: of the flow engine.
        fault: what goes wrong at a time, in the packet engine.
        what_ifs: whether failures are tried and the report is made, as in ``run``; not so in
            ``simulate``.
    """

    text: str
    engine: str = "flow"
    fail: tuple[str, ...] = ()
    file: str = ""
    routing: str | None = None
    seed: int | None = None
    tolerance: float = 0.0
    fault: tuple[str, ...] = ()
    what_ifs: bool = True


def run_key(run: DesignRun) -> str:
    """Return the key of its result: same text, same options, same version, same result.

    Where the text names files, what lies in them counts as well.
    """
    from railweave import __version__
    from railweave.runs import content_key

    options = asdict(run)
    del options["text"], options["file"]
    design: dict[str, Any] = {"text": run.text}
    if run.file and not _stands_alone(run.text):
        design |= {"file": run.file, "named": _named(run)}
    return content_key(design, {"kind": "run", **options}, __version__)


@lru_cache(maxsize=16)
def _stands_alone(text: str) -> bool:
    """Whether a design names no files (and has no problems)."""
    from railweave.design import parse_design

    try:
        parse_design(text, folder=None)
    except DesignError:
        return False
    return True


def _named(run: DesignRun) -> list[list[str]]:
    """Return every file that a design names and the hash of what is in it."""
    from railweave.design.loading import named_files, parse_design

    try:
        loaded = parse_design(run.text, run.file, Path(run.file).parent)
        names = dict.fromkeys(name for _, name in named_files(loaded.design))
        return [[name, sha256(loaded.resolve(name).read_bytes()).hexdigest()] for name in names]
    except (DesignError, OSError):
        return []  # the run will say what is wrong


def run_label(run: DesignRun, file: str, before: DesignRun | None) -> str:
    """Say what a run is: the design, the engine, and how it differs from an earlier run."""
    words = [file.removesuffix(".yaml") or "design", run.engine]
    words += [f"without {', '.join(run.fail)}"] if run.fail else []
    words += changes(before.text, run.text) if before is not None else []
    return ", ".join(words)


def changes(before: str, after: str) -> list[str]:
    """Return the fields that differ between two designs, as ``path value``; none for strangers.

    Designs of different names, or with more than :data:`MOST_CHANGES` differences, are strangers.
    """
    first, second = (parse_yaml(text, "design").data for text in (before, after))
    if not isinstance(first, dict) or not isinstance(second, dict):
        return []
    found = list(_differences(first, second, ()))
    if first.get("name") != second.get("name") or len(found) > MOST_CHANGES:
        return []
    return found


def _differences(first: object, second: object, path: tuple[PathStep, ...]) -> Iterator[str]:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in dict.fromkeys([*first, *second]):
            yield from _differences(first.get(key), second.get(key), (*path, key))
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, (one, other) in enumerate(zip(first, second, strict=True)):
            yield from _differences(one, other, (*path, number))
    elif first != second:
        name = format_path(path).removeprefix("planes.")
        shown = "left out" if second is None else "changed"
        yield f"{name} {second if not isinstance(second, dict | list | None) else shown}"


def run_work(run: DesignRun, context: JobContext) -> dict[str, Any]:
    """Do the main job in a worker, publishing what is known so far on the way.

    Returns:
        ``record``: what ``railweave run --json`` or ``simulate --json`` prints; of a run with
        what-ifs also ``table``: its table of jobs, and ``report``: its report page without Plotly's
        script (see :func:`report_page`). What is published is described in
        :mod:`railweave.report.partial`.

    Raises:
        InputError: an engine that is none, or parts that are not there.
        DesignError: the text has problems.
        SizingError: it cannot be built.
    """
    from railweave.design.models import RoutingScheme
    from railweave.report.output import record_json

    if run.engine not in ENGINES:
        raise InputError(f"there is no engine {run.engine!r}; allowed: {', '.join(ENGINES)}")
    context.progress("build", 0.02)
    built = _load(run).build().fail(run.fail)
    record = built.run(
        engine=run.engine,
        routing=RoutingScheme(run.routing) if run.routing else None,
        seed=run.seed,
        tolerance=run.tolerance,
        settings=_with_faults(built, run),
        what_ifs=run.what_ifs,
        progress=context.progress,
        known=context.publish,
    )
    document: dict[str, Any] = {"record": record_json(record)}
    if run.what_ifs:
        from railweave.report.html import plotly_script, render_html
        from railweave.report.run_tables import job_table

        context.progress("report", 0.95)
        document["report"] = render_html(record).replace(plotly_script(), _SCRIPT)
        document["table"] = asdict(job_table(record))
    return document


def _load(run: DesignRun) -> LoadedDesign:
    """Read the design; its file only where the text needs what lies beside it."""
    import railweave
    from railweave.studio.designs import open_design

    beside = run.file and not _stands_alone(run.text)
    if beside and Path(run.file).read_text(encoding="utf-8") == run.text:
        return railweave.load(run.file)
    return open_design(run.text)


def _with_faults(built: BuiltDesign, run: DesignRun) -> PacketSettings | None:
    if not run.fault:
        return None
    from railweave.engine.fault_text import parse_fault

    found = tuple(parse_fault(text, built.fabric) for text in run.fault)
    return replace(built.packet_settings(), faults=found)


def report_page(document: Mapping[str, Any]) -> str:
    """Return the whole report of a result, self-contained."""
    from railweave.report.html import plotly_script

    return str(document["report"]).replace(_SCRIPT, plotly_script(), 1)


def run_numbers(document: Mapping[str, Any]) -> tuple[Number, ...]:
    """Return the headline numbers of a result; a job's stand under ``key:job``."""
    record = document["record"]
    numbers = []
    for job in record["jobs"][:_MOST_JOBS]:
        name = job["name"]
        numbers += _known(f"engine_time:{name}", f"{name}: time", job["time_s"], format_seconds)
        numbers += _known(f"busbw:{name}", f"{name}: busbw", job["busbw_Bps"], _bus)
    numbers += _known("makespan", "Makespan", record["makespan_s"], format_seconds)
    bisection_bps = record["summary"]["capacity"]["bisection_bps"]
    numbers += _known("bisection", "Bisection", bisection_bps, format_bits_rate)
    return tuple(numbers)


def _bus(value_Bps: float) -> str:  # noqa: N803 - byte/s
    return f"{value_Bps / 1e9:.4g} GB/s"


def _known(key: str, label: str, value: float | None, show: Any) -> list[Number]:  # noqa: ANN401
    return [] if value is None else [Number(key, label, show(value), value)]


def reproduce(run: DesignRun, file: str) -> Reproduce:
    """Return what gives the same numbers outside the studio, with the design in this file."""
    from shlex import quote

    words = ["railweave run", quote(file), f"--engine {run.engine}"]
    words += [f"--fail {quote(item)}" for item in run.fail]
    failed = f".fail({list(run.fail)!r})" if run.fail else ""
    python = (
        "import railweave\n"
        "from railweave.report.output import record_json\n\n"
        f"built = railweave.load({file!r}).build(){failed}\n"
        f'record = built.run(engine="{run.engine}")\n'
        "print(record_json(record))"
    )
    return Reproduce(" ".join([*words, "--json"]), python)
