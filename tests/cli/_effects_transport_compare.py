"""What the options of ``railweave transport compare`` do."""

from __future__ import annotations

from typing import Any

from _effects_base import Effect, Seen, appears, becomes, differs, grows, shrinks, to_json

_NAME = "transport compare"
_MIX = "--quick --mix all-to-all:1MiB"
_ON = f"{_NAME} --design {{pairs}} --json {_MIX}"
_MADE = f"{_NAME} --gpus 16 --json {_MIX}"
_AT = "measurements.measured"
_LARGE = f"{_AT}.rocev2.large.0"


def _weight(place: int) -> str:
    return f"weights.{place}.weight"


#: places of criteria in their order
_COST, _VENDORS, _AUTOMATION, _TENANCY, _SECURITY, _REACH = 6, 8, 11, 12, 13, 14


def _choices(option: str, path: str, values: dict[str, Any]) -> dict[str, Effect]:
    """Return one effect a choice: what stands at the path goes from the next choice's to its."""
    names = list(values)
    found = {}
    for place, name in enumerate(names):
        other = names[place - 1]
        found[f"{_NAME} --{option}={name}"] = Effect(
            f"{_ON} --{option} {other}",
            f"{_ON} --{option} {name}",
            becomes(path, values[other], values[name]),
        )
    return found


def _is_shape(shape: str) -> Any:
    """Hold where the cluster, made up in this shape, takes another time or has other leaves."""
    return lambda before, after: (
        before.at("measurements.measured.tcp.switches_w")
        != after.at("measurements.measured.tcp.switches_w")
        or before.at("measurements.lossy") != after.at("measurements.lossy")
    )


def _out(technologies: set[str]) -> Any:
    """Hold where these are left out by the second, and fewer by the first."""

    def names(seen: Seen) -> set[str]:
        return {one["technology"] for one in seen.at("excluded")}

    return lambda before, after: names(after) == technologies > names(before)


def transport_compare_effects() -> dict[str, Effect]:
    """Return the effects of the command's options."""
    effects = {
        "--design": Effect(_ON, _ON.replace("{pairs}", "{rails}"), differs("measurements.design")),
        "--gpus": Effect(
            _MADE, _MADE.replace("gpus 16", "gpus 32"), becomes("measurements.gpus", 16, 32)
        ),
        "--server": Effect(
            _MADE, f"{_MADE} --server p5-h100-efa", _out({"rocev2", "infiniband", "adaptive"})
        ),
        "--speed": Effect(
            _MADE, f"{_MADE} --speed '100 Gb/s'", becomes("measurements.host_bps", 400e9, 100e9)
        ),
        "--oversubscription": Effect(
            _MADE, f"{_MADE} --oversubscription 4:1", shrinks(f"{_AT}.tcp.switches_w")
        ),
        "--topology": Effect(
            _MADE, f"{_MADE} --topology leaf-spine", shrinks(f"{_AT}.tcp.switches_w")
        ),
        "--topology=rail-optimized": Effect(
            f"{_MADE} --topology leaf-spine",
            f"{_MADE} --topology rail-optimized",
            grows(f"{_AT}.tcp.switches_w"),
        ),
        "--topology=leaf-spine": Effect(
            f"{_MADE} --topology rail-optimized",
            f"{_MADE} --topology leaf-spine",
            shrinks(f"{_AT}.tcp.switches_w"),
        ),
        "--topology=fat-tree": Effect(
            f"{_MADE} --topology rail-optimized",
            f"{_MADE} --topology fat-tree",
            _is_shape("fat-tree"),
        ),
        "--workload": Effect(_ON, f"{_ON} --workload inference", grows(_weight(1))),
        "--mix": Effect(
            _ON,
            _ON.replace("all-to-all:1MiB", "all-reduce/tree:2MiB"),
            becomes(f"{_LARGE}.algorithm", "direct", "tree"),
        ),
        "--small": Effect(
            _ON,
            f"{_ON} --small all-to-all:8KiB",
            becomes(f"{_AT}.tcp.small.operation", "all-reduce", "all-to-all"),
        ),
        "--ranks": Effect(_ON, f"{_ON} --ranks 4", becomes("measurements.ranks", 8, 4)),
        "--fail": Effect(_ON, f"{_ON} --fail spine-1", grows(f"{_LARGE}.network_s")),
        "--queue-pairs": Effect(
            _ON.replace("{pairs}", "{tcp}"),
            f"{_ON.replace('{pairs}', '{tcp}')} --queue-pairs 8",
            shrinks(f"{_LARGE}.network_s"),
        ),
        "--loss": Effect(_ON, f"{_ON} --loss 0.02", shrinks(f"{_AT}.tcp.loss_share")),
        "--cores": Effect(_ON, f"{_ON} --cores 2", grows(f"{_AT}.tcp.large.0.host_s")),
        "--quick": Effect(
            f"{_MADE.replace('--quick ', '')} --ranks 16",
            f"{_MADE} --ranks 16",
            lambda before, after: (
                before.at(f"{_AT}.rocev2.library_busbw_Bps") > 0
                and after.at(f"{_AT}.rocev2.library_busbw_Bps") is None
            ),
        ),
        "--team": Effect(_ON, f"{_ON} --team infiniband", grows("totals.infiniband")),
        "--vendors": Effect(_ON, f"{_ON} --vendors required", _out({"infiniband"})),
        "--automation": Effect(_ON, f"{_ON} --automation", becomes(_weight(_AUTOMATION), 1, 3)),
        "--tenancy": Effect(_ON, f"{_ON} --tenancy required", becomes(_weight(_TENANCY), 0, 5)),
        "--encryption": Effect(
            _ON, f"{_ON} --encryption tls", _out({"rocev2", "infiniband", "adaptive"})
        ),
        "--reach": Effect(_ON, f"{_ON} --reach routed", _out({"infiniband"})),
        "--budget": Effect(_ON, f"{_ON} --budget low", becomes(_weight(_COST), 3, 5)),
        "--max-power": Effect(
            _ON, f"{_ON} --max-power '1 W'", _out({"tcp", "rocev2", "infiniband", "adaptive"})
        ),
        "--weight": Effect(_ON, f"{_ON} --weight latency=9", becomes(_weight(1), 4, 9)),
        "--facts": Effect(
            _ON.replace(" --json", ""),
            f"{_ON.replace(' --json', '')} --facts",
            appears("Where the statements come from"),
        ),
        "--store": Effect(
            _ON,
            f"{_ON} --store {{out}}",
            lambda before, after: (before.files, len(after.files)) == ((), 1),
        ),
        "--html": Effect(
            _ON.replace(" --json", ""),
            f"{_ON.replace(' --json', '')} --html {{out}}/page.html",
            lambda before, after: (before.files, after.files) == ((), ("page.html",)),
        ),
        "--json": Effect(_ON.replace(" --json", ""), _ON, to_json),
    }
    return {
        **{f"{_NAME} {name}": effect for name, effect in effects.items()},
        **_choices("workload", "weights.0.weight", {"training": 10, "inference": 4, "mixed": 6}),
        **_choices(
            "team",
            "scores.rocev2.9.arithmetic",
            {
                "ethernet": "2 / 4 (fair, team: ethernet)",
                "infiniband": "2 / 4 (fair, team: infiniband)",
                "both": "3 / 4 (good, team: both)",
                "neither": "0 / 4 (poor, team: neither)",
            },
        ),
        **_choices("vendors", _weight(_VENDORS), {"any": 1, "preferred": 3, "required": 5}),
        **_choices("tenancy", _weight(_TENANCY), {"any": 0, "preferred": 3, "required": 5}),
        **_choices(
            "encryption",
            f"weights.{_SECURITY}.reason",
            {
                "any": "default for training",
                "preferred": "encryption: preferred",
                "required": "encryption: required",
                "tls": "encryption: tls",
            },
        ),
        **_choices("reach", _weight(_REACH), {"hall": 0, "campus": 3, "routed": 5}),
        **_choices("budget", _weight(_COST), {"low": 5, "medium": 3, "high": 1}),
    }
