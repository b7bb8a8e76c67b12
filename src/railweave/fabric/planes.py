"""Routing of every plane of a built design, as the design asks for it."""

from __future__ import annotations

from dataclasses import replace

from railweave.design import LoadedDesign
from railweave.design.defaults import schemes_of
from railweave.design.models import Plane, RoutingScheme, Transport
from railweave.errors import InputError
from railweave.fabric._arrays import PlaneId
from railweave.fabric.build import BuiltFabric
from railweave.fabric.forwarding import ForwardingTable, read_table
from railweave.fabric.routing import Routing, RoutingSet, compile_routing
from railweave.fabric.wire import encryption_on, framing

__all__ = ["compile_planes"]


def compile_planes(
    loaded: LoadedDesign, built: BuiltFabric, *, scheme: RoutingScheme | None = None, seed: int
) -> RoutingSet:
    """Return the routing of every plane; planes that share a network share its routing.

    Args:
        loaded: the design, for schemes, seeds and table files.
        built: the design built; links that are down are avoided.
        scheme: used on the back-end instead of the design's.
        seed: of hashes and queue pair numbers.

    Raises:
        InputError: a scheme that the transport does not have, or a forwarding table that cannot
            be read.
    """
    made: dict[PlaneId, Routing] = {}
    for carrier in sorted(set(built.network.values())):
        spec: Plane = getattr(loaded.design.planes, carrier.name.lower())
        wanted = spec.routing
        plan = built.plans.get(carrier)
        transport = plan.transport if plan else (spec.transport or Transport.TCP)
        if scheme is not None and carrier is PlaneId.BACKEND:
            _require_scheme(scheme, transport)
            wanted = wanted.model_copy(update={"scheme": scheme})
        made[carrier] = compile_routing(
            built.fabric,
            carrier,
            wanted,
            transport,
            seed,
            mtu_bytes=spec.mtu,
            forwarding=_table(loaded, built, wanted.table),
        )
    frames = {
        plane: framing(
            made[carrier].transport,
            made[carrier].frame.mtu_bytes,
            encryption_on(loaded.design.planes, built.network, plane),
        )
        for plane, carrier in built.network.items()
    }
    made = {carrier: replace(routing, frame=frames[carrier]) for carrier, routing in made.items()}
    return RoutingSet({p: made[carrier] for p, carrier in built.network.items()}, frames)


def _require_scheme(scheme: RoutingScheme, transport: Transport) -> None:
    known = [choice.value for choice in schemes_of(transport)]
    if scheme.value not in known:
        raise InputError(
            f"routing {scheme.value!r} does not exist on the back-end's transport, "
            f"{transport.value}; allowed: {', '.join(known)}"
        )


def _table(loaded: LoadedDesign, built: BuiltFabric, name: str | None) -> ForwardingTable | None:
    return read_table(loaded.resolve(name), built.fabric) if name else None
