"""The command line's form of a fault: ``link leaf-1:port-33 down at 100us for 50us``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from railweave.engine._fault_targets import check_fault
from railweave.engine.faults import (
    BitErrors,
    CnpWrongQueue,
    EcnOff,
    Fault,
    LinkDown,
    LinkFlap,
    LinkSlow,
    MtuMismatch,
    NicIgnoresCnp,
    NicSendsNoCnp,
    Outage,
    PfcOff,
    ReceiverNotReady,
    SlowReceiver,
    StragglerGpu,
    StuckReceiver,
    SwitchReboot,
    WrongDscpMap,
)
from railweave.errors import InputError
from railweave.fabric import Fabric
from railweave.formats.validation import list_names, nearest
from railweave.units import parse_bytes, parse_seconds

__all__ = ["fault_forms", "parse_fault"]

#: a number and a unit written apart, as ``100 us``; ``5 times`` is none
_APART = re.compile(r"(?<![\w.:/-])(\d[\d.]*(?:[eE][+-]?\d+)?)\s+([munpµμ]?s|[kKMG]?i?B)(?!\w)")
_TIMES = "[at TIME] [for TIME | until TIME]"


def _whole_ps(seconds: float) -> float:
    return round(seconds * 1e12) / 1e12


class _Words:
    """The words of a fault, taken from the left."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.left = _APART.sub(r"\1\2", text).split()

    def fail(self, message: str) -> InputError:
        return InputError(f"fault {self.text!r}: {message}")

    def take(self, what: str, example: str) -> str:
        if not self.left:
            raise self.fail(f"{what} is missing at its end; such as {example}")
        return self.left.pop(0)

    def maybe(self, *words: str) -> str:
        """Take the next word if it is one of these."""
        return self.left.pop(0) if self.left and self.left[0] in words else ""

    def seconds(self, what: str) -> float:
        word = self.take(what, "100us")
        try:
            # the engine counts picoseconds; so 100us is 1e-4 whatever the arithmetic of units
            return _whole_ps(parse_seconds(word))
        except InputError as error:
            raise self.fail(f"{what}: {error}") from None

    def number(self, what: str, example: str) -> float:
        word = self.take(what, example)
        try:
            return float(word[:-1]) / 100 if word.endswith("%") else float(word)
        except ValueError:
            raise self.fail(f"{what}: {word!r} is not a number; such as {example}") from None

    def whole(self, what: str, example: str) -> int:
        value = self.number(what, example)
        if value != int(value):
            raise self.fail(f"{what}: {value!r} is not a whole number; such as {example}")
        return int(value)

    def unknown(self, word: str, what: str, allowed: list[str]) -> InputError:
        near = nearest(word, [a.split()[0] for a in allowed])
        hint = f"; did you mean {near!r}?" if near else ""
        return self.fail(f"{word!r} is not {what}; allowed: {list_names(allowed)}{hint}")


Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Form:
    """One thing that can happen to a kind of part; ``verb`` is empty where a value stands there."""

    verb: str
    usage: str
    make: Callable[..., Fault]
    field: str
    read: Callable[[_Words], Arguments] = lambda words: {}


def _flaps(words: _Words) -> Arguments:
    found: Arguments = {"period_s": words.seconds("the period")}
    found["times"] = words.whole("how often", "5")
    words.maybe("times")
    if words.maybe("down"):
        found["down_share"] = words.number("the part of a period that it is down", "0.5")
    return found


def _loss(name: str) -> Callable[[_Words], Arguments]:
    def read(words: _Words) -> Arguments:
        found: Arguments = {name: words.number("the chance", "1e-4")}
        way = words.maybe("in", "out", "both")
        return found | ({"way": way} if way else {})

    return read


def _factor(words: _Words) -> Arguments:
    return {"factor": words.number("the part of its speed", "0.5")}


def _mtu(words: _Words) -> Arguments:
    word = words.take("the MTU", "1500")
    try:
        size = float(word) if re.fullmatch(r"\d+", word) else parse_bytes(word)
    except InputError as error:
        raise words.fail(f"the MTU: {error}") from None
    return {"mtu_bytes": round(size)}


def _priority(words: _Words) -> Arguments:
    return {"priority": words.whole("the priority", "0")}


_FORMS: Final[dict[str, tuple[_Form, ...]]] = {
    "link": (
        _Form("down", "down", LinkDown, "port"),
        _Form("flaps", "flaps PERIOD N times [down SHARE]", LinkFlap, "port", _flaps),
        _Form("slow", "slow FACTOR", LinkSlow, "port", _factor),
        _Form("loss", "loss CHANCE [in|out]", BitErrors, "port", _loss("loss")),
        _Form("ber", "ber RATE [in|out]", BitErrors, "port", _loss("ber")),
    ),
    "switch": (_Form("reboot", "reboot", SwitchReboot, "device"),),
    "ecn": (_Form("off", "off", EcnOff, "device"),),
    "pfc": (_Form("off", "off", PfcOff, "port"),),
    "dscp": (
        _Form(
            "",
            "CLASSES",
            WrongDscpMap,
            "device",
            lambda words: {"classes": words.take("the traffic classes", "sonic-default")},
        ),
    ),
    "mtu": (_Form("", "BYTES", MtuMismatch, "device", _mtu),),
    "cnp": (_Form("priority", "priority P", CnpWrongQueue, "device", _priority),),
    "receiver": (
        _Form("stuck", "stuck", StuckReceiver, "receiver"),
        _Form("slow", "slow FACTOR", SlowReceiver, "receiver", _factor),
        _Form("not-ready", "not-ready", ReceiverNotReady, "receiver"),
    ),
    "gpu": (
        _Form(
            "straggles",
            "straggles TIME",
            StragglerGpu,
            "gpu",
            lambda words: {"delay_s": words.seconds("the delay")},
        ),
    ),
    "nic": (
        _Form("ignores-cnp", "ignores-cnp", NicIgnoresCnp, "nic"),
        _Form("sends-no-cnp", "sends-no-cnp", NicSendsNoCnp, "nic"),
    ),
}
_TARGET: Final = {"link": "PORT", "pfc": "PORT", "receiver": "GPU", "gpu": "GPU", "nic": "NIC"}


def fault_forms() -> tuple[str, ...]:
    """Return how each kind of fault is written, for help texts."""
    return tuple(
        f"{noun} {_TARGET.get(noun, 'SWITCH')} {form.usage} {_TIMES}"
        + (" [convergence TIME]" if _is_outage(form) else "")
        for noun, forms in _FORMS.items()
        for form in forms
    )


def _is_outage(form: _Form) -> bool:
    return isinstance(form.make, type) and issubclass(form.make, Outage)


def parse_fault(text: str, fabric: Fabric) -> Fault:
    """Read a fault such as ``link leaf-1:port-33 down at 100us for 50us``.

    A fault is what it strikes, the name, what happens, and when: ``at TIME`` (else since before the
    run), ``for TIME`` or ``until TIME`` (else for good). Where what happens leaves no doubt the
    first word may be missing: ``node001/gpu3 straggles 5us``. See :func:`fault_forms`.

    Args:
        text: the fault.
        fabric: whose parts are named.

    Raises:
        InputError: words that mean nothing, a number that cannot be, a name that the fabric does
            not have; it says what is allowed, and the nearest.
    """
    words = _Words(text)
    noun = _noun(words)
    forms = _FORMS[noun]
    name = words.take("the name", "leaf-1:port-33" if _TARGET.get(noun) == "PORT" else "leaf-1")
    form = forms[0]
    if form.verb:
        verb = words.take("what happens", forms[0].usage)
        found = [f for f in forms if f.verb == verb]
        if not found:
            raise words.unknown(verb, f"what can happen to a {noun}", [f.usage for f in forms])
        form = found[0]
    arguments = form.read(words) | _when(words, _is_outage(form)) | {form.field: name}
    try:
        fault = form.make(**arguments)
    except InputError as error:
        raise words.fail(str(error)) from None
    try:
        check_fault(fault, fabric)
    except InputError as error:
        raise words.fail(str(error).removeprefix(f"fault {str(fault)!r}: ")) from None
    return fault


def _noun(words: _Words) -> str:
    """Take what the fault strikes, or find it by what happens."""
    if words.left and words.left[0] in _FORMS:
        return words.left.pop(0)
    if len(words.left) > 1:
        told = [n for n, forms in _FORMS.items() if any(f.verb == words.left[1] for f in forms)]
        if len(told) == 1:
            return told[0]
    first = words.take("what it strikes", "link")
    raise words.unknown(first, "what a fault can strike", list(_FORMS))


def _when(words: _Words, outage: bool) -> Arguments:
    """Read the times at the end."""
    found: Arguments = {}
    lasts: float | None = None
    allowed = ["at TIME", "for TIME", "until TIME"] + ["convergence TIME"] * outage
    while words.left:
        word = words.left.pop(0)
        field = {"at": "at_s", "until": "until_s", "convergence": "convergence_s"}.get(word)
        if word == "for" and lasts is None:
            lasts = words.seconds("how long")
        elif field is not None and field not in found and (outage or word != "convergence"):
            found[field] = words.seconds(f"the time after {word!r}")
        else:
            raise words.unknown(word, "expected here", allowed)
    if lasts is not None and "until_s" in found:
        raise words.fail("'for' and 'until' say the same; allowed: one of them")
    if lasts is not None:
        found["until_s"] = _whole_ps(found.get("at_s", 0.0) + lasts)
    return found
