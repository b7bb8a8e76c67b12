"""Slurm's controller reads railweave's topology.conf, and says the same tree back."""

import getpass
import os
import re
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import railweave
from railweave.deploy import scheduler_view, slurm_tree
from railweave.deploy._hostlist import compress, expand

ROOT = Path(__file__).parents[2]
PROGRAMS = ("slurmctld", "scontrol")
LOST = [program for program in PROGRAMS if shutil.which(program) is None]
DEADLINE_S = 30.0
#: where the plugins are, if not where Slurm was built to look
PLUGINS = os.environ.get("SLURM_PLUGIN_DIR", "")

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True, scope="module")
def programs():
    if LOST and os.environ.get("RAILWEAVE_REQUIRE_REAL") == "1":
        pytest.fail(f"not installed: {', '.join(LOST)}; tools/system-packages installs it")
    if LOST:
        pytest.skip(f"not installed: {', '.join(LOST)}")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def configuration(folder, servers):
    lines = [
        "ClusterName=test",
        "SlurmctldHost=localhost",
        f"SlurmUser={getpass.getuser()}",
        "AuthType=auth/none",
        "CredType=cred/none",
        f"SlurmctldPort={free_port()}",
        f"StateSaveLocation={folder}",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        "TopologyPlugin=topology/tree",
        "ProctrackType=proctrack/linuxproc",
        "SelectType=select/cons_tres",
        f"NodeName={compress(servers)} NodeAddr=127.0.0.1 State=CLOUD",
        "PartitionName=all Nodes=ALL Default=YES",
        *([f"PluginDir={PLUGINS}"] if PLUGINS else []),
    ]
    return "\n".join(lines) + "\n"


@contextmanager
def controller(folder, servers, topology):
    """Run a controller, and yield a function that asks it."""
    (folder / "slurm.conf").write_text(configuration(folder, servers), encoding="utf-8")
    (folder / "topology.conf").write_text(topology, encoding="utf-8")
    told = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def ask(*words):
        done = subprocess.run(
            ["scontrol", *words],
            env=told,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )
        return done.stdout if not done.returncode else ""

    with (folder / "log").open("w", encoding="utf-8") as log:
        running = subprocess.Popen(["slurmctld", "-D", "-c"], env=told, stdout=log, stderr=log)
        try:
            yield ask
        finally:
            running.terminate()
            running.wait(timeout=DEADLINE_S)


def switches(ask, log):
    """Return (nodes, child switches) by switch, as the controller understood them."""
    end = time.monotonic() + DEADLINE_S
    while not (said := ask("show", "topology")):
        assert time.monotonic() < end, log.read_text("utf-8")
        time.sleep(0.1)
    found = {}
    for line in said.replace("\n   ", " ").splitlines():
        fields = dict(re.findall(r"(\w+)=(\S+)", line))
        found[fields["SwitchName"]] = (
            set(expand(fields["Nodes"])),
            set(expand(fields.get("Switches", ""))),
        )
    return found


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("superpod-h100-2su", "su"),
        ("hpn-pod-15k", "segment"),
        ("meta-llama3-24k", "unit"),
        ("ring-of-switches", "unit"),
        ("star-64-gpus", "unit"),
    ],
)
def test_the_controller_understands_the_tree(tmp_path, name, unit):
    fabric = railweave.load(ROOT / f"examples/{name}.yaml").build().fabric
    view = scheduler_view(fabric, unit=unit)
    with controller(tmp_path, view.servers, slurm_tree(view)) as ask:
        found = switches(ask, tmp_path / "log")
    for one in view.units:
        assert found[one.name] == (set(one.servers), set())
    for pod in view.pods:
        under = {one.name for one in view.units if one.pod == pod}
        assert found[pod][1] == under
    if len(view.units) > 1:
        assert found[view.root][0] == set(view.servers)
        assert found[view.root][1] == set(view.pods or [one.name for one in view.units])
    assert len(found) == len(view.units) + len(view.pods) + (len(view.units) > 1)
    said = (tmp_path / "log").read_text("utf-8")
    assert [line for line in said.splitlines() if "topolog" in line and "error" in line] == []
