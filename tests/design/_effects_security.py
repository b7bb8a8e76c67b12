"""What the fields of security do: each changes what the checks find."""

from __future__ import annotations

from _effect import BE, Effect, choices, other

_INFINIBAND = {f"{BE}.transport": "infiniband", f"{BE}.isolation": "pkey"}
_WAYS_IN = {"security.management_reachable_from": ["backend", "storage"]}


def _field(name: str, value: object, before: dict[str, object] | None = None) -> Effect:
    return Effect(
        f"Security.{name}", "tenants", {f"security.{name}": value}, "findings", before or {}
    )


def _choices(name: str, values: tuple[str, ...], **before: object) -> list[Effect]:
    path = f"security.{name}"
    return choices(f"Security.{name}", "tenants", path, "findings", other(values), before=before)


#: all entries of this file
SECURITY_EFFECTS = (
    Effect("Design.security", "roce", {"security": {"rkey_scope": "global"}}, "findings"),
    _field("host_access", "jobs"),
    *_choices("host_access", ("jobs", "containers", "virtual-machines", "bare-metal")),
    _field("host_hardening", "verified"),
    *_choices("host_hardening", ("none", "baseline", "verified")),
    _field("access_control", "microsegmentation"),
    *_choices(
        "access_control",
        ("none", "host-firewall", "switch-acl", "microsegmentation"),
        **{"security.host_access": "virtual-machines"},
    ),
    _field("rkey_scope", "job"),
    *_choices("rkey_scope", ("connection", "job", "global")),
    _field("storage_access", "authenticated"),
    *_choices("storage_access", ("open", "address", "authenticated")),
    _field("management_access", "out-of-band"),
    *_choices("management_access", ("out-of-band", "in-band")),
    _field("management_reachable_from", []),
    *(
        Effect(
            f"Security.management_reachable_from={name}",
            "tenants",
            {"security.management_reachable_from": [name]},
            "findings",
            _WAYS_IN,
        )
        for name in ("backend", "frontend", "storage")
    ),
    _field("default_partition", "limited", _INFINIBAND),
    *_choices("default_partition", ("full", "limited"), **_INFINIBAND),
    _field("partition_enforcement", "switches", _INFINIBAND),
    *_choices("partition_enforcement", ("adapters", "switches"), **_INFINIBAND),
    _field("subnet_keys", "set", _INFINIBAND),
    *_choices("subnet_keys", ("unset", "set"), **_INFINIBAND),
)
