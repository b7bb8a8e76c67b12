"""Side by side with SimGrid: the same messages over the same links, solving time only.

Both simulators get identical explicit routes over a fat tree, no latency and no cross-traffic
(SimGrid: model CM02, ``network/crosstraffic:0``), and every completion time is compared.

    make bench-simgrid                                   # builds SimGrid the first time
    python benchmarks/simgrid_compare.py --python .venv-simgrid/bin/python          # smaller cases
    python benchmarks/simgrid_compare.py --python .venv-simgrid/bin/python --all    # minutes

Exit code 1 where a completion differs by more than 1 %, 3 where SimGrid is not installed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

#: name → (hosts of the tree, messages, smallest and largest size in bytes, in the short run?,
#: times SimGrid's speed that is asked of railweave)
CASES: dict[str, tuple[int, str, float, float, bool, float]] = {
    "all-to-all 64, random sizes": (64, "all-to-all", 1e6, 2e6, True, 15),
    "all-to-all 128, random sizes": (128, "all-to-all", 1e6, 2e6, False, 15),
    "10,000 random pairs of 1,024, random sizes": (1024, "pairs", 1e6, 2e6, False, 15),
    "all-to-all 256, equal sizes": (256, "all-to-all", 1e6, 1e6, True, 3),
    "permutation of 1,024, equal sizes": (1024, "permutation", 1e6, 1e6, True, 3),
}
PAIRS = 10_000


# ---------------------------------------------------------------- SimGrid's half, no other imports


def simgrid_half(problem: dict[str, Any]) -> dict[str, Any]:
    """Build the platform, start all messages at time 0; time only what follows."""
    import ctypes
    import resource
    import sysconfig

    # The wheel built from SimGrid's source does not say where its own library lies: load it first.
    for library in sorted(Path(sysconfig.get_path("platlib")).glob("libsimgrid.so.*")):
        ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    from simgrid import ActivitySet, Comm, Engine, Host

    engine = Engine(["compare", "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0",
                     "--log=root.thresh:error"])  # fmt: skip
    root = engine.netzone_root if hasattr(engine, "netzone_root") else engine.get_netzone_root()
    zone = root.add_netzone_full("zone")
    hosts = {h: zone.add_host(f"h{h}", 1e9) for h in sorted({*problem["src"], *problem["dst"]})}
    links = [zone.add_link(f"l{k}", bps) for k, bps in enumerate(problem["capacity_Bps"])]
    ptr, link = problem["ptr"], problem["link"]
    from simgrid import LinkInRoute

    for i, (src, dst) in enumerate(zip(problem["src"], problem["dst"], strict=True)):
        route = [LinkInRoute(links[k]) for k in link[ptr[i] : ptr[i + 1]]]
        zone.add_route(hosts[src], hosts[dst], route, False)
    zone.seal()
    ends: list[float] = []
    clock: list[float] = []

    def sender() -> None:
        comms = [
            Comm.sendto_async(hosts[s], hosts[d], int(b))
            for s, d, b in zip(problem["src"], problem["dst"], problem["size_bytes"], strict=True)
        ]
        waiting = ActivitySet(comms)
        clock.append(time.perf_counter())  # all messages are there: from here on it solves
        waiting.wait_all()
        clock.append(time.perf_counter())
        ends.extend(comm.finish_time for comm in comms)

    Host.by_name(f"h{problem['src'][0]}").add_actor("sender", sender)
    engine.run()
    return {
        "spent_s": clock[1] - clock[0],
        "ends_s": ends,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


# ---------------------------------------------------------------- railweave's half


def make_problem(hosts: int, pattern: str, low: float, high: float) -> dict[str, Any]:
    """Messages, sizes (whole bytes) and routes."""
    import numpy as np

    from flow_fabric import all_to_all, tree_for

    tree = tree_for(hosts)
    rng = np.random.default_rng(11)
    if pattern == "all-to-all":
        src, dst = all_to_all(hosts)
    elif pattern == "permutation":
        src = np.arange(hosts)
        dst = np.roll(rng.permutation(hosts), 0)
        dst = np.where(dst == src, (dst + 1) % hosts, dst)
    else:  # one route stands for one pair in SimGrid, so no pair comes twice
        keys = rng.choice(hosts * (hosts - 1), PAIRS, replace=False)
        src, rest = np.divmod(keys, hosts - 1)
        dst = rest + (rest >= src)
    ptr, link = tree.routes(src, dst, 3 if low != high else None)
    return {
        "capacity_Bps": tree.capacity(),
        "src": src,
        "dst": dst,
        "ptr": ptr,
        "link": link,
        "size_bytes": np.round(rng.uniform(low, high, len(src))),
    }


def railweave_half(problem: dict[str, Any]) -> dict[str, Any]:
    """Solve with the flow engine's core, exactly; time only the run."""
    from flow_fabric import one_shot
    from railweave import _native

    sim = _native.FlowSim(
        **one_shot(problem["capacity_Bps"], problem["ptr"], problem["link"], problem["size_bytes"])
    )
    began = time.perf_counter()
    sim.advance()
    return {
        "spent_s": time.perf_counter() - began,
        "ends_s": sim.flow_finish_s,
        "events": int(sim.events),
    }


def compare(name: str, python: str) -> dict[str, Any] | None:
    """Run one case in both; None where SimGrid is missing."""
    import numpy as np

    hosts, pattern, low, high, _, wanted = CASES[name]
    problem = make_problem(hosts, pattern, low, high)
    ours = railweave_half(problem)
    plain = {key: value.tolist() for key, value in problem.items()}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.json"
        file.write_text(json.dumps(plain))
        run = subprocess.run(
            [python, __file__, "--simgrid-half", str(file)],
            capture_output=True,
            text=True,
            check=False,
        )
    if run.returncode:
        if "No module named 'simgrid'" in run.stderr:
            return None
        raise SystemExit(f"SimGrid failed on {name!r}:\n{run.stderr[-2000:]}")
    theirs = json.loads(run.stdout.splitlines()[-1])
    apart = np.abs(np.array(theirs["ends_s"]) / ours["ends_s"] - 1)
    return {
        "case": name,
        "messages": len(problem["src"]),
        "events": ours["events"],
        "railweave_s": round(ours["spent_s"], 4),
        "simgrid_s": round(theirs["spent_s"], 4),
        "faster": round(theirs["spent_s"] / ours["spent_s"], 1),
        "asked": wanted,
        "worst_difference": float(apart.max()),
    }


def main() -> int:
    """Run the cases and print one JSON line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="the long cases too (minutes)")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only these")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has SimGrid")
    parser.add_argument("--simgrid-half", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.simgrid_half:
        print(json.dumps(simgrid_half(json.loads(Path(options.simgrid_half).read_text()))))
        return 0
    names = options.case or [n for n, case in CASES.items() if options.all or case[4]]
    worst = 0.0
    for name in names:
        row = compare(name, options.python)
        if row is None:
            print("SimGrid is not installed: pip install 'railweave[bench]'", file=sys.stderr)
            return 3
        print(json.dumps(row), flush=True)
        worst = max(worst, row["worst_difference"])
    return 1 if worst > 0.01 else 0


if __name__ == "__main__":
    raise SystemExit(main())
