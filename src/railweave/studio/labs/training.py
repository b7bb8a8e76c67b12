"""The training step: its time, memory, timeline and scaling curve. A page beside the nine labs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from railweave.errors import RailweaveError
from railweave.studio.content import lab as lab_text
from railweave.studio.designs import local_file, open_design
from railweave.studio.job_view import JobView
from railweave.studio.lab import Lab
from railweave.studio.labs._training import DESIGN, Given, Offer, State, with_plan
from railweave.studio.labs._training_controls import Controls
from railweave.studio.labs._training_jobs import (
    best_plan,
    best_work,
    job_key,
    only_degrees,
    refusal_of,
    scaling_work,
    table_of,
)
from railweave.studio.labs._training_view import (
    Refused,
    View,
    memory_figure,
    refused,
    step_figures,
    timeline_view,
    trace_file,
    view,
)
from railweave.studio.parts import TableBox, page_table
from railweave.studio.plot import Figure

if TYPE_CHECKING:
    from railweave.studio.page import LabPage

__all__ = ["LAB"]

_HEAD: Final = '<link rel="stylesheet" href="/studio-static/lab-training.css">'
#: GPUs up to which the search is done at once, beside the event loop
_FEW_GPUS: Final = 512
#: an answer that took so long is announced the next time
_LONG_S: Final = 0.3
_TABLES: Final = ("time", "memory", "communication", "cost")


class _TrainingPage:
    """One visitor's page: its inputs, what runs, what is shown."""

    def __init__(self, page: LabPage) -> None:
        self.page = page
        self.state = page.state(State)
        self._took_s = 0.0
        self._limits: tuple[str, ...] = ()
        self._scaled: Mapping[str, Any] | None = None
        ui.add_head_html(_HEAD)
        models, servers = _parts(self._given().text)
        with page.controls:
            self._controls = Controls(
                self.state,
                design_name=page.session.design_name,
                models=models,
                servers=servers,
                take=self._take,
                search=self._ask,
            )
        with page.main:
            self._build()
        ui.context.client.on_delete(self._stop)
        page.soon(self.refresh)

    # ---------------------------------------------------------- inputs

    def _given(self) -> Given:
        session = self.page.session
        text = session.design_text if self.state.where == DESIGN else ""
        file = local_file(text) if text else None
        name = session.design_name or "design.yaml"
        return Given(self.state, text, name if text else "", str(file.resolve()) if file else "")

    def _take(self, state: State) -> None:
        if state == self.state:
            return
        self._stop()
        if _job_of(state) != _job_of(self.state):
            self._ranking.classes(add="hidden")
        self.state = state
        self.page.update(state)
        self.page.soon(self.refresh)

    def _ask(self, keep_degrees: bool) -> None:
        """Look for the best plan, as a button asks."""
        self._stop()
        self.page.soon(lambda: self._search(keep_degrees=keep_degrees))

    def _stop(self) -> None:
        """End what works for inputs that are there no more: what comes next would wait for it."""
        self.page.cancel_job()
        self._scaling_job.cancel()

    def _adopt(self, state: State) -> None:
        """Take inputs that the controls do not show yet."""
        self._controls.show(state)
        self._take(state)

    # ---------------------------------------------------------- what is there

    def _build(self) -> None:
        self._refused = ui.element("section").classes("rw-card hidden rw-refused")
        self._refused.props('aria-label="Plans that would do"')
        self._results = ui.element("div").classes("rw-training")
        with self._results:
            self._timeline = Figure("One step by pipeline stage and stream", height_px=300)
            with ui.element("div").classes("rw-training-out"):
                ui.button("Timeline for Perfetto", on_click=self._download).props(
                    "outline dense no-caps"
                )
        with ui.element("div").classes("rw-two"):
            self._idle = Figure("What a GPU of each stage does in a step", height_px=340)
            self._memory = Figure("Memory of a GPU by stage and part", height_px=340)
        self._ranking = ui.element("section").classes("rw-card hidden rw-ranking")
        self._ranking.props('aria-label="Quickest plans"')
        self._boxes = {name: TableBox(f"rw-{name}") for name in _TABLES}
        self._scaling = ui.element("section").classes("rw-card rw-scaling")
        with self._scaling:
            _heading("Over numbers of GPUs")
            self._scaling_job = JobView(self.page.studio.queue, self.page.session.visitor)
            self._scaling_said = ui.label("").classes("rw-quiet").props("role=status")
            self._curve = Figure(
                "Tokens a second and the share lost to the network", height_px=360, follows=True
            )
            self._scaling_table = ui.element("div")
        with ui.expansion("How each number comes about").classes("rw-card w-full") as box:
            self._formulas = ui.element("div")
        self._formulas_box = box

    # ---------------------------------------------------------- answers

    async def refresh(self) -> None:
        """Show the numbers; what takes longer follows."""
        if not self.state.chosen:
            await self._search(keep_degrees=False)
            return
        given = self._given()
        began = time.perf_counter()
        if self._took_s > _LONG_S or not self._took_s:
            with self.page.busy("Working out the step …"):
                found = await self.page.compute(view, given)
        else:
            found = await self.page.compute(view, given)
        self._took_s = time.perf_counter() - began
        if found is None:
            return
        self._show_refusal(found if isinstance(found, Refused) else None)
        if isinstance(found, View):
            self._show(found)
        self.page.soon(lambda: self._draw(given), "figures")
        self.page.soon(lambda: self._rest(given), "rest")

    def _show(self, found: View) -> None:
        page = self.page
        page.numbers(found.numbers)
        page.interpretation(found.words)
        page.reproduce(found.reproduce)
        if found.limits != self._limits:
            self._limits = found.limits
            page.not_modelled(found.limits)
        for name, box in self._boxes.items():
            box.show(found.tables.get(name))
        self._formulas.clear()
        with self._formulas:
            page_table(found.tables["formulas"])

    def _show_refusal(self, found: Refused | None) -> None:
        """Say why the plan cannot be, and offer what would do; or show results again."""
        self._refused.clear()
        refused = found is not None
        for part in (self._results, self._idle, self._scaling, self._formulas_box):
            part.set_visibility(not refused)
        self._memory.set_visibility(found is None or found.memory is not None)
        if found is None:
            self._refused.classes(add="hidden")
            return
        self.page.problem(" ".join(f"{reason}." for reason in found.refusal.reasons))
        self.page.numbers(())
        self.page.interpretation(())
        self.page.reproduce(found.reproduce)
        self.page.trace(())
        for name, box in self._boxes.items():
            box.show(found.memory if name == "memory" else None)
        self._refused.classes(remove="hidden")
        with self._refused:
            _heading("The nearest that would do")
            for offer in found.refusal.offers:
                self._offer(offer)
            if not found.refusal.offers:
                ui.label("Nothing near: take more GPUs, or look for the best plan.")

    def _offer(self, offer: Offer) -> None:
        with ui.element("div").classes("rw-training-offer"):
            ui.button("Take it", on_click=lambda: self._adopt(offer.state)).props(
                "outline dense no-caps"
            ).props(f'aria-label="Take it: {offer.text}"')
            ui.label(offer.text)

    async def _draw(self, given: Given) -> None:
        drawn = await self.page.studio.compute.later(step_figures, given)
        if given != self._given():
            return
        if drawn is None:
            asked = await self.page.studio.compute.later(memory_figure, given)
            if asked is not None and given == self._given():
                self._memory.show(asked)
            return
        idle, memory = drawn
        self._idle.show(idle)
        self._memory.show(memory)

    async def _rest(self, given: Given) -> None:
        """Show timeline, trace and scaling once the inputs rest."""
        await self.page.at_rest()
        if given != self._given():
            return
        found = await self.page.studio.compute.later(timeline_view, given)
        if found is None or given != self._given():
            return
        figure, rows = found
        self._timeline.show(figure)
        self.page.trace(rows)
        self.page.soon(lambda: self._scale(given), "scaling")

    async def _scale(self, given: Given) -> None:
        """Estimate the step over GPU counts in a worker, and show the curve."""
        from railweave import __version__
        from railweave.runs import content_key

        key = job_key(given)
        if key == self._scaled:
            self._scaling_said.set_text("")
            return
        name = content_key({"kind": "training-scaling"}, key, __version__)
        self._scaling_said.set_text("Estimating the step on other numbers of GPUs …")
        try:
            found = await self._scaling_job.run("training-scaling", scaling_work, given, name, None)
        except RailweaveError as error:
            found = None
            if given == self._given():
                self._scaling_said.set_text(str(error))
                return
        if found is None or given != self._given():
            return
        import plotly.graph_objects as go

        self._scaled = key
        self._scaling_said.set_text("")
        self._curve.show(go.Figure(found["figure"]))
        self._scaling_table.clear()
        with self._scaling_table:
            page_table(table_of(found["table"]))

    # ---------------------------------------------------------- the search

    async def _search(self, *, keep_degrees: bool) -> None:
        """Look for the best plan, take it, and show those behind it."""
        given = self._given()
        fixed = tuple(only_degrees(self.state).items()) if keep_degrees else ()
        few = self.state.where != DESIGN or 0 < self.state.gpus <= _FEW_GPUS or _small(given.text)
        if few:
            with self.page.busy("Looking for the best plan …"):
                found = await self.page.compute(best_plan, given, fixed)
        else:
            key = job_key(given, fixed=[list(item) for item in fixed])
            self.page.problem(None)
            found = await self.page.run_job("training-plan", best_work, (given, fixed), key)
        if found is None or given != self._given():
            return
        if not found["plans"]:
            self._ranking.classes(add="hidden")
            self._show_refusal(refused(given, refusal_of(found)))
            return
        self._show_ranking(found)
        self._controls.show(with_plan(self.state, found["plans"][0]))
        self.state = self._controls.state
        self.page.update(self.state)
        await self.refresh()

    def _show_ranking(self, found: Mapping[str, Any]) -> None:
        self._ranking.clear()
        self._ranking.classes(remove="hidden")
        with self._ranking:
            page_table(table_of(found["table"]), level=2)
            with ui.element("div").classes("rw-training-buttons"):
                for number, plan in enumerate(found["plans"], 1):
                    ui.button(
                        f"Take {number}",
                        on_click=lambda _, values=plan: self._adopt(with_plan(self.state, values)),
                    ).props("outline dense no-caps")
            with ui.expansion("Why this order").classes("w-full").props("dense"):
                for sentence in found["said"]:
                    ui.label(sentence)

    async def _download(self) -> None:
        found = await self.page.studio.compute(trace_file, self._given())
        if found is not None:
            ui.download.content(found, "step.json.gz", "application/gzip")


def _job_of(state: State) -> tuple[object, ...]:
    """Return what plans are ranked for."""
    return (
        state.model, state.where, state.gpus, state.batch, state.sequence, state.precision,
    )  # fmt: skip


def _small(text: str) -> bool:
    """Whether a design has few GPUs, as far as its text says."""
    cluster = open_design(text).design.cluster
    servers = sum(group.count or 0 for group in cluster.servers)
    return cluster.gpus is None and servers * 8 <= _FEW_GPUS


def _parts(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the models that can be trained, the design's own too, and servers with GPUs."""
    from railweave.catalog import default_catalog

    catalog = default_catalog()
    try:
        mine = open_design(text).document.catalog if text else catalog
    except RailweaveError:
        mine = catalog
    models = {shape.name: shape.title for shape in mine.models()}
    servers = {server.name: f"{server.title} servers" for server in catalog.servers() if server.gpu}
    return models, servers


def _heading(text: str) -> None:
    ui.label(text).classes("rw-h2").props("role=heading aria-level=2")


def _build(page: LabPage) -> None:
    _TrainingPage(page)


_TEXT = lab_text("training")
LAB = Lab(
    None, "training", _TEXT.title, _TEXT.summary, 95, _build, beside=("traffic", "collectives")
)
