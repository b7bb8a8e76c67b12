"""Chakra traces: read from bytes made by hand, written and read again, and broken ones."""

from __future__ import annotations

import gzip
import json
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.errors import InputError, MissingProgramError
from railweave.formats import _chakra_schema
from railweave.formats.chakra import read_chakra, read_groups, write_chakra
from railweave.formats.execution_trace import EventKind, RankTrace, TraceEvent
from trace_files import chakra, node, number, text, varint

COMPUTE, SEND, RECV, COLLECTIVE = 4, 5, 6, 7


def coll(comm_type, size, kind="int64", **more):
    return {
        "is_cpu_op": ("bool", 0),
        "comm_type": (kind, comm_type),
        "comm_size": (kind, size),
        **more,
    }


@pytest.mark.parametrize("metadata", [True, False])
def test_a_step_made_by_hand(tmp_path, metadata):
    nodes = [
        node(0, COMPUTE, duration_us=250, start_us=1000),
        node(5, COLLECTIVE, data=[0], duration_us=40, attrs=coll(0, 1 << 40)),
        node(7, COMPUTE, data=[0, 5], ctrl=[5, 0], duration_us=3),
    ]
    trace = read_chakra(chakra(tmp_path / "step.2.et", nodes, metadata=metadata), world=4)
    assert (trace.rank, trace.world) == (2, 4)
    first, second, third = trace.events
    assert first.kind is EventKind.COMPUTE
    assert (first.start_s, first.duration_s) == (pytest.approx(1e-3), pytest.approx(250e-6))
    assert (second.op, second.size_bytes, second.ranks) == ("all-reduce", 1 << 40, (0, 1, 2, 3))
    assert second.duration_s == pytest.approx(40e-6)
    assert (second.depends_on, third.depends_on) == ((0,), (0, 1))
    assert [f.id for f in trace.findings] == ["group-not-named"]


@pytest.mark.parametrize(
    ("code", "op", "factor"),
    [
        (0, "all-reduce", 1),
        (1, "reduce", 1),
        (2, "all-gather", 3),
        (3, "gather", 1),
        (4, "scatter", 1),
        (5, "broadcast", 1),
        (6, "all-to-all", 1),
        (7, "reduce-scatter", 1),
        (8, "reduce-scatter", 1),
        (9, "barrier", 0),
    ],
)
@pytest.mark.parametrize("kind", ["int32", "int64", "uint64"])
def test_operations_and_sizes_in_any_kind_of_number(tmp_path, code, op, factor, kind):
    nodes = [node(1, COLLECTIVE, attrs=coll(code, 1000, kind, pg_name=("string", "7")))]
    file = chakra(tmp_path / "step.4.et", nodes)
    trace = read_chakra(file, groups={"7": (2, 4, 6)})
    (event,) = trace.events
    assert (event.op, event.size_bytes, event.ranks) == (op, 1000 * factor, (2, 4, 6))
    assert trace.findings == ()


def test_messages(tmp_path):
    attrs = {"comm_size": ("int64", 9), "comm_src": ("int32", 1), "comm_dst": ("int32", 3)}
    nodes = [
        node(1, SEND, attrs={**attrs, "comm_tag": ("int32", 4)}),
        node(2, RECV, attrs={**attrs, "comm_src": ("int32", 0), "comm_dst": ("int32", 1)}),
        node(3, SEND, duration_us=8, attrs={"comm_size": ("int64", 9)}),
    ]
    trace = read_chakra(chakra(tmp_path / "step.1.et", nodes))
    send, recv, lost = trace.events
    assert (send.op, send.ranks, send.tag, send.size_bytes) == ("send", (1, 3), 4, 9)
    assert (recv.op, recv.ranks) == ("recv", (0, 1))
    assert trace.world == 4
    # its time stays, and it is said
    assert (lost.kind, lost.duration_s) == (EventKind.COMPUTE, pytest.approx(8e-6))
    assert "1 × send or receive without comm_size or comm_dst" in trace.findings[0].message


def test_what_is_missing_is_said(tmp_path):
    nodes = [
        node(1, COMPUTE, attrs={"num_ops": ("int64", 9)}),
        node(2, COLLECTIVE, data=[1, 99], attrs=coll(0, 8, pg_name=("string", "3"))),
        node(3, 10),
    ]
    trace = read_chakra(chakra(tmp_path / "step.0.et", nodes), world=2)
    assert [f.id for f in trace.findings] == [
        "operation-skipped",
        "dependency-skipped",
        "compute-untimed",
        "group-unknown",
    ]


def test_packed_files(tmp_path):
    file = chakra(tmp_path / "step.0.et", [node(1, COLLECTIVE, attrs=coll(0, 8))])
    packed = tmp_path / "step.1.et.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert read_chakra(packed, world=2).rank == 1


def test_messages_longer_than_a_piece(tmp_path):
    long = node(1, COLLECTIVE, attrs=coll(0, 8)) + text(8, text(1, "x" * 700_000))
    nodes = [
        long,
        node(2, COMPUTE, data=[1], duration_us=5),
        long.replace(b"\x08\x01", b"\x08\x03", 1),
    ]
    trace = read_chakra(chakra(tmp_path / "step.0.et", nodes), world=2)
    assert len(trace.events) == 3
    assert trace.events[1].depends_on == (0,)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff" * 20, "byte 0: no length of a message"),
        (varint(1 << 30), "byte 0: no length"),
        (varint(9) + b"\x0a\x01", "byte 1: a message of 9 bytes, but the file ends after 2"),
        (varint(4) + b"\xff\xff\xff\xff", "byte 1: neither metadata nor a node"),
        (b"\x00" + varint(2) + b"\x1a\xff", "byte 2: message 1 is no node"),
        (b"\x00" + 2 * (varint(4) + number(1, 3) + number(3, 4)), "node 3 stands there twice"),
        (b"", "no operation between ranks"),
        (b"\x00" + varint(4) + number(1, 3) + number(3, 4), "no operation between ranks"),
    ],
)
def test_broken_files_are_answered_with_the_offset(tmp_path, data, says):
    file = tmp_path / "step.0.et"
    file.write_bytes(data)
    with pytest.raises(InputError, match=rf"step\.0\.et: .*{says}|step\.0\.et: {says}"):
        read_chakra(file)


def test_the_rank_must_be_in_the_name(tmp_path):
    with pytest.raises(InputError, match=r"NAME\.RANK\.et"):
        read_chakra(tmp_path / "step.et")


@pytest.mark.parametrize(
    "content", ["[]", '{"1": 3}', '{"1": []}', '{"1": [0, 0]}', '{"1": [-1]}', '{"1": [1e30]}', "{"]
)
def test_broken_groups(tmp_path, content):
    file = tmp_path / "groups.json"
    file.write_text(content)
    with pytest.raises(InputError, match=r"groups\.json"):
        read_groups(file)


def test_without_protobuf_the_extra_is_named(tmp_path, monkeypatch):
    file = chakra(tmp_path / "step.0.et", [node(1, COLLECTIVE, attrs=coll(0, 8))])
    _chakra_schema.schema.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor_pb2", None)
    with pytest.raises(MissingProgramError, match=r"railweave\[traces\]") as raised:
        read_chakra(file)
    assert raised.value.exit_code == 3
    monkeypatch.undo()
    assert read_chakra(file, world=2).events


events = st.one_of(
    st.builds(
        lambda us: TraceEvent(0, EventKind.COMPUTE, "compute", duration_s=us * 1e-6),
        st.integers(0, 10**9),
    ),
    st.builds(
        lambda op, part, ranks: TraceEvent(
            0,
            EventKind.COLLECTIVE,
            op,
            size_bytes=0.0 if op == "barrier" else float(part * len(ranks)),
            ranks=tuple(ranks),
        ),
        st.sampled_from(sorted(_chakra_schema.COLLECTIVE_CODES)),
        st.integers(1, 1 << 40),
        st.lists(st.integers(1, 100), unique=True, max_size=4).map(lambda rest: [0, *rest]),
    ),
    st.builds(
        lambda op, size, peer, tag: TraceEvent(
            0,
            EventKind.POINT_TO_POINT,
            op,
            size_bytes=float(size),
            ranks=(0, peer) if op == "send" else (peer, 0),
            tag=tag,
        ),
        st.sampled_from(["send", "recv"]),
        st.integers(0, 1 << 50),
        st.integers(1, 100),
        st.integers(0, 1000),
    ),
)


@given(st.lists(events, min_size=1, max_size=8), st.data())
def test_written_and_read_again(tmp_path_factory, found, data):
    folder = tmp_path_factory.mktemp("et")
    barrier = TraceEvent(0, EventKind.COLLECTIVE, "barrier", ranks=(0, 1))
    linked = []
    for i, event in enumerate([*found, barrier]):
        waits = data.draw(st.lists(st.integers(0, i - 1), unique=True, max_size=3)) if i else []
        changed = {"depends_on": tuple(waits)}
        linked.append(TraceEvent(**{**{f: getattr(event, f) for f in event.__slots__}, **changed}))
    written = RankTrace("test", "", 0, tuple(linked))
    names = write_chakra([written], lambda name, raw: (folder / name).write_bytes(raw))
    assert names == ("trace.0.et", "trace.groups.json")
    read = read_chakra(folder / names[0], groups=read_groups(folder / names[1]))
    assert len(read.events) == len(linked)
    for a, b in zip(linked, read.events, strict=True):
        assert (a.kind, a.op, a.ranks, a.tag) == (b.kind, b.op, b.ranks, b.tag)
        assert a.depends_on == b.depends_on
        assert b.size_bytes == a.size_bytes
        if a.kind is EventKind.COMPUTE:
            assert math.isclose(a.duration_s, b.duration_s, abs_tol=1e-12)
    assert read.findings == ()
    json.loads((folder / names[1]).read_text())
