"""``railweave transport compare`` says what Python says, and refuses what cannot be."""

from __future__ import annotations

import json
import re

import pytest

import railweave
from railweave.cli import transport_compare
from railweave.report.transport_compare import compare_json
from railweave.transport.compare import (
    Requirements,
    case_of,
    judge,
    measure,
    parse_mix,
    synthetic_design,
    technology_facts,
)

MIX = "all-to-all:1MiB"
LINE = ("transport", "compare", "--gpus", "16", "--quick", "--mix", MIX)
DESIGN = "examples/two-servers-4-gpus.yaml"


def test_the_document_is_pythons(cli):
    outcome = cli(
        *LINE, "--team", "both", "--encryption", "preferred", "--weight", "cost=1", "--json"
    )
    assert outcome.code == 0, outcome.err
    built = railweave.parse(synthetic_design(16)).build()
    case = case_of(built, "training", quick=True, mix=parse_mix(MIX))
    asked = Requirements(team="both", encryption="preferred", weights={"cost": 1.0})
    wanted = compare_json(judge(asked, measure(built, case)))
    assert json.loads(outcome.out) == json.loads(json.dumps(wanted))


def test_a_designs_collective_takes_what_simulate_says(cli):
    compared = cli("transport", "compare", "--design", DESIGN, "--quick", "--json")
    assert compared.code == 0, compared.err
    found = json.loads(compared.out)["measurements"]
    own = next(one for one in found["measured"].values() if one["own"])
    simulated = cli("simulate", DESIGN, "--json")
    times = [job["time_s"] for job in json.loads(simulated.out)["jobs"]]
    assert own["large"][0]["network_s"] == pytest.approx(times[0], rel=1e-9)


def test_choices_are_those_of_python():
    from railweave.transport.compare._types import _ALLOWED

    for name, kind in {
        "workload": transport_compare.Workload,
        "team": transport_compare.Team,
        "vendors": transport_compare.Need,
        "tenancy": transport_compare.Need,
        "encryption": transport_compare.Encryption,
        "reach": transport_compare.Reach,
        "budget": transport_compare.Budget,
    }.items():
        assert tuple(one.value for one in kind) == _ALLOWED[name]


def test_it_ends_in_a_recommendation(cli):
    outcome = cli(*LINE)
    assert outcome.code == 0, outcome.err
    text = outcome.out
    order = [
        text.index(part)
        for part in ("Which technology", "Measured on", "Scores of 0 to 1",
                     "Where the answer turns", "Recommendation", "Benchmark first",
                     "What it rests on")
    ]  # fmt: skip
    assert order == sorted(order)
    assert "1." in text[text.index("Benchmark first") :]


def test_facts_have_every_row_and_every_source(cli):
    text = re.sub(r"\s+", " ", cli(*LINE, "--facts").out)
    for row in technology_facts().rows:
        assert row.title.split()[0] in text
    for source in ("SIGCOMM 2021", "RFC 9293", "annex A17"):
        assert source in text


def test_the_page_stands_alone(cli, tmp_path):
    outcome = cli(*LINE, "--html", str(tmp_path / "page.html"))
    assert outcome.code == 0, outcome.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<svg viewBox") == 1
    assert "subnet" in page
    for title in ("Where the answer turns", "How each score comes about", "Typical use",
                  "Benchmark 1", "What it rests on", "Where the statements come from"):  # fmt: skip
        assert title in page
    loaded = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=[\"']?http", page)
    assert not loaded


def test_excluded_technologies_have_their_reason(cli):
    outcome = cli(*LINE, "--encryption", "tls")
    assert "the only one that meets every requirement" in outcome.out
    assert outcome.out.count("is out: TLS is asked for") == 3


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_nothing_left_is_a_failed_check(cli, more):
    outcome = cli(*LINE, "--max-power", "1 W", *more)
    assert outcome.code == 1
    assert not outcome.err
    assert "None of the four meets every requirement: Ethernet, TCP: switches and adapters" in (
        re.sub(r"\s+", " ", outcome.out)
    )


def test_shares_that_do_not_add_up_are_said(cli):
    line = [*LINE[:-1], f"{MIX}:0.7,all-reduce:1MiB:0.9"]
    outcome = cli(*line)
    assert outcome.code == 0, outcome.err
    text = re.sub(r"\s+", " ", outcome.out)
    assert (
        "he shares of the mix add up to 1.6, not 1, and count by their sum: 43.8 % all-to-all, "
        "56.2 % all-reduce" in text
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--gpus", "20"), "nearest: 16"),
        (("--design", DESIGN), "--gpus speaks of a made-up cluster"),
        (("--weight", "latncy=3"), "did you mean 'latency'"),
        (("--weight", "latency"), "latency=8"),
        (("--weight", "latency=12"), "0 to 10"),
        (("--mix", "all-redce:1MiB"), "did you mean 'all-reduce'"),
        (("--small", "all-reduce:1MiB,all-to-all:1MiB"), "name one"),
        (("--oversubscription", "two"), "not a ratio"),
        (("--loss", "2"), "loss"),
        (("--ranks", "17"), "17 are wanted"),
        (("--max-power", "5"), "unit"),
        (("--server", "cpu-2s"), "has no GPUs"),
        (("--fail", "spine-99"), "spine-99"),
        (("--html", "pyproject.toml/page.html"), "pyproject.toml"),
    ],
)
def test_what_cannot_be_is_refused(cli, more, said):
    outcome = cli(*LINE, *more)
    assert outcome.code == 2
    assert said in outcome.err
    assert "Traceback" not in outcome.err
    assert not outcome.out


def test_what_is_kept_is_read(cli, tmp_path):
    first = cli(*LINE, "--store", str(tmp_path), "--json")
    (kept,) = tmp_path.rglob("result.json")
    document = json.loads(kept.read_text(encoding="utf-8"))
    document["measured"]["tcp"]["message_s"] *= 2
    kept.write_text(json.dumps(document), encoding="utf-8")
    second = cli(*LINE, "--store", str(tmp_path), "--json")
    path = ("measurements", "measured", "tcp", "message_s")
    before, after = json.loads(first.out), json.loads(second.out)
    for step in path:
        before, after = before[step], after[step]
    assert after == 2 * before
