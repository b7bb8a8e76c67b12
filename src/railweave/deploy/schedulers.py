"""A fabric as job schedulers want it: Slurm's topology files, Kubernetes labels, Kueue objects.

A scheduler sees a tree. Its lowest level are the servers that hang on the same leaves: those under
one leaf or, where every NIC of a server has a leaf of its own (rails, dual ToR), those of a
scalable unit; above are the pods that core switches join, where there are some, and the whole
fabric. Servers and switches have the names that ``railweave build`` gives them.

Formats, as publicly documented: topology.conf(5) and topology.yaml(5) of Slurm; Topology and
ResourceFlavor of Kueue (kueue.x-k8s.io/v1beta2), with the label keys of its examples.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from railweave.deploy._hostlist import compress
from railweave.errors import InputError
from railweave.fabric import Fabric, NodeKind, PlaneId
from railweave.fabric.names import node_name
from railweave.workload import LeafGroups, leaf_groups

__all__ = [
    "BLOCK_LABEL",
    "DOMAIN_LABEL",
    "GROUP_LABEL",
    "HOST_LABEL",
    "RACK_LABEL",
    "SchedulerView",
    "Unit",
    "kueue_objects",
    "node_labels",
    "scheduler_view",
    "slurm_block",
    "slurm_tree",
    "slurm_yaml",
]

BLOCK_LABEL: Final = "cloud.provider.com/topology-block"
RACK_LABEL: Final = "cloud.provider.com/topology-rack"
DOMAIN_LABEL: Final = "cloud.provider.com/topology-scale-up"
GROUP_LABEL: Final = "cloud.provider.com/node-group"
HOST_LABEL: Final = "kubernetes.io/hostname"
_KUEUE: Final = "kueue.x-k8s.io/v1beta2"

#: what Slurm takes as a name, and how long
_SLURM_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: names of Kubernetes nodes (RFC 1123), short enough to be a label's value too
_KUBERNETES_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LARGEST: Final = 63


@dataclass(frozen=True, slots=True)
class Unit:
    """Servers on the same leaves: its name, its leaves and servers by name, and its pod's name."""

    name: str
    leaves: tuple[str, ...]
    servers: tuple[str, ...]
    pod: str


@dataclass(frozen=True, slots=True)
class SchedulerView:
    """A fabric as a tree of units, pods and a root, and its scale-up domains.

    ``pods`` are the names of the pods, empty where no core switches join any; ``domains`` the
    scale-up domains that span servers, (name, servers), empty where none does.
    """

    name: str
    units: tuple[Unit, ...]
    pods: tuple[str, ...]
    root: str
    domains: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def servers(self) -> tuple[str, ...]:
        """Every server."""
        return tuple(server for unit in self.units for server in unit.servers)


def scheduler_view(fabric: Fabric, *, unit: str = "unit") -> SchedulerView:
    """Return the tree of a fabric's back-end, as cabled: links that are down count.

    Args:
        fabric: with names of its servers.
        unit: what a group of servers on several leaves is called (``su`` gives su-1, su-2, …).

    Raises:
        InputError: a GPU server without a port on the back-end, or a name that stands for two.
    """
    groups = leaf_groups(fabric)
    gpus = np.unique(fabric.node_server[fabric.gpus])
    lost = gpus[groups.of_server[gpus] < 0]
    if lost.size:
        raise InputError(
            f"{fabric.server_names[int(lost[0])]}: has no back-end port, and a scheduler needs to "
            "know where every server hangs; give it NICs, or leave it out of the design"
        )
    pods = np.unique(groups.pod)
    cored = len(pods) > 1
    named = {int(pod): f"pod-{int(pod) + 1}" if cored else "" for pod in pods}
    members = [gpus[groups.of_server[gpus] == number] for number in range(groups.count)]
    units = tuple(
        Unit(
            _unit_name(fabric, groups, number, unit),
            tuple(node_name(fabric, leaf) for leaf in groups.leaves[number]),
            tuple(fabric.server_names[server] for server in members[number].tolist()),
            named[int(groups.pod[number])],
        )
        for number in range(groups.count)
    )
    view = SchedulerView(
        fabric.name,
        units,
        tuple(named.values()) if cored else (),
        _root(fabric),
        _domains(fabric),
    )
    switches = [*(one.name for one in units), *view.pods, view.root]
    _once(switches, "switch")
    _once(view.servers, "server")
    return view


def _unit_name(fabric: Fabric, groups: LeafGroups, number: int, unit: str) -> str:
    """Return the leaf's own name where there is one leaf, else the unit's number."""
    leaves = groups.leaves[number]
    if len(leaves) == 1:
        return node_name(fabric, leaves[0])
    before = sum(len(leaves) > 1 for leaves in groups.leaves[:number])
    return f"{unit}-{before + 1}"


def _root(fabric: Fabric) -> str:
    """Return what the top of the tree is called: all switches of the highest tier together."""
    for tier, name in ((3, "cores"), (2, "spines")):
        if len(fabric.switches(PlaneId.BACKEND, tier)):
            return name
    return "fabric"


def _domains(fabric: Fabric) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the scale-up domains that span servers, numbered in the order of their servers."""
    into = fabric.node_kind[fabric.link_dst] == NodeKind.SCALE_UP
    gpu, hub = fabric.link_src[into], fabric.link_dst[into]
    pairs = np.unique(np.stack((hub, fabric.node_server[gpu]), axis=1), axis=0)
    servers: dict[int, list[str]] = {}
    for at, server in pairs.tolist():
        servers.setdefault(at, []).append(fabric.server_names[server])
    if all(len(names) == 1 for names in servers.values()):
        return ()
    return tuple(
        (f"scale-up-{number}", tuple(names))
        for number, names in enumerate(servers.values(), start=1)
    )


def _once(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{name}: two of the {what} names are this; rename one of them")
        seen.add(name)


# ---- Slurm


def slurm_tree(view: SchedulerView) -> str:
    """Return Slurm's topology.conf for topology/tree.

    Raises:
        InputError: a name that Slurm does not take.
    """
    _check_slurm(view)
    lines = [
        *_head(view, "topology.conf, for TopologyPlugin=topology/tree"),
        *(f"SwitchName={unit.name} Nodes={compress(unit.servers)}" for unit in view.units),
        *(f"SwitchName={name} Switches={compress(children)}" for name, children in _upper(view)),
    ]
    return "\n".join(lines) + "\n"


def slurm_block(view: SchedulerView) -> str:
    """Return Slurm's topology.conf for topology/block: a block is a scale-up domain.

    Raises:
        InputError: no scale-up domain spans servers, or a name that Slurm does not take.
    """
    _check_slurm(view)
    _need_domains(view)
    lines = [
        *_comments(
            f"topology.conf, for TopologyPlugin=topology/block: {view.name}",
            "Written by railweave. A block is a scale-up domain (NVLink) that spans servers.",
            "BlockSizes is the smallest block; add larger sizes (2, 4, 8 times it) where jobs are",
            "to be kept in groups of blocks.",
        ),
        *(f"BlockName={name} Nodes={compress(servers)}" for name, servers in view.domains),
        f"BlockSizes={_block_size(view)}",
    ]
    return "\n".join(lines) + "\n"


def slurm_yaml(view: SchedulerView) -> str:
    """Return Slurm's topology.yaml: the tree, and the blocks where scale-up domains span servers.

    Raises:
        InputError: a name that Slurm does not take.
    """
    _check_slurm(view)
    switches: list[dict[str, str]] = [
        {"switch": unit.name, "nodes": compress(unit.servers)} for unit in view.units
    ]
    switches += [
        {"switch": name, "children": compress(children)} for name, children in _upper(view)
    ]
    topologies: list[dict[str, Any]] = [
        {"topology": "tree", "cluster_default": True, "tree": {"switches": switches}}
    ]
    if view.domains:
        blocks = [{"block": name, "nodes": compress(servers)} for name, servers in view.domains]
        topologies.append(
            {
                "topology": "block",
                "cluster_default": False,
                "block": {"block_sizes": [_block_size(view)], "blocks": blocks},
            }
        )
    return "\n".join(_head(view, "topology.yaml")) + "\n" + _yaml([topologies])


def _upper(view: SchedulerView) -> list[tuple[str, list[str]]]:
    """Return the switches above the units: pods, then the root, each with its children."""
    above = [(pod, [unit.name for unit in view.units if unit.pod == pod]) for pod in view.pods]
    children = list(view.pods) or [unit.name for unit in view.units]
    return [*above, (view.root, children)] if len(children) > 1 else above


def _block_size(view: SchedulerView) -> int:
    """Return the smallest block: Slurm wants as many nodes at least in every block."""
    return min(len(servers) for _, servers in view.domains)


def _need_domains(view: SchedulerView) -> None:
    if not view.domains:
        raise InputError(
            "a block is a scale-up domain that spans servers, and here every domain is one server; "
            "export the tree (--slurm) instead"
        )


def _check_slurm(view: SchedulerView) -> None:
    names = (*view.servers, *(unit.name for unit in view.units), *view.pods, view.root)
    for name in names:
        if not _SLURM_NAME.fullmatch(name):
            raise InputError(
                f"{name}: Slurm does not take this name; allowed: up to 64 letters, digits, '.', "
                "'_' and '-', the first a letter or digit; rename it in the design"
            )


# ---- Kubernetes


def _level_labels(view: SchedulerView) -> tuple[tuple[str, ...], str]:
    """Return the label keys from the widest level to the narrowest, and what to say of them.

    A level must nest in the one before; where scale-up domains cut across units, these are none.
    """
    if not view.domains:
        return (BLOCK_LABEL, RACK_LABEL), ""
    domain_of = {server: name for name, servers in view.domains for server in servers}
    unit_of = {server: unit.name for unit in view.units for server in unit.servers}
    pairs = {(domain_of[s], unit_of[s]) for s in view.servers if s in domain_of}
    if len(pairs) == len({domain for domain, _ in pairs}):
        return (BLOCK_LABEL, RACK_LABEL, DOMAIN_LABEL), ""
    if len(pairs) == len({unit for _, unit in pairs}):
        return (BLOCK_LABEL, DOMAIN_LABEL, RACK_LABEL), ""
    return (
        (BLOCK_LABEL, DOMAIN_LABEL),
        "Scale-up domains and units cut across each other: the tree has the domains, within which "
        f"bandwidth is greatest; {RACK_LABEL} is on the nodes, but no level.",
    )


def kueue_objects(view: SchedulerView) -> str:
    """Return Kueue's Topology and ResourceFlavor as YAML documents.

    The levels are the labels that :func:`node_labels` writes, and the host name.

    Raises:
        InputError: a name that Kubernetes does not take.
    """
    _check_kubernetes(view)
    keys, note = _level_labels(view)
    name = _slug(view.name)
    topology = {
        "apiVersion": _KUEUE,
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": key} for key in (*keys, HOST_LABEL)]},
    }
    flavor = {
        "apiVersion": _KUEUE,
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": {GROUP_LABEL: name}, "topologyName": name},
    }
    return "\n".join(
        (
            *_head(view, "Topology and ResourceFlavor of Kueue"),
            *_comments(
                "The nodes need the labels of the node-labels file.", *([note] * bool(note))
            ),
            "",
        )
    ) + _yaml([topology, flavor])


def node_labels(view: SchedulerView) -> str:
    """Return one Kubernetes Node document a server with its topology labels.

    Raises:
        InputError: a name that Kubernetes does not take.
    """
    _check_kubernetes(view)
    domain_of = {server: name for name, servers in view.domains for server in servers}
    documents = []
    for unit in view.units:
        for server in unit.servers:
            labels = {
                GROUP_LABEL: _slug(view.name),
                BLOCK_LABEL: unit.pod or view.root,
                RACK_LABEL: unit.name,
            }
            if domain_of:
                labels[DOMAIN_LABEL] = domain_of.get(server, server)
            documents.append(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": server, "labels": labels},
                }
            )
    return "\n".join(
        (
            *_head(view, "labels of Kubernetes nodes"),
            *_comments(
                "Put them on nodes that have joined: kubectl apply --server-side -f FILE. A name",
                "that is no node of the cluster would be made one, without a machine behind it.",
            ),
            "",
        )
    ) + _yaml(documents)


def _check_kubernetes(view: SchedulerView) -> None:
    for server in view.servers:
        if not _KUBERNETES_NAME.fullmatch(server):
            raise InputError(
                f"{server}: no name of a Kubernetes node; allowed: up to 63 of a–z, 0–9, '-' and "
                "'.', first and last a letter or digit; set cluster.servers.name"
            )
    for name in (*(unit.name for unit in view.units), *view.pods, view.root):
        if not _LABEL_VALUE.fullmatch(name):
            raise InputError(
                f"{name}: no value of a Kubernetes label; allowed: up to 63 letters, digits, '-', "
                "'_' and '.', first and last a letter or digit; rename it in the design"
            )


def _slug(name: str) -> str:
    """Return a name as Kubernetes takes it: lower case, other characters as '-'."""
    text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LARGEST].strip("-")
    return text or "fabric"


# ---- shared by all


def _head(view: SchedulerView, what: str) -> list[str]:
    """Return the comment at the head of a file: what it is, and what its lowest level is."""
    units = [unit for unit in view.units if len(unit.leaves) > 1]
    lines = [f"{what}: {view.name}", "Written by railweave from the back-end's cabling."]
    if not units:
        lines.append("Servers hang on one leaf each; the tree's lowest switch is that leaf.")
    else:
        lines += [
            "Servers hang on several leaves each (rails, dual ToR), which a tree cannot say: its",
            "lowest switch is the unit of servers that hang on the same leaves:",
        ]
        lines += [f"{unit.name}: {compress(unit.leaves)}" for unit in units]
    return _comments(*lines)


def _comments(*lines: str) -> list[str]:
    """Return comment lines; nothing in them can end the comment."""
    return ["# " + " ".join(line.split()) for line in lines]


def _yaml(documents: Sequence[object]) -> str:
    """Return YAML documents in block style, keys in the order given."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 4096
    out = io.StringIO()
    for number, document in enumerate(documents):
        out.write("---\n" if number else "")
        yaml.dump(document, out)
    return out.getvalue()
