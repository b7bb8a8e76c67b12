"""Writers of small traces for tests, by hand and without the code under test."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

US = 1e6


def kernel(name: str, start_us: float, length_us: float, stream: int = 7, **args: object) -> dict:
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": start_us,
        "dur": length_us,
        "args": {"stream": stream, **args},
    }


def collective_args(
    name: str, count: int, ranks: Sequence[int], *, out: int | None = None, **more: object
) -> dict[str, object]:
    return {
        "Collective name": name,
        "In msg nelems": count,
        "Out msg nelems": count if out is None else out,
        "dtype": "Float",
        "Group size": len(ranks),
        "Process Group Name": "0",
        "Process Group Ranks": str(list(ranks)),
        **more,
    }


def collective(
    name: str,
    start_us: float,
    length_us: float,
    count: int,
    ranks: Sequence[int],
    *,
    stream: int = 20,
    out: int | None = None,
    **more: object,
) -> dict:
    args = collective_args(name, count, ranks, out=out, **more)
    return kernel(f"ncclDevKernel_{name}", start_us, length_us, stream, **args)


def kineto(
    path: Path, events: Iterable[dict], rank: int | None, world: int = 0, **top: Any
) -> Path:
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": world, **top}}
    text = json.dumps(
        {"schemaVersion": 1, "deviceProperties": [], **info, "traceEvents": list(events)}, indent=1
    )
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def inspector_line(
    op: str,
    size: int,
    time_us: float,
    *,
    rank: int,
    ranks: int,
    comm: str = "0xaa",
    sn: int = 0,
    pid: int | None = None,
    start_us: float | None = None,
    busbw: float = 1.0,
) -> str:
    perf: dict[str, object] = {
        "coll": op,
        "coll_sn": sn,
        "coll_msg_size_bytes": size,
        "coll_exec_time_us": time_us,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 1.0,
        "coll_busbw_gbs": busbw,
    }
    if start_us is not None:
        perf["event_trace_ts"] = {
            "coll_start_ts": start_us,
            "kernel_events": [
                {"channel_id": 0, "kernel_start_ts": start_us + 1},
                {"channel_id": 1, "kernel_start_ts": start_us},
            ],
        }
    return json.dumps(
        {
            "header": {"id": comm, "rank": rank, "n_ranks": ranks, "nnodes": 1},
            "metadata": {"hostname": "h0", "pid": 100 + rank if pid is None else pid},
            "coll_perf": perf,
        }
    )


# ---------------------------------------------------------------- protobuf, byte by byte


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def text(field: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


#: kind of value → field number in an attribute
VALUE_FIELDS = {"int32": 7, "int64": 9, "uint64": 13, "bool": 27, "string": 29}


def attribute(name: str, kind: str, value: int | str) -> bytes:
    field = VALUE_FIELDS[kind]
    inner = text(field, value) if isinstance(value, str) else number(field, value)
    return text(10, text(1, name) + inner)


def node(
    id_: int,
    type_: int,
    *,
    duration_us: int = 0,
    start_us: int = 0,
    data: Sequence[int] = (),
    ctrl: Sequence[int] = (),
    attrs: Mapping[str, tuple[str, int | str]] | None = None,
) -> bytes:
    out = number(1, id_) if id_ else b""
    out += text(2, f"node {id_}") + number(3, type_)
    if ctrl:
        out += text(4, b"".join(varint(dep) for dep in ctrl))  # packed
    for dep in data:
        out += number(5, dep)  # not packed
    if start_us:
        out += number(6, start_us)
    if duration_us:
        out += number(7, duration_us)
    out += text(8, text(1, "values that nobody reads"))
    for name, (kind, value) in (attrs or {}).items():
        out += attribute(name, kind, value)
    return out


def chakra(path: Path, nodes: Iterable[bytes], *, metadata: bool = True) -> Path:
    messages = [text(1, "0.0.4")] if metadata else []
    messages += list(nodes)
    path.write_bytes(b"".join(varint(len(message)) + message for message in messages))
    return path
