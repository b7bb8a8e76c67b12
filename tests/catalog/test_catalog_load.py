"""Looking up, the user's own files, and what is said of bad ones."""

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from railweave.catalog import Catalog, CatalogError, CatalogFile, default_catalog, load_catalog
from railweave.errors import DesignError
from railweave.provenance import Certainty, Source

GPU = """\
gpus:
  mine:
    title: My GPU
    vendor: Me
    generation: other
    memory: 96 GB
    hbm_bandwidth: 4 TB/s
    scale_up: nvlink
    scale_up_rate: 450 GB/s
    bf16_flops: 800 TFLOP/s
    power: 600 W
"""


def load(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return load_catalog([path])


def problems(tmp_path, text):
    with pytest.raises(DesignError) as error:
        load(tmp_path, text)
    return error.value.problems


@pytest.mark.parametrize(
    ("kind", "name", "near"),
    [
        ("gpu", "H100", "h100"),
        ("nic", "cx7-400", "cx7-400g"),
        ("server", "dgx-h10", "dgx-h100"),
        ("switch", "QM9700", "qm9700"),
        ("cable", "dac400g", "dac-400g"),
        ("model", "llama3-405", "llama3-405b"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(kind, name, near):
    with pytest.raises(CatalogError) as error:
        getattr(default_catalog(), kind)(name)
    assert error.value.problem.path == kind
    assert error.value.problem.nearest == near
    assert near in error.value.problem.allowed
    assert error.value.exit_code == 2


def test_the_default_catalog_is_read_once_and_cannot_be_changed():
    catalog = default_catalog()
    assert catalog is default_catalog()
    with pytest.raises(ValidationError, match="frozen"):
        catalog.gpu("h100").power_w = 1.0
    with pytest.raises(TypeError):
        catalog._gpus["h100"] = None


def test_import_reads_nothing():
    code = (
        "import sys, railweave.catalog; "
        "assert 'ruamel.yaml' not in sys.modules and 'pint' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_users_part_joins_and_has_the_file_as_source(tmp_path):
    catalog = load(tmp_path, GPU)
    gpu = catalog.gpu("mine")
    assert (gpu.memory_bytes, gpu.power_w) == (96 * 10**9, 600)
    assert gpu.provenance("power") == Source(str(tmp_path / "mine.yaml"), Certainty.ASSUMED)
    assert catalog.gpu("h100") is default_catalog().gpu("h100")


def test_a_users_part_replaces_one_of_the_same_name(tmp_path):
    catalog = load(tmp_path, GPU.replace("mine:", "h100:"))
    assert catalog.gpu("h100").title == "My GPU"
    assert default_catalog().gpu("h100").title != "My GPU"


def test_sources_of_a_users_file_are_its_own(tmp_path):
    text = "sources: {lab: Measured in our lab}\n" + GPU
    text += (
        "    source: lab\n    certainty: confirmed\n    facts: {power: {certainty: estimated}}\n"
    )
    gpu = load(tmp_path, text).gpu("mine")
    assert gpu.provenance("memory_bytes") == Source("Measured in our lab", Certainty.CONFIRMED)
    assert gpu.provenance("power_w") == Source("Measured in our lab", Certainty.ESTIMATED)


def test_parts_refer_across_files_and_an_empty_base_is_possible(tmp_path):
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(
        "servers:\n  box:\n    {title: Box, vendor: Me, gpu: mine, gpu_count: 8, scale_up: nvlink,"
        " scale_up_domain_gpus: 8, scale_up_rate: 450 GB/s, nics: {}, pcie_gen: 5,"
        " numa_sockets: 2, cpu_memory: 1 TB, power: 8 kW, rack_units: 6}\n"
    )
    second.write_text(GPU)
    assert load_catalog([first, second]).server("box").gpu == "mine"
    with pytest.raises(DesignError, match="the catalog has no gpu 'mine'"):
        load_catalog(first, base=Catalog())


def test_a_part_writes_out_and_reads_back(tmp_path):
    for switch in default_catalog().switches():
        plain = switch.model_dump(mode="json", by_alias=True, exclude={"source", "facts"})
        again = load(tmp_path, json.dumps({"switches": {switch.name: plain}})).switch(switch.name)
        assert (
            again.model_copy(update={"source": switch.source, "facts": switch.facts}).model_dump()
            == switch.model_dump()
        )


@pytest.mark.parametrize(
    ("change", "where", "path", "message"),
    [
        (("power: 600 W", "power: 600"), (11, 5), "gpus.mine.power", ("has no unit", "")),
        (("power: 600 W", "power: 600 Gb/s"), (11, 5), "gpus.mine.power", ("not a power", "")),
        (("power: 600 W", "pwer: 600 W"), (11, 5), "gpus.mine.pwer", ("no field 'pwer'", "power")),
        (("vendor: Me\n    ", ""), (2, 3), "gpus.mine.vendor", ("required", "")),
        (
            ("generation: other", "generation: hoper"),
            (5, 5), "gpus.mine.generation", ("not a choice", "hopper")
        ),
        (("gpus:", "gpu:"), (1, 1), "gpu", ("no field 'gpu'", "gpus")),
        (("  mine:", "  Mine!:"), (2, 3), "gpus.Mine!", ("not written as it must be", "")),
        (
            ("title: My GPU", "title: My GPU\n    source: lab"),
            (4, 5), "gpus.mine.source", ("not among this file's sources", "")
        ),
        (
            ("title: My GPU", "title: My GPU\n    facts: {powr: {note: x}}"),
            (4, 13), "gpus.mine.facts.powr", ("no field of this part", "power")
        ),
        (("title: My GPU", "name: his"), (3, 5), "gpus.mine.name", ("under the name 'mine'", "")),
    ],
)  # fmt: skip
def test_bad_files_are_answered_with_the_place(tmp_path, change, where, path, message):
    found = problems(tmp_path, GPU.replace(*change, 1))
    problem = next(problem for problem in found if problem.path == path)
    assert (problem.line, problem.column) == where
    assert problem.file == str(tmp_path / "mine.yaml")
    assert message[0] in problem.message
    assert problem.nearest == message[1]


SERVER = """\
servers:
  box:
    title: Box
    vendor: Me
    gpu: h100
    gpu_count: 8
    scale_up: nvlink
    scale_up_domain_gpus: 8
    scale_up_rate: 450 GB/s
    nics:
      backend: {nic: cx7-400g, count: 8, speed: 400 Gb/s}
    pcie_gen: 5
    numa_sockets: 2
    cpu_memory: 1 TB
    power: 8 kW
    rack_units: 6
"""


@pytest.mark.parametrize(
    ("change", "path", "line", "words"),
    [
        (("gpu: h100", "gpu: h10"), "servers.box.gpu", 5, "no gpu 'h10'"),
        (("cx7-400g", "cx7-400"), "servers.box.nics.backend.nic", 11, "no nic"),
        (("gpu_count: 8", "gpu_count: 0"), "servers.box.gpu_count", 6, "do not agree"),
        (("gpus: 8", "gpus: 12"), "servers.box.scale_up_domain_gpus", 8, "not whole servers"),
        (("backend", "backhaul"), "servers.box.nics.backhaul", 11, "not a choice"),
        (("count: 8, s", "count: 0, s"), "servers.box.nics.backend.count", 11, "out of range"),
    ],
)
def test_bad_servers(tmp_path, change, path, line, words):
    assert load(tmp_path, SERVER).server("box").nics["backend"].count == 8
    (problem,) = problems(tmp_path, SERVER.replace(*change, 1))
    assert (problem.path, problem.line) == (path, line)
    assert words in problem.message


def test_bad_switches_and_models(tmp_path):
    switch = default_catalog().switch("sn4700")
    plain = switch.model_dump(mode="json", by_alias=True, exclude={"source", "facts"})
    for change, words in (
        ({"breakouts": [{"ways": 2, "speed": "400 Gb/s"}]}, "faster than its port"),
        ({"uplink_ports": 2}, "go together"),
    ):
        (problem,) = problems(tmp_path, json.dumps({"switches": {"sn4700": plain | change}}))
        assert words in problem.message
    shape = "{title: T, vendor: V, layers: 2, hidden: 8, ffn: 8, vocabulary: 8, sequence: 8, %s}"
    for fields, words in (
        ("heads: 8, kv_heads: 3", "do not divide"),
        ("heads: 8, kv_heads: 8, experts: 2, top_k: 4", "exceeds"),
    ):
        (problem,) = problems(tmp_path, f"models:\n  m: {shape % fields}\n")
        assert words in problem.message


LIKE = """\
sources: {lab: Measured in our lab}
servers:
  ours:
    like: dgx-h100
    source: lab
    certainty: confirmed
    title: Our server
    power: 9 kW
    nics: {backend: {speed: 200 Gb/s}}
"""


def test_a_part_like_another_keeps_what_it_does_not_write(tmp_path):
    base, ours = default_catalog().server("dgx-h100"), load(tmp_path, LIKE).server("ours")
    assert (ours.title, ours.power_w, ours.gpu_count) == ("Our server", 9000, 8)
    assert (ours.nics["backend"].speed_bps, ours.nics["backend"].count) == (200e9, 8)
    assert ours.nics["storage"] == base.nics["storage"]
    lab = Source("Measured in our lab", Certainty.CONFIRMED)
    assert ours.provenance("power") == ours.provenance("nics.backend.speed") == lab
    for field in ("gpu_count", "nics.backend.count", "nics.storage.speed", "nics.storage.count"):
        assert ours.provenance(field) == base.provenance(field)


def test_like_without_a_source_has_the_file_and_chains_over_files(tmp_path):
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("switches: {sn4700: {like: sn4700, buffer: 32 MiB}}")
    second.write_text("switches: {mine: {like: sn4700, latency: 1 us}}")
    switch = load_catalog([first, second]).switch("mine")
    assert (switch.buffer_bytes, switch.cell_bytes) == (32 * 2**20, 144)
    assert switch.provenance("buffer") == Source(str(first), Certainty.ASSUMED)
    assert switch.provenance("latency") == Source(str(second), Certainty.ASSUMED)
    assert switch.provenance("cell") == default_catalog().switch("sn4700").provenance("cell")


def test_like_nothing_known(tmp_path):
    (problem,) = problems(tmp_path, LIKE.replace("dgx-h100", "dgx-h10"))
    assert (problem.path, problem.line, problem.column) == ("servers.ours.like", 4, 5)
    assert problem.nearest == "dgx-h100"
    (problem,) = problems(tmp_path, LIKE.replace("source: lab", "source: labs"))
    assert (problem.path, problem.nearest) == ("servers.ours.source", "lab")


def test_a_field_has_one_name_in_a_file(tmp_path):
    found = problems(tmp_path, LIKE.replace("power:", "power_w:"))
    assert [(p.path, p.nearest) for p in found] == [("servers.ours.power_w", "power")]


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["400 Gb/s", "x", "h100"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["like", "facts", "source", "name", "nics", "backend", "power", "title"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["sources", "gpus", "servers", "switches", "models", "other"]),
        _PLAIN | st.dictionaries(st.sampled_from(["h100", "dgx-h100", "B a"]), _PLAIN, max_size=2),
        max_size=3,
    )
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
def test_any_file_is_read_or_refused_with_a_position(tmp_path, data):
    found = ()
    try:
        load(tmp_path, json.dumps(data))
    except DesignError as error:
        found = error.problems
    assert all(problem.line and problem.column and problem.message for problem in found)


def test_the_schema_of_a_catalog_file_fits_what_is_written():
    schema = CatalogFile.model_json_schema(by_alias=True)
    validator = jsonschema.Draft202012Validator(schema)
    switch = default_catalog().switch("sn5600").model_dump(mode="json", by_alias=True)
    assert not list(validator.iter_errors({"switches": {"sn5600": switch}}))
    assert list(validator.iter_errors({"switches": {"sn5600": switch | {"power": 5}}}))


DOCS = Path(__file__).parents[2] / "docs" / "reference" / "catalog.md"


def test_the_file_in_the_docs_loads(tmp_path):
    (text,) = re.findall(r"```yaml\n(# parts.yaml\n.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    catalog = load(tmp_path, text)
    assert catalog.switch("our-leaf").latency_s == pytest.approx(650e-9)
    assert catalog.server("our-node").nics["storage"].count == 1


def test_the_docs_list_every_part():
    text = DOCS.read_text("utf-8")
    assert [part.name for part in default_catalog().parts() if f"| `{part.name}`" not in text] == []
