"""Lab 2's inputs, which depend on the strategy and on the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from railweave.design.models import PlacementName, Recompute
from railweave.studio.controls import (
    GPU_STOPS,
    LATENCY_STOPS,
    SIZE_STOPS,
    choice,
    heading,
    integer,
    quantity,
    switch,
)
from railweave.studio.labs._traffic import State, Where, algorithms_of, with_model, with_strategy
from railweave.studio.labs._traffic_model import model_names
from railweave.studio.labs._traffic_words import STRATEGY_NAMES
from railweave.workload.patterns import MOST_GPUS, Strategy

if TYPE_CHECKING:
    from nicegui.element import Element

__all__ = ["Controls"]

_SPEEDS: Final = (
    "10 Gb/s", "25 Gb/s", "50 Gb/s", "100 Gb/s", "200 Gb/s", "400 Gb/s", "800 Gb/s", "1.6 Tb/s",
)  # fmt: skip
_INSIDE: Final = (
    "128 Gb/s", "256 Gb/s", "400 Gb/s", "1.2 Tb/s", "2.4 Tb/s", "3.6 Tb/s", "7.2 Tb/s",
)  # fmt: skip
#: latency inside a server where it is said to be another, until it is set
_NEAR: Final = "1 us"
#: the choice beside the strategies
_WHOLE: Final = "model"
_DEGREES: Final = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 15, 16, 18, 20, 24, 32, 40, 48, 64, 128, 256)
_TOKENS: Final = (0, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
_MOST_TOKENS: Final = 1 << 20
_EXCHANGE_WORDS: Final = {
    Strategy.DATA: "All-reduces a step",
    Strategy.TENSOR: "All-reduces a step",
    Strategy.CONTEXT: "Attention layers a step",
    Strategy.PIPELINE: "Micro-batches a step",
    Strategy.EXPERT: "Mixture layers a step",
}


class Controls:
    """The column of inputs.

    Args:
        state: what they show at first.
        design_name: of the visitor's design.
        take: is given the inputs whenever they change.
    """

    def __init__(self, state: State, design_name: str, take: Callable[[State], None]) -> None:
        self.state = state
        self._design_name, self._take_it = design_name, take
        self._near_text = state.scale_up_latency or _NEAR
        self._all = _part()
        self._build_controls()

    def show(self, state: State) -> None:
        """Take inputs that come from elsewhere, and show them in all fields."""
        self._all.clear()
        self.state = state
        self._build_controls()
        self._take(state)

    def change(self, **fields: Any) -> None:  # noqa: ANN401 - fields of the state
        """Take new inputs and show what they give."""
        self._take(replace(self.state, **fields))

    def _take(self, state: State) -> None:
        if state.picked >= state.gpus:
            state = replace(state, picked=-1)
        self.state = state
        self._take_it(state)

    def _set(
        self, name: str, read: Callable[[Any], Any] = lambda value: value
    ) -> Callable[[Any], None]:
        return lambda value: self.change(**{name: read(value)})

    def _build_controls(self) -> None:
        with self._all:
            self._build_training()
            self._build_where()

    def _build_training(self) -> None:
        state = self.state
        heading("Training")
        choice(
            "Strategy",
            _WHOLE if state.whole else state.strategy.value,
            {one.value: name for one, name in STRATEGY_NAMES.items()} | {_WHOLE: "whole model"},
            self._strategy,
        )
        self._sent = _part()
        self._build_sent()

    def _build_sent(self) -> None:
        """Build what depends on whether it is a strategy or a model."""
        self._sent.clear()
        state = self.state
        with self._sent:
            integer(
                "GPUs", state.gpus, 2, MOST_GPUS, self._set("gpus"), help_key="ranks",
                stops=GPU_STOPS,
            )  # fmt: skip
            if state.whole:
                self._build_model()
                return
            quantity(
                "Payload of an exchange", state.payload, SIZE_STOPS, "size", self._set("payload"),
                help_key="payload",
            )  # fmt: skip
            self._own = _part()
            self._build_own()

    def _build_model(self) -> None:
        state = self.state
        names = model_names()
        choice("Model", state.model, names, self._set("model"))
        if state.model not in names:  # as an address may name it; the lab says what is wrong
            ui.label(f"{state.model} is not in the catalog").classes("rw-quiet")
        for label, name, most, key in (
            ("Tensor-parallel ranks", "tensor", 64, "tensor_degree"),
            ("Context-parallel ranks", "context", 64, "context_degree"),
            ("Pipeline stages", "pipeline", 128, "pipeline_degree"),
            ("Expert-parallel ranks", "expert", 256, "expert_degree"),
            ("Micro-batches a step", "micro_batches", 1024, "micro_batches_per_step"),
            ("Sequences a micro-batch", "micro_batch", 64, "micro_batch"),
        ):
            integer(
                label, getattr(state, name), 1, most, self._set(name), help_key=key,
                stops=_DEGREES,
            )  # fmt: skip
        integer(
            "Tokens a sequence (0: the model's)", state.sequence, 0, _MOST_TOKENS,
            self._set("sequence"), help_key="sequence_length", stops=_TOKENS,
        )  # fmt: skip
        choice(
            "ZeRO stage", str(state.zero), {str(n): str(n) for n in range(4)},
            self._set("zero", int), help_key="zero_stage",
        )  # fmt: skip
        choice(
            "Recomputation", state.recompute.value, {one.value: one.value for one in Recompute},
            self._set("recompute", Recompute), help_key="recomputation",
        )  # fmt: skip
        integer(
            "Chunks of layers a stage", state.interleave, 1, 64, self._set("interleave"),
            help_key="interleave", stops=_DEGREES,
        )  # fmt: skip
        switch(
            "Sequence parallel", state.sequence_parallel, self._set("sequence_parallel"),
            help_key="sequence_parallel",
        )  # fmt: skip

    def _build_where(self) -> None:
        state = self.state
        heading("Network")
        choice(
            "Runs on",
            state.where.value,
            {
                Where.PLAIN.value: "servers, leaves and a spine",
                Where.DESIGN.value: self._design_label(),
            },
            self._where,
        )
        self._network = _part()
        self._build_network()

    def _design_label(self) -> str:
        name = self._design_name
        return f"my design: {name}" if name else "my design"

    def _build_own(self) -> None:
        """Build what depends on the strategy."""
        self._own.clear()
        state, able = self.state, algorithms_of(self.state.strategy)
        with self._own:
            integer(
                _EXCHANGE_WORDS[state.strategy], state.exchanges, 1, 256, self._set("exchanges"),
                help_key="exchanges_per_step",
            )  # fmt: skip
            if able:
                chosen = state.algorithm if state.algorithm in able else able[0]
                choice(
                    "Algorithm",
                    chosen.value,
                    {one.value: one.value for one in able},
                    lambda value: self.change(
                        algorithm=next(a for a in able if a.value == value)
                        if value != able[0].value
                        else None
                    ),
                )
            if state.strategy is Strategy.EXPERT:
                integer(
                    "Skew to one GPU, per cent", state.skew, 0, 100, self._set("skew"),
                    help_key="skew",
                )  # fmt: skip

    def _build_network(self) -> None:
        self._network.clear()
        state = self.state
        with self._network:
            if state.where is Where.PLAIN:
                self._build_plain(state)
            choice(
                "Placement",
                state.placement.value,
                {place.value: place.value for place in PlacementName},
                self._set("placement", PlacementName),
            )

    def _build_plain(self, state: State) -> None:
        change = self._set
        quantity("Link speed", state.speed, _SPEEDS, "rate", change("speed"), help_key="link_speed")
        quantity(
            "Latency of a message", state.latency, LATENCY_STOPS, "time", change("latency"),
            help_key="latency",
        )  # fmt: skip
        integer(
            "GPUs a server", state.per_server, 1, 16, self._per_server, help_key="gpus_per_server"
        )
        integer(
            "Servers a leaf", state.per_leaf, 1, 64, change("per_leaf"), help_key="servers_per_leaf"
        )
        integer(
            "Servers (0: as many as needed)", state.servers, 0, MOST_GPUS, change("servers"),
            help_key="servers",
        )  # fmt: skip
        # Hidden, not left out: who types in the fields beside it keeps the focus.
        self._inside = _part()
        self._inside.set_visibility(state.per_server > 1)
        with self._inside:
            quantity(
                "Speed inside a server", state.scale_up, _INSIDE, "rate", change("scale_up"),
                help_key="scale_up_speed",
            )  # fmt: skip
            switch("Same latency inside a server", not state.scale_up_latency, self._same_latency)
            self._apart = _part()
            self._apart.set_visibility(bool(state.scale_up_latency))
            with self._apart:
                quantity(
                    "Latency inside a server",
                    state.scale_up_latency or _NEAR,
                    LATENCY_STOPS,
                    "time",
                    self._near,
                    help_key="scale_up_latency",
                )

    def _near(self, text: str) -> None:
        self._near_text = text
        self.change(scale_up_latency=text)

    def _same_latency(self, same: bool) -> None:
        self._apart.set_visibility(not same)
        self.change(scale_up_latency="" if same else self._near_text)

    def _strategy(self, value: str) -> None:
        if value == _WHOLE:
            self._take(with_model(self.state))
            self._build_sent()
            self._build_network()
            return
        was_whole = self.state.whole
        self._take(with_strategy(self.state, Strategy(value)))
        if was_whole:
            self._build_sent()
        else:
            self._build_own()

    def _where(self, value: str) -> None:
        self.change(where=Where(value))
        self._build_network()

    def _per_server(self, count: int) -> None:
        self._inside.set_visibility(count > 1)
        self.change(per_server=count)


def _part() -> Element:
    return ui.element("div").classes("rw-control rw-traffic-part")
