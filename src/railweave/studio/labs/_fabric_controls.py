"""The controls of lab 5, some of which are there only where they mean something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import ui

from railweave.studio import controls
from railweave.studio.labs._fabric_state import (
    HASHES,
    NO_COUNTS,
    PLAIN,
    RACK_SHAPES,
    ROUTINGS,
    SPEEDS,
    TOPOLOGIES,
    TRANSPORTS,
    State,
    server_choices,
    switch_choices,
)

__all__ = ["FabricControls"]

Change = Callable[..., None]
_UPLINKS = {"": "As the switch's ports", **{speed: speed for speed in SPEEDS}}
_TIERS = {"0": "As few as will do", "1": "1", "2": "2", "3": "3"}


class FabricControls:
    """The column of inputs; ``change(field=value)`` is told what the visitor sets."""

    def __init__(self, state: State, change: Change) -> None:
        self._change = change
        self._carries = state.transport
        self._cluster(state)
        self._network(state)
        self._switches(state)
        self._routing(state)
        self.sync(state)

    def sync(self, state: State) -> None:
        """Show the controls that mean something now."""
        self._plain_server.set_visibility(state.server == PLAIN)
        self._plain_switch.set_visibility(state.switch == PLAIN)
        self._racked.set_visibility(state.topology in RACK_SHAPES)
        self._counted.set_visibility(state.topology not in NO_COUNTS)
        if self._carries != state.transport:
            self._carries = state.transport
            self._choose_switch(state)

    def _set(self, field: str) -> Callable[[Any], None]:
        return lambda value: self._change(**{field: value})

    def _whole(self, field: str) -> Callable[[str], None]:
        return lambda value: self._change(**{field: int(value)})

    def _cluster(self, state: State) -> None:
        controls.heading("Servers")
        whole = self._set
        controls.integer("Racks", state.racks, 1, 256, whole("racks"), help_key="racks")
        controls.integer("Servers a rack", state.servers, 1, 32, whole("servers"),
                         help_key="servers_per_rack")  # fmt: skip
        controls.choice("Server", state.server, server_choices(), self._set("server"))
        self._plain_server = ui.element("div").classes("rw-control")
        with self._plain_server:
            controls.integer("GPUs a server", state.gpus, 1, 16, whole("gpus"),
                             help_key="gpus_per_server")  # fmt: skip
            controls.integer("NICs a server (rails)", state.nics, 1, 16, whole("nics"),
                             help_key="rails")  # fmt: skip
            controls.quantity("NIC speed", state.nic_speed, SPEEDS, "rate",
                              self._set("nic_speed"), help_key="link_speed")  # fmt: skip
        controls.integer("Empty places in the last rack", state.empty, 0, 31, whole("empty"),
                         help_key="empty_places")  # fmt: skip

    def _network(self, state: State) -> None:
        controls.heading("Network")
        controls.choice("Transport", state.transport, TRANSPORTS, self._set("transport"))
        controls.choice("Topology", state.topology, TOPOLOGIES, self._set("topology"))
        self._racked = ui.element("div").classes("rw-control")
        with self._racked:
            controls.switch("One leaf a rack", state.top_of_rack, self._set("top_of_rack"))
        self._counted = ui.element("div").classes("rw-control")
        with self._counted:
            controls.integer("Spines (0: as many as needed)", state.spines, 0, 64,
                             self._set("spines"), help_key="spines")  # fmt: skip
            controls.ratio("Oversubscription of a leaf", state.ratio, self._set("ratio"),
                           help_key="oversubscription")  # fmt: skip
            controls.ratio("Oversubscription of a spine", state.spine_ratio,
                           self._set("spine_ratio"), help_key="oversubscription")  # fmt: skip
            controls.integer("Servers a zone (0: what fits)", state.zone, 0, 1024,
                             self._set("zone"), help_key="servers_per_zone")  # fmt: skip
        controls.choice("Tiers", str(state.tiers), _TIERS, self._whole("tiers"), help_key="tiers")
        controls.integer("Parallel planes", state.planes, 1, 8, self._set("planes"),
                         help_key="parallel_planes")  # fmt: skip

    def _switches(self, state: State) -> None:
        controls.heading("Switches")
        self._switch_box = ui.element("div").classes("rw-control")
        self._choose_switch(state)
        self._plain_switch = ui.element("div").classes("rw-control")
        with self._plain_switch:
            controls.integer("Radix (ports)", state.radix, 4, 512, self._set("radix"),
                             help_key="radix", step=4)  # fmt: skip
            controls.quantity("Port speed", state.port_speed, SPEEDS, "rate",
                              self._set("port_speed"), help_key="link_speed")  # fmt: skip
        uplinks = {**_UPLINKS, state.uplink_speed: state.uplink_speed or _UPLINKS[""]}
        controls.choice("Uplink speed", state.uplink_speed, uplinks, self._set("uplink_speed"))

    def _choose_switch(self, state: State) -> None:
        self._switch_box.clear()
        choices = switch_choices(state.transport)
        chosen = state.switch if state.switch in choices else PLAIN
        with self._switch_box:
            controls.choice("Switch", chosen, choices, self._set("switch"))
        if chosen != state.switch:
            self._change(switch=chosen)

    def _routing(self, state: State) -> None:
        controls.heading("Routing")
        controls.choice("Routing", state.routing, ROUTINGS, self._set("routing"))
        controls.choice("Hash", state.hash, HASHES, self._set("hash"))
        controls.switch("Equal hash seeds in all switches", state.equal_seeds,
                        self._set("equal_seeds"))  # fmt: skip
