"""Which engine runs, and with what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railweave.engine import simulate

if TYPE_CHECKING:
    from railweave.engine._drive import LiveRun
    from railweave.engine.packet_settings import PacketSettings
    from railweave.engine.result import Result
    from railweave.fabric import Fabric
    from railweave.fabric.routing import RoutingSet
    from railweave.workload import Traffic

__all__ = ["EngineChoice"]


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine by name, with the options that it knows.

    Args:
        name: ``"analytic"``, ``"flow"`` or ``"packet"``.
        tolerance: of the flow engine.
        settings: of the packet engine; None takes its defaults for the fabric.
        seed: of the packet engine's marking, loss and spraying.
    """

    name: str = "flow"
    tolerance: float = 0.0
    settings: PacketSettings | None = None
    seed: int = 0

    def simulate(
        self,
        fabric: Fabric,
        traffic: Traffic,
        routing: RoutingSet,
        progress: Callable[[float], None] | None = None,
        watch: Callable[[LiveRun], None] | None = None,
    ) -> Result:
        """Run it; see :func:`railweave.engine.simulate` for what it raises.

        ``progress`` and ``watch`` are those of the flow and the packet engine; closed forms call
        neither.
        """
        options: dict[str, Any] = {}
        if self.name == "flow":
            options = {"tolerance": self.tolerance, "progress": progress, "watch": watch}
        elif self.name == "packet":
            options = {"settings": self.settings, "seed": self.seed}
            options |= {"progress": progress, "watch": watch}
        return simulate(fabric, traffic, routing, self.name, **options)
