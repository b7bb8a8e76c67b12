"""What congestion control does at one congested port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from railweave.engine.faults import NicIgnoresCnp
from railweave.engine.packet import PacketResult
from railweave.experiments._bench import (
    F64,
    GBPS,
    KMAX_BYTES,
    KMIN_BYTES,
    PAPER,
    congestion,
    into_switch,
    jain,
    long_flows,
    messages,
    percent,
    queue_of,
    rate_series,
    rates_bps,
    record_of,
    routed,
    run,
    series,
)
from railweave.experiments._model import Chart, Experiment, Outcome
from railweave.fabric.names import node_name
from railweave.fabric.small import Cable, small_fabric, star

__all__ = ["EXPERIMENTS", "Incast", "incast"]

_SAMPLE_S: Final = 20e-6
#: wire bytes of a full RoCEv2 packet over its payload
_WIRE: Final = 4178 / 4096


@dataclass(frozen=True)
class Incast:
    """What was measured of senders to one receiver: shares, use of the port, its queue."""

    result: PacketResult
    rates_bps: F64
    queue_s: F64
    queue_bytes: F64
    use: float

    @property
    def fairness(self) -> float:
        """Jain's index of the senders."""
        return jain(self.rates_bps)

    def queue(self, percent: float) -> float:
        """Return a percentile of the queue in bytes."""
        return float(np.percentile(self.queue_bytes, percent))

    @property
    def pauses(self) -> int:
        """Pauses within the whole run."""
        return len(record_of(self.result).pause_intervals["link"])


def incast(
    senders: int,
    speed_bps: float,
    from_s: float,
    until_s: float,
    **spec: Any,  # noqa: ANN401
) -> Incast:
    """Send from all hosts of a star to one, and measure between two times.

    ``spec`` are congestion settings as in a design file.
    """
    fabric = star(senders + 1, speed_bps)
    port = into_switch(fabric, senders + 1, senders)
    result = run(
        fabric,
        long_flows([(h, senders) for h in range(senders)]),
        routed(fabric),
        congestion(**spec),
        until_s=until_s,
        sample_s=_SAMPLE_S,
        links=(port,),
    )
    rates = rates_bps(result, from_s, until_s)
    time, queue = queue_of(result, port, from_s)
    return Incast(result, rates, time, queue, float(rates.sum()) * _WIRE / speed_bps)


# ---------------------------------------------------------------- the paper's profile


def _paper() -> Outcome:
    values: dict[str, float] = {}
    rows = []
    good = True
    for senders in (2, 8, 32):
        seen = incast(senders, 40 * GBPS, 0.1, 0.2, **PAPER)
        median = seen.queue(50)
        values |= {
            f"senders_{senders}_jain": seen.fairness,
            f"senders_{senders}_median_queue_bytes": median,
            f"senders_{senders}_p99_queue_bytes": seen.queue(99),
            f"senders_{senders}_use": seen.use,
            f"senders_{senders}_pauses": seen.pauses,
        }
        good &= seen.fairness >= 0.95 and KMIN_BYTES <= median <= KMAX_BYTES
        shown = seen.queue_s < 0.11
        rows.append(
            (f"{senders} senders", seen.queue_s[shown] * 1e3, seen.queue_bytes[shown] / 1e3)
        )
    chart = Chart(
        "queue",
        series(rows),
        "time [ms]",
        "queue [kB]",
        band=(KMIN_BYTES / 1e3, KMAX_BYTES / 1e3, "Kmin–Kmax"),
    )
    return Outcome(
        values,
        (chart,),
        good,
        "Shares are even and the median queue lies between the marking thresholds. It does not "
        "stand still: all senders are cut at once and return together, so it swings from empty "
        "to above Kmax, the wider the more senders there are.",
    )


# ---------------------------------------------------------------- 90 to 10


def _converge() -> Outcome:
    """Nine more flows hold one sender down at a port before, until their messages end."""
    left, right = 13, 14
    cables = [Cable(h, left if h < 10 else right, 40 * GBPS) for h in range(13)]
    fabric = small_fabric(
        "ninety-ten", 13, (-1, -1), [*cables, Cable(left, right, 40 * GBPS, 20.0)]
    )
    flows = [(0, 11), (10, 11), *((h, 12) for h in range(1, 10))]
    traffic = messages(flows, [50e9, 50e9] + [25e6] * 9)
    result = run(fabric, traffic, routed(fabric), congestion(**PAPER), until_s=0.2, sample_s=100e-6)
    ends = result.task_finish_s[2:]
    first, last = float(ends.min()), float(ends.max())
    before = rates_bps(result, first - 0.02, first)[:2]
    after = rates_bps(result, 0.1, 0.2)[:2]
    (time, low), (_, high) = (rate_series(result, k, 20) for k in (0, 1))
    even = np.array([jain(np.array(pair)) >= 0.95 for pair in zip(low, high, strict=True)])
    reached = float(time[np.flatnonzero(even & (time > first))[0]]) if even.any() else np.inf
    share = float(before[0] / before.sum())
    values = {
        "small_before_share": share,
        "small_after_share": float(after[0] / after.sum()),
        "others_end_first_s": first,
        "others_end_last_s": last,
        "jain_095_after_s": reached - last,
        "jain_after": jain(after),
    }
    chart = Chart(
        "rates",
        series([("held down before", time * 1e3, low / 1e9), ("other", time * 1e3, high / 1e9)]),
        "time [ms]",
        "goodput [Gb/s]",
    )
    good = 0.05 <= share <= 0.15 and jain(after) >= 0.95
    return Outcome(
        values,
        (chart,),
        good,
        "The large flow gives way as soon as the small one grows; they are even after some tens of "
        "milliseconds, the time that additive increase of 40 Mb/s each 55 µs takes.",
    )


# ---------------------------------------------------------------- other profiles


_PROFILES: Final = ("dcqcn-paper", "dcqcn-firmware", "dcqcn-simulator")


def _profiles() -> Outcome:
    values: dict[str, float] = {}
    use: dict[str, list[float]] = {name: [] for name in _PROFILES}
    queue: dict[str, list[float]] = {name: [] for name in _PROFILES}
    cases = [(gbps, n) for gbps in (100, 200, 400) for n in (2, 8, 32)]
    for profile in _PROFILES:
        for gbps, senders in cases:
            own = profile == "dcqcn-simulator" and gbps != 200  # it has no thresholds at 200G
            seen = incast(
                senders,
                gbps * GBPS,
                0.02,
                0.05,
                scheme="pfc+dcqcn",
                profile=profile,
                ecn="simulator" if own else "rule",
            )
            key = f"{profile.removeprefix('dcqcn-')}_{gbps}g_{senders}"
            values |= {
                f"{key}_jain": seen.fairness,
                f"{key}_use": seen.use,
                f"{key}_median_queue_bytes": seen.queue(50),
                f"{key}_p99_queue_bytes": seen.queue(99),
                f"{key}_pauses": seen.pauses,
            }
            use[profile].append(seen.use)
            queue[profile].append(seen.queue(99))
    names = [f"{gbps}G, {n}" for gbps, n in cases]
    charts = (
        Chart(
            "use",
            series((p, names, [100 * v for v in use[p]]) for p in _PROFILES),
            "speed, senders",
            "use of the port [%]",
            kind="bar",
        ),
        Chart(
            "queue",
            series((p, names, [v / 1e3 for v in queue[p]]) for p in _PROFILES),
            "speed, senders",
            "queue, p99 [kB]",
            kind="bar",
            log_y=True,
        ),
    )
    fair = all(v >= 0.95 for k, v in values.items() if k.endswith("_jain"))
    least = ", ".join(
        f"{p.removeprefix('dcqcn-')} {percent(min(use[p]))} ({names[int(np.argmin(use[p]))]})"
        for p in _PROFILES
    )
    return Outcome(
        values,
        charts,
        fair,
        f"Least use of the port: {least}. Senders that the first burst has cut down return in "
        "steps of a fixed size: those of the paper were made for 40 Gb/s.",
    )


# ---------------------------------------------------------------- one adapter does not listen


def _deaf() -> Outcome:
    senders = 4
    fabric = star(senders + 1, 100 * GBPS)
    routing = routed(fabric)
    rows, values = [], dict[str, float]()
    names = [f"sender {k + 1}" for k in range(senders)]
    for label, key, faults in (
        ("all react", "all_react", ()),
        ("sender 1 ignores CNPs", "one_deaf", (NicIgnoresCnp(node_name(fabric, 0)),)),
    ):
        result = run(
            fabric,
            long_flows([(h, senders) for h in range(senders)]),
            routing,
            congestion(scheme="pfc+dcqcn", profile="dcqcn-firmware"),
            until_s=0.05,
            sample_s=100e-6,
            faults=faults,
        )
        rates = rates_bps(result, 0.02, 0.05)
        rows.append((label, names, rates / 1e9))
        counters = record_of(result).flow_counters
        values |= {
            f"{key}_first_share": float(rates[0] / rates.sum()),
            f"{key}_jain": jain(rates),
            f"{key}_pauses": len(record_of(result).pause_intervals["link"]),
            f"{key}_cnp_ignored": float(counters["cnp_ignored"][0]),
            f"{key}_others_bps": float(rates[1:].mean()),
        }
    chart = Chart("shares", series(rows), "", "goodput [Gb/s]", kind="bar")
    good = (
        values["all_react_jain"] >= 0.95
        and values["one_deaf_first_share"] > 2 / senders
        and values["one_deaf_cnp_ignored"] > 0
    )
    return Outcome(
        values,
        (chart,),
        good,
        f"The adapter that ignores notifications takes {percent(values['one_deaf_first_share'])} "
        f"of the port instead of {percent(1 / senders)}; the others, which are told of the queue "
        "that it keeps full, give way.",
    )


EXPERIMENTS: Final = (
    Experiment(
        "dcqcn-paper",
        "DCQCN, paper's profile: 2, 8 and 32 senders to one",
        "Jain's index is at least 0.95 and the median queue lies within Kmin–Kmax.",
        {
            "fabric": "one switch, 40 Gb/s, 5 m",
            "profile": "dcqcn-paper: g 1/256, 55 µs, 10 MB, R_AI 40 Mb/s, CNP interval 50 µs",
            "marking": "Kmin 5 kB, Kmax 200 kB, Pmax 1 %",
            "measured": "0.1 to 0.2 s, queue each 20 µs",
        },
        _paper,
    ),
    Experiment(
        "dcqcn-converges",
        "DCQCN: two flows from 90 : 10",
        "Two flows whose rates are 90 : 10 become even.",
        {
            "fabric": "two switches, 40 Gb/s",
            "start": "nine flows of 25 MB hold one of the two down at the cable between the "
            "switches, until they end",
            "profile": "as above",
            "measured": "before they end; 0.1 to 0.2 s; Jain's index each 2 ms",
        },
        _converge,
    ),
    Experiment(
        "dcqcn-profiles",
        "DCQCN profiles at 100 to 400 Gb/s",
        "All profiles share a port evenly (Jain's index at least 0.95); their use of it and their "
        "queues differ.",
        {
            "fabric": "one switch, 100, 200 and 400 Gb/s, 5 m; 2, 8 and 32 senders",
            "profiles": ", ".join(_PROFILES),
            "marking": "railweave's rule (Kmin one round trip, Kmax four, less where PFC would "
            "come first; Pmax 20 %); simulator at 100 and 400 Gb/s: its own 400/1600, 800/3200 kB",
            "measured": "20 to 50 ms after all began at line rate",
        },
        _profiles,
    ),
    Experiment(
        "cnp-ignored",
        "An adapter that ignores CNPs",
        "It takes more than twice its share, and those that obey lose it.",
        {
            "fabric": "one switch, 100 Gb/s; 4 senders to one",
            "profile": "dcqcn-firmware, marking by railweave's rule",
            "fault": "the first sender's adapter ignores CNPs",
            "measured": "20 to 50 ms",
        },
        _deaf,
    ),
)
