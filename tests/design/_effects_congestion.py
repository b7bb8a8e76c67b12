"""What the settings of congestion do: seen in what the packet engine is given of switch and NIC."""

from __future__ import annotations

from typing import Any

from _effect import BE, DROP, Effect, choices, other

_SPEC = f"{BE}.congestion"
_LOSSY = {_SPEC: {"scheme": "dcqcn"}}
_DCQCN = {_SPEC: {"scheme": "pfc+dcqcn"}}
_ROCE = (
    "none",
    "pfc",
    "dcqcn",
    "pfc+dcqcn",
    "pfc+receiver-driven",
    "hpcc",
    "pfc+hpcc",
    "timely",
    "pfc+timely",
    "swift",
    "pfc+swift",
    "nscc",
)
_ECN = ("rule", "off", "cumulus", "cisco", "sonic", "tomahawk5", "juniper", "paper", "simulator")


def _setting(key: str, value: Any, before: dict[str, Any] = _DCQCN) -> Effect:
    """Make the entry of a field of the mapping."""
    return Effect(f"CongestionSpec.{key}", "roce", {f"{_SPEC}.{key}": value}, "qos", before)


def _profile(name: str, scheme: str, wrong: str, base: str = "roce") -> Effect:
    """Make the entry of a scheme's only parameter set: it is taken, another one is not."""
    return Effect(
        f"CongestionSpec.profile={name}",
        base,
        {f"{_SPEC}.profile": name},
        "accepts",
        {_SPEC: {"scheme": scheme, "profile": wrong}},
    )


_SCHEMES = [
    Effect("CongestionSpec.scheme", "roce", {f"{_SPEC}.scheme": "pfc"}, "qos", {_SPEC: {}}),
    *choices("CongestionSpec.scheme", "roce", f"{_SPEC}.scheme", "qos", other(_ROCE)),
    *choices(
        "CongestionSpec.scheme",
        "infiniband",
        f"{_SPEC}.scheme",
        "qos",
        other(("credits", "credits+cc")),
    ),
    *choices("CongestionSpec.scheme", "tcp", f"{_SPEC}.scheme", "qos", other(("cubic", "dctcp"))),
]
_PROFILES = [
    _setting("profile", "dcqcn-paper"),
    *choices(
        "CongestionSpec.profile",
        "roce",
        f"{_SPEC}.profile",
        "qos",
        other(("dcqcn-firmware", "dcqcn-paper", "dcqcn-simulator")),
    ),
    _profile("receiver-driven", "pfc+receiver-driven", "hpcc"),
    _profile("hpcc", "hpcc", "timely"),
    _profile("timely", "timely", "hpcc"),
    _profile("swift", "swift", "hpcc"),
    _profile("nscc", "nscc", "hpcc"),
    _profile("cubic", "cubic", "dctcp", "tcp"),
    _profile("dctcp", "dctcp", "cubic", "tcp"),
    _profile("ib-cc", "credits+cc", "hpcc", "infiniband"),
]
_SWITCHES = [
    _setting("classes", "sonic-default"),
    *choices(
        "CongestionSpec.classes",
        "roce",
        f"{_SPEC}.classes",
        "qos",
        other(("roce", "class-selector", "sonic-default")),
    ),
    _setting("ecn", {"kmin": "100 kB", "kmax": "400 kB"}),
    *choices("CongestionSpec.ecn", "roce", f"{_SPEC}.ecn", "qos", other(_ECN)),
    _setting("rtt", "2 us"),
    _setting("headroom", "300 KiB"),
    _setting("pfc_threshold", 2),
    _setting("xon_offset", "8 KiB"),
    _setting("watchdog", "off"),
    _setting("trimming", True, _LOSSY),
    *choices(
        "CongestionSpec.trimming",
        "roce",
        f"{_SPEC}.trimming",
        "qos",
        {"true": False, "false": True},
        before=_LOSSY,
    ),
    _setting("cut_through", True),
    *choices(
        "CongestionSpec.cut_through",
        "roce",
        f"{_SPEC}.cut_through",
        "qos",
        {"true": False, "false": True},
    ),
    *(
        Effect(
            f"EcnSpec.{field}",
            "roce",
            {f"{_SPEC}.ecn.{field}": value},
            "qos",
            {_SPEC: {"scheme": "dcqcn", "ecn": {"kmin": "100 kB", "kmax": "400 kB"}}},
        )
        for field, value in (("kmin", "50 kB"), ("kmax", "1 MB"), ("pmax", 0.1), ("weight", 0.002))
    ),
    *(
        Effect(f"WatchdogSpec.{field}", "roce", {f"{_SPEC}.watchdog.{field}": "1 s"}, "qos")
        for field in ("detect", "restore", "poll")
    ),
    Effect("WatchdogSpec.action", "roce", {f"{_SPEC}.watchdog.action": "forward"}, "qos"),
    *choices(
        "WatchdogSpec.action",
        "roce",
        f"{_SPEC}.watchdog.action",
        "qos",
        other(("drop", "forward")),
    ),
]
_ADAPTERS = [
    _setting("selective_repeat", True),
    *choices(
        "CongestionSpec.selective_repeat",
        "roce",
        f"{_SPEC}.selective_repeat",
        "qos",
        {"true": False, "false": True},
    ),
    _setting("reorder_packets", 8, {_SPEC: {"selective_repeat": True}}),
    _setting("ack_every", 1),
    _setting("cnp_interval", "50 us"),
    _setting("timeout", 14),
    _setting("retries", 3),
    _setting("rnr_timer", "1 ms"),
    _setting("rnr_retries", 0),
    _setting("receive_buffer", "512 KiB"),
]
CONGESTION_EFFECTS = (
    Effect("Plane.congestion", "roce", {_SPEC: "pfc"}, "findings", {_SPEC: DROP}),
    *_SCHEMES,
    *_PROFILES,
    *_SWITCHES,
    *_ADAPTERS,
)
