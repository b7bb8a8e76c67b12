"""The OpenAPI document says what the API does; schemathesis holds it to its word."""

import pytest
import restserver
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig

from railweave.runs import JobLimits, JobQueue
from railweave.studio.rest import ApiSettings, create_api

BASE = "http://127.0.0.1"
#: 422 as well: a string that is no sound design is a right request all the same; 409 is no result
CONFIG = {
    "checks": {
        "positive_data_acceptance": {
            "expected-statuses": ["2xx", 404, 409, 422, 429, 503],
        },
        "negative_data_rejection": {"expected-statuses": [400, 404, 413, 422, 429, 503]},
    },
}
EXAMPLES = 25


@pytest.fixture(scope="module")
def app():
    limits = JobLimits(time_s=2, grace_s=0.2, per_owner=4)
    with JobQueue(1, limits=limits) as queue:
        app = create_api(queue, ApiSettings(**restserver.PLENTY, quick_time_s=5))
        yield app
        app.state.close()


@pytest.fixture(scope="module")
def api_schema(app):
    return schemathesis.openapi.from_asgi(
        "/openapi.json",
        app,
        config=SchemathesisConfig.from_dict(CONFIG),
        headers={"Host": "127.0.0.1"},
    )


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
    ("GET", "/jobs/{job_id}/result"),
    ("GET", "/jobs/{job_id}/events"),
]
ALONE = {"/health", "/version", "/examples", "/schema"}  # nothing in their requests can vary


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_the_api_keeps_its_word(api_schema, method, path, mode):
    operation = api_schema[path][method]
    if mode is GenerationMode.NEGATIVE and not (operation.body or operation.path_parameters):
        pytest.skip("no request to it is wrong")

    @settings(
        max_examples=2 if path in ALONE else EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def hold(case):
        case.call_and_validate(base_url=BASE, headers={"Host": "127.0.0.1"})

    hold()


def test_every_operation_and_error_is_described(app):
    document = app.openapi()
    operations = {
        (method, path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    assert set(operations) == {(method.lower(), path) for method, path in OPERATIONS}
    for (method, _), operation in operations.items():
        assert operation["description"]
        answers = operation["responses"]
        wanted = {"401", "403", "429", "500"}
        wanted |= {"400", "408", "413", "415", "422", "503"} if method == "post" else set()
        assert wanted <= set(answers)
        for status, answer in answers.items():
            assert answer["description"]
            if int(status) >= 400:
                shape = answer["content"]["application/json"]["schema"]
                assert shape == {"$ref": "#/components/schemas/ErrorAnswer"}
    assert "HTTPValidationError" not in document["components"]["schemas"]
