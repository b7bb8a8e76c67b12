"""Reading design files: what is right, what is answered, and that nothing else ever comes out."""

from __future__ import annotations

from pathlib import Path

import pytest
from _samples import EVERYTHING, SUPERPOD
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from railweave.design import load_design, parse_design, resolved_yaml
from railweave.design.models import Cluster, PlaneName, RoutingScheme, Transport
from railweave.errors import DesignError, Problem


def test_design_of_the_readme_loads() -> None:
    loaded = parse_design(SUPERPOD, "superpod.yaml")
    design = loaded.design
    assert design.cluster.servers[0].count == 127
    assert design.planes.frontend is not None
    assert design.planes.frontend.transport is Transport.TCP
    assert design.planes.storage is not None
    assert design.planes.storage.shares is PlaneName.FRONTEND
    assert design.jobs[0].size == 2**30


def test_short_forms_mean_the_long_ones() -> None:
    design = parse_design(EVERYTHING).design
    backend, frontend = design.planes.backend, design.planes.frontend
    assert frontend is not None
    assert frontend.routing.scheme is RoutingScheme.ECMP
    assert backend.oversubscription.leaf == 1.85  # type: ignore[union-attr]
    assert backend.links_per_cable.leaf_spine == 2
    assert design.background[1].sizes == 65536


def test_position_of_a_field_and_of_its_nearest_written_parent() -> None:
    loaded = parse_design(SUPERPOD, "superpod.yaml")
    assert loaded.position("planes.backend.switch") == (6, 62)
    assert loaded.position("planes.backend.congestion") == (6, 3)
    assert loaded.position("jobs[0].size") == loaded.position(("jobs", 0, "size")) == (11, 47)
    assert loaded.where("planes.storage") == "superpod.yaml:8:3"


def test_a_design_is_frozen() -> None:
    design = parse_design(SUPERPOD).design
    with pytest.raises(ValidationError):
        design.name = "other"  # type: ignore[misc]


def test_models_take_the_same_short_forms_from_python() -> None:
    cluster = Cluster.model_validate({"servers": {"model": "dgx-h100", "count": 2}})
    assert len(cluster.servers) == 1


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "null\n"])
def test_empty_documents_are_answered(text: str) -> None:
    with pytest.raises(DesignError, match=r"d\.yaml:\d:1: the file is empty"):
        parse_design(text, "d.yaml")


@pytest.mark.parametrize("text", ["42\n", "[1, 2]\n", "just text\n"])
def test_documents_that_are_no_mapping_are_answered(text: str) -> None:
    with pytest.raises(DesignError, match=r"d\.yaml:1:1: expected fields"):
        parse_design(text, "d.yaml")


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "design.yaml").write_text(SUPERPOD)
    with pytest.raises(DesignError, match=r"did you mean '.*design\.yaml'"):
        load_design(tmp_path / "desing.yaml")


def test_directory_and_oversized_file_are_answered(tmp_path: Path) -> None:
    with pytest.raises(DesignError, match="directory"):
        load_design(tmp_path)
    large = tmp_path / "large.yaml"
    large.write_text("# " + "x" * (4 * 2**20))
    with pytest.raises(DesignError, match="too large"):
        load_design(large)


def test_own_catalog_file_is_found_beside_the_design(tmp_path: Path) -> None:
    files = Path(__file__).parent / "files"
    text = SUPERPOD.replace("cluster:", "catalog: [own-catalog.yaml]\ncluster:", 1)
    (tmp_path / "own-catalog.yaml").write_text((files / "own-catalog.yaml").read_text())
    (tmp_path / "design.yaml").write_text(text.replace("qm9700", "own-switch"))
    loaded = load_design(tmp_path / "design.yaml")
    assert loaded.catalog.switch("own-switch").ports == 64
    assert loaded.resolve("own-catalog.yaml").is_file()


def test_problem_in_an_own_catalog_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("switchs: {}\n")
    (tmp_path / "design.yaml").write_text(
        SUPERPOD.replace("cluster:", "catalog: [own.yaml]\ncluster:", 1)
    )
    with pytest.raises(DesignError, match=r"own\.yaml:1:1: switchs: there is no field"):
        load_design(tmp_path / "design.yaml")


def test_problems_come_in_the_order_of_the_file() -> None:
    with pytest.raises(DesignError) as caught:
        parse_design(EVERYTHING.replace("gpu: 5,", "gpu: 500,").replace("4096 B", "4000 B"))
    lines = [problem.line for problem in caught.value.problems]
    assert len(lines) >= 2
    assert lines == sorted(lines)


_LINES = EVERYTHING.splitlines()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_no_edit_of_a_design_gives_anything_but_a_design_or_problems(data: st.DataObject) -> None:
    """Lines removed, doubled, or with a value replaced: never a traceback, always a position."""
    number = data.draw(st.integers(0, len(_LINES) - 1))
    line = _LINES[number]
    value = data.draw(
        st.sampled_from(
            ["", "-1", "0", "1e400", "[]", "{}", "null", "true", "~", "'", "!x y", ".nan", "9" * 30]
        )
        | st.text(max_size=12)
    )
    key = line.split(":")[0]
    edited = data.draw(st.sampled_from([[], [line, line], [f"{key}: {value}"], [line + value]]))
    text = "\n".join([*_LINES[:number], *edited, *_LINES[number + 1 :]])
    problems: tuple[Problem, ...] = ()
    try:
        parse_design(text, "d.yaml")
    except DesignError as error:
        problems = error.problems or (Problem("", "an error without problems"),)
    assert all(problem.line >= 1 and problem.file == "d.yaml" for problem in problems)


LISTED = SUPERPOD.replace("ranks: all", "%s placement: [0, 8, 16, 24]")


def test_a_list_of_gpus_says_how_many_ranks_there_are() -> None:
    loaded = parse_design(LISTED % "")
    assert loaded.design.jobs[0].ranks == 4
    assert loaded.design.jobs[0].placement == (0, 8, 16, 24)
    assert loaded.design == parse_design(LISTED % "ranks: 4,").design
    assert parse_design(resolved_yaml(loaded)).design == loaded.design


def test_degrees_are_held_against_the_listed_gpus() -> None:
    job = "{name: t, model: llama3-8b, parallelism: {tensor: 3}, placement: [0, 1, 2, 3]}"
    text = SUPERPOD[: SUPERPOD.index("jobs:")] + f"jobs: [{job}]\n"
    with pytest.raises(DesignError, match=r"3 × pipeline 1 = 3 does not divide the 4 ranks"):
        parse_design(text)
    assert parse_design(text.replace("tensor: 3", "tensor: 2")).design.jobs[0].ranks == 4


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ("ranks: 3,", "4 GPUs are placed for 3 ranks"),
        ("ranks: all,", "4 GPUs are placed for 1016 ranks"),
    ],
)
def test_a_list_of_another_length_than_the_ranks_stays_an_error(ranks: str, message: str) -> None:
    with pytest.raises(DesignError, match=message):
        parse_design(LISTED % ranks)


@pytest.mark.parametrize("listed", ["[]", "[x]", "[0]"])
def test_a_list_that_is_wrong_is_answered_as_before(listed: str) -> None:
    with pytest.raises(DesignError):
        parse_design((LISTED % "").replace("[0, 8, 16, 24]", listed))
