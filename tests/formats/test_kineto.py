"""PyTorch profiler files: operations, sizes, groups, and what is said of what is missing."""

from __future__ import annotations

import gzip
import json

import pytest

from railweave.errors import InputError
from railweave.formats import _trace_input
from railweave.formats.execution_trace import EventKind
from railweave.formats.kineto import read_kineto
from trace_files import collective, collective_args, kernel, kineto


def only(trace):
    (event,) = [e for e in trace.events if e.kind is not EventKind.COMPUTE]
    return event


def ids(trace):
    return [finding.id for finding in trace.findings]


@pytest.fixture(params=["rank.json", "rank.json.gz"])
def path(request, tmp_path):
    return tmp_path / request.param


def test_an_all_reduce_between_kernels(path):
    events = [
        kernel("gemm", 1000, 500),
        collective("allreduce", 1500, 100, 1 << 20, [0, 1, 2, 3], Seq=7),
        kernel("adam", 1600, 50),
    ]
    trace = read_kineto(kineto(path, events, rank=2, world=4))
    assert (trace.rank, trace.world, trace.source) == (2, 4, "PyTorch profiler")
    event = only(trace)
    assert (event.op, event.size_bytes, event.ranks) == ("all-reduce", 4 << 20, (0, 1, 2, 3))
    assert event.sequence == 7
    assert event.duration_s == pytest.approx(100e-6)
    first, _, last = trace.events
    assert first.duration_s == pytest.approx(500e-6)
    assert (event.depends_on, last.depends_on) == ((0,), (0, 1))
    assert event.where.startswith(str(path) + ":")
    assert trace.findings == ()


@pytest.mark.parametrize(
    ("name", "counts", "op", "size"),
    [
        ("_allgather_base", (100, 400), "all-gather", 1600),
        ("_reduce_scatter_base", (400, 100), "reduce-scatter", 1600),
        ("all_to_all", (400, 400), "all-to-all", 1600),
        ("broadcast", (400, 400), "broadcast", 1600),
        ("barrier", (1, 1), "barrier", 0),
    ],
)
def test_sizes_are_counted_as_nccl_tests_does(tmp_path, name, counts, op, size):
    events = [collective(name, 0, 1, counts[0], [0, 1, 2, 3], out=counts[1])]
    event = only(read_kineto(kineto(tmp_path / "t.json", events, 0, 4)))
    assert (event.op, event.size_bytes) == (op, size)


@pytest.mark.parametrize(
    ("dtype", "size"), [("BFloat16", 2), ("Half", 2), ("Byte", 1), ("Double", 8), ("Int", 4)]
)
def test_types(tmp_path, dtype, size):
    events = [collective("allreduce", 0, 1, 10, [0, 1], dtype=dtype)]
    assert only(read_kineto(kineto(tmp_path / "t.json", events, 0))).size_bytes == 10 * size


def test_messages_name_their_peer(tmp_path):
    events = [
        collective("send", 0, 5, 10, [0, 1, 2], **{"Dst Rank": 2}),
        collective("recv", 20_000, 5, 10, [0, 1, 2], **{"Src Rank": "2"}),
        collective("send", 30_000, 5, 10, [0, 1, 2]),
    ]
    trace = read_kineto(kineto(tmp_path / "t.json", events, 1, 3))
    pairs = [(e.op, e.ranks) for e in trace.events if e.kind is EventKind.POINT_TO_POINT]
    assert pairs == [("send", (1, 2)), ("recv", (2, 1))]
    assert ids(trace) == ["operation-skipped"]
    assert "without ranks of its group or its peer" in trace.findings[0].message


def test_a_kernel_without_record_finds_it_by_its_external_id(tmp_path):
    record = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "record_param_comms",
        "ts": 5,
        "dur": 1,
        "args": {"External id": 99, **collective_args("allreduce", 8, [0, 1])},
    }
    events = [
        kernel("ncclKernel_AllReduce_RING_LL_Sum_float", 10, 4, 20, **{"External id": 99}),
        record,
        kernel("ncclKernel_AllReduce_RING_LL_Sum_float", 50, 4, 20, **{"External id": 98}),
    ]
    trace = read_kineto(kineto(tmp_path / "t.json", events, 0, 2))
    assert only(trace).size_bytes == 32
    assert "1 × kernel 'ncclKernel_AllReduce_RING_LL_Sum_float'" in trace.findings[0].message


def test_host_records_alone_are_used_and_said(tmp_path):
    record = {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": 5, "dur": 1}
    events = [{**record, "args": collective_args("allreduce", 8, [0, 1])}]
    trace = read_kineto(kineto(tmp_path / "t.json", events, 0, 2))
    assert only(trace).size_bytes == 32
    assert ids(trace) == ["no-gpu-times"]


def test_cut_off_lists_of_ranks(tmp_path):
    def read(cut, **top):
        events = [collective("allreduce", 0, 1, 8, range(64), **{"Process Group Ranks": cut})]
        return read_kineto(kineto(tmp_path / "t.json", events, 0, 128, **top))

    guessed = read("[0, 2, 4, ...]")
    assert only(guessed).ranks == tuple(range(0, 128, 2))
    assert "same distance" in " ".join(note.statement for note in guessed.assumptions)
    table = [{"pg_name": "0", "ranks": [0, *range(65, 128)]}]
    known = read("[0, 65, 66, ...]", pg_config=table)
    assert only(known).ranks == (0, *range(65, 128))


def test_a_group_of_everyone_may_go_without_a_list(tmp_path):
    events = [collective("allreduce", 0, 1, 8, range(4), **{"Process Group Ranks": ""})]
    assert only(read_kineto(kineto(tmp_path / "t.json", events, 0, 4))).ranks == (0, 1, 2, 3)
    with pytest.raises(InputError, match="no operation between ranks"):
        read_kineto(kineto(tmp_path / "t.json", events, 0, 8))


def test_parts_of_an_uneven_all_to_all(tmp_path):
    def shares(split):
        events = [collective("all_to_allv", 0, 1, 40, range(4), **{"In split size": split})]
        return only(read_kineto(kineto(tmp_path / "t.json", events, 0, 4))).shares

    assert shares("[10, 20, 0, 10]") == (0.25, 0.5, 0.0, 0.25)
    assert shares([1, 1, 1, 1]) == (0.25,) * 4
    assert shares("[]") == ()
    assert shares("[10, 20, ...]") == ()
    assert shares("[1, 2]") == ()


def test_transfers_without_records_are_named(tmp_path):
    events = [
        kernel("void deep_ep::intranode::dispatch", 0, 9),
        collective("allreduce", 10, 1, 8, [0, 1]),
    ]
    trace = read_kineto(kineto(tmp_path / "t.json", events, 0, 2))
    assert ids(trace) == ["transfers-unrecorded"]


def test_the_rank_comes_from_the_name_where_the_file_does_not_say_it(tmp_path):
    events = [collective("allreduce", 0, 1, 8, [0, 3])]
    trace = read_kineto(kineto(tmp_path / "step_rank3.json", events, None))
    assert trace.rank == 3
    assert ids(trace) == ["rank-guessed"]
    assert read_kineto(tmp_path / "step_rank3.json", rank=0).findings == ()


def test_a_bare_array_of_events_will_do(tmp_path):
    file = tmp_path / "rank1.json"
    file.write_text(json.dumps([collective("allreduce", 0, 1, 8, [0, 1])]))
    assert only(read_kineto(file)).op == "all-reduce"


def test_an_unknown_operation_and_broken_events_are_counted(tmp_path):
    events = [
        collective("frobnicate", 0, 1, 8, [0, 1]),
        collective("allreduce", 10, 1, 8, [0, 1]),
        {**kernel("gemm", 0, 1), "ts": "soon"},
        {**kernel("gemm", 0, 1), "dur": -4},
        7,
        {"ph": "M", "name": "process_name"},
    ]
    trace = read_kineto(kineto(tmp_path / "t.json", events, 0, 2))
    said = [finding.message for finding in trace.findings]
    assert said == [
        "1 × operation 'frobnicate', which is not known: left out",
        "2 events without usable times: left out",
    ]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('{"traceEvents": [\n{"ph": "X"},\n{"ph": ]}', 3, "not valid JSON"),
        ('{"traceEvents": [\n{"ph": "X"}', 2, "expected ','"),
        ('{"traceEvents": [\n{"ph": "X"\n', 3, "not valid JSON"),
        ('{"traceEvents": [],\n "a" 3}', 2, "expected ':', found '3'"),
        ("{3: 4}", 1, 'a key in "quotes"'),
        ("hello", 1, "no JSON object or array"),
        ("", 1, "no JSON object or array"),
        ('{"traceEvents": []} x', 1, "after the end"),
        ('{"traceEvents": ' + "[" * 200_000, 1, "nested too deeply"),
        ('{"a": ' + "9" * 10_000 + "}", 1, "too many digits"),
    ],
)
def test_broken_files_are_answered_with_file_line_and_reason(tmp_path, text, line, says):
    file = tmp_path / "broken.json"
    file.write_text(text)
    with pytest.raises(InputError, match=f"broken.json:{line}: .*{says}"):
        read_kineto(file)


def test_what_looks_like_the_rest_of_a_number_is_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(_trace_input, "_MOST_ELEMENT", 1000)
    monkeypatch.setattr(_trace_input.TraceInput.read, "__defaults__", (100,))
    file = tmp_path / "t.json"
    file.write_text('{"a": 1.' + "x" * 100_000)
    read = []
    piece = _trace_input.TraceInput.read
    monkeypatch.setattr(_trace_input.TraceInput, "read", lambda self: read.append(1) or piece(self))
    with pytest.raises(InputError, match=r"t\.json:1"):
        read_kineto(file)
    assert len(read) < 20


def test_a_file_without_operations_says_what_to_do(tmp_path):
    with pytest.raises(InputError, match=r"no operation between ranks.*'Collective name'"):
        read_kineto(kineto(tmp_path / "t.json", [kernel("gemm", 0, 1)], 0))


def test_gzip_cut_off_damaged_and_blown_up(tmp_path, monkeypatch):
    file = tmp_path / "t.json.gz"
    whole = gzip.compress(json.dumps([collective("allreduce", 0, 1, 8, [0, 1])] * 50).encode())
    file.write_bytes(whole[:-20])
    with pytest.raises(InputError, match="damaged or cut off"):
        read_kineto(file)
    file.write_bytes(whole[:30] + b"\xff" * 40 + whole[70:])
    with pytest.raises(InputError, match="damaged or cut off"):
        read_kineto(file)
    monkeypatch.setattr(_trace_input, "_GROWTH_FROM", 1 << 16)
    file.write_bytes(gzip.compress(b"[" + b" " * (1 << 24)))
    with pytest.raises(InputError, match="unpacks to more than 400 times"):
        read_kineto(file)


def test_more_bytes_than_allowed_are_not_read(tmp_path):
    file = tmp_path / "t.json"
    file.write_bytes(b" " * 1000)
    source = _trace_input.TraceInput(file, most_bytes=999)
    with source, pytest.raises(InputError, match="longer than 999 bytes"):
        source.read()


def test_reading_goes_on_over_the_borders_of_pieces(tmp_path, monkeypatch):
    """The same comes out whatever the size of the pieces."""
    events = [collective("allreduce", 100 * k, 50, 100 + k, [0, 1]) for k in range(20)]
    file = kineto(tmp_path / "t.json", events, 0, 2)
    text = file.read_text().replace('"schemaVersion": 1', '"schemaVersion": 12345.678')
    file.write_text(text + " \n")
    whole = read_kineto(file)
    for piece in (1, 2, 3, 7, 64):
        monkeypatch.setattr(_trace_input.TraceInput.read, "__defaults__", (piece,))
        assert read_kineto(file).events == whole.events


def test_memory_is_bounded_by_the_kernels_not_by_the_file(tmp_path):
    """A file of 40 MB of host events is read in less than 8 MB."""
    import tracemalloc

    filler = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "ts": 1,
        "dur": 1,
        "args": {"x": "y" * 900},
    }
    events = [*([filler] * 40_000), collective("allreduce", 0, 1, 8, [0, 1])]
    file = tmp_path / "t.json"
    with file.open("w") as out:
        out.write('{"traceEvents": [')
        out.write(",\n".join(json.dumps(event) for event in events))
        out.write("]}")
    assert file.stat().st_size > 38e6
    tracemalloc.start()
    assert only(read_kineto(file)).op == "all-reduce"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6
