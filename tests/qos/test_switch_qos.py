"""What the packet engine is given of a switch, by part, scheme and setting."""

from __future__ import annotations

import pickle

import pytest

from railweave.catalog import default_catalog
from railweave.design.models import CongestionName, CongestionSpec, InlineSwitch, Transport
from railweave.errors import InputError
from railweave.provenance import Certainty
from railweave.qos import SwitchQos, headroom, switch_findings, switch_qos

CATALOG = default_catalog()
ETHERNET = [part.name for part in CATALOG.switches() if "rocev2" in part.transports]
INFINIBAND = [part.name for part in CATALOG.switches() if "infiniband" in part.transports]
ROCE = [s.value for s in CongestionName if s.value not in ("credits", "credits+cc", "cubic")]


def made(switch: str = "sn5600", transport: str = "rocev2", **spec: object) -> SwitchQos:
    return switch_qos(
        CATALOG.switch(switch), CongestionSpec.model_validate(spec), Transport(transport)
    )


def test_defaults_of_a_spectrum_switch() -> None:
    qos = switch_qos(CATALOG.switch("sn5600"))
    assert (qos.buffer_bytes, qos.cell_bytes) == (160e6, 192)
    assert (qos.lossless, qos.strict, len(qos.weights)) == ((3,), (6,), 8)
    assert qos.headroom_bytes(800e9, 40.0) == 362_496
    assert qos.pfc_response_s(800e9) == pytest.approx(905 * 512 / 800e9)
    assert (qos.pg_reserved_bytes, qos.pg_alpha, qos.pg_threshold_bytes) == (19_456, 1.0, None)
    assert qos.ingress_pipeline_s == pytest.approx(120e-9)
    assert qos.pipeline_s == pytest.approx(600e-9)
    assert qos.cut_through
    assert not qos.trimming
    assert qos.priority_map[3] == 3
    assert qos.priority_map[6] == 6
    dog = qos.watchdog
    assert dog is not None
    assert (dog.detect_s, dog.restore_s, dog.poll_s, dog.action) == (0.2, 0.2, 0.2, "drop")
    assert qos.credit_bytes == 0


def test_a_fixed_response_takes_less_time_on_a_faster_port() -> None:
    response = made("sn4700").pfc_response_s
    assert response(400e9) == pytest.approx(3.8 * 1024 * 8 / 400e9)


def test_ecn_by_default_acts_before_pfc_on_every_catalog_switch() -> None:
    for name in ETHERNET:
        part = CATALOG.switch(name)
        qos = switch_qos(part)
        speed = part.port_speed_bps
        ports = {(speed, 40.0): part.ports}
        late = {"ecn-above-pfc", "ecn-reaches-pfc", "ecn-late-under-load"}
        assert not late & {f.id for f in switch_findings(qos, ports, name)}, name
        marks = qos.ecn(3, speed)
        assert marks is not None
        assert marks.kmax_bytes < qos.pause_at_bytes(qos.shared_bytes(ports))


def test_only_the_lossless_priority_is_marked() -> None:
    qos = made()
    assert [qos.ecn(p, 400e9) is not None for p in range(8)] == [p == 3 for p in range(8)]
    assert made(ecn="off").ecn(3, 400e9) is None


@pytest.mark.parametrize("scheme", ROCE)
def test_pfc_and_marks_follow_the_scheme(scheme: str) -> None:
    transport = "tcp" if scheme == "dctcp" else "rocev2"
    qos = made(transport=transport, scheme=scheme)
    lossless = scheme.startswith("pfc")
    assert qos.lossless == ((3,) if lossless else ())
    assert (qos.headroom_bytes(400e9, 40.0) > 0) is lossless
    assert (qos.pfc_response_s(400e9) > 0) is lossless
    assert (qos.watchdog is not None) is lossless
    marked = any(qos.ecn(p, 400e9) for p in range(8))
    assert marked is (scheme in {"dcqcn", "pfc+dcqcn", "dctcp", "nscc"})


@pytest.mark.parametrize("name", INFINIBAND)
def test_infiniband_has_credits_and_no_pfc(name: str) -> None:
    part = CATALOG.switch(name)
    qos = switch_qos(part, None, Transport.INFINIBAND)
    assert qos.credit_bytes == int(part.buffer_bytes / part.ports / 8)
    assert qos.lossless == ()
    assert qos.headroom_bytes(part.port_speed_bps, 40.0) == 0
    assert qos.cut_through
    assert qos.priority_map == tuple(range(8))
    # enough for a round trip over 40 m at full speed, or a single flow would starve
    trip_s = 2 * (40 / 1.98e8 + part.latency_s)
    assert qos.credit_bytes > part.port_speed_bps / 8 * trip_s
    marks = switch_qos(part, CongestionSpec(scheme=CongestionName.CREDITS_CC), Transport.INFINIBAND)
    found = marks.ecn(0, part.port_speed_bps)
    assert found is not None
    assert found.kmax_bytes <= qos.credit_bytes / 2


def test_the_default_map_of_sonic_sends_roce_to_a_class_without_pfc() -> None:
    qos = made(classes="sonic-default")
    assert qos.lossless == (3, 4)
    assert qos.priority_map[3] == 1
    assert qos.priority_map[6] == 6


def test_a_switch_that_the_design_describes() -> None:
    inline = InlineSwitch(radix=16, speed="100 Gb/s", buffer="16 MB", latency="1 us")
    qos = switch_qos(inline)
    assert (qos.name, qos.buffer_bytes, qos.pipeline_s) == ("inline-16x100G", 16e6, 1e-6)
    assert qos.headroom_bytes(100e9, 40.0) == headroom(100e9, 40, "generic").xoff_bytes
    # at an odd speed a simulation goes on with the next faster response
    assert qos.headroom_bytes(120e9, 40.0) > qos.headroom_bytes(100e9, 40.0)
    assert {a.subject for a in qos.assumptions} == {"headroom of generic", "ECN thresholds"}


def test_settings_replace_the_rules() -> None:
    qos = made(
        headroom="300 KiB", pfc_threshold="2 MB", xon_offset="8 KiB", cut_through=False, ecn="sonic"
    )
    assert qos.headroom_bytes(800e9, 300.0) == 300 * 1024
    assert (qos.pg_threshold_bytes, qos.xon_offset_bytes) == (2_000_000, 8192)
    assert not qos.cut_through
    marks = qos.ecn(3, 400e9)
    assert marks is not None
    assert marks.kmax_bytes == 2 << 20
    assert made(pfc_threshold=0.5).pg_alpha == 0.5


def test_what_is_left_to_share_is_buffer_less_headroom_and_reserve() -> None:
    qos = made()
    ports = {(400e9, 40.0): 100, (800e9, 5.0): 2}
    taken = 100 * (283_648 + 19_456) + 2 * (headroom(800e9, 5, "Spectrum-4").xoff_bytes + 19_456)
    assert qos.shared_bytes(ports) == 160e6 - taken
    assert qos.pause_at_bytes(100.0) == 50.0


@pytest.mark.parametrize(
    ("spec", "ids"),
    [
        ({}, []),
        ({"ecn": {"kmin": "70 MB", "kmax": "80 MB"}}, ["ecn-above-pfc"]),
        ({"ecn": {"kmin": "1 MB", "kmax": "80 MB"}}, ["ecn-reaches-pfc"]),
        ({"ecn": "sonic"}, ["ecn-late-under-load"]),
        ({"pfc_threshold": "1 MB", "ecn": "cumulus"}, ["ecn-reaches-pfc"]),
        ({"pfc_threshold": "100 kB", "ecn": "cumulus"}, ["ecn-above-pfc"]),
        ({"ecn": "simulator"}, ["ecn-late-under-load"]),
        ({"headroom": "100 KiB"}, ["headroom-below-rule"]),
        ({"headroom": "1 MB"}, ["headroom-takes-half"]),
        ({"headroom": "2 MB"}, ["buffer-below-headroom"]),
    ],
)
def test_findings(spec: dict[str, object], ids: list[str]) -> None:
    found = list(switch_findings(made(**spec), {(400e9, 40.0): 128}, "here"))
    assert [finding.id for finding in found] == ids
    assert all(finding.path == "here" and finding.evidence for finding in found)


def test_a_speed_without_thresholds_is_an_error_of_the_design() -> None:
    qos = made(ecn="simulator")
    with pytest.raises(InputError, match="200 Gb/s"):
        qos.ecn(3, 200e9)
    (found,) = switch_findings(qos, {(200e9, 40.0): 8}, "here")
    assert found.id == "ecn-without-speed"


def test_estimates_are_said() -> None:
    assert not [a for a in made().assumptions if "headroom" in a.subject]
    (said,) = (a for a in made("juniper-qfx5240-64od").assumptions if "headroom" in a.subject)
    assert said.certainty is Certainty.ESTIMATED
    assert "724,662" in said.statement


def test_equal_settings_are_equal_and_travel_to_other_processes() -> None:
    assert made() == made()
    assert made() != made("sn4700")
    assert pickle.loads(pickle.dumps(made())) == made()
