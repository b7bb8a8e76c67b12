"""A run of a design: one work and one key for the design page and the REST API."""

from pathlib import Path

import pytest

from railweave.errors import InputError
from railweave.studio.design_run import DesignRun, run_key, run_work

DESIGN = """\
railweave: 1
name: two servers
cluster:
  servers: {count: 2, inline: {gpus: 4, nics: 4, nic_speed: 100 Gb/s}}
planes:
  backend: {transport: rocev2, topology: leaf-spine}
jobs:
  - {name: sum, collective: all-reduce, size: 1 MiB, ranks: all, algorithm: ring}
"""


class Context:
    def __init__(self) -> None:
        self.published: list[dict[str, object]] = []

    def progress(self, step: str, fraction: float) -> None: ...

    def publish(self, document: dict[str, object]) -> None:
        self.published.append(document)

    def check(self) -> None: ...


def test_every_option_counts() -> None:
    runs = [
        DesignRun(DESIGN),
        DesignRun(DESIGN + "\n"),
        DesignRun(DESIGN, "packet"),
        DesignRun(DESIGN, fail=("leaf-1",)),
        DesignRun(DESIGN, routing="spray"),
        DesignRun(DESIGN, seed=1),
        DesignRun(DESIGN, tolerance=0.01),
        DesignRun(DESIGN, "packet", fault=("ecn leaf-1 off",)),
        DesignRun(DESIGN, what_ifs=False),
    ]
    assert len({run_key(run) for run in runs}) == len(runs)


def test_a_design_that_stands_alone_is_the_same_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(DESIGN, encoding="utf-8")
    runs = DesignRun(DESIGN, "analytic"), DesignRun(DESIGN, "analytic", file=str(file))
    assert run_key(runs[0]) == run_key(runs[1])
    documents = [run_work(run, Context()) for run in runs]
    assert documents[0] == documents[1]
    assert str(tmp_path) not in str(documents[1])  # others may be given this result


def test_what_lies_in_the_files_that_a_design_names_counts(tmp_path: Path) -> None:
    design = DESIGN.replace("railweave: 1", "railweave: 1\ncatalog: [own.yaml]")
    file, own = tmp_path / "mine.yaml", tmp_path / "own.yaml"
    file.write_text(design, encoding="utf-8")
    run = DesignRun(design, "analytic", file=str(file))
    keys = set()
    for text in ("switches: {}\n", "switches: {}\n\n"):
        own.write_text(text, encoding="utf-8")
        keys.add(run_key(run))
    own.unlink()
    keys |= {run_key(run), run_key(DesignRun(design, "analytic"))}
    assert len(keys) == 4


def test_simulate_makes_no_report_and_tells_what_is_known() -> None:
    context = Context()
    document = run_work(DesignRun(DESIGN, what_ifs=False), context)
    assert set(document) == {"record"}
    assert document["record"]["what_ifs"] == []
    assert context.published[-1]["what_ifs"] == []
    document = run_work(DesignRun(DESIGN), context)
    assert set(document) == {"record", "report", "table"}
    assert len(document["record"]["what_ifs"]) == len(context.published[-1]["what_ifs"]) == 1


def test_faults_reach_the_packet_engine() -> None:
    run = DesignRun(DESIGN, "packet", what_ifs=False)
    struck = DesignRun(
        DESIGN, "packet", fault=("link leaf-1:port-1 down at 5us for 50us",), what_ifs=False
    )
    times = [run_work(one, Context())["record"]["makespan_s"] for one in (run, struck)]
    assert times[1] > times[0] + 40e-6


def test_an_engine_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="there is no engine"):
        run_work(DesignRun(DESIGN, "magic"), Context())
