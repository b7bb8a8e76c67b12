"""RDMA verbs on two simulated hosts: memory that moves, packets on a wire, completions.

Make a :class:`Network`, on each of its ``hosts`` allocate and register memory, make completion
queues and queue pairs, take these through their states with :meth:`QueuePair.modify`
(:func:`connect` does the usual steps), post work requests, let time run with :meth:`Network.run`,
and poll the completion queues. ``Network.events`` tells each step in a sentence and
``Network.sent`` has every packet. What is between the hosts is a :class:`Wire`.

Follows the InfiniBand Architecture Specification, volume 1, chapters 9 to 11, and the libibverbs
manual pages; ``docs/model/verbs.md`` says what is left out.
"""

from __future__ import annotations

from railweave.transport.verbs._completions import CompletionQueue
from railweave.transport.verbs._connect import Connection, connect
from railweave.transport.verbs._host import AsyncEvent, Host, Network
from railweave.transport.verbs._memory import Buffer, Memory, MemoryRegion, ProtectionDomain
from railweave.transport.verbs._network import (
    AdapterTiming,
    Arrival,
    DirectWire,
    SentPacket,
    Wire,
)
from railweave.transport.verbs._queue_pair import SUPPORTED, QpCapabilities, QueuePair
from railweave.transport.verbs._states import (
    RNR_TIMER_MS,
    TRANSITIONS,
    Attr,
    QpAttributes,
    Transition,
    ack_timeout_s,
    check_transition,
    rnr_timer_s,
)
from railweave.transport.verbs._types import (
    GRH_BYTES,
    MAX_MESSAGE_BYTES,
    Access,
    Actor,
    Part,
    Phase,
    QpState,
    ReceiveRequest,
    SendOpcode,
    SendRequest,
    Sge,
    VerbsError,
    VerbsEvent,
    WcOpcode,
    WcStatus,
    WorkCompletion,
)

__all__ = [
    "GRH_BYTES",
    "MAX_MESSAGE_BYTES",
    "RNR_TIMER_MS",
    "SUPPORTED",
    "TRANSITIONS",
    "Access",
    "Actor",
    "AdapterTiming",
    "Arrival",
    "AsyncEvent",
    "Attr",
    "Buffer",
    "CompletionQueue",
    "Connection",
    "DirectWire",
    "Host",
    "Memory",
    "MemoryRegion",
    "Network",
    "Part",
    "Phase",
    "ProtectionDomain",
    "QpAttributes",
    "QpCapabilities",
    "QpState",
    "QueuePair",
    "ReceiveRequest",
    "SendOpcode",
    "SendRequest",
    "SentPacket",
    "Sge",
    "Transition",
    "VerbsError",
    "VerbsEvent",
    "WcOpcode",
    "WcStatus",
    "Wire",
    "WorkCompletion",
    "ack_timeout_s",
    "check_transition",
    "connect",
    "rnr_timer_s",
]
