"""Engines: the same fabric, traffic and routing in, the same kind of result out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from railweave.engine.result import Explanation, Result
from railweave.errors import InputError

if TYPE_CHECKING:
    from railweave.fabric import Fabric
    from railweave.fabric.routing import Routing, RoutingSet
    from railweave.workload import Traffic

__all__ = ["ENGINES", "Explanation", "Result", "simulate"]

ENGINES = ("analytic", "flow", "packet")


def simulate(
    fabric: Fabric,
    traffic: Traffic,
    routing: Routing | RoutingSet,
    engine: Literal["analytic", "flow", "packet"] | str = "flow",
    **options: Any,  # noqa: ANN401 - each engine states its own
) -> Result:
    """Run traffic over a fabric with one of the engines.

    Args:
        fabric: what is there.
        traffic: what is sent.
        routing: how paths are chosen, of one plane or of all.
        engine: ``"flow"`` (max-min fair, event by event), ``"packet"`` (packet by packet) or
            ``"analytic"`` (closed forms).
        options: of that engine; see :func:`railweave.engine.flow.simulate_flow`,
            :func:`railweave.engine.packet.simulate_packet` and
            :func:`railweave.engine.analytic.simulate_analytic`.

    Raises:
        InputError: an engine that does not exist.
        EngineError: the simulation cannot go on.
    """
    if engine == "flow":
        from railweave.engine.flow import simulate_flow

        return simulate_flow(fabric, traffic, routing, **options)
    if engine == "packet":
        from railweave.engine.packet import simulate_packet

        return simulate_packet(fabric, traffic, routing, **options)
    if engine == "analytic":
        from railweave.engine.analytic import simulate_analytic

        return simulate_analytic(fabric, traffic, routing, **options)
    raise InputError(f"engine {engine!r} does not exist; allowed: {', '.join(ENGINES)}")
