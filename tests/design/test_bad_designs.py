"""Every bad design is answered with its message at its place, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.catalog import default_catalog
from railweave.design import load_design
from railweave.errors import DesignError

FOLDER = Path(__file__).parents[1] / "bad"
DESIGNS = sorted(FOLDER.glob("*.yaml"))


def _kinds() -> dict[str, list[str]]:
    lines = (FOLDER / "kinds.txt").read_text("utf-8").splitlines()
    split = [line.split(":", 1) for line in lines if line and not line.startswith("#")]
    return {kind: stems.split() for kind, stems in split}


def _expected(path: Path) -> list[str]:
    """Read what must be said; ``{servers}`` and the like stand for the catalog's names."""
    catalog = default_catalog()
    switches = catalog.switches()
    names = {
        "servers": [part.name for part in catalog.servers()],
        "models": [part.name for part in catalog.models()],
        "switches": [part.name for part in switches],
        "infiniband-switches": [p.name for p in switches if "infiniband" in p.transports],
        "rocev2-switches": [p.name for p in switches if "rocev2" in p.transports],
    }
    text = path.with_suffix(".expected.txt").read_text("utf-8")
    for key, known in names.items():
        text = text.replace(f"{{{key}}}", ", ".join(known))
    return text.splitlines()


@pytest.mark.parametrize("path", DESIGNS, ids=lambda path: path.stem)
def test_message_and_position(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    with pytest.raises(DesignError) as caught:
        load_design(path.name)
    assert str(caught.value).splitlines() == _expected(path)
    assert caught.value.exit_code == 2
    for problem in caught.value.problems:
        assert problem.line >= 1
        assert problem.column >= 1


def test_corpus_is_large_and_every_design_has_one_kind() -> None:
    kinds = _kinds()
    assert len(kinds) >= 20
    assert len(DESIGNS) >= 55
    listed = [stem for stems in kinds.values() for stem in stems]
    assert sorted(listed) == [path.stem for path in DESIGNS]


def test_every_design_has_its_message_and_no_message_is_left_over() -> None:
    messages = {path.name.removesuffix(".expected.txt") for path in FOLDER.glob("*.expected.txt")}
    assert messages == {path.stem for path in DESIGNS}
