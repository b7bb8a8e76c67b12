"""Lab 4 in a browser: faults, one selection everywhere, linked bytes, keys, captures, a design."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lab_pages import answering, enter, open_lab, select, unfold
from typer.testing import CliRunner

from railweave.cli._app import app
from railweave.formats.pcap import read_packets
from railweave.studio.labs._rdma_words import FAULTS, OPERATIONS
from railweave.transport.codec import Envelope, decode, encode
from railweave.transport.verbs import AdapterTiming
from railweave.transport.verbs.operation import Fault, Operation, OperationCase, run_operation
from railweave.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from railweave.transport.verbs.operation import OperationRun

pytestmark = pytest.mark.browser
WAIT_MS = 20_000
DESIGN = Path(__file__).resolve().parents[2] / "examples" / "superpod-h100-1su.yaml"


def expect_value(page: Page, key: str, text: str) -> None:
    from playwright.sync_api import expect

    value = page.locator(f'[data-number="{key}"] .rw-value')
    expect(value).to_have_text(text, timeout=WAIT_MS)


def expect_run(page: Page, run: OperationRun) -> None:
    """The tiles show what the Python API gives."""
    done = [one.time_s for one in run.completions if one.host == 0]
    wire = sum(AdapterTiming().wire_bytes(one.packet) for one in run.sent)
    for key, text in {
        "completion_time": format_seconds(max(done)) if done else "never",
        "rdma_packets": f"{len(run.sent):,}",
        "rdma_wire_bytes": format_bytes(wire),
        "rdma_repeated": f"{run.retransmitted:,}",
        "requester_status": "none" if run.status(0) is None else run.status(0).name,
        "responder_status": "none" if run.status(1) is None else run.status(1).name,
    }.items():
        expect_value(page, key, text)


def lit_bytes(page: Page) -> list[int]:
    cells = page.locator(".rwp-bytes .rwp-hex .rwp-lit").evaluate_all(
        "cells => cells.map(one => Number(one.dataset.byte))"
    )
    return sorted(cells)


def wait_for_lit(page: Page, *wanted: int) -> None:
    page.wait_for_function(
        "wanted => JSON.stringify([...document.querySelectorAll('.rwp-bytes .rwp-hex .rwp-lit')]"
        ".map(one => Number(one.dataset.byte))) === JSON.stringify(wanted)",
        arg=list(wanted),
        timeout=WAIT_MS,
    )


def wait_for_packet(page: Page, number: int) -> None:
    page.get_by_text(f"Headers of packet {number}", exact=True).wait_for(timeout=WAIT_MS)
    page.locator(f'.rwp-list [data-packet="{number}"][aria-selected="true"]').wait_for()


def wait_for_address(page: Page, pattern: str) -> None:
    page.wait_for_url(re.compile(pattern), timeout=WAIT_MS)


def test_an_operation_from_registration_to_completion(page: Page, studio: str):
    from playwright.sync_api import expect

    open_lab(page, f"{studio}/lab/rdma")
    run = run_operation(OperationCase(Operation.WRITE, 16_384, rnr_retry=6))
    expect_run(page, run)
    steps = page.locator(".rwp-phases button")
    assert steps.all_inner_texts() == ["register", "connect", "post", "transport", "complete"]
    for name in ("connect", "post", "transport", "complete"):
        steps.get_by_text(name, exact=True).click()
        expect(page.locator(".rwp-phases .rwp-on")).to_have_text(name)
        first = next(e for e in run.events if e.phase.value == name)
        expect(page.locator(".rwp-now")).to_contain_text(first.what)
        lit = page.locator(".rwp-part.rwp-lit")
        expect(lit).to_have_attribute("data-part", first.part.value)
        expect(lit).to_have_attribute("data-host", str(first.host))
    # the Python shown makes the same numbers
    unfold(page, "Copy as command or Python")
    shown = page.locator(".rw-copy-python").inner_text()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(shown, {})
    assert said.getvalue().splitlines()[0] == f"0 None {run.end_s} 5 0"


@pytest.mark.parametrize(
    ("operation", "fault", "status"),
    [
        (Operation.WRITE, Fault.BAD_RKEY, "REM_ACCESS_ERR"),
        (Operation.WRITE, Fault.WRONG_STATE, "none"),
        (Operation.SEND, Fault.NO_RECEIVE, "RNR_RETRY_EXC_ERR"),
    ],
)
def test_a_fault_ends_in_its_status(page: Page, studio: str, operation, fault, status):
    open_lab(page, f"{studio}/lab/rdma")
    if operation is not Operation.WRITE:
        select(page, "Operation", OPERATIONS[operation.value])
    select(page, "Fault", FAULTS[fault.value])
    expect_value(page, "requester_status", status)
    expect_run(page, run_operation(OperationCase(operation, 16_384, fault=fault, rnr_retry=6)))


def test_a_lost_packet_is_seen_in_drawing_list_and_trace(page: Page, studio: str):
    from playwright.sync_api import expect

    open_lab(page, f"{studio}/lab/rdma?fault=lost-packet")
    expect_run(
        page,
        run_operation(
            OperationCase(Operation.WRITE, 16_384, fault=Fault.LOST_PACKET, lost_packet=1)
        ),
    )
    notes = page.locator(".rwp-list .rwp-said").all_inner_texts()
    assert notes[:2] == ["", "lost"]
    assert notes[5] == "sent again"
    lost = page.locator(".rwp-event", has_text="The fabric loses the packet")
    lost.click()
    expect(page.locator(".rwp-fabric")).to_have_class(re.compile("rwp-lit"))
    expect(page.locator(".rwp-token.rwp-gone .rwp-cross")).to_have_count(1)
    wait_for_packet(page, 1)
    enter(page, "Lost packet, from 0", "3")
    page.locator('.rwp-list [data-packet="3"] .rwp-said', has_text="lost").wait_for()


def test_one_selection_through_list_drawing_trace_and_address(page: Page, studio: str):
    from playwright.sync_api import expect

    open_lab(page, f"{studio}/lab/rdma")
    wait_for_packet(page, 0)
    page.locator('.rwp-list [data-packet="4"]').click()
    wait_for_packet(page, 4)
    expect(page.locator(".rwp-event.rwp-on")).to_contain_text("The adapter sends an ACK")
    expect(page.locator(".rwp-token.rwp-on")).to_have_attribute("data-packet", "4")
    page.locator(".rwp-event", has_text="sends WRITE_LAST").click()
    wait_for_packet(page, 3)
    token = page.locator('.rwp-token[data-packet="1"]')
    token.dispatch_event("click")
    wait_for_packet(page, 1)
    page.locator('[data-path="BTH.PSN"]').click()
    wait_for_address(page, "packet=1.*field=BTH.PSN")
    # the link shows the same to someone else
    other = page.context.browser.new_context().new_page()
    other.goto(page.url)
    wait_for_packet(other, 1)
    wait_for_lit(other, 51, 52, 53)
    expect(other.locator(".rwp-event.rwp-on")).to_contain_text("PSN 41395")
    other.context.close()


def test_a_field_lights_its_bytes_and_a_byte_its_field(page: Page, studio: str):
    from playwright.sync_api import expect

    open_lab(page, f"{studio}/lab/rdma")
    wait_for_packet(page, 0)
    run = run_operation(OperationCase(Operation.WRITE, 16_384))
    frame = decode(encode(run.sent[0].packet, Envelope()))
    fields = {f"{layer.name}.{one.name}": one for layer in frame.layers for one in layer.fields}
    for path in ("RETH.R_Key", "IPv4.ECN", "Ethernet.Source"):
        page.locator(f'[data-path="{path}"]').click()
        one = fields[path]
        first, last = one.first_bit // 8, (one.first_bit + one.bits - 1) // 8
        wait_for_lit(page, *range(first, last + 1))
        expect(page.locator(".rwp-picked")).to_contain_text(one.text)
        bits = page.locator(".rwp-bits .rwp-lit").all_inner_texts()
        assert int("".join(bits), 2) == one.value
    # back: the byte of TTL, then a byte of two fields, one after the other
    byte = page.locator('.rwp-hex [data-byte="22"]')
    byte.click()
    chosen = page.locator('.rwp-tree [aria-selected="true"]')
    expect(chosen).to_have_attribute("data-path", "IPv4.TTL")
    expect(chosen).to_contain_text("ones in the ICRC")
    assert "rwp-mask" in (byte.get_attribute("class") or "")
    page.locator('.rwp-text [data-byte="15"]').click()
    expect(chosen).to_have_attribute("data-path", "IPv4.DSCP")
    page.locator('.rwp-hex [data-byte="15"]').click()
    expect(chosen).to_have_attribute("data-path", "IPv4.ECN")
    page.locator(".rwp-bits button").first.click()
    expect(chosen).to_have_attribute("data-path", "IPv4.DSCP")
    # the ICRC's own bytes, far down
    page.locator('[data-path="ICRC.ICRC"]').click()
    wait_for_lit(page, *range(len(frame.data) - 4, len(frame.data)))
    expect(page.locator(".rwp-icrc")).to_contain_text(f"{frame.icrc.expected:#010x}: right")


def test_everything_goes_by_keyboard(page: Page, studio: str):
    from playwright.sync_api import expect

    open_lab(page, f"{studio}/lab/rdma")
    wait_for_packet(page, 0)
    stage = page.locator(".rwp-stage")
    stage.press("4")
    expect(page.locator(".rwp-phases .rwp-on")).to_have_text("transport")
    step = page.get_by_role("slider", name="Step", exact=True)
    at = int(step.input_value())
    stage.press("ArrowRight")
    expect(step).to_have_value(str(at + 1))
    stage.press("End")
    expect(page.locator(".rwp-phases .rwp-on")).to_have_text("complete")
    stage.press(" ")  # from the end it plays from the beginning
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(step).not_to_have_value("0", timeout=WAIT_MS)
    stage.press(" ")
    expect(page.get_by_role("button", name="Play")).to_be_visible()

    packets = page.get_by_role("grid", name="List of packets")
    packets.press("Home")
    packets.press("ArrowDown")
    wait_for_packet(page, 1)
    expect(packets).to_have_attribute("aria-activedescendant", re.compile("-p1$"))
    tree = page.get_by_role("tree", name="Header tree")
    tree.press("Home")
    tree.press("ArrowDown")
    wait_for_lit(page, *range(6))
    tree.press("ArrowLeft")
    wait_for_lit(page, *range(14))
    tree.press("ArrowLeft")
    expect(page.locator('[data-path="Ethernet.Source"]')).to_have_count(0)
    tree.press("ArrowRight")
    expect(page.locator('[data-path="Ethernet.Source"]')).to_have_count(1)
    data = page.get_by_role("grid", name="Bytes of the packet")
    data.press("Home")
    for _ in range(12):
        data.press("ArrowRight")
    wait_for_lit(page, 12, 13)
    expect(page.locator(".rwp-picked")).to_contain_text("EtherType: 0x0800 (IPv4)")
    trace = page.get_by_role("grid", name="Event trace")
    trace.press("Home")
    trace.press("ArrowDown")
    expect(page.locator(".rwp-event.rwp-on")).to_have_attribute("data-step", "1")
    wait_for_address(page, "step=1")


def test_the_capture_holds_the_packets_shown(page: Page, studio: str, tmp_path: Path):
    open_lab(page, f"{studio}/lab/rdma?operation=read&size=8+KiB&mtu=1024")
    shown = page.locator(".rwp-list .rwp-rows [role=row]")
    assert shown.count() == 9
    with page.expect_download() as found:
        page.get_by_role("button", name="Download these packets (pcap)").click()
    path = tmp_path / found.value.suggested_filename
    found.value.save_as(path)
    assert path.name == "read-none.pcap"
    packets = list(read_packets(path))
    run = run_operation(OperationCase(Operation.READ, 8192, mtu_bytes=1024))
    assert len(packets) == len(run.sent) == 9
    frames = [decode(packet.data) for packet in packets]
    assert all(frame.icrc is not None and frame.icrc.ok for frame in frames)
    psn = [frame.packet.bth.psn for frame in frames]
    assert psn == [sent.packet.bth.psn for sent in run.sent]
    assert [str(one) for one in psn] == [
        row.locator("[role=gridcell]").nth(4).inner_text() for row in shown.all()
    ]


def test_many_packets_are_listed_but_few_rows_exist(page: Page, studio: str):
    open_lab(page, f"{studio}/lab/rdma?size=1+MiB&mtu=256")
    grid = page.get_by_role("grid", name="List of packets")
    count = int(grid.get_attribute("aria-rowcount") or "0")
    assert count > 4096
    assert page.locator(".rwp-list .rwp-rows [role=row]").count() < 40
    wait_for_packet(page, 0)
    grid.press("End")
    wait_for_packet(page, count - 1)
    page.get_by_role("button", name="Earlier events").wait_for()


def test_a_narrow_window_is_not_widened(page: Page, studio: str):
    page.set_viewport_size({"width": 390, "height": 800})
    open_lab(page, f"{studio}/lab/rdma?fault=bad-rkey")
    page.locator(".rwp-stage svg.rwp-tall").wait_for()
    wait_for_packet(page, 0)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # eight bytes a line
    assert page.locator('.rwp-line:has([data-byte="8"]) .rwp-offset').inner_text() == "0008"


def test_through_the_loaded_design_the_numbers_are_the_commands(
    page: Page, studio: str, tmp_path: Path
):
    from playwright.sync_api import expect

    open_lab(page, f"{studio}/lab/rdma")
    select(page, "Between the hosts", "the loaded design")
    ends = [page.get_by_label(name, exact=True) for name in ("From", "To")]
    expect(ends[0]).not_to_have_value("", timeout=WAIT_MS)
    unfold(page, "Copy as command or Python")
    command = page.locator(".rw-copy-command").inner_text().strip()
    words = shlex.split(command)
    assert words[:3] == ["railweave", "packet", "journey"]
    words[words.index("--design") + 1] = str(DESIGN)
    words[words.index("--pcap") + 1] = str(tmp_path / "cli.pcap")
    done = CliRunner().invoke(app, [*words[1:], "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.output)
    expect_value(page, "completion_time", format_seconds(document["completed_s"]))
    expect_value(page, "rdma_packets", f"{document['packets']:,}")
    expect_value(page, "rdma_wire_bytes", format_bytes(sum(document["wire_bytes"])))
    rows = page.locator(".rw-rdma-hops tbody tr")
    expect(rows).to_have_count(len(document["hop_times"]), timeout=WAIT_MS)
    totals = [row.locator("td").last.inner_text() for row in rows.all()]
    assert totals == [format_seconds(hop["total_s"]) for hop in document["hop_times"]]
    with page.expect_download() as found:
        page.get_by_role("button", name="Download these packets (pcap)").click()
    found.value.save_as(tmp_path / "lab.pcap")
    assert list(read_packets(tmp_path / "lab.pcap")) == list(read_packets(tmp_path / "cli.pcap"))
    # the way of another packet, and how it looks where it comes in
    page.locator('.rwp-list [data-packet="4"]').click()
    page.get_by_text("The way of packet 4, hop by hop", exact=True).wait_for(timeout=WAIT_MS)
    # another end by name, and one that is none
    with answering(page):
        ends[1].fill("node002/gpu3")
        ends[1].press("Enter")
    expect(page.locator(".rwp-host-1 .rwp-name")).to_contain_text("node002/gpu3")
    with answering(page):
        ends[1].fill("node02x/gpu3")
        ends[1].press("Enter")
    expect(page.locator(".rw-banner")).to_contain_text("there is no 'node02x'")
