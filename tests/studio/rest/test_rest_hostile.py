"""Oversized, malformed and hostile requests are refused with a sentence, and quickly."""

import json
import socket
import typing

import httpx
import pytest
import restserver
from pydantic import BaseModel
from restserver import DESIGN, error, says_nothing_of_the_machine

from railweave.design import Design, parse_design
from railweave.errors import DesignError

JSON = {"Content-Type": "application/json"}
BOMB = "".join(f"a{k}: &a{k} [{','.join([f'*a{k - 1}'] * 9) if k else 'x'}]\n" for k in range(20))


def body(design):
    return json.dumps({"design": design}).encode()


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"nonsense", 400),
        (b'{"design": "\xff\xfe"}', 400),
        (b"\x00" * 100, 400),
        (b'{"design": ' + b"9" * 10_000 + b"}", 400),
        (b"[" * 200_000, 400),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400),
        (b"[]", 422),
        (b"null", 422),
        (b'"railweave: 1"', 422),
        (b'{"design": NaN}', 422),
        (b'{"design": 1e999}', 422),
        (b'{"design": ["railweave: 1"]}', 422),
        (b'{"design": ""}', 422),
        (b'{"design": "a: 1", "fail": "spine-1"}', 422),
        (b'{"design": "a: 1", "fail": [1]}', 422),
        (b'{"design": "a: 1", "extra": true}', 422),
        (b'{"design": "\\ud800"}', 422),
        (b'{"design": "a: 1", "\\ud800": 1}', 422),
        (b'{"design": "a: 1", "' + b"k" * 100_000 + b'": 1}', 422),
        (json.dumps({"design": "a: 1", "fail": ["x"] * 501}).encode(), 422),
        (json.dumps({"design": "a: 1", "fail": ["x" * 201]}).encode(), 422),
    ],
)
@pytest.mark.parametrize("address", ["/check", "/build"])
def test_bodies_that_are_no_request(client, address, content, status):
    answer = client.post(address, content=content, headers=JSON)
    found = error(answer, status, "request")
    assert len(answer.content) < 20_000
    assert found["message"].isascii() or found["message"].isprintable()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", -1),
        ("seed", 2**63),
        ("seed", 10**4000),
        ("seed", 1.5),
        ("seed", "1"),
        ("seed", True),
        ("tolerance", float("nan")),
        ("tolerance", float("inf")),
        ("tolerance", 0.3),
        ("engine", "quantum"),
        ("engine", None),
        ("routing", "magic"),
        ("kind", "explode"),
        ("kind", None),
        ("fault", ["x" * 300]),
    ],
)
def test_fields_that_mean_nothing(client, field, value):
    request = {"kind": "run", "design": DESIGN, field: value}
    found = error(client.post("/jobs", content=json.dumps(request), headers=JSON), 422, "request")
    assert found["problems"]


@pytest.mark.parametrize(
    ("design", "words"),
    [
        (BOMB, "aliases expanded"),
        ("a: " + "[" * 5000, "nested more than 64 deep"),
        ("- " * 5000, "nested more than 64 deep"),
        ("a: " + "x" * 500_000, "at most 65,536 are allowed"),
        ("x" * 100_000 + ": 1", "at most 65,536 are allowed"),
        ("!" + "x" * 500_000 + " 1", "not allowed"),
        ("a: !!python/object/apply:os.system ['id']", "not allowed"),
        ("a: \0", "control character"),
        ("a: \x1b[31m", "control character"),
        ("a: 1\n---\na: 2", "only one YAML document"),
        ("a: 1\na: 2", "written twice"),
        ("<<: {a: 1}", "merge keys"),
        ("? [a, b]\n: 1", "plain text"),
        ("railweave: " + "9" * 90, "railweave"),
        ("\t", "tab"),
        ("just words", "one a line"),
        (DESIGN.replace("count: 2", "count: 1" + "0" * 80), "count"),
        (DESIGN.replace("count: 2", "count: .nan"), "count"),
        (DESIGN.replace("100 Gb/s", "1e999 Gb/s"), "nic_speed"),
        (DESIGN.replace("100 Gb/s", "'" + "9" * 5000 + " Gb/s'"), "nic_speed"),
        (DESIGN.replace("64 MiB", "__import__('os').system('id')"), "size"),
    ],
)
def test_designs_that_are_traps(client, design, words):
    answer = client.post("/check", json={"design": design})
    assert answer.status_code == 200, answer.text
    assert answer.json()["valid"] is False
    assert words in answer.text
    assert says_nothing_of_the_machine(answer.text)
    assert len(answer.content) < 20_000
    found = error(client.post("/build", json={"design": design}), 422, "design")
    assert words in json.dumps(found)
    error(client.post("/jobs", json={"kind": "run", "design": design}), 422, "design")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("count: 2", "count: 9000"), "36,000 GPUs are more than this server takes"),
        (("count: 2", "count: 120000"), "480,000 GPUs"),
        (
            (
                "planes:\n",
                "  storage_servers: {count: 40000, ports: 1, speed: 100 Gb/s}\n"
                "planes:\n  storage: {transport: tcp, topology: leaf-spine}\n",
            ),
            "hosts are more than this server takes",
        ),
        (
            ("topology: leaf-spine", "topology: leaf-spine, extra_hosts: {much: 90000}"),
            "hosts are more than this server takes",
        ),
    ],
)
def test_designs_that_are_too_large_are_refused_before_they_are_built(client, change, words):
    design = DESIGN.replace(*change)
    assert design != DESIGN
    found = error(client.post("/build", json={"design": design}), 422, "design")
    assert words in found["message"], found
    assert found["problems"][0]["line"] in {3, 5, 6}


def test_the_size_limit_speaks_of_links_too():
    with restserver.api(links=7) as client:
        found = error(client.post("/build", json={"design": DESIGN}), 422, "design")
        assert "network links are more than this server takes; allowed: up to 7" in found["message"]


# ---------------------------------------------------------------- files

NAMES = ["/etc/passwd", "../../../etc/passwd", "/no/such/file", "parts.yaml", "\\\\host\\share\\x"]
NAMING = {
    "catalog": lambda name: DESIGN.replace("cluster:", f"catalog: ['{name}']\ncluster:"),
    "planes.backend.graph": lambda name: DESIGN.replace(
        "topology: leaf-spine", f"topology: graph, graph: '{name}'"
    ),
    "planes.backend.routing.table": lambda name: DESIGN.replace(
        "leaf-spine}", f"leaf-spine, routing: {{scheme: table, table: '{name}'}}}}"
    ),
}


def file_fields(model, path=()):
    """Yield every field of the design's models which says that it names a file."""
    for name, field in model.model_fields.items():
        description = (field.description or "").lower()
        if "file" in description and "design" in description:
            yield ".".join((*path, name))
        for inner in models_in(field.annotation):
            yield from file_fields(inner, (*path, name))


def models_in(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from models_in(inner)


def test_every_field_that_names_a_file_is_known_here():
    found = {path for path in file_fields(Design) if "planes" not in path or "backend" in path}
    assert found == set(NAMING)


@pytest.mark.parametrize("field", sorted(NAMING))
def test_no_file_that_a_client_names_is_opened_or_looked_for(client, field):
    answers = set()
    for name in NAMES:
        design = NAMING[field](name)
        assert name in design
        found = error(client.post("/build", json={"design": design}), 422, "design")
        assert "no file is opened" in found["message"]
        error(client.post("/jobs", json={"kind": "run", "design": design}), 422, "design")
        assert client.post("/check", json={"design": design}).json()["valid"] is False
        answers.add(found["message"])
    assert len(answers) == 1  # so that nobody learns which files there are


@pytest.mark.parametrize("field", sorted(NAMING))
def test_texts_with_files_are_refused_by_the_loader_itself(tmp_path, field):
    real = tmp_path / "real.yaml"
    real.write_text("switches: {}\n")
    with pytest.raises(DesignError, match="no file is opened") as refused:
        parse_design(NAMING[field](str(real)), folder=None)
    assert refused.value.problems[0].path.startswith(field)


@pytest.mark.parametrize(
    "path",
    ["..%2f..%2fetc%2fpasswd", "%00", "a" * 5000, "0" * 31, "G" * 32, "%F0%9F%92%A9", "'; drop"],
)
@pytest.mark.parametrize("rest", ["", "/result", "/events"])
def test_ids_that_are_none(client, path, rest):
    answer = client.get(f"/jobs/{path}{rest}")
    assert answer.status_code in {404, 422}
    error(answer, answer.status_code)
    if not rest:
        error(client.delete(f"/jobs/{path}"), answer.status_code)


@pytest.mark.parametrize(("method", "rest"), [("GET", ""), ("GET", "/result"), ("DELETE", "")])
def test_jobs_that_are_unknown(client, method, rest):
    error(client.request(method, f"/jobs/{'0' * 32}{rest}"), 404, "unknown")


def test_addresses_and_methods_that_are_none(client):
    error(client.get("/etc/passwd"), 404, "unknown")
    error(client.get("/docs"), 404, "unknown")
    answer = client.put("/check", json={})
    error(answer, 405, "method")
    assert answer.headers["allow"] == "POST"


# ---------------------------------------------------------------- bodies


def test_a_large_body_is_refused_by_its_stated_length(client):
    error(client.post("/check", content=b"x" * 10_000_000, headers=JSON), 413, "limit")


def raw(client, text):
    """Send bytes as they are and return what comes back before the connection ends."""
    at = httpx.URL(client.base_url)
    with socket.create_connection((at.host, at.port), timeout=10) as connection:
        try:
            for part in text:
                connection.sendall(part)
        except OSError:
            pass  # refused while we were still talking
        answer = b""
        while part := receive(connection):
            answer += part
            if b"\r\n\r\n" in answer and b'"error"' in answer:
                break
    return answer


def receive(connection):
    try:
        return connection.recv(65536)
    except OSError:
        return b""


HEAD = b"POST /check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def test_a_chunked_body_without_end_is_refused_at_the_limit(client):
    def endless():
        yield HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
        for _ in range(200):  # 13 MB, if anybody listens
            yield b"10000\r\n" + b"x" * 65536 + b"\r\n"

    answer = raw(client, endless())
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"larger than 1,048,576 B" in answer


def test_a_body_that_does_not_come_is_not_awaited_for_ever():
    with restserver.api(body_time_s=0.2) as client:
        answer = raw(client, [HEAD + b"Content-Length: 100\r\n\r\n{"])
        assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_client_that_leaves_in_the_middle_does_no_harm(client):
    at = httpx.URL(client.base_url)
    with socket.create_connection((at.host, at.port), timeout=10) as connection:
        connection.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Type": "application/jsonx"},
        {},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
def test_other_types_of_body_are_refused(client, headers):
    error(client.post("/check", content=body(DESIGN), headers=headers), 415, "type")


def test_a_design_that_takes_too_long_is_stopped():
    many = DESIGN + "".join(f"  - {{name: j{k}, collective: all-reduce, size: 1 MiB}}\n"
                            for k in range(8000))  # fmt: skip
    with restserver.api(quick_time_s=0.5) as client:
        client.post("/check", json={"design": DESIGN})  # the worker is there now
        found = error(client.post("/check", json={"design": many}), 422, "limit")
        assert "stopped after 0.5 s" in found["message"]
        assert client.get("/health").status_code == 200
