"""Reader of the JSON report of newer nccl-tests (its option ``-J``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard

from railweave.errors import InputError
from railweave.formats._nccl_tests_records import (
    NcclTestError,
    NcclTestRow,
    NcclTestTable,
    operation_of,
)

__all__ = ["looks_like_json", "read_json"]

_MOST: Final = 1e30
_HALVES: Final = (("out_of_place", False), ("in_place", True))


def looks_like_json(text: str) -> bool:
    """Say whether a text is a JSON report and no log."""
    head = text.lstrip()[:200]
    return head.startswith("{") and '"' in head


def read_json(text: str, file: str) -> NcclTestTable:
    """Return the table of a JSON report; see :func:`railweave.formats.nccl_tests`.

    Raises:
        InputError: no JSON, or without a list of results.
    """
    try:
        document: Any = json.loads(text)
    except RecursionError:
        raise InputError(f"{file}: is nested too deeply for a report of nccl-tests") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"{file}:{error.lineno}:{error.colno}: the JSON report ends or breaks off here "
            f"({error.msg}); give a whole one, or the text that the test printed"
        ) from None
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"{file}: is no report of nccl-tests ({error})") from None
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, list):
        raise InputError(
            f"{file}: is JSON, but has no list 'results'; wanted is what nccl-tests writes with "
            "its option -J"
        )
    problems: list[str] = []
    devices = [d for d in _list(_mapping(document.get("config")).get("devices")) if _mapping(d)]
    op, ranks = _operation(document), _ranks(devices)
    rows = tuple(_rows(results, op, ranks, file, problems))
    average = _mapping(document.get("average_bus_bandwidth"))
    bounds = _mapping(document.get("out_of_bounds")).get("count")
    busbw = average.get("bandwidth")
    return NcclTestTable(
        file=file,
        line=0,
        op=op,
        ranks=ranks,
        rows=rows,
        hosts=tuple(dict.fromkeys(str(d.get("hostname", "")) for d in devices)),
        devices=tuple(dict.fromkeys(str(d.get("device_info", "")) for d in devices)),
        command=" ".join(map(str, _list(document.get("args")))),
        version=_version(document.get("nccl_version")),
        algorithm=_variable(document, "NCCL_ALGO"),
        protocol=_variable(document, "NCCL_PROTO"),
        average_busbw_Bps=float(busbw) * 1e9 if _is_number(busbw) else None,
        out_of_bounds=bounds if isinstance(bounds, int) else None,
        complete=bool(average),
        errors=tuple(
            NcclTestError(0, "", "", str(item)) for item in _list(document.get("errors")) if item
        ),
        problems=tuple(problems),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_number(value: object) -> TypeGuard[int | float]:
    """Say whether it is a finite number that is no truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < _MOST


def _operation(document: Mapping[str, Any]) -> str | None:
    args = document.get("args")
    program = str(args[0]) if isinstance(args, list) and args else ""
    return operation_of(program) if "_perf" in program else None


def _ranks(devices: list[Mapping[str, Any]]) -> int | None:
    """Return the ranks of a communicator: the listed ones, of the largest group."""
    groups: dict[object, set[object]] = {}
    for device in devices:
        groups.setdefault(str(device.get("group")), set()).add(str(device.get("rank")))
    return max((len(ranks) for ranks in groups.values()), default=None)


def _variable(document: Mapping[str, Any], name: str) -> str:
    """Return what the environment said, where it is one name and no list."""
    lines = [str(line).partition("=") for line in _list(document.get("env"))]
    value = next((value for key, _, value in lines if key == name), "")
    return value if value.isalnum() else ""


def _version(value: object) -> str:
    """Return the library's version; it is written as 23004 for 2.30.4."""
    if not isinstance(value, int):
        return ""
    return f"NCCL version {value // 10_000}.{value // 100 % 100}.{value % 100}"


def _rows(
    results: list[Any], op: str | None, ranks: int | None, file: str, problems: list[str]
) -> Iterator[NcclTestRow]:
    for number, result in enumerate(results):
        row = _mapping(result)
        for name, in_place in _HALVES:
            half = row.get(name)
            if half is None:
                continue
            cells = _mapping(half)
            time_us = cells.get("time", cells.get("cpu_time"))
            size = row.get("size")
            if not _is_number(time_us) or time_us <= 0 or not isinstance(size, int) or size < 0:
                problems.append(
                    f"{file}: results[{number}].{name}: no measurement; wanted are a whole 'size' "
                    "and a 'time' above 0"
                )
                continue
            time_s = time_us * 1e-6
            algbw, busbw = cells.get("alg_bw"), cells.get("bus_bw")
            ratio = 1.0
            if _is_number(algbw) and _is_number(busbw) and algbw > 0:
                ratio = busbw / algbw
            wrong, root = cells.get("nwrong"), str(row.get("root", "")).strip()
            yield NcclTestRow(
                op=op,
                ranks=ranks,
                size_bytes=size,
                time_s=time_s,
                algbw_Bps=size / time_s,
                busbw_Bps=size / time_s * ratio,
                in_place=in_place,
                wrong=int(wrong) if _is_number(wrong) else None,
                dtype=str(row.get("type", "")),
                redop=str(row.get("redop", "")),
                root=int(root) if root.lstrip("-").isdigit() else None,
            )
