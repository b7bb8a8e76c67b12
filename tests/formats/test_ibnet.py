"""ibsim net files: what is written, and what is refused."""

import pytest

from railweave.errors import InputError
from railweave.formats.ibnet import IbNode, IbPort, write_ibnet


def pair(**change):
    host = {"name": "h/nic0", "is_switch": False, "n_ports": 1, "ports": (IbPort(1, "s", 2, 4e11),)}
    switch = IbNode("s", True, 4, (IbPort(2, "h/nic0", 1, 1e11),))
    return IbNode(**(host | change)), switch


def test_text_of_a_pair():
    assert write_ibnet(pair()) == (
        'Hca\t1 "h/nic0"\n'
        '[1]\t"s"[2]\t# lid 0 lmc 0 "s" lid 0 4xHDR\n'  # 400 Gb/s: the fastest that ibsim knows
        "\n"
        'Switch\t4 "s"\n'
        '[2]\t"h/nic0"[1]\t# lid 0 lmc 0 "h/nic0" lid 0 4xEDR\n'
    )


@pytest.mark.parametrize(
    ("gbps", "name"), [(1, "SDR"), (10, "SDR"), (56, "FDR"), (99, "FDR"), (200, "HDR")]
)
def test_speed_is_the_fastest_known_that_is_not_faster(gbps, name):
    link = IbPort(1, "s", 2, gbps * 1e9)
    assert f"4x{name}\n" in write_ibnet(pair(ports=(link,)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "s"}, "twice"),
        ({"name": 'a"b'}, "printable"),
        ({"n_ports": 0}, "1 to 254"),
        ({"ports": (IbPort(2, "s", 2, 1e9),)}, "port 2 of 'h/nic0' does not exist"),
        ({"ports": (IbPort(1, "s", 2, 1e9), IbPort(1, "s", 2, 1e9))}, "connected twice"),
        ({"ports": (IbPort(1, "s", 3, 1e9),)}, "leads to nothing"),
        ({"ports": ()}, "leads to nothing"),
    ],
)
def test_what_cannot_be_simulated_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        write_ibnet(pair(**change))
