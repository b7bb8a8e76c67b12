"""Who may use the API, and how much of it."""

import pytest
import restserver
from restserver import DESIGN, LONG, error

from railweave.errors import InputError
from railweave.runs import JobLimits, JobQueue
from railweave.studio.rest import ApiSettings, create_api

TOKEN = "correct horse battery staple"


@pytest.fixture(scope="module")
def closed():
    """A server that is bound to more than loopback, as far as it knows."""
    with restserver.api(host="0.0.0.0", token=TOKEN) as client:
        yield client


@pytest.mark.parametrize("token", ["", "short"])
def test_other_addresses_need_a_token(token):
    with pytest.raises(InputError, match="at least 16 characters"):
        ApiSettings(host="0.0.0.0", token=token)
    with pytest.raises(InputError, match="at least 16 characters"):
        ApiSettings(host="::", token=token)
    assert ApiSettings(host="::1").loopback


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        f"Bearer {TOKEN}x",
        f"Basic {TOKEN}",
        TOKEN,
        b"Bearer \xff\xfe",
    ],
)
@pytest.mark.parametrize("path", ["/version", "/jobs", "/openapi.json", "/no/such", "/health/x"])
def test_without_the_token_nothing_is_said(closed, header, path):
    headers = {} if header is None else {"Authorization": header}
    answer = closed.get(path, headers=headers)
    found = error(answer, 401, "token")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in str(found)


def test_with_the_token_all_is_said_and_health_needs_none(closed):
    assert closed.get("/health").status_code == 200
    allowed = {"Authorization": f"Bearer {TOKEN}"}
    assert closed.get("/version", headers=allowed).status_code == 200
    document = closed.get("/openapi.json", headers=allowed).json()
    assert document["security"] == [{"token": []}]
    assert document["paths"]["/health"]["get"]["security"] == []
    away = {**allowed, "Host": "studio.example:8421"}  # by any name, where a token is asked for
    assert closed.get("/version", headers=away).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8421", 200),
        ("localhost:1", 200),
        ("[::1]:8421", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:80", 403),
        ("", 403),
        ("[::1", 400),
    ],
)
def test_on_loopback_other_names_are_refused(client, host, status):
    answer = client.get("/version", headers={"Host": host})
    assert answer.status_code == status
    if status != 200:
        error(answer, status)


def test_pages_of_other_sites_cannot_change_anything(client):
    own = f"http://{client.base_url.host}:{client.base_url.port}"
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": own.replace("http://", "http://x.")},
        {"Origin": own[:-1]},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        answer = client.post("/check", json={"design": DESIGN}, headers=headers)
        error(answer, 403, "origin")
        error(client.delete(f"/jobs/{'0' * 32}", headers=headers), 403, "origin")
        error(client.post(f"/jobs/{'0' * 32}/cancel", headers=headers), 403, "origin")
    same = {"Origin": own, "Sec-Fetch-Site": "same-origin"}
    assert client.post("/check", json={"design": DESIGN}, headers=same).status_code == 200


def test_other_sites_get_no_leave_to_read(client):
    answer = client.get("/version", headers={"Origin": "https://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    preflight = client.options(
        "/check",
        headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"},
    )
    error(preflight, 405, "method")


def test_a_client_that_asks_too_often_is_told_when_to_come_again():
    with restserver.api(requests_per_s=0.5, burst=3) as client:
        assert [client.get("/health").status_code for _ in range(3)] == [200] * 3
        answer = client.get("/health")
        error(answer, 429, "limit")
        assert 1 <= int(answer.headers["retry-after"]) <= 3


def test_no_more_jobs_than_are_allowed():
    limits = JobLimits(per_owner=2, queued=8, grace_s=0.3)
    with JobQueue(1, limits=limits) as queue, restserver.api(queue) as client:
        for seed in range(2):
            assert client.post("/jobs", json={**LONG, "seed": seed}).status_code == 202
        answer = client.post("/jobs", json={**LONG, "seed": 9})
        assert "2 of your jobs" in error(answer, 429, "limit")["message"]
        assert "retry-after" in answer.headers


def test_a_full_queue_is_said():
    limits = JobLimits(per_owner=9, queued=1, grace_s=0.3)
    with JobQueue(1, limits=limits) as queue, restserver.api(queue) as client:
        answers = [client.post("/jobs", json={**LONG, "seed": seed}) for seed in range(4)]
        error(answers[-1], 503, "busy")


def test_only_so_many_streams_are_open():
    with (
        JobQueue(1, limits=JobLimits(grace_s=0.3)) as queue,
        restserver.api(queue, streams=1) as client,
    ):
        job = client.post("/jobs", json=LONG).json()
        with client.stream("GET", f"/jobs/{job['id']}/events") as stream:
            lines = stream.iter_lines()  # kept: the stream ends with its last reader
            next(lines)
            with client.stream("GET", f"/jobs/{job['id']}/events") as second:
                assert second.status_code == 503
                second.read()
            error(second, 503, "busy")
        client.post(f"/jobs/{job['id']}/cancel")
        assert queue.wait(job["id"], restserver.PATIENCE_S).state.ended


def test_jobs_of_others_on_the_same_queue_are_not_shown():
    from railweave.studio.rest import _work

    with JobQueue(1) as queue, restserver.api(queue) as client:
        check = _work.Check(DESIGN, _work.Sizes(100, 100, 100))
        theirs = queue.submit("check", _work.check, check, "theirs", "a visitor")
        assert client.get("/jobs").json() == {"jobs": []}
        error(client.get(f"/jobs/{theirs.id}"), 404, "unknown")
        error(client.delete(f"/jobs/{theirs.id}"), 404, "unknown")


def test_it_can_be_mounted_under_another_application(client):
    from fastapi import FastAPI

    with JobQueue(1) as queue:
        inner = create_api(queue, ApiSettings(host="0.0.0.0", token=TOKEN))
        outer = FastAPI()
        outer.mount("/api/v1", inner)
        with restserver.serving(outer) as mounted:
            assert mounted.get("/api/v1/health").status_code == 200
            error(mounted.get("/api/v1/version"), 401, "token")
            allowed = {"Authorization": f"Bearer {TOKEN}"}
            answer = mounted.post("/api/v1/check", json={"design": DESIGN}, headers=allowed)
            assert answer.json()["valid"] is True
            document = mounted.get("/api/v1/openapi.json", headers=allowed).json()
            assert document["servers"] == [{"url": "/api/v1"}]
        inner.state.close()


def test_a_fault_of_ours_is_a_sentence_and_goes_to_the_log(monkeypatch, caplog):
    async def fall_over(self, kind, function, asked):
        raise RuntimeError("/secret/place")

    monkeypatch.setattr("railweave.studio.rest.app._Api.answer", fall_over)
    with restserver.api() as client:
        found = error(client.post("/check", json={"design": DESIGN}), 500, "internal")
    assert "RuntimeError" in found["message"]
    assert "secret" not in found["message"]
    assert "/secret/place" in caplog.text
