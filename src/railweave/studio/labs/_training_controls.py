"""The training step's inputs on the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from railweave.design.models import Precision, Recompute
from railweave.errors import RailweaveError
from railweave.predict.plan_study import parse_batch, parse_count
from railweave.studio.controls import choice, heading, integer, switch
from railweave.studio.help import help_button
from railweave.studio.labs._training import DESIGN, Scaling, State

if TYPE_CHECKING:
    from nicegui.element import Element

__all__ = ["Controls"]

_MOST_GPUS: Final = 1 << 17
_MOST: Final = 4096
_GPUS: Final = (
    0, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536,
)  # fmt: skip
_TENSOR: Final = (1, 2, 4, 8, 12, 16, 24, 36, 72)
_CONTEXT: Final = (1, 2, 4, 8, 16, 32, 64)
_PIPELINE: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 32, 40, 48, 64)
_EXPERT: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_CHUNKS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
_DATA: Final = (0, 1, 2, 4, 8, 16, 31, 32, 62, 64, 124, 128, 256, 512, 1024, 2048, 4096)
_BATCHES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 32)
#: GPUs that catalog servers begin with
_FIRST_GPUS: Final = 1024
_ZERO: Final = {
    "0": "0: nothing sharded",
    "1": "1: optimiser states",
    "2": "2: gradients too",
    "3": "3: weights too (FSDP)",
}
_RECOMPUTE: Final = {
    Recompute.NONE.value: "nothing",
    Recompute.SELECTIVE.value: "selective: attention scores",
    Recompute.FULL.value: "full: the forward pass",
}


class Controls:
    """The column of inputs.

    Args:
        state: what they show at first.
        design_name: of the visitor's design.
        models: titles of the models by name.
        servers: titles of catalog servers by name.
        take: is given the inputs whenever they change.
        search: looks for the best plan; its argument tells whether the degrees are kept.
    """

    def __init__(
        self,
        state: State,
        *,
        design_name: str,
        models: Mapping[str, str],
        servers: Mapping[str, str],
        take: Callable[[State], None],
        search: Callable[[bool], None],
    ) -> None:
        self.state = state
        self._design_name, self._models, self._servers = design_name, models, servers
        self._take_it, self._search = take, search
        heading("Job")
        self._job = _part()
        heading("Plan")
        with ui.element("div").classes("rw-training-buttons"):
            ui.button("Best plan", on_click=lambda: search(False)).props("outline no-caps dense")
            ui.button("Best with these degrees", on_click=lambda: search(True)).props(
                "outline no-caps dense"
            )
        self._plan = _part()
        self._build_job()
        self._build_plan()
        self._build_price()
        self._build_scaling()

    def show(self, state: State) -> None:
        """Show other inputs, as a search or an offer gives them."""
        before, self.state = self.state, state
        if (before.gpus, before.batch) != (state.gpus, state.batch):
            self._build_job()
        self._build_plan()

    def _change(self, **fields: Any) -> None:  # noqa: ANN401 - fields of the state
        self.state = replace(self.state, **fields)
        self._take_it(self.state)

    def _set(
        self, name: str, read: Callable[[Any], Any] = lambda value: value
    ) -> Callable[[Any], None]:
        return lambda value: self._change(**{name: read(value)})

    # ---------------------------------------------------------- groups of inputs

    def _build_job(self) -> None:
        self._job.clear()
        state = self.state
        mine = f"my design: {self._design_name}" if self._design_name else "my design"
        with self._job:
            choice("Model", state.model, self._models, self._set("model"))
            choice("Runs on", state.where, {DESIGN: mine, **self._servers}, self._where)
            integer(
                "GPUs (0: all of the design)", state.gpus, 0, _MOST_GPUS, self._set("gpus"),
                help_key="gpus", stops=_GPUS,
            )  # fmt: skip
            _text(
                "Batch of a step", state.batch, self._batch_wrong, self._set("batch"),
                help_key="global_batch", hint="about 4 Mi tokens",
            )  # fmt: skip
            _text(
                "Tokens of a sequence", state.sequence, _count_wrong, self._set("sequence"),
                help_key="sequence_length", hint="the model's",
            )  # fmt: skip
            choice(
                "Precision", state.precision.value, {one.value: one.value for one in Precision},
                self._set("precision", Precision), help_key="arithmetic_precision",
            )  # fmt: skip

    def _batch_wrong(self, text: str) -> str | None:
        # Whether tokens are whole sequences depends on the model; the page says that.
        return _wrong(lambda: parse_batch(text, 1)) if text.strip() else None

    def _where(self, value: str) -> None:
        if value != DESIGN and not self.state.gpus:  # of catalog servers a number is needed
            self._change(where=value, gpus=_FIRST_GPUS)
            self._build_job()
        else:
            self._change(where=value)

    def _build_plan(self) -> None:
        self._plan.clear()
        state = self.state
        with self._plan:
            for label, name, stops in (
                ("Tensor", "tensor", _TENSOR),
                ("Context", "context", _CONTEXT),
                ("Pipeline", "pipeline", _PIPELINE),
                ("Expert", "expert", _EXPERT),
            ):
                integer(
                    label, max(getattr(state, name), 1), 1, _MOST, self._set(name),
                    help_key=f"{name}_degree", stops=stops,
                )  # fmt: skip
            integer(
                "Data (0: what the GPUs leave)", state.data, 0, _MOST_GPUS, self._set("data"),
                help_key="data_degree", stops=_DATA,
            )  # fmt: skip
            integer(
                "Sequences a micro-batch", state.micro_batch, 1, _MOST, self._set("micro_batch"),
                help_key="micro_batch", stops=_BATCHES,
            )  # fmt: skip
            integer(
                "Chunks a stage", state.interleave, 1, _MOST, self._set("interleave"),
                help_key="interleave", stops=_CHUNKS,
            )  # fmt: skip
            choice("ZeRO", str(state.zero), _ZERO, self._set("zero", int), help_key="zero_stage")
            choice(
                "Recompute", state.recompute.value, _RECOMPUTE, self._set("recompute", Recompute),
                help_key="recomputation",
            )  # fmt: skip
            switch(
                "Sequence parallel", state.sequence_parallel, self._set("sequence_parallel"),
                help_key="sequence_parallel",
            )  # fmt: skip

    def _build_price(self) -> None:
        heading("Price")
        with ui.element("div").classes("rw-control"):
            with ui.row(wrap=False).classes("rw-label"):
                ui.label("Price of a GPU-hour")
                help_button("gpu_hour_price")
            price = (
                ui.number(value=self.state.gpu_hour, min=0, format="%g")
                .props('dense outlined hide-bottom-space input-class=rw-mono step=0.1')
                .props('aria-label="Price of a GPU-hour"')
            )  # fmt: skip

        def typed() -> None:
            value = price.value
            if value is None or value < 0:
                price.set_value(self.state.gpu_hour)
            elif value != self.state.gpu_hour:
                self._change(gpu_hour=float(value))

        price.on("keydown.enter", typed)
        price.on("blur", typed)
        _text(
            "Tokens of the run", self.state.tokens, _count_wrong, self._set("tokens"),
            help_key="run_tokens", hint="such as 15T",
        )  # fmt: skip

    def _build_scaling(self) -> None:
        heading("Scaling")
        choice(
            "The batch",
            self.state.mode.value,
            {
                Scaling.WEAK.value: "weak: grows with the GPUs",
                Scaling.STRONG.value: "strong: stays",
            },
            self._set("mode", Scaling),
            help_key="scaling_mode",
        )
        _text(
            "GPU counts", self.state.scale, _counts_wrong, self._set("scale"),
            help_key="scaling_counts", hint="auto",
        )  # fmt: skip


def _part() -> Element:
    return ui.element("div").classes("rw-control rw-training-part")


def _text(
    label: str,
    value: str,
    wrong: Callable[[str], str | None],
    on_change: Callable[[str], None],
    *,
    help_key: str,
    hint: str,
) -> None:
    """Add a text that is taken once it can be read; ``hint`` says what an empty one stands for."""
    with ui.element("div").classes("rw-control"):
        with ui.row(wrap=False).classes("rw-label"):
            ui.label(label)
            help_button(help_key)
        field = (
            ui.input(value=value, placeholder=hint, validation=lambda text: wrong(text or ""))
            .props("dense outlined hide-bottom-space input-class=rw-mono")
            .props(f'aria-label="{label}"')
        )
    told = [value]

    def typed() -> None:
        text = (field.value or "").strip()
        if text != told[0] and wrong(text) is None:
            told[0] = text
            on_change(text)

    field.on("keydown.enter", typed)
    field.on("blur", typed)


def _wrong(read: Callable[[], object]) -> str | None:
    try:
        read()
    except RailweaveError as error:
        return str(error)
    return None


def _count_wrong(text: str) -> str | None:
    return _wrong(lambda: parse_count(text)) if text.strip() else None


def _counts_wrong(text: str) -> str | None:
    if text.strip() in ("", "auto"):
        return None
    return _wrong(lambda: [parse_count(part) for part in text.split(",") if part.strip()])
