"""Faults as text: every form is read, given back, and refused with what is allowed."""

import math

import pytest
from _fault_case import leaf_spine
from hypothesis import given
from hypothesis import strategies as st

from minifabric import clos
from railweave.engine._fault_targets import check_fault, find_device, port_links
from railweave.engine.fault_text import fault_forms, parse_fault
from railweave.engine.faults import (
    BitErrors,
    CnpWrongQueue,
    EcnOff,
    LinkDown,
    LinkFlap,
    LinkSlow,
    MtuMismatch,
    NicIgnoresCnp,
    NicSendsNoCnp,
    PfcOff,
    ReceiverNotReady,
    SlowReceiver,
    StragglerGpu,
    StuckReceiver,
    SwitchReboot,
    WrongDscpMap,
)
from railweave.errors import InputError

FABRIC = leaf_spine()
PORT, NIC = "leaf-1:port-3", "host01/nic0"

FORMS = {
    "link leaf-1:port-3 down": LinkDown(PORT),
    "leaf-1:port-3 down at 100us for 50us": LinkDown(PORT, at_s=1e-4, until_s=1.5e-4),
    "link leaf-1:port-3 down at 1 ms until 2 ms": LinkDown(PORT, at_s=1e-3, until_s=2e-3),
    "link leaf-1:port-3 down convergence 1us": LinkDown(PORT, convergence_s=1e-6),
    "link leaf-1:port-3 flaps 10ms 5 times at 1ms": LinkFlap(PORT, 0.01, 5, at_s=1e-3),
    "link leaf-1:port-3 flaps 10ms 5 times down 0.25": LinkFlap(PORT, 0.01, 5, 0.25),
    "link leaf-1:port-3 slow 0.5": LinkSlow(PORT, 0.5),
    "link leaf-1:port-3 loss 1e-4": BitErrors(PORT, loss=1e-4),
    "link leaf-1:port-3 loss 1% in for 1s": BitErrors(PORT, loss=0.01, way="in", until_s=1.0),
    "link leaf-1:port-3 ber 1e-8 out": BitErrors(PORT, ber=1e-8, way="out"),
    "switch spine-1 reboot at 1ms for 5ms": SwitchReboot("spine-1", at_s=1e-3, until_s=6e-3),
    "ecn leaf-2 off": EcnOff("leaf-2"),
    "pfc leaf-1:port-3 off": PfcOff(PORT),
    "dscp leaf-1 sonic-default": WrongDscpMap("leaf-1", "sonic-default"),
    "mtu spine-1 1500": MtuMismatch("spine-1", 1500),
    "mtu spine-1 1500 B": MtuMismatch("spine-1", 1500),
    "cnp leaf-1 priority 0": CnpWrongQueue("leaf-1", 0),
    "cnp host01/nic0 priority 3": CnpWrongQueue(NIC, 3),
    "receiver nic-2 stuck at 100us for 1ms": StuckReceiver("nic-2", at_s=1e-4, until_s=1.1e-3),
    "receiver host01/nic0 slow 0.5": SlowReceiver(NIC, 0.5),
    "receiver host01/nic0 not-ready": ReceiverNotReady(NIC),
    "host01/nic0 straggles 5us": StragglerGpu(NIC, 5e-6),
    "nic host01/nic0 ignores-cnp": NicIgnoresCnp(NIC),
    "host01/nic0 sends-no-cnp": NicSendsNoCnp(NIC),
}


@pytest.mark.parametrize("text", FORMS)
def test_every_form_is_read(text):
    assert parse_fault(text, FABRIC) == FORMS[text]


def test_every_kind_of_fault_has_a_form_in_the_help():
    assert len(fault_forms()) == len({(type(f), getattr(f, "ber", None)) for f in FORMS.values()})
    assert "link PORT down [at TIME] [for TIME | until TIME] [convergence TIME]" in fault_forms()


times = st.integers(0, 10**7).map(lambda k: k / 1e9)
shares = st.floats(1e-6, 0.999)


@st.composite
def any_fault(draw):
    at = draw(times)
    when = {"at_s": at}
    if draw(st.booleans()):
        when["until_s"] = round(at * 1e9 + draw(st.integers(1, 10**6))) / 1e9
    kind = draw(st.sampled_from(sorted({type(f) for f in FORMS.values()}, key=str)))
    if kind in (LinkDown, SwitchReboot, LinkFlap):
        when["convergence_s"] = draw(times)
    more = {
        LinkFlap: lambda: (1.0 + draw(times), draw(st.integers(1, 9)), draw(shares)),
        LinkSlow: lambda: (draw(shares),),
        BitErrors: lambda: (draw(shares), None, draw(st.sampled_from(("in", "out", "both")))),
        WrongDscpMap: lambda: (draw(st.sampled_from(("sonic-default", "class-selector"))),),
        MtuMismatch: lambda: (draw(st.integers(68, 9216)),),
        CnpWrongQueue: lambda: (draw(st.integers(0, 7)),),
        SlowReceiver: lambda: (draw(shares),),
        StragglerGpu: lambda: (1.0 + draw(times),),
    }
    name = "leaf-1"
    if kind in (LinkDown, LinkFlap, LinkSlow, BitErrors, PfcOff):
        name = PORT
    elif kind not in (SwitchReboot, EcnOff, WrongDscpMap, MtuMismatch, CnpWrongQueue):
        name = NIC
    return kind(name, *more.get(kind, tuple)(), **when)


@given(any_fault())
def test_a_fault_written_as_text_is_the_same_fault(fault):
    assert parse_fault(str(fault), FABRIC) == fault


REFUSED = {
    "": ["what it strikes is missing", "link"],
    "lnk leaf-1:port-3 down": ["'lnk'", "allowed: link, switch, ecn", "did you mean 'link'"],
    "link": ["the name is missing", "leaf-1:port-33"],
    "link leaf-1:port-3": ["what happens is missing", "down"],
    "link leaf-1:port-3 dwn": ["'dwn'", "flaps PERIOD N times", "did you mean 'down'"],
    "leaf-1:port-99 down at 1us for 1us": ["nothing is cabled at 'leaf-1:port-99'"],
    "link leaf-1:port-99 down": ["nothing is cabled at 'leaf-1:port-99'", "1–4"],
    "link leaf-1 down": ["'leaf-1' is not a port", "'leaf-1:port-12'"],
    "link leaf-1:port-3 slow": ["the part of its speed is missing"],
    "link leaf-1:port-3 slow fast": ["'fast' is not a number"],
    "link leaf-1:port-3 slow 2": ["factor is 2.0", "at most 1"],
    "link leaf-1:port-3 loss 2": ["a chance of 2.0", "0 to 1"],
    "link leaf-1:port-3 down at 5": ["'5' is not a number with a unit", "'2 us'"],
    "link leaf-1:port-3 down after 5us": ["'after'", "at TIME, for TIME, until TIME"],
    "link leaf-1:port-3 down untill 5us": ["did you mean 'until'"],
    "link leaf-1:port-3 down for 1us until 2us": ["say the same"],
    "link leaf-1:port-3 down at 2us until 1us": ["until_s is 1e-06", "after at_s"],
    "ecn leaf-2 off convergence 1ms": ["'convergence'", "allowed: at TIME"],
    "switch host01/nic0 reboot": ["'host01/nic0' is a NIC", "allowed: switch"],
    "switch spine-9 reboot": ["there is no 'spine-9'", "the last is 'spine-2'"],
    "receiver leaf-1 stuck": ["'leaf-1' is a switch", "allowed: GPU"],
    "receiver nic-9 stuck": ["there is no 'nic-9'", "nic-1 to nic-4"],
    "dscp leaf-1 sonic": ["there are no traffic classes 'sonic'", "sonic-default"],
    "mtu leaf-1 9": ["mtu_bytes is 9", "68 to 65,535"],
    "mtu leaf-1 big": ["the MTU"],
    "cnp leaf-1 priority 8": ["priority is 8", "0 to 7"],
    "cnp leaf-1 priority 1.5": ["1.5 is not a whole number"],
    "link leaf-1:port-3 flaps 0s 5": ["period_s is 0.0", "a time above 0"],
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_is_refused_with_what_can(text):
    with pytest.raises(InputError) as caught:
        parse_fault(text, FABRIC)
    said = str(caught.value)
    assert said.startswith(f"fault {text!r}: ")
    assert said.count("fault '") == 1
    for part in REFUSED[text]:
        assert part in said


def test_gpus_and_nics_are_counted_from_one():
    fabric, names = clos(servers=2, gpus=2)
    fifth = find_device(fabric, "gpu-3")
    assert fifth == names["server-1:gpu-0"]
    assert find_device(fabric, "nic-4") == names["server-1:nic-1"]
    out, into = port_links(fabric, "nic-4:port-1")
    assert fabric.link_src[out] == fabric.link_dst[into] == names["server-1:nic-1"]
    with pytest.raises(
        InputError, match="nothing is cabled at 'nic-4:port-2'; allowed: nic-4:port-1"
    ):
        port_links(fabric, "nic-4:port-2")


def test_a_fault_on_a_link_that_is_out_already_is_refused():
    fabric = FABRIC.without(duplex=[4])
    with pytest.raises(InputError, match="is out already; allowed: a link that is up"):
        check_fault(LinkDown(PORT), fabric)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinkDown(PORT, at_s=-1),
        lambda: LinkDown(PORT, at_s=math.nan),
        lambda: LinkDown(PORT, until_s=math.inf),
        lambda: LinkDown(PORT, convergence_s=-1),
        lambda: LinkFlap(PORT, 1.0, 0),
        lambda: LinkFlap(PORT, 1.0, 1, 1.0),
        lambda: BitErrors(PORT),
        lambda: BitErrors(PORT, loss=0.1, ber=0.1),
        lambda: BitErrors(PORT, loss=0.1, way="up"),
        lambda: StragglerGpu(NIC, 0.0),
    ],
)
def test_values_that_cannot_be_are_refused(make):
    with pytest.raises(InputError, match="allowed: "):
        make()


def test_loss_follows_from_the_bit_error_rate_and_the_packet():
    errors = BitErrors(PORT, ber=1e-6)
    assert errors.loss_of(1250) == pytest.approx(1 - (1 - 1e-6) ** 10_000)
    assert BitErrors(PORT, ber=1e-15).loss_of(1250) == pytest.approx(1e-11)
    assert BitErrors(PORT, ber=1.0).loss_of(1) == 1.0
    assert BitErrors(PORT, loss=0.25).loss_of(64) == 0.25


def test_a_flap_is_down_for_its_share_of_each_period():
    flap = LinkFlap(PORT, 10.0, 3, 0.2, at_s=1.0, until_s=22.0)
    assert flap.intervals() == ((1.0, 3.0), (11.0, 13.0), (21.0, 22.0))
