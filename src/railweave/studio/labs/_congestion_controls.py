"""Lab 6's inputs on the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from nicegui import ui

from railweave.qos import PROFILE_NAMES, algorithm
from railweave.studio import controls

if TYPE_CHECKING:
    from railweave.studio.labs._congestion import CongestionState

__all__ = ["build_controls"]

_SPEEDS: Final = (
    "40 Gb/s", "80 Gb/s", "100 Gb/s", "110 Gb/s", "120 Gb/s", "150 Gb/s", "200 Gb/s", "400 Gb/s",
    "800 Gb/s",
)  # fmt: skip
_BUFFERS: Final = ("1 MB", "2 MB", "4 MB", "8 MB", "16 MB", "32 MB", "64 MB", "128 MB", "256 MB")
_TIMES: Final = (
    "2 ms", "5 ms", "10 ms", "20 ms", "50 ms", "100 ms", "200 ms", "500 ms", "1 s", "2 s", "5 s",
)  # fmt: skip
_CABLES: Final = ("1 m", "5 m", "30 m", "100 m", "300 m", "1 km", "3 km", "10 km")
_MOST_SENDERS: Final = 256

Change = Callable[..., None]


def build_controls(state: CongestionState, change: Change) -> None:
    """Add the inputs; ``change`` is given the fields of the state that have changed."""
    controls.integer(
        "Senders", state.senders, 1, _MOST_SENDERS, lambda v: change(senders=v), help_key="senders"
    )
    controls.quantity(
        "Sender speed", state.sender_speed, _SPEEDS, "rate",
        lambda v: change(sender_speed=v), help_key="sender_speed",
    )  # fmt: skip
    controls.quantity(
        "Egress speed", state.egress_speed, _SPEEDS, "rate",
        lambda v: change(egress_speed=v), help_key="egress_speed",
    )  # fmt: skip
    controls.quantity(
        "Buffer", state.buffer, _BUFFERS, "size", lambda v: change(buffer=v), help_key="buffer"
    )
    _ecn(state, change)
    _pfc(state, change)
    controls.heading("Senders' congestion control")
    _profile(state, change)
    controls.heading("The run")
    controls.quantity(
        "Duration", state.duration, _TIMES, "time", lambda v: change(duration=v), help_key="elapsed"
    )
    controls.quantity(
        "Cables", state.cable, _CABLES, "length", lambda v: change(cable=v), help_key="cable_length"
    )


def _ecn(state: CongestionState, change: Change) -> None:
    controls.heading("ECN, at the switch")

    def on_ecn(on: bool) -> None:
        change(ecn=on)
        box.set_visibility(on)

    def on_marking(how: str) -> None:
        change(ramp=how == "ramp")
        ramp.set_visibility(how == "ramp")

    controls.switch("Mark packets", state.ecn, on_ecn, help_key="ecn_threshold")
    with ui.element("div").classes("w-full") as box:
        controls.integer(
            "Threshold, Kmin [% of buffer]", state.kmin, 1, 100,
            lambda v: change(kmin=v), help_key="kmin",
        )  # fmt: skip
        controls.choice(
            "Above it",
            "ramp" if state.ramp else "step",
            {"step": "every packet is marked", "ramp": "more and more, up to Kmax"},
            on_marking,
        )
        with ui.element("div").classes("w-full") as ramp:
            controls.integer(
                "Kmax [% of buffer]", state.kmax, 1, 100, lambda v: change(kmax=v), help_key="kmax"
            )
            controls.integer(
                "Pmax [%]", state.pmax, 1, 100, lambda v: change(pmax=v), help_key="pmax"
            )
    box.set_visibility(state.ecn)
    ramp.set_visibility(state.ramp)


def _pfc(state: CongestionState, change: Change) -> None:
    controls.heading("PFC, at the switch")

    def on_pfc(on: bool) -> None:
        change(pfc=on)
        box.set_visibility(on)

    controls.switch("Pause senders", state.pfc, on_pfc, help_key="pauses")
    with ui.element("div").classes("w-full") as box:
        controls.integer(
            "Threshold, XOFF [% of buffer]", state.xoff, 1, 100,
            lambda v: change(xoff=v), help_key="pfc_xoff",
        )  # fmt: skip
    box.set_visibility(state.pfc)


def _profile(state: CongestionState, change: Change) -> None:
    def on_profile(name: str) -> None:
        change(profile=name)
        said.set_text(_about(name))

    controls.choice("Profile", state.profile, {name: name for name in PROFILE_NAMES}, on_profile)
    said = ui.label(_about(state.profile)).classes("rw-quiet")


def _about(name: str) -> str:
    """Say what a profile is, and where its parameters come from."""
    control = algorithm(name, 100e9)
    return f"{control.about} Parameters: {control.source.title} ({control.source.certainty.value})."
