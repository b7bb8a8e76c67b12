"""What effects of the command line's options are made of, and the designs they are seen on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from railweave.predict.calibration import calibration_yaml, default_calibration

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
_TWO = _PAIRS.replace(
    "background:", "  - {name: other, collective: all-reduce, size: 4 MiB}\nbackground:"
)
#: trays that share scale-up domains
_TRAYS = """\
railweave: 1
name: trays
cluster:
  servers: {count: 36, model: gb200-nvl72-tray}
planes:
  backend: {transport: infiniband, topology: rail-optimized, switch: qm9700}
"""
#: all four planes; storage and management on the front-end's network
_STORE = (
    _PAIRS.replace("name: pairs", "name: store")
    .replace(
        "speed: 100 Gb/s}}\nplanes", "speed: 100 Gb/s}}\n  storage_servers: {count: 2}\nplanes"
    )
    .replace("jobs:", "  storage: {shares: frontend}\n  management: {shares: frontend}\njobs:")
    .replace("all-to-all", "all-reduce")
    .replace("rocev2", "infiniband")
)
#: every plane, and two queue pairs a connection
_JOURNEY = """\
railweave: 1
name: journey
cluster:
  servers: {count: 4, inline: {gpus: 2, nics: 2, nic_speed: 400 Gb/s, scale_up_bandwidth: 1 Tb/s}}
planes:
  backend:
    transport: rocev2
    topology: rail-optimized
    switch: {radix: 8, speed: 400 Gb/s}
    routing: {queue_pairs: 2}
  frontend: {transport: tcp, topology: star, switch: sn4700}
  storage: {shares: frontend}
  management: {transport: ethernet, topology: star, switch: sn2201, speed: 1 Gb/s}
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
#: what nccl-tests printed on the servers of {rails}
_MEASURED = """\
$ mpirun -np 16 ./build/all_reduce_perf -b 256M -e 1G -f 4
# nThread 1 nGpus 1 minBytes 268435456 maxBytes 1073741824 step: 4(factor) iters: 20
#       size         count      type   redop    root     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)
   268435456      67108864     float     sum      -1    25000   10.74   20.13      0
  1073741824     268435456     float     sum      -1    98000   10.96   20.54      0
# Avg bus bandwidth    : 20.3
"""
#: a calibration in which a hop between servers takes ten times as long
_SLOW = calibration_yaml(
    replace(
        default_calibration(),
        values={
            name: value * (10 if name.startswith(("net_", "hop_")) else 1)
            for name, value in default_calibration().values.items()
        },
    )
)
#: every file that the command lines may name, by what stands for it
FILES = {
    "pairs": _PAIRS,
    "rails": _RAILS,
    "table": _TABLE,
    "tight": _TIGHT,
    "trays": _TRAYS,
    "two": _TWO,
    "log": _MEASURED,
    "slow": _SLOW,
    "tcp": _PAIRS.replace("transport: rocev2", "transport: tcp"),
    "store": _STORE,
    "journey": _JOURNEY,
}
#: the forwarding table beside them: all that leaves a leaf does so by one port
TABLE = Path(__file__).parents[1] / "design" / "files" / "table-other.csv"
#: traces of one run, or of one rank of it, of every kind
TRACES = Path(__file__).parents[1] / "formats" / "data" / "traces"


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


def choices(command: str, option: str, path: str, line: str, how: Mapping[str, Any]) -> Any:
    return {
        f"{command} --{option}={choice}": Effect(
            f"{line} --{option} {other}", f"{line} --{option} {choice}", holds(path)
        )
        for choice, (other, holds) in how.items()
    }


TIME_S = "jobs.0.time_s"
ROUTING = dict.fromkeys(
    ("e-ecmp", "static", "flowlet", "adaptive", "spray", "destination"), ("ecmp", shrinks)
)
