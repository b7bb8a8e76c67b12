"""Topology for schedulers: golden files, and parsers strict enough to refuse what theirs would.

``RAILWEAVE_UPDATE_GOLDEN=1`` writes the golden files anew.
"""

import dataclasses
import itertools
import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

import railweave
from golden_text import is_as_kept
from railweave.deploy import (
    SchedulerView,
    Unit,
    kueue_objects,
    node_labels,
    scheduler_view,
    slurm_block,
    slurm_tree,
    slurm_yaml,
)
from railweave.deploy._hostlist import compress, expand
from railweave.deploy.schedulers import (
    BLOCK_LABEL,
    DOMAIN_LABEL,
    GROUP_LABEL,
    HOST_LABEL,
    RACK_LABEL,
)
from railweave.errors import InputError
from railweave.fabric.names import find_node

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[2] / "examples"
NVL72 = """\
railweave: 1
name: nvl72
cluster:
  servers: {model: gb200-nvl72-tray, count: %d}
planes:
  backend: {transport: infiniband, topology: %s, switch: {radix: 128, speed: 400 Gb/s}}
"""
MIXED = """\
railweave: 1
name: Mixed_2
cluster:
  servers:
    - {name: old, model: dgx-a100, count: 3, nics: 8}
    - {name: new-9, model: dgx-h100, count: 5}
planes:
  backend: {transport: rocev2, topology: leaf-spine, switch: {radix: 32, speed: 400 Gb/s}}
"""


@cache
def fabric(name):
    if name == "nvl72":
        return (
            railweave.parse(NVL72.replace("radix: 128", "radix: 64") % (36, "rail-optimized"))
            .build()
            .fabric
        )
    if name == "nvl72-nested":
        return railweave.parse(NVL72 % (32, "star")).build().fabric
    if name == "mixed":
        return railweave.parse(MIXED).build().fabric
    return railweave.load(EXAMPLES / f"{name}.yaml").build().fabric


@cache
def view(name):
    unit = {"superpod-h100-2su": "su", "superpod-b200-16su": "su", "nvl72": "su"}
    return scheduler_view(fabric(name), unit=unit.get(name, "unit"))


CASES = (
    "superpod-h100-2su",
    "juniper-16-leaf",
    "ring-of-switches",
    "star-64-gpus",
    "mixed",
    "nvl72",
)
ALL = (*CASES, "nvl72-nested", "hpn-pod-15k", "meta-llama3-24k", "superpod-b200-16su")
WRITERS = {
    "topology.conf": slurm_tree,
    "topology.yaml": slurm_yaml,
    "kueue.yaml": kueue_objects,
    "nodes.yaml": node_labels,
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", [*WRITERS, "block.conf"])
def test_golden(name, kind):
    if kind == "block.conf" and name != "nvl72":
        return
    text = {**WRITERS, "block.conf": slurm_block}[kind](view(name))
    assert is_as_kept(text, GOLDEN / f"{name}-{kind}")


# ---- Slurm


def parsed(text):
    """Read a topology.conf: KEY=VALUE words, comments, one entry a line; refuse all else."""
    switches, blocks, sizes = {}, {}, None
    for line in text.splitlines():
        words = dict(word.split("=") for word in line.split("#")[0].split())
        if not words:
            continue
        if "BlockSizes" in words:
            assert set(words) == {"BlockSizes"}
            sizes = [int(size) for size in words["BlockSizes"].split(",")]
        elif "BlockName" in words:
            assert set(words) == {"BlockName", "Nodes"}
            assert words["BlockName"] not in blocks
            blocks[words["BlockName"]] = expand(words["Nodes"])
        else:
            assert set(words) in ({"SwitchName", "Nodes"}, {"SwitchName", "Switches"})
            assert words["SwitchName"] not in switches
            assert len(words["SwitchName"]) <= 64
            switches[words["SwitchName"]] = words
    return switches, blocks, sizes


def nodes_under(switches, name):
    words = switches[name]
    if "Nodes" in words:
        return expand(words["Nodes"])
    return [node for child in expand(words["Switches"]) for node in nodes_under(switches, child)]


@pytest.mark.parametrize("name", ALL)
def test_every_server_hangs_once_in_one_tree(name):
    switches, _, _ = parsed(slurm_tree(view(name)))
    children = [c for w in switches.values() if "Switches" in w for c in expand(w["Switches"])]
    assert len(children) == len(set(children))
    roots = set(switches) - set(children)
    assert len(roots) == 1
    under = nodes_under(switches, roots.pop())
    gpus = fabric(name).node_server[fabric(name).gpus]
    assert sorted(under) == sorted(fabric(name).server_names[s] for s in set(gpus.tolist()))


@pytest.mark.parametrize("name", ALL)
def test_names_are_those_of_the_build(name):
    for unit in view(name).units:
        for part in (*unit.leaves, *unit.servers):
            find_node(fabric(name), part)
        if len(unit.leaves) == 1:
            assert unit.name == unit.leaves[0]


def test_pods_stand_between_units_and_the_root():
    meta = view("meta-llama3-24k")
    assert meta.pods == tuple(f"pod-{n}" for n in range(1, 9))
    assert meta.root == "cores"
    switches, _, _ = parsed(slurm_tree(meta))
    assert len(nodes_under(switches, "pod-8")) == 384
    assert view("hpn-pod-15k").pods == ()


def test_a_rail_optimised_unit_is_what_hangs_on_the_same_leaves():
    su = view("superpod-h100-2su").units
    assert [unit.name for unit in su] == ["su-1", "su-2"]
    assert su[0].leaves == tuple(f"leaf-{n}" for n in range(1, 9))
    assert "# su-2: leaf-[9-16]" in slurm_tree(view("superpod-h100-2su")).splitlines()
    one_leaf = slurm_tree(view("star-64-gpus"))
    assert "Servers hang on one leaf each" in one_leaf


def test_links_that_are_down_change_nothing():
    whole = fabric("superpod-h100-2su")
    broken = whole.without(nodes=[find_node(whole, "leaf-3")])
    assert scheduler_view(broken, unit="su") == view("superpod-h100-2su")


def test_blocks_are_the_scale_up_domains():
    _, blocks, sizes = parsed(slurm_block(view("nvl72")))
    assert {name: len(nodes) for name, nodes in blocks.items()} == {
        "scale-up-1": 18,
        "scale-up-2": 18,
    }
    assert sizes == [18]
    _, blocks, sizes = parsed(slurm_block(view("nvl72-nested")))
    assert [len(nodes) for nodes in blocks.values()] == [18, 14]
    assert sizes == [14]
    with pytest.raises(InputError, match="here every domain is one server"):
        slurm_block(view("star-64-gpus"))


@pytest.mark.parametrize("name", ALL)
def test_topology_yaml_says_what_topology_conf_says(name):
    found = YAML(typ="safe").load(slurm_yaml(view(name)))
    switches, _, _ = parsed(slurm_tree(view(name)))
    tree, *more = found
    assert list(tree) == ["topology", "cluster_default", "tree"]  # topology comes first
    assert tree["cluster_default"] is True
    for one in tree["tree"]["switches"]:
        words = switches.pop(one.pop("switch"))
        assert one in ({"nodes": words.get("Nodes")}, {"children": words.get("Switches")})
    assert switches == {}
    assert [one["topology"] for one in more] == ["block"] * bool(view(name).domains)
    for one in more:
        _, blocks, sizes = parsed(slurm_block(view(name)))
        assert one["cluster_default"] is False
        assert one["block"]["block_sizes"] == sizes
        assert {b["block"]: expand(b["nodes"]) for b in one["block"]["blocks"]} == blocks


# ---- Kubernetes: the rules of the API and of Kueue's resource definitions

LABEL = re.compile(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
OBJECT = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
VALUE = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")


def labels_of(name):
    found = {}
    for node in YAML(typ="safe").load_all(node_labels(view(name))):
        assert (node["apiVersion"], node["kind"]) == ("v1", "Node")
        assert set(node["metadata"]) == {"name", "labels"}
        assert OBJECT.match(node["metadata"]["name"])
        assert node["metadata"]["name"] not in found
        found[node["metadata"]["name"]] = node["metadata"]["labels"]
    return found


@pytest.mark.parametrize("name", ALL)
def test_kueue_levels_nest_and_every_node_has_them(name):
    topology, flavor = YAML(typ="safe").load_all(kueue_objects(view(name)))
    assert {topology["apiVersion"], flavor["apiVersion"]} == {"kueue.x-k8s.io/v1beta2"}
    assert (topology["kind"], flavor["kind"]) == ("Topology", "ResourceFlavor")
    keys = [level["nodeLabel"] for level in topology["spec"]["levels"]]
    assert 1 <= len(keys) <= 8
    assert len(set(keys)) == len(keys)
    assert all(LABEL.match(key) for key in keys)
    assert keys.index(HOST_LABEL) == len(keys) - 1
    assert flavor["spec"]["topologyName"] == topology["metadata"]["name"]
    assert OBJECT.match(topology["metadata"]["name"])
    assert len(flavor["spec"]["nodeLabels"]) >= 1
    nodes = labels_of(name)
    assert list(nodes) == list(view(name).servers)
    for labels in nodes.values():
        assert labels.items() >= flavor["spec"]["nodeLabels"].items()
        assert set(keys[:-1]) <= set(labels)
        assert all(VALUE.match(value) and len(value) <= 63 for value in labels.values())
    for wide, narrow in itertools.pairwise(keys[:-1]):
        pairs = {(labels[wide], labels[narrow]) for labels in nodes.values()}
        assert len(pairs) == len({inner for _, inner in pairs})


def test_what_the_levels_are():
    def keys(name):
        topology = next(YAML(typ="safe").load_all(kueue_objects(view(name))))
        return [level["nodeLabel"] for level in topology["spec"]["levels"]]

    assert keys("superpod-h100-2su") == [BLOCK_LABEL, RACK_LABEL, HOST_LABEL]
    # 18 servers a domain under units of 32: the domains are the tree.
    assert keys("nvl72") == [BLOCK_LABEL, DOMAIN_LABEL, HOST_LABEL]
    assert "cut across each other" in kueue_objects(view("nvl72"))
    assert keys("nvl72-nested") == [BLOCK_LABEL, RACK_LABEL, DOMAIN_LABEL, HOST_LABEL]
    labels = labels_of("nvl72")
    assert labels["node019"] == {
        GROUP_LABEL: "nvl72",
        BLOCK_LABEL: "spines",
        RACK_LABEL: "su-1",
        DOMAIN_LABEL: "scale-up-2",
    }
    assert labels_of("mixed")["old001"][GROUP_LABEL] == "mixed-2"


def test_domains_wider_than_units_stand_above_them():
    units = tuple(Unit(f"leaf-{n}", (f"leaf-{n}",), (f"n{n}",), "") for n in range(4))
    made = SchedulerView("x", units, (), "spines", (("a", ("n0", "n1")), ("b", ("n2", "n3"))))
    topology = next(YAML(typ="safe").load_all(kueue_objects(made)))
    assert [level["nodeLabel"] for level in topology["spec"]["levels"]] == [
        BLOCK_LABEL,
        DOMAIN_LABEL,
        RACK_LABEL,
        HOST_LABEL,
    ]


# ---- names


@pytest.mark.parametrize("bad", ["a b", "a=b", "a[1]", "a,b", "a#b", "", "-a", "a" * 65, "a\nb"])
def test_names_that_slurm_does_not_take_are_refused(bad):
    unit = Unit(bad, ("leaf-1",), ("node001",), "")
    made = SchedulerView("x", (unit,), (), "spines", ())
    for write in (slurm_tree, slurm_yaml):
        with pytest.raises(InputError, match="Slurm does not take this name; allowed"):
            write(made)
    with pytest.raises(InputError, match="allowed"):
        kueue_objects(made)
    server = dataclasses.replace(unit, name="leaf-1", servers=(bad,))
    with pytest.raises(InputError, match="no name of a Kubernetes node"):
        node_labels(dataclasses.replace(made, units=(server,)))
    with pytest.raises(InputError, match="Slurm does not take this name"):
        slurm_tree(dataclasses.replace(made, units=(server,)))


def test_a_comment_cannot_be_left():
    made = dataclasses.replace(view("star-64-gpus"), name="x\nSwitchName=evil Nodes=a")
    assert list(parsed(slurm_tree(made))[0]) == ["leaf-1"]


def test_a_name_that_stands_for_two_is_refused():
    whole = fabric("ring-of-switches")
    named = dict(whole.switch_names)
    one, two = [node for node in named if named[node].startswith("ring-")][:2]
    with pytest.raises(InputError, match=f"{named[one]}: two of the switch names"):
        scheduler_view(dataclasses.replace(whole, switch_names={**named, two: named[one]}))


def test_a_server_that_hangs_nowhere_is_refused():
    whole = fabric("star-64-gpus")
    server = whole.node_server[whole.link_src] == 2
    elsewhere = dataclasses.replace(whole, link_plane=whole.link_plane + server.astype("int8"))
    with pytest.raises(InputError, match="node003: has no back-end port"):
        scheduler_view(elsewhere)


# ---- hostlists


@given(st.lists(st.from_regex(r"\A[a-z][a-z0-9-]{0,4}[0-9]{0,12}\Z"), unique=True, max_size=30))
def test_hostlists_give_the_names_back(names):
    assert expand(compress(names)) == names


@given(st.integers(0, 120), st.integers(1, 250), st.integers(1, 4))
def test_runs_are_one_range(first, count, width):
    names = [f"n{number:0{width}d}" for number in range(first, first + count)]
    expression = compress(names)
    assert expand(expression) == names
    assert expression.count(",") == 0
    assert ("[" in expression) == (count > 1)


@pytest.mark.parametrize(
    ("names", "expression"),
    [
        (["node001", "node002", "node003", "node007"], "node[001-003,007]"),
        (["a9", "a10", "a11"], "a[9-11]"),
        (["a09", "a10", "a1"], "a[09-10,1]"),
        (["a099", "a100", "b1", "x"], "a[099-100],b1,x"),
        (["login", "node1"], "login,node1"),
        ([], ""),
    ],
)
def test_how_hostlists_look(names, expression):
    assert compress(names) == expression


@pytest.mark.parametrize("bad", ["a[", "a]", "a[1-2", "[1]", "a[x]", ",a"])
def test_what_is_no_hostlist_is_refused(bad):
    with pytest.raises(ValueError, match="is not a hostlist"):
        expand(bad)
