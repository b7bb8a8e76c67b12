"""What the options of ``railweave plan`` do."""

from __future__ import annotations

from _effects_base import Effect, becomes, choices, grows, shrinks, to_json

_PLAN = "plan llama3-8b --server dgx-h100 --gpus 16 --json --batch 32 --fix context=1"
_PLAN_ON = "plan llama3-8b --design {rails} --json --batch 32 --fix tensor=2,context=1"
_PLAN_S = "best.step_s"
_PLAN_PRICE = f"{_PLAN} --gpu-hour 2"


def plan_effects() -> dict[str, Effect]:
    """Return the effects of ``plan``'s options."""
    curve = f"{_PLAN} --scale 16,32"
    more = "networks.1.step_s"
    return {
        "plan model": Effect(
            _PLAN, _PLAN.replace("llama3-8b", "llama2-7b"), becomes("sequence", 8192, 4096)
        ),
        "plan --gpus": Effect(_PLAN, _PLAN.replace("gpus 16", "gpus 32"), shrinks(_PLAN_S)),
        "plan --design": Effect(_PLAN, _PLAN_ON, grows("on_fabric")),
        "plan --server": Effect(
            _PLAN_ON, f"{_PLAN} --server dgx-b200", becomes("gpu", "h100", "b200")
        ),
        "plan --gpu": Effect(_PLAN, f"{_PLAN} --gpu h200", grows("best.memory.usable_bytes")),
        "plan --batch": Effect(_PLAN, f"{_PLAN} --batch '1Mi tokens'", grows(_PLAN_S)),
        "plan --sequence": Effect(_PLAN, f"{_PLAN} --sequence 4Ki", shrinks(_PLAN_S)),
        "plan --precision": Effect(_PLAN, f"{_PLAN} --precision fp8", shrinks(_PLAN_S)),
        **choices(
            "plan",
            "precision",
            _PLAN_S,
            _PLAN,
            {"bf16": ("fp8", grows), "fp8": ("bf16", shrinks)},
        ),
        "plan --skew": Effect(
            _PLAN.replace("llama3-8b", "mixtral-8x7b") + ",expert=8",
            _PLAN.replace("llama3-8b", "mixtral-8x7b") + ",expert=8 --skew 1.5",
            grows(_PLAN_S),
        ),
        "plan --input": Effect(
            f"{_PLAN_PRICE} --input '1 ms'",
            f"{_PLAN_PRICE} --input '100 s'",
            lambda before, after: (
                before.at("best.idle_s.input") == 0 == before.at("cost.lost.input")
                and after.at(_PLAN_S) == 100
                and after.at("best.idle_s.input") == 100 - before.at(_PLAN_S)
                and after.at("cost.lost.input") > 0
            ),
        ),
        "plan --fix": Effect(_PLAN, f"{_PLAN} --fix tensor=8", becomes("best.plan.tensor", 1, 8)),
        "plan --top": Effect(
            _PLAN, f"{_PLAN} --top 2", lambda before, after: len(after.at("plans")) == 2
        ),
        "plan --scale": Effect(
            _PLAN, curve, lambda before, after: len(after.at("scaling.points")) == 2
        ),
        "plan --scaling": Effect(
            curve, f"{curve} --scaling strong", becomes("scaling.mode", "weak", "strong")
        ),
        **choices(
            "plan",
            "scaling",
            "scaling.points.1.step_s",
            curve,
            {"weak": ("strong", grows), "strong": ("weak", shrinks)},
        ),
        "plan --oversubscription": Effect(
            f"{_PLAN_ON} --oversubscription 1", f"{_PLAN_ON} --oversubscription 3", grows(more)
        ),
        "plan --fail": Effect(
            f"{_PLAN_ON} --oversubscription 1", f"{_PLAN_ON} --fail node001/nic0", grows(more)
        ),
        "plan --placement": Effect(
            f"{_PLAN_ON} --placement packed", f"{_PLAN_ON} --placement spread", grows(more)
        ),
        "plan --gpu-hour": Effect(_PLAN_PRICE, f"{_PLAN} --gpu-hour 3", grows("cost.step_price")),
        "plan --steps": Effect(
            f"{_PLAN_PRICE} --steps 10", f"{_PLAN_PRICE} --steps 20", grows("cost.run_price")
        ),
        "plan --tokens": Effect(
            f"{_PLAN_PRICE} --tokens 1B", f"{_PLAN_PRICE} --tokens 2B", grows("cost.run_price")
        ),
        "plan --trace": Effect(
            _PLAN,
            f"{_PLAN} --trace {{out}}/step.json",
            lambda _, after: after.files == ("step.json",),
        ),
        "plan --html": Effect(
            _PLAN,
            f"{_PLAN} --html {{out}}/plan.html",
            lambda _, after: after.files == ("plan.html",),
        ),
        "plan --json": Effect(_PLAN.replace(" --json", ""), _PLAN, to_json),
    }
