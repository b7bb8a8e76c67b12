"""The table of headers: sizes and places that the standards give, packing and unpacking."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.transport.codec.headers import (
    HEADERS,
    Shown,
    extended_headers,
    has_payload,
    opcode_name,
)
from railweave.transport.packets import CNP_OPCODE, Opcode, Service
from rdma_packets import OPCODES

SIZES = {
    "Ethernet": 14,
    "VLAN": 4,
    "IPv4": 20,
    "IPv6": 40,
    "UDP": 8,
    "TCP": 20,
    "LRH": 8,
    "GRH": 40,
    "BTH": 12,
    "DETH": 8,
    "RETH": 16,
    "AtomicETH": 28,
    "AETH": 4,
    "AtomicAckETH": 8,
    "ImmDt": 4,
    "IETH": 4,
    "CNP": 16,
    "ICRC": 4,
    "VCRC": 2,
    "FCS": 4,
    "SLL": 16,
    "SLL2": 20,
    "ERF": 16,
    "ERF extension": 8,
}
#: which bits of each header the ICRC counts as ones
ONES = {
    "IPv4": "00ff000000000000ff00ffff" + "00" * 8,  # TOS, TTL, checksum
    "UDP": "000000000000ffff",
    "IPv6": "0fffffff000000ff" + "00" * 32,
    "GRH": "0fffffff000000ff" + "00" * 32,
    "BTH": "00000000ff00000000000000",
    "LRH": "f000000000000000",
}


def test_every_header_has_the_size_of_its_standard():
    assert {name: form.size_bytes for name, form in HEADERS.items()} == SIZES
    assert all(form.bits % 8 == 0 for form in HEADERS.values())


def test_masked_fields_are_those_of_the_icrc_rule():
    ones = {
        name: form.masked(bytes(form.size_bytes)).hex()
        for name, form in HEADERS.items()
        if any(spec.masked for spec in form.fields)
    }
    assert ones == ONES


def test_names_are_unique_and_every_field_says_what_it_is():
    for name, form in HEADERS.items():
        names = [spec.name for spec in form.fields]
        assert len(set(names)) == len(names), name
        assert all(spec.meaning for spec in form.fields)
        assert form.title
        assert form.source


def test_fields_follow_one_another():
    for form in HEADERS.values():
        at = 0
        for i, spec in enumerate(form.fields):
            assert form.first_bit(i) == at
            at += spec.bits


@given(st.data())
def test_unpack_gives_back_what_was_packed(data):
    form = HEADERS[data.draw(st.sampled_from(sorted(HEADERS)))]
    values = tuple(data.draw(st.integers(0, (1 << spec.bits) - 1)) for spec in form.fields)
    packed = form.pack(*values)
    assert len(packed) == form.size_bytes
    assert form.unpack(packed) == values
    assert form.unpack(b"xyz" + packed, 3) == values


def test_values_that_do_not_fit_are_refused_by_name():
    with pytest.raises(ValueError, match="ImmDt Immediate 4294967296 does not fit its 32 bits"):
        HEADERS["ImmDt"].pack(1 << 32)
    with pytest.raises(ValueError, match="AETH MSN -1"):
        HEADERS["AETH"].pack(0, -1)
    with pytest.raises(ValueError, match="BTH needs 12 bytes"):
        HEADERS["BTH"].unpack(bytes(11))


def test_a_bth_has_its_bits_where_the_specification_has_them():
    values = (0x0A, 1, 0, 2, 0, 0xFFFF, 0, 1, 0, 0x123456, 1, 0, 0xABCDEF)
    assert HEADERS["BTH"].pack(*values).hex() == "0aa0ffff4012345680abcdef"


def test_opcodes_of_each_service():
    counts = {service: sum(code >> 5 == service for code in OPCODES) for service in Service}
    # volume 1, table 35: RC has 23 opcodes, UC 12, UD 2
    assert counts == {Service.RC: 23, Service.UC: 12, Service.UD: 2}
    assert extended_headers(CNP_OPCODE) == ("CNP",)
    assert len(OPCODES) == 38


#: volume 1, table 35: the headers of RC's opcodes 0x00 to 0x17; 0x15 is reserved
RC_HEADERS = [
    "", "", "", "ImmDt", "", "ImmDt",  # SEND
    "RETH", "", "", "ImmDt", "RETH", "RETH ImmDt",  # WRITE
    "RETH", "AETH", "", "AETH", "AETH",  # READ
    "AETH", "AETH AtomicAckETH", "AtomicETH", "AtomicETH", None,
    "IETH", "IETH",  # SEND with invalidate
]  # fmt: skip


def joined(opcode):
    found = extended_headers(opcode)
    return None if found is None else " ".join(found)


def test_headers_by_opcode():
    uc, ud = Service.UC << 5, Service.UD << 5
    assert [joined(code) for code in range(24)] == RC_HEADERS
    assert [joined(uc | code) for code in range(24)] == RC_HEADERS[:12] + [None] * 12
    assert {code: joined(ud | code) for code in range(24) if joined(ud | code) is not None} == {
        Opcode.SEND_ONLY: "DETH",
        Opcode.SEND_ONLY_IMMEDIATE: "DETH ImmDt",
    }
    assert all(joined(code) is None for code in range(24, 32))
    assert extended_headers(-1) is None
    assert extended_headers(256) is None


def test_payload_by_opcode():
    without = {code for code in OPCODES if not has_payload(code)}
    assert without == {0x0C, 0x11, 0x12, 0x13, 0x14, CNP_OPCODE}


def test_names_of_opcodes():
    assert opcode_name(0x06) == "RC WRITE_FIRST"
    assert opcode_name(0x64) == "UD SEND_ONLY"
    assert opcode_name(0x44) == "RD SEND_ONLY"
    assert opcode_name(CNP_OPCODE) == "CNP"
    assert opcode_name(0x15) == "unknown opcode 0x15"
    assert opcode_name(0xFF) == "unknown opcode 0xff"


def test_how_values_are_shown_fits_their_bits():
    bits = {Shown.MAC: 48, Shown.IPV4: 32, Shown.IPV6: 128}
    for form in HEADERS.values():
        for spec in form.fields:
            assert spec.bits == bits.get(spec.shown, spec.bits)
            assert spec.shown is not Shown.FLAG or spec.bits == 1
