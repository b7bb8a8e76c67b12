"""Oversized, malformed and hostile requests are refused with a sentence, and quickly."""

import gzip
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
        (b'{"design": NaN}', 400),
        (b'{"design": "a: 1", "monte_carlo": -Infinity}', 400),
        (b'{"design": 1e999}', 400),
        (b'{"design": -1e999}', 400),
        (b'{"design": "a: 1", "design": "a: 1"}', 400),
        (b'{"design": {"a": 1, "a": 2}}', 400),
        (b'{"design": "a: 1", "\\u0061": 1, "a": 1}', 400),
        (b"{" + b",".join(b'"k%d":1' % k for k in range(70_000)) + b"}", 400),
        (json.dumps({"design": DESIGN}).encode("utf-16"), 400),
        (json.dumps({"design": DESIGN}).encode("utf-32-le"), 400),
        (b"\xef\xbb\xbf" + body(DESIGN), 400),
        (b'{"design": "\xc0\xaf"}', 400),
        (b'{"design": "\xed\xa0\x80"}', 400),
        (b'{"design": "a: \x00"}', 400),
        (b'{"design": "a: 1", "\\u0000": 1}', 422),
        (b'{"design": "a: 1"} {}', 400),
        (b"{'design': 'a: 1'}", 400),
        (b'{"design": "a: 1",}', 400),
        (b'{"design": "a: 1"} // design', 400),
        (gzip.compress(b"0" * 10_000_000), 400),
        (b'{"design": "a: 1", "fail": [' + b"1," * 400_000 + b"1]}", 422),
        (b'{"design": "' + b"a" * 1_000_001 + b'"}', 422),
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
    ("content", "words"),
    [
        (b'{"design": "a", "fail": [], "design": "b"}', "field 'design' twice"),
        (b'{"design": NaN}', "NaN is no number"),
        (b'{"design": 1e999}', "too large"),
        (b'{"design": ' + b"9" * 10_000 + b"}", "too many digits"),
        (b"[" * 200_000, "nested too deep"),
        (b'{"design": "\xff"}', "UTF-8"),
        (b'{"design":\n tru}', "line 2, column 2"),
        (b"{" + b",".join(b'"k%d":1' % k for k in range(101)) + b"}", "101 fields"),
    ],
)
def test_bodies_that_are_no_json_are_told_why(client, content, words):
    found = error(client.post("/check", content=content, headers=JSON), 400, "request")
    assert words in found["message"]


@pytest.mark.parametrize("kind", ["run", "simulate"])
@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_numbers_that_are_none(client, kind, word):
    text = json.dumps({"kind": kind, "design": DESIGN, "tolerance": 0.5})
    error(client.post("/jobs", content=text.replace("0.5", word), headers=JSON), 400, "request")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", -1),
        ("seed", 2**63),
        ("seed", 10**4000),
        ("seed", 1.5),
        ("seed", "1"),
        ("seed", True),
        ("tolerance", 1e308),
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
        ("a: &a [*a]", "has no '&a' above it"),
        ("%YAML 9.9\n---\na: 1", "version 1"),
        ("%TAG ! tag:x,2000:\n---\n!y a: 1", "not allowed"),
        ("a: !!binary aGk=", "not allowed"),
        ('a: "' + "x" * 500_000, "never closed"),
        (":" * 100_000, "at most 65,536 are allowed"),
        ("#" * 900_000, "the file is empty"),
        ("a: \x7f", "control character"),
        ("a: \uffff", "control character"),
        ("".join("  " * k + f"k{k}:\n" for k in range(600)), "nested more than 64 deep"),
        ("a: &a " + "x" * 60_000 + "\nb: [" + "*a," * 5_000 + "*a]", "railweave"),
        (DESIGN.replace("two servers", "\U0001f4a5" * 3000), "at most 100 characters"),
        (DESIGN.replace("count: 2", "count: 0x7fffffffffffffff"), "count"),
        (DESIGN.replace("ranks: all", "ranks: " + "9" * 40), "ranks"),
        (DESIGN.replace("gpus: 4", "gpus: 100000000"), "gpus"),
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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "change",
    [
        lambda name: DESIGN.replace("leaf-spine}", f"leaf-spine, switch: '{name}'}}"),
        lambda name: DESIGN.replace("inline: {gpus: 4, ", f"model: '{name}', inline: {{gpus: 4, "),
        lambda name: DESIGN.replace("leaf-spine}", f"'{name}'}}"),
        lambda name: DESIGN.replace("algorithm: ring", f"algorithm: '{name}'"),
    ],
)
def test_names_that_look_like_paths_are_only_names(client, change, name):
    design = change(name)
    assert name in design
    found = error(client.post("/build", json={"design": design}), 422, "design")
    assert all(problem["line"] for problem in found["problems"])
    if name == "/etc/passwd":
        assert "root:" not in json.dumps(found)


@pytest.mark.parametrize("name", [*NAMES, "\0", "a\0b", "\u202e", "%2e"])
def test_parts_and_profiles_that_look_like_paths_are_only_names(client, name):
    asked = {"design": DESIGN, "fail": [name]}
    found = error(client.post("/build", json=asked), 422, "input")
    assert "there is no" in found["message"]
    for field in ("profile", "compare", "ecn", "pfc", "buffer", "cable", "size", "duration"):
        error(client.post("/jobs", json={"kind": "congest", field: name}), 422, "input")


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


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize(("path", "most"), [("/check", 422), (f"/jobs/{'0' * 32}/cancel", 404)])
def test_the_limit_is_to_the_byte(client, path, most, stated):
    for size, status in ((2**20, most), (2**20 + 1, 413)):
        content = b'{"design":"' + b"x" * (size - 13) + b'"}'
        sent = content if stated else iter([content[:1000], content[1000:]])
        answer = client.post(path, content=sent, headers=JSON)
        assert ("content-length" in answer.request.headers) is stated
        error(answer, status, {413: "limit", 422: "request", 404: "unknown"}[status])


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
        {"Content-Type": "application/json", "Content-Encoding": "identity, br"},
        {"Content-Type": "application/json; charset=utf-8; charset=utf-7"},
        {"Content-Type": "application/vnd.api+json"},
        {"Content-Type": "application/x-yaml"},
        {"Content-Type": "\xff\xfe"},
    ],
)
@pytest.mark.parametrize("stated", [True, False])
def test_other_types_of_body_are_refused(client, headers, stated):
    content = body(DESIGN)
    content = content if stated else iter([content])
    error(client.post("/check", content=content, headers=encoded(headers)), 415, "type")


def encoded(headers):
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("Content-Type", "text/plain"), ("Content-Type", "application/json")], 422),
        ([("Content-Type", "application/json"), ("Content-Type", "text/plain")], 415),
        ([*JSON.items(), ("Content-Encoding", "gzip"), ("Content-Encoding", "identity")], 400),
        ([*JSON.items(), ("Content-Encoding", "identity"), ("Content-Encoding", "gzip")], 415),
    ],
)
def test_headers_that_are_sent_twice_open_nothing(client, headers, status):
    content = gzip.compress(body(DESIGN)) if "Content-Encoding" in dict(headers) else body(DESIGN)
    error(client.post("/check", content=content, headers=headers), status)


def test_a_compressed_bomb_is_never_unpacked(client):
    bomb = gzip.compress(b'{"design": "' + b"x" * 50_000_000 + b'"}')
    assert len(bomb) < 2**20
    found = error(client.post("/check", content=bomb, headers=JSON), 400, "request")
    assert "UTF-8" in found["message"]  # unpacked it would be too large
    error(client.post("/check", content=bomb, headers={**JSON, "Content-Encoding": "gzip"}), 415)


@pytest.mark.parametrize(
    "text",
    [
        b"Content-Length: -5\r\n\r\n{}",
        b"Content-Length: many\r\n\r\n{}",
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}",
        b"Content-Length: 2\r\nContent-Length: 900\r\n\r\n{}",
        b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n" + b"F" * 30 + b"\r\n{}\r\n0\r\n\r\n",
    ],
)
def test_lengths_that_are_none_are_refused(client, text):
    assert raw(client, [HEAD + text]).startswith(b"HTTP/1.1 4")
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/health", "GET"),
        ("OPTIONS", "/jobs", "GET, POST"),
        ("PATCH", f"/jobs/{'0' * 32}", "DELETE, GET"),
        ("TRACE", f"/jobs/{'0' * 32}/cancel", "POST"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(client, method, path, allowed):
    answer = client.request(method, path, content=b"\x00" * 10)
    found = error(answer, 405, "method")
    assert answer.headers["allow"] == allowed
    assert found["message"].endswith(f"allowed: {allowed}")


def test_a_design_that_takes_too_long_is_stopped():
    many = DESIGN + "".join(f"  - {{name: j{k}, collective: all-reduce, size: 1 MiB}}\n"
                            for k in range(8000))  # fmt: skip
    with restserver.api(quick_time_s=0.5) as client:
        client.post("/check", json={"design": DESIGN})  # the worker is there now
        found = error(client.post("/check", json={"design": many}), 422, "limit")
        assert "stopped after 0.5 s" in found["message"]
        assert client.get("/health").status_code == 200
