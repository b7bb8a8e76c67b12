"""Lab 7: what each step of a collective moves between the GPUs, how long it takes and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from railweave.design.models import ALGORITHMS, Algorithm, Collective, PlacementName
from railweave.errors import RailweaveError
from railweave.studio.canvas import Canvas
from railweave.studio.content import lab
from railweave.studio.controls import (
    GPU_STOPS,
    LATENCY_STOPS,
    SIZE_STOPS,
    choice,
    heading,
    integer,
    quantity,
)
from railweave.studio.lab import Lab
from railweave.studio.labs._collectives import (
    ALGORITHM_NAMES,
    BY_SERVER,
    MOST_RANKS,
    OPERATION_NAMES,
    Closed,
    Drawing,
    Slow,
    State,
    Where,
    of_points,
    study,
    undrawn,
)
from railweave.studio.labs._collectives_curves import Curves
from railweave.studio.labs._collectives_fabric import on_fabric
from railweave.studio.labs._collectives_figures import FIGURE_PX, figures, sweep_figure
from railweave.studio.labs._collectives_jobs import job_key, packet_job, sweep_job
from railweave.studio.labs._collectives_rounds import (
    Round,
    at_time,
    holdings_html,
    round_html,
    rounds,
    trace_rows,
)
from railweave.studio.labs._collectives_run import Run, engine_points, run
from railweave.studio.labs._collectives_scene import logical
from railweave.studio.labs._collectives_words import (
    limits,
    numbers,
    reproduce,
    slow_name,
    sweep_words,
    words,
)
from railweave.studio.labs.collectives_choice import ChoiceSection, choice_controls
from railweave.studio.plot import Figure
from railweave.studio.scene import Scene
from railweave.units import format_seconds

if TYPE_CHECKING:
    from nicegui.element import Element

    from railweave.studio.page import LabPage

__all__ = ["LAB", "build"]

_SPEEDS: Final = (
    "10 Gb/s", "25 Gb/s", "50 Gb/s", "100 Gb/s", "200 Gb/s", "400 Gb/s", "800 Gb/s", "1.6 Tb/s",
    "3.6 Tb/s", "7.2 Tb/s",
)  # fmt: skip
_DELAYS: Final = ("1 us", "10 us", "100 us", "1 ms", "10 ms")
#: sizes and ranks at which the flow engine is asked for points of the curves
_POINT_SIZES: Final = tuple(1 << k for k in range(10, 35, 4))
_POINT_RANKS: Final = (4, 16, 64, 256)


def build(page: LabPage) -> None:
    """Fill the lab's page."""
    ui.add_head_html('<link rel="stylesheet" href="/studio-static/lab-collectives.css">')
    _CollectivesPage(page)


class _CollectivesPage:
    """The lab's page of one visitor: its state, its controls, and what they show."""

    def __init__(self, page: LabPage) -> None:
        self.page = page
        self.state = page.state(State)
        self.closed: Closed | None = None
        self.curves: Curves | None = None
        self.run: Run | None = None
        self.rounds: tuple[Round, ...] = ()
        self._shown = -1
        self._shown_of: State | None = None  # the state that `run` is of
        with page.controls:
            self._build_controls()
        with page.main:
            self._build_main()
        page.soon(self.refresh)

    # ------------------------------------------------------------ inputs

    def change(self, **fields: Any) -> None:  # noqa: ANN401 - fields of the state
        """Take new inputs and show what they give."""
        self.state = replace(self.state, **fields)
        self.page.update(self.state)
        self.page.soon(self.refresh)

    def _set(
        self, name: str, read: Callable[[Any], Any] = lambda value: value
    ) -> Callable[[Any], None]:
        return lambda value: self.change(**{name: read(value)})

    def _build_controls(self) -> None:
        state = self.state
        heading("Collective")
        choice(
            "Operation",
            state.operation.value,
            {op.value: name for op, name in OPERATION_NAMES.items()},
            self._operation,
        )
        self._algorithms = ui.element("div").classes("rw-control")
        self._build_algorithms()
        quantity("Size", state.size, SIZE_STOPS, "size", self._set("size"), help_key="payload")
        integer(
            "GPUs", state.ranks, 2, MOST_RANKS, self._ranks_changed, help_key="ranks",
            stops=GPU_STOPS,
        )  # fmt: skip
        heading("Network")
        choice(
            "Runs on",
            state.where.value,
            {
                Where.IDEAL.value: "links of its own for every GPU",
                Where.DESIGN.value: self._design_label(),
            },
            self._where,
        )
        self._network = ui.element("div").classes("rw-control rw-panel-part")
        self._build_network()
        heading("One slow rank")
        choice(
            "What is slow",
            state.slow.value,
            {slow.value: slow_name(slow) for slow in Slow},
            self._slow,
        )
        self._slow_box = ui.element("div").classes("rw-control rw-panel-part")
        self._build_slow()
        choice_controls(self.page.session.design_name, lambda: self.state, self.change)

    def _design_label(self) -> str:
        name = self.page.session.design_name
        return f"my design: {name}" if name else "my design"

    def _build_algorithms(self) -> None:
        self._algorithms.clear()
        able = ALGORITHMS[self.state.operation]
        chosen = self.state.algorithm if self.state.algorithm in able else able[0]
        with self._algorithms:
            choice(
                "Algorithm",
                chosen.value,
                {algorithm.value: ALGORITHM_NAMES[algorithm] for algorithm in able},
                self._algorithm,
            )

    def _build_network(self) -> None:
        self._network.clear()
        state = self.state
        with self._network:
            if state.where is Where.DESIGN:
                choice(
                    "Placement",
                    state.placement.value,
                    {place.value: place.value for place in PlacementName},
                    self._set("placement", PlacementName),
                )
                return
            quantity(
                "Bandwidth of a GPU", state.bandwidth, _SPEEDS, "rate", self._set("bandwidth"),
                help_key="link_speed",
            )  # fmt: skip
            quantity(
                "Latency of a message", state.latency, LATENCY_STOPS, "time", self._set("latency"),
                help_key="latency",
            )  # fmt: skip
            if self._algorithm_now() in BY_SERVER:
                integer(
                    "GPUs a server", state.per_server, 1, 16, self._set("per_server"),
                    help_key="gpus_per_server",
                )  # fmt: skip

    def _build_slow(self) -> None:
        self._slow_box.clear()
        state = self.state
        with self._slow_box:
            if state.slow is Slow.NONE:
                return
            integer(
                "Which GPU", state.slow_rank, 0, state.ranks - 1, self._set("slow_rank"),
                help_key="slow_rank",
            )  # fmt: skip
            if state.slow is Slow.LINK:
                integer(
                    "Link, per cent of its speed", state.slow_link, 5, 100, self._set("slow_link"),
                    step=5, help_key="slow_link",
                )  # fmt: skip
            else:
                quantity(
                    "Late with each message by", state.slow_delay, _DELAYS, "time",
                    self._set("slow_delay"), help_key="straggler_delay",
                )  # fmt: skip

    def _ranks_changed(self, ranks: int) -> None:
        self.change(ranks=ranks, slow_rank=min(self.state.slow_rank, ranks - 1))
        self._build_slow()

    def _algorithm_now(self) -> Algorithm:
        return self.state.algorithm or ALGORITHMS[self.state.operation][0]

    def _operation(self, value: str) -> None:
        op = Collective(value)
        keeps = self.state.algorithm in ALGORITHMS[op]
        self.change(operation=op, algorithm=self.state.algorithm if keeps else None)
        self._build_algorithms()
        self._build_network()

    def _algorithm(self, value: str) -> None:
        algorithm = Algorithm(value)
        default = algorithm is ALGORITHMS[self.state.operation][0]
        self.change(algorithm=None if default else algorithm)
        self._build_network()

    def _where(self, value: str) -> None:
        self.change(where=Where(value))
        self._build_network()

    def _slow(self, value: str) -> None:
        self.change(slow=Slow(value))
        self._build_slow()

    # ------------------------------------------------------------ what is shown

    def _build_main(self) -> None:
        with ui.element("section").classes("rw-card rw-steps").props('aria-label="Step by step"'):
            with ui.row().classes("w-full items-center"):
                ui.label("Step by step").classes("rw-h2").props("role=heading aria-level=2")
                ui.space()
                ui.toggle(
                    {Drawing.LOGICAL.value: "logical shape", Drawing.FABRIC.value: "on the fabric"},
                    value=self.state.drawing.value,
                    on_change=lambda event: self._draw_on(str(event.value)),
                ).props('dense no-caps aria-label="Drawing"')
            self._undrawn = ui.label("").classes("hidden").props("role=status")
            self.canvas = Canvas(Scene(title="Being worked out"), on_time=self._time, height_px=420)
            with ui.element("div").classes("rw-two"):
                with self._scrolled("Transfers of the round"):
                    self._transfers = ui.html("", sanitize=False)
                with self._scrolled("What each GPU holds"):
                    self._holdings_title = ui.label("").classes("rw-quiet")
                    self._holdings = ui.html("", sanitize=False)
        with ui.element("div").classes("rw-two") as self._ideal_figures:
            self._over_sizes = Figure(
                "Bus bandwidth over sizes, by algorithm", height_px=FIGURE_PX, follows=True
            )
            self._over_ranks = Figure(
                "Time over GPUs, by algorithm", height_px=FIGURE_PX, follows=True
            )
        self.choice = ChoiceSection(self.page)
        self._build_jobs()

    @staticmethod
    def _scrolled(label: str) -> Element:
        box = ui.element("div").classes("rw-scroll rw-step-box")
        box.props(f'tabindex=0 role=region aria-label="{label}"')
        with box:
            ui.label(label).classes("rw-h3").props("role=heading aria-level=3")
        return box

    def _build_jobs(self) -> None:
        with ui.element("section").classes("rw-card").props('aria-label="Longer runs"'):
            ui.label("Longer runs").classes("rw-h2").props("role=heading aria-level=2")
            with ui.row().classes("items-center"):
                ui.button("Packet by packet", on_click=self._packet).props(
                    "outline dense no-caps"
                ).classes("rw-packet-run")
                self._sweep_button = (
                    ui.button("Sizes over my fabric", on_click=self._sweep)
                    .props("outline dense no-caps")
                    .classes("hidden rw-sweep-run")
                )
            self._packet_said = ui.label("").props("role=status").classes("rw-packet-said")
            self._sweep_said = ui.label("").props("role=status").classes("rw-sweep-said")
            self._sweep_figure = Figure(
                "Bus bandwidth over sizes on this design", height_px=FIGURE_PX
            )
            self._sweep_figure.classes("hidden")

    # ------------------------------------------------------------ refreshing

    async def refresh(self) -> None:
        """Show what the closed forms say, and let the rest follow."""
        state = self.state
        closed = await self.page.compute(study, state)
        if closed is None:
            if state == self.state:
                self.choice.show(state)
            return
        self.closed = closed
        if self._shown_of != undrawn(state):
            self.run, self.curves = None, None
        on_design = state.where is Where.DESIGN
        _visible(self._ideal_figures, not on_design)
        _visible(self._sweep_button, on_design)
        self._forget_longer_runs(state)
        self._say()
        self.page.reproduce(
            reproduce(state, closed, self.page.session.design_name or "design.yaml")
        )
        self.choice.show(state)
        self.page.soon(self._follow, "engine")

    async def _follow(self) -> None:
        """Work out what takes longer than a blink: engine, animation, curves."""
        state, compute = self.state, self.page.studio.compute
        text = self.page.session.design_text if state.where is Where.DESIGN else ""
        try:
            await self.page.drawn()
            done = await compute(run, undrawn(state), text)
            if state != self.state:
                return
            self.run, self._shown_of = done, undrawn(state)
            await self._animate()
            self._say()
            if state.where is Where.IDEAL:
                await self._curves(state)
                self._say()
        except RailweaveError as error:
            if state == self.state:
                self._cannot(str(error))

    def _cannot(self, text: str) -> None:
        """Say why there is no engine's result; the closed form's numbers stand."""
        self.page.problem(text)
        self.rounds, self._shown = (), -1
        self.canvas.show(Scene(title="No drawing", description=text))
        self._transfers.set_content("")
        self._holdings.set_content("")
        self._holdings_title.set_text("")
        self.page.trace(())

    async def _curves(self, state: State) -> None:
        bare, compute = of_points(state), self.page.studio.compute
        points = await compute.later(engine_points, bare, _POINT_SIZES, _POINT_RANKS)
        if state != self.state:
            return
        found, sizes, ranks = await compute.later(figures, bare, *points)
        if state != self.state:
            return
        self.curves = found
        self._over_sizes.show(sizes)
        self._over_ranks.show(ranks)

    def _say(self) -> None:
        closed, state = self.closed, self.state
        if closed is None:
            return
        self.page.numbers(numbers(closed, self.run, state.where))
        self.page.interpretation(words(closed, self.curves, self.run, state.where))
        self.page.not_modelled(limits(closed, self.run))

    async def _animate(self) -> None:
        done = self.run
        if done is None:
            return
        by_shape = self.state.drawing is Drawing.LOGICAL
        self.canvas.show(_drawing(done, self.state.drawing))
        drawn = done.logical if by_shape else done.messages
        self.rounds = rounds(drawn, waiting=done.inputs.slow is not None)
        self._undrawn.set_text(done.undrawn)
        _visible(self._undrawn, bool(done.undrawn))
        self._shown = -1
        self._time(0.0)
        self.page.trace(trace_rows(done))

    def _draw_on(self, value: str) -> None:
        self.state = replace(self.state, drawing=Drawing(value))
        self.page.update(self.state)

        async def again() -> None:
            await self._animate()

        self.page.soon(again, "drawing")

    def _time(self, time_s: float) -> None:
        """Follow the canvas's clock: the round under way, and what is held before it."""
        done = self.run
        if not self.rounds or done is None or done.schedule is None:
            self._transfers.set_content("")
            self._holdings.set_content("")
            return
        over = at_time(self.rounds, time_s)
        if over == self._shown:
            return
        self._shown = over
        now = self.rounds[min(over, len(self.rounds) - 1)]
        self._transfers.set_content(round_html(now, done.schedule))
        if not now.messages or not now.messages[0].chunks:
            self._holdings_title.set_text(
                "Channels of a fabric cut the data their own way: see the logical shape for what "
                "each GPU holds."
            )
            self._holdings.set_content("")
            return
        count = len(done.schedule.rounds)
        self._holdings_title.set_text(
            "At the start" if over == 0 else f"After round {over} of {count}"
        )
        self._holdings.set_content(holdings_html(done.schedule, over))

    # ------------------------------------------------------------ longer runs

    def _forget_longer_runs(self, state: State) -> None:
        """Take away what longer runs said about other inputs."""
        if self._shown_of != undrawn(state):
            self._packet_said.set_text("")
            self._sweep_said.set_text("")
            _visible(self._sweep_figure, shown=False)

    def _job(self) -> tuple[State, str]:
        state = undrawn(self.state)
        text = self.page.session.design_text if state.where is Where.DESIGN else ""
        return state, text

    async def _packet(self) -> None:
        given = self._job()
        self._packet_said.set_text("")
        result = await self.page.run_job("collective packets", packet_job, given, job_key(given))
        if result is None or given != self._job():
            return
        flow = f"; flow engine {format_seconds(self.run.time_s)}" if self.run else ""
        self._packet_said.set_text(
            f"Packet engine: {format_seconds(result['time_s'])}{flow}. {result['events']:,} events."
        )

    async def _sweep(self) -> None:
        given = self._job()
        if self.run is None:
            return
        time_s = self.run.healthy_s

        def show(document: dict[str, Any]) -> None:
            self._sweep_figure.classes(remove="hidden")
            self._sweep_figure.show(sweep_figure(given[0], document["points"], time_s))
            self._sweep_said.set_text(sweep_words(document["points"]))

        result = await self.page.run_job(
            "collective sizes", sweep_job, given, job_key(given), on_partial=show
        )
        if result is not None and given == self._job():
            show(result)


def _drawing(done: Run, drawing: Drawing) -> Scene:
    """Return the drawing of a run; without messages it only says why."""
    if not done.messages or done.schedule is None:
        return Scene(title="No drawing", description=done.undrawn, note=done.undrawn)
    return on_fabric(done) if drawing is Drawing.FABRIC else logical(done, done.schedule)


def _visible(element: Element, shown: bool) -> None:
    if shown:
        element.classes(remove="hidden")
    else:
        element.classes(add="hidden")


_TEXT = lab("collectives")
LAB = Lab(7, "collectives", _TEXT.title, _TEXT.summary, 320, build)
