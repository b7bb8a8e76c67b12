"""The OpenAPI document says what the API does; schemathesis holds it to its word."""

from collections import Counter, defaultdict

import pytest
import restserver
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema

from railweave.runs import JobLimits, JobQueue
from railweave.studio.rest import ApiSettings, create_api

TOKEN = "correct horse battery staple"
PHASES = ("examples", "coverage", "fuzzing", "stateful")
#: 422 as well: a string that is no sound design is a right request all the same; 409 is no result
CONFIG = {
    "headers": {"Authorization": f"Bearer {TOKEN}"},
    "request-timeout": 60,
    "checks": {
        "positive_data_acceptance": {
            "expected-statuses": ["2xx", 404, 409, 422, 429, 503],
        },
        "negative_data_rejection": {"expected-statuses": [400, 404, 413, 422, 429, 503]},
    },
    "generation": {"max-examples": 20, "deterministic": True, "database": "none"},
    "phases": {phase: {"enabled": True} for phase in PHASES},
    # random text is no design: some requests are to lead on to jobs
    "dictionaries": {"designs": {"values": [restserver.DESIGN]}},
    "operations": [
        {
            "include-path": "/jobs",
            "parameters": {"body.design": {"dictionary": "designs", "probability": 0.7}},
        }
    ],
}
#: those that speak of headers and owners have nothing to look at here
CHECKS = {
    "allow_header_conformance",
    "content_type_conformance",
    "ensure_resource_availability",
    "ignored_auth",
    "negative_data_rejection",
    "not_a_server_error",
    "positive_data_acceptance",
    "response_schema_conformance",
    "status_code_conformance",
    "unsupported_method",
    "use_after_free",
}
OPERATIONS = [
    ("GET", "/health"),
    ("GET", "/version"),
    ("GET", "/examples"),
    ("GET", "/schema"),
    ("POST", "/check"),
    ("POST", "/build"),
    ("POST", "/jobs"),
    ("GET", "/jobs"),
    ("GET", "/jobs/{job_id}"),
    ("DELETE", "/jobs/{job_id}"),
    ("POST", "/jobs/{job_id}/cancel"),
    ("GET", "/jobs/{job_id}/result"),
    ("GET", "/jobs/{job_id}/events"),
]
#: operation → what goes on from the id of a submitted job
LINKS = {"getJob", "followJob", "getResult", "cancelJob", "forgetJob"}


@pytest.fixture(scope="module")
def app():
    limits = JobLimits(time_s=2, grace_s=0.2, per_owner=4)
    settings = ApiSettings(host="0.0.0.0", token=TOKEN, **restserver.PLENTY, quick_time_s=5)
    with JobQueue(1, limits=limits) as queue:
        app = create_api(queue, settings)
        yield app
        app.state.close()


class Told:
    """What schemathesis told of an application, phase by phase."""

    def __init__(self, app):
        self.status, self.failures, self.errors = {}, defaultdict(dict), []
        self.checks, self.called, self.steps = defaultdict(Counter), defaultdict(set), set()
        schema = schemathesis.openapi.from_asgi(
            "/openapi.json",
            app,
            config=SchemathesisConfig.from_dict(CONFIG),
            headers=CONFIG["headers"],
        )
        for event in from_schema(schema).execute():
            self.hear(event)

    def hear(self, event):
        if isinstance(event, events.PhaseFinished):
            self.status[str(event.phase.name.value)] = event.status.value
        elif isinstance(event, events.ScenarioFinished):
            self.look(str(event.phase.value), event.recorder)
        elif isinstance(event, events.NonFatalError | events.FatalError):
            self.errors.append(event)

    def look(self, phase, recorder):
        for node in recorder.cases.values():
            case = node.value
            self.called[phase].add((case.operation.method.upper(), case.operation.path))
            if node.transition is not None:
                self.steps.add(node.transition.id)
        for found in recorder.checks.values():
            for check in found:
                self.checks[phase][check.name] += 1
                if check.failure_info is not None:
                    failure = check.failure_info.failure
                    where = (check.name, failure.operation, failure.title)
                    sample = check.failure_info.code_sample
                    self.failures[phase].setdefault(where, f"{failure.message}\n{sample}"[:1500])


@pytest.fixture(scope="module")
def told(app):
    return Told(app)


@pytest.mark.parametrize("phase", PHASES)
def test_the_api_keeps_its_word(told, phase):
    assert not told.errors
    assert not told.failures[phase], "\n\n".join(map(str, told.failures[phase].items()))
    assert told.status[phase] == "success"
    assert set(told.checks[phase]) >= CHECKS


@pytest.mark.parametrize("phase", ["coverage", "fuzzing"])
def test_every_operation_was_called(told, phase):
    assert told.called[phase] >= set(OPERATIONS)


def test_links_were_followed(told):
    """Which of them is up to chance; that each leads somewhere is held below."""
    followed = {step for step in told.steps if step.startswith("POST /jobs ")}
    assert {link for link in LINKS if any(link in step for step in followed)}, told.steps


def test_links_lead_from_a_job_to_all_that_is_said_of_it(app):
    answers = app.openapi()["paths"]["/jobs"]["post"]["responses"]
    assert set(answers["202"]["links"]) == LINKS
    paths = app.openapi()["paths"].values()
    known = {operation["operationId"] for item in paths for operation in item.values()}
    for name, link in answers["202"]["links"].items():
        assert link == {"operationId": name, "parameters": {"job_id": "$response.body#/id"}}
        assert name in known


def test_every_operation_and_error_is_described(app):
    document = app.openapi()
    operations = {
        (method, path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    assert set(operations) == {(method.lower(), path) for method, path in OPERATIONS}
    for (_, path), operation in operations.items():
        assert operation["description"]
        answers = operation["responses"]
        wanted = {"401", "403", "429", "500"}
        takes_a_body = "requestBody" in operation
        wanted |= {"400", "408", "413", "415", "422", "503"} if takes_a_body else set()
        wanted |= {"404", "422"} if "{job_id}" in path else set()
        assert wanted <= set(answers)
        for status, answer in answers.items():
            assert answer["description"]
            if int(status) >= 400:
                shape = answer["content"]["application/json"]["schema"]
                assert shape == {"$ref": "#/components/schemas/ErrorAnswer"}
    assert "HTTPValidationError" not in document["components"]["schemas"]
