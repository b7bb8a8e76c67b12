"""What each option of the command line does: two command lines, and what must differ between them.

A key is ``command --option``, ``command --option=choice`` where it offers a choice, or
``command argument``. Command lines name designs as ``{pairs}`` and a fresh folder as ``{out}``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SERVERS = "gpus: 2, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s"
_PAIRS = f"""\
railweave: 1
name: pairs
cluster:
  servers: {{count: 4, inline: {{{_SERVERS}, frontend_speed: 100 Gb/s}}}}
planes:
  backend: {{transport: rocev2, topology: leaf-spine, switch: {{radix: 4, speed: 100 Gb/s}}}}
  frontend: {{transport: tcp, topology: star, switch: {{radix: 16, speed: 100 Gb/s}}}}
jobs:
  - {{name: mix, collective: all-to-all, size: 4 MiB}}
background:
  - {{name: web, load: 0.6, duration: 1 ms}}
"""
_RAILS = """\
railweave: 1
name: rails
cluster:
  servers:
    count: 8
    inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s, power: 5 kW}
planes:
  backend:
    transport: rocev2
    topology: rail-optimized
    switch: {radix: 4, speed: 100 Gb/s}
    routing: static
objectives: {min_bandwidth: 1.0}
"""
_TABLE = """\
railweave: 1
name: table
cluster:
  servers:
    count: 16
    inline: {gpus: 4, nics: 4, nic_speed: 400 Gb/s, scale_up_bandwidth: 3.6 Tb/s}
planes:
  backend:
    transport: rocev2
    topology: leaf-spine
    switch: {radix: 16, speed: 400 Gb/s, max_breakout: 2}
    routing: {scheme: table, table: table.csv}
jobs:
  - {name: mix, collective: all-to-all, size: 4 MiB}
"""
#: of a command that serves until it is stopped: tests/studio/test_serve.py
HELD_ELSEWHERE = frozenset(
    f"studio {option}"
    for option in ("design", "--host", "--port", "--workers", "--store", "--browser")
)
#: buffers that do not hold the headroom of their ports
_TIGHT = _PAIRS.replace(
    "{radix: 4, speed: 100 Gb/s}", "{radix: 4, speed: 100 Gb/s, buffer: 300 kB}"
)
#: every file that the command lines may name, by what stands for it
FILES = {"pairs": _PAIRS, "rails": _RAILS, "table": _TABLE, "tight": _TIGHT}
#: the forwarding table beside them: all that leaves a leaf does so by one port
TABLE = Path(__file__).parents[1] / "design" / "files" / "table-other.csv"


@dataclass(frozen=True)
class Seen:
    """What a command line left: exit code, what was printed, names of the files in ``{out}``."""

    code: int
    out: str
    err: str
    files: tuple[str, ...]

    def at(self, path: str) -> Any:
        """Return what stands at a dotted path of the JSON document."""
        value = json.loads(self.out)
        for step in path.split("."):
            value = value[int(step)] if isinstance(value, list) else value[step]
        return value


Holds = Callable[[Seen, Seen], bool]


@dataclass(frozen=True)
class Effect:
    """Two command lines, and what holds between what they leave."""

    before: str
    after: str
    holds: Holds


def grows(path: str) -> Holds:
    """Hold where a number of the JSON document grows."""
    return lambda before, after: bool(before.at(path) < after.at(path))


def shrinks(path: str) -> Holds:
    """Hold where a number of the JSON document shrinks."""
    return lambda before, after: bool(before.at(path) > after.at(path))


def becomes(path: str, *values: object) -> Holds:
    """Hold where a value of the JSON document goes from one to the other."""
    return lambda before, after: (before.at(path), after.at(path)) == values


def differs(path: str) -> Holds:
    """Hold where a value of the JSON document is another one, and there in both."""
    return lambda before, after: bool(before.at(path) != after.at(path))


def appears(text: str) -> Holds:
    """Hold where a text is printed only by the second."""
    return lambda before, after: text not in before.out and text in after.out


def to_json(before: Seen, after: Seen) -> bool:
    """Hold where text for people becomes one JSON document."""
    return before.out[:1] not in "[{" and after.out[:1] in "[{" and bool(json.loads(after.out))


def exits(*codes: int) -> Holds:
    """Hold where the exit codes are these."""
    return lambda before, after: (before.code, after.code) == codes


def _choices(command: str, option: str, path: str, line: str, how: Mapping[str, Any]) -> Any:
    return {
        f"{command} --{option}={choice}": Effect(
            f"{line} --{option} {other}", f"{line} --{option} {choice}", holds(path)
        )
        for choice, (other, holds) in how.items()
    }


_TIME = "jobs.0.time_s"
_EVEN = dict.fromkeys(
    ("e-ecmp", "static", "flowlet", "adaptive", "spray", "destination"), ("ecmp", shrinks)
)


def _simulation(command: str, more: str) -> dict[str, Effect]:
    """Return the effects that ``run`` and ``simulate`` share; ``more`` ends each command line."""
    line = f"{command} {{pairs}} --json {more}"
    return {
        f"{command} design": Effect(line, line.replace("{pairs}", "{rails}"), differs("name")),
        f"{command} --engine": Effect(line, f"{line} --engine analytic", shrinks("events")),
        **_choices(
            command,
            "engine",
            "events",
            line,
            {
                "analytic": ("flow", shrinks),
                "flow": ("analytic", grows),
                "packet": ("flow", grows),
            },
        ),
        f"{command} --routing": Effect(line, f"{line} --routing spray", shrinks(_TIME)),
        **_choices(command, "routing", _TIME, line, {**_EVEN, "ecmp": ("spray", grows)}),
        f"{command} --routing=table": Effect(
            f"{command} {{table}} --json {more} --routing destination",
            f"{command} {{table}} --json {more} --routing table",
            grows(_TIME),
        ),
        f"{command} --seed": Effect(line, f"{line} --seed 3", differs(_TIME)),
        f"{command} --tolerance": Effect(
            line, f"{line} --tolerance 0.2", differs("completions.1.p99_s")
        ),
        f"{command} --fail": Effect(line, f"{line} --fail spine-1", grows(_TIME)),
        f"{command} --fault": Effect(
            f"{line} --engine packet",
            f"{line} --engine packet --fault 'link spine-1:port-1 slow 0.25'",
            grows(_TIME),
        ),
        f"{command} --json": Effect(f"{command} {{pairs}} {more}", line, to_json),
    }


_ALONE = "collective all-reduce --json --latency 1us"
_ON = "collective all-reduce --json --size 4MiB --design {rails}"
_SPREAD = {
    "packed": ("spread", shrinks),
    "spread": ("packed", grows),
    "rail-aligned": ("spread", shrinks),
    "random": ("spread", shrinks),
}

_PORT = "headroom --switch sn5600 --length 40m --json"
_XOFF = "ports.0.xoff_bytes"

_SWITCH = "congest --json --duration 6ms"
_GRID = "congest --sweep --workers 1 --json --duration 4ms --ecn 20% --pfc 80% --profile none"


_PATTERN = "pattern tensor --json --latency 5us"
_NODES = f"{_PATTERN} --gpus 8 --gpus-per-server 4"
_SENT, _STEP = "bytes_sent_per_gpu", "time_s"
_FEW = f"{_NODES} --gpus 4 --servers 4 --servers-per-leaf 1 --payload 64MB"


def _same_points(before: Seen, after: Seen) -> bool:
    return bool(before.at("points") == after.at("points")) and len(after.at("points")) == 2


EFFECTS: dict[str, Effect] = {
    "--version": Effect("--help", "--version", appears("railweave 0.")),
    **_simulation("run", "--out {out}"),
    **_simulation("simulate", ""),
    "run --out": Effect(
        "schema",
        "run {pairs} --out {out}",
        lambda before, after: (
            not before.files and {"report.html", "result.json"} <= set(after.files)
        ),
    ),
    "run --strict": Effect(
        "run {pairs} --out {out}", "run {pairs} --out {out} --strict", exits(0, 1)
    ),
    "build design": Effect("build {pairs} --json", "build {rails} --json", grows("counts.gpus")),
    "build --fail": Effect(
        "build {pairs} --json",
        "build {pairs} --json --fail spine-1",
        shrinks("capacity.bisection_bps"),
    ),
    "build --monte-carlo": Effect(
        "build {pairs} --json --monte-carlo 1",
        "build {pairs} --json --monte-carlo 6",
        shrinks("monte_carlo.bisection_bps.min"),
    ),
    "build --draws": Effect(
        "build {pairs} --json --monte-carlo 1 --draws 2",
        "build {pairs} --json --monte-carlo 1 --draws 60",
        shrinks("monte_carlo.bisection_bps.p5"),
    ),
    "build --cables": Effect("build {pairs}", "build {pairs} --cables", appears("Cables")),
    "build --show-defaults": Effect(
        "build {pairs}", "build {pairs} --show-defaults", appears("worked out: ecmp")
    ),
    "build --json": Effect("build {pairs}", "build {pairs} --json", to_json),
    "check design": Effect(
        "check {pairs}",
        "check {rails}",
        appears("no-frontend-plane"),
    ),
    "check --fail": Effect("check {rails}", "check {rails} --fail spine-1", exits(0, 1)),
    "check --strict": Effect("check {pairs}", "check {pairs} --strict", exits(0, 1)),
    "check --json": Effect("check {pairs}", "check {pairs} --json", to_json),
    "headroom design": Effect(
        "headroom {pairs} --json", "headroom {tight} --json", shrinks("switches.0.buffer_bytes")
    ),
    "headroom --switch": Effect(
        "headroom --switch sn4700 --speed 400G --length 40m --json",
        "headroom --switch sn5600 --speed 400G --length 40m --json",
        becomes(_XOFF, 77_824, 283_648),
    ),
    "headroom --speed": Effect(_PORT, f"{_PORT} --speed 400G", becomes(_XOFF, 362_496, 283_648)),
    "headroom --length": Effect(_PORT, _PORT.replace("40m", "5m"), shrinks(_XOFF)),
    "headroom --mtu": Effect(_PORT, f"{_PORT} --mtu 1500", shrinks(_XOFF)),
    "headroom --strict": Effect("headroom {tight}", "headroom {tight} --strict", exits(0, 1)),
    "headroom --json": Effect("headroom {pairs}", "headroom {pairs} --json", to_json),
    "congest --senders": Effect(
        _SWITCH, f"{_SWITCH} --senders 2", grows("0.metrics.queue_max_bytes")
    ),
    "congest --sender-speed": Effect(
        _SWITCH, f"{_SWITCH} --sender-speed 200Gb/s", shrinks("0.moments.0.time_s")
    ),
    "congest --egress-speed": Effect(
        _SWITCH, f"{_SWITCH} --egress-speed 110Gb/s", grows("0.moments.0.time_s")
    ),
    "congest --buffer": Effect(_SWITCH, f"{_SWITCH} --buffer 8MB", shrinks("0.moments.0.time_s")),
    "congest --ecn": Effect(_SWITCH, f"{_SWITCH} --ecn 20%", shrinks("0.moments.0.time_s")),
    "congest --pmax": Effect(
        f"{_SWITCH} --ecn 10%..90% --profile none",
        f"{_SWITCH} --ecn 10%..90% --profile none --pmax 0.1",
        shrinks("0.metrics.marks"),
    ),
    "congest --pfc": Effect(_SWITCH, f"{_SWITCH} --pfc 30%", grows("0.metrics.pauses")),
    "congest --profile": Effect(_SWITCH, f"{_SWITCH} --profile none", shrinks("0.metrics.cnps")),
    "congest --compare": Effect(
        "congest --duration 4ms",
        "congest --duration 4ms --compare hpcc",
        appears("PFC 80%, hpcc"),
    ),
    "congest --size": Effect(
        _SWITCH, "congest --json --size 10MB", becomes("0.metrics.finished", False, True)
    ),
    "congest --duration": Effect(
        _SWITCH, _SWITCH.replace("6ms", "3ms"), becomes("0.metrics.elapsed_s", 0.006, 0.003)
    ),
    "congest --cable": Effect(
        f"{_SWITCH} --profile none",
        f"{_SWITCH} --profile none --cable 10km",
        grows("0.moments.0.time_s"),
    ),
    "congest --mtu": Effect(_SWITCH, f"{_SWITCH} --mtu 1024", shrinks("0.metrics.goodput_bps")),
    "congest --seed": Effect(
        f"{_SWITCH} --ecn 10%..90% --pmax 0.1",
        f"{_SWITCH} --ecn 10%..90% --pmax 0.1 --seed 1",
        differs("0.metrics.marks"),
    ),
    "congest --sweep": Effect(
        "congest --duration 4ms",
        "congest --duration 4ms --sweep --workers 1",
        appears("who acts"),
    ),
    "congest --workers": Effect(
        _GRID.replace("80%", "20%,80%"),
        _GRID.replace("80%", "20%,80%").replace("--workers 1", "--workers 2"),
        _same_points,
    ),
    "congest --out": Effect(
        "congest --duration 4ms",
        "congest --duration 4ms --out {out}",
        lambda before, after: (
            set(after.files) - set(before.files)
            == {"congest.html", "numbers.csv", "series.parquet"}
        ),
    ),
    "congest --json": Effect("congest --duration 4ms", "congest --duration 4ms --json", to_json),
    "collective operation": Effect(
        _ALONE, _ALONE.replace("all-reduce", "all-gather"), shrinks("bytes_sent_per_rank")
    ),
    **{
        f"collective operation={operation}": Effect(
            _ALONE.replace("all-reduce", other),
            _ALONE.replace("all-reduce", operation),
            holds("bytes_sent_per_rank"),
        )
        for operation, other, holds in (
            ("all-reduce", "broadcast", grows),
            ("all-gather", "all-reduce", shrinks),
            ("reduce-scatter", "all-reduce", shrinks),
            ("broadcast", "all-gather", grows),
            ("reduce", "reduce-scatter", grows),
            ("all-to-all", "send-recv", shrinks),
            ("send-recv", "all-to-all", grows),
        )
    },
    "collective --size": Effect(_ALONE, f"{_ALONE} --size 2GiB", grows("time_s")),
    "collective --ranks": Effect(_ALONE, f"{_ALONE} --ranks 16", becomes("steps", 14, 30)),
    "collective --algorithm": Effect(_ALONE, f"{_ALONE} --algorithm tree", shrinks("steps")),
    **_choices(
        "collective",
        "algorithm",
        "time_s",
        _ON,
        {
            "ring": ("tree", shrinks),
            "tree": ("ring", grows),
            "halving-doubling": ("tree", shrinks),
            "hierarchical": ("tree", shrinks),
        },
    ),
    **_choices(
        "collective",
        "algorithm",
        "time_s",
        _ON.replace("all-reduce", "all-to-all"),
        {"direct": ("rail-aligned", differs), "rail-aligned": ("direct", differs)},
    ),
    "collective --bandwidth": Effect(_ALONE, f"{_ALONE} --bandwidth 800Gb/s", shrinks("time_s")),
    "collective --latency": Effect(
        "collective all-reduce --json",
        "collective all-reduce --json --latency 1ms",
        grows("time_s"),
    ),
    "collective --ranks-per-server": Effect(
        "collective all-gather --json --algorithm hierarchical",
        "collective all-gather --json --algorithm hierarchical --ranks-per-server 4",
        becomes("steps", 7, 4),
    ),
    "collective --design": Effect(
        "collective all-reduce --json --size 4MiB", _ON, becomes("ranks", 8, 16)
    ),
    "collective --placement": Effect(
        f"{_ON} --ranks 4", f"{_ON} --ranks 4 --placement spread", grows("time_s")
    ),
    **_choices("collective", "placement", "time_s", f"{_ON} --ranks 2", _SPREAD),
    "collective --engine": Effect(
        _ON, f"{_ON} --engine analytic", becomes("engine", "flow", "analytic")
    ),
    **_choices(
        "collective",
        "engine",
        "engine",
        _ON,
        {
            "analytic": ("flow", differs),
            "flow": ("analytic", differs),
            "packet": ("flow", differs),
        },
    ),
    "collective --json": Effect("collective reduce", "collective reduce --json", to_json),
    "pattern strategy": Effect(
        _PATTERN, _PATTERN.replace("tensor", "expert"), becomes("steps", 6, 2)
    ),
    **{
        f"pattern strategy={strategy}": Effect(
            f"pattern {other} --json", f"pattern {strategy} --json", becomes(path, *values)
        )
        for strategy, other, path, values in (
            ("data", "tensor", "parts.0.name", ("activations", "gradients")),
            ("tensor", "data", "parts.0.name", ("gradients", "activations")),
            ("pipeline", "data", _SENT, (384e6, 512e6)),
            ("expert", "data", "steps", (6, 2)),
        )
    },
    "pattern --gpus": Effect(_PATTERN, f"{_PATTERN} --gpus 8", becomes("steps", 6, 14)),
    "pattern --payload": Effect(
        _PATTERN, f"{_PATTERN} --payload 64MB", becomes(_SENT, 384e6, 96e6)
    ),
    "pattern --exchanges": Effect(
        _PATTERN, f"{_PATTERN} --exchanges 3", becomes("messages", 24, 72)
    ),
    "pattern --speed": Effect(_PATTERN, f"{_PATTERN} --speed 400Gb/s", shrinks("bandwidth_s")),
    "pattern --latency": Effect(
        "pattern data --json", "pattern data --json --latency 10us", grows("latency_s")
    ),
    "pattern --gpus-per-server": Effect(
        _PATTERN, f"{_PATTERN} --gpus-per-server 4", becomes("share_server", 0.0, 1.0)
    ),
    "pattern --servers": Effect(
        f"{_NODES} --placement spread",
        f"{_NODES} --placement spread --servers 8",
        shrinks("share_server"),
    ),
    "pattern --servers-per-leaf": Effect(
        _PATTERN, f"{_PATTERN} --servers-per-leaf 1", becomes("share_spine", 0.0, 1.0)
    ),
    "pattern --scale-up-speed": Effect(
        f"{_PATTERN} --gpus-per-server 4",
        f"{_PATTERN} --gpus-per-server 4 --scale-up-speed 900Gb/s",
        grows(_STEP),
    ),
    "pattern --scale-up-latency": Effect(
        f"{_PATTERN} --gpus-per-server 4",
        f"{_PATTERN} --gpus-per-server 4 --scale-up-latency 1us",
        shrinks("latency_s"),
    ),
    "pattern --placement": Effect(_FEW, f"{_FEW} --placement spread", shrinks("share_server")),
    **_choices(
        "pattern",
        "placement",
        "share_server",
        _FEW,
        {
            "packed": ("spread", grows),
            "spread": ("packed", shrinks),
            "rail-aligned": ("spread", grows),
            "random": ("spread", grows),
        },
    ),
    "pattern --skew": Effect(
        "pattern expert --json", "pattern expert --json --skew 0.2", grows(_SENT)
    ),
    "pattern --algorithm": Effect(_NODES, f"{_NODES} --algorithm tree", differs("steps")),
    **_choices(
        "pattern",
        "algorithm",
        "steps",
        _NODES,
        {
            "ring": ("tree", grows),
            "tree": ("ring", shrinks),
            "halving-doubling": ("ring", shrinks),
            "hierarchical": ("ring", shrinks),
        },
    ),
    **_choices(
        "pattern",
        "algorithm",
        "steps",
        _NODES.replace("tensor", "expert"),
        {"direct": ("rail-aligned", shrinks), "rail-aligned": ("direct", grows)},
    ),
    "pattern --design": Effect(
        "pattern tensor --json", "pattern tensor --json --design {rails}", differs("network")
    ),
    "pattern --trace": Effect("pattern data", "pattern data --trace", appears("6 of 6: 64 MB")),
    "pattern --json": Effect("pattern data", "pattern data --json", to_json),
}
