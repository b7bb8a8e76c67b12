"""Anything a program may do, in any order: states, posts, keys and losses mixed at random.

Every request has a slot of its own in the memory of both hosts, with a pattern of its own. So it
shows at once where a byte went that it should not have, and whether what is reported done is done.
"""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from verbs_pair import ALL, LossyWire, Pair, outside

from railweave.transport.packets import Service
from railweave.transport.verbs import (
    Access,
    Connection,
    QpAttributes,
    QpCapabilities,
    QpState,
    ReceiveRequest,
    SendOpcode,
    SendRequest,
    VerbsError,
    WcStatus,
    WorkCompletion,
)
from railweave.transport.verbs._connect import attributes_to

SLOTS, SLOT = 48, 600
VALUES = Connection(
    mtu_bytes=256, timeout=3, retry_cnt=2, rnr_retry=2, min_rnr_timer=1, first_psn=(2**24 - 9, 5)
)
FORWARD = (QpState.INIT, QpState.RTR, QpState.RTS)


def _pattern(number: int) -> bytes:
    return bytes((number * 37 + n * 11) % 255 + 1 for n in range(SLOT))


class Machine(RuleBasedStateMachine):
    """Two hosts and a queue pair on each; host 0 requests, host 1 receives."""

    @initialize(service=st.sampled_from(Service), lossy=st.booleans())
    def start(self, service: Service, lossy: bool) -> None:
        self.dropping = False
        wire = LossyWire(lambda *_: self.dropping) if lossy else None
        caps = QpCapabilities(max_send_wr=6, max_recv_wr=6)
        self.pair = Pair(
            service, size=SLOTS * SLOT, wire=wire, connection=VALUES, capabilities=caps
        )
        self.service = service
        self.head = 40 if service is Service.UD else 0
        self.slot = 0
        self.sends: dict[int, tuple[int, SendOpcode, int, bool]] = {}
        self.receives: dict[int, tuple[int, int]] = {}
        self.done: tuple[list[WorkCompletion], list[WorkCompletion]] = ([], [])
        self.resets = 0
        self.lost_regions = False
        # A region that no request may reach: its bytes must stay.
        host = self.pair.hosts[1]
        self.safe = host.reg_mr(host.alloc_pd(), host.allocate(4096), ALL)
        host.memory.write(self.safe.address, b"\xa5" * 4096)
        self.guard = outside(self.pair.network, *self.pair.regions)

    def _next_slot(self) -> int | None:
        if self.slot >= SLOTS:
            return None
        self.slot += 1
        return self.slot - 1

    @rule(
        opcode=st.sampled_from(
            [o for o in SendOpcode if not o.value.startswith(("atomic", "send-with-inv"))]
        ),
        size=st.sampled_from([0, 1, 100, 256, 257, 500]),
        fault=st.sampled_from(["none"] * 6 + ["rkey", "lkey", "bounds", "safe"]),
    )
    def post_send(self, opcode: SendOpcode, size: int, fault: str) -> None:
        slot = self._next_slot()
        if slot is None:
            return
        pair = self.pair
        read = opcode is SendOpcode.RDMA_READ
        pair.fill(1 if read else 0, _pattern(slot), slot * SLOT)
        own = pair.regions[0].sge(slot * SLOT, size)
        if fault == "lkey":
            own = type(own)(own.address, own.length, 3)
        address, rkey = pair.regions[1].address + slot * SLOT, pair.regions[1].rkey
        if fault == "rkey":
            rkey = 3
        elif fault == "bounds":
            address = pair.regions[1].address + SLOTS * SLOT - size + 1
        elif fault == "safe":
            address, rkey = self.safe.address, self.safe.rkey
        request = SendRequest(
            slot,
            opcode,
            (own,) if size else (),
            remote_address=address,
            rkey=rkey,
            remote_qpn=pair.qps[1].number,
            remote_qkey=VALUES.qkey,
            fence=True,
        )
        state = pair.qps[0].state
        full = len(pair.qps[0].requester.queue) >= 6
        wrong = state in (QpState.RESET, QpState.INIT, QpState.RTR)
        odd = self.service is Service.UD and "send" not in opcode.value
        odd |= self.service is Service.UC and read
        if wrong or odd or full:
            with pytest.raises(VerbsError):
                pair.qps[0].post_send(request)
            return
        pair.qps[0].post_send(request)
        self.sends[slot] = (size, opcode, self.resets, fault == "none")

    @rule(size=st.sampled_from([0, 100, 256, 540]), readonly=st.booleans())
    def post_receive(self, size: int, readonly: bool) -> None:
        slot = self._next_slot()
        if slot is None:
            return
        pair = self.pair
        region = pair.regions[1]
        if readonly and slot % 5 == 0:
            region = pair.hosts[1].reg_mr(pair.pds[1], pair.buffers[1], Access.REMOTE_READ)
        sge = region.sge(slot * SLOT, size + self.head)
        try:
            pair.qps[1].post_recv(ReceiveRequest(slot, (sge,)))
        except VerbsError:
            full = len(pair.qps[1].responder.queue) >= 6
            assert full or pair.qps[1].state is QpState.RESET
            return
        self.receives[slot] = (size, self.resets)

    @rule(host=st.integers(0, 1), to=st.sampled_from(QpState))
    def change_state(self, host: int, to: QpState) -> None:
        """Ask for any change; the table says whether it is one."""
        qp = self.pair.qps[host]
        before = qp.state
        if to in FORWARD and FORWARD.index(to) == (
            FORWARD.index(before) + 1 if before in FORWARD else 0
        ):
            peer = self.pair.qps[1 - host].number
            attributes = attributes_to(to, self.service, host, peer, VALUES)
        else:
            attributes = QpAttributes(state=to)
        try:
            qp.modify(attributes)
        except VerbsError:
            assert qp.state is before
            return
        assert qp.state is to
        if to is QpState.RESET:
            self.resets += 1
            assert qp.attributes == QpAttributes()

    @rule(host=st.integers(0, 1))
    def bring_up(self, host: int) -> None:
        """Take a queue pair to RTS from wherever it is."""
        for to in (QpState.RESET, *FORWARD):
            self.change_state(host, to)
        assert self.pair.qps[host].state is QpState.RTS

    @rule(host=st.integers(0, 1))
    def exchange_region(self, host: int) -> None:
        """Deregister a region, under requests that name it, and register the memory anew."""
        pair = self.pair
        pair.hosts[host].dereg_mr(pair.regions[host])
        pair.regions[host] = pair.hosts[host].reg_mr(pair.pds[host], pair.buffers[host], ALL)
        self.lost_regions = True

    @rule(on=st.booleans())
    def lose(self, on: bool) -> None:
        self.dropping = on

    @rule(time_s=st.sampled_from([1e-7, 1e-6, 5e-6, 1e-4]))
    def wait(self, time_s: float) -> None:
        self.pair.network.run(self.pair.network.now_s + time_s)

    @rule()
    def finish(self) -> None:
        self.pair.network.run()
        for qp in self.pair.qps:
            if qp.state in (QpState.ERR, QpState.RESET):
                assert not qp.requester.queue
                assert not qp.responder.queue

    @rule()
    def poll(self) -> None:
        for host, queue in enumerate(self.pair.cqs):
            for completion in queue.poll(100):
                self.done[host].append(completion)
                self._look_at(completion)

    def _look_at(self, completion: WorkCompletion) -> None:
        """What is reported done is there."""
        if completion.status is not WcStatus.SUCCESS or self.resets:
            return
        slot = completion.wr_id
        if completion.host == 0 and self.service is Service.RC:
            size, opcode, _, right = self.sends[slot]
            assert right or not size or opcode in (SendOpcode.SEND, SendOpcode.SEND_WITH_IMM)
            if opcode is SendOpcode.RDMA_READ:
                assert self.pair.data(0, slot * SLOT, size) == _pattern(slot)[:size]
            elif "write" in opcode.value:
                assert self.pair.data(1, slot * SLOT, size) == _pattern(slot)[:size]
        elif completion.host == 1 and completion.opcode.value == "recv":
            size = completion.byte_length - self.head
            got = self.pair.data(1, slot * SLOT + self.head, size)
            assert any(
                got == _pattern(number)[:length] and length == size
                for number, (length, *_) in self.sends.items()
            )

    @invariant()
    def nothing_outside_a_region_changes(self) -> None:
        if hasattr(self, "guard"):
            assert outside(self.pair.network, *self.pair.regions) == self.guard

    @invariant()
    def each_request_ends_once_and_in_order(self) -> None:
        if not hasattr(self, "done"):
            return
        for host, posted in ((0, self.sends), (1, self.receives)):
            ids = [each.wr_id for each in self.done[host]]
            assert ids == sorted(set(ids))
            assert set(ids) <= set(posted)

    @invariant()
    def the_counters_are_sound(self) -> None:
        if not hasattr(self, "pair"):
            return
        for qp in self.pair.qps:
            requester = qp.requester
            assert 0 <= requester.cursor <= len(requester.queue)
            begun = [each for each in requester.queue if each.answered and each.started]
            assert requester.outstanding == len(begun)
            assert qp.responder.answers.active >= 0
            assert len(qp.responder._resources) <= 16

    def teardown(self) -> None:
        if hasattr(self, "pair"):
            self.finish()
            self.poll()
            self.each_request_ends_once_and_in_order()
            self.nothing_outside_a_region_changes()
            for slot in range(SLOTS):
                self._only_its_own(slot)

    def _only_its_own(self, slot: int) -> None:
        """A slot of a WRITE holds zeros or its own pattern, packet by packet."""
        if slot not in self.sends or slot in self.receives:
            return
        _, opcode, _, right = self.sends[slot]
        host = 0 if opcode is SendOpcode.RDMA_READ else 1
        data = self.pair.data(host, slot * SLOT, SLOT)
        if right and opcode not in (SendOpcode.SEND, SendOpcode.SEND_WITH_IMM):
            own = _pattern(slot)
            for start in range(0, SLOT, 256):
                part = data[start : start + 256]
                zeros = part.lstrip(b"\0")
                mine = own[start : start + 256]
                assert not zeros or part.rstrip(b"\0") == mine[: len(part.rstrip(b"\0"))]


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestVerbs = Machine.TestCase


def test_every_attribute_has_a_bit() -> None:
    from railweave.transport.verbs import Attr

    assert {each.name.upper() for each in fields(QpAttributes)} == {
        each.name for each in Attr if each
    }
