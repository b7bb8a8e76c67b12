"""Traces of any kind: what a file is taken for, files that belong together, and hostile bytes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railweave.errors import InputError
from railweave.formats.execution_trace import ALL_RANKS, TraceFormat
from railweave.formats.traces import read_traces, trace_format
from trace_files import chakra, collective, inspector_line, kernel, kineto, node, varint

TABLE = """\
# nThread 1 nGpus 8 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid  10 on h0 device  0 [0x1b] NVIDIA H100
#  Rank  1 Group  0 Pid  10 on h0 device  1 [0x2b] NVIDIA H100
#
#   size   count  type redop root  time  algbw  busbw #wrong  time  algbw  busbw #wrong
#    (B)                           (us) (GB/s) (GB/s)         (us) (GB/s) (GB/s)
 1048576  262144 float   sum   -1 50.00  20.97  20.97      0 51.00  20.56  20.56      0
 2097152  524288 float   sum   -1 80.00  26.21  26.21      0 81.00  25.89  25.89      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 23.59
# Collective test concluded: all_reduce_perf
"""
COLL = {"comm_type": ("int64", 0), "comm_size": ("int64", 8)}


def profile(path, rank=0, world=2):
    return kineto(
        path, [kernel("gemm", 0, 5), collective("allreduce", 5, 9, 8, [0, 1])], rank, world
    )


def log(path, rank=0):
    path.write_text(inspector_line("AllReduce", 8, 10, rank=rank, ranks=2) + "\n")
    return path


def table(path):
    path.write_text(TABLE)
    return path


def graph(path):
    return chakra(path, [node(1, 7, attrs=COLL)])


def test_files_are_known_by_how_they_begin(tmp_path):
    assert trace_format(profile(tmp_path / "a.json")) is TraceFormat.KINETO
    assert trace_format(profile(tmp_path / "a.json.gz")) is TraceFormat.KINETO
    assert trace_format(log(tmp_path / "b.log")) is TraceFormat.INSPECTOR
    assert trace_format(table(tmp_path / "c.txt")) is TraceFormat.NCCL_TESTS
    assert trace_format(graph(tmp_path / "d.0.et")) is TraceFormat.CHAKRA


def test_ranks_come_in_order(tmp_path):
    for name, make in (("json", profile), ("log", log)):
        files = [make(tmp_path / f"{rank}.{name}", rank) for rank in (1, 0)]
        assert [trace.rank for trace in read_traces(files)] == [0, 1]
    files = [graph(tmp_path / f"s.{rank}.et") for rank in (10, 2)]
    traces = read_traces(files)
    assert [trace.rank for trace in traces] == [2, 10]
    # "all ranks" is the same for every file, though the first to be read knew of fewer
    assert {trace.events[0].ranks for trace in traces} == {tuple(range(11))}


def test_a_table_is_one_operation_after_another(tmp_path):
    (trace,) = read_traces([table(tmp_path / "c.txt")])
    assert (trace.rank, trace.world, trace.source) == (ALL_RANKS, 2, "nccl-tests")
    assert [(e.op, e.size_bytes, e.depends_on) for e in trace.events] == [
        ("all-reduce", 1 << 20, ()),
        ("all-reduce", 1 << 21, (0,)),
    ]
    assert trace.events[0].duration_s == pytest.approx(50e-6)
    assert trace.events[1].where.endswith("c.txt:10")
    assert trace.findings == ()


def test_what_the_reader_of_tables_says_is_a_finding(tmp_path):
    file = tmp_path / "c.txt"
    file.write_text(TABLE.replace("51.00  20.56", "51.00  90.00"))
    (finding,) = read_traces([file])[0].findings
    assert (finding.id, finding.path) == ("table-problem", f"{file}:9")
    assert finding.message.startswith("1048576 B in 51 us")


def test_what_does_not_belong_together_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"b\.log is taken for inspector, .*a\.json for kineto"):
        read_traces([profile(tmp_path / "a.json"), log(tmp_path / "b.log")])
    with pytest.raises(InputError, match="is of rank 0, as"):
        read_traces([profile(tmp_path / "a.json"), profile(tmp_path / "b.json")])
    with pytest.raises(InputError, match="leave --groups out"):
        read_traces([tmp_path / "a.json"], groups={"1": (0, 1)})
    with pytest.raises(InputError, match="0 trace files"):
        read_traces([])


def test_the_kind_may_be_said(tmp_path):
    with pytest.raises(InputError, match=r"a\.json:1: not valid JSON"):
        read_traces([profile(tmp_path / "a.json")], kind=TraceFormat.INSPECTOR)


# ---------------------------------------------------------------- hostile bytes


def seeds() -> list[tuple[str, bytes]]:
    """Return a good file of each kind, to be spoiled."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [
            profile(folder / "a.json"),
            profile(folder / "a.json.gz"),
            log(folder / "b.log"),
            table(folder / "c.txt"),
            graph(folder / "d.0.et"),
        ]
        return [(file.name, file.read_bytes()) for file in files]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def survives(file: Path) -> None:
    """A file is read, or refused with its name; nothing else comes out."""
    refused, traces = "", ()
    try:
        traces = read_traces([file])
    except InputError as error:
        refused = str(error)
    assert file.name in refused or traces
    assert all(trace.events or trace.findings for trace in traces)


@pytest.mark.parametrize(("name", "good"), seeds(), ids=lambda v: v if isinstance(v, str) else "")
@quick
@given(data=st.data())
def test_spoiled_files_are_read_or_refused(folder, name, good, data):
    spoiled = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(spoiled) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "put", "copy"])):
            case "flip":
                spoiled[at] = data.draw(st.integers(0, 255))
            case "cut":
                del spoiled[at : at + data.draw(st.integers(1, 30))]
            case "put":
                spoiled[at:at] = data.draw(st.binary(max_size=20))
            case _:
                spoiled[at:at] = spoiled[: data.draw(st.integers(1, 60))]
        if not spoiled:
            break
    file = folder / name
    file.write_bytes(bytes(spoiled))
    survives(file)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "b.log", "d.0.et"])
@quick
@given(data=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(folder, name, data):
    file = folder / name
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    survives(file)


json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
ARGS = [
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "dtype",
    "Group size",
    "Process Group Ranks",
    "Process Group Name",
    "In split size",
    "Src Rank",
    "Dst Rank",
    "Root Rank",
    "Seq",
    "stream",
    "External id",
]


@quick
@given(
    name=st.sampled_from(["allreduce", "all_to_allv", "send", "recv", "broadcast", "barrier"]),
    changes=st.dictionaries(st.sampled_from(ARGS), json_value, max_size=3),
    outer=st.dictionaries(
        st.sampled_from(["ts", "dur", "cat", "name", "args"]), json_value, max_size=2
    ),
    info=json_value,
)
def test_any_values_in_a_profile_are_read_or_refused(folder, name, changes, outer, info):
    event = collective(name, 5, 9, 8, [0, 1])
    event["args"].update(changes)
    event.update(outer)
    events = [event, collective("allreduce", 50, 9, 8, [0, 1])]
    file = folder / "values.json"
    file.write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))
    survives(file)


PERF = ["coll", "coll_sn", "coll_msg_size_bytes", "coll_exec_time_us", "event_trace_ts"]


@quick
@given(
    header=st.dictionaries(st.sampled_from(["id", "rank", "n_ranks"]), json_value, max_size=2),
    perf=st.dictionaries(st.sampled_from(PERF), json_value, max_size=3),
    about=json_value,
)
def test_any_values_in_a_log_are_read_or_refused(folder, header, perf, about):
    record = json.loads(inspector_line("AllReduce", 8, 10, rank=0, ranks=2))
    record["header"].update(header)
    record["coll_perf"].update(perf)
    record["metadata"] = about
    file = folder / "values.log"
    file.write_text(json.dumps(record) + "\n")
    survives(file)


@quick
@given(
    attrs=st.dictionaries(
        st.sampled_from(["comm_type", "comm_size", "pg_name", "comm_src", "comm_dst", "root_rank"]),
        st.one_of(
            st.tuples(st.just("int64"), st.integers(0, (1 << 63) - 1)),
            st.tuples(st.just("string"), st.text(max_size=5)),
            st.tuples(st.just("bool"), st.integers(0, 1)),
        ),
    ),
    kind=st.integers(0, 12),
    deps=st.lists(st.integers(0, 1 << 62), max_size=3),
    times=st.tuples(st.integers(0, 1 << 63), st.integers(0, 1 << 63)),
)
def test_any_values_in_a_graph_are_read_or_refused(folder, attrs, kind, deps, times):
    first = node(3, kind, start_us=times[0], duration_us=times[1], data=deps, attrs=attrs)
    second = node(4, 7, data=[3], attrs=COLL)
    file = chakra(folder / "values.0.et", [first, second])
    survives(file)
    file.write_bytes(file.read_bytes() + varint(3))
    survives(file)
