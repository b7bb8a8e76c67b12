"""Captures: round trips, files cut at every byte, hostile lengths, other byte orders and blocks."""

from __future__ import annotations

import gzip
import os
import struct
import threading
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.errors import InputError
from railweave.formats.pcap import (
    MOST_INTERFACES,
    MOST_PACKET_BYTES,
    CapturedPacket,
    CaptureFormat,
    CaptureReader,
    Interface,
    read_packets,
    write_pcap,
    write_pcapng,
)

TIME = 1_700_000_000_123_456_789
PACKETS = [CapturedPacket(TIME + i * 1000, 1, 0, bytes(range(20 + i)), 20 + i) for i in range(5)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.pcap"


def collect(path):
    """Return packets and notes."""
    notes = []
    return list(read_packets(path, notes)), notes


times = st.integers(0, 2**32 * 10**9 - 1)
payloads = st.binary(max_size=80)


# ---------------------------------------------------------------- round trips


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(times, payloads)), st.booleans(), st.booleans())
def test_pcap_comes_back(tmp_path_factory, rows, big_endian, nanoseconds):
    path = tmp_path_factory.mktemp("pcap") / "a.pcap"
    packets = [CapturedPacket(time, 101, 0, data, len(data)) for time, data in rows]
    written = write_pcap(
        path, packets, link_type=101, big_endian=big_endian, nanoseconds=nanoseconds
    )
    assert written == len(packets)
    unit = 1 if nanoseconds else 1000
    expected = [(p.time_ns // unit * unit, p.data, 101) for p in packets]
    found, notes = collect(path)
    late = [min(time, 2**62) for time, _, _ in expected]
    assert [(p.data, p.link_type) for p in found] == [(d, link) for _, d, link in expected]
    assert [p.time_ns for p in found] == late
    assert notes == []


INTERFACES = (
    Interface("leaf-1:port-3", 1, description="down"),
    Interface("ns", 247, ticks_per_second=10**9, fcs_bytes=4),
    Interface("binary", 1, ticks_per_second=2**20, offset_s=-5),
    Interface("slow", 1, ticks_per_second=1),
    Interface("ps", 1, ticks_per_second=10**12, offset_s=1_700_000_000),
)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), payloads, st.text(max_size=20), st.integers(0, 10**10))),
    st.booleans(),
)
def test_pcapng_comes_back(tmp_path_factory, rows, big_endian):
    path = tmp_path_factory.mktemp("pcapng") / "a.pcapng"
    packets = [
        CapturedPacket(TIME + time, INTERFACES[i].link_type, i, data, len(data) + 7, note)
        for i, data, note, time in rows
        if not note.endswith("\0")
    ]
    assert write_pcapng(path, INTERFACES, packets, big_endian=big_endian, comment="c") == len(
        packets
    )
    with CaptureReader(path) as reader:
        found = list(reader.packets())
        assert reader.notes == []
        assert tuple(reader.interfaces) == INTERFACES
        assert reader.format is CaptureFormat.PCAPNG
    for one, other in zip(found, packets, strict=True):
        rate = INTERFACES[one.interface].ticks_per_second
        assert abs(one.time_ns - other.time_ns) < max(1, 10**9 / rate) + 1
        assert (one.interface, one.link_type) == (other.interface, other.link_type)
        assert (one.data, one.original_bytes) == (other.data, other.original_bytes)
        assert one.comment == other.comment


def test_length_on_the_wire_is_that_of_the_packet_where_none_is_given(path):
    write_pcap(path, [CapturedPacket(0, 1, 0, b"abc")])
    assert collect(path)[0][0].original_bytes == 3


def test_snap_length_cuts_and_keeps_the_length(path):
    write_pcap(path, PACKETS, snap_length=10)
    found, _ = collect(path)
    assert [len(p.data) for p in found] == [10] * 5
    assert [p.original_bytes for p in found] == [20, 21, 22, 23, 24]
    with CaptureReader(path) as reader:
        assert reader.interfaces[0].snap_length == 10
    write_pcapng(path, [Interface(snap_length=8)], PACKETS)
    assert [len(p.data) for p in collect(path)[0]] == [8] * 5


@pytest.mark.parametrize("piece", [64, 100, 333])
def test_pieces_of_any_size_give_the_same(path, monkeypatch, piece):
    for name in ("classic", "blocks"):
        monkeypatch.setattr(f"railweave.formats._pcap_{name}._PIECE", piece)
    write_pcap(path, PACKETS)
    assert collect(path)[0] == PACKETS
    write_pcapng(path, [Interface("a", description="b" * 200)], PACKETS, comment="c" * 500)
    assert collect(path)[0] == PACKETS


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_chunks_hold_so_many_packets_at_most(path, monkeypatch, most):
    for name in ("classic", "blocks"):
        monkeypatch.setattr(f"railweave.formats._pcap_{name}.MOST_CHUNK_PACKETS", most)
    for write in (
        lambda: write_pcap(path, PACKETS),
        lambda: write_pcapng(path, [Interface()], PACKETS),
    ):
        write()
        with CaptureReader(path) as reader:
            chunks = list(reader.chunks())
            assert reader.notes == []
        assert max(map(len, chunks)) == most
        assert collect(path) == (PACKETS, [])


def test_chunks_number_packets_through(path, monkeypatch):
    monkeypatch.setattr("railweave.formats._pcap_classic._PIECE", 64)
    write_pcap(path, PACKETS)
    with CaptureReader(path) as reader:
        chunks = list(reader.chunks())
        assert reader.fraction == 1.0
        assert reader.read_bytes == path.stat().st_size
    assert len(chunks) > 1
    assert [chunk.first + i for chunk in chunks for i in range(len(chunk))] == [0, 1, 2, 3, 4]
    assert [chunk.data(i) for chunk in chunks for i in range(len(chunk))] == [
        p.data for p in PACKETS
    ]


def test_chunks_that_are_kept_stay_as_they_are(path, monkeypatch):
    # Buffers are used again, but not while anybody looks at them.
    monkeypatch.setattr("railweave.formats._pcap_classic._PIECE", 100)
    packets = [CapturedPacket(i, 1, 0, bytes([i]) * 50, 50) for i in range(60)]
    write_pcap(path, packets)
    with CaptureReader(path) as reader:
        held = list(reader.chunks())
    assert len(held) > 20
    assert [chunk.data(i) for chunk in held for i in range(len(chunk))] == [p.data for p in packets]


def test_gzip_is_unpacked(path):
    write_pcap(path, PACKETS)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert collect(path) == (PACKETS, [])


def test_damaged_gzip_gives_what_is_before(path):
    write_pcap(path, [CapturedPacket(i, 1, 0, os.urandom(1000)) for i in range(500)])
    whole = gzip.compress(path.read_bytes(), 1)
    path.write_bytes(whole[: len(whole) // 2])
    found, notes = collect(path)
    assert 100 < len(found) < 400
    (note,) = notes
    assert note.startswith(f"after packet {len(found):,} the gzip data is damaged or cut off (")


def test_pipe_is_read(tmp_path):
    source, pipe = tmp_path / "a.pcap", tmp_path / "pipe"
    write_pcap(source, PACKETS)
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(source.read_bytes()))
    writer.start()
    assert collect(pipe)[0] == PACKETS
    writer.join()


# ---------------------------------------------------------------- other writers' files


def classic(magic, *, order="<", link=1, extra=b"", snap=65535):
    head = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap, link)
    return head + struct.pack(order + "IIII", 5, 7, 4, 9) + extra + b"abcd"


def test_modified_pcap_has_longer_records(path):
    path.write_bytes(classic(0xA1B2CD34, extra=bytes(8)))
    assert collect(path) == ([CapturedPacket(5_000_007_000, 1, 0, b"abcd", 9)], [])


def test_fcs_in_the_header(path):
    path.write_bytes(classic(0xA1B2C3D4, link=1 | 1 << 26 | 2 << 28))
    with CaptureReader(path) as reader:
        assert reader.interfaces[0].fcs_bytes == 4
        assert next(reader.packets()).link_type == 1


def block(kind, body, order="<", length=None):
    size = struct.pack(order + "I", length or 12 + len(body))
    return struct.pack(order + "I", kind) + size + body + size


def section(order="<"):
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def described(order="<", link=1, snap=0, options=b""):
    return block(1, struct.pack(order + "HHI", link, 0, snap) + options, order)


def enhanced(data=b"abcd", interface=0, ticks=5, *, order="<", captured=None, options=b""):
    body = struct.pack(
        order + "IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF,
        len(data) if captured is None else captured, len(data),
    )  # fmt: skip
    return block(6, body + data + bytes(-len(data) % 4) + options, order)


def simple(data=b"abcd", original=None, order="<"):
    length = len(data) if original is None else original
    return block(3, struct.pack(order + "I", length) + data + bytes(-len(data) % 4), order)


def test_simple_packets_have_no_time_and_say_so(path):
    path.write_bytes(section() + described(snap=6) + enhanced() + simple(b"abcdef", 99) + simple())
    found, notes = collect(path)
    assert [(p.data, p.original_bytes, p.time_ns) for p in found] == [
        (b"abcd", 4, 5000), (b"abcdef", 99, 5000), (b"abcd", 4, 5000),
    ]  # fmt: skip
    assert notes == ["2 packets stand there without a time; each has that of the packet before it"]


def test_obsolete_packets_are_read(path):
    body = struct.pack("<HHIIII", 1, 0, 0, 8, 4, 4) + b"wxyz"
    path.write_bytes(section() + described() + described(link=247) + block(2, body))
    assert collect(path) == ([CapturedPacket(8000, 247, 1, b"wxyz", 4)], [])


def test_unknown_blocks_are_skipped_whatever_their_length(path, monkeypatch):
    monkeypatch.setattr("railweave.formats._pcap_blocks._PIECE", 300)
    path.write_bytes(
        section() + block(0xBAD, bytes(8)) + described() + block(5, bytes(5000)) + enhanced()
        + block(0x80000001, bytes(900)) + enhanced(b"z" * 40)
    )  # fmt: skip
    found, notes = collect(path)
    assert [p.data for p in found] == [b"abcd", b"z" * 40]
    assert notes == []


def test_sections_number_interfaces_through_and_may_change_the_byte_order(path):
    path.write_bytes(
        section() + described() + enhanced(b"1111")
        + section(">") + described(">", 247) + enhanced(b"2222", order=">")
        + section() + described(link=101) + enhanced(b"3333")
    )  # fmt: skip
    found, notes = collect(path)
    assert [(p.interface, p.link_type, p.data) for p in found] == [
        (0, 1, b"1111"), (1, 247, b"2222"), (2, 101, b"3333"),
    ]  # fmt: skip
    assert notes == []


def test_comments_of_packets(path):
    comment = struct.pack("<HH", 1, 5) + b"hello" + bytes(3) + bytes(4)
    path.write_bytes(section() + described() + enhanced(options=comment) + enhanced())
    assert [p.comment for p in collect(path)[0]] == ["hello", ""]


@pytest.mark.parametrize("code", [0x00, 0x03, 0x06, 0x09, 0x0C, 0x94, 0x7F, 0xFF])
def test_any_resolution_is_read(path, code):
    resolution = struct.pack("<HH", 9, 1) + bytes([code, 0, 0, 0]) + bytes(4)
    path.write_bytes(section() + described(options=resolution) + enhanced(ticks=2**64 - 1))
    (packet,), notes = collect(path)
    rate = 2 ** (code & 0x7F) if code & 0x80 else 10 ** min(code, 38)
    # Times beyond the last one that is kept lie within a tick of it.
    assert abs(packet.time_ns - min((2**64 - 1) * 10**9 // rate, 2**62)) <= 10**9 // rate
    assert notes == []


# ---------------------------------------------------------------- damage


def both(tmp_path):
    write_pcap(tmp_path / "a", PACKETS)
    write_pcapng(tmp_path / "b", [Interface("x")], PACKETS)
    return [(tmp_path / name).read_bytes() for name in "ab"]


def test_file_cut_at_every_byte(tmp_path):
    cut = tmp_path / "cut"
    for whole in both(tmp_path):
        most = 0
        for length in range(len(whole)):
            cut.write_bytes(whole[:length])
            try:
                found, notes = collect(cut)
            except InputError:
                assert length < 28
                continue
            assert found == PACKETS[: len(found)]
            assert len(found) >= most
            most = len(found)
            # Between two packets nothing tells that more was to come.
            assert len(notes) <= 1
            assert all("cut off there, or is still being written" in note for note in notes)
        assert most == 4


def test_damage_is_an_error_where_nobody_takes_notes(path):
    write_pcap(path, PACKETS)
    path.write_bytes(path.read_bytes()[:-3])
    reading = read_packets(path)
    assert [next(reading) for _ in range(4)] == PACKETS[:4]
    with pytest.raises(InputError, match="ends in the middle of packet 5: it was cut off there"):
        next(reading)


@pytest.mark.parametrize(
    ("data", "packets", "said"),
    [
        (classic(0xA1B2C3D4)[:24] + struct.pack("<IIII", 0, 0, 2**31, 9), 0,
         "packet 1 says that it is 2,147,483,648 bytes long; allowed: up to 262,144"),
        (classic(0xA1B2C3D4) + struct.pack("<IIII", 0, 0, MOST_PACKET_BYTES + 1, 9) + bytes(99), 1,
         "packet 2 says that it is 262,145"),
        (section() + described() + enhanced(captured=99), 0,
         "packet 1 says that it is longer than its block"),
        (section() + described() + enhanced() + enhanced(interface=7) + enhanced(), 1,
         "packet 2 names an interface that the file does not describe"),
        (section() + enhanced(), 0, "packet 1 names an interface"),
        (section() + described() + enhanced() + block(6, bytes(4)), 1,
         "after packet 1: a packet's block is too short for one"),
        (section() + described() + enhanced()[:-4] + bytes(4), 0,
         "a block's length does not stand again at its end"),
        (section() + struct.pack("<II", 6, 2**32 - 4) + bytes(64), 0,
         "a block of type 6 says that it is 4,294,967,292 bytes long"),
        (section() + struct.pack("<II", 6, 4) + bytes(64), 0,
         "a block of type 6 says that it is 4 bytes long"),
        (section() + struct.pack("<II", 77, 2**32 - 4) + bytes(64), 0,
         "ends in the middle of a block"),
        (section() + described()[:16], 0, "in the middle of a block"),
        (section() + block(1, bytes(4)), 0, "an interface's block is too short"),
        (section() + described() * (MOST_INTERFACES + 1), 0, "more than 4,096 interfaces"),
        (section()[:8] + bytes(40), 0, "a section header is not one of pcapng 1"),
        (section() + described() + enhanced() + section()[:12] + bytes(99), 1,
         "a section header is not one of pcapng 1"),
    ],
)  # fmt: skip
def test_hostile_lengths_end_with_a_sentence(path, data, packets, said):
    path.write_bytes(data)
    found, notes = collect(path)
    assert len(found) == packets
    assert len(notes) == 1
    assert said in notes[0]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"hello world, this is no capture", "begins with the bytes 68 65 6c 6c 6f 20 77 6f"),
        (b"\xd4\xc3\xb2\xa1", "and ends before a header does"),
        (gzip.compress(b"hello world, this is no capture", mtime=0), "68 65 6c 6c"),
        (b"\x1f\x8b nothing of gzip", "the gzip data is damaged"),
    ],
)
def test_what_is_no_capture(path, data, said):
    path.write_bytes(data)
    with pytest.raises(InputError, match=said) as error:
        CaptureReader(path)
    assert str(path) in str(error.value)
    assert "allowed: a pcap or pcapng file" in str(error.value)


def test_folder_and_missing_file(tmp_path):
    with pytest.raises(IsADirectoryError):
        CaptureReader(tmp_path)
    with pytest.raises(FileNotFoundError):
        CaptureReader(tmp_path / "none")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_mutated_files_end(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("mutated")
    mutated = bytearray(data.draw(st.sampled_from(both(folder))))
    for _ in range(data.draw(st.integers(1, 10))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        mutated[at] = data.draw(st.sampled_from((0, 1, 255, 127, mutated[at] ^ 4)))
    end = data.draw(st.integers(0, len(mutated)))
    path = folder / "c"
    path.write_bytes(bytes(mutated[:end]))
    try:
        found, _ = collect(path)
    except InputError:
        return
    assert len(found) <= end // 16


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([classic(0xA1B2C3D4)[:24], section(), b""]))
def test_random_bytes_end(tmp_path_factory, data, head):
    path = tmp_path_factory.mktemp("random") / "c"
    path.write_bytes(head + data)
    try:
        found, _ = collect(path)
    except InputError:
        return
    assert len(found) <= len(head + data) // 16


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda path: write_pcap(path, [CapturedPacket(0, 247, 0, b"")]),
         "packet 1 is of link type 247, its interface of 1"),
        (lambda path: write_pcap(path, [CapturedPacket(-1, 1, 0, b"")]),
         "which pcap cannot say; allowed: from 1970 to 2106"),
        (lambda path: write_pcap(path, [CapturedPacket(2**32 * 10**9, 1, 0, b"")]), "1970 to 2106"),
        (lambda path: write_pcap(path, [CapturedPacket(0, 1, 0, bytes(MOST_PACKET_BYTES + 1))]),
         "is 262,145 bytes long; allowed: up to 262,144"),
        (lambda path: write_pcapng(path, [Interface()], [CapturedPacket(0, 1, 1, b"")]),
         "packet 1 is of interface 1; allowed: 0 to 0"),
        (lambda path: write_pcapng(path, [Interface(ticks_per_second=7)], []),
         "a resolution of 7 ticks a second; allowed: powers of 10 or of 2"),
        (lambda path: write_pcapng(path, [Interface(ticks_per_second=10**12)],
                                   [CapturedPacket(TIME, 1, 0, b"")]),
         "which its interface's resolution cannot say"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_leaves_nothing(path, write, said):
    with pytest.raises(InputError, match=said):
        write(path)
    assert list(path.parent.iterdir()) == []


def test_file_stands_there_whole_or_not_at_all(path):
    write_pcap(path, PACKETS[:1])
    before = path.read_bytes()

    def breaks():
        yield PACKETS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_pcap(path, breaks())
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_memory_does_not_grow_with_the_file(path):
    def many(count):
        data = bytes(1500)
        return (CapturedPacket(i, 1, 0, data, 1500) for i in range(count))

    peaks = []
    for count in (20_000, 60_000):
        tracemalloc.start()
        write_pcap(path, many(count))
        with CaptureReader(path) as reader:
            assert sum(len(chunk) for chunk in reader.chunks()) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] < 50e6
