"""Power of a design: the fabric's report with the servers' draws taken from the design."""

from __future__ import annotations

from railweave.design import LoadedDesign
from railweave.design.models import InlineSwitch, TierSwitches
from railweave.fabric.build import BuiltFabric
from railweave.fabric.power import PowerReport, ServerDraw, power_report

__all__ = ["design_power"]


def design_power(loaded: LoadedDesign, built: BuiltFabric) -> PowerReport:
    """Return power by plane and rack, cables and power findings of a built design."""
    design, draws = loaded.design, []
    per_group = built.nodes.server_group
    for number, group in enumerate(design.cluster.servers):
        count = int((per_group == number).sum())
        if group.inline is not None:
            draws.append(ServerDraw(group.name, count, group.inline.power))
        else:
            part = loaded.catalog.server(group.model or "")
            draws.append(ServerDraw(part.name, count, part.power_w, part.cooling))
    return power_report(
        built.fabric,
        draws,
        design.facility,
        catalog=loaded.catalog,
        inline_switch_w=_inline_power(built),
    )


def _inline_power(built: BuiltFabric) -> dict[str, float]:
    """Return the stated power of the switches that the design describes itself, by name."""
    stated: dict[str, float] = {}
    for plan in built.plans.values():
        choice = plan.spec.switch
        tiers = {"leaf": choice, "spine": choice, "core": choice}
        if isinstance(choice, TierSwitches):
            spine = choice.spine or choice.leaf
            tiers = {"leaf": choice.leaf, "spine": spine, "core": choice.core or spine}
        for tier, shape in plan.switches.items():
            described = tiers.get(tier)
            if isinstance(described, InlineSwitch):
                stated[shape.name] = described.power
    return stated
