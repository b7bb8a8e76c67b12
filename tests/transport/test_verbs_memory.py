"""Registered memory: bounds, rights, keys, domains; and the verbs' own refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verbs_pair import ALL, Pair

from railweave.transport.packets import Service
from railweave.transport.verbs import (
    Access,
    Buffer,
    Memory,
    Network,
    ProtectionDomain,
    QpCapabilities,
    ReceiveRequest,
    SendOpcode,
    SendRequest,
    Sge,
    VerbsError,
    WcStatus,
)
from railweave.transport.verbs._memory import RegionTable, ScatterList

PD = ProtectionDomain(0, 1)


def _table(size: int = 64, access: Access = ALL) -> tuple[RegionTable, Buffer, int, int]:
    table = RegionTable(Memory(0x1000_0000))
    buffer = table.memory.allocate(size)
    region = table.register(PD, buffer.address, size, access)
    return table, buffer, region.lkey, region.rkey


def test_a_buffer_stands_between_untouched_pages() -> None:
    memory = Memory(0x1000_0000)
    one, two = memory.allocate(10), memory.allocate(5000)
    assert one.address == 0x1000_1000
    assert two.address == 0x1000_3000
    memory.write(one.address, b"0123456789")
    assert memory.read(one.address - 1, 12) == b"\0" + b"0123456789" + b"\0"


@given(st.integers(-10, 80), st.integers(0, 80))
def test_a_region_reaches_exactly_its_bounds(offset: int, length: int) -> None:
    table, buffer, _, rkey = _table(64)
    found, why = table.remote(PD, rkey, buffer.address + offset, length, Access.REMOTE_WRITE)
    inside = offset >= 0 and offset + length <= 64
    assert (found is not None) == inside
    assert bool(why) == (not inside)


@pytest.mark.parametrize("access", [Access.REMOTE_READ, Access.REMOTE_WRITE, Access.REMOTE_ATOMIC])
def test_a_right_must_be_there(access: Access) -> None:
    table, buffer, _, rkey = _table(access=Access.LOCAL_WRITE | access)
    for asked in (Access.REMOTE_READ, Access.REMOTE_WRITE, Access.REMOTE_ATOMIC):
        found, why = table.remote(PD, rkey, buffer.address, 8, asked)
        assert (found is not None) == (asked is access)
        assert asked is access or f"lacks the right {asked.name}" in why


def test_keys_and_domains_are_told_apart() -> None:
    table, buffer, lkey, rkey = _table()
    assert lkey != rkey
    assert table.remote(PD, lkey, buffer.address, 8, Access.REMOTE_READ)[1].endswith("no region")
    other = ProtectionDomain(0, 2)
    assert (
        "another protection" in table.remote(other, rkey, buffer.address, 8, Access.REMOTE_READ)[1]
    )
    region = table.by_rkey[rkey]
    table.deregister(region)
    assert table.remote(PD, rkey, buffer.address, 8, Access.REMOTE_READ)[0] is None
    with pytest.raises(VerbsError, match="deregistered before"):
        table.deregister(region)


@pytest.mark.parametrize("access", [Access.REMOTE_WRITE, Access.REMOTE_ATOMIC])
def test_remote_change_needs_local_write(access: Access) -> None:
    with pytest.raises(VerbsError, match="add LOCAL_WRITE"):
        _table(access=access)


def test_memory_that_is_not_there_cannot_be_registered() -> None:
    table, buffer, _, _ = _table()
    with pytest.raises(VerbsError, match="EFAULT"):
        table.register(PD, buffer.address, 10**6, Access.NONE)
    with pytest.raises(VerbsError, match="EFAULT"):
        table.memory.read(buffer.address - 10**6, 4)


@given(
    st.lists(st.integers(0, 12), max_size=5),
    st.integers(0, 60),
    st.binary(max_size=40),
)
def test_scatter_then_gather_gives_the_bytes_back(
    lengths: list[int], offset: int, data: bytes
) -> None:
    table, buffer, lkey, _ = _table(200)
    # Elements in an order that is not that of memory, with a byte between each two.
    starts = [sum(lengths[:n]) + n for n in range(len(lengths))]
    sges = tuple(
        Sge(buffer.address + start, length, lkey)
        for start, length in reversed(list(zip(starts, lengths, strict=True)))
    )
    scattered = ScatterList(table, PD, sges)
    before = table.memory.read(buffer.address, 200)
    status, why = scattered.scatter(offset, data)
    if offset + len(data) > sum(lengths):
        assert status is WcStatus.LOC_LEN_ERR
        assert why
        assert table.memory.read(buffer.address, 200) == before
        return
    assert status is WcStatus.SUCCESS
    assert scattered.gather(offset, len(data)) == (data, "")
    changed = table.memory.read(buffer.address, 200)
    touched = sum(a != b for a, b in zip(before, changed, strict=True))
    assert touched == sum(byte != 0 for byte in data)


def test_scatter_writes_all_or_nothing() -> None:
    table, buffer, lkey, _ = _table(64)
    good = Sge(buffer.address, 4, lkey)
    for bad, text in (
        (Sge(buffer.address + 8, 4, lkey + 1), "names no region"),
        (Sge(buffer.address + 62, 4, lkey), "outside the region"),
    ):
        status, why = ScatterList(table, PD, (good, bad)).scatter(0, b"abcdefgh")
        assert status is WcStatus.LOC_PROT_ERR
        assert text in why
        assert table.memory.read(buffer.address, 64) == bytes(64)
        # What is not touched is not looked at.
        assert ScatterList(table, PD, (good, bad)).scatter(0, b"\0\0\0\0")[0] is WcStatus.SUCCESS
    readonly, buffer, lkey, _ = _table(64, Access.NONE)
    status, why = ScatterList(readonly, PD, (Sge(buffer.address, 4, lkey),)).scatter(0, b"a")
    assert status is WcStatus.LOC_PROT_ERR
    assert "lacks the right LOCAL_WRITE" in why


# -- refusals at the call ------------------------------------------------------------------------


@pytest.mark.parametrize("service", Service)
def test_posting_needs_a_state(service: Service) -> None:
    pair = Pair(service, up=False)
    with pytest.raises(VerbsError, match=r"EINVAL: .* is in RESET; receives need INIT"):
        pair.receive(0, 64)
    with pytest.raises(VerbsError, match="is in RESET; sends can be posted from RTS on"):
        pair.send(SendOpcode.SEND, 0, 8)
    assert pair.ended() == ([], [])


@pytest.mark.parametrize(
    ("service", "opcode"),
    [
        (Service.UC, SendOpcode.RDMA_READ),
        (Service.UC, SendOpcode.ATOMIC_FETCH_AND_ADD),
        (Service.UC, SendOpcode.SEND_WITH_INV),
        (Service.UD, SendOpcode.RDMA_WRITE),
        (Service.UD, SendOpcode.RDMA_READ),
    ],
)
def test_a_service_has_its_operations(service: Service, opcode: SendOpcode) -> None:
    pair = Pair(service)
    with pytest.raises(VerbsError, match=f"{service.name} has no {opcode}; allowed: .*send"):
        pair.send(opcode, 0, 8)
    assert pair.network.sent == []


def test_queues_have_sizes() -> None:
    caps = QpCapabilities(max_send_wr=2, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
    pair = Pair(capabilities=caps)
    pair.receive(0, 8)
    with pytest.raises(VerbsError, match="ENOMEM: the receive queue holds 1") as caught:
        pair.receive(0, 8)
    assert caught.value.errno == "ENOMEM"
    two = (pair.regions[1].sge(0, 4), pair.regions[1].sge(4, 4))
    with pytest.raises(VerbsError, match="2 elements; allowed: 1"):
        pair.qps[1].post_recv(ReceiveRequest(1, two))
    with pytest.raises(VerbsError, match="2 elements; allowed: 1"):
        pair.qps[0].post_send(SendRequest(1, SendOpcode.SEND, two))
    for _ in range(2):
        pair.send(SendOpcode.RDMA_WRITE, 0, 8)
    with pytest.raises(VerbsError, match="ENOMEM: the send queue holds 2"):
        pair.send(SendOpcode.RDMA_WRITE, 0, 8)
    assert pair.ended()[0] == [WcStatus.SUCCESS] * 2
    pair.send(SendOpcode.RDMA_WRITE, 0, 8)  # there is room again


def test_inline_copies_at_once_and_needs_no_key() -> None:
    pair = Pair(capabilities=QpCapabilities(max_inline_data=64))
    pair.fill(0, b"before..")
    wrong = (Sge(pair.buffers[0].address, 8, 0xDEAD),)
    pair.send(SendOpcode.RDMA_WRITE, 0, 8, sges=wrong, inline=True)
    pair.fill(0, b"after...")
    assert pair.ended()[0] == [WcStatus.SUCCESS]
    assert pair.data(1, 0, 8) == b"before.."
    with pytest.raises(VerbsError, match="65 B inline; allowed: 64"):
        pair.send(SendOpcode.SEND, 0, 65, inline=True)
    with pytest.raises(VerbsError, match="cannot be inline"):
        pair.send(SendOpcode.RDMA_READ, 0, 8, inline=True)


def test_objects_of_another_host_are_refused() -> None:
    one, two = Network().hosts
    with pytest.raises(VerbsError, match="must be this host's"):
        one.create_qp(Service.RC, two.alloc_pd(), one.create_cq(4))
    with pytest.raises(VerbsError, match="must be this host's"):
        one.create_qp(Service.RC, one.alloc_pd(), two.create_cq(4))
    first = one.create_qp(Service.RC, one.alloc_pd(), one.create_cq(4))
    with pytest.raises(VerbsError, match="taken or reserved"):
        one.create_qp(Service.RC, one.alloc_pd(), one.create_cq(4), number=first.number)
    with pytest.raises(VerbsError, match="0 entries; allowed: 1"):
        one.create_cq(0)
    with pytest.raises(VerbsError, match="port MTU 100"):
        Network(port_mtu_bytes=100)
