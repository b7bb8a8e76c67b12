"""What each field of the design file does: every entry, by the key of its field or choice."""

from __future__ import annotations

from _effect import BASES, Effect, changed
from _effects_cluster import CLUSTER_EFFECTS
from _effects_congestion import CONGESTION_EFFECTS
from _effects_network import NETWORK_EFFECTS
from _effects_security import SECURITY_EFFECTS
from _effects_work import WORK_EFFECTS

__all__ = ["BASES", "EFFECTS", "Effect", "changed"]

EFFECTS: dict[str, Effect] = {
    effect.key: effect
    for effect in (
        *CLUSTER_EFFECTS,
        *NETWORK_EFFECTS,
        *CONGESTION_EFFECTS,
        *WORK_EFFECTS,
        *SECURITY_EFFECTS,
    )
}
