"""Hash functions against known values, and what seeds do to the spread of flows."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from routing_graphs import fat_tree, fields, split

from railweave import _native

WIDTH = {"src_ip": 32, "dst_ip": 32, "protocol": 8, "src_port": 16, "dst_port": 16, "qp": 24}
CODE = {32: ">I", 8: ">B", 16: ">H"}
u32 = st.integers(0, 2**32 - 1)
tuples = st.fixed_dictionaries({k: st.integers(0, 2**w - 1) for k, w in WIDTH.items()})


def packed(values, mask):
    out = b""
    for bit, (name, width) in enumerate(WIDTH.items()):
        if mask >> bit & 1:
            v = values[name]
            out += v.to_bytes(3, "big") if width == 24 else struct.pack(CODE[width], v)
    return out


def crc16_bitwise(data, seed):
    c = 0xFFFF ^ (seed ^ seed >> 16) & 0xFFFF
    for byte in data:
        c ^= byte << 8
        for _ in range(8):
            c = (c << 1 ^ (0x1021 if c & 0x8000 else 0)) & 0xFFFF
    return c


def xor_words(data, seed):
    c = (seed ^ seed >> 16) & 0xFFFF
    data += b"\0" * (len(data) % 2)
    for (word,) in struct.iter_unpack(">H", data):
        c ^= word
    return c


REFERENCE = {"crc32": zlib.crc32, "crc16": crc16_bitwise, "xor": xor_words}


def test_published_check_values():
    assert _native.hash_bytes("crc16", b"123456789") == 0x29B1
    assert _native.hash_bytes("crc32", b"123456789") == 0xCBF43926
    assert _native.hash_bytes("xor", b"\x12\x34\x56") == 0x1234 ^ 0x5600


def test_field_bits_are_named():
    names = ["SRC_IP", "DST_IP", "PROTOCOL", "SRC_PORT", "DST_PORT", "QP"]
    assert [getattr(_native, f"FIELD_{n}") for n in names] == [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize("function", REFERENCE)
@given(data=st.binary(max_size=40), seed=u32)
def test_bytes_match_the_reference(function, data, seed):
    assert _native.hash_bytes(function, data, seed) == REFERENCE[function](data, seed)


@pytest.mark.parametrize("function", REFERENCE)
@given(values=tuples, mask=st.integers(0, 63), seed=u32)
def test_tuples_are_packed_big_endian_in_field_order(function, values, mask, seed):
    got = _native.hash_tuple(function, **values, field_mask=mask, seed=seed)
    assert got == REFERENCE[function](packed(values, mask), seed)


@pytest.mark.parametrize("function", REFERENCE)
@given(values=tuples, other=tuples, seed=u32)
def test_a_seed_only_shifts_the_hash(function, values, other, seed):
    # The walker relies on this: it hashes a flow once and applies each switch's seed afterwards.
    shift = [
        _native.hash_tuple(function, **v, seed=seed) ^ _native.hash_tuple(function, **v)
        for v in (values, other)
    ]
    assert shift[0] == shift[1]


@given(u32, u32, st.integers(1, 1000))
def test_picks_are_within_range(value, seed, members):
    assert 0 <= _native.pick_member(value, seed, members) < members


def test_picks_are_even():
    rng = np.random.default_rng(0)
    for members in (2, 3, 32, 48):
        picks = [_native.pick_member(int(h), 77, members) for h in rng.integers(0, 2**32, 20_000)]
        count = np.bincount(picks, minlength=members)
        expected = 20_000 / members
        assert np.abs(count - expected).max() < 5 * np.sqrt(expected)


@pytest.mark.parametrize("function", REFERENCE)
def test_walks_pick_what_the_published_functions_say(function):
    g = fat_tree(4)
    table = g.table()
    rng = np.random.default_rng(1)
    f = fields(g, rng.integers(0, 4, 200), rng.integers(8, 16, 200))
    f["qp"] = rng.integers(0, 2**24, 200).astype(np.uint32)
    ptr, link, _, _ = table.walk(**f, hash_function=function, field_mask=63)
    for i, path in enumerate(split(ptr, link)):
        names = ["src_ip", "dst_ip", "src_port", "dst_port", "qp"]
        values = {k: int(f[k][i]) for k in names} | {"protocol": 17}
        edge = g.src[path[-1]]
        for step in path[1:-1]:
            node = g.src[step]
            seed = int(f["seeds"][node])
            members = table.next_links(node, edge)
            h = _native.hash_tuple(function, **values, field_mask=63, seed=seed)
            assert step == members[_native.pick_member(h, seed, len(members))]


def uplinks_used(g, table, seeds, function):
    """How many spine uplinks carry flows of one leaf, of how many that could."""
    rng = np.random.default_rng(2)
    n = 20_000
    k = g.hosts_per_leaf
    f = fields(g, rng.integers(0, k, n), rng.integers(k * k, len(g.endpoints), n))
    f["seeds"] = seeds
    ptr, link, _, _ = table.walk(**f, hash_function=function)
    tier = np.array(g.tier)
    count = _native.count_by_link(ptr, link, len(g.src))
    up = (tier[g.src] == 2) & (tier[g.dst] == 3)
    return int(np.count_nonzero(count[up])), k * k


@pytest.mark.parametrize("function", REFERENCE)
def test_equal_seeds_polarise_and_different_seeds_do_not(function):
    g = fat_tree(8)
    g.hosts_per_leaf = 4
    table = g.table()
    rng = np.random.default_rng(4)
    equal = np.full(g.n, 12345, np.uint32)
    used, possible = uplinks_used(g, table, equal, function)
    assert used == possible // 4  # each spine sees only flows that all pick one of its 4 uplinks
    own = rng.integers(0, 2**32, g.n).astype(np.uint32)
    assert uplinks_used(g, table, own, function) == (possible, possible)
    by_tier = np.array([0, 11, 22, 33], np.uint32)[g.tier]
    assert uplinks_used(g, table, by_tier, function) == (possible, possible)


def test_queue_pairs_spread_flows_that_share_a_tuple():
    g = fat_tree(4)
    table = g.table()
    f = fields(g, np.zeros(64), np.full(64, 15))
    f["src_port"][:] = 50_000
    f["qp"] = np.arange(64, dtype=np.uint32)
    paths = [{tuple(p) for p in split(*table.walk(**f, field_mask=mask)[:2])} for mask in (31, 63)]
    assert len(paths[0]) == 1
    assert len(paths[1]) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"function": "md5"}, "crc16, crc32 or xor"),
        ({"field_mask": 64}, "unknown bits"),
        ({"src_port": 65536}, "0 to 65535"),
        ({"protocol": 256}, "0 to 255"),
        ({"qp": 1 << 24}, "24 bits"),
    ],
)
def test_bad_fields_are_refused(change, message):
    good = dict.fromkeys(WIDTH, 0) | {"function": "crc32"}
    _native.hash_tuple(**good)
    with pytest.raises(ValueError, match=message):
        _native.hash_tuple(**{**good, **change})


def test_no_members_to_pick_from():
    with pytest.raises(ValueError, match="positive"):
        _native.pick_member(1, 1, 0)


def test_counts_of_flows_on_links():
    ptr = np.array([0, 2, 3], np.int64)
    count = _native.count_by_link(ptr, np.array([1, 3, 3], np.int32), 5)
    assert count.tolist() == [0, 1, 0, 2, 0]
    with pytest.raises(ValueError, match="no link 3"):
        _native.count_by_link(ptr, np.array([1, 3, 3], np.int32), 3)
    with pytest.raises(ValueError, match="end at"):
        _native.count_by_link(ptr, np.array([1], np.int32), 3)
