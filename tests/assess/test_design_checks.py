# One row a check reads better than five lines a check.
# ruff: noqa: E501
# fmt: off
"""Each design check speaks where it must, is silent where it must be, and names its place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import pytest

from railweave.assess import CheckContext, run_checks
from railweave.assess.checks import CHECKS
from railweave.design import parse_design
from railweave.fabric import PlaneId
from railweave.fabric.build import build_fabric
from railweave.findings import Finding, Severity

SERVERS = (
    "  servers: {count: 16, inline: {gpus: 4, nics: 4, nic_speed: 400 Gb/s,"
    " scale_up_bandwidth: 3.6 Tb/s}}\n"
)
OWN = "transport: tcp, topology: leaf-spine, switch: {radix: 16, speed: 200 Gb/s}, min_spines: 2"


def _design(
    backend: str = "transport: rocev2, topology: rail-optimized, min_spines: 4",
    *,
    cluster: str = "",
    switch: str = "{radix: 16, speed: 400 Gb/s}",
    servers: str = SERVERS,
    frontend: str = f"{OWN}, dual_tor: true",
    planes: str = "",
    tail: str = "",
) -> str:
    text = f"railweave: 1\nname: checked\ncluster:\n{servers}{cluster}planes:\n"
    text += f"  backend: {{{backend}, switch: {switch}}}\n"
    if frontend:
        text += f"  frontend: {{{frontend}}}\n"
    return text + planes + tail


@cache
def _findings(text: str) -> tuple[Finding, ...]:
    return run_checks(parse_design(text, "d.yaml"))


def _ids(text: str) -> set[str]:
    return {finding.id for finding in _findings(text)}


def _one(text: str, id: str) -> Finding:
    found = [finding for finding in _findings(text) if finding.id == id]
    assert found, f"{id} is not among {sorted(_ids(text))}"
    return found[0]


MANAGEMENT = "  management: {transport: tcp, topology: star, speed: 1 Gb/s}\n"
STORAGE = f"  storage: {{{OWN}}}\n"
GOOD = _design(
    "transport: rocev2, topology: rail-optimized, min_spines: 4,"
    " routing: {scheme: e-ecmp, queue_pairs: 4}, congestion: pfc+dcqcn",
    planes=STORAGE.replace("min_spines: 2", "min_spines: 2, dual_tor: true") + MANAGEMENT,
    tail="services:\n  - {kind: scheduler}\n  - {kind: monitoring, instances: 2}\n"
    "software: {firmware: 28.39.1002, driver: '550.54', nccl: 2.27.3, nos: SONiC}\n"
    "facility: {rack_power: 60 kW, cooling: liquid}\n",
)
RING = "jobs: [{name: sum, collective: all-reduce, size: 1 MiB}]\n"
MIX = "jobs: [{name: mix, collective: all-to-all, size: 1 MiB%s}]\n"
TWO = "jobs: [{name: sum, collective: all-reduce, size: 1 GiB}, {name: mix, collective: all-to-all, size: 1 MiB%s}]\n"
TRAIN = "jobs: [{name: t, model: llama3-8b, parallelism: {tensor: 16}}]\n"
IB = "transport: infiniband, topology: rail-optimized, min_spines: 4"
ROCE = "transport: rocev2, topology: rail-optimized, min_spines: 4"
FAT = "transport: rocev2, topology: fat-tree, tiers: 3"
STORED = _design(cluster="  storage_servers: {count: 4}\n", planes=STORAGE, tail="storage_traffic: [{name: data, %s}]\n")
H100 = "  servers: {model: dgx-h100, count: 4}\n"
B200 = "  servers: {model: dgx-b200, count: 4}\n"
TENANTS = "tenants: [{name: blue}, {name: green}]\n"

#: (finding that must be there, its severity, design)
SPEAKS: list[tuple[str, Severity, str]] = [
    ("single-switch", Severity.WARNING, _design("transport: rocev2, topology: star", switch="{radix: 64, speed: 400 Gb/s}")),
    ("single-spine", Severity.WARNING, _design("transport: rocev2, topology: leaf-spine, counts: {spine: 1}", switch="{leaf: {radix: 16, speed: 400 Gb/s}, spine: {radix: 128, speed: 400 Gb/s}}")),
    ("few-spines", Severity.WARNING, _design("transport: rocev2, topology: leaf-spine", switch="{leaf: {radix: 16, speed: 400 Gb/s}, spine: {radix: 32, speed: 400 Gb/s}}")),
    ("few-spines", Severity.INFO, _design("transport: infiniband, topology: leaf-spine", switch="{leaf: {radix: 16, speed: 400 Gb/s}, spine: {radix: 32, speed: 400 Gb/s}}")),
    ("roce-without-congestion-control", Severity.WARNING, _design(f"{ROCE}, congestion: none")),
    ("pfc-without-ecn", Severity.WARNING, _design(f"{ROCE}, congestion: pfc")),
    ("ecn-without-pfc", Severity.INFO, _design(f"{ROCE}, congestion: dcqcn")),
    ("receiver-driven-needs-library", Severity.INFO, _design(f"{ROCE}, congestion: pfc+receiver-driven")),
    ("buffer-below-headroom", Severity.WARNING, _design(ROCE, switch="{radix: 16, speed: 400 Gb/s, buffer: 100 kB}")),
    ("headroom-takes-half", Severity.INFO, _design(ROCE, switch="{radix: 16, speed: 400 Gb/s, buffer: 6 MB}")),
    ("headroom-below-rule", Severity.WARNING, _design(f"{ROCE}, congestion: {{headroom: 100 KiB}}")),
    ("ecn-above-pfc", Severity.WARNING, _design(f"{ROCE}, congestion: {{pfc_threshold: 100 kB, ecn: cumulus}}")),
    ("ecn-reaches-pfc", Severity.WARNING, _design(f"{ROCE}, congestion: {{pfc_threshold: 1 MB, ecn: cumulus}}")),
    ("ecn-late-under-load", Severity.INFO, _design(f"{ROCE}, congestion: {{ecn: {{kmin: 1 MB, kmax: 20 MB}}}}")),
    ("ecn-without-speed", Severity.ERROR, _design(f"{ROCE}, congestion: {{ecn: simulator}}, speed: 200 Gb/s")),
    ("roce-in-lossy-class", Severity.WARNING, _design(f"{ROCE}, congestion: {{classes: sonic-default}}")),
    ("cnp-not-strict", Severity.INFO, _design(f"{ROCE}, congestion: {{classes: sonic-default}}")),
    ("hash-polarisation", Severity.WARNING, _design(f"{FAT}, routing: {{scheme: ecmp, seeds: equal}}", switch="{radix: 8, speed: 400 Gb/s}")),
    ("equal-hash-seeds", Severity.INFO, _design(f"{ROCE}, routing: {{scheme: ecmp, seeds: equal}}")),
    ("few-flows-for-ecmp", Severity.WARNING, _design(ROCE, tail=RING)),
    ("oversubscribed-all-to-all", Severity.WARNING, _design(f"{ROCE}, oversubscription: 3", tail=MIX % "")),
    ("no-management-plane", Severity.WARNING, _design()),
    ("no-frontend-plane", Severity.WARNING, _design(frontend="")),
    ("no-storage-plane", Severity.INFO, _design()),
    ("storage-on-backend", Severity.WARNING, _design(planes="  storage: {shares: backend}\n")),
    ("management-on-backend", Severity.WARNING, _design(planes="  management: {shares: backend}\n")),
    ("management-shared", Severity.WARNING, _design(planes="  management: {shares: frontend}\n")),
    ("plane-shared", Severity.INFO, _design(planes="  storage: {shares: frontend}\n")),
    ("tenants-not-isolated", Severity.WARNING, _design(tail=TENANTS)),
    ("tenants-isolated", Severity.INFO, _design(f"{ROCE}, isolation: vrf", tail=TENANTS)),
    ("job-off-its-planes", Severity.WARNING, _design(tail="tenants: [{name: blue, planes: [frontend]}]\n" + RING.replace("1 MiB", "1 MiB, tenant: blue"))),
    ("encryption-missing", Severity.ERROR, _design(f"{ROCE}, encryption_required: true")),
    ("encryption-provided", Severity.INFO, _design(f"{ROCE}, encryption: macsec")),
    ("growth-limit-near", Severity.INFO, _design(IB, servers=SERVERS.replace("count: 16", "count: 32"))),
    ("attached-to-one-switch", Severity.WARNING, _design(frontend=OWN)),
    ("twin-links-in-one-cable", Severity.WARNING, _design(frontend=f"{OWN}, dual_tor: true, links_per_cable: {{host-leaf: 2}}")),
    ("failure-cuts-off-servers", Severity.ERROR, _design("transport: rocev2, topology: star", switch="{radix: 64, speed: 400 Gb/s}", tail="objectives: {survive_switches: 1}\n")),
    ("failure-leaves-too-little", Severity.ERROR, _design(tail="objectives: {survive_switches: 1, min_bandwidth: 0.99}\n")),
    ("failure-objective-met", Severity.INFO, _design(tail="objectives: {survive_links: 1, min_bandwidth: 0.5}\n")),
    ("availability-objective-missed", Severity.ERROR, _design(tail="objectives: {availability: 1.0}\n")),
    ("availability-objective-met", Severity.INFO, _design(tail="objectives: {availability: 0.9}\n")),
    ("rack-power-exceeded", Severity.ERROR, _design(tail="facility: {rack_power: 9 kW}\n")),
    ("no-subnet-manager", Severity.WARNING, _design(IB)),
    ("subnet-manager-assumed", Severity.INFO, _design(f"{IB}, extra_hosts: {{ufm: 4}}", servers=SERVERS.replace("count: 16", "count: 14"))),
    ("single-subnet-manager", Severity.WARNING, _design(IB, tail="services: [{kind: subnet-manager, plane: backend}]\n")),
    ("no-scheduler", Severity.INFO, _design()),
    ("no-monitoring", Severity.INFO, _design()),
    ("service-on-backend", Severity.WARNING, _design(tail="services: [{kind: scheduler, plane: backend}]\n")),
    ("single-monitoring", Severity.INFO, _design(tail="services: [{kind: monitoring, plane: frontend}]\n")),
    ("software-unknown", Severity.INFO, _design()),
    ("nccl-without-pxn", Severity.ERROR, _design(tail=MIX % ", algorithm: rail-aligned" + "software: {nccl: 2.11.4}\n")),
    ("nccl-without-pxn", Severity.WARNING, _design(tail=MIX % "" + "software: {nccl: 2.11.4}\n")),
    ("nccl-without-pxn", Severity.INFO, _design(tail="software: {nccl: 2.11.4}\n")),
    ("firmware-of-another-nic", Severity.WARNING, _design(servers=H100, tail="software: {firmware: 32.41.1000}\n")),
    ("driver-too-old", Severity.WARNING, _design(servers=B200, frontend="", tail="software: {driver: 570.124.06}\n")),
    ("job-of-nobody", Severity.INFO, _design(tail=TENANTS + RING)),
    ("nccl-version-unreadable", Severity.WARNING, _design(tail="software: {nccl: latest}\n")),
    ("nos-not-offered", Severity.WARNING, _design(IB, switch="qm9700", tail="software: {nos: SONiC}\n")),
    ("nos-not-offered", Severity.INFO, _design(IB, switch="qm9700", frontend=OWN.replace("{radix: 16, speed: 200 Gb/s}", "sn4700"), tail="software: {nos: SONiC}\n")),
    ("announced-part", Severity.WARNING, _design(IB, switch="q3450-cpo")),
    ("tensor-across-servers", Severity.WARNING, _design(tail=TRAIN)),
    ("more-channels-than-rails", Severity.INFO, _design(tail=RING.replace("1 MiB", "1 MiB, channels: 99"))),
    ("gpus-shared-by-jobs", Severity.WARNING, _design(tail=TWO % "")),
    ("gpus-shared-by-jobs", Severity.WARNING, _design(tail=TWO % ", start: 1 ms")),
    ("model-exceeds-memory", Severity.WARNING, _design(tail=TRAIN.replace("8b", "405b"))),
    ("model-needs-sharding", Severity.INFO, _design(tail=TRAIN.replace("8b", "70b").replace("16", "8"))),
    ("storage-reads-too-slow", Severity.WARNING, STORED % "ingest: 40 GB/s"),
    ("checkpoint-outlasts-period", Severity.WARNING, STORED % "checkpoint_size: 10 TB, checkpoint_period: 10 s"),
]


@pytest.mark.parametrize(
    ("id", "severity", "text"), SPEAKS, ids=[f"{id}-{level}" for id, level, _ in SPEAKS]
)
def test_check_speaks(id: str, severity: Severity, text: str) -> None:
    found = _one(text, id)
    assert found.severity is severity
    assert found.path.startswith("d.yaml:")
    assert found.message
    if severity is not Severity.INFO:
        assert found.fix


def test_a_careful_design_has_no_errors_and_no_warnings() -> None:
    grave = [finding for finding in _findings(GOOD) if finding.severity is not Severity.INFO]
    assert [str(finding) for finding in grave] == []


#: (finding that must not be there, design)
SILENT: list[tuple[str, str]] = [
    ("few-flows-for-ecmp", _design(f"{ROCE}, routing: {{scheme: e-ecmp, queue_pairs: 4}}", tail=RING)),
    ("few-flows-for-ecmp", _design(f"{ROCE}, routing: adaptive", tail=RING)),
    # rails within one scalable unit: no flow leaves its leaf
    ("few-flows-for-ecmp", _design(ROCE, servers=SERVERS.replace("count: 16", "count: 8"), tail=RING)),
    # everybody to everybody: many flows
    ("few-flows-for-ecmp", _design(ROCE, tail=MIX % "")),
    ("oversubscribed-all-to-all", _design(f"{ROCE}, oversubscription: 3", tail=RING)),
    ("oversubscribed-all-to-all", _design(tail=MIX % "")),
    ("hash-polarisation", _design(f"{FAT}, routing: ecmp", switch="{radix: 8, speed: 400 Gb/s}")),
    ("attached-to-one-switch", _design()),
    ("tenants-not-isolated", _design(tail="tenants: [{name: blue}]\n")),
    ("no-subnet-manager", _design(IB, tail="services: [{kind: subnet-manager, plane: backend, instances: 2}]\n")),
    ("single-subnet-manager", _design(IB, tail="services: [{kind: subnet-manager, plane: backend, instances: 2}]\n")),
    ("nccl-without-pxn", _design(tail=MIX % "" + "software: {nccl: 2.12.1}\n")),
    ("firmware-of-another-nic", _design(servers=H100, tail="software: {firmware: 28.39.1002}\n")),
    ("firmware-of-another-nic", _design(servers=H100, tail="software: {firmware: latest}\n")),
    ("firmware-of-another-nic", _design(tail="software: {firmware: 32.41.1000}\n")),
    ("driver-too-old", _design(servers=B200, frontend="", tail="software: {driver: 570.133.20}\n")),
    ("driver-too-old", _design(servers=B200, frontend="", tail="software: {driver: '570'}\n")),
    ("driver-too-old", _design(servers=H100, tail="software: {driver: '535.1'}\n")),
    ("job-of-nobody", _design(tail=TENANTS + RING.replace("1 MiB", "1 MiB, tenant: blue"))),
    ("job-of-nobody", _design(tail=RING)),
    ("nos-not-offered", _design(ROCE, switch="sn5600", tail="software: {nos: SONiC 202405}\n")),
    ("buffer-below-headroom", _design()),
    ("headroom-takes-half", _design()),
    ("headroom-below-rule", _design(f"{ROCE}, congestion: {{headroom: 400 KiB}}")),
    ("ecn-above-pfc", _design(f"{ROCE}, congestion: {{pfc_threshold: 2 MB, ecn: cumulus}}")),
    ("ecn-reaches-pfc", _design(f"{ROCE}, congestion: {{pfc_threshold: 2 MB, ecn: cumulus}}")),
    ("ecn-late-under-load", _design()),
    ("ecn-without-speed", _design(f"{ROCE}, congestion: {{ecn: simulator}}")),
    ("roce-in-lossy-class", _design()),
    ("roce-in-lossy-class", _design(f"{ROCE}, congestion: {{scheme: dcqcn, classes: sonic-default}}")),
    ("cnp-not-strict", _design()),
    ("buffer-below-headroom", _design(f"{ROCE}, congestion: dcqcn", switch="{radix: 16, speed: 400 Gb/s, buffer: 100 kB}")),
    ("model-exceeds-memory", _design(tail=TRAIN)),
    ("storage-reads-too-slow", STORED % "ingest: 1 GB/s"),
    ("checkpoint-outlasts-period", STORED % "checkpoint_size: 1 TB"),
    ("tensor-across-servers", _design(tail=TRAIN.replace("16", "4"))),
    ("more-channels-than-rails", _design(tail=RING.replace("1 MiB", "1 MiB, channels: 4"))),
    ("growth-limit-near", _design(IB)),
    ("gpus-shared-by-jobs", _design(tail=RING)),
    ("gpus-shared-by-jobs", _design(tail=TWO % ", start: 10 s")),
    ("gpus-shared-by-jobs", _design(tail=TWO.replace("1 GiB", "1 GiB, ranks: 8") % ", ranks: 8")),
    ("gpus-shared-by-jobs", _design(tail=TWO.replace("1 GiB", "1 GiB, ranks: 2, placement: [0, 1]") % ", ranks: 2, placement: [2, 3]")),
]


@pytest.mark.parametrize(("id", "text"), SILENT, ids=[id for id, _ in SILENT])
def test_check_is_silent(id: str, text: str) -> None:
    assert id not in _ids(text)


def test_findings_come_gravest_first_and_once() -> None:
    found = _findings(_design(f"{ROCE}, encryption_required: true, congestion: none"))
    order = [list(Severity).index(finding.severity) for finding in found]
    assert order == sorted(order)
    assert len(set(found)) == len(found)


def test_place_is_that_of_the_field_in_the_file() -> None:
    text = _design(f"{ROCE}, congestion: none")
    column = text.splitlines()[5].index("congestion") + 1
    assert _one(text, "roce-without-congestion-control").path == f"d.yaml:6:{column}"


def test_other_checks_can_be_given() -> None:
    def always(context: CheckContext) -> Iterable[Finding]:
        yield context.warning("mine", "cluster", context.design.name)

    found = run_checks(parse_design(_design(), "d.yaml"), checks=(always,))
    assert [f.message for f in found if f.id == "mine"] == ["checked"]
    assert not any(f.id == "no-management-plane" for f in found)


def test_installed_checks_run_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name = "theirs"

        @staticmethod
        def load() -> object:
            return lambda context: [context.info("theirs", "name", "a check from elsewhere")]

    monkeypatch.setattr("railweave.assess.checks.entry_points", lambda group: [Entry()])
    assert any(f.id == "theirs" for f in run_checks(parse_design(_design(), "d.yaml")))


def test_every_check_is_named_once() -> None:
    assert len({check.__name__ for check in CHECKS}) == len(CHECKS)


def test_uneven_channels_say_what_each_rail_carries():
    def message(channels: int) -> str:
        tail = RING.replace("1 MiB", f"1 MiB, channels: {channels}")
        return _one(_design(tail=tail), "more-channels-than-rails").message

    assert "99 channels on 4 rails" in message(99)
    assert "3 of the rails carry 25 channels and the others 24" in message(99)
    assert "every rail carries 2 channels" in message(8)


def test_jobs_on_the_same_gpus_are_named_with_their_number_and_times() -> None:
    lists = "{name: a, collective: all-reduce, size: 1 GiB, ranks: 4, placement: [0, 1, 2, 3]%s}"
    jobs = [lists % "", lists.replace("a,", "b,", 1).replace("0, 1, 2", "9, 1, 2") % ", start: 1 us"]
    jobs.append(lists.replace("a,", "c,", 1).replace("0, 1, 2, 3", "0, 9, 20, 21") % ", start: 9 s")
    jobs.append("{name: d, collective: all-reduce, size: 1 MiB, start: 1 us}")
    text = _design(tail=f"jobs: [{', '.join(jobs)}]\n")
    found = {f.message.split(":")[0]: f for f in _findings(text) if f.id == "gpus-shared-by-jobs"}
    assert sorted(found) == ["b", "d"]  # c starts long after
    assert "of its 4 GPUs 3 also run a at the same time" in found["b"].message
    assert "4 also run a and 4 also run b" in found["d"].message
    assert re.fullmatch(
        r"a starts at 0 s, alone ends at [\d.]+ ms; b starts at 1 us.*", found["b"].evidence
    )
    assert found["b"].path == f"d.yaml:{len(text.splitlines())}:{text.splitlines()[-1].index('{name: b') + 1}"


def test_few_flows_counts_those_that_leave_their_leaf() -> None:
    # Packed in rank order, a ring of 16 servers crosses from leaf to leaf in few places.
    text = _design("transport: rocev2, topology: leaf-spine, min_spines: 4", tail=RING)
    found = _one(text, "few-flows-for-ecmp")
    built = parse_design(text, "d.yaml")
    fabric = build_fabric(built.design, built.catalog).fabric
    leaves = len(fabric.switches(PlaneId.BACKEND, 1))
    count = re.match(r"([\d,]+) flows of the jobs cross the uplinks of (\d+) leaves", found.message)
    assert count is not None
    assert int(count[2]) == leaves
    assert int(count[1].replace(",", "")) == 4 * leaves  # one a channel: the ring leaves each leaf once
    # what is advised is what measured lower
    ratio = dict(re.findall(r"(ecmp|static|adaptive|\{queue_pairs: 4\}) ([\d.]+)", found.evidence))
    for remedy in found.fix.removeprefix("routing: ").split(" or "):
        assert float(ratio[remedy]) < float(ratio["ecmp"])
