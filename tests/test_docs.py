"""README and docs say what is there: links, commands, tests, tables and navigation."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from railweave.cli._app import app
from railweave.design import LoadedDesign, parse_design
from railweave.fabric import PlaneId, build_fabric

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md")})
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]
MADE_BY_A_PROGRAM = re.compile(r"^\$ (.*)$", re.MULTILINE)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def slug(heading: str) -> str:
    words = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", words)).strip("-")


def anchors(page: Path) -> set[str]:
    return {slug(title) for title in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)}


# ---------------------------------------------------------------- links


def targets() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        found = re.findall(r"\]\(([^)\s]+)\)|<img[^>]*src=\"([^\"]+)\"", prose(page))
        yield from ((page, a or b) for a, b in found)


@pytest.mark.parametrize(
    ("page", "target"), list(targets()), ids=lambda v: str(v).rsplit("/", 1)[-1]
)
def test_link_leads_somewhere(page: Path, target: str) -> None:
    if re.match(r"(https?|mailto):", target):
        return
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    assert there.exists(), f"{name(page)} links to {target}"
    assert ROOT in there.parents, f"{name(page)} links out of the project: {target}"
    if anchor:
        assert anchor in anchors(there), f"{name(page)}: no heading of {name(there)} is #{anchor}"


# ---------------------------------------------------------------- commands


def command_lines() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for block in blocks(page, "console"):
            yield from ((page, line) for line in MADE_BY_A_PROGRAM.findall(block))


def test_there_are_commands_to_check() -> None:
    assert any(page == ROOT / "README.md" for page, _ in command_lines())


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that a call begins with, through the groups, and the rest of the words."""
    command, rest = COMMANDS[words[0]], words[1:]
    while hasattr(command, "commands") and rest and rest[0] in command.commands:
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def check_railweave(words: list[str], page: Path) -> None:
    """Hold one call against the command tree: name, options, choices, files."""
    if words[:1] in (["--help"], ["--version"]):
        return
    command, rest = command_of(words)
    context = command.make_context(words[0], rest)  # raises on a wrong option or choice
    for given in (context.params.get("design"), *(w for w in words if w.startswith("examples/"))):
        if given is not None:
            check_design_file(Path(given), page)


def check_design_file(given: Path, page: Path) -> None:
    """A design named in a page is in the repository, or the page itself writes it."""
    written = {parsed(text, page).design.name for text in designs(page)}
    assert (ROOT / given).is_file() or given.stem in written, f"{name(page)}: {given}"


def check_program(words: list[str], page: Path) -> None:
    program, rest = words[0].removeprefix(".venv/bin/"), words[1:]
    if program == "make":
        rules = re.findall(r"^([\w-]+):", text_of(ROOT / "Makefile"), re.MULTILINE)
        assert [w for w in rest if "=" not in w and w not in rules] == []
    elif program == "railweave":
        check_railweave(rest, page)
    elif program in {"python", "pytest"}:
        scripts = [w for w in rest if w.endswith(".py") or w.startswith(("tests/", "benchmarks/"))]
        scripts = [w.partition("::")[0] for w in scripts if "=" not in w]
        assert scripts
        assert [w for w in scripts if not (ROOT / w).exists()] == []
    else:
        assert program in {"git", "cd", "pip", "sudo", "source", "."}, program


@pytest.mark.parametrize(("page", "line"), list(command_lines()), ids=lambda v: str(v)[-60:])
def test_command_exists_with_its_options(page: Path, line: str) -> None:
    for part in re.split(r"\s(?:\||&&)\s", line.partition("  #")[0]):
        words = shlex.split(re.split(r"\s>\s?", part)[0])
        while re.match(r"^[A-Z_]+=", words[0]):
            words = words[1:]
        check_program(words, page)


def test_wrong_commands_are_noticed() -> None:
    page = DOCS / "index.md"
    for wrong in ("build --faill x y.yaml", "simulate --engine fluid examples/star-64-gpus.yaml"):
        with pytest.raises(Exception, match=r"(?i)no such option|not one of"):
            check_railweave(wrong.split(), page)
    with pytest.raises(AssertionError):
        check_railweave(["build", "examples/none.yaml"], page)
    with pytest.raises(AssertionError):
        check_program(["make", "nothing"], page)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_in_the_text_exist(page: Path) -> None:
    for code in re.findall(r"`railweave ([^`]+)`", prose(page)):
        words = shlex.split(code)
        if words[0].startswith("-") or words[0].isupper():
            continue
        for word in words[0].split("|"):
            assert word in COMMANDS, f"{name(page)}: railweave {code}"
            command, _ = command_of([word, *words[1:]])
            known = {option for p in command.params for option in (*p.opts, *p.secondary_opts)}
            used = {w.partition("=")[0] for w in words[1:] if w.startswith("--")}
            assert used <= {*known, "--help"}, f"{name(page)}: railweave {code}"


# ---------------------------------------------------------------- designs, paths, tests


def designs(page: Path) -> list[str]:
    found = blocks(page, "yaml")
    return [text for text in found if re.search(r"^railweave: 1$", text, re.MULTILINE)]


def parsed(text: str, page: Path) -> LoadedDesign:
    """Read a design of a page beside the files that the page shows: blocks that begin "# NAME"."""
    with TemporaryDirectory() as folder:
        for block in blocks(page, "yaml"):
            if file := re.match(r"# (\w+\.yaml)\n", block):
                (Path(folder) / file[1]).write_text(block, "utf-8")
        return parse_design(text, folder=Path(folder))


@pytest.mark.parametrize("page", [page for page in PAGES if designs(page)], ids=name)
def test_designs_on_a_page_are_right_and_can_be_built(page: Path) -> None:
    for text in designs(page):
        loaded = parsed(text, page)
        assert build_fabric(loaded.design, loaded.catalog).plans


def test_the_example_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = ROOT / "README.md"
    (tmp_path / "first.yaml").write_text(designs(readme)[0], "utf-8")
    monkeypatch.chdir(tmp_path)
    shown: list[Any] = []
    for code in blocks(readme, "python"):
        exec(code, {"print": shown.append})
    assert shown[0]["bytes"].sum() > 2**30


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_named_in_the_text_exist(page: Path) -> None:
    rooms = r"`((?:src|tests|benchmarks|examples|tools|native|docs)/[^`\s]*)`"
    for path in re.findall(rooms, prose(page)):
        file, _, function = path.partition("::")
        if any(c in file for c in "*{<…"):
            continue
        assert (ROOT / file).exists(), f"{name(page)}: {path}"
        if function:
            source = text_of(ROOT / file)
            assert re.search(rf"^def {function}\(", source, re.MULTILINE), f"{name(page)}: {path}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_machine_path(page: Path) -> None:
    assert not re.findall(r"(?<![\w.])/(?:home|work|root|tmp|usr|opt|mnt)\b", text_of(page))


# ---------------------------------------------------------------- the table of published designs


def cell_number(cell: str) -> int | None:
    cell = cell.strip().replace(",", "")
    return None if cell == "–" else int(cell)


@cache
def published() -> tuple[dict[str, Any], list[list[str]]]:
    page = DOCS / "model/sizing.md"
    inputs = next(text for text in blocks(page, "yaml") if text.startswith("A: "))
    rows = re.findall(r"^\| ([A-Z]) \|(.*)\|$", text_of(page), re.MULTILINE)
    return YAML(typ="safe").load(inputs), [[key, *cells.split("|")] for key, cells in rows]


def test_the_published_table_is_whole() -> None:
    inputs, rows = published()
    assert {row[0] for row in rows} == set(inputs)
    assert len(rows) == 21


@pytest.mark.parametrize("row", published()[1], ids=lambda row: f"{row[0]}-{row[1].strip()}")
def test_published_table_is_what_comes_out(row: list[str]) -> None:
    given = published()[0][row[0]]
    servers, *expected = (cell_number(cell) for cell in row[1:])
    cluster = {"servers": {"model": given["servers"], "count": servers}}
    design = {"railweave": 1, "name": "reference", "cluster": cluster}
    text = [f"{key}: {value}" for key, value in design.items()]
    loaded = parse_design("\n".join([*text, f"planes: {{backend: {flow(given['backend'])}}}"]))
    counts = build_fabric(loaded.design, loaded.catalog).plans[PlaneId.BACKEND].counts
    tiers = [counts.switches.get(tier) for tier in ("leaf", "spine", "core")]
    cables = [counts.cables.get(kind) for kind in ("host-leaf", "leaf-spine", "spine-core")]
    assert [counts.gpus, *tiers, *cables] == expected


def flow(value: object) -> str:
    """Write plain data as a YAML flow mapping on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    return str(value)


# ---------------------------------------------------------------- MkDocs


def nav_pages(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for value in entry.values():
            yield from nav_pages(value)
    elif isinstance(entry, list):
        for value in entry:
            yield from nav_pages(value)


def test_every_page_stands_in_the_navigation_once() -> None:
    config = YAML(typ="safe").load(text_of(ROOT / "mkdocs.yml"))
    listed = list(nav_pages(config["nav"]))
    assert sorted(listed) == [
        page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md"))
    ]


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("material")
    pytest.importorskip("mkdocs")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "model/sizing/index.html").is_file()
