"""What the options of ``railweave packet journey`` do."""

from __future__ import annotations

from _effects_base import Effect, Seen, appears, becomes, choices, differs, grows, to_json

_FROM = "packet journey --design {journey} --from node001/gpu0"
_PLAIN = f"{_FROM} --to node002/gpu1"
_LINE = f"{_PLAIN} --json"
_NAME = "packet journey"


def _files(*names: str) -> object:
    """Hold where the second leaves these files and the first none."""
    return lambda before, after: (before.files, after.files) == ((), names)


def _port(before: Seen, after: Seen) -> bool:
    """Hold where the second capture is of the other end's port."""
    ports = [seen.at("capture.ports") for seen in (before, after)]
    return ports == [["node001/nic0:port-1"], ["node002/nic1:port-1"]]


def journey_effects() -> dict[str, Effect]:
    """Return the effects of the options of ``packet journey``."""
    operations = {
        "send": ("write", "write"),
        "send-imm": ("write", "write"),
        "write": ("send", "send"),
        "write-imm": ("write", "write"),
        "read": ("write", "write"),
        "cas": ("faa", "faa"),
        "faa": ("cas", "cas"),
    }
    planes = {
        "backend": ("frontend", "frontend"),
        "frontend": ("backend", "backend"),
        "storage": ("frontend", "frontend"),
        "management": ("frontend", "frontend"),
    }
    hosts = "packet journey --design {journey} --from node001 --to node002 --json"
    faults = {
        "bad-rkey": ("", "REM_ACCESS_ERR"),
        "no-right": ("", "REM_ACCESS_ERR"),
        "out-of-bounds": ("", "REM_ACCESS_ERR"),
        "wrong-pd": ("", "REM_ACCESS_ERR"),
        "bad-lkey": ("", "LOC_PROT_ERR"),
        "dead-peer": ("", "RETRY_EXC_ERR"),
    }
    lost = f"{_LINE} --fault lost-packet"
    late = f"{_LINE} --op send --fault no-receive"
    queue = f"{_LINE} --congested leaf-1"
    return {
        f"{_NAME} --design": Effect(
            _LINE, _LINE.replace("{journey}", "{rails}"), grows("delivered_s")
        ),
        f"{_NAME} --from": Effect(
            _LINE,
            _LINE.replace("node001/gpu0", "node003/gpu0"),
            becomes("source", "node001/gpu0", "node003/gpu0"),
        ),
        f"{_NAME} --to": Effect(
            _LINE,
            _LINE.replace("node002/gpu1", "node003/gpu1"),
            becomes("target", "node002/gpu1", "node003/gpu1"),
        ),
        f"{_NAME} --op": Effect(_LINE, f"{_LINE} --op read", becomes("operation", "write", "read")),
        **{
            f"{_NAME} --op={op}": Effect(
                f"{_LINE} --op {other}", f"{_LINE} --op {op}", becomes("operation", seen, op)
            )
            for op, (other, seen) in operations.items()
        },
        f"{_NAME} --size": Effect(_LINE, f"{_LINE} --size 1MiB", grows("delivered_s")),
        f"{_NAME} --mtu": Effect(_LINE, f"{_LINE} --mtu 1024", grows("packets")),
        f"{_NAME} --plane": Effect(
            hosts, f"{hosts} --plane frontend", becomes("transport", "rocev2", "tcp")
        ),
        **{
            f"{_NAME} --plane={plane}": Effect(
                f"{hosts} --plane {other}",
                f"{hosts} --plane {plane}",
                becomes("plane", seen, plane),
            )
            for plane, (other, seen) in planes.items()
        },
        f"{_NAME} --service": Effect(
            f"{_LINE} --op send", f"{_LINE} --op send --service uc", differs("packets")
        ),
        **choices(
            _NAME,
            "service",
            "completed_s",
            f"{_LINE} --op send --size 4KiB",
            {"rc": ("uc", grows), "uc": ("rc", differs), "ud": ("rc", differs)},
        ),
        f"{_NAME} --ip-version": Effect(
            _LINE, f"{_LINE} --ip-version 6", becomes("ip_version", 4, 6)
        ),
        f"{_NAME} --ip-version=6": Effect(
            f"{_LINE} --ip-version 4", f"{_LINE} --ip-version 6", grows("wire_bytes.0")
        ),
        f"{_NAME} --ip-version=4": Effect(
            f"{_LINE} --ip-version 6", f"{_LINE} --ip-version 4", becomes("ip_version", 6, 4)
        ),
        f"{_NAME} --queue-pair": Effect(
            _LINE, f"{_LINE} --queue-pair 1", differs("there.source_port")
        ),
        f"{_NAME} --pcap": Effect(_PLAIN, f"{_PLAIN} --pcap {{out}}/out.pcap", _files("out.pcap")),
        f"{_NAME} --at": Effect(
            f"{_LINE} --pcap {{out}}/out.pcap",
            f"{_LINE} --pcap {{out}}/out.pcap --at node002",
            _port,
        ),
        f"{_NAME} --fault": Effect(
            _LINE,
            f"{_LINE} --fault bad-rkey",
            becomes("completions.0.status", "SUCCESS", "REM_ACCESS_ERR"),
        ),
        **{
            f"{_NAME} --fault={fault}": Effect(
                f"{_LINE} --fault none",
                f"{_LINE} --fault {fault}",
                becomes("completions.0.status", "SUCCESS", status),
            )
            for fault, (_, status) in faults.items()
        },
        f"{_NAME} --fault=none": Effect(
            f"{_LINE} --fault bad-rkey",
            f"{_LINE} --fault none",
            becomes("completions.0.status", "REM_ACCESS_ERR", "SUCCESS"),
        ),
        f"{_NAME} --fault=lost-packet": Effect(
            f"{_LINE} --fault none", lost, becomes("lost", 0, 1)
        ),
        f"{_NAME} --fault=lost-ack": Effect(
            f"{_LINE} --fault none", f"{_LINE} --fault lost-ack", grows("completed_s")
        ),
        f"{_NAME} --fault=no-receive": Effect(
            f"{_LINE} --op send --fault none", late, grows("delivered_s")
        ),
        f"{_NAME} --fault=short-receive": Effect(
            f"{_LINE} --op send --fault none",
            f"{_LINE} --op send --fault short-receive",
            differs("delivered_s"),
        ),
        f"{_NAME} --fault=wrong-state": Effect(
            f"{_LINE} --fault none",
            f"{_LINE} --fault wrong-state",
            lambda before, after: before.at("packets") > after.at("packets") == 0,
        ),
        f"{_NAME} --lost-packet": Effect(
            lost,
            f"{lost} --lost-packet 3",
            lambda before, after: (
                before.at("packet_list.0.lost_at") is not None
                and after.at("packet_list.3.lost_at") is not None
                and after.at("packet_list.0.lost_at") is None
            ),
        ),
        f"{_NAME} --lost-at": Effect(
            lost, f"{lost} --lost-at leaf-1", differs("packet_list.0.lost_at")
        ),
        f"{_NAME} --retries": Effect(
            f"{_LINE} --fault dead-peer",
            f"{_LINE} --fault dead-peer --retries 1",
            lambda before, after: before.at("packets") > after.at("packets"),
        ),
        f"{_NAME} --rnr-retries": Effect(
            late, f"{late} --rnr-retries 0", differs("completions.0.status")
        ),
        f"{_NAME} --timeout": Effect(
            f"{_LINE} --fault lost-ack",
            f"{_LINE} --fault lost-ack --timeout 18",
            grows("completed_s"),
        ),
        f"{_NAME} --congested": Effect(_LINE, queue, grows("marked")),
        f"{_NAME} --queue": Effect(
            queue,
            f"{queue} --queue 0B",
            lambda before, after: before.at("marked") > 0 == after.at("marked"),
        ),
        f"{_NAME} --packet": Effect(_LINE, f"{_LINE} --packet 5", becomes("shown_packet", 0, 5)),
        f"{_NAME} --events": Effect(
            f"{_PLAIN} --events 200", f"{_PLAIN} --events 2", appears("more steps")
        ),
        f"{_NAME} --seed": Effect(_LINE, f"{_LINE} --seed 3", differs("queue_pairs")),
        f"{_NAME} --fail": Effect(_LINE, f"{_LINE} --fail node001/nic0", differs("there.stages")),
        f"{_NAME} --json": Effect(_PLAIN, _LINE, to_json),
    }
