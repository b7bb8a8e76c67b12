"""Plain TCP over a plane of it: the same bytes, handshake, window, acknowledgements."""

import numpy as np
import pytest
from _journey_designs import built, roce

from railweave.errors import InputError
from railweave.fabric import PlaneId
from railweave.fabric.wire import wire_bytes
from railweave.transport.codec import decode
from railweave.transport.journey import JourneyCase, packet_journey
from railweave.transport.packets import Service
from railweave.transport.verbs.operation import Fault, Operation, OperationCase

MSS = 8948
DCTCP = "congestion: {scheme: dctcp}"


def journey(op=Operation.WRITE, size=200_000, *, design=None, **more):
    names = [name for name in ("fault", "service") if name in more]
    case = OperationCase(op, size, **{name: more.pop(name) for name in names})
    if design is None:
        more.setdefault("plane", PlaneId.FRONTEND)
    found = JourneyCase(case, "node001", "node004", **more)
    return packet_journey(found, design or roce())


def segments(found):
    """Return every frame at the sender with its TCP fields by name."""
    for frame in found.frames():
        read = decode(frame.data)
        assert read.problems == ()
        (tcp,) = [layer for layer in read.layers if layer.name == "TCP"]
        yield frame, {field.name: field.value for field in tcp.fields}, read


def test_it_opens_sends_and_acknowledges():
    found = journey()
    run = found.run
    assert [s.name for s in run.segments[:3]] == ["SYN", "SYN-ACK", "ACK"]
    data = [s for s in run.segments if s.payload_bytes]
    assert sum(s.payload_bytes for s in data) == 200_000
    assert [s.payload_bytes for s in data[:-1]] == [MSS] * (len(data) - 1)
    assert data[-1].flags == ("PSH", "ACK")
    answers = [s for s in run.segments[3:] if s.direction == 1]
    assert len(answers) == -(-len(data) // 2)
    assert answers[-1].acknowledgment == data[-1].sequence + data[-1].payload_bytes
    rounds = run.segments[1].passage.enter_s[0], run.established_s
    assert 0 < rounds[0] < rounds[1] == data[0].passage.enter_s[0]
    assert found.completed_s > found.delivered_s > rounds[1]


def test_the_bytes_are_those_of_the_verbs_model():
    found = journey()
    stream = b""
    for frame, tcp, read in segments(found):
        segment = found.run.segments[frame.packet]
        assert tcp["Sequence Number"] == segment.sequence
        if segment.payload_bytes:
            stream += read.data[-segment.payload_bytes :]
    there = packet_journey(
        JourneyCase(OperationCase(Operation.WRITE, 200_000), "node001/gpu0", "node002/gpu3"),
        roce(),
    )
    assert stream == there.run.before[0]


def test_wire_bytes_are_those_of_the_wire_module():
    found = journey()
    data = (found.times.direction == 0) & (found.payload_bytes > 0)
    assert found.times.wire_bytes[data].sum() == wire_bytes(200_000, found.framing)


def test_the_window_opens_with_acknowledgements():
    """At most ten segments and what was acknowledged since are on their way."""
    found = journey(size=2_000_000)
    there = [s for s in found.run.segments if s.direction == 0 and s.payload_bytes]
    acks = [(s.passage.at_nic_s, s.acknowledgment) for s in found.run.segments[3:] if s.direction]
    base = there[0].sequence
    bound = 0
    for segment in there:
        now = segment.passage.enter_s[0]
        known = max([base, *(number for at, number in acks if at <= now)])
        out = segment.sequence + segment.payload_bytes - known
        limit = 10 * MSS + (known - base)
        assert out <= limit
        bound += out > limit - MSS
    assert bound > 2  # the window does hold it back


def test_a_read_is_asked_for():
    found = journey(Operation.READ, 50_000)
    request = next(s for s in found.run.segments if s.payload_bytes)
    assert (request.direction, request.payload_bytes) == (0, 16)
    back = (found.times.direction == 1) & (found.payload_bytes > 0)
    assert found.payload_bytes[back].sum() == 50_000
    assert "TCP has no READ" in " ".join(event.what for event in found.events)


def test_marks_are_echoed_where_the_scheme_uses_them():
    design = built(transport="tcp", topology="leaf-spine", more=DCTCP)
    ends = {"plane": PlaneId.BACKEND, "design": design}
    leaf = next(h.source for h in journey(**ends).ways[0].hops if h.source.startswith("leaf"))
    found = journey(**ends, congested=leaf)
    data = (found.times.direction == 0) & (found.payload_bytes > 0)
    assert np.all(found.times.marked_at[data] >= 0)
    assert np.all(found.times.marked_at[~data] < 0)
    assert all("ECE" in s.flags for s in found.run.segments[3:] if s.direction == 1)
    assert "ECE" in found.run.segments[0].flags
    with pytest.raises(InputError, match="schemes that mark on tcp: dctcp"):
        journey(congested="frontend-leaf-1")


def test_any_segment_size_up_to_the_planes():
    assert journey(mtu_bytes=1448).payload_bytes.max() == 1448
    with pytest.raises(InputError, match="at most 8,948 bytes"):
        journey(mtu_bytes=9000)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"op": Operation.COMPARE_SWAP, "size": 8}, "TCP, which has no cas"),
        ({"fault": Fault.BAD_RKEY}, "faults are those of RDMA"),
        ({"service": Service.UC}, "UC is a service of RDMA"),
        ({"lost_at": "frontend-leaf-1"}, "faults are those of RDMA"),
    ],
)
def test_what_tcp_does_not_have(more, says):
    with pytest.raises(InputError, match=says):
        journey(**more)


def test_a_message_of_no_bytes():
    found = journey(size=0)
    assert [s.name for s in found.run.segments] == ["SYN", "SYN-ACK", "ACK"]
    assert found.to_json()["packets"] == 3
