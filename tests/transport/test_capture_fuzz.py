"""Random, cut and mutated captures never crash the explanation, and always end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture_files import every_kind
from railweave.errors import InputError
from railweave.formats.pcap import CapturedPacket, Interface, read_packets, write_pcap, write_pcapng
from railweave.transport.capture import explain_capture, list_packets

LINKS = (0, 1, 101, 113, 147, 197, 247, 276)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the bytes of captures with something of everything, in every format and link type."""
    folder = tmp_path_factory.mktemp("files")
    packets = list(read_packets(every_kind(folder / "all.pcap")))
    path, found = folder / "a", []
    for big_endian in (False, True):
        write_pcap(path, packets, big_endian=big_endian)
        found.append(path.read_bytes())
        write_pcapng(path, [Interface("a", snap_length=400)], packets, big_endian=big_endian)
        found.append(path.read_bytes())
    for link in LINKS:
        other = [CapturedPacket(p.time_ns, link, 0, p.data) for p in packets]
        write_pcap(path, other, link_type=link)
        found.append(path.read_bytes())
    return found


def survives(path):
    """Explain and list a capture; hold what always holds."""
    try:
        study = explain_capture(path)
    except InputError as error:
        return str(error).startswith(str(path))
    lines = list(list_packets(path))
    study.to_json()
    return (
        len(lines) == study.packets == sum(kind.packets for kind in study.kinds)
        and sum(p.packets for p in study.queue_pairs) == study.rdma_packets
        and study.message_frame().height == len(study.messages)
        and all(m.end_ns >= 0 and m.bytes >= 0 for m in study.messages)
        and all(p.missing >= p.late >= 0 for p in study.queue_pairs)
    )


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_mutated_captures(files, tmp_path_factory, data):
    mutated = bytearray(data.draw(st.sampled_from(files)))
    for _ in range(data.draw(st.integers(1, 12))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        mutated[at] = data.draw(st.sampled_from((0, 1, 127, 255, mutated[at] ^ 8)))
    path = tmp_path_factory.mktemp("mutated") / "a"
    path.write_bytes(mutated[: data.draw(st.integers(0, len(mutated)))])
    assert survives(path)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.binary(max_size=120), st.integers(0, 2**62)), max_size=20),
    st.sampled_from(LINKS),
)
def test_packets_of_random_bytes(tmp_path_factory, rows, link):
    packets = [CapturedPacket(time, link, 0, data) for data, time in rows]
    path = tmp_path_factory.mktemp("random") / "a"
    write_pcapng(path, [Interface(link_type=link)], packets)
    assert survives(path)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 255), st.integers(0, 3), st.integers(0, 2**24 - 1)), max_size=60
    )
)
def test_any_sequence_of_opcodes_and_psns(tmp_path_factory, files, rows):
    folder = tmp_path_factory.mktemp("psns")
    (folder / "b").write_bytes(files[0])
    model = bytearray(next(iter(read_packets(folder / "b"))).data[:120])
    packets = []
    for i, (opcode, qp, psn) in enumerate(rows):
        model[42], model[49], model[51:54] = opcode, qp, psn.to_bytes(3)
        packets.append(CapturedPacket(i, 1, 0, bytes(model), 314))
    write_pcap(folder / "a", packets)
    assert survives(folder / "a")


def test_cut_at_every_place(files, tmp_path):
    path = tmp_path / "cut"
    for whole in files[:2]:
        for length in range(0, len(whole), 37):
            path.write_bytes(whole[:length])
            assert survives(path)
