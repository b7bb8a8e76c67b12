"""What the options of ``railweave infer`` do."""

from __future__ import annotations

from _effects_base import Effect, becomes, choices, differs, grows, shrinks, to_json

_INFER = "infer llama3-8b --design {pairs} --json --tp 2 --requests 8 --output 16"
_EXPERTS = "infer mixtral-8x7b --design {pairs} --json --tp 1 --ep 4 --requests 8 --output 8"
_KV_S, _FIRST_S, _TOKEN_S = "kv_s.mean", "first_token_s.mean", "per_token_s.mean"


def infer_effects() -> dict[str, Effect]:
    """Return the effects of ``infer``'s options."""
    packets = f"{_INFER} --prompt 64"
    return {
        "infer model": Effect(_INFER, _INFER.replace("llama3-8b", "llama2-7b"), grows("kv_bytes")),
        "infer --design": Effect(_INFER, _INFER.replace("{pairs}", "{rails}"), differs(_KV_S)),
        "infer --tp": Effect(
            _INFER.replace("--tp 2", "--tp 1"), _INFER, becomes("decode.tensor", 1, 2)
        ),
        "infer --ep": Effect(
            _EXPERTS.replace("--ep 4", "--ep 2"), _EXPERTS, becomes("decode.expert", 2, 4)
        ),
        "infer --prefill-tp": Effect(
            _INFER, f"{_INFER} --prefill-tp 1", becomes("prefill.tensor", 2, 1)
        ),
        "infer --prefill-ep": Effect(
            _EXPERTS, f"{_EXPERTS} --prefill-ep 2", becomes("prefill.expert", 4, 2)
        ),
        "infer --prefill-gpus": Effect(
            _INFER, f"{_INFER} --prefill-gpus 4", becomes("prefill.instances", 1, 2)
        ),
        "infer --decode-gpus": Effect(
            _INFER, f"{_INFER} --decode-gpus 4", becomes("decode.instances", 1, 2)
        ),
        "infer --batch": Effect(
            f"{_INFER} --rate 1000", f"{_INFER} --rate 1000 --batch 1", grows("admission_s.mean")
        ),
        "infer --prompt": Effect(_INFER, f"{_INFER} --prompt 4096", grows(_FIRST_S)),
        "infer --output": Effect(
            _INFER, _INFER.replace("--output 16", "--output 32"), grows("decode.passes")
        ),
        "infer --spread": Effect(f"{_INFER} --spread 0", f"{_INFER} --spread 1", grows("kv_s.p99")),
        "infer --rate": Effect(_INFER, f"{_INFER} --rate 1000", grows("wait_s.mean")),
        "infer --requests": Effect(
            _INFER, _INFER.replace("--requests 8", "--requests 9"), becomes("requests", 8, 9)
        ),
        "infer --precision": Effect(_INFER, f"{_INFER} --precision fp8", shrinks(_TOKEN_S)),
        "infer --kv-precision": Effect(_INFER, f"{_INFER} --kv-precision fp8", shrinks(_KV_S)),
        "infer --dispatch": Effect(
            _EXPERTS, f"{_EXPERTS} --dispatch fp8", shrinks("prefill.pass.expert_s")
        ),
        **choices(
            "infer",
            "precision",
            _TOKEN_S,
            _INFER,
            {"bf16": ("fp8", grows), "fp8": ("bf16", shrinks)},
        ),
        **choices(
            "infer",
            "kv-precision",
            _KV_S,
            _INFER,
            {"bf16": ("fp8", grows), "fp8": ("bf16", shrinks)},
        ),
        **choices(
            "infer",
            "dispatch",
            "prefill.pass.expert_s",
            _EXPERTS,
            {"bf16": ("fp8", grows), "fp8": ("bf16", shrinks)},
        ),
        "infer --skew": Effect(_EXPERTS, f"{_EXPERTS} --skew 2", grows("prefill.pass.expert_s")),
        "infer --fail": Effect(_INFER, f"{_INFER} --fail node001/nic0", grows(_KV_S)),
        "infer --engine": Effect(
            packets, f"{packets} --engine packet", becomes("engine", "flow", "packet")
        ),
        "infer --engine=analytic": Effect(
            f"{_EXPERTS} --engine flow", f"{_EXPERTS} --engine analytic", shrinks(_KV_S)
        ),
        "infer --engine=flow": Effect(
            f"{_EXPERTS} --engine analytic", f"{_EXPERTS} --engine flow", grows(_KV_S)
        ),
        "infer --engine=packet": Effect(
            f"{packets} --engine flow", f"{packets} --engine packet", differs(_KV_S)
        ),
        "infer --seed": Effect(_INFER, f"{_INFER} --seed 3", differs(_FIRST_S)),
        "infer --json": Effect(_INFER.replace(" --json", ""), _INFER, to_json),
    }
