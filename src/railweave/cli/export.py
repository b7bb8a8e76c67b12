"""``railweave export``: the fabric as other systems' files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railweave.cli._options import DesignFile, Json
from railweave.cli._output import print_json, print_text
from railweave.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from railweave.deploy import SchedulerView

__all__ = ["register"]

#: what the field calls servers on the same leaves, by topology
_UNITS = {"rail-optimized": "su", "dual-plane-dual-tor": "segment"}

Slurm = Annotated[
    Path | None,
    typer.Option("--slurm", metavar="FILE", help="Slurm's topology.conf for topology/tree."),
]
SlurmBlock = Annotated[
    Path | None,
    typer.Option(
        "--slurm-block",
        metavar="FILE",
        help="Slurm's topology.conf for topology/block: scale-up domains that span servers.",
    ),
]
SlurmYaml = Annotated[
    Path | None,
    typer.Option(
        "--slurm-yaml", metavar="FILE", help="Slurm's topology.yaml: tree, and blocks if any."
    ),
]
Kueue = Annotated[
    Path | None,
    typer.Option("--kueue", metavar="FILE", help="Kueue's Topology and ResourceFlavor."),
]
NodeLabels = Annotated[
    Path | None,
    typer.Option(
        "--node-labels", metavar="FILE", help="Topology labels of the Kubernetes nodes, for Kueue."
    ),
]


def _write(texts: dict[Path, str]) -> None:
    """Write all files; each folder's appear together, and none half-written."""
    from contextlib import ExitStack

    from railweave.formats.files import staged

    with ExitStack() as stages:
        by_folder = {
            folder: stages.enter_context(staged(folder))
            for folder in dict.fromkeys(path.parent for path in texts)
        }
        for path, text in texts.items():
            by_folder[path.parent].write_text(path.name, text)


def _document(view: SchedulerView, files: dict[str, Path]) -> dict[str, Any]:
    return {
        "name": view.name,
        "root": view.root,
        "pods": list(view.pods),
        "units": [
            {
                "name": unit.name,
                "pod": unit.pod,
                "leaves": list(unit.leaves),
                "servers": list(unit.servers),
            }
            for unit in view.units
        ],
        "domains": [{"name": name, "servers": list(servers)} for name, servers in view.domains],
        "files": {kind: str(path) for kind, path in files.items()},
    }


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command()
    def export(  # noqa: PLR0917 - the options of a command
        design: DesignFile,
        slurm: Slurm = None,
        slurm_block: SlurmBlock = None,
        slurm_yaml: SlurmYaml = None,
        kueue: Kueue = None,
        node_labels: NodeLabels = None,
        json: Json = False,
    ) -> None:
        """Write the fabric's topology for job schedulers, with the names that build gives.

        Example: railweave export examples/superpod-h100-2su.yaml --slurm topology.conf
        """
        from railweave import deploy
        from railweave.api import load
        from railweave.errors import InputError

        kinds: dict[str, tuple[Path | None, Callable[[SchedulerView], str]]] = {
            "slurm": (slurm, deploy.slurm_tree),
            "slurm-block": (slurm_block, deploy.slurm_block),
            "slurm-yaml": (slurm_yaml, deploy.slurm_yaml),
            "kueue": (kueue, deploy.kueue_objects),
            "node-labels": (node_labels, deploy.node_labels),
        }
        files = {kind: path for kind, (path, _) in kinds.items() if path is not None}
        if not files and not json:
            raise InputError(
                "export: nothing to write; give a file to one or more of "
                + ", ".join(f"--{kind}" for kind in kinds)
            )
        if len({path.absolute() for path in files.values()}) < len(files):
            raise InputError("export: two exports have the same file; give each one of its own")
        built = load(design).build()
        topology = built.design.planes.backend.topology
        view = deploy.scheduler_view(built.fabric, unit=_UNITS.get(str(topology), "unit"))
        _write({path: kinds[kind][1](view) for kind, path in files.items()})
        if json:
            print_json(_document(view, files))
            return
        units = counted(len(view.units), "unit")
        print_text(f"{view.name}: {counted(len(view.servers), 'server')} in {units}")
        for kind, path in files.items():
            print_text(f"wrote {path} ({kind})")
