"""What the options of ``railweave replay`` do."""

from __future__ import annotations

from _effects_base import (
    ROUTING,
    TRACES,
    Effect,
    becomes,
    choices,
    differs,
    grows,
    shrinks,
    to_json,
)

_PROFILE = f"replay {TRACES}/profile-rank0.json"
_LOG = f"replay {TRACES}/inspector.log"
_GRAPHS = f"replay {TRACES}/step.0.et {TRACES}/step.1.et --design {{pairs}} --json"
_REPLAY = f"{_PROFILE} --design {{pairs}} --json"
_REPLAYED = "replayed_s"


def replay_effects() -> dict[str, Effect]:
    """Return the effects of ``replay``'s options."""
    kinds = {
        "kineto": ("profile-rank0.json", "PyTorch profiler"),
        "inspector": ("inspector.log", "NCCL Inspector"),
        "chakra": ("step.0.et", "Chakra"),
        "nccl-tests": ("all-reduce.txt", "nccl-tests"),
    }
    # A file of one kind cannot be read as another: each choice reads a file of its own.
    other = {kind: "inspector" if kind == "kineto" else "kineto" for kind in kinds}
    lines = {
        kind: f"replay {TRACES}/{file} --design {{pairs}} --json --format {kind}"
        for kind, (file, _) in kinds.items()
    }
    return {
        "replay files": Effect(
            _REPLAY,
            f"{_LOG} --design {{pairs}} --json",
            becomes("source", "PyTorch profiler", "NCCL Inspector"),
        ),
        "replay --design": Effect(
            _REPLAY, _REPLAY.replace("{pairs}", "{rails}"), differs(_REPLAYED)
        ),
        "replay --format": Effect(f"{_LOG} --design {{pairs}}", lines["kineto"], to_json),
        **{
            f"replay --format={kind}": Effect(
                lines[other[kind]],
                lines[kind],
                becomes("source", kinds[other[kind]][1], kinds[kind][1]),
            )
            for kind in kinds
        },
        "replay --groups": Effect(
            _GRAPHS,
            f"{_GRAPHS} --groups {TRACES}/groups.json",
            becomes("operations.0.ranks", 2, 4),
        ),
        "replay --waits": Effect(_REPLAY, f"{_REPLAY} --waits all", grows(_REPLAYED)),
        **choices(
            "replay",
            "waits",
            _REPLAYED,
            _REPLAY,
            {"seen": ("all", shrinks), "all": ("seen", grows)},
        ),
        "replay --engine": Effect(
            _REPLAY, f"{_REPLAY} --engine packet", becomes("engine", "flow", "packet")
        ),
        **choices(
            "replay",
            "engine",
            _REPLAYED,
            _REPLAY,
            {
                "analytic": ("flow", shrinks),
                "flow": ("packet", shrinks),
                "packet": ("flow", grows),
            },
        ),
        "replay --placement": Effect(_REPLAY, f"{_REPLAY} --placement spread", grows(_REPLAYED)),
        **choices(
            "replay",
            "placement",
            _REPLAYED,
            _REPLAY,
            {
                "packed": ("spread", shrinks),
                "spread": ("packed", grows),
                "rail-aligned": ("packed", grows),
                "random": ("spread", shrinks),
                "optimized": ("spread", shrinks),
            },
        ),
        "replay --placement=fragments": Effect(
            f"{_PROFILE} --design {{rails}} --json --placement packed",
            f"{_PROFILE} --design {{rails}} --json --placement fragments",
            differs("gpus"),
        ),
        "replay --routing": Effect(_REPLAY, f"{_REPLAY} --routing spray", shrinks(_REPLAYED)),
        **choices("replay", "routing", _REPLAYED, _REPLAY, {**ROUTING, "ecmp": ("spray", grows)}),
        "replay --routing=table": Effect(
            f"{_PROFILE} --design {{table}} --json --placement random --routing destination",
            f"{_PROFILE} --design {{table}} --json --placement random --routing table",
            grows(_REPLAYED),
        ),
        "replay --seed": Effect(_REPLAY, f"{_REPLAY} --seed 3", differs(_REPLAYED)),
        "replay --fail": Effect(_REPLAY, f"{_REPLAY} --fail spine-1", grows(_REPLAYED)),
        "replay --top": Effect(
            _REPLAY,
            f"{_REPLAY} --top 1",
            lambda before, after: (
                len(before.at("operations")) == 3 and len(after.at("operations")) == 1
            ),
        ),
        "replay --json": Effect(f"{_PROFILE} --design {{pairs}}", _REPLAY, to_json),
    }
