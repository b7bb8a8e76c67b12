"""Lab 3: requirements and weights in, four technologies side by side, and where it turns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from railweave.errors import RailweaveError
from railweave.report.transport_stacks import draw_stacks
from railweave.studio.content import lab as lab_text
from railweave.studio.controls import choice, heading, integer, quantity, ratio, switch
from railweave.studio.designs import local_file
from railweave.studio.lab import Lab
from railweave.studio.labs._transport import (
    DESIGN,
    MADE_UP,
    TOPOLOGIES,
    Given,
    TransportState,
    default_weights,
    measure_key,
    measure_work,
    weights_of_state,
    with_weight,
)
from railweave.studio.labs._transport_view import View, detail_of, stated_of, view_of
from railweave.studio.parts import TableBox, page_table
from railweave.studio.plot import Figure
from railweave.transport.compare import technology_facts

if TYPE_CHECKING:
    from railweave.studio.page import LabPage

__all__ = ["LAB"]

_HEAD: Final = '<link rel="stylesheet" href="/studio-static/lab-transport.css">'
_MOST_GPUS: Final = 16_384
_GPUS: Final = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_SPEEDS: Final = ("100 Gb/s", "200 Gb/s", "400 Gb/s", "800 Gb/s")
_POWERS: Final = ("0 W", "5 kW", "10 kW", "20 kW", "50 kW", "100 kW", "200 kW", "500 kW", "1 MW")
_NEEDS: Final = {"any": "no matter", "preferred": "preferred", "required": "required"}
#: inputs with a choice: field, label, what can be chosen
_CHOICES: Final[tuple[tuple[str, str, dict[str, str]], ...]] = (
    (
        "team",
        "The team knows",
        {
            "ethernet": "Ethernet",
            "infiniband": "InfiniBand",
            "both": "both",
            "neither": "neither",
        },
    ),
    ("vendors", "Several makers", _NEEDS),
    ("tenancy", "Tenants share it", _NEEDS),
    ("encryption", "Encryption", {**_NEEDS, "tls": "TLS only"}),
    (
        "reach",
        "Reach",
        {"hall": "one hall", "campus": "a campus", "routed": "routed between sites"},
    ),
    ("budget", "Budget", {"low": "low", "medium": "medium", "high": "high"}),
)
#: inputs on which measurements depend
_MEASURED_BY: Final = frozenset(
    {"where", "gpus", "speed", "oversubscription", "topology", "quick", "queue_pairs", "mix",
     "workload"}
)  # fmt: skip


class _TransportPage:
    """One visitor's page: its inputs, what is measured, what is shown."""

    def __init__(self, page: LabPage) -> None:
        self.page = page
        self.state = page.state(TransportState)
        self._document = ""
        self._key: Mapping[str, Any] | None = None
        self._limits: tuple[str, ...] = ()
        self._tests: tuple[str, ...] = ()
        ui.add_head_html(_HEAD)
        with page.controls:
            self._build_controls()
        with page.main:
            self._build()
        ui.context.client.on_delete(page.cancel_job)
        page.soon(self.refresh)

    # ---------------------------------------------------------- inputs

    def _given(self) -> Given:
        session = self.page.session
        text = session.design_text if self.state.where == DESIGN else ""
        if not text:
            return Given(self.state)
        file = local_file(text)
        name = session.design_name or "design.yaml"
        return Given(self.state, text, name, str(file.resolve()) if file else "")

    def _change(self, **fields: Any) -> None:  # noqa: ANN401 - fields of the state
        state = replace(self.state, **fields)
        if state == self.state:
            return
        if _MEASURED_BY & set(fields):
            self.page.cancel_job()
        self.state = state
        self.page.update(state)
        if set(fields) != {"weights"}:
            self._show_weights()
        self.page.soon(self.refresh)

    def _set(self, name: str) -> Callable[[Any], None]:
        return lambda value: self._change(**{name: value})

    def _build_controls(self) -> None:
        state, session = self.state, self.page.session
        heading("Cluster")
        mine = f"my design: {session.design_name}" if session.design_name else "my design"
        where = {MADE_UP: "made up", **({DESIGN: mine} if session.design_text else {})}
        choice("Measured on", state.where, where, self._where)
        self._made_up = ui.element("div").classes("rw-transport-part")
        with self._made_up:
            integer(
                "GPUs", state.gpus, 16, _MOST_GPUS, self._set("gpus"), help_key="gpus", stops=_GPUS
            )
            quantity(
                "NIC speed", state.speed, _SPEEDS, "rate", self._set("speed"),
                help_key="link_speed",
            )  # fmt: skip
            ratio(
                "Oversubscription", state.oversubscription, self._set("oversubscription"),
                help_key="oversubscription",
            )  # fmt: skip
            choice(
                "Topology", state.topology, {one: one for one in TOPOLOGIES}, self._set("topology")
            )
        self._made_up.set_visibility(not self._given().text)
        choice(
            "Workload",
            state.workload,
            {"training": "training", "inference": "inference", "mixed": "mixed"},
            self._set("workload"),
            help_key="workload_kind",
        )
        integer(
            "RoCEv2 queue pairs", state.queue_pairs, 1, 64, self._set("queue_pairs"),
            help_key="queue_pairs", stops=(1, 2, 4, 8, 16, 32, 64),
        )  # fmt: skip
        switch("Quick measurement", state.quick, self._set("quick"), help_key="quick_measurement")
        heading("Requirements")
        for field, label, options in _CHOICES:
            choice(label, getattr(state, field), options, self._set(field))
        switch("Ethernet automation is there", state.automation, self._set("automation"))
        quantity(
            "Most power (0 W: any)", state.max_power, _POWERS, "power", self._set("max_power"),
            help_key="network_power",
        )  # fmt: skip
        heading("Weights")
        self._weights = ui.element("div").classes("rw-transport-part rw-transport-weights")
        self._show_weights()
        ui.button("Weights as they follow", on_click=self._forget_weights).props(
            "outline dense no-caps"
        )

    def _where(self, value: str) -> None:
        self._change(where=value)
        self._made_up.set_visibility(not self._given().text)

    def _show_weights(self) -> None:
        """Show each weight: the reader's own, or what follows from the requirements."""
        try:
            weights = {**default_weights(self.state), **weights_of_state(self.state)}
        except RailweaveError:  # the refresh says what is wrong
            return
        self._weights.clear()
        with self._weights:
            for key, criterion in technology_facts().criteria.items():
                integer(
                    criterion.title, round(weights.get(key, 0)), 0, 10, self._weigh(key),
                    help_key="criterion_weight",
                )  # fmt: skip

    def _weigh(self, key: str) -> Callable[[int], None]:
        return lambda value: self._change(weights=with_weight(self.state, key, float(value)))

    def _forget_weights(self) -> None:
        self._change(weights=())
        self._show_weights()

    # ---------------------------------------------------------- what is there

    def _build(self) -> None:
        self._totals = Figure("Weighted scores of the four technologies", height_px=360)
        with ui.element("div").classes("rw-two"):
            self._answer = TableBox("rw-transport-answer")
            with ui.element("section").classes("rw-card") as box:
                box.props('aria-label="Benchmark first"')
                ui.label("Benchmark first").classes("rw-h2").props("role=heading aria-level=2")
                self._benchmarks = ui.element("ol").classes("rw-transport-tests")
        self._turning = Figure(
            "Which technology is ahead at which weight", height_px=480, follows=True
        )
        self._sensitivity = TableBox("rw-transport-turns")
        self._scores = TableBox("rw-transport-scores")
        with ui.element("section").classes("rw-card") as stacks:
            stacks.props('aria-label="Protocol stacks and fabrics"')
            ui.label("Protocol stacks and fabrics").classes("rw-h2").props(
                "role=heading aria-level=2"
            )
            ui.html(draw_stacks(), sanitize=False).classes("rw-scroll").props(
                'tabindex=0 role=region aria-label="Drawing of stacks and fabrics"'
            )
        self._fixed = [TableBox(f"rw-transport-{name}") for name in ("measured", "stated")]
        self._boxes = {}
        for name, title in (
            ("arithmetic", "Arithmetic of the scores"),
            ("facts", "Numbers and sources of what is stated"),
        ):
            with ui.expansion(title).classes("rw-card w-full"):
                self._boxes[name] = ui.element("div")

    # ---------------------------------------------------------- answers

    async def refresh(self) -> None:
        """Measure where the cluster is another one, then weigh."""
        given = self._given()
        key = measure_key(given)
        if key != self._key:
            document = await self.page.run_job("transport-compare", measure_work, given, key)
            if document is None or given != self._given():
                return
            self._document, self._key = json.dumps(document), key
            self.page.soon(lambda: self._show_fixed(given), "fixed")
        found = await self.page.compute(view_of, given, self._document)
        if found is None:
            return
        self.page.numbers(found.numbers)
        self.page.interpretation(found.words)
        self._totals.show(found.totals)
        self._answer.show(found.answer)
        self.page.soon(lambda: self._show_rest(given, found), "rest")

    async def _show_rest(self, given: Given, found: View) -> None:
        """Show the tables behind the answer once it is drawn, and what takes longer at rest."""
        await self.page.drawn()
        if given != self._given():
            return
        self.page.reproduce(found.reproduce)
        self._scores.show(found.scores)
        self._sensitivity.show(found.sensitivity)
        self._show_benchmarks(found.benchmarks)
        self.page.soon(lambda: self._show_detail(given), "detail")

    def _show_benchmarks(self, tests: tuple[str, ...]) -> None:
        if tests == self._tests:
            return
        self._tests = tests
        self._benchmarks.clear()
        with self._benchmarks:
            for text in tests:
                with ui.element("li"):
                    ui.label(text)

    async def _show_detail(self, given: Given) -> None:
        """Draw where it turns and write the arithmetic, once the inputs rest."""
        await self.page.at_rest()
        if given != self._given():
            return
        found = await self.page.studio.compute.later(detail_of, given, self._document)
        if given != self._given():
            return
        self._turning.show(found.turning)
        self._boxes["arithmetic"].clear()
        with self._boxes["arithmetic"]:
            page_table(found.arithmetic)

    async def _show_fixed(self, given: Given) -> None:
        """Show what no weight changes."""
        tables, limits = await self.page.studio.compute.later(stated_of, given, self._document)
        for box, table in zip(self._fixed, tables[:2], strict=True):
            box.show(table)
        self._boxes["facts"].clear()
        with self._boxes["facts"]:
            for table in tables[2:]:
                page_table(table)
        if limits != self._limits:
            self._limits = limits
            self.page.not_modelled(limits)


def _build(page: LabPage) -> None:
    _TransportPage(page)


_TEXT = lab_text("transport")
LAB = Lab(3, "transport", _TEXT.title, _TEXT.summary, 185, _build)
