"""What the API answers is what the command line prints."""

import contextlib
import json
import time

import pytest
import restserver
from restserver import DESIGN, LONG, error, says_nothing_of_the_machine, snapshots
from typer.testing import CliRunner

import railweave
from railweave.cli._app import app
from railweave.design import design_schema
from railweave.report.output import record_json
from railweave.runs import JobQueue
from railweave.studio.design_run import DesignRun, run_key, run_work
from railweave.studio.rest import _models as m

TIMES = ("time_s", "algbw_Bps", "busbw_Bps")


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Return a function that runs a command on the design and returns its JSON."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "design.yaml").write_text(DESIGN, encoding="utf-8")

    def run(*words):
        with contextlib.chdir(folder):
            done = CliRunner().invoke(app, [*words, "--json"])
        assert done.exit_code in {0, 1}, done.output
        return json.loads(done.stdout)

    return run


def finished(client, request):
    answer = client.post("/jobs", json=request)
    assert answer.status_code == 202, answer.text
    last = snapshots(client, answer.json())[-1]
    assert last["state"] == "done", last
    got = client.get(f"/jobs/{last['id']}/result")
    assert got.status_code == 200
    return got.json()


def test_check_gives_the_findings_of_the_command(client, printed):
    answer = client.post("/check", json={"design": DESIGN}).json()
    assert answer == {
        "valid": True,
        "findings": printed("check", "design.yaml"),
        "problems": [],
    }
    failed = client.post("/check", json={"design": DESIGN, "fail": ["leaf-1"]}).json()
    assert failed["findings"] == printed("check", "design.yaml", "--fail", "leaf-1")
    assert failed["findings"] != answer["findings"]


def test_check_names_every_problem_with_its_place(client):
    wrong = DESIGN.replace("count: 2", "count: two").replace("leaf-spine", "leaf-spin")
    answer = client.post("/check", json={"design": wrong}).json()
    assert answer["valid"] is False
    assert answer["findings"] == []
    places = [(p["path"], p["line"], p["column"]) for p in answer["problems"]]
    assert places == [
        ("cluster.servers.count", 4, 13),
        ("planes.backend.topology", 6, 32),
    ]
    assert answer["problems"][1]["nearest"] == "leaf-spine"


def test_build_gives_the_document_of_the_command(client, printed):
    assert client.post("/build", json={"design": DESIGN}).json() == printed("build", "design.yaml")
    more = {"design": DESIGN, "fail": ["leaf-1"], "monte_carlo": 1, "draws": 5}
    options = ("--fail", "leaf-1", "--monte-carlo", "1", "--draws", "5")
    assert client.post("/build", json=more).json() == printed("build", "design.yaml", *options)


def test_a_design_that_cannot_be_built_is_refused_at_its_place(client):
    racks = DESIGN.replace("cluster:\n", "cluster:\n  racks: 1\n  servers_per_rack: 1\n")
    found = error(client.post("/build", json={"design": racks}), 422, "design")
    (problem,) = found["problems"]
    assert (problem["path"], problem["line"], problem["nearest"]) == ("cluster.racks", 4, "2")
    found = error(client.post("/build", json={"design": DESIGN, "fail": ["spine-77"]}), 422)
    assert "spine-77" in found["message"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"kind": "run"}, ("run", "design.yaml")),
        ({"kind": "simulate", "engine": "analytic"}, ("simulate", "design.yaml", "--engine",
                                                      "analytic")),
        (
            {"kind": "simulate", "engine": "packet", "seed": 3, "routing": "spray",
             "fault": ["link leaf-1:port-1 down at 100us for 50us"]},
            ("simulate", "design.yaml", "--engine", "packet", "--seed", "3", "--routing", "spray",
             "--fault", "link leaf-1:port-1 down at 100us for 50us"),
        ),
        (
            {"kind": "simulate", "fail": ["leaf-1:port-1"], "tolerance": 0.01},
            ("simulate", "design.yaml", "--fail", "leaf-1:port-1", "--tolerance", "0.01"),
        ),
    ],
)  # fmt: skip
def test_jobs_give_the_documents_of_the_commands(client, printed, request_, words):
    assert finished(client, {"design": DESIGN, **request_}) == printed(*words)


def test_congest_gives_the_document_of_the_command(client, printed):
    asked = {"kind": "congest", "duration": "2 ms", "ecn": "20%", "compare": "none"}
    words = ("congest", "--duration", "2 ms", "--ecn", "20%", "--compare", "none")
    assert finished(client, asked) == printed(*words)


def test_a_job_tells_its_progress_and_is_listed(client):
    job = client.post("/jobs", json={"kind": "run", "design": DESIGN, "seed": 11}).json()
    seen = snapshots(client, job)
    assert seen[-1]["state"] == "done"
    assert [s["progress"] for s in seen] == sorted(s["progress"] for s in seen)
    assert seen[-1]["progress"] == 1  # its steps may be over before the first is heard of
    assert client.get(f"/jobs/{job['id']}").json() == seen[-1]
    assert seen[-1] in client.get("/jobs").json()["jobs"]
    assert snapshots(client, job) == seen[-1:]  # who comes late gets the end


def test_the_same_job_is_simulated_once(client, store):
    asked = {"kind": "simulate", "design": DESIGN, "seed": 12}
    before = set(store.keys())
    first = client.post("/jobs", json=asked).json()
    snapshots(client, first)
    again = client.post("/jobs", json=asked).json()
    assert (first["reused"], again["reused"], again["state"]) == (False, True, "done")
    assert again["id"] != first["id"]
    assert len(set(store.keys()) - before) == 1
    results = [client.get(f"/jobs/{j['id']}/result").content for j in (first, again)]
    assert results[0] == results[1]


def test_the_design_page_and_the_api_simulate_a_design_once():
    run = DesignRun(DESIGN, "analytic", ("leaf-1:port-1",))
    asked = {"kind": "run", "engine": "analytic", "fail": ["leaf-1:port-1"], "design": DESIGN}
    with JobQueue(1) as queue, restserver.api(queue) as client:
        theirs = queue.submit("run", run_work, run, run_key(run), "a visitor")
        done = queue.wait(theirs, restserver.PATIENCE_S)
        mine = client.post("/jobs", json=asked).json()
        assert (mine["state"], mine["reused"]) == ("done", True)
        assert client.get(f"/jobs/{mine['id']}/result").json() == done.result["record"]

        first = client.post("/jobs", json={**asked, "engine": "flow"}).json()  # the other way round
        assert first["reused"] is False
        assert queue.wait(first["id"], restserver.PATIENCE_S).error == ""
        run = DesignRun(DESIGN, "flow", ("leaf-1:port-1",))
        again = queue.submit("run", run_work, run, run_key(run), "a visitor")
        assert again.reused
        assert "report" in again.result
        found = client.get(f"/jobs/{first['id']}/result").json()
        assert found == again.result["record"]


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "simulate", "seed": 4},
        {"seed": 5},
        {"routing": "spray"},
        {"fail": ["leaf-1:port-1"]},
        {"tolerance": 0.01},
        {"engine": "analytic"},
        {"design": DESIGN + "\n"},
    ],
)
def test_other_requests_are_other_runs(client, other):
    asked = {"kind": "run", "engine": "flow", "design": DESIGN}
    first = client.post("/jobs", json=asked).json()
    second = client.post("/jobs", json={**asked, **other}).json()
    assert second["id"] != first["id"]
    assert second["reused"] is False
    client.delete(f"/jobs/{second['id']}")


def test_a_running_job_has_no_result_and_is_cancelled_soon(client):
    job = client.post("/jobs", json=LONG).json()
    with client.stream("GET", f"/jobs/{job['id']}/events") as stream:
        for line in stream.iter_lines():
            if '"simulate"' in line and '"running"' in line:
                break
    found = error(client.get(f"/jobs/{job['id']}/result"), 409, "state")
    assert "it is running" in found["message"]
    assert client.post("/jobs", json=LONG).json()["id"] == job["id"]  # joined
    began = time.monotonic()
    assert client.post(f"/jobs/{job['id']}/cancel").status_code == 200
    assert snapshots(client, job)[-1]["state"] == "cancelled"
    assert time.monotonic() - began < 2
    found = error(client.get(f"/jobs/{job['id']}/result"), 409, "state")
    assert "it is cancelled" in found["message"]
    assert client.post(f"/jobs/{job['id']}/cancel").json()["state"] == "cancelled"


def test_a_job_that_was_forgotten_is_no_longer_there(client):
    job = client.post("/jobs", json={**LONG, "seed": 21}).json()
    with client.stream("GET", f"/jobs/{job['id']}/events") as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data: "))
        assert json.loads(next(lines)[6:])["id"] == job["id"]
        assert client.delete(f"/jobs/{job['id']}").json()["id"] == job["id"]
        for method, rest in (
            ("GET", ""),
            ("GET", "/result"),
            ("GET", "/events"),
            ("POST", "/cancel"),
            ("DELETE", ""),
        ):
            error(client.request(method, f"/jobs/{job['id']}{rest}"), 404, "unknown")
        assert job["id"] not in {other["id"] for other in client.get("/jobs").json()["jobs"]}
        assert json.loads(list(lines)[-1][6:])["state"] == "cancelled"  # who follows hears of it
    again = client.post("/jobs", json={**LONG, "seed": 21}).json()
    assert again["id"] != job["id"]
    client.delete(f"/jobs/{again['id']}")


def test_a_long_job_tells_what_is_known_so_far(client):
    job = client.post("/jobs", json={**LONG, "seed": 22}).json()
    seen = []
    with client.stream("GET", f"/jobs/{job['id']}/events") as stream:
        for line in stream.iter_lines():
            if not line.startswith("data: "):
                continue
            partial = json.loads(line[6:])["partial"]
            if partial is not None and partial not in seen:
                seen.append(partial)
            if len(seen) == 2:
                break
    client.delete(f"/jobs/{job['id']}")
    assert 0 < seen[0]["simulated_s"] < seen[1]["simulated_s"]
    assert 0 < seen[0]["delivered"] < seen[1]["delivered"] < 1
    assert 0 < seen[0]["events"] < seen[1]["events"]
    assert seen[1]["what_ifs"] == []
    (one,) = seen[1]["jobs"]
    assert one["name"] == "sum"
    assert one["tasks_done"] < one["tasks"] == seen[1]["tasks"]
    assert one["time_s"] is one["busbw_Bps"] is None  # it goes on


@pytest.mark.parametrize("engine", ["analytic", "flow", "packet"])
def test_what_is_known_so_far_is_what_the_record_says(engine):
    told = []
    record = record_json(railweave.parse(DESIGN).build().run(engine=engine, known=told.append))
    for partial in told:
        m.PartialRun.model_validate_json(json.dumps(partial, allow_nan=False), strict=True)
        (job,) = partial["jobs"]
        (whole,) = record["jobs"]
        if job["tasks_done"] == job["tasks"]:
            assert {key: job[key] for key in TIMES} == {key: whole[key] for key in TIMES}
        assert partial["what_ifs"] == record["what_ifs"][: len(partial["what_ifs"])]
    last = told[-1]
    assert len(told) > len(record["what_ifs"]) == len(last["what_ifs"]) > 0
    assert last["tasks_done"] == last["tasks"]
    assert last["delivered"] == 1
    assert last["simulated_s"] == (None if engine == "analytic" else record["makespan_s"])
    assert last["events"] == record["events"]


def test_a_job_that_fails_says_why(client):
    asked = {"kind": "simulate", "design": DESIGN, "fail": ["spine-77"]}
    job = snapshots(client, client.post("/jobs", json=asked).json())[-1]
    assert job["state"] == "failed"
    assert "spine-77" in job["error"]["message"]
    assert error(client.get(f"/jobs/{job['id']}/result"), 409) == job["error"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"tolerance": 0.01, "engine": "packet"}, "tolerance speaks of the flow engine"),
        ({"fault": ["ecn leaf-1 off"]}, "fault speaks of the packet engine"),
        ({"design": "railweave: 2"}, "railweave"),
        ({"design": DESIGN.replace("ring}", "ring, bogus: 1}")}, "bogus"),
    ],
)
def test_what_cannot_work_is_not_queued(client, asked, words):
    before = client.get("/jobs").json()
    request = {"kind": "run", "design": DESIGN, **asked}
    assert words in error(client.post("/jobs", json=request), 422)["message"]
    assert client.get("/jobs").json() == before


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"ecn": "much"}, "ecn much: neither a percentage nor a size"),
        ({"pfc": "80%,90%"}, "pfc 80%,90%: several values"),
        ({"size": "1 MB", "duration": "1 ms"}, "size and duration"),
        ({"profile": "none", "compare": "none"}, "name another one"),
        ({"sender_speed": "fast"}, "fast"),
        ({"duration": "1 year"}, "1 us to 10 s"),
    ],
)
def test_congest_options_that_mean_nothing_are_refused(client, asked, words):
    found = error(client.post("/jobs", json={"kind": "congest", **asked}), 422)
    assert words in found["message"]
    assert "--" not in found["message"]  # options of a command are not fields of a request


def test_facts(client):
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/version").json() == {"railweave": railweave.__version__, "api": "v1"}
    assert client.get("/schema").json() == design_schema()
    examples = client.get("/examples").json()
    assert all(client.post("/check", json={"design": e["design"]}).json()["valid"]
               for e in examples[:3])  # fmt: skip
    assert says_nothing_of_the_machine(json.dumps(examples))
