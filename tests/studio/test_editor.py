"""The design page without a browser: problems at their places, fixes, forms, runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railweave.design.completion import forms_of, nodes_at
from railweave.design.edit import set_field
from railweave.design.schema import design_schema
from railweave.errors import InputError
from railweave.formats.yaml_source import parse_yaml
from railweave.runs.jobs import JobContext
from railweave.studio.design_check import apply_fix, check_text, find_findings, path_of
from railweave.studio.design_forms import (
    EDITOR_ONLY,
    SECTIONS,
    FormField,
    form_of,
    new_entry,
    read_value,
    worked_out_of,
)
from railweave.studio.design_run import (
    DesignRun,
    changes,
    report_page,
    reproduce,
    run_key,
    run_label,
    run_numbers,
    run_work,
)
from railweave.studio.designs import examples
from railweave.studio.lab import Number
from railweave.studio.run_overlays import DESIGN, draw_against, draw_times
from railweave.studio.session import KeptRun

TEXT = next(e.text for e in examples() if e.name == "juniper-16-leaf")
SMALL = next(e.text for e in examples() if e.name == "two-servers-4-gpus")


class _Context:
    def __init__(self) -> None:
        self.steps: list[float] = []
        self.published: list[Any] = []

    def progress(self, step: str, fraction: float) -> None:
        assert step
        self.steps.append(fraction)

    def publish(self, document: Any) -> None:
        self.published.append(document)

    def check(self) -> None: ...


# ---------------------------------------------------------------- problems


def test_a_good_design_has_no_problems() -> None:
    for example in examples():
        checked = check_text(example.text)
        assert checked.good, (example.name, checked.marks)


@pytest.mark.parametrize(
    ("old", "new", "marked", "fixed"),
    [
        ("all-to-all", "all_to_all", "collective: all_to_all", "collective: all-to-all"),
        ("topology: rail-optimized", "topolgy: rail-optimized", "topolgy: rail-optimized",
         "topology: rail-optimized"),
        ("juniper-qfx5240-64od\n    speed", "juniper-qfx5240-64o\n    speed",
         "switch: juniper-qfx5240-64o", "switch: juniper-qfx5240-64od"),
        ("hgx-h100-8gpu-roce", "hgx-h100-8gpu-rose", "model: hgx-h100-8gpu-rose",
         "model: hgx-h100-8gpu-roce"),
    ],
)  # fmt: skip
def test_an_error_stands_at_its_place_and_is_mended(
    old: str, new: str, marked: str, fixed: str
) -> None:
    text = TEXT.replace(old, new, 1)
    checked = check_text(text)
    assert not checked.good
    assert checked.readable
    mark = checked.marks[0]
    assert text[mark.start : mark.end] == marked
    assert mark.line == text[: mark.start].count("\n") + 1
    assert mark.fixable
    mended = apply_fix(text, mark)
    assert fixed in mended
    assert check_text(mended).good
    assert mended == TEXT


def test_what_cannot_be_built_is_an_error_at_its_field() -> None:
    text = set_field(TEXT, ("planes", "backend", "oversubscription"), 2)
    assert check_text(text).good
    mark = find_findings(text)[0]
    assert (mark.severity, mark.path, mark.nearest) == ("error", "planes.backend.min_spines", "2")
    assert text[mark.start : mark.end] == "min_spines: 4"
    assert "min_spines: 2" in apply_fix(text, mark)


def test_findings_stand_at_their_places_the_gravest_first() -> None:
    marks = find_findings(TEXT)
    order = ["error", "warning", "info"]
    ranks = [order.index(mark.severity) for mark in marks]
    assert ranks == sorted(ranks)
    assert all(mark.line for mark in marks if mark.start)
    warning = next(mark for mark in marks if mark.message.startswith("single-switch"))
    assert TEXT[warning.start : warning.end] in {"frontend", "topology"}


def test_a_very_large_fabric_is_not_built_while_one_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railweave.studio.design_check.MOST_LINKS", 10)
    assert [mark.severity for mark in find_findings(TEXT)] == ["info"]


@pytest.mark.parametrize("text", ["", "a: [", "a:\n\tb: 1", "name: 'x", "\0", "- 1", "42", "!!x"])
def test_broken_text_is_said_and_never_raised(text: str) -> None:
    checked = check_text(text)
    assert not checked.good
    assert checked.marks
    assert all(0 <= mark.start <= mark.end <= len(text) for mark in checked.marks)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("planes", "backend", "graph"), "/etc/passwd"),
        (("planes", "backend", "routing", "table"), "../table.csv"),
        (("catalog",), ["/etc/hostname"]),
    ],
)
def test_a_visitors_text_opens_no_file(path: tuple[str, ...], value: object) -> None:
    text = set_field(TEXT, path, value)
    if path[-1] == "graph":
        text = set_field(text, ("planes", "backend", "topology"), "graph")
    checked = check_text(text)
    assert any("no file is opened" in mark.message for mark in checked.marks)
    with pytest.raises(InputError, match="no file is opened"):
        run_work(DesignRun(text), _Context())


def test_a_text_that_is_too_long_is_refused() -> None:
    checked = check_text(TEXT + "# x" * 400_000)
    assert "longer than" in checked.marks[0].message


# ---------------------------------------------------------------- forms


def _fields(data: object) -> list[FormField]:
    return [field for section in SECTIONS for field in form_of(data, section).walk()]


def _schema_fields() -> set[str]:
    schema = design_schema()
    models = {"Design": schema, **schema["$defs"]}
    return {
        f"{model}.{name}"
        for model, definition in models.items()
        for name, node in definition.get("properties", {}).items()
        if not node.get("deprecated")
    }


def _reached(data: object) -> set[str]:
    found = set()
    groups = [form_of(data, section) for section in SECTIONS]
    while groups:
        group = groups.pop()
        groups += group.groups
        paths = [group.path, *(field.path for field in (*group.fields, *group.more))]
        for path in paths:
            for at in range(1, len(path) + 1):
                if isinstance(path[at - 1], str):
                    found |= {f"{_owner(node.owner)}.{node.name}" for node in nodes_at(path[:at])}
    return found


def _owner(title: str) -> str:
    return "Design" if title == "railweave design" else title


def test_every_field_has_a_control_or_is_said_to_have_none() -> None:
    plane: dict[str, object] = {
        "switch": {"leaf": {"radix": 64}},
        "oversubscription": {"leaf": 2},
        "spare_ports": {"leaf": 1},
        "congestion": {"ecn": {"kmin": "1 MB"}, "watchdog": {"poll": "1 s"}},
        "routing": {},
        "counts": {},
    }
    data = {
        "cluster": {"servers": [{"inline": {}}], "storage_servers": {}},
        "planes": {"backend": plane, "frontend": {}, "storage": {}, "management": {}},
        **{
            name: [{}]
            for name in (
                "jobs",
                "background",
                "storage_traffic",
                "stragglers",
                "tenants",
                "services",
            )
        },
    }
    missing = _schema_fields() - _reached(data) - set(EDITOR_ONLY)
    assert not missing
    assert set(EDITOR_ONLY) <= _schema_fields()


def test_forms_show_what_is_written_and_what_comes_of_the_rest() -> None:
    data = parse_yaml(TEXT, "x").data
    by_path = {field.path: field for field in _fields(data)}
    assert by_path["planes", "backend", "speed"].value == "400 Gb/s"
    assert by_path["cluster", "servers", 0, "count"].value == "8"
    scheme = by_path["planes", "backend", "congestion", "scheme"]
    assert (scheme.value, scheme.written) == ("pfc+dcqcn", True)
    with_worked = form_of(data, SECTIONS[0], worked_out_of(TEXT))
    gpus = next(f for f in with_worked.walk() if f.path == ("cluster", "gpus"))
    assert (gpus.value, gpus.default) == ("", "64")


@pytest.mark.parametrize(
    ("path", "typed", "value"),
    [
        (("planes", "backend", "oversubscription"), "2", 2),
        (("planes", "backend", "oversubscription"), "1.85", 1.85),
        (("planes", "backend", "oversubscription"), "2:1", "2:1"),
        (("planes", "backend", "speed"), " 400 Gb/s ", "400 Gb/s"),
        (("planes", "backend", "dual_tor"), "true", True),
        (("planes", "backend", "tiers"), "2", 2),
        (("software", "nccl"), "2.30", "2.30"),
        (("planes", "backend", "routing", "fields"), "src-ip, dst-ip", ["src-ip", "dst-ip"]),
        (("jobs", 0, "ranks"), "all", "all"),
        (("jobs", 0, "ranks"), "16", 16),
        (("objectives", "min_bandwidth"), "0.5", 0.5),
    ],
)
def test_a_typed_text_is_the_value_it_looks_like(
    path: tuple[str | int, ...], typed: str, value: object
) -> None:
    field = next(f for f in _fields(parse_yaml(TEXT, "x").data) if f.path == path)
    assert read_value(field, typed) == value
    text = set_field(TEXT, path, read_value(field, typed))
    if path[0] != "jobs" or typed != "16":
        assert not [m for m in check_text(text).marks if path_of(m.path) == path]


def test_a_typed_text_that_is_no_number_is_refused() -> None:
    tiers = next(
        f for f in _fields(parse_yaml(TEXT, "x").data) if f.path == ("planes", "backend", "tiers")
    )
    with pytest.raises(InputError, match="no whole number"):
        read_value(tiers, "two")


def test_whatever_is_added_begins_as_something_good() -> None:
    text = TEXT
    for path in (
        ("jobs",), ("background",), ("stragglers",), ("tenants",), ("services",),
    ):  # fmt: skip
        data = parse_yaml(text, "x").data
        text = set_field(text, (*path, len(data.get(path[0], []))), new_entry(path, data))
        text = set_field(
            text, (*path, len(parse_yaml(text, "x").data[path[0]])), new_entry(
                path, parse_yaml(text, "x").data
            ),
        )  # fmt: skip
    for plane in ("storage", "management"):
        path2 = ("planes", plane)
        text = set_field(text, path2, new_entry(path2, parse_yaml(text, "x").data))
    checked = check_text(text)
    messages = [m.text for m in checked.marks if "gpu" not in m.path]
    assert not messages


def test_forms_of_nothing_are_there() -> None:
    for section in SECTIONS:
        assert form_of({}, section).title
        assert form_of(None, section).title
    assert all(forms_of(node) for node in nodes_at(("planes", "backend", "switch")))


# ---------------------------------------------------------------- runs


def test_a_run_gives_what_the_command_line_gives(tmp_path: Path) -> None:
    import railweave
    from railweave.report.html import render_html
    from railweave.report.output import record_json

    context: JobContext = _Context()
    document = run_work(DesignRun(SMALL, "analytic"), context)
    record = railweave.parse(SMALL, "design.yaml").build().run(engine="analytic")
    assert document["record"] == record_json(record)
    assert report_page(document) == render_html(record)
    assert len(document["report"]) < 600_000
    numbers = {number.key: number.value for number in run_numbers(document)}
    assert numbers["engine_time:gradients"] == record.jobs[0].time_s
    assert numbers["busbw:gradients-tree"] == record.jobs[1].busbw_Bps
    how = reproduce(DesignRun(SMALL, "analytic"), "my design.yaml")
    assert how.command == "railweave run 'my design.yaml' --engine analytic --json"


def test_equal_runs_have_one_key() -> None:
    assert run_key(DesignRun(SMALL)) == run_key(DesignRun(SMALL, file="/somewhere"))
    keys = {
        run_key(run)
        for run in (
            DesignRun(SMALL),
            DesignRun(SMALL, "analytic"),
            DesignRun(SMALL + "\n"),
            DesignRun(SMALL, fail=("leaf-1:port-1",)),
        )
    }
    assert len(keys) == 4


def test_an_engine_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="there is no engine"):
        run_work(DesignRun(SMALL, "magic"), _Context())


def test_a_label_says_what_is_different() -> None:
    after = TEXT.replace("128 MiB", "256 MiB").replace("    min_spines: 4\n", "")
    assert changes(TEXT, after) == ["backend.min_spines left out", "jobs[0].size 256 MiB"]
    assert changes(TEXT, SMALL) == []
    label = run_label(DesignRun(after, "analytic"), "j.yaml", DesignRun(TEXT))
    assert label == "j, analytic, backend.min_spines left out, jobs[0].size 256 MiB"


# ---------------------------------------------------------------- runs over each other


def _kept(number: int, *values: tuple[str, float]) -> KeptRun:
    numbers = tuple(Number(key, key, f"{value} s", value) for key, value in values)
    return KeptRun(number, DESIGN, f"run {number}", f"/design/report/{number}", numbers)


def test_bars_are_shares_of_the_baseline() -> None:
    baseline = _kept(1, ("engine_time:a", 2.0), ("bisection", 10.0), ("only here", 1.0))
    other = _kept(2, ("engine_time:a", 3.0), ("bisection", 5.0), ("zero", 0.0))
    figure = draw_against([baseline, other], baseline)
    assert list(figure.data[0].y) == [100.0, 100.0, 100.0]
    assert list(figure.data[1].x) == ["engine_time:a", "bisection"]
    assert list(figure.data[1].y) == [150.0, 50.0]
    assert figure.data[0].name == "1 (baseline)"
    assert list(draw_against([other], baseline).data[0].y) == [150.0, 50.0]


def test_times_of_the_jobs_in_milliseconds() -> None:
    run = _kept(1, ("engine_time:a", 0.002), ("engine_time:b", 0.5), ("bisection", 10.0))
    figure = draw_times([run], run)
    assert list(figure.data[0].x) == ["a", "b"]
    assert list(figure.data[0].y) == [2.0, 500.0]


@pytest.mark.parametrize(
    "text", ['x" onfocus="alert(1)', "back\\", "'a' {b}", "line\nbreak\t", 'é="1" c=\'']
)
def test_texts_of_visitors_stay_within_their_attribute(text: str) -> None:
    from nicegui.props import Props

    from railweave.studio._editor_forms import _attribute

    parsed = Props.parse(f'aria-label="{_attribute(text)}"')
    assert list(parsed) == ["aria-label"]
