"""nccl-tests output: every layout that is met in logs, and what is said of those that are cut."""

from __future__ import annotations

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.errors import InputError
from railweave.formats.nccl_tests import (
    NcclTestRow,
    parse_nccl_tests,
    read_nccl_tests,
    write_nccl_tests,
)

RANKS = "".join(
    f"#  Rank {rank:2} Group  0 Pid {4000 + rank:6} on {host:>10} device {rank % 2:2} "
    f"[0x{rank % 2 + 5:02x}] NVIDIA H100 80GB HBM3\n"
    for rank, host in enumerate(("east1", "east1", "east2", "east2"))
)
COMMAND = (
    "$ mpirun -np 4 -N 2 -host east1,east2 -x NCCL_ALGO=RING ./build/all_reduce_perf "
    "-b 1M -e 1G -f 8 -g 1 -n 20\n"
)
START = (
    "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824 step: 8(factor) warmup iters: 5 "
    "iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
)
HEAD = (
    "#\n"
    "#                                                              out-of-place"
    "                       in-place          \n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    "     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)       "
    "     (us)  (GB/s)  (GB/s)       \n"
)
SMALL = (
    "     1048576        262144     float     sum      -1    110.3    9.51   14.26      0"
    "    109.8    9.55   14.32      0\n"
)
MIDDLE = (
    "     8388608       2097152     float     sum      -1    260.0   32.26   48.40      0"
    "    261.0   32.14   48.21      0\n"
)
LARGE = (
    "  1073741824     268435456     float     sum      -1    11500   93.37  140.05      0"
    "    11480   93.53  140.30      0\n"
)
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 67.5928 \n#\n"
WHOLE = COMMAND + START + RANKS + "NCCL version 2.30.1+cuda13.0\n" + HEAD + SMALL + MIDDLE + LARGE
ONE = HEAD + LARGE


def one(text, file="run.txt"):
    (table,) = parse_nccl_tests(text, file)
    return table


def test_whole_run():
    table = one(WHOLE + END)
    assert (table.op, table.ranks, table.version) == (
        "all-reduce",
        4,
        "NCCL version 2.30.1+cuda13.0",
    )
    assert (table.algorithm, table.protocol) == ("RING", "")
    assert table.hosts == ("east1", "east2")
    assert table.devices == ("NVIDIA H100 80GB HBM3",)
    assert table.complete
    assert not table.problems
    assert table.average_busbw_Bps == pytest.approx(67.5928e9)
    assert table.out_of_bounds == 0
    assert [row.size_bytes for row in table.select()] == [1 << 20, 8 << 20, 1 << 30]
    assert len(table.rows) == 6
    row = next(table.select(in_place=True))
    assert row == NcclTestRow(
        op="all-reduce",
        ranks=4,
        size_bytes=1 << 20,
        time_s=pytest.approx(109.8e-6),
        algbw_Bps=pytest.approx((1 << 20) / 109.8e-6),
        busbw_Bps=pytest.approx(1.5 * (1 << 20) / 109.8e-6, rel=1e-4),
        in_place=True,
        wrong=0,
        dtype="float",
        redop="sum",
        root=-1,
        line=14,
    )


def test_small_sizes_have_more_digits_than_are_printed():
    line = (
        "           8             2     float     sum      -1    43.04    0.00    0.00      0"
        "    42.71    0.00    0.00      0\n"
    )
    row = one(WHOLE.replace(HEAD, HEAD + line) + END).rows[0]
    assert row.algbw_Bps == pytest.approx(8 / 43.04e-6)
    assert row.busbw_Bps == pytest.approx(1.5 * 8 / 43.04e-6, rel=1e-4)


def test_one_place_and_wrong_not_checked():
    text = (
        HEAD.replace("     time   algbw   busbw #wrong\n", "\n")
        + "  1073741824     268435456     float    none       0    11500   93.37   93.37    N/A\n"
    )
    row = one("# Collective test starting: broadcast_perf\n" + text).rows[0]
    assert (row.op, row.root, row.wrong, row.in_place) == ("broadcast", 0, None, False)


@pytest.mark.parametrize(
    ("program", "operation"),
    [
        ("all_gather_perf", "all-gather"),
        ("reduce_scatter_perf", "reduce-scatter"),
        ("alltoall_perf", "all-to-all"),
        ("sendrecv_perf", "send-recv"),
        ("reduce_perf_mpi", "reduce"),
        ("hypercube_perf", "hypercube"),
    ],
)
def test_operation_by_program(program, operation):
    assert one(f"$ ./build/{program} -b 1G -e 1G -g 4\n{ONE}").op == operation


def test_concluding_line_names_the_operation():
    assert one(ONE + END + "# Collective test concluded: all_reduce_perf\n").op == "all-reduce"


def test_old_layout_without_root_and_with_error():
    text = (
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 "
        "iters: 20 validation: 1 \n#\n# Using devices\n"
        + "".join(
            f"#   Rank  {rank} Pid   9{rank} on      box1 device  {rank} [0x0{rank}] Tesla V100\n"
            for rank in range(8)
        )
        + "#\n#                                                     out-of-place"
        "                       in-place          \n"
        "#       size         count    type   redop     time   algbw   busbw  error"
        "     time   algbw   busbw  error\n"
        "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)       "
        "     (us)  (GB/s)  (GB/s)       \n"
        "   134217728      33554432   float     sum   1843.5   72.81  127.41  1e-06"
        "   1843.1   72.82  127.44  1e-06\n"
    )
    table = one(text)
    assert (table.op, table.ranks, len(table.rows)) == ("all-reduce", 8, 2)  # 1.75
    assert table.rows[0].wrong is None  # an error, not a count
    assert table.rows[0].busbw_Bps == pytest.approx(127.4e9, rel=1e-3)


@pytest.mark.parametrize("name", ["cputime", "time"])
def test_timestamps_and_processor_time(name):
    head = HEAD.replace("   time", f"{name:>7}").replace("#wrong\n", "#wrong           timestamp\n")
    row = LARGE.rstrip() + "  2026-03-04 12:13:14\n"
    table = one(head + row)
    assert [r.time_s for r in table.rows] == pytest.approx([11500e-6, 11480e-6])


def test_times_of_single_iterations():
    each = ("i_min", "i_max", "i_p99", "i_cv%")
    half = ("time", "algbw", "busbw", "#wrong", *each)
    head = "# " + " ".join(("size", "count", "type", "redop", "root", *half, *half)) + "\n"
    numbers = "11500 93.37 140.05 0 11400 11900 11899 0.8"
    table = one(head + f"1073741824 268435456 float sum -1 {numbers} {numbers}\n")
    assert len(table.rows) == 2
    assert {row.busbw_Bps for row in table.rows} == {table.rows[0].busbw_Bps}


@pytest.mark.parametrize(
    "prefix", ["[1,0]<stdout>:", "[1,12][node-3:0]<stdout>: ", "0: ", "2026-03-04T12:13:14.123Z "]
)
def test_prefixes_of_launchers(prefix):
    text = "".join(prefix + line + "\n" for line in (WHOLE + END).splitlines())
    table = one(text)
    assert (table.op, table.ranks, len(table.rows), table.complete) == ("all-reduce", 4, 6, True)


LOG = "east1:4000:4031 [0] NCCL INFO Channel 00 : 0[5000] -> 1[6000] via P2P/IPC\n"


def test_log_lines_between_and_inside_rows():
    head, halves = MIDDLE[:52], MIDDLE[52:]
    first, second = halves[:33], halves[33:]
    for text in (
        SMALL + LOG + MIDDLE + LOG + LARGE,
        SMALL + head + LOG + halves + LARGE,
        SMALL + head + first + LOG + second + LARGE,
    ):
        table = one(COMMAND + START + RANKS + HEAD + text + END)
        assert not table.problems
        assert [row.size_bytes for row in table.select(in_place=True)] == [
            1 << 20,
            8 << 20,
            1 << 30,
        ]
        assert [row.time_s for row in table.select()] == pytest.approx([110.3e-6, 260e-6, 11500e-6])
        assert list(table.select(in_place=True))[1].time_s == pytest.approx(261e-6)
        assert {row.root for row in table.rows} == {-1}


def test_cut_in_the_middle_of_a_row():
    table = one((WHOLE + END)[: WHOLE.index(LARGE) + 60])
    assert len(table.rows) == 4
    assert not table.complete
    (problem,) = table.problems
    assert problem.startswith("run.txt:16: the row of 1073741824 B")
    # what is whole of a row is kept
    table = one((WHOLE + END)[: WHOLE.index(LARGE) + 95])
    assert len(table.rows) == 5
    assert not table.problems


def test_stopped_before_the_times_of_a_row():
    text = WHOLE[: WHOLE.index(LARGE) + 52] + "\n"
    table = one(text + "east2: Test NCCL failure common.cu:303 'remote process exited'\n")
    assert table.problems == (
        "run.txt:16: the row of 1073741824 B has no times: the test stopped there, or the log was "
        "cut",
    )
    (error,) = table.errors
    assert (error.line, error.host, error.place) == (17, "east2", "common.cu:303")
    assert error.message == "remote process exited"


def test_failure_without_any_row():
    table = one(
        COMMAND
        + START
        + RANKS
        + "east1: Test CUDA failure common.cu:895 'out of memory'\n"
        + " .. east1 pid 4000: Test failure common.cu:842\n"
    )
    assert not table.rows
    assert [(e.place, e.message) for e in table.errors] == [
        ("common.cu:895", "out of memory"),
        ("common.cu:842", "Test failure"),
    ]


def test_several_tests_in_one_file():
    gather = WHOLE.replace("all_reduce_perf", "all_gather_perf").replace("    sum", "   none")
    tables = parse_nccl_tests(WHOLE + END + "\n" + gather + END + HEAD + SMALL)
    assert [table.op for table in tables] == ["all-reduce", "all-gather", "all-reduce"]
    assert [len(table.rows) for table in tables] == [6, 6, 2]
    assert [table.ranks for table in tables] == [4, 4, 4]  # the third's by its factor


def test_header_again_begins_a_table_of_the_same_run():
    tables = parse_nccl_tests(WHOLE + HEAD + SMALL + END)
    assert [(t.op, t.ranks) for t in tables] == [("all-reduce", 4), ("all-reduce", 4)]


def test_operation_and_ranks_by_the_factor_alone():
    table = one(ONE)
    assert (table.op, table.ranks) == ("all-reduce", 4)
    none = (
        LARGE.replace("    sum", "   none").replace("140.05", " 70.03").replace("140.30", " 70.15")
    )
    table = one(HEAD + none)  # all-gather or all-to-all: it does not say
    assert (table.op, table.ranks) == (None, None)


def test_ranks_of_groups_are_those_of_one():
    split = RANKS.replace("Rank  2 Group  0", "Rank  2 Group  1").replace(
        "Rank  3 Group  0", "Rank  3 Group  1"
    )
    assert one(COMMAND.replace("all_reduce", "x") + START + split + ONE).ranks == 2


@pytest.mark.parametrize(
    ("line", "algorithm"),
    [
        ("# NCCL_ALGO=Ring, job 4711\n", "Ring"),
        ("east1:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Tree\n", "Tree"),
        ("$ mpirun -np 4 -x NCCL_ALGO=^Tree ./all_reduce_perf\n", ""),  # a list, or all but one
        ("$ mpirun -np 4 -x NCCL_ALGO=Ring,Tree ./all_reduce_perf\n", ""),
        ("$ mpirun -np 4 -x NCCL_ALGO ./all_reduce_perf\n", ""),
    ],
)
def test_forced_algorithm(line, algorithm):
    assert one(line + ONE).algorithm == algorithm


def test_built_without_mpi():
    alone = RANKS.replace("Rank  1", "Rank  0").replace("Rank  2", "Rank  0")
    (problem,) = one(START + alone + ONE).problems
    assert "built without MPI" in problem


def test_numbers_that_contradict_each_other():
    table = one(HEAD + LARGE.replace("93.37", "53.37"))
    (problem,) = table.problems
    assert "algbw says 53.37" in problem
    assert table.rows[0].algbw_Bps == pytest.approx(53.37e9)


def test_no_measurement():
    table = one(HEAD + LARGE.replace("11500", "  nan"))
    assert "no measurement" in table.problems[0]
    assert len(table.rows) == 1


REPORT = {
    "version": 2,
    "args": ["./build/all_reduce_perf", "-b", "1G"],
    "env": ["HOME=/root", "NCCL_ALGO=Tree", "NCCL_PROTO=LL,LL128"],
    "nccl_version": 23001,
    "config": {
        "devices": [
            {"rank": r, "group": 0, "hostname": f"h{r // 2}", "device_info": "H100"}
            for r in range(4)
        ]
    },
    "results": [
        {
            "size": 1 << 30,
            "count": 1 << 28,
            "type": "float",
            "redop": "sum",
            "root": "    -1",
            "out_of_place": {"time": 11500.0, "alg_bw": 93.3689, "bus_bw": 140.0533, "nwrong": 0.0},
            "in_place": {"time": "nan", "alg_bw": "nan", "bus_bw": "nan", "nwrong": None},
        }
    ],
    "out_of_bounds": {"count": 0, "okay": "true"},
    "average_bus_bandwidth": {"bandwidth": 140.0533, "okay": "unchecked"},
    "errors": [""],
}


def test_json_report():
    table = one(json.dumps(REPORT), "run.json")
    assert (table.op, table.ranks, table.version) == ("all-reduce", 4, "NCCL version 2.30.1")
    assert table.hosts == ("h0", "h1")
    assert (table.algorithm, table.protocol) == ("Tree", "")
    (row,) = table.rows
    assert row.busbw_Bps == pytest.approx(1.5 * (1 << 30) / 11500e-6, rel=1e-5)
    assert (row.root, row.wrong) == (-1, 0)
    assert table.problems == (
        "run.json: results[0].in_place: no measurement; wanted are a whole 'size' and a 'time' "
        "above 0",
    )
    assert not table.errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no results of nccl-tests"),
        ("hello\nworld 1 2 3\n", "holds no results"),
        ("time,size\n1,2\n", "holds no results"),
        ('{"a": 1}', "has no list 'results'"),
        ('{"results": [1,', "run.txt:1:16: the JSON report ends or breaks off here"),
    ],
)
def test_other_files_are_refused(text, message):
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        parse_nccl_tests(text, "run.txt")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"gone.txt: cannot be read \(No such file"):
        read_nccl_tests(tmp_path / "gone.txt")
    with pytest.raises(InputError, match="cannot be read"):
        read_nccl_tests(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00" + (WHOLE + END).encode())
    assert len(read_nccl_tests(tmp_path / "bytes")[0].rows) == 6


@given(
    st.lists(
        st.tuples(st.integers(0, 34), st.floats(1e-6, 10.0)), min_size=1, max_size=12, unique=True
    ),
    st.integers(2, 2000),
    st.sampled_from(["all-reduce", "all-gather", "broadcast", "send-recv"]),
)
def test_what_is_written_is_read(points, ranks, op):
    factor = {"all-reduce": 2 * (ranks - 1) / ranks, "all-gather": (ranks - 1) / ranks}.get(op, 1.0)
    rows = [
        NcclTestRow(
            op=op,
            ranks=ranks,
            size_bytes=1 << power,
            time_s=time_s,
            algbw_Bps=(1 << power) / time_s,
            busbw_Bps=factor * (1 << power) / time_s,
            in_place=False,
        )
        for power, time_s in points
    ]
    text = write_nccl_tests(rows, title=["a title"], notes=["a note"])
    assert max(len(line) for line in text.splitlines()) <= 77
    table = one(text)
    assert table.op == op
    assert table.complete
    assert [row.size_bytes for row in table.rows] == [row.size_bytes for row in rows]
    for read, wrote in zip(table.rows, rows, strict=True):
        if max(wrote.algbw_Bps, wrote.busbw_Bps) < 9e14:  # more do not fit into the column
            assert math.isclose(read.time_s, wrote.time_s, rel_tol=0.06, abs_tol=5e-9)
            assert math.isclose(read.busbw_Bps, wrote.busbw_Bps, rel_tol=0.06, abs_tol=6e6)
    assert "a note" in text


@given(st.integers(0, len(WHOLE + END)), st.integers(0, len(WHOLE + END)))
def test_any_part_of_a_log_is_read_or_refused(first, last):
    text = (WHOLE + END)[min(first, last) : max(first, last)]
    whole = {(row.size_bytes, row.in_place): row.time_s for row in one(WHOLE + END).rows}
    try:
        tables = parse_nccl_tests(text)
    except InputError:
        return
    for table in tables:
        for row in table.rows:
            assert row.size_bytes > 0
            # Digits that were cut off at either end cannot be missed; all else is as printed.
            inner = row.line not in (1, len(text.splitlines()))
            if inner:
                assert whole[row.size_bytes, row.in_place] == row.time_s


_WORDS = st.sampled_from(
    [
        *("1048576", "262144", "float", "sum", "-1", "0", "N/A", "nan", "1e999", "9" * 400, "#"),
        *("size", "algbw", "busbw", "time", "#wrong", "Avg bus bandwidth", " : ", "+-", "10.5"),
        *("# Rank 0 Pid 1 on a device 0 [0] b", "\n", "\n# size time algbw busbw\n", "(us)", "(B)"),
        "all_reduce_perf",
    ]
)


@given(st.lists(_WORDS, max_size=60))
def test_no_text_is_a_fault(words):
    with suppress(InputError):
        parse_nccl_tests(" ".join(words))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*REPORT, *REPORT["results"][0], "time", "alg_bw"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(list(REPORT)), _JSON))
def test_no_json_is_a_fault(document):
    with suppress(InputError):
        parse_nccl_tests(json.dumps({**REPORT, **document}))
