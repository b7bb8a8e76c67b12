"""Lab 4: one RDMA operation from registration to completion, with every packet's headers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nicegui import ui

from railweave.errors import RailweaveError
from railweave.studio import controls
from railweave.studio.content import lab as lab_text
from railweave.studio.content import learn
from railweave.studio.help import help_button
from railweave.studio.lab import Lab, fault_text
from railweave.studio.labs import _rdma_words as words
from railweave.studio.labs._rdma import (
    Network,
    PlaneName,
    ServiceName,
    State,
    Where,
    bare,
    fitting,
)
from railweave.studio.labs._rdma_capture import capture
from railweave.studio.labs._rdma_document import frame_text, key_of, run_text
from railweave.studio.labs._rdma_element import OperationView
from railweave.studio.labs._rdma_view import View, hops_of, study
from railweave.studio.parts import TableBox
from railweave.transport.verbs.operation import Fault, Operation

if TYPE_CHECKING:
    from railweave.studio.page import LabPage

__all__ = ["LAB"]

_HEAD = '<link rel="stylesheet" href="/studio-static/lab-rdma.css">'
_SENDER = "the sender's port"


class _Desk:
    """One visitor's lab: its inputs, the run that is shown, what is selected of it."""

    def __init__(self, page: LabPage) -> None:
        self.page = page
        self.state, self.said = fitting(page.state(State))
        self.shown: tuple[State, str] | None = None
        self.limits: tuple[str, ...] = ()
        ui.add_head_html(_HEAD)
        with page.controls:
            self._build_controls()
        with page.main, ui.element("div").classes("rw-rdma"):
            self._build()
        self._sync()
        page.soon(self.refresh)

    @property
    def text(self) -> str:
        """The design, where it matters."""
        return self.page.session.design_text if self.state.where is Where.DESIGN else ""

    # ---------------------------------------------------------- what is there

    def _build_controls(self) -> None:
        state, change = self.state, self.change
        controls.heading("Operation")
        controls.choice(
            "Operation",
            state.operation.value,
            words.OPERATIONS,
            lambda value: change(operation=Operation(value)),
            help_key="rdma_operation",
        )
        controls.quantity(
            "Message size",
            state.size,
            words.SIZES,
            "size",
            lambda value: change(size=value),
            help_key="message_size",
        )
        controls.choice(
            "Path MTU",
            str(state.mtu),
            words.MTUS,
            lambda value: change(mtu=int(value)),
            help_key="path_mtu",
        )
        self.service = controls.choice(
            "Service",
            state.service.value,
            words.SERVICES,
            lambda value: change(service=ServiceName(value)),
            help_key="transport_service",
        )
        controls.heading("What goes wrong")
        self.fault = controls.choice(
            "Fault",
            state.fault.value,
            words.FAULTS,
            lambda value: change(fault=Fault(value)),
            help_key="rdma_fault",
        )
        self.lost = self._part(
            lambda: controls.integer(
                "Lost packet, from 0",
                state.lost,
                0,
                16_384,
                lambda value: change(lost=value),
                stops=(*range(10), 15, 31, 63, 127, 255),
                help_key="lost_packet",
            )
        )
        controls.integer(
            "Retries",
            state.retries,
            0,
            7,
            lambda value: change(retries=value),
            help_key="retry_count",
        )
        controls.choice(
            "ACK timeout",
            str(state.timeout),
            words.TIMEOUTS,
            lambda value: change(timeout=int(value)),
            help_key="ack_timeout",
        )
        self.rnr = self._part(self._build_rnr)
        controls.heading("Network")
        self.network = controls.choice(
            "Packets",
            state.network.value,
            words.NETWORKS,
            lambda value: change(network=Network(value)),
            help_key="rdma_network",
        )
        controls.choice(
            "Between the hosts",
            state.where.value,
            words.PLACES,
            lambda value: change(where=Where(value)),
            help_key="rdma_where",
        )
        self.design = self._part(self._build_design)

    def _part(self, build: Callable[[], object]) -> ui.element:
        """Add controls that are shown only where they matter."""
        with ui.element("div").classes("rwp-part-of") as box:
            build()
        return box

    def _build_rnr(self) -> None:
        state = self.state
        controls.integer(
            "RNR retries",
            state.rnr,
            0,
            7,
            lambda value: self.change(rnr=value),
            help_key="rnr_retries",
        )
        controls.choice(
            "RNR timer",
            str(state.rnr_timer),
            words.RNR_TIMERS,
            lambda value: self.change(rnr_timer=int(value)),
            help_key="rnr_timer",
        )

    def _build_design(self) -> None:
        state = self.state
        ui.label(self.page.session.design_name).classes("rw-quiet")
        controls.choice(
            "Plane",
            state.plane.value,
            words.PLANES,
            lambda value: self.change(plane=PlaneName(value), at=""),
            help_key="planes",
        )
        self.ends = {name: self._end(label, name) for name, label in _ENDS}
        self.at = controls.choice(
            "Packets seen at", "", {"": _SENDER}, self.look_at, help_key="capture_point"
        )

    def _end(self, label: str, name: str) -> ui.input:
        """Add the field for one end's name."""
        with ui.element("div").classes("rw-control"):
            with ui.row(wrap=False).classes("rw-label"):
                ui.label(label)
                help_button("journey_end")
            field = ui.input(value=getattr(self.state, name)).props(
                f'dense outlined aria-label="{label}"'
            )

            def typed() -> None:
                given = str(field.value or "").strip()
                # what the field was filled with is no choice of the visitor's
                if given != self.filled.get(name):
                    self.change(**{name: given, "at": ""})

            field.on("keydown.enter", typed)
            field.on("blur", typed)
        return field.classes("w-full")

    def _build(self) -> None:
        state = self.state
        self.filled: dict[str, str] = {}
        self.view = OperationView(self.want, self.picked, (state.step, state.packet, state.field))
        with ui.row().classes("rw-tools"):
            ui.button("Download these packets (pcap)", on_click=self.keep).props("outline no-caps")
            self.every = ui.button("Download every hop (pcapng)", on_click=self.keep_every).props(
                "outline no-caps"
            )
        self.hops = TableBox("rw-rdma-hops")

    def _sync(self) -> None:
        """Make the choices those that fit, and show what matters."""
        state = self.state
        self.service.set_options(
            dict(words.service_choices(state.operation)), value=state.service.value
        )
        self.fault.set_options(
            dict(words.fault_choices(state.operation, state.service)), value=state.fault.value
        )
        on_design = state.where is Where.DESIGN
        networks = words.DESIGN_NETWORKS if on_design else words.NETWORKS
        self.network.set_options(dict(networks), value=state.network.value)
        for box, there in (
            (self.lost, state.fault is Fault.LOST_PACKET),
            (self.rnr, state.fault is Fault.NO_RECEIVE),
            (self.design, on_design),
            (self.every, on_design),
        ):
            box.set_visibility(there)

    # ---------------------------------------------------------- what the visitor does

    def change(self, **values: Any) -> None:  # noqa: ANN401 - fields of the state
        """Take new inputs and answer them."""
        state, said = fitting(replace(self.state, **values))
        if state == self.state:
            return
        self.state, self.said = state, said
        self._sync()
        self.page.update(state)
        self.page.soon(self.refresh)

    def look_at(self, port: str) -> None:
        """See the packets at another port."""
        now = self.state.at or next(iter(self.at.options), "")
        if port != now:
            self.change(at=port)

    def picked(self, step: int, packet: int, field: str) -> None:
        """Keep in the address what is selected."""
        self.state = replace(self.state, step=max(0, step), packet=max(0, packet), field=field[:80])
        self.page.update(self.state)

    async def want(self, key: str, packet: int) -> str | None:
        """Return a packet of the run that is shown; None where that is another one by now."""
        shown = self.shown
        if shown is None or key != key_of(*shown):
            return None
        try:
            text = await asyncio.to_thread(frame_text, *shown, packet)
            hops = await asyncio.to_thread(hops_of, *shown, packet)
        except RailweaveError as error:
            self.page.problem(str(error))
            return None
        if shown == self.shown:
            self.hops.show(hops)
        return text

    async def keep(self) -> None:
        """Let the browser keep the packets that are shown as a capture."""
        await self._download(every_hop=False)

    async def keep_every(self) -> None:
        """Let the browser keep every packet at every hop as a capture."""
        await self._download(every_hop=True)

    async def _download(self, *, every_hop: bool) -> None:
        shown = self.shown
        if shown is None:
            return
        try:
            data = await asyncio.to_thread(capture, *shown, every_hop=every_hop)
        except RailweaveError as error:
            ui.notify(fault_text(error))
            return
        ending = "pcapng" if every_hop else "pcap"
        ui.download.content(data, f"{shown[0].operation.value}-{shown[0].fault.value}.{ending}")

    # ---------------------------------------------------------- answers

    async def refresh(self) -> None:
        """Run the inputs as they are now and show what came out."""
        state, text = bare(self.state), self.text
        name = self.page.session.design_name or "design.yaml"
        with self.page.busy("Running the operation …"):
            view = await self.page.compute(study, state, text, name)
            if view is None:
                return
            document = await asyncio.to_thread(run_text, state, text)
        if state != bare(self.state):
            return
        self.shown = (state, text)
        self.view.show(document)
        self._fill(view)

    def _fill(self, view: View) -> None:
        page = self.page
        page.numbers(view.numbers)
        page.interpretation((*self.said, *view.sentences))
        page.reproduce(view.reproduce)
        limits = (*learn(page.lab.key).limits, *view.limits)
        if limits != self.limits:
            self.limits = limits
            page.not_modelled(limits)
        if self.state.where is Where.WIRE:
            self.hops.show(None)
        if self.state.where is Where.DESIGN:
            self._fill_ends(view)

    def _fill_ends(self, view: View) -> None:
        for (name, _), end in zip(_ENDS, view.ends, strict=True):
            self.filled[name] = end
            self.ends[name].set_value(end)
        ports: Mapping[str, str] = {port: port for port in view.ports}
        self.at.set_options(dict(ports), value=view.at)


_ENDS = (("source", "From"), ("target", "To"))


def _build(page: LabPage) -> None:
    _Desk(page)


_TEXT = lab_text("rdma")
LAB = Lab(4, "rdma", _TEXT.title, _TEXT.summary, 290, _build)
