"""Security findings: each speaks of this design, names its place, and takes nothing for met."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.assess import CheckContext
from railweave.assess._security import SECURITY_CHECKS
from railweave.design import load_design, parse_design
from railweave.design.models import Security
from railweave.fabric.build import build_fabric
from railweave.findings import Finding, Severity

GUIDE = (Path(__file__).parents[2] / "docs/guide/security.md").read_text("utf-8")
SWITCH = "switch: {radix: 16, speed: 400 Gb/s}"
FRONTEND = "{transport: tcp, topology: leaf-spine, switch: {radix: 16, speed: 200 Gb/s}}"
STAR = "{transport: tcp, topology: star, speed: 1 Gb/s}"
TWO = "tenants: [{name: blue}, {name: green}]"


def _design(
    *tail: str,
    backend: str = "transport: rocev2",
    topology: str = "leaf-spine",
    storage: str = "",
    management: str = STAR,
    jobs: str = "[{name: sum, collective: all-reduce, size: 1 MiB}]",
    **security: object,
) -> str:
    lines = [
        "railweave: 1",
        "name: guarded",
        "cluster:",
        "  servers: {count: 8, inline: {gpus: 2, nics: 2, nic_speed: 400 Gb/s}}",
        "planes:",
        f"  backend: {{{backend}, topology: {topology}, {SWITCH}}}",
        f"  frontend: {FRONTEND}",
    ]
    lines += [f"  storage: {storage}"] if storage else []
    lines += [f"  management: {management}"] if management else []
    lines += [f"jobs: {jobs}", *tail]
    lines += [f"security: {_flow(security)}"] if security else []
    return "\n".join(lines) + "\n"


def _jobs_of(ranks: int, tenant: str, more: int) -> str:
    """Two jobs one behind the other: a of blue with ``ranks`` GPUs, b with ``more``."""
    job = "{{name: {}, collective: all-reduce, size: 1 MiB, ranks: {}, tenant: {}}}"
    return f"[{job.format('a', ranks, 'blue')}, {job.format('b', more, tenant)}]"


def _flow(security: dict[str, Any]) -> str:
    parts = []
    for name, value in security.items():
        shown = value if isinstance(value, str) else f"[{', '.join(value)}]"
        parts.append(f"{name}: {shown}")
    return f"{{{', '.join(parts)}}}"


@cache
def _findings(text: str, file: str = "d.yaml") -> tuple[Finding, ...]:
    loaded = parse_design(text, file)
    context = CheckContext(loaded, build_fabric(loaded.design, loaded.catalog))
    return tuple(finding for check in SECURITY_CHECKS for finding in check(context))


def _ids(text: str) -> set[str]:
    return {finding.id for finding in _findings(text)}


def _one(text: str, id: str) -> Finding:
    found = [finding for finding in _findings(text) if finding.id == id]
    assert len(found) == 1, f"{len(found)} of {id} among {sorted(_ids(text))}"
    return found[0]


IB = "transport: infiniband"
PKEY = f"{IB}, isolation: pkey"
PROVEN = {
    "default_partition": "limited",
    "partition_enforcement": "switches",
    "subnet_keys": "set",
}
ON_STORAGE = "tenants: [{name: blue, planes: [backend, storage]}]"
STORED = "{transport: rocev2, topology: star, switch: {radix: 64, speed: 200 Gb/s}}"
INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR
WAYS = "management_reachable_from"

#: finding that must be there, its severity, what it must say of this design, the design
SPEAKS: list[tuple[str, Severity, tuple[str, ...], str]] = [
    ("tenants-not-isolated", WARNING, ("blue, green", "backend"), _design(TWO)),
    (
        "tenants-isolated",
        INFO,
        ("blue, green", "pkey", "backend"),
        _design(TWO, backend=PKEY, **PROVEN),
    ),
    (
        "vlan-on-routed-fabric",
        WARNING,
        ("blue, green", "2 leaves", "spines"),
        _design(TWO, backend="transport: rocev2, min_spines: 2, isolation: vlan"),
    ),
    (
        "partitions-unproven",
        WARNING,
        ("blue, green", "default_partition, partition_enforcement, subnet_keys"),
        _design(TWO, backend=PKEY),
    ),
    (
        "default-partition-full",
        WARNING,
        ("blue, green", "backend", "0x7fff"),
        _design(TWO, backend=PKEY, default_partition="full"),
    ),
    (
        "partitions-kept-by-adapters",
        WARNING,
        ("blue, green", "backend", "whoever has the server"),
        _design(TWO, backend=PKEY, partition_enforcement="adapters", host_access="bare-metal"),
    ),
    (
        "subnet-keys-unset",
        WARNING,
        ("blue, green", "backend"),
        _design(TWO, backend=PKEY, subnet_keys="unset"),
    ),
    ("subnet-keys-unset", INFO, ("sum", "backend"), _design(backend=IB, subnet_keys="unset")),
    (
        "subnet-keys-unset",
        WARNING,
        ("blue",),
        _design("tenants: [{name: blue}]", backend=IB, subnet_keys="unset"),
    ),
    (
        "job-off-its-planes",
        WARNING,
        ("sum", "blue"),
        _design(
            "tenants: [{name: blue, planes: [frontend]}]",
            jobs="[{name: sum, collective: all-reduce, size: 1 MiB, tenant: blue}]",
        ),
    ),
    ("job-of-nobody", INFO, ("sum",), _design(TWO)),
    (
        "encryption-missing",
        ERROR,
        ("sum", "backend"),
        _design(backend="transport: rocev2, encryption_required: true"),
    ),
    (
        "encryption-provided",
        INFO,
        ("backend", "psp", "(not required)"),
        _design(backend="transport: rocev2, encryption: psp, encryption_required: false"),
    ),
    ("rdma-in-the-clear", INFO, ("sum", "switches of backend"), _design()),
    ("hosts-not-hardened", WARNING, ("8 servers", "backend"), _design(host_hardening="none")),
    ("hosts-not-verified", INFO, ("8 servers",), _design(host_hardening="baseline")),
    ("containers-see-adapters", INFO, ("backend",), _design(host_access="containers")),
    ("guests-share-adapters", INFO, ("backend",), _design(host_access="virtual-machines")),
    ("users-own-servers", INFO, ("backend",), _design(host_access="bare-metal")),
    ("users-own-servers", WARNING, ("backend",), _design(TWO, host_access="bare-metal")),
    (
        "users-own-servers",
        INFO,
        ("backend",),
        _design(TWO, host_access="bare-metal", access_control="microsegmentation"),
    ),
    (
        "access-not-controlled",
        WARNING,
        ("backend, frontend, management",),
        _design(access_control="none"),
    ),
    (
        "host-firewall-passed-by-rdma",
        WARNING,
        ("backend",),
        _design(access_control="host-firewall"),
    ),
    (
        "access-rules-not-on-infiniband",
        INFO,
        ("switch-acl", "backend"),
        _design(backend=IB, access_control="switch-acl"),
    ),
    (
        "access-rules-not-on-infiniband",
        WARNING,
        ("microsegmentation", "backend"),
        _design(TWO, backend=IB, access_control="microsegmentation"),
    ),
    (
        "rules-trust-addresses",
        INFO,
        ("root",),
        _design(access_control="switch-acl", host_access="bare-metal"),
    ),
    ("global-rkeys", WARNING, ("sum", "backend"), _design(rkey_scope="global")),
    (
        "storage-open",
        WARNING,
        ("frontend",),
        _design(storage="{shares: frontend}", storage_access="open"),
    ),
    (
        "storage-trusts-addresses",
        INFO,
        ("frontend",),
        _design(storage="{shares: frontend}", storage_access="address"),
    ),
    (
        "storage-trusts-addresses",
        WARNING,
        ("storage",),
        _design(storage=STORED, storage_access="address", host_access="virtual-machines"),
    ),
    (
        "storage-rdma-from-tenants",
        WARNING,
        ("blue", "rocev2 on storage", "not stated"),
        _design(ON_STORAGE, storage=STORED),
    ),
    (
        "storage-rdma-from-tenants",
        WARNING,
        ("blue", "rocev2 on backend", "address"),
        _design(ON_STORAGE, storage="{shares: backend}", storage_access="address"),
    ),
    ("management-on-backend", WARNING, ("sum",), _design(management="{shares: backend}")),
    ("management-shared", WARNING, ("frontend",), _design(management="{shares: frontend}")),
    (
        "management-in-band",
        WARNING,
        ("backend, frontend",),
        _design(management="", management_access="in-band"),
    ),
    (
        "management-reachable",
        WARNING,
        ("backend, frontend", "8 servers"),
        _design(management_access="out-of-band", management_reachable_from=["backend", "frontend"]),
    ),
    ("management-reachable", INFO, ("frontend",), _design(**{WAYS: ["frontend"]})),
    (
        "management-reachable",
        WARNING,
        ("frontend",),
        _design("tenants: [{name: blue, planes: [frontend]}]", **{WAYS: ["frontend"]}),
    ),
    (
        "tenant-on-management",
        WARNING,
        ("green",),
        _design("tenants: [{name: blue}, {name: green, planes: [management]}]"),
    ),
    ("bmc-behind-host", INFO, ("8 servers",), _design(host_access="bare-metal")),
    (
        "tenants-share-servers",
        WARNING,
        ("b of green has GPUs of the same 1 server as a of blue: node002",),
        _design(TWO, jobs=_jobs_of(3, "green", 4)),
    ),
    ("security-not-stated", INFO, ("host_access", "one owner is assumed"), _design()),
    ("security-not-stated", WARNING, ("host_access", "rkey_scope"), _design(TWO)),
]


@pytest.mark.parametrize(
    ("id", "severity", "said", "text"), SPEAKS, ids=[f"{row[0]}-{row[1]}" for row in SPEAKS]
)
def test_finding_speaks_of_this_design(
    id: str, severity: Severity, said: tuple[str, ...], text: str
) -> None:
    found = _one(text, id)
    assert found.severity is severity
    assert re.fullmatch(r"d\.yaml:\d+:\d+", found.path)
    for part in said:
        assert part in found.message
    if severity is not INFO:
        assert found.fix


#: finding that must not be there, the design
SILENT: list[tuple[str, str]] = [
    ("tenants-isolated", _design(TWO, backend=PKEY)),
    ("tenants-isolated", _design(TWO, backend=PKEY, **{**PROVEN, "default_partition": "full"})),
    ("tenants-isolated", _design(TWO, backend=PKEY, **{**PROVEN, "subnet_keys": "unset"})),
    (
        "tenants-isolated",
        _design(TWO, backend=PKEY, **{**PROVEN, "partition_enforcement": "adapters"}),
    ),
    ("tenants-isolated", _design(TWO, backend="transport: rocev2, min_spines: 2, isolation: vlan")),
    ("partitions-unproven", _design(TWO, backend=PKEY, **PROVEN)),
    # one switch: the VLAN is one layer-2 network
    (
        "vlan-on-routed-fabric",
        _design(TWO, backend="transport: rocev2, isolation: vlan", topology="star"),
    ),
    ("rdma-in-the-clear", _design(backend="transport: tcp")),
    ("rdma-in-the-clear", _design(backend="transport: rocev2, encryption: psp")),
    # an error says it
    ("rdma-in-the-clear", _design(backend="transport: rocev2, encryption_required: true")),
    ("encryption-missing", _design(backend="transport: rocev2, encryption_required: false")),
    (
        "encryption-missing",
        _design(storage="{shares: backend, encryption_required: true}",
                backend="transport: rocev2, encryption: macsec"),
    ),
    ("host-firewall-passed-by-rdma",
     _design(backend="transport: tcp", access_control="host-firewall")),
    ("access-rules-not-on-infiniband", _design(access_control="switch-acl")),
    ("access-rules-not-on-infiniband",
     _design(TWO, backend=PKEY, access_control="switch-acl", **PROVEN)),
    ("rules-trust-addresses", _design(access_control="switch-acl", host_access="jobs")),
    ("containers-see-adapters", _design(backend="transport: tcp", host_access="containers")),
    ("global-rkeys", _design(rkey_scope="job")),
    (
        "storage-rdma-from-tenants",
        _design(ON_STORAGE, storage=STORED, storage_access="authenticated"),
    ),
    ("storage-rdma-from-tenants", _design(storage=STORED)),
    ("storage-rdma-from-tenants", _design(ON_STORAGE, storage="{shares: frontend}")),
    ("management-reachable", _design(management_reachable_from=[])),
    ("bmc-behind-host", _design(management="", host_access="bare-metal")),
    ("tenants-share-servers", _design(TWO, jobs=_jobs_of(4, "green", 4))),
    ("tenants-share-servers", _design(TWO, jobs=_jobs_of(3, "blue", 4))),
]  # fmt: skip


@pytest.mark.parametrize(("id", "text"), SILENT, ids=[id for id, _ in SILENT])
def test_finding_is_silent(id: str, text: str) -> None:
    assert id not in _ids(text)


def test_tenants_on_two_planes_of_one_network_meet_there() -> None:
    tenants = "tenants: [{name: blue, planes: [frontend]}, {name: green, planes: [storage]}]"
    text = _design(tenants, storage="{shares: frontend}")
    found = _one(text, "tenants-not-isolated")
    assert found.message.startswith("blue on frontend and green on storage use one network")
    assert found.path.startswith("d.yaml:8:")
    apart = _design(tenants, storage=FRONTEND)
    assert "tenants-not-isolated" not in _ids(apart)
    assert "tenants-not-isolated" not in _ids(
        _design(tenants, storage="{shares: frontend, isolation: vrf}")
    )


ACROSS = "tenants: [{name: blue, planes: [backend]}, {name: green, planes: [storage]}]"
PKEYS = "{shares: backend, isolation: pkey}"


@pytest.mark.parametrize(
    ("id", "security"),
    [
        ("default-partition-full", {**PROVEN, "default_partition": "full"}),
        ("partitions-kept-by-adapters", {**PROVEN, "partition_enforcement": "adapters"}),
        ("subnet-keys-unset", {**PROVEN, "subnet_keys": "unset"}),
        ("partitions-unproven", {}),
    ],
)
def test_partitions_between_tenants_on_two_planes_of_one_network(
    id: str, security: dict[str, str]
) -> None:
    found = _one(_design(ACROSS, backend=PKEY, storage=PKEYS, **security), id)
    assert found.severity is WARNING
    assert "blue" in found.message
    assert "green" in found.message
    assert id not in _ids(_design(ACROSS, backend=PKEY, storage=PKEYS, **PROVEN))


def test_keys_of_a_network_that_two_planes_use_are_missed_once() -> None:
    both = "tenants: [{name: blue, planes: [backend, storage]}, {name: red, planes: [storage]}]"
    for tenants in (both, both.replace("[storage]", "[backend, storage]")):
        found = _one(
            _design(tenants, backend=PKEY, storage=PKEYS, subnet_keys="unset"), "subnet-keys-unset"
        )
        assert "one host of backend can configure the network of blue, red" in found.message


def test_storage_in_the_clear_on_an_encrypted_back_end() -> None:
    backend = "transport: rocev2, encryption: psp"
    found = _one(_design(backend=backend, storage="{shares: backend}"), "rdma-in-the-clear")
    assert found.message.startswith("sum send storage traffic over 3 switches of backend without")
    for storage in ("{shares: backend, encryption: psp}", "{shares: frontend}"):
        assert "rdma-in-the-clear" not in _ids(_design(backend=backend, storage=storage))


def test_way_into_management_from_a_network_that_carries_a_tenants_plane() -> None:
    tenants = "tenants: [{name: blue, planes: [backend, storage]}]"
    shared = _design(tenants, storage="{shares: frontend}", management_reachable_from=["frontend"])
    assert _one(shared, "management-reachable").severity is WARNING
    apart = _design(tenants, storage=FRONTEND, management_reachable_from=["frontend"])
    assert _one(apart, "management-reachable").severity is INFO


@pytest.mark.parametrize("circle", [True, False])
def test_vlans_end_at_the_switches_of_a_graph_with_a_circle(tmp_path: Path, circle: bool) -> None:
    switches = ["one", "two", "three"]
    pairs = list(zip(switches, switches[1:] + switches[:1] * circle, strict=False))
    links = [f"  - {{a: node00{k}, b: {switches[k % 3]}, count: 2}}" for k in range(1, 9)]
    links += [f"  - {{a: {a}, b: {b}, speed: 400 Gb/s, count: 2}}" for a, b in pairs]
    shapes = [f"  - {{name: {one}, model: sn5600, tier: 1}}" for one in switches]
    graph = ["switches:", *shapes, "links:", *links]
    (tmp_path / "wires.yaml").write_text("\n".join(graph), "utf-8")
    backend = "transport: rocev2, isolation: vlan, graph: wires.yaml"
    text = _design(TWO, backend=backend, topology="graph").replace(f", {SWITCH}", "", 1)
    (tmp_path / "d.yaml").write_text(text, "utf-8")
    loaded = load_design(tmp_path / "d.yaml")
    context = CheckContext(loaded, build_fabric(loaded.design, loaded.catalog, tmp_path))
    found = {one.id: one for check in SECURITY_CHECKS for one in check(context)}
    assert ("vlan-on-routed-fabric" in found) is circle
    assert ("tenants-isolated" in found) is not circle
    if circle:
        assert "the 3 switches of backend" in found["vlan-on-routed-fabric"].message


def test_macsec_is_said_to_keep_no_tenant_from_another() -> None:
    found = _one(
        _design(TWO, backend="transport: rocev2, encryption: macsec"), "tenants-not-isolated"
    )
    assert "macsec guards each cable" in found.evidence
    clear = _one(_design(backend="transport: rocev2, encryption: macsec"), "rdma-in-the-clear")
    assert "neither switches nor hosts" in clear.evidence


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ({"rkey_scope": "connection"}, "for one connection only"),
        ({"rkey_scope": "job"}, "that the job registered"),
        ({"rkey_scope": "global"}, "all memory of its server"),
        ({}, "not stated (rkey_scope)"),
    ],
)
def test_what_a_key_read_on_the_way_opens(scope: dict[str, str], said: str) -> None:
    assert said in _one(_design(**scope), "rdma-in-the-clear").evidence


def test_forging_differs_by_transport() -> None:
    roce, infiniband = (
        _one(text, "rdma-in-the-clear").evidence for text in (_design(), _design(backend=IB))
    )
    assert "raw socket" in roce
    assert "adapters fill in source and P_Key" in infiniband


def test_remedy_for_missing_encryption_exists_on_the_transport() -> None:
    fixes = {
        kind: _one(
            _design(backend=f"transport: {kind}, encryption_required: true"), "encryption-missing"
        ).fix
        for kind in ("infiniband", "rocev2", "tcp")
    }
    assert "encrypt in the application" in fixes["infiniband"]
    assert "tls" not in fixes["rocev2"]
    assert "tls" in fixes["tcp"]


def test_only_what_the_planes_call_for_is_missed() -> None:
    def missed(text: str) -> str:
        return _one(text, "security-not-stated").message

    bare = missed(_design(backend="transport: tcp", management=""))
    for field in ("rkey_scope", "storage_access", "subnet_keys", "management_reachable_from"):
        assert field not in bare
    full = missed(_design(backend=IB, storage=FRONTEND))
    for field in ("rkey_scope", "storage_access", "subnet_keys", "management_reachable_from"):
        assert field in full
    shared = missed(_design(management="{shares: frontend}"))
    assert "management_access" not in shared


def test_nothing_is_missed_where_all_is_stated() -> None:
    said = "transport: rocev2, encryption: psp, encryption_required: true"
    text = _design(
        "tenants: [{name: blue}]",
        backend=said,
        management=STAR.replace("tcp", "tcp, encryption_required: false"),
        host_access="jobs",
        host_hardening="verified",
        access_control="microsegmentation",
        rkey_scope="job",
        management_access="out-of-band",
        management_reachable_from=[],
    ).replace("speed: 200 Gb/s}}", "speed: 200 Gb/s}, encryption_required: false}")
    assert _ids(text) == {"encryption-provided", "job-of-nobody"}


# ---------------------------------------------------------------- invariants

_CHOICES: dict[str, tuple[str, ...]] = {
    name: tuple(re.findall(r"'([^']+)'", str(field.annotation)))
    for name, field in Security.model_fields.items()
    if name != "management_reachable_from"
}


@st.composite
def _stated(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    infiniband = draw(st.booleans())
    kinds = ("none", "pkey") if infiniband else ("none", "vlan", "vrf", "vxlan-evpn")
    isolation = draw(st.sampled_from(kinds))
    storage = draw(st.sampled_from(["", "{shares: backend}", "{shares: frontend}"]))
    names = [
        name
        for name in _CHOICES
        if (infiniband or name not in PROVEN) and (storage or name != "storage_access")
    ]
    security = {
        name: draw(st.sampled_from(_CHOICES[name])) for name in names if draw(st.booleans())
    }
    transport = "infiniband" if infiniband else "rocev2"
    text = _design(
        *draw(st.sampled_from([(), (TWO,)])),
        backend=f"transport: {transport}, isolation: {isolation}",
        topology=draw(st.sampled_from(["leaf-spine", "star"])),
        storage=storage,
        **security,
    )
    return text, security


@settings(max_examples=60, deadline=None)
@given(_stated())
def test_unknown_is_never_taken_for_met(stated: tuple[str, dict[str, str]]) -> None:
    text, security = stated
    found = _findings(text)
    ids = {finding.id for finding in found}
    two, pkey = "name: green" in text, "isolation: pkey" in text
    if two and pkey:
        proven = all(security.get(name) == value for name, value in PROVEN.items())
        assert ("tenants-isolated" in ids) == proven
        assert ("partitions-unproven" in ids) == any(name not in security for name in PROVEN)
    if two:
        spoken = {"tenants-not-isolated", "tenants-isolated", "vlan-on-routed-fabric"}
        assert ids & (spoken | {"partitions-unproven", "default-partition-full",
                                "partitions-kept-by-adapters", "subnet-keys-unset"})  # fmt: skip
    for name in ("host_access", "host_hardening", "access_control", "rkey_scope"):
        missed = any(f.id == "security-not-stated" and name in f.message for f in found)
        assert missed == (name not in security)
    for finding in found:
        assert re.fullmatch(r"d\.yaml:\d+:\d+", finding.path)
    assert len({(f.id, f.path, f.message) for f in found}) == len(found)


# ---------------------------------------------------------------- the guide


def test_guide_lists_every_finding_with_its_severity() -> None:
    listed: dict[str, set[str]] = {}
    section = GUIDE.partition("## The findings")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \|", section, re.MULTILINE):
        listed[row[0]] = set(re.findall(r"error|warning|info", row[1]))
    said: dict[str, set[str]] = {}
    for id, severity, _, _ in SPEAKS:
        said.setdefault(id, set()).add(severity.value)
    assert listed == said


def _of_guide() -> str:
    design = re.search(r"```yaml\n(railweave: 1\n.*?)```", GUIDE, re.DOTALL)
    assert design
    return design[1]


def test_design_of_the_guide_gives_the_findings_shown() -> None:
    shown = GUIDE.partition("$ railweave check shared.yaml\n")[2].partition("```")[0]
    printed = []
    for finding in _findings(_of_guide(), "shared.yaml"):
        printed.append(f"{finding.severity.value} {finding.id}  {finding.path}")
        printed.append(f"  {finding.message}")
        printed += [f"  evidence: {finding.evidence}"] if finding.evidence else []
        printed += [f"  fix: {finding.fix}"] if finding.fix else []
    lines = [line for line in shown.splitlines() if line and line != "…"]
    assert len(lines) > 10
    assert [line for line in lines if line not in printed] == []


def test_remedies_of_the_guide_leave_what_it_says() -> None:
    text = _of_guide()
    for old, new in (
        ("isolation: vlan", "isolation: vxlan-evpn, encryption: psp"),
        ("{shares: backend}", "{shares: backend, isolation: vxlan-evpn}"),
        ("rkey_scope: global", "rkey_scope: job"),
        ("storage_access: address", "storage_access: authenticated"),
        ("host_access: bare-metal", "host_access: bare-metal\n  access_control: microsegmentation"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    warned = [f for f in _findings(text) if f.severity is not INFO]
    assert {f.id for f in warned} == {
        "tenants-not-isolated", "management-reachable", "security-not-stated"
    }  # fmt: skip
    assert all("frontend" in f.message or f.id == "security-not-stated" for f in warned)
