"""From measurements and stated facts to scores, weights, a ranking, and where it turns.

A total is Σ weight · score / Σ weight, so it is linear in each weight but for a divisor that all
share: where two technologies tie is solved exactly, not searched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from railweave.errors import InputError
from railweave.transport.compare._swap import can_encrypt
from railweave.transport.compare._technologies import CLASS_WORDS, Technology, technology_facts
from railweave.transport.compare._types import (
    PREFERRED_WEIGHT,
    REQUIRED_WEIGHT,
    Exclusion,
    Flip,
    Measured,
    Measurements,
    Requirements,
    Score,
    Term,
)
from railweave.units import format_seconds, format_si

__all__ = ["excluded", "flips_of", "scores_of", "totals_of", "weights_of"]

Scores = Mapping[Technology, tuple[Score, ...]]

#: where one maker is too few
_FEW_MAKERS: Final = 2


# ---------------------------------------------------------------- weights


def weights_of(asked: Requirements) -> tuple[Term, ...]:
    """Return the weight of every criterion and why it is so, in their order.

    Raises:
        InputError: all are 0, so that no answer is better than another.
    """
    raised = _raised(asked)
    terms = []
    for key, criterion in technology_facts().criteria.items():
        weight, reason = criterion.weights[asked.workload], f"default for {asked.workload}"
        if key in raised and (key == "cost" or raised[key][0] > weight):
            weight, reason = raised[key]
        if key in asked.weights:
            weight, reason = asked.weights[key], "as given"
        terms.append(Term(key, float(weight), reason))
    if not any(term.weight for term in terms):
        raise InputError("weights: all are 0; give at least one criterion a weight above 0")
    return tuple(terms)


def _raised(asked: Requirements) -> dict[str, tuple[float, str]]:
    """Return weights that requirements set, with the reason."""
    levels = {"preferred": PREFERRED_WEIGHT, "required": REQUIRED_WEIGHT}
    found: dict[str, tuple[float, str]] = {}
    for key, level, what in (
        ("vendors", asked.vendors, "several makers"),
        ("tenancy", asked.tenancy, "tenants"),
    ):
        if level in levels:
            found[key] = levels[level], f"{what}: {level}"
    if asked.encryption != "any":
        need = PREFERRED_WEIGHT if asked.encryption == "preferred" else REQUIRED_WEIGHT
        found["security"] = need, f"encryption: {asked.encryption}"
    if asked.reach != "hall":
        need = PREFERRED_WEIGHT if asked.reach == "campus" else REQUIRED_WEIGHT
        found["reach"] = need, f"reach: {asked.reach}"
    if asked.automation:
        found["automation"] = PREFERRED_WEIGHT, "Ethernet automation is there"
    if asked.budget != "medium":
        found["cost"] = (
            (REQUIRED_WEIGHT if asked.budget == "low" else 1.0),
            (f"budget: {asked.budget}"),
        )
    if asked.max_power_w is not None:
        found["power"] = PREFERRED_WEIGHT, "power is bounded"
    return found


# ---------------------------------------------------------------- scores


def scores_of(asked: Requirements, found: Measurements) -> dict[Technology, tuple[Score, ...]]:
    """Return the score of every technology in every criterion, in the criteria's order."""
    facts = technology_facts()
    makers: dict[str, Callable[[Technology], Score]] = {
        "bandwidth": lambda t: _bandwidth(found, t),
        "latency": lambda t: _latency(found, t),
        "congestion": lambda t: _congestion(found.measured[t]),
        "resilience": lambda t: _resilience(found.measured[t]),
        "cpu": lambda t: _cpu(found, t),
        "power": lambda t: _power(found, t),
        "familiarity": lambda t: _familiarity(asked, t),
    }
    return {
        technology: tuple(
            makers[key](technology) if key in makers else _stated(key, technology)
            for key in facts.criteria
        )
        for technology in Technology
    }


def _best(found: Measurements, value: Callable[[Measured], float]) -> float:
    return min(value(one) for one in found.measured.values())


def _bandwidth(found: Measurements, technology: Technology) -> Score:
    parts, total, value = [], 0.0, 0.0
    for number, own in enumerate(found.measured[technology].large):
        best = _best(found, lambda one, at=number: one.large[at].time_s)  # type: ignore[misc]
        value += own.share * best / own.time_s
        total += own.share
        parts.append(
            f"{own.share:g} × {format_seconds(best)} / {format_seconds(own.time_s)} "
            f"({own.operation})"
        )
    text = " + ".join(parts)
    return Score("bandwidth", value / total, f"({text}) / {total:g}" if len(parts) > 1 else text)


def _latency(found: Measurements, technology: Technology) -> Score:
    own = found.measured[technology]
    message = _best(found, lambda one: one.message_s)
    small = _best(found, lambda one: one.small.time_s)
    value = (message / own.message_s + small / own.small.time_s) / 2
    return Score(
        "latency",
        value,
        f"({format_seconds(message)} / {format_seconds(own.message_s)} + "
        f"{format_seconds(small)} / {format_seconds(own.small.time_s)}) / 2",
    )


def _congestion(own: Measured) -> Score:
    ratios = (own.permutation_ratio, own.incast_ratio, own.bystander_ratio)
    value = sum(min(1.0, 1 / ratio) for ratio in ratios) / 3
    text = " + ".join(f"1/{max(1.0, ratio):.3g}" for ratio in ratios)
    return Score("congestion", value, f"({text}) / 3")


def _resilience(own: Measured) -> Score:
    failed = own.failed_share
    if failed is None:
        return Score("resilience", own.loss_share, f"{own.loss_share:.3f}; no uplink to fail")
    return Score(
        "resilience",
        (own.loss_share + failed) / 2,
        f"({own.loss_share:.3f} + {failed:.3f}) / 2",
    )


def _cpu(found: Measurements, technology: Technology) -> Score:
    need = found.measured[technology].cores_needed
    value = max(0.0, 1.0 - need / found.cores)
    return Score("cpu", value, f"max(0, 1 − {need:.3g} / {found.cores})")


def _power(found: Measurements, technology: Technology) -> Score:
    own, best = found.measured[technology].power_w, _best(found, lambda one: one.power_w)
    if not own:
        return Score("power", 1.0, "the power of these parts is not known")
    text = f"{format_si(best, 'W')} / {format_si(own, 'W')}"
    return Score("power", best / own, text)


def _familiarity(asked: Requirements, technology: Technology) -> Score:
    rank = technology_facts().familiarity[asked.team][technology]
    return Score("familiarity", rank / 4, f"{rank} / 4 ({CLASS_WORDS[rank]}, team: {asked.team})")


def _stated(key: str, technology: Technology) -> Score:
    rows = [row for row in technology_facts().rows if row.criterion == key]
    ranks = [rank for row in rows if (rank := row.cells[technology].rank) is not None]
    text = " + ".join(str(rank) for rank in ranks)
    if len(ranks) > 1:
        return Score(key, sum(ranks) / (4 * len(ranks)), f"({text}) / {4 * len(ranks)}")
    return Score(key, ranks[0] / 4, f"{text} / 4 ({CLASS_WORDS[ranks[0]]})")


def totals_of(scores: Scores, weights: tuple[Term, ...]) -> dict[Technology, float]:
    """Return the weighted means; 0 where every weight is 0."""
    whole = sum(term.weight for term in weights)
    return {
        technology: (
            sum(term.weight * score.value for term, score in zip(weights, mine, strict=True))
            / whole
            if whole
            else 0.0
        )
        for technology, mine in scores.items()
    }


# ---------------------------------------------------------------- what is out


def excluded(asked: Requirements, found: Measurements) -> tuple[Exclusion, ...]:
    """Return what hard requirements leave out, each with its reason."""
    out = []
    for technology in Technology:
        reasons = list(_against(technology, asked, found))
        if reasons:
            out.append(Exclusion(technology, "; ".join(reasons)))
    return tuple(out)


def _against(technology: Technology, asked: Requirements, found: Measurements) -> list[str]:
    reasons = []
    unable = found.unable.get(technology.value, ())
    if unable:
        reasons.append(f"the adapter does not speak it: {', '.join(unable)}")
    if asked.encryption == "tls" and not can_encrypt(technology, "tls"):
        reasons.append("TLS is asked for: it needs a socket, which RDMA has not")
    elif asked.encryption == "required" and not can_encrypt(technology):
        reasons.append("encryption is required, and none is standardised on its wire")
    switches, nics = found.makers[technology]
    if asked.vendors == "required" and min(switches, nics) < _FEW_MAKERS:
        reasons.append(
            f"several makers are required; the catalog has {switches} of switches and {nics} of "
            "adapters for it"
        )
    if asked.reach == "routed" and technology is Technology.INFINIBAND:
        reasons.append("it must be routed over IP between sites, which takes gateways")
    power = found.measured[technology].power_w
    if asked.max_power_w is not None and power > asked.max_power_w:
        reasons.append(
            f"switches and adapters draw {format_si(power, 'W')}, more than "
            f"{format_si(asked.max_power_w, 'W')}"
        )
    return reasons


# ---------------------------------------------------------------- where it turns


def flips_of(
    scores: Scores, weights: tuple[Term, ...], ranking: tuple[Technology, ...]
) -> tuple[Flip, ...]:
    """Return, for each criterion, the nearest weights below and above at which the winner changes.

    With d the difference of two totals' numerators and e that of their scores in the criterion,
    they tie at weight − d/e.
    """
    if len(ranking) < 2:
        return ()
    winner, found = ranking[0], []
    for place, term in enumerate(weights):
        below: Flip | None = None
        above: Flip | None = None
        for rival in ranking[1:]:
            lead, slope = 0.0, 0.0
            for at, other in enumerate(weights):
                difference = scores[winner][at].value - scores[rival][at].value
                lead += other.weight * difference
                slope = difference if at == place else slope
            if slope == 0:
                continue
            flip = Flip(term.criterion, term.weight, term.weight - lead / slope, winner, rival)
            if slope < 0 and (above is None or flip.at < above.at):
                above = flip
            elif slope > 0 and flip.at >= 0 and (below is None or flip.at > below.at):
                below = flip
        found += [flip for flip in (below, above) if flip is not None]
    return tuple(found)
