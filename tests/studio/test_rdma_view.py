"""Lab 4 without a browser: inputs, documents, sentences and captures of runs."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

import railweave
from railweave.errors import InputError
from railweave.formats.pcap import read_packets
from railweave.studio.content import quantity
from railweave.studio.labs._rdma import (
    Network,
    PlaneName,
    ServiceName,
    State,
    Where,
    bare,
    envelopes,
    fitting,
    operation_case,
    played,
)
from railweave.studio.labs._rdma_capture import capture
from railweave.studio.labs._rdma_document import frame_at, frame_text, key_of, repeated, run_text
from railweave.studio.labs._rdma_view import hops_of, study
from railweave.studio.labs._rdma_words import FAULTS, OPERATIONS, fault_choices, service_choices
from railweave.transport.codec import LinkType, decode
from railweave.transport.verbs import WcStatus
from railweave.transport.verbs.operation import Fault, Operation
from railweave.units import format_seconds

DESIGN = """
railweave: 1
name: two-racks
cluster:
  servers: {model: hgx-h100-8gpu-roce, count: 4}
planes:
  backend:
    transport: rocev2
    topology: leaf-spine
    switch: {radix: 32, speed: 400 Gb/s, power: 600 W}
    speed: 400 Gb/s
  frontend:
    transport: ethernet
    topology: star
    switch: {radix: 64, speed: 100 Gb/s, power: 300 W}
    speed: 100 Gb/s
"""
HERE = State(where=Where.DESIGN)


def numbers(state: State, text: str = "") -> dict[str, tuple[str, float]]:
    view = study(state, text, "design.yaml")
    return {one.key: (one.text, one.value) for one in view.numbers}


# ---------------------------------------------------------------- inputs


def test_choices_that_do_not_fit_are_changed_and_said():
    state, said = fitting(State(operation=Operation.READ, service=ServiceName.UD))
    assert state.service is ServiceName.RC
    assert said == ("UD has no read: the service is RC instead.",)
    state, said = fitting(State(operation=Operation.SEND, fault=Fault.BAD_RKEY, mtu=1500))
    assert (state.fault, state.mtu) == (Fault.NONE, 4096)
    assert len(said) == 2
    assert fitting(State()) == (State(), ())
    assert fitting(replace(HERE, network=Network.INFINIBAND)) == (HERE, ())  # its plane decides


def test_what_is_offered_can_be_run():
    for operation in Operation:
        for service in service_choices(operation):
            for fault in fault_choices(operation, ServiceName(service)):
                state = State(
                    operation=operation, service=ServiceName(service), fault=Fault(fault), lost=0
                )
                assert fitting(state) == (state, ())
                assert played(replace(state, size="300 B"), "").run.events
    assert set(OPERATIONS) == {one.value for one in Operation}
    assert set(FAULTS) == {one.value for one in Fault}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"size": "much"}, "not a number with a unit"),
        ({"size": "1 GiB"}, "from 0 B to 16 MiB"),
        ({"size": "0.5 B"}, "whole bytes"),
        ({"size": "8 MiB", "mtu": 256}, "more than the lab lists"),
        ({"retries": 9}, "retry_count 9"),
        ({"fault": Fault.LOST_PACKET, "lost": 4}, "allowed: 0 to 3"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_can(changed, said):
    with pytest.raises(InputError, match=said):
        operation_case(replace(State(), **changed))


def test_an_atomic_moves_eight_bytes_whatever_the_size_says():
    assert operation_case(State(operation=Operation.FETCH_ADD)).size_bytes == 8


def test_what_is_selected_makes_no_other_run():
    one = bare(State(step=9, packet=3, field="BTH.PSN"))
    assert one == State()
    assert key_of(one, "") == key_of(State(), "") != key_of(State(mtu=256), "")


# ---------------------------------------------------------------- documents


def test_a_run_is_told_event_by_event_and_packet_by_packet():
    state = State(fault=Fault.LOST_PACKET)
    run = played(state, "")
    document = json.loads(run_text(state, ""))
    events, packets = document["events"], document["packets"]
    assert events["what"] == [one.what for one in run.run.events]
    assert {document["phases"][k] for k in events["phase"]} == {
        "register", "connect", "post", "transport", "complete",
    }  # fmt: skip
    assert {document["actors"][k] for k in events["actor"]} == {
        "application", "library", "adapter", "fabric",
    }  # fmt: skip
    assert packets["arrival"][1] is None
    assert packets["notes"][packets["note"][1]] == "lost"
    assert sum(packets["bytes"]) == numbers(state)["rdma_wire_bytes"][1]
    assert "nak" in packets["kind"]
    assert sum(repeated(run)) == run.run.retransmitted == 3
    assert document["completions"] == [
        {"host": 0, "time": run.run.completions[0].time_s, "status": "SUCCESS"}
    ]


@pytest.mark.parametrize("network", Network)
@pytest.mark.parametrize("operation", Operation)
def test_every_frame_is_decoded_without_a_problem(network, operation):
    state = State(operation=operation, network=network, size="5 KiB", mtu=1024)
    run = played(state, "")
    for number, packet in enumerate(run.packets):
        document = json.loads(frame_text(state, "", number))
        assert document["problems"] == []
        assert document["icrc"]["ok"]
        data = bytes.fromhex(document["hex"])
        ends = [layer["end"] for layer in document["layers"]]
        assert ends == sorted(ends)
        assert ends[-1] == len(data)
        if network is not Network.INFINIBAND:  # preamble 8, gap 12, FCS 4; padded to 60 at least
            assert run.wire_bytes[number] == len(data) + 24
        else:
            assert run.wire_bytes[number] == len(data)
        link = LinkType.INFINIBAND if network is Network.INFINIBAND else LinkType.ETHERNET
        again = decode(data, link=link).packet
        assert again is not None
        assert (again.bth.psn, again.payload) == (packet.bth.psn, packet.payload)


def test_layers_of_one_name_are_told_apart_and_fields_have_one_path_each():
    document = json.loads(frame_text(State(), "", 0))
    paths = [
        (layer["name"], one["name"]) for layer in document["layers"] for one in layer["fields"]
    ]
    assert len(paths) == len(set(paths)) > 30
    assert [layer["name"] for layer in document["layers"]] == [
        "Ethernet", "IPv4", "UDP", "BTH", "RETH", "Payload", "ICRC",
    ]  # fmt: skip
    masked = {
        one["name"] for layer in document["layers"] for one in layer["fields"] if one["masked"]
    }
    assert {"DSCP", "ECN", "TTL", "Header Checksum", "Checksum", "FECN", "BECN"} <= masked


def test_a_packet_that_is_not_there():
    with pytest.raises(InputError, match="allowed: 0 to 4"):
        frame_at(State(), "", 5)


def test_back_goes_by_the_same_addresses_turned_round():
    for network in Network:
        there, back = envelopes(network)
        assert (there.source_ip, there.source_mac, there.source_lid) == (
            back.target_ip, back.target_mac, back.target_lid,
        )  # fmt: skip
    acknowledgement = decode(frame_at(State(), "", 4) or b"").envelope
    assert acknowledgement is not None
    assert (acknowledgement.source_ip, acknowledgement.target_ip) == ("10.0.0.2", "10.0.0.1")


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("changed", "status", "said"),
    [
        ({}, "SUCCESS", "holds exactly the 16 KiB"),
        ({"fault": Fault.NO_RIGHT}, "REM_ACCESS_ERR", "ping between the two would be answered"),
        ({"fault": Fault.WRONG_STATE}, "none", "the adapter never saw it"),
        ({"fault": Fault.BAD_LKEY}, "LOC_PROT_ERR", "before it sent anything"),
        ({"fault": Fault.DEAD_PEER, "retries": 1}, "RETRY_EXC_ERR", "is untouched"),
        ({"fault": Fault.LOST_PACKET}, "SUCCESS", "3 packets were sent again"),
        (
            {"operation": Operation.SEND, "fault": Fault.NO_RECEIVE},
            "RNR_RETRY_EXC_ERR",
            "ping between the two would be answered",
        ),
        (
            {"operation": Operation.SEND, "fault": Fault.NO_RECEIVE, "rnr": 7},
            "SUCCESS",
            "waits without end",
        ),
        ({"service": ServiceName.UC}, "SUCCESS", "only that the packets have left"),
        ({"operation": Operation.READ}, "SUCCESS", "host 0's memory holds exactly"),
        ({"operation": Operation.FETCH_ADD}, "SUCCESS", "went from 41 to 42; host 0 has 41"),
    ],
)  # fmt: skip
def test_faults_end_in_their_status_and_sentences_say_so(changed, status, said):
    state = replace(State(), **changed)
    view = study(state, "", "")
    found = {one.key: one for one in view.numbers}
    assert found["requester_status"].text == status
    assert math.isnan(found["requester_status"].value)
    assert said in " ".join(view.sentences)
    if status != "none":
        assert played(state, "").run.status(0) is WcStatus[status]


def test_a_good_run_over_a_good_network_says_nothing_of_pings():
    assert "ping" not in " ".join(study(State(), "", "").sentences)
    dead = study(State(fault=Fault.DEAD_PEER, retries=0), "", "")
    assert "ping" not in " ".join(dead.sentences)  # nothing arrives, so a ping would not either


def test_every_number_has_its_help():
    for one in study(State(), "", "").numbers:
        assert quantity(one.key).definition


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"operation": Operation.SEND, "fault": Fault.NO_RECEIVE, "rnr": 2, "rnr_timer": 1},
        {"network": Network.IPV6, "service": ServiceName.UC},
        {"network": Network.INFINIBAND, "fault": Fault.LOST_PACKET, "lost": 2, "timeout": 8},
    ],
)
def test_the_python_makes_the_same_numbers(changed):
    state = replace(State(), **changed)
    run = played(state, "").run
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(study(state, "", "").reproduce.python, {})
    first, *events = said.getvalue().splitlines()
    status = run.status(0)
    wanted = (None if status is None else int(status), None, run.end_s, len(run.sent))
    assert first == " ".join(str(one) for one in (*wanted, run.retransmitted))
    assert len(events) == len(run.events)


# ---------------------------------------------------------------- captures


@pytest.mark.parametrize("network", Network)
def test_a_capture_of_the_wire_holds_the_packets_shown(tmp_path: Path, network):
    state = State(network=network, fault=Fault.LOST_ACK)
    path = tmp_path / "a.pcap"
    path.write_bytes(capture(state, ""))
    packets = list(read_packets(path))
    run = played(state, "")
    assert [one.data for one in packets] == [
        frame_at(state, "", number) for number in range(len(run.packets))
    ]
    gaps = [b.time_ns - a.time_ns for a, b in itertools.pairwise(packets)]
    times = [one.time_s for one in run.run.sent]
    assert gaps == pytest.approx([1e9 * (b - a) for a, b in itertools.pairwise(times)], abs=1.5)


# ---------------------------------------------------------------- on a design


def test_a_journey_shows_the_way_and_its_frames_at_any_port(tmp_path: Path):
    view = study(HERE, DESIGN, "design.yaml")
    run = played(HERE, DESIGN)
    assert run.journey is not None
    assert view.ends == (run.journey.ends.source_name, run.journey.ends.target_name)
    for packet in (0, len(run.packets) - 1):
        hops = hops_of(HERE, DESIGN, packet)
        assert hops is not None
        times = run.journey.hop_times(packet)
        assert [row[-1] for row in hops.rows] == [format_seconds(one.total_s) for one in times]
        assert hops.rows[0][0] == run.names[packet != 0]
    assert hops_of(State(), "", 0) is None
    assert view.at == view.ports[0]
    way = run.journey.ways[0]
    last = replace(HERE, at=way.hops[way.network[-1]].port_in)
    frames = [decode(frame_at(state, DESIGN, 0) or b"") for state in (HERE, last)]
    ttl = [frame.envelope.ttl for frame in frames if frame.envelope is not None]
    assert ttl[0] == 64
    assert ttl[1] < 64  # routed on the way
    assert frames[0].icrc == frames[1].icrc
    assert frames[1].icrc is not None
    assert frames[1].icrc.ok
    for every, name in ((False, "a.pcap"), (True, "a.pcapng")):
        (tmp_path / name).write_bytes(capture(HERE, DESIGN, every_hop=every))
    one, many = (list(read_packets(tmp_path / name)) for name in ("a.pcap", "a.pcapng"))
    assert len(one) == len(run.packets)
    hops = [len(way.network) for way in run.journey.ways]
    assert len(many) == sum(hops[sent.source] for sent in run.run.sent)


def test_the_journeys_command_and_python_name_what_was_chosen(tmp_path: Path):
    state = replace(HERE, fault=Fault.LOST_PACKET, lost=2, network=Network.IPV6, retries=3)
    view = study(state, DESIGN, "design.yaml")
    words = shlex.split(view.reproduce.command)
    assert words[words.index("--lost-packet") + 1] == "2"
    assert words[words.index("--retries") + 1] == "3"
    assert words[words.index("--ip-version") + 1] == "6"
    assert "--rnr-retries" not in words  # it changes nothing here
    waits = replace(HERE, operation=Operation.SEND, fault=Fault.NO_RECEIVE, rnr=3)
    assert "--rnr-retries 3" in study(waits, DESIGN, "design.yaml").reproduce.command
    path = tmp_path / "design.yaml"
    path.write_text(DESIGN, encoding="utf-8")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(view.reproduce.python.replace("design.yaml", str(path)), {})
    done, wire = said.getvalue().split()[:2]
    found = {one.key: one.value for one in view.numbers}
    assert float(done) == found["completion_time"]
    assert int(wire) == found["rdma_wire_bytes"]


def test_a_packet_lost_before_the_port_is_not_seen_there():
    state = replace(HERE, fault=Fault.LOST_PACKET)
    assert frame_at(state, DESIGN, 1) is not None
    journey = played(state, DESIGN).journey
    assert journey is not None
    there, back = journey.ways
    far = replace(state, at=there.hops[there.network[-1]].port_in)
    document = json.loads(frame_text(far, DESIGN, 1))
    assert document["hex"] == ""
    assert document["problems"] == [f"Packet 1 is not seen at {far.at}: it was lost before."]
    only_back = {back.hops[k].port for k in back.network} - {
        there.hops[k].port_in for k in there.network
    }
    for port in only_back:
        document = json.loads(frame_text(replace(state, at=port), DESIGN, 0))
        assert "its way does not lead there" in document["problems"][0]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"plane": PlaneName.FRONTEND}, "is TCP, which has no RDMA"),
        ({"plane": PlaneName.STORAGE}, "no storage plane"),
        ({"source": "node001/gpu0", "target": "node001/gpu1"}, "scale-up domain"),
        ({"source": "nod001/gpu0"}, "did you mean"),
        ({"at": "spine-99:port-1"}, "allowed: "),
    ],
)
def test_what_a_design_cannot_do_is_said(changed, said):
    state = replace(HERE, **changed)
    with pytest.raises(InputError, match=said):
        study(state, DESIGN, "design.yaml")


def test_the_design_is_a_design():
    assert railweave.parse(DESIGN, "d.yaml", files=False).build().fabric.gpus.size == 32
