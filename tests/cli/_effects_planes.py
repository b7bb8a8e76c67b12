"""Effects of ``railweave transport planes`` and ``railweave transport journey``."""

from __future__ import annotations

from _effects_base import Effect, differs, shrinks, to_json

_WAY = "transport journey gradient --design {store} --quick --json"


def planes_effects() -> dict[str, Effect]:
    """Return the effects of both commands, by their keys."""
    return {
        "transport planes design": Effect(
            "transport planes {pairs} --json", "transport planes {store} --json", differs("name")
        ),
        "transport planes --json": Effect(
            "transport planes {store}", "transport planes {store} --json", to_json
        ),
        "transport journey kind": Effect(
            _WAY, _WAY.replace("gradient", "checkpoint"), differs("plane")
        ),
        **{
            f"transport journey kind={kind}": Effect(
                _WAY.replace("gradient", other), _WAY.replace("gradient", kind), differs(path)
            )
            for kind, other, path in (
                ("gradient", "tensor", "hops.0.place"),
                ("tensor", "gradient", "hops.0.place"),
                ("expert", "gradient", "to"),
                ("checkpoint", "dataset", "from"),
                ("dataset", "checkpoint", "from"),
                ("request", "management", "plane"),
                ("management", "request", "plane"),
            )
        },
        "transport journey --design": Effect(
            _WAY.replace("{store}", "{pairs}"), _WAY, differs("hops.1.layers")
        ),
        "transport journey --from": Effect(_WAY, f"{_WAY} --from node004/gpu1", differs("from")),
        "transport journey --to": Effect(_WAY, f"{_WAY} --to node001/gpu1", shrinks("time_s")),
        "transport journey --fail": Effect(
            _WAY, f"{_WAY} --fail node001/nic0", differs("hops.0.target")
        ),
        "transport journey --quick": Effect(
            _WAY.replace(" --quick", ""), _WAY, differs("breaks.exchange")
        ),
        "transport journey --json": Effect(_WAY.replace("--json", ""), _WAY, to_json),
    }
