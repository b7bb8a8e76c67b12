"""``import railweave`` stays quick: heavy libraries are imported where they are used."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys, time
began = time.process_time()
import railweave
print(time.process_time() - began)
print(" ".join(sorted({name.split(".")[0] for name in sys.modules})))
"""
HEAVY = {
    "duckdb",
    "jinja2",
    "numpy",
    "pandas",
    "pint",
    "plotly",
    "polars",
    "pydantic",
    "rich",
    "ruamel",
    "scipy",
    "typer",
}


def measured() -> tuple[float, set[str]]:
    out = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    seconds, modules = out.stdout.splitlines()
    return float(seconds), set(modules.split())


def test_import_takes_at_most_300_ms_of_processor_time():
    tries = [measured()[0] for _ in range(3)]
    assert min(tries) <= 0.3


def test_import_brings_no_heavy_library():
    assert not measured()[1] & HEAVY


def test_the_command_line_starts_without_figures_and_frames():
    script = "import sys; import railweave.cli._app; print(' '.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    top = {name.split(".")[0] for name in out.stdout.split()}
    assert not top & {"plotly", "polars", "scipy", "jinja2", "pandas"}
