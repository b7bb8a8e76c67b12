"""What each option of the command line does: two command lines, and what must differ between them.

A key is ``command --option``, ``command --option=choice`` where it offers a choice, or
``command argument``. Command lines name designs as ``{pairs}`` and a fresh folder as ``{out}``.
"""

from __future__ import annotations

from _effects_base import (
    ROUTING,
    TIME_S,
    Effect,
    Seen,
    appears,
    becomes,
    choices,
    differs,
    exits,
    grows,
    shrinks,
    to_json,
)
from _effects_infer import infer_effects
from _effects_packet_decode import packet_decode_effects
from _effects_packet_journey import journey_effects
from _effects_plan import plan_effects
from _effects_planes import planes_effects
from _effects_replay import replay_effects
from _effects_transport_compare import transport_compare_effects


def _simulation(command: str, more: str) -> dict[str, Effect]:
    """Return the effects that ``run`` and ``simulate`` share; ``more`` ends each command line."""
    line = f"{command} {{pairs}} --json {more}"
    return {
        f"{command} design": Effect(line, line.replace("{pairs}", "{rails}"), differs("name")),
        f"{command} --engine": Effect(line, f"{line} --engine analytic", shrinks("events")),
        **choices(
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
        f"{command} --routing": Effect(line, f"{line} --routing spray", shrinks(TIME_S)),
        **choices(command, "routing", TIME_S, line, {**ROUTING, "ecmp": ("spray", grows)}),
        f"{command} --routing=table": Effect(
            f"{command} {{table}} --json {more} --routing destination",
            f"{command} {{table}} --json {more} --routing table",
            grows(TIME_S),
        ),
        f"{command} --seed": Effect(line, f"{line} --seed 3", differs(TIME_S)),
        f"{command} --tolerance": Effect(
            line, f"{line} --tolerance 0.2", differs("completions.1.p99_s")
        ),
        f"{command} --fail": Effect(line, f"{line} --fail spine-1", grows(TIME_S)),
        f"{command} --fault": Effect(
            f"{line} --engine packet",
            f"{line} --engine packet --fault 'link spine-1:port-1 slow 0.25'",
            grows(TIME_S),
        ),
        f"{command} --json": Effect(f"{command} {{pairs}} {more}", line, to_json),
    }


_ALONE = "collective all-reduce --json --latency 1us"
_ON = "collective all-reduce --json --size 4MiB --design {rails}"
_OVER = "collective all-reduce --json --size 1MiB..1GiB --design {rails}"
_SPREAD = {
    "packed": ("spread", shrinks),
    "spread": ("packed", grows),
    "rail-aligned": ("spread", shrinks),
    "random": ("spread", shrinks),
    "fragments": ("spread", shrinks),
    "optimized": ("spread", shrinks),
}

_PORT = "headroom --switch sn5600 --length 40m --json"
_XOFF = "ports.0.xoff_bytes"

_SWITCH = "congest --json --duration 6ms"
_GRID = "congest --sweep --workers 1 --json --duration 4ms --ecn 20% --pfc 80% --profile none"


_PATTERN = "pattern tensor --json --latency 5us"
_NODES = f"{_PATTERN} --gpus 8 --gpus-per-server 4"
_MODEL = "pattern model --json"
_SENT, _STEP = "bytes_sent_per_gpu", "time_s"
_FEW = f"{_NODES} --gpus 4 --servers 4 --servers-per-leaf 1 --payload 64MB"


def _writes(option: str, name: str) -> Effect:
    """Observe that an export writes its file."""
    before = "export {trays} --json"
    return Effect(
        before,
        f"{before} --{option} {{out}}/{name}",
        lambda before, after: not before.files and after.files == (name,),
    )


def _same_points(before: Seen, after: Seen) -> bool:
    return bool(before.at("points") == after.at("points")) and len(after.at("points")) == 2


EFFECTS: dict[str, Effect] = {
    "--version": Effect("--help", "--version", appears("railweave 0.")),
    **_simulation("run", "--out {out}"),
    **_simulation("simulate", ""),
    "simulate --interference": Effect(
        "simulate {two}", "simulate {two} --interference", appears("Jobs alone and together")
    ),
    "export design": Effect("export {trays} --json", "export {rails} --json", differs("name")),
    "export --slurm": _writes("slurm", "topology.conf"),
    "export --slurm-block": _writes("slurm-block", "topology.conf"),
    "export --slurm-yaml": _writes("slurm-yaml", "topology.yaml"),
    "export --kueue": _writes("kueue", "kueue.yaml"),
    "export --node-labels": _writes("node-labels", "nodes.yaml"),
    "export --json": Effect(
        "export {rails} --slurm {out}/t.conf", "export {rails} --slurm {out}/t.conf --json", to_json
    ),
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
    **replay_effects(),
    **plan_effects(),
    **planes_effects(),
    **transport_compare_effects(),
    **journey_effects(),
    **packet_decode_effects(),
    **infer_effects(),
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
    **choices(
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
    **choices(
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
    **choices("collective", "placement", "time_s", f"{_ON} --ranks 2", _SPREAD),
    "collective --engine": Effect(
        _ON, f"{_ON} --engine analytic", becomes("engine", "flow", "analytic")
    ),
    **choices(
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
    "collective --factor": Effect(
        f"{_OVER} --factor 4",
        f"{_OVER} --factor 16",
        becomes("sizes.1.size_bytes", 4 << 20, 16 << 20),
    ),
    "collective --fail": Effect(
        _OVER.replace("{rails}", "{pairs}"),
        f"{_OVER} --fail spine-1".replace("{rails}", "{pairs}"),
        shrinks("network.tree_share"),
    ),
    "collective --explain": Effect(
        _OVER.replace("--json", ""),
        f"{_OVER.replace('--json', '')} --explain",
        appears("by NCCL"),
    ),
    "collective --only": Effect(
        _OVER, f"{_OVER} --only Tree/LL", becomes("sizes.4.option", "Ring/LL128", "Tree/LL")
    ),
    "collective --sharp": Effect(
        _OVER.replace("{rails}", "{trays}"),
        f"{_OVER} --sharp".replace("{rails}", "{trays}"),
        becomes("system.in_network", False, True),
    ),
    "collective --out": Effect(
        _OVER,
        f"{_OVER} --out {{out}}",
        lambda before, after: (
            set(after.files) - set(before.files) == {"collective.html", "collective.csv"}
        ),
    ),
    "collective --export-tuner": Effect(
        _OVER,
        f"{_OVER} --export-tuner {{out}}/tuner.csv",
        lambda before, after: set(after.files) - set(before.files) == {"tuner.csv"},
    ),
    "collective --env": Effect(
        _OVER.replace("--json", ""),
        f"{_OVER.replace('--json', '')} --env",
        appears("NCCL_IB_TC=104"),
    ),
    "collective --calibration": Effect(
        _OVER, f"{_OVER} --calibration {{slow}}", grows("sizes.0.time_s")
    ),
    "collective --calibrate": Effect(
        "collective --json --validate",
        "collective --json --design {rails} --calibrate {log}",
        lambda before, after: len(after.at("after.points")) == 2 < len(before.at("points")),
    ),
    "collective --save": Effect(
        "collective --json --design {rails} --calibrate {log}",
        "collective --json --design {rails} --calibrate {log} --save {out}/own.yaml",
        lambda before, after: set(after.files) - set(before.files) == {"own.yaml"},
    ),
    "collective --validate": Effect(
        "collective broadcast --json",
        "collective --json --validate",
        lambda before, after: len(after.at("points")) > 100,
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
            ("context", "data", "steps", (6, 9)),
            ("pipeline", "data", _SENT, (384e6, 512e6)),
            ("expert", "data", "steps", (6, 2)),
        )
    },
    "pattern strategy=model": Effect(
        "pattern data --json", "pattern model --json", grows("total_bytes")
    ),
    "pattern --model": Effect(_MODEL, f"{_MODEL} --model llama3-70b", grows(_SENT)),
    "pattern --fix": Effect(
        _MODEL, f"{_MODEL} --fix tensor=4", becomes("largest", "data", "tensor")
    ),
    "pattern --micro-batches": Effect(
        f"{_MODEL} --fix tensor=4", f"{_MODEL} --fix tensor=4 --micro-batches 16", grows(_SENT)
    ),
    "pattern --sequence": Effect(
        f"{_MODEL} --fix tensor=4", f"{_MODEL} --fix tensor=4 --sequence 4096", shrinks(_SENT)
    ),
    "pattern --gpu": Effect(_MODEL, f"{_MODEL} --gpu b200", grows("memory.usable_bytes")),
    "pattern --by-placement": Effect(
        _PATTERN, f"{_PATTERN} --by-placement", appears('"placements"')
    ),
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
    **choices(
        "pattern",
        "placement",
        "share_server",
        _FEW,
        {
            "packed": ("spread", grows),
            "spread": ("packed", shrinks),
            "rail-aligned": ("spread", grows),
            "random": ("spread", grows),
            "fragments": ("spread", grows),
            "optimized": ("spread", grows),
        },
    ),
    "pattern --skew": Effect(
        "pattern expert --json", "pattern expert --json --skew 0.2", grows(_SENT)
    ),
    "pattern --algorithm": Effect(_NODES, f"{_NODES} --algorithm tree", differs("steps")),
    **choices(
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
    **choices(
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
