"""NCCL Inspector logs: sizes as nccl-tests counts, ranks of the job, order and times."""

from __future__ import annotations

import gzip
import json

import pytest

from railweave.errors import InputError
from railweave.formats.execution_trace import EventKind
from railweave.formats.nccl_inspector import read_inspector, read_inspector_records
from trace_files import inspector_line as line

#: the published example of the plugin's guide
EXAMPLE = {
    "header": {"id": "0x7f8c496ae9f661", "rank": 2, "n_ranks": 8, "nnodes": 1},
    "metadata": {"hostname": "example-hostname", "pid": 1639453},
    "coll_perf": {
        "coll": "AllReduce",
        "coll_sn": 1407,
        "coll_msg_size_bytes": 17179869184,
        "coll_exec_time_us": 61974,
        "coll_algobw_gbs": 277.210914,
        "coll_busbw_gbs": 485.119099,
    },
}


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_published_example(tmp_path):
    (record,), findings = read_inspector_records(write(tmp_path / "a.log", json.dumps(EXAMPLE)))
    assert findings == ()
    assert (record.op, record.rank, record.ranks) == ("all-reduce", 2, 8)
    assert (record.size_bytes, record.sequence) == (1 << 34, 1407)
    assert record.time_s == pytest.approx(61974e-6)
    assert record.busbw_Bps == pytest.approx(485.119099e9)
    # its own bandwidth follows from size, time and ranks
    assert record.size_bytes / record.time_s * 2 * 7 / 8 == pytest.approx(record.busbw_Bps)


@pytest.mark.parametrize("op", ["AllGather", "ReduceScatter"])
def test_one_rank_s_part_is_counted_by_the_file_and_the_whole_here(tmp_path, op):
    """The guide's example: 2 GiB a rank, 8 ranks, 41,057 us are 366.13 GB/s of bus bandwidth."""
    text = line(op, 1 << 31, 41057, rank=4, ranks=8, busbw=366.134533)
    (record,), _ = read_inspector_records(write(tmp_path / "a.log", text))
    assert record.size_bytes == 8 << 31
    assert record.size_bytes / record.time_s * 7 / 8 == pytest.approx(record.busbw_Bps)


def test_ranks_of_groups_are_those_of_the_largest_communicator(tmp_path):
    """Four processes: the world, and two groups of every second rank."""
    files = []
    for rank in range(4):
        lines = [
            line("AllReduce", 64, 10, rank=rank, ranks=4, comm="0xw"),
            line("AllGather", 8, 10, rank=rank // 2, ranks=2, comm=f"0x{rank % 2}", pid=100 + rank),
        ]
        files.append(write(tmp_path / f"{rank}.log", *lines))
    traces = read_inspector(reversed(files))
    by_rank = {trace.rank: trace for trace in traces}
    assert sorted(by_rank) == [0, 1, 2, 3]
    first, second = by_rank[3].events
    assert (first.ranks, second.ranks) == ((0, 1, 2, 3), (1, 3))
    assert (first.depends_on, second.depends_on) == ((), (0,))
    assert second.size_bytes == 16
    assert "no start times" in by_rank[3].assumptions[1].statement


def test_groups_of_which_processes_are_missing_are_left_out_and_said(tmp_path):
    lines = [
        line("AllReduce", 64, 10, rank=0, ranks=4, comm="0xw"),
        line("AllReduce", 64, 10, rank=0, ranks=2, comm="0x0", pid=100),
    ]
    (trace,) = read_inspector([write(tmp_path / "a.log", *lines)])
    assert [event.ranks for event in trace.events] == [(0, 1, 2, 3)]
    assert [finding.id for finding in trace.findings] == ["group-unknown"]
    assert "1 of its 2 ranks" in trace.findings[0].message


def test_without_a_communicator_of_all_ranks_are_guessed_and_that_is_said(tmp_path):
    files = []
    for rank in range(4):
        text = line("AllReduce", 8, 1, rank=rank % 2, ranks=2, comm=f"0x{rank // 2}", pid=rank)
        files.append(write(tmp_path / f"{rank}.log", text))
    traces = read_inspector(files)
    assert sorted(trace.rank for trace in traces) == [0, 1, 2, 3]
    assert {event.ranks for trace in traces for event in trace.events} == {(0, 1), (2, 3)}
    assert [f.id for t in traces for f in t.findings] == ["ranks-guessed"]


def test_verbose_logs_have_times(tmp_path):
    lines = [
        line("AllReduce", 8, 100, rank=0, ranks=2, sn=1, start_us=1_000_000),
        line("AllReduce", 8, 100, rank=0, ranks=2, sn=2, start_us=1_001_000),
    ]
    (trace,) = read_inspector([write(tmp_path / "a.log", *lines)])
    kinds = [event.kind for event in trace.events]
    assert kinds == [EventKind.COLLECTIVE, EventKind.COMPUTE, EventKind.COLLECTIVE]
    assert trace.events[1].duration_s == pytest.approx(900e-6)


def test_messages_have_a_peer(tmp_path):
    text = json.loads(line("AllReduce", 8, 1, rank=1, ranks=3))
    text["p2p_perf"] = {
        "p2p": "Recv",
        "p2p_sn": 1,
        "p2p_peer": 2,
        "p2p_msg_size_bytes": 77,
        "p2p_exec_time_us": 5,
    }
    del text["coll_perf"]
    (trace,) = read_inspector([write(tmp_path / "a.log", json.dumps(text))])
    (event,) = trace.events
    assert (event.op, event.ranks, event.size_bytes) == ("recv", (2, 1), 77)


def test_packed_logs_and_unknown_operations(tmp_path):
    lines = [
        line("AllReduce", 8, 1, rank=0, ranks=2),
        line("Frobnicate", 8, 1, rank=0, ranks=2),
        "",
        json.dumps({"header": {}, "metadata": {}}),
    ]
    file = tmp_path / "a.log.gz"
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    records, findings = read_inspector_records(file)
    assert len(records) == 1
    assert [finding.message for finding in findings] == [
        "1 × operation 'Frobnicate', which is not known: left out",
        "1 × line without coll_perf or p2p_perf: left out",
    ]


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ('{"header": ', "not valid JSON"),
        ("[]", "no 'header'"),
        ('{"header": 3}', "no 'header'"),
        (line("AllReduce", 8, 1, rank=2, ranks=2), "rank 2 of 2"),
        (line("AllReduce", -8, 1, rank=0, ranks=2), "-8"),
        (line("AllReduce", 8, 1, rank=0, ranks=1 << 40), "n_ranks ≤"),
        (line("AllReduce", 8, float("inf"), rank=0, ranks=2), "inf"),
        ('{"header":' * 100_000, "nested too deeply"),
    ],
)
def test_broken_lines_are_answered_with_file_line_and_reason(tmp_path, second, says):
    file = write(tmp_path / "a.log", line("AllReduce", 8, 1, rank=0, ranks=2), second)
    with pytest.raises(InputError, match=rf"a\.log:2: .*{says}"):
        read_inspector([file])


def dump(coll=0, p2p=0, rank=0, **more):
    """Return the line that heads a dump since format 4.3."""
    head = json.loads(line("AllReduce", 8, 1, rank=rank, ranks=2))
    del head["coll_perf"]
    head["dump_stats"] = {"coll_records": coll, "p2p_records": p2p, **more}
    return json.dumps(head)


def bare(*args, **more):
    """Return an operation's line as it is since format 4.3: without header."""
    return json.dumps({"coll_perf": json.loads(line(*args, **more))["coll_perf"]})


def test_headers_that_stand_once_a_dump(tmp_path):
    lines = [
        dump(coll=2, proxy_records=1),
        bare("AllReduce", 8, 10, rank=0, ranks=2, sn=0),
        bare("AllReduce", 16, 10, rank=0, ranks=2, sn=1),
        json.dumps({"proxy_trace": {"channel_id": 0}}),
        dump(coll=1, rank=1),
        bare("AllGather", 8, 10, rank=1, ranks=2, sn=0),
    ]
    records, findings = read_inspector_records(write(tmp_path / "a.log", *lines))
    assert [(r.op, r.rank, r.size_bytes) for r in records] == [
        ("all-reduce", 0, 8),
        ("all-reduce", 0, 16),
        ("all-gather", 1, 16),
    ]
    assert findings == ()
    lines[3:4] = []
    _, findings = read_inspector_records(write(tmp_path / "a.log", dump(coll=7), *lines[1:5]))
    assert [f.message for f in findings] == [
        "5 operations that the log announces are not in it; it was cut off"
    ]
    with pytest.raises(InputError, match=r"a\.log:1: no 'header' in it, nor before it"):
        read_inspector_records(write(tmp_path / "a.log", lines[1]))


def test_a_process_may_have_several_files(tmp_path):
    files = [
        write(tmp_path / f"{k}.log", line("AllReduce", 8 << k, 1, rank=0, ranks=2, sn=k))
        for k in range(2)
    ]
    (trace,) = read_inspector(files)
    assert [event.size_bytes for event in trace.events] == [8, 16]
    assert trace.file == str(files[0])


def test_two_processes_that_are_one_rank_are_refused(tmp_path):
    lines = [line("AllReduce", 8, 1, rank=0, ranks=2, pid=pid) for pid in (1, 2)]
    with pytest.raises(InputError, match="also that of process 1 on 'h0'"):
        read_inspector([write(tmp_path / "a.log", *lines)])


def test_an_empty_log_is_refused(tmp_path):
    with pytest.raises(InputError, match="NCCL_INSPECTOR_ENABLE"):
        read_inspector([write(tmp_path / "a.log", "")])
