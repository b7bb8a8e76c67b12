"""Bytes on the wire, with and without encryption."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import railweave
from railweave.design.models import Transport
from railweave.fabric import PlaneId
from railweave.fabric.wire import encryption_bytes, framing, payload_efficiency, wire_bytes

ROCE = Transport.ROCEV2
KINDS = ("macsec", "ipsec", "psp", "tls")

DESIGN = """railweave: 1
name: small
cluster: {{servers: {{model: hgx-h100-8gpu-roce, count: 2}}}}
planes:
  backend: {{transport: rocev2, topology: star, switch: sn5600, encryption: {back}}}
  frontend: {{transport: tcp, topology: star, switch: sn4700, encryption: {front}}}
  storage: {{shares: frontend, encryption: {storage}}}
jobs: [{{name: ring, collective: all-reduce, size: 1 MiB}}]
"""


def frames(back="none", front="none", storage="none"):
    """Bytes that each plane's packets carry beside their payload, over those of no encryption."""
    text = DESIGN.format(back=back, front=front, storage=storage)
    found = railweave.parse(text).build().routing().frames()
    plain = {0: 82, 1: 90, 2: 90}
    return {PlaneId(p).name.lower(): f.overhead_bytes - plain[p] for p, f in found.items()}


@pytest.mark.parametrize(
    ("transport", "overhead"), [(ROCE, 82), (Transport.INFINIBAND, 26), (Transport.TCP, 90)]
)
def test_what_a_packet_adds_without_encryption(transport, overhead):
    assert framing(transport).overhead_bytes == overhead
    assert encryption_bytes(framing(transport)) == ""


@pytest.mark.parametrize(
    ("kind", "added"),
    [
        ("macsec", 16 + 16),  # SecTAG with SCI, ICV
        ("ipsec", 4 + 4 + 8 + 4 + 16),  # SPI, sequence, IV, trailer padded to 4 bytes, ICV
        ("psp", 8 + 16 + 16),  # UDP, header with IV, ICV
    ],
)
def test_what_encryption_adds_to_a_packet(kind, added):
    for transport in (ROCE, Transport.TCP):
        plain, sealed = framing(transport), framing(transport, encryption=[kind])
        assert sealed.overhead_bytes - plain.overhead_bytes == added
        assert sealed.overhead_bytes == sum(size for _, size in sealed.parts)
        assert encryption_bytes(sealed) == f"{added} B a packet"
    sealed = framing(ROCE, encryption=[kind])
    assert float(wire_bytes(4096 * 10, sealed)) == 10 * (4096 + 82 + added)
    assert payload_efficiency(sealed) == 4096 / (4096 + 82 + added)


@given(mtu=st.integers(524, 9164))
def test_what_esp_protects_ends_on_four_bytes(mtu):
    parts = dict(framing(Transport.TCP, mtu, ["ipsec"]).parts)
    assert 2 <= parts["ESP trailer"] <= 5
    assert (20 + 12 + mtu + parts["ESP trailer"]) % 4 == 0


def test_tls_adds_to_records_and_not_to_packets():
    plain, sealed = framing(Transport.TCP), framing(Transport.TCP, encryption=["tls"])
    assert sealed.overhead_bytes == plain.overhead_bytes
    records = 5 + 1 + 16
    assert float(wire_bytes(2**14 * 3, sealed)) == 3 * (2**14 + records) + 6 * 90
    assert float(wire_bytes(0, sealed)) == records + 90
    assert encryption_bytes(sealed) == "22 B a record of 16,384 B"
    many = 2**14 * 8948 * 100
    assert many / float(wire_bytes(many, sealed)) == pytest.approx(payload_efficiency(sealed))


@given(
    size=st.lists(st.integers(0, 10**9), min_size=1, max_size=5),
    kinds=st.sets(st.sampled_from(KINDS)),
)
def test_wire_bytes_are_more_than_the_payload_and_more_with_each_encryption(size, kinds):
    payload = np.array(size, dtype=np.float64)
    bare = wire_bytes(payload, framing(Transport.TCP))
    sealed = wire_bytes(payload, framing(Transport.TCP, encryption=kinds))
    assert np.all(bare > payload)
    assert np.all(sealed > bare) if kinds else np.array_equal(sealed, bare)


def test_links_are_encrypted_for_all_who_share_them_and_ends_for_themselves():
    assert frames() == {"backend": 0, "frontend": 0, "storage": 0}
    assert frames(back="macsec") == {"backend": 32, "frontend": 0, "storage": 0}
    assert frames(front="macsec") == {"backend": 0, "frontend": 32, "storage": 32}
    assert frames(storage="macsec") == {"backend": 0, "frontend": 32, "storage": 32}
    assert frames(front="ipsec") == {"backend": 0, "frontend": 36, "storage": 0}
    assert frames(storage="psp") == {"backend": 0, "frontend": 0, "storage": 40}
    assert frames(front="macsec", storage="ipsec") == {"backend": 0, "frontend": 32, "storage": 68}


def test_a_failure_keeps_the_framing_of_each_plane():
    text = DESIGN.format(back="none", front="none", storage="ipsec")
    built = railweave.parse(text).build()
    moved = built.routing().on(built.fail(["node001/nic0"]).fabric)
    assert moved.frames() == built.routing().frames()


def test_the_engine_counts_what_encryption_adds():
    def sent(back):
        built = railweave.parse(DESIGN.format(back=back, front="none", storage="none")).build()
        result = built.simulate()
        network = built.fabric.link_plane == PlaneId.BACKEND
        return float(result.link_bytes[network].sum())

    plain = sent("none")
    # Chunks of 8 KiB are two full packets each.
    assert sent("macsec") / plain == pytest.approx((4096 + 114) / (4096 + 82), rel=1e-9)


def test_effective_capacity_counts_what_encryption_adds():
    text = DESIGN.format(back="psp", front="none", storage="none")
    capacity = railweave.parse(text).build().summary().to_json()["capacity"]
    share = capacity["effective_host_bps"] / capacity["host_bps"]
    assert share == pytest.approx(4096 / (4096 + 82 + 40), rel=1e-12)
