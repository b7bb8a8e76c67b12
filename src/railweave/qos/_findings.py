"""What is wrong with the settings of a switch: room that does not fit, ECN that comes too late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from railweave.errors import InputError
from railweave.findings import Finding, Severity
from railweave.qos._ecn import EcnThresholds, ecn_ceiling_bytes
from railweave.qos._headroom import headroom
from railweave.qos._switch import SwitchQos
from railweave.units import format_bits_rate, format_bytes

__all__ = ["switch_findings"]


def switch_findings(
    qos: SwitchQos,
    ports: Mapping[tuple[float, float], int],
    path: str,
    *,
    switch_path: str = "",
) -> Iterator[Finding]:
    """Hold a switch's settings against its ports.

    Args:
        qos: the settings.
        ports: number of ports by speed in b/s and length of their cable in m.
        path: the field that chose the settings.
        switch_path: the field that chose the switch; the same where left out.
    """
    if not qos.lossless:
        return
    shared = qos.shared_bytes(dict(ports))
    yield from _room(qos, ports, shared, switch_path or path)
    yield from _by_rule(qos, ports, path)
    if shared <= 0:
        return
    for speed in sorted({speed for speed, _ in ports}):
        for priority in qos.lossless:
            try:
                marks = qos.ecn(priority, speed)
            except InputError as error:
                yield Finding(
                    "ecn-without-speed",
                    Severity.ERROR,
                    path,
                    str(error),
                    f"{qos.name} has ports of {format_bits_rate(speed)}",
                    "ecn: rule, or {kmin, kmax, pmax}",
                )
                break
            if marks is not None:
                said = f"at {format_bits_rate(speed)}"
                yield from _marks(qos, marks, (shared, sum(ports.values())), said, path)
                break


def _room(
    qos: SwitchQos, ports: Mapping[tuple[float, float], int], shared: float, path: str
) -> Iterator[Finding]:
    """Say whether headroom and reserved room of all ports fit into the buffer."""
    taken, count = qos.buffer_bytes - shared, sum(ports.values())
    share = taken / qos.buffer_bytes
    groups = len(qos.lossless)
    evidence = f"{count} ports × {groups} lossless " + ("class" if groups == 1 else "classes")
    if shared <= 0:
        yield Finding(
            "buffer-below-headroom",
            Severity.WARNING,
            path,
            f"{qos.name}: headroom and reserved room need {format_bytes(taken)}, the buffer has"
            f" {format_bytes(qos.buffer_bytes)}: with all ports paused at once, lossless packets"
            " are dropped",
            evidence,
            "fewer lossless classes, shorter cables, more buffer, or a scheme without PFC",
        )
    elif shared < qos.buffer_bytes / 2:
        yield Finding(
            "headroom-takes-half",
            Severity.INFO,
            path,
            f"{qos.name}: headroom and reserved room take {share:.0%} of the buffer;"
            f" {format_bytes(shared)} are left for bursts",
            evidence,
            "one lossless class only, shorter cables, or a shared headroom pool",
        )


def _by_rule(
    qos: SwitchQos, ports: Mapping[tuple[float, float], int], path: str
) -> Iterator[Finding]:
    """Say where a headroom that was set is below what the rule gives."""
    policy = qos.headroom_bytes
    if policy.fixed_bytes is None or policy.asic is None:
        return
    need = {
        (speed, length): headroom(speed, length, policy.asic, qos.mtu_bytes, any_speed=True)
        for speed, length in ports
    }
    worst = max(need.values(), key=lambda rule: rule.xoff_bytes, default=None)
    if worst is not None and worst.xoff_bytes > policy.fixed_bytes:
        yield Finding(
            "headroom-below-rule",
            Severity.WARNING,
            path,
            f"a headroom of {policy.fixed_bytes:,} B is set; {format_bits_rate(worst.speed_bps)}"
            f" over {worst.cable_m:.3g} m may need {worst.xoff_bytes:,} B",
            f"SONiC's rule for {worst.asic}, {worst.certainty.value}",
            "headroom: rule",
        )


def _marks(
    qos: SwitchQos, marks: EcnThresholds, pool: tuple[float, int], where: str, path: str
) -> Iterator[Finding]:
    """Say whether PFC acts before ECN; ``pool`` is the shared pool and the ports that use it."""
    shared, ports = pool
    alone = qos.pause_at_bytes(shared)
    together = alone if qos.pg_threshold_bytes else ecn_ceiling_bytes(shared, qos.pg_alpha, ports)
    evidence = (
        f"{where}: Kmin {marks.kmin_bytes:,} B, Kmax {marks.kmax_bytes:,} B;"
        f" PFC at {alone:,.0f} B alone, {together:,.0f} B with {ports} ports congested"
    )
    fix = "ecn: rule, or a lower Kmax; or a higher pfc_threshold"
    if marks.kmin_bytes >= alone:
        yield Finding(
            "ecn-above-pfc",
            Severity.WARNING,
            path,
            "PFC pauses before a single packet is marked: senders never hear of congestion",
            evidence,
            fix,
        )
    elif marks.kmax_bytes >= alone:
        yield Finding(
            "ecn-reaches-pfc",
            Severity.WARNING,
            path,
            "Kmax lies above the pause threshold: PFC acts before marking is certain",
            evidence,
            fix,
        )
    elif marks.kmax_bytes > together:
        yield Finding(
            "ecn-late-under-load",
            Severity.INFO,
            path,
            "ECN acts first on one congested port; with all ports congested PFC comes first",
            evidence,
            fix,
        )
