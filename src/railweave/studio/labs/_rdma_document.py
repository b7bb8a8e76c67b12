"""Lab 4's runs as documents for the browser: events and packets, and the bytes of one packet."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from railweave.errors import InputError
from railweave.studio.labs._rdma import Network, Played, State, Where, envelopes, played
from railweave.transport.codec import FieldView, Frame, Layer, LinkType, decode, encode
from railweave.transport.codec._views import syndrome_text
from railweave.transport.codec.headers import HEADERS, opcode_name
from railweave.transport.packets import CNP_OPCODE, AckSyndrome, IbPacket, Opcode
from railweave.transport.verbs import WcStatus
from railweave.transport.verbs.operation import Actor, Part, Phase
from railweave.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from railweave.transport.journey import JourneyFrame

__all__ = ["frame_at", "frame_text", "key_of", "link_of", "packet_notes", "repeated", "run_text"]

_REQUESTS: Final = (Opcode.READ_REQUEST, Opcode.COMPARE_SWAP, Opcode.FETCH_ADD)
_ANSWERS: Final = (
    Opcode.ACKNOWLEDGE,
    Opcode.ATOMIC_ACKNOWLEDGE,
    Opcode.READ_RESPONSE_FIRST,
    Opcode.READ_RESPONSE_MIDDLE,
    Opcode.READ_RESPONSE_LAST,
    Opcode.READ_RESPONSE_ONLY,
)


def key_of(state: State, text: str) -> str:
    """Return what tells a run from others."""
    return hashlib.blake2b(f"{state!r}\0{text}".encode(), digest_size=8).hexdigest()


# ---------------------------------------------------------------- a run


def repeated(run: Played) -> list[bool]:
    """Tell which packets were sent before, as :attr:`OperationRun.repeated` counts them."""
    return list(run.run.repeated)


def _kind(packet: IbPacket) -> str:
    """Return what a packet is drawn as."""
    if packet.bth.opcode == CNP_OPCODE:
        return "cnp"
    if packet.aeth is not None and packet.aeth.kind is not AckSyndrome.ACK:
        return "nak"
    if packet.operation in (Opcode.ACKNOWLEDGE, Opcode.ATOMIC_ACKNOWLEDGE):
        return "ack"
    return "request" if packet.operation in _REQUESTS else "data"


def packet_notes(run: Played) -> list[str]:
    """Return what is to be said of each packet, "" for nothing."""
    again = repeated(run)
    journey = run.journey
    notes = []
    for k, (sent, packet) in enumerate(zip(run.run.sent, run.packets, strict=True)):
        said = []
        if sent.arrival_s is None:
            said.append("lost")
        if again[k]:
            said.append("sent again")
        if packet.bth.ack_request:
            said.append("asks for an ACK")
        if packet.aeth is not None and packet.operation not in _ANSWERS[2:]:
            said.append(syndrome_text(packet.aeth.syndrome))
        if journey is not None and journey.times.marked_at[k] >= 0:
            hop = journey.ways[sent.source].hops[int(journey.times.marked_at[k])]
            said.append(f"marked at {hop.port}")
        notes.append(", ".join(said))
    return notes


def _coded(texts: list[str]) -> tuple[list[str], list[int]]:
    """Return the different texts, and for each place which of them."""
    distinct = list(dict.fromkeys(texts))
    where = {text: place for place, text in enumerate(distinct)}
    return distinct, [where[text] for text in texts]


def _events(run: Played) -> dict[str, Any]:
    events = run.run.events
    parts, actors, phases = list(Part), list(Actor), list(Phase)
    return {
        "seconds": [one.time_s for one in events],
        "time": [format_seconds(one.time_s) for one in events],
        "host": [one.host for one in events],
        "part": [parts.index(one.part) for one in events],
        "actor": [actors.index(one.actor) for one in events],
        "phase": [phases.index(one.phase) for one in events],
        "what": [one.what for one in events],
        "packet": [-1 if one.packet is None else one.packet for one in events],
    }


def _packets(run: Played) -> dict[str, Any]:
    opcodes, opcode = _coded([opcode_name(packet.bth.opcode) for packet in run.packets])
    notes, note = _coded(packet_notes(run))
    return {
        "sent": [one.time_s for one in run.run.sent],
        "arrival": [one.arrival_s for one in run.run.sent],
        "time": [format_seconds(one.time_s) for one in run.run.sent],
        "direction": [one.source for one in run.run.sent],
        "opcodes": opcodes,
        "opcode": opcode,
        "psn": [-1 if p.bth.opcode == CNP_OPCODE else p.bth.psn for p in run.packets],
        "bytes": list(run.wire_bytes),
        "kind": [_kind(packet) for packet in run.packets],
        "notes": notes,
        "note": note,
    }


def _seen(state: State, run: Played) -> str:
    count = f"{len(run.packets):,} packet{'s' * (len(run.packets) != 1)}"
    if run.journey is None:
        return f"{count}, each as it leaves its sender; times count from the posting."
    at = state.at or "the sender's port"
    return f"{count}, by the time they were ready to be sent; their bytes are those seen at {at}."


@lru_cache(maxsize=4)
def run_text(state: State, text: str) -> str:
    """Return a run as JSON: events and packets in columns, completions, what stands in the boxes.

    Args:
        state: of :func:`railweave.studio.labs._rdma.bare`.
        text: the design; "" for a wire.
    """
    run = played(state, text)
    case = run.run.case
    document = {
        "key": key_of(state, text),
        "names": list(run.names),
        "fabric": list(run.fabric),
        "seen": _seen(state, run),
        "phases": [one.value for one in Phase],
        "parts": [one.value for one in Part],
        "actors": [one.value for one in Actor],
        "events": _events(run),
        "packets": _packets(run),
        "completions": [
            {"host": one.host, "time": one.time_s, "status": WcStatus(one.status).name}
            for one in run.run.completions
        ],
        "below": {
            "memory": [format_bytes(len(held)) for held in run.run.before],
            "queue pair": [f"{case.service.name} {number:#x}" for number in case.queue_pairs],
        },
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


# ---------------------------------------------------------------- one packet


def link_of(state: State, run: Played) -> LinkType:
    """Return the link type of a run's frames."""
    if run.journey is None:
        infiniband = state.network is Network.INFINIBAND
    else:
        infiniband = run.journey.transport.value == "infiniband"
    return LinkType.INFINIBAND if infiniband else LinkType.ETHERNET


class _Seen:
    """The frames of a journey at one port, encoded as far as they were asked for."""

    def __init__(self, frames: Iterator[JourneyFrame]) -> None:
        self._left = frames
        self._found: dict[int, bytes] = {}
        self._one_at_a_time = threading.Lock()

    def frame(self, packet: int) -> bytes | None:
        """Return the bytes of a packet; None where the port does not see it."""
        with self._one_at_a_time:
            while packet not in self._found:
                frame = next(self._left, None)
                if frame is None:
                    return None
                self._found[frame.packet] = frame.data
            return self._found[packet]


@lru_cache(maxsize=4)
def _seen_at(state: State, text: str) -> _Seen:
    journey = played(state, text).journey
    if journey is None:
        raise InputError("two hosts on a wire have no ports to look at")
    return _Seen(journey.frames(state.at))


def frame_at(state: State, text: str, packet: int) -> bytes | None:
    """Return the bytes of a packet as they are seen; None where they are not.

    Raises:
        InputError: no such packet, or no such port.
    """
    run = played(state, text)
    if not 0 <= packet < len(run.packets):
        raise InputError(f"there is no packet {packet}; allowed: 0 to {len(run.packets) - 1}")
    if state.where is Where.DESIGN:
        return _seen_at(state, text).frame(packet)
    return encode(run.packets[packet], envelopes(state.network)[run.run.sent[packet].source])


def _why_unseen(state: State, run: Played, packet: int) -> str:
    from railweave.transport.journey._frames import viewpoint

    if run.journey is not None:
        point = viewpoint(run.journey, state.at)
        ways = {direction for direction, _ in (*point.sends, *point.receives)}
        if run.run.sent[packet].source not in ways:
            return "its way does not lead there"
    return "it was lost before"


def _field(field: FieldView) -> dict[str, Any]:
    return {
        "name": field.name,
        "text": field.text,
        "meaning": field.meaning,
        "first_bit": field.first_bit,
        "bits": field.bits,
        "masked": field.masked,
    }


def _layers(layers: tuple[Layer, ...]) -> list[dict[str, Any]]:
    """Return the layers; a name that comes twice is numbered, since links name fields by it."""
    found: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for layer in layers:
        number = seen[layer.name] = seen.get(layer.name, 0) + 1
        title = HEADERS[layer.name].title + ", " if layer.name in HEADERS else ""
        found.append(
            {
                "name": layer.name if number == 1 else f"{layer.name} {number}",
                "title": title,
                "start": layer.start,
                "end": layer.end,
                "fields": [_field(one) for one in layer.fields],
            }
        )
    return found


def frame_text(state: State, text: str, packet: int) -> str:
    """Return one packet as JSON: its bytes in hex, layers with fields, the ICRC, what is wrong."""
    run = played(state, text)
    data = frame_at(state, text, packet)
    problems: tuple[str, ...] = ()
    if data is None:
        problems = (
            f"Packet {packet} is not seen at {state.at}: {_why_unseen(state, run, packet)}.",
        )
    frame = Frame(b"", None, None, (), None, problems)
    if data is not None:
        frame = decode(data, link=link_of(state, run))
    icrc = None
    if frame.icrc is not None:
        icrc = {
            "expected": f"{frame.icrc.expected:#010x}",
            "found": f"{frame.icrc.found:#010x}",
            "ok": frame.icrc.ok,
        }
    document = {
        "key": key_of(state, text),
        "index": packet,
        "hex": frame.data.hex(),
        "layers": _layers(frame.layers),
        "icrc": icrc,
        "problems": list(frame.problems),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
