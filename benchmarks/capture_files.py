"""Large captures for measurements: eight queue pairs that write messages of eight packets."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

_PACKETS = 8
_FIRST, _MIDDLE, _LAST, _ACK = 6, 7, 8, 17
_STEP_NS = 90


def _frame(ends: tuple[int, int], opcode: int, qp: int, psn: int, rest: bytes) -> bytes:
    """Return a RoCEv2 frame over IPv4 with its ICRC, written out with struct: none of ours."""
    bth = struct.pack(">BBHIBBH", opcode, 0x40, 0xFFFF, qp, 0x80, psn >> 16 & 255, psn & 0xFFFF)
    size = 8 + len(bth) + len(rest) + 4
    udp = struct.pack(">HHHH", 50000 + qp % 64, 4791, size, 0)
    addresses = bytes((10, 0, 0, ends[0], 10, 0, 0, ends[1]))
    ip = struct.pack(">BBHHHBBH", 0x45, 0x6A, 20 + size, 0, 0x4000, 64, 17, 0) + addresses
    masked = bytearray(b"\xff" * 8 + ip + udp + bth)
    for at in (9, 16, 18, 19, 34, 35, 40):
        masked[at] = 0xFF
    icrc = struct.pack("<I", zlib.crc32(rest, zlib.crc32(masked)))
    return b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0" + ip + udp + bth + rest + icrc


def write_large(path: Path, packets: int, payload: int) -> int:
    """Write a pcap file of at least so many packets; return how many it has."""
    data = bytes(i * 7 & 0xFF for i in range(payload))
    reth = struct.pack(">QII", 0x7000, 7, _PACKETS * payload)
    psn = [1 + 100_000 * i for i in range(8)]
    count = time = 0
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1))
        while count < packets:
            pair = count // (_PACKETS + 1) % 8
            frames = []
            for i in range(_PACKETS):
                opcode = (_FIRST, *[_MIDDLE] * (_PACKETS - 2), _LAST)[i]
                rest = (reth if not i else b"") + data
                at = psn[pair] + i & 0xFFFFFF
                frames.append(_frame((1, pair + 2), opcode, 0x100 + pair, at, rest))
            psn[pair] += _PACKETS
            last = psn[pair] - 1 & 0xFFFFFF
            frames.append(_frame((pair + 2, 1), _ACK, 0x200 + pair, last, b"\x1f\0\0\x01"))
            for frame in frames:
                seconds, rest_ns = divmod(time, 10**9)
                size = len(frame)
                file.write(struct.pack("<IIII", 1_700_000_000 + seconds, rest_ns, size, size))
                file.write(frame)
                time += _STEP_NS
            count += len(frames)
    return count
