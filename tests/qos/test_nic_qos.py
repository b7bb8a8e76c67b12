"""What the packet engine is given of an adapter's port."""

from __future__ import annotations

import pytest

from railweave.design.models import CongestionName, CongestionProfile, CongestionSpec, Transport
from railweave.qos import PROFILE_NAMES, NicQos, algorithm, nic_qos


def made(transport: str = "rocev2", speed_bps: float = 400e9, **spec: object) -> NicQos:
    given = CongestionSpec.model_validate(spec)
    return nic_qos(given, Transport(transport), speed_bps=speed_bps, cable_m=5.0)


def test_defaults_of_a_roce_adapter() -> None:
    nic = made()
    assert (nic.data_priority, nic.ack_priority, nic.cnp_priority) == (3, 3, 6)
    assert (nic.retry.timeout, nic.retry.retries) == (20, 7)
    assert nic.retry.timer_s == pytest.approx(4.294967296)
    assert nic.retry.gives_up_s == pytest.approx(8 * 4.294967296)
    assert not nic.selective_repeat
    assert nic.reorder_packets == 0
    assert nic.sends_cnp
    assert not nic.ignores_cnp
    assert 0 < nic.rx_xon_bytes < nic.rx_xoff_bytes < nic.rx_buffer_bytes


def test_the_design_names_every_parameter_set_there_is() -> None:
    assert {profile.value for profile in CongestionProfile} == set(PROFILE_NAMES) - {"none"}


@pytest.mark.parametrize("scheme", list(CongestionName))
def test_every_scheme_has_a_parameter_set_that_exists(scheme: CongestionName) -> None:
    transport = {"credits": "infiniband", "credits+cc": "infiniband"}.get(
        scheme.value, "tcp" if scheme in ("cubic", "dctcp") else "rocev2"
    )
    nic = made(transport, scheme=scheme.value)
    kind = algorithm(nic.profile, 400e9).kind
    renamed = {"": "none", "cc": "ib_cc", "receiver-driven": "receiver_driven"}
    assert kind == renamed.get(scheme.control, scheme.control)
    assert nic.sends_cnp is (kind in {"dcqcn", "ib_cc"})
    assert nic.pfc_response_s is None  # as the headroom rule of its switch takes for granted


def test_notifications_are_as_far_apart_as_the_parameter_set_says() -> None:
    assert made(profile="dcqcn-paper").cnp_interval_s == pytest.approx(50e-6)
    assert made(profile="dcqcn-firmware").cnp_interval_s == pytest.approx(4e-6)
    assert made(profile="dcqcn-paper", cnp_interval="7 us").cnp_interval_s == pytest.approx(7e-6)


def test_acknowledgements_come_as_often_as_the_scheme_needs_them() -> None:
    assert made().ack_every == 16
    assert made("tcp").ack_every == 2
    assert {made(scheme=s).ack_every for s in ("hpcc", "timely", "swift", "nscc")} == {1}
    assert made(ack_every=4).ack_every == 4


def test_who_repeats_lost_packets_only() -> None:
    assert made("tcp").selective_repeat
    assert made(scheme="nscc").selective_repeat
    assert made(selective_repeat=True).reorder_packets == 128
    assert made(selective_repeat=True, reorder_packets=9).reorder_packets == 9


def test_the_receive_buffer_keeps_room_for_what_arrives_after_a_pause() -> None:
    nic = made(speed_bps=400e9)
    assert nic.rx_buffer_bytes == 2 << 20
    assert nic.rx_buffer_bytes - nic.rx_xoff_bytes == int((301 + 2.16 * 5) * 400 + 2.72 * 9100)
    far = nic_qos(speed_bps=800e9, cable_m=2000.0)
    assert far.rx_buffer_bytes > 2 << 20
    assert far.rx_xoff_bytes > 0
    assert made(receive_buffer="512 KiB").rx_buffer_bytes == 512 * 1024
