"""The studio's words: complete, each quantity once, and no fault in a file without its line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import railweave.studio
from railweave.errors import DesignError, InputError
from railweave.formats.yaml_source import parse_yaml
from railweave.report.lessons import all_lessons
from railweave.studio.content import lab, labs, learn, quantities, quantity
from railweave.studio.content._load import read_glossary, read_panel

BUILT = (
    "architecture",
    "traffic",
    "fabric",
    "congestion",
    "collectives",
    "training",
    "transport",
    "rdma",
)
ABSENT = ("incident", "design")

#: what the labs and the home page show, by lab
NEEDED = {
    "transport": "technology_score technology_margin criterion_weight workload_kind "
    "quick_measurement large_collective small_collective message_time permutation_ratio "
    "incast_ratio loss_left failed_left cores_needed network_power",
    "rdma": "rdma_operation message_size path_mtu transport_service rdma_fault lost_packet "
    "retry_count ack_timeout rnr_retries rnr_timer rdma_network rdma_where journey_end "
    "capture_point completion_time rdma_packets rdma_wire_bytes rdma_repeated requester_status "
    "responder_status",
    "home": "gpus servers racks switches cables power oversubscription bisection availability",
    "architecture": "planes link_speed link_load host_bandwidth blast_radius latency",
    "traffic": "payload volume_per_gpu total_volume exchanges_per_step transfer_time latency "
    "latency_term bandwidth_term latency_share share_server share_leaf share_spine share_core "
    "ranks link_speed messages peers",
    "fabric": "racks servers_per_rack gpus_per_server rails radix tiers leaves spines cores "
    "uplinks uplink_capacity rack_uplink oversubscription ecmp_paths ecmp_spines bisection "
    "bisection_share bisection_left hash_spread idle_share collisions flows links_down "
    "gpus_cut_off diameter ideal_time empty_places servers_per_zone parallel_planes flow_size "
    "queue_pairs hash_seed",
    "congestion": "senders sender_speed egress_speed excess_rate time_to_threshold queue "
    "queue_mean queue_max buffer buffer_fill ecn_threshold kmin kmax pmax pfc_xoff pfc_xon "
    "headroom buffer_alpha pauses pause_share paused_time marks marked_share cnps drops discarded "
    "retransmitted goodput throughput delay_mean delay_p99 jain oscillation rate_oscillation "
    "dcqcn_alpha sender_rate allowed_rate elapsed",
    "collectives": "rounds round_time chunk_size bytes_per_gpu fewest_bytes lower_bound "
    "engine_time closed_form_time algbw busbw bus_factor efficiency makespan slowdown "
    "completion_p50 completion_p99 completion_max crossover_size straggler_delay",
    "training": "step_time tokens_per_s mfu bubble exposed_communication lost_to_network gpu_idle "
    "gpu_memory memory_share step_price idle_price run_price gpu_hour_price run_tokens "
    "global_batch sequence_length arithmetic_precision tensor_degree context_degree "
    "pipeline_degree expert_degree data_degree micro_batch interleave zero_stage recomputation "
    "sequence_parallel scaling_mode scaling_counts",
}
CHECKLISTS = {
    "rdma": "device resources ip-path congestion-setup loss-signs benchmark",
    "transport": "workload compatibility rdma-cc capacity operations benchmark",
    "architecture": "workloads planes targets exchange bottlenecks growth-visibility",
    "traffic": "strategies map-groups-to-ports dominant-collective needs locality delay-to-idle",
    "fabric": "attachment leaf-capacity ecmp oversubscription rails-domains recovery",
    "congestion": "classes ecn-endpoint pfc-scope counters stress to-job",
    "collectives": "operations sizes placement algorithms correlation scaling",
    "training": "fits valid exposed scaling price",
}
PREFIX = {
    "rdma": "rdma",
    "transport": "transport",
    "architecture": "fabric",
    "traffic": "workload",
    "fabric": "topology",
    "congestion": "congestion",
    "collectives": "collective",
    "training": "training",
}
#: words that say nothing or boast, and traces of how the text was made
FORBIDDEN = re.compile(
    r"\b(simply|obviously|clearly|basically|leverag\w*|seamless\w*|robust\w*|powerful|"
    r"cutting-edge|utili[sz]e\w*|delve|crucial|TODO|FIXME|lorem|FIELD|issue)\b|/(work|tmp|home)/",
    re.IGNORECASE,
)


def texts(lab_key: str) -> Iterator[str]:
    """Give every paragraph of a panel."""
    panel = learn(lab_key)
    for concept in panel.concepts:
        yield from (concept.name, concept.text)
    yield from panel.distinctions
    for table in panel.tables:
        yield table.title
        for row in (table.header, *table.rows):
            yield from row
    for item in panel.checklist:
        yield from (item.text, item.decided_by)
    yield panel.takeaway.claim
    yield from panel.limits


# ---------------------------------------------------------------- quantities


@pytest.mark.parametrize("where", NEEDED)
def test_every_number_has_its_entry(where):
    for key in NEEDED[where].split():
        assert quantity(key).key == key


def called(node: ast.AST) -> str:
    """Return the name of what a call calls, an empty text where it is no call."""
    function = getattr(node, "func", None)
    return getattr(function, "id", getattr(function, "attr", ""))


def number_makers(tree: ast.AST) -> set[str]:
    """Return the functions that hand their first argument on as a number's key."""
    found = {"Number", "help_button"}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.args.args:
            first = node.args.args[0].arg
            for inner in ast.walk(node):
                given = inner.args if isinstance(inner, ast.Call) else []
                if called(inner) == "Number" and getattr(given[0], "id", "") == first:
                    found.add(node.name)
    return found


def used_keys() -> Iterator[tuple[str, str]]:
    """Give (file, key) of each number that the studio's source names outright."""
    files = sorted(Path(railweave.studio.__file__).parent.rglob("*.py"))
    trees = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    makers = {name: number_makers(tree) for name, tree in trees.items()}
    shared = {maker for own in makers.values() for maker in own if maker[0] != "_"}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                values = [k.value for k in node.keywords if k.arg == "help_key"]
                values += node.args[:1] if called(node) in makers[name] | shared else []
                for value in values:
                    if isinstance(value, ast.Constant) and value.value:
                        yield name, str(value.value)


def test_the_source_names_no_number_without_an_entry():
    known = {item.key for item in quantities()}
    # Of a key such as "busbw:train" the part before the colon is the quantity.
    assert [at for at in used_keys() if at[1].partition(":")[0] not in known] == []


def test_every_number_that_a_lab_asks_for_has_its_help():
    bare = []
    for path in sorted(Path(railweave.studio.__file__).parent.glob("labs/*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            asks = name in ("quantity", "integer", "ratio") and len(call.args) >= 4
            if asks and "help_key" not in {word.arg for word in call.keywords}:
                bare.append((path.name, call.lineno))
    assert bare == []


def test_no_field_is_empty_and_no_entry_is_there_twice():
    names = [item.name for item in quantities()]
    assert len(set(names)) == len(names) >= 70
    for item in quantities():
        assert item.definition.endswith("."), item.key
        assert item.unit, item.key
        assert item.source.endswith("."), item.key
        assert 5 <= len(item.definition.split()) <= 60, item.key


def test_units_tell_bits_from_bytes():
    units = {item.unit for item in quantities()}
    amounts = {"B", "B/s", "b/s", "s", "m", "W", "count", "ratio", "share, 0 to 100 %"}
    assert units == amounts | {"tokens/s", "money", "a choice", "a status"}


def test_sources_name_what_exists():
    """A source that names a module or a member of railweave names one that is there."""
    import importlib

    for item in quantities():
        for path in re.findall(r"railweave(?:\.\w+)+", item.source):
            parts = path.split(".")
            module, rest = None, parts
            for cut in range(len(parts), 0, -1):
                try:
                    module = importlib.import_module(".".join(parts[:cut]))
                except ModuleNotFoundError:
                    continue
                rest = parts[cut:]
                break
            found = module
            for name in rest:
                found = getattr(found, name)
            assert found is not None, path


def test_an_unknown_quantity_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="did you mean 'busbw'"):
        quantity("busbandw")


# ---------------------------------------------------------------- labs


def test_nine_labs_in_order():
    assert [item.number for item in labs()] == [*range(1, 10), None]
    assert {item.key for item in labs() if item.missing} == set(ABSENT)


@pytest.mark.parametrize("key", ABSENT)
def test_an_absent_lab_says_what_is_missing_and_has_no_panel(key):
    text = lab(key)
    assert text.missing.endswith(".")
    assert text.summary.endswith(".")
    with pytest.raises(InputError, match="no Learn panel yet"):
        learn(key)


def test_a_lab_that_does_not_exist():
    with pytest.raises(InputError, match="did you mean 'fabric'"):
        learn("fabrik")


@pytest.mark.parametrize("key", BUILT)
def test_a_panel_is_whole(key):
    panel = learn(key)
    assert panel.lab == key
    assert 5 <= len(panel.concepts) <= 9
    assert len(panel.distinctions) >= 4
    assert panel.tables
    assert len(panel.limits) >= 3
    names = [concept.name for concept in panel.concepts]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("key", BUILT)
def test_the_whole_checklist_is_there_with_how_it_is_decided(key):
    panel = learn(key)
    wanted = [f"{PREFIX[key]}-{name}" for name in CHECKLISTS[key].split()]
    assert [item.id for item in panel.checklist] == wanted
    evidence = ("File:", "Computed:", "Measured:", "Twin or acceptance test:")
    assert all(item.decided_by.startswith(evidence) for item in panel.checklist)


@pytest.mark.parametrize("key", BUILT)
def test_the_takeaway_has_an_experiment_that_shows_it(key):
    assert learn(key).takeaway.lesson_name == key
    assert all_lessons()[key].run().holds


@pytest.mark.parametrize("key", BUILT)
def test_paragraphs_are_short_and_plain(key):
    for text in texts(key):
        assert text == text.strip()
        assert len(text.split()) <= 60, text
        assert not FORBIDDEN.search(text), text


def test_the_glossary_is_plain():
    for item in (*quantities(), *labs()):
        for text in item.model_dump().values():
            assert not FORBIDDEN.search(str(text)), text


def test_records_do_not_change():
    with pytest.raises(ValueError, match="frozen"):
        quantity("busbw").name = "other"


# ---------------------------------------------------------------- faults in a file

ENTRY = """\
quantities:
  queue:
    name: Queue
    definition: Bytes that wait.
    unit: B
    source: Samples.
"""
PANEL = """\
concepts: [{name: Rank, text: One process.}]
distinctions: [One.]
tables:
  - title: Two
    header: [a, b]
    rows:
      - [1st, 2nd]
checklist: [{id: a-b, text: True., decided_by: "File: it."}]
takeaway: {claim: So., lesson_name: fabric}
limits: [None.]
"""


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("    unit: B\n", "", "f.yaml:2:3", "unit"),
        ("name: Queue", "nam: Queue", "f.yaml:3:5", "did you mean 'name'"),
        ("name: Queue", "name: ''", "f.yaml:3:5", "too few characters"),
        ("  queue:", "  Queue size:", "f.yaml:2:3", "not written as it must be"),
        ("    unit: B\n", "    unit: B\n    unit: b\n", "f.yaml:6:5", "written twice"),
    ],
)
def test_a_fault_of_the_glossary_is_named_with_its_line(old, new, where, what):
    text = ENTRY.replace(old, new)
    assert text != ENTRY
    with pytest.raises(DesignError) as error:
        read_glossary(parse_yaml(text, "f.yaml"))
    assert where in str(error.value)
    assert what in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("- [1st, 2nd]", "- [1st, 2nd, 3rd]", "f.yaml:7:9", "3 cells; allowed: 2"),
        ("limits: [None.]", "limits: []", "f.yaml:10:1", "too few entries"),
        ("id: a-b", "id: A b", "f.yaml:8:", "not written as it must be"),
        ("claim: So., ", "", "f.yaml:9:", "required"),
    ],
)
def test_a_fault_of_a_panel_is_named_with_its_line(old, new, where, what):
    read_panel(parse_yaml(PANEL, "f.yaml"), "fabric")
    text = PANEL.replace(old, new)
    assert text != PANEL
    with pytest.raises(DesignError) as error:
        read_panel(parse_yaml(text, "f.yaml"), "fabric")
    assert where in str(error.value)
    assert what in str(error.value)
