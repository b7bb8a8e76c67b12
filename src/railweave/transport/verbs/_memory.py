"""A host's memory, its protection domains and registered regions, and the checks on every access.

Nothing in the model reads or writes a host's memory for the adapter but :func:`locate_remote`'s
and :class:`ScatterList`'s callers, after the check has passed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from railweave.transport.verbs._types import Access, Sge, VerbsError, WcStatus

__all__ = ["Buffer", "Memory", "MemoryRegion", "ProtectionDomain", "RegionTable", "ScatterList"]

_PAGE: Final = 4096


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes of a host that an application allocated."""

    address: int
    length: int


class Memory:
    """The bytes of one host: ``length`` of them from ``base`` on, growing with each allocation."""

    __slots__ = ("_data", "base")

    def __init__(self, base: int) -> None:
        self.base = base
        self._data = bytearray(_PAGE)

    def __len__(self) -> int:
        return len(self._data)

    def allocate(self, length: int) -> Buffer:
        """Give new bytes, zeroed, on a page of their own with an untouched page behind."""
        address = self.base + len(self._data)
        self._data.extend(bytes(-(-length // _PAGE) * _PAGE + _PAGE))
        return Buffer(address, length)

    def holds(self, address: int, length: int) -> bool:
        """Tell whether these bytes exist."""
        start = address - self.base
        return start >= 0 and length >= 0 and start + length <= len(self._data)

    def read(self, address: int, length: int) -> bytes:
        """Copy bytes out. Raises VerbsError (EFAULT) where there are none."""
        start = self._start(address, length)
        return bytes(memoryview(self._data)[start : start + length])

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes in. Raises VerbsError (EFAULT) where there are none."""
        start = self._start(address, len(data))
        self._data[start : start + len(data)] = data

    def _start(self, address: int, length: int) -> int:
        if not self.holds(address, length):
            raise VerbsError(
                f"no memory at {address:#x} + {length} B; allowed: {self.base:#x} to "
                f"{self.base + len(self._data):#x}",
                "EFAULT",
            )
        return address - self.base


@dataclass(frozen=True, slots=True)
class ProtectionDomain:
    """What belongs together: a queue pair reaches only the regions of its own domain."""

    host: int
    handle: int


@dataclass(slots=True)
class MemoryRegion:
    """Registered memory: bounds, rights, and the keys that name it here and from afar.

    ``valid`` ends with deregistration, or with a send with invalidate that names its rkey.
    """

    pd: ProtectionDomain
    address: int
    length: int
    access: Access
    lkey: int
    rkey: int
    valid: bool = True

    def holds(self, address: int, length: int) -> bool:
        """Tell whether the bytes lie inside its bounds."""
        return self.address <= address and address + length <= self.address + self.length

    def sge(self, offset: int = 0, length: int | None = None) -> Sge:
        """Name a part of it for a work request; the rest from ``offset`` on where no length is."""
        return Sge(
            self.address + offset, self.length - offset if length is None else length, self.lkey
        )


@dataclass(slots=True)
class RegionTable:
    """What the adapter looks keys up in: its translation and protection table."""

    memory: Memory
    by_lkey: dict[int, MemoryRegion] = field(default_factory=dict)
    by_rkey: dict[int, MemoryRegion] = field(default_factory=dict)
    count: int = 0

    def register(
        self, pd: ProtectionDomain, address: int, length: int, access: Access
    ) -> MemoryRegion:
        """Pin and name memory.

        Raises:
            VerbsError: EFAULT where there is no such memory; EINVAL where remote write or atomic
                is asked for without local write.
        """
        if not self.memory.holds(address, length):
            raise VerbsError(f"no memory at {address:#x} + {length} B to register", "EFAULT")
        if (
            access & (Access.REMOTE_WRITE | Access.REMOTE_ATOMIC)
            and not access & Access.LOCAL_WRITE
        ):
            raise VerbsError("remote write and remote atomic need local write too; add LOCAL_WRITE")
        self.count += 1
        # An index and a variant, as adapters build keys; lkey and rkey differ to show a mix-up.
        region = MemoryRegion(
            pd, address, length, access, self.count << 8 | 0x11, self.count << 8 | 0x52
        )
        self.by_lkey[region.lkey] = region
        self.by_rkey[region.rkey] = region
        return region

    def deregister(self, region: MemoryRegion) -> None:
        """Take a region's keys away. Raises VerbsError where it is gone already."""
        if self.by_lkey.pop(region.lkey, None) is None:
            raise VerbsError(f"no region has lkey {region.lkey:#x}; it was deregistered before")
        self.by_rkey.pop(region.rkey, None)
        region.valid = False

    def remote(
        self, pd: ProtectionDomain, rkey: int, address: int, length: int, access: Access
    ) -> tuple[MemoryRegion | None, str]:
        """Look up what a peer asks for: the region, or None and why it is refused."""
        region = self.by_rkey.get(rkey)
        if region is None or not region.valid:
            return None, f"rkey {rkey:#x} names no region"
        if region.pd != pd:
            return None, f"rkey {rkey:#x} belongs to another protection domain"
        if access not in region.access:
            return None, f"the region lacks the right {access.name}"
        if not region.holds(address, length):
            end = region.address + region.length
            return None, (
                f"{address:#x} + {length} B is outside the region {region.address:#x} to {end:#x}"
            )
        return region, ""


class ScatterList:
    """The scatter/gather elements of one work request, checked piece by piece when touched."""

    __slots__ = ("_pd", "_sges", "_table", "length")

    def __init__(self, table: RegionTable, pd: ProtectionDomain, sges: tuple[Sge, ...]) -> None:
        self._table = table
        self._pd = pd
        self._sges = sges
        self.length = sum(each.length for each in sges)

    def check(self, access: Access) -> str:
        """Say what is wrong with any of the elements, "" for nothing."""
        for each in self._sges:
            problem = self._problem(each, access)
            if problem:
                return problem
        return ""

    def _problem(self, sge: Sge, access: Access) -> str:
        if not sge.length:
            return ""
        region = self._table.by_lkey.get(sge.lkey)
        if region is None or not region.valid:
            return f"lkey {sge.lkey:#x} names no region"
        if region.pd != self._pd:
            return f"lkey {sge.lkey:#x} belongs to another protection domain than the queue pair"
        if access not in region.access:
            return f"the region of lkey {sge.lkey:#x} lacks the right {access.name}"
        if not region.holds(sge.address, sge.length):
            return f"{sge.address:#x} + {sge.length} B is outside the region of lkey {sge.lkey:#x}"
        return ""

    def _pieces(
        self, offset: int, length: int, access: Access
    ) -> tuple[list[tuple[int, int]], str]:
        """Split a range of the message into (address, length) of memory, or say what is wrong."""
        pieces: list[tuple[int, int]] = []
        for each in self._sges:
            if offset >= each.length:
                offset -= each.length
                continue
            take = min(length, each.length - offset)
            if take <= 0:
                break
            problem = self._problem(each, access)
            if problem:
                return [], problem
            pieces.append((each.address + offset, take))
            offset, length = 0, length - take
        return pieces, ""

    def gather(self, offset: int, length: int) -> tuple[bytes, str]:
        """Read a range of the message out of memory, or say what is wrong."""
        pieces, problem = self._pieces(offset, length, Access.NONE)
        read = self._table.memory.read
        if len(pieces) == 1:
            return read(*pieces[0]), problem
        return b"".join(read(address, size) for address, size in pieces), problem

    def scatter(self, offset: int, data: bytes) -> tuple[WcStatus, str]:
        """Write a range of the message into memory: all of it, or nothing and why."""
        if offset + len(data) > self.length:
            return WcStatus.LOC_LEN_ERR, (
                f"{offset + len(data)} B do not fit into a buffer of {self.length} B"
            )
        pieces, problem = self._pieces(offset, len(data), Access.LOCAL_WRITE)
        if problem:
            return WcStatus.LOC_PROT_ERR, problem
        done = 0
        for address, size in pieces:
            self._table.memory.write(address, data[done : done + size])
            done += size
        return WcStatus.SUCCESS, ""
