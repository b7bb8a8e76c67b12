"""Whatever is posted over whatever wire: legal requests move their bytes, illegal ones none."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import event, given, settings
from hypothesis import strategies as st
from verbs_pair import ALL, Pair, ShakyWire, outside, state_of

from railweave.transport.packets import Service
from railweave.transport.verbs import (
    GRH_BYTES,
    Access,
    Connection,
    QpCapabilities,
    QpState,
    ReceiveRequest,
    SendOpcode,
    SendRequest,
    Sge,
    WcStatus,
)

OK, FLUSH = WcStatus.SUCCESS, WcStatus.WR_FLUSH_ERR
HALF = 2048  # requests work in the lower half of a region, receives take the upper half
MASK = 2**64 - 1
SENDS = (SendOpcode.SEND, SendOpcode.SEND_WITH_IMM)
WRITES = (SendOpcode.RDMA_WRITE, SendOpcode.RDMA_WRITE_WITH_IMM)
ATOMICS = (SendOpcode.ATOMIC_CMP_AND_SWP, SendOpcode.ATOMIC_FETCH_AND_ADD)
LEGAL = (*SENDS, *WRITES, SendOpcode.RDMA_READ, *ATOMICS)


@dataclass(frozen=True)
class Wish:
    """A request of host 0: ``length`` bytes at ``offset`` of its own, ``to`` of the peer's."""

    opcode: SendOpcode
    offset: int
    length: int
    to: int
    operand: int
    swap: int


@st.composite
def wishes(draw: st.DrawFn, opcodes: tuple[SendOpcode, ...]) -> Wish:
    opcode = draw(st.sampled_from(opcodes))
    if opcode in ATOMICS:
        length, to = 8, draw(st.integers(0, HALF // 8 - 1)) * 8
    else:
        length = draw(st.one_of(st.integers(0, 9), st.integers(250, 1200)))
        to = draw(st.integers(0, HALF - length))
    offset = draw(st.integers(0, HALF - length))
    return Wish(opcode, offset, length, to, draw(st.integers(0, 5)), draw(st.integers(0, MASK)))


def _expect(wish: Wish, own: bytearray, peer: bytearray, receives: list[int]) -> None:
    """Do a request in plain Python on copies of the two regions."""
    mine = slice(wish.offset, wish.offset + wish.length)
    theirs = slice(wish.to, wish.to + wish.length)
    if wish.opcode in SENDS:
        at = receives.pop(0)
        peer[at : at + wish.length] = own[mine]
    elif wish.opcode in WRITES:
        peer[theirs] = own[mine]
        if wish.opcode is SendOpcode.RDMA_WRITE_WITH_IMM:
            receives.pop(0)
    elif wish.opcode is SendOpcode.RDMA_READ:
        own[mine] = peer[theirs]
    else:
        before = int.from_bytes(peer[theirs], "little")
        if wish.opcode is SendOpcode.ATOMIC_FETCH_AND_ADD:
            peer[theirs] = (before + wish.operand & MASK).to_bytes(8, "little")
        elif before == wish.operand:
            peer[theirs] = wish.swap.to_bytes(8, "little")
        own[mine] = before.to_bytes(8, "little")


def _post(pair: Pair, wish: Wish, wr_id: int, *, fence: bool = True) -> None:
    pair.send(
        wish.opcode,
        wish.offset,
        wish.length,
        wish.to,
        wr_id=wr_id,
        fence=fence,
        compare_add=wish.operand,
        swap=wish.swap,
        immediate=wr_id,
    )


def _start(pair: Pair, count: int) -> list[int]:
    """Fill both regions (small numbers every 8 bytes, so that compares hit) and post receives."""
    pair.fill(0, bytes(range(1, 252)) * 8)
    pair.fill(1, b"".join((n % 5).to_bytes(8, "little") for n in range(HALF // 8)))
    starts = [HALF + number * 1280 for number in range(count)]
    for number, start in enumerate(starts):
        pair.receive(start, 1280, wr_id=1000 + number)
    return starts


PSN = st.one_of(st.sampled_from([0, 2**24 - 1, 2**24 - 4, 2**23 - 2]), st.integers(0, 2**24 - 1))


@settings(max_examples=150, deadline=None)
@given(
    plan=st.lists(wishes(LEGAL), min_size=1, max_size=8),
    lost=st.one_of(
        st.frozensets(st.integers(0, 12), min_size=1, max_size=7),
        st.integers(0, 20).map(lambda first: frozenset(range(first, first + 7))),
    ),
    mtu=st.sampled_from([256, 512, 1024]),
    psns=st.tuples(PSN, PSN),
    ack_every=st.integers(1, 5),
    reads=st.integers(1, 4),
)
def test_legal_requests_move_exactly_their_bytes(
    *,
    plan: list[Wish],
    lost: frozenset[int],
    mtu: int,
    psns: tuple[int, int],
    ack_every: int,
    reads: int,
) -> None:
    """Seven retries and at most seven losses: everything is delivered, and once."""
    pair = Pair(
        size=HALF + 8 * 1280,
        wire=ShakyWire(lost, frozenset()),
        connection=Connection(
            mtu_bytes=mtu, first_psn=psns, max_rd_atomic=reads, max_dest_rd_atomic=reads
        ),
        capabilities=QpCapabilities(ack_every=ack_every),
    )
    receives = _start(pair, len(plan))
    own, peer = bytearray(pair.data(0)), bytearray(pair.data(1))
    guard = outside(pair.network, *pair.regions)
    for number, wish in enumerate(plan):
        _post(pair, wish, number)
        _expect(wish, own, peer, receives)
    one, two = pair.run()
    assert [(each.wr_id, each.status) for each in one] == [(n, OK) for n in range(len(plan))]
    assert pair.data(0) == own
    assert pair.data(1) == peer
    assert outside(pair.network, *pair.regions) == guard
    consumed = [w for w in plan if w.opcode in SENDS or w.opcode.value.endswith("write-with-imm")]
    assert [(each.wr_id, each.status) for each in two] == [
        (1000 + number, OK) for number in range(len(consumed))
    ]
    assert [each.byte_length for each in two] == [wish.length for wish in consumed]
    assert state_of(pair) == (QpState.RTS, QpState.RTS)
    event(f"losses {sum(each.arrival_s is None for each in pair.network.sent)}")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(wishes((*SENDS, *WRITES, SendOpcode.RDMA_READ)), min_size=1, max_size=6),
    st.frozensets(st.integers(0, 25), min_size=2),
    st.frozensets(st.integers(0, 25), min_size=2),
    st.integers(0, 3),
)
def test_a_bad_wire_never_puts_a_byte_out_of_place(
    plan: list[Wish], lost: frozenset[int], late: frozenset[int], retry: int
) -> None:
    """Losses and overtaking without limit: what is reported done is done, the rest is flushed."""
    pair = Pair(
        size=HALF + 8 * 1280,
        wire=ShakyWire(lost, late),
        connection=Connection(mtu_bytes=256, retry_cnt=retry, timeout=3),
    )
    receives = _start(pair, len(plan))
    own, peer = bytearray(pair.data(0)), bytearray(pair.data(1))
    guard = outside(pair.network, *pair.regions)
    for number, wish in enumerate(plan):
        _post(pair, wish, number)
    one, two = pair.run()
    statuses = [each.status for each in one]
    done = statuses.count(OK)
    assert [each.wr_id for each in one] == list(range(len(plan)))
    assert statuses[:done] == [OK] * done
    assert statuses[done:] == ([WcStatus.RETRY_EXC_ERR, *[FLUSH] * len(plan)])[: len(plan) - done]
    for wish in plan[:done]:
        _expect(wish, own, peer, receives)
    if done == len(plan):
        assert (pair.data(0), pair.data(1)) == (own, peer)
    assert outside(pair.network, *pair.regions) == guard
    assert [each.wr_id for each in two] == [1000 + n for n in range(len(two))]
    event(f"done {done == len(plan)}")


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([Service.UC, Service.UD]),
    st.lists(st.integers(0, 900), min_size=1, max_size=6),
    st.lists(st.integers(0, 700), min_size=1, max_size=6),
    st.frozensets(st.integers(0, 9)),
    st.frozensets(st.integers(0, 9)),
)
def test_unreliable_messages_arrive_whole_or_not_at_all(
    service: Service,
    sizes: list[int],
    rooms: list[int],
    lost: frozenset[int],
    late: frozenset[int],
) -> None:
    pair = Pair(service, size=8192, wire=ShakyWire(lost, late))
    head = GRH_BYTES if service is Service.UD else 0
    messages = [bytes([n + 1]) * min(size, 256 if head else 900) for n, size in enumerate(sizes)]
    guard = outside(pair.network, *pair.regions)
    slots = [(n * 1024 + 8, room + head) for n, room in enumerate(rooms)]
    for number, (start, room) in enumerate(slots):
        pair.receive(start, room, wr_id=number)
    for number, message in enumerate(messages):
        pair.fill(0, message, number * 900)
        pair.send(SendOpcode.SEND, number * 900, len(message), wr_id=number)
    one, two = pair.run()
    assert [(each.wr_id, each.status) for each in one] == [(n, OK) for n in range(len(messages))]
    assert outside(pair.network, *pair.regions) == guard
    data = bytearray(pair.data(1))
    for completion in two:
        start, room = slots[completion.wr_id]
        if completion.status is OK:
            got = bytes(data[start + head : start + completion.byte_length])
            assert got in messages
    for start, room in slots:
        data[start : start + room] = bytes(room)
    assert data == bytes(8192)  # nothing beside the posted receives


ADDRESSES = st.one_of(
    st.just(0),
    st.integers(0, 31).map(lambda word: 8 * word),
    st.integers(-40, 300),
    st.sampled_from([-(2**47), 2**40, 255, 256, 257, 248, 4096]),
)
RIGHTS = st.one_of(st.just(ALL), st.integers(0, 15).map(Access))
KEYS = st.sampled_from(["right"] * 8 + ["bad", "other domain", "the other's kind"])


@settings(max_examples=300, deadline=None)
@given(
    opcode=st.sampled_from(LEGAL),
    own_at=ADDRESSES,
    peer_at=ADDRESSES,
    length=st.one_of(st.just(8), st.sampled_from([0, 256, 257]), st.integers(0, 600)),
    own_access=RIGHTS,
    peer_access=RIGHTS,
    own_key=KEYS,
    peer_key=KEYS,
)
def test_any_request_ends_as_the_rules_say(
    *,
    opcode: SendOpcode,
    own_at: int,
    peer_at: int,
    length: int,
    own_access: Access,
    peer_access: Access,
    own_key: str,
    peer_key: str,
) -> None:
    """One request with anything wrong: the status of the rules, and bytes only if SUCCESS."""
    if own_access & (Access.REMOTE_WRITE | Access.REMOTE_ATOMIC):
        own_access |= Access.LOCAL_WRITE
    if peer_access & (Access.REMOTE_WRITE | Access.REMOTE_ATOMIC):
        peer_access |= Access.LOCAL_WRITE
    pair = Pair(size=1024)
    own = pair.hosts[0].reg_mr(_domain(pair, 0, own_key), pair.buffers[0], own_access)
    peer = pair.hosts[1].reg_mr(_domain(pair, 1, peer_key), pair.buffers[1], peer_access)
    # Keys of a part of the buffer, so that there is memory beside the region to be hit.
    own, peer = (
        host.reg_mr(region.pd, type(buffer)(buffer.address + 256, 256), access)
        for host, region, buffer, access in (
            (pair.hosts[0], own, pair.buffers[0], own_access),
            (pair.hosts[1], peer, pair.buffers[1], peer_access),
        )
    )
    lkey = {"bad": 7, "the other's kind": own.rkey}.get(own_key, own.lkey)
    rkey = {"bad": 7, "the other's kind": peer.lkey}.get(peer_key, peer.rkey)
    receive_key = {"bad": 7, "the other's kind": peer.rkey}.get(peer_key, peer.lkey)
    pair.fill(0, bytes(range(1, 129)) * 8)
    pair.fill(1, bytes(range(100, 228)) * 8)
    own_address, peer_address = own.address + own_at, max(0, peer.address + peer_at)
    pair.qps[1].post_recv(
        ReceiveRequest(9, (Sge(peer_address, 200, receive_key),) if opcode in SENDS else ())
    )
    before = (pair.data(0), pair.data(1))
    pair.qps[0].post_send(
        SendRequest(
            1,
            opcode,
            (Sge(own_address, length, lkey),),
            remote_address=peer_address,
            rkey=rkey,
            compare_add=1,
        )
    )
    # The rules, written down once more.
    answered = opcode is SendOpcode.RDMA_READ or opcode in ATOMICS
    local = (
        own_key == "right"
        and 0 <= own_at <= 256 - length
        and (not answered or Access.LOCAL_WRITE in own_access)
    )
    need = {
        SendOpcode.RDMA_READ: Access.REMOTE_READ,
        **dict.fromkeys(WRITES, Access.REMOTE_WRITE),
        **dict.fromkeys(ATOMICS, Access.REMOTE_ATOMIC),
        **dict.fromkeys(SENDS, Access.LOCAL_WRITE),
    }[opcode]
    room = 200 if opcode in SENDS else length  # a receive is held against the region as a whole
    remote = peer_key == "right" and 0 <= peer_at <= 256 - room and need in peer_access
    if opcode in ATOMICS and length != 8:
        status = WcStatus.LOC_LEN_ERR
    elif length and not local:
        status = WcStatus.LOC_PROT_ERR
    elif (opcode in SENDS and length > 200) or (opcode in ATOMICS and peer_address % 8):
        status = WcStatus.REM_INV_REQ_ERR
    elif length and not remote:
        status = WcStatus.REM_OP_ERR if opcode in SENDS else WcStatus.REM_ACCESS_ERR
    else:
        status = OK
    one, _ = pair.run()
    assert [each.status for each in one] == [status]
    assert pair.qps[0].state is (QpState.RTS if status is OK else QpState.ERR)
    event(status.name)
    after = (bytearray(pair.data(0)), bytearray(pair.data(1)))
    if status is OK and length:
        target, start = (0, own_at + 256) if answered else (1, peer_at + 256)
        if opcode not in ATOMICS:
            source = before[1][peer_at + 256 :] if answered else before[0][own_at + 256 :]
            assert after[target][start : start + length] == source[:length]
        for host, at in ((target, start), (1, peer_at + 256)):
            if host == target or opcode in ATOMICS:
                after[host][at : at + length] = before[host][at : at + length]
    assert tuple(map(bytes, after)) == before  # and nothing else


def _domain(pair: Pair, host: int, key: str) -> object:
    return pair.hosts[host].alloc_pd() if key == "other domain" else pair.pds[host]


def test_all_rights_are_known() -> None:
    assert Access(15) == ALL
