"""What gives lab 5's numbers outside the studio: every tile, and every time of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING

from railweave.studio.lab import Reproduce
from railweave.units import parse_bytes

if TYPE_CHECKING:
    from railweave.studio.labs._fabric_flows import FlowsView, Timed
    from railweave.studio.labs._fabric_path import PathView
    from railweave.studio.labs._fabric_state import State

__all__ = ["reproduce", "with_flows"]


def reproduce(file: str, out: Sequence[str], path: PathView, *, power: bool) -> Reproduce:
    """Return the command and the Python that give the numbers of the fabric itself.

    Args:
        file: what the design is saved as.
        out: the parts that are out.
        path: the path that is traced.
        power: whether the design's power is known.
    """
    lines = [
        "import numpy as np",
        "import railweave",
        "from railweave.fabric import PlaneId",
        "from railweave.fabric.capacity import rack_capacities, switch_capacities",
        "",
        f'whole = railweave.load("{file}").build()',
        f"built = whole.fail({list(out)!r})" if out else "built = whole",
        "summary = built.summary()",
        "plane = summary.backend",
        "print(plane.to_json())",
        'print("cables", sum(number for _, number in plane.cables))',
        *(['print("power", summary.power.total_w)'] if power else []),
        "",
        "routing = built.routing().planes[PlaneId.BACKEND]",
        "racks = rack_capacities(built.fabric, PlaneId.BACKEND, routing.frame)",
        'print("uplink of a rack", min(rack.leaving_bps for rack in racks))',
        "switches = switch_capacities(built.fabric, PlaneId.BACKEND)",
        'leaf = np.array(switches.tier) == "leaf"',
        'print("uplink of a leaf", switches.up_bps[leaf].min(initial=np.inf))',
    ]
    if out:
        lines += [
            "busy = leaf & (switches.down_bps > 0)",
            'print("worst leaf", switches.oversubscription[busy].max(initial=0.0))',
            "",
            f"cost = whole.what_if({list(out)!r})",
            "print(cost.describe())",
            "print(cost.bisection_left, cost.gpus_cut_off)",
        ]
    lines += path.python()
    return Reproduce(f"railweave build {file}{_fails(out)} --json", "\n".join(lines))


def with_flows(
    how: Reproduce, file: str, state: State, flows: FlowsView, timed: Timed | None
) -> Reproduce:
    """Add what gives the tiles of the flows, and the times of the collective where parts are out.

    Args:
        how: what gives the numbers of the fabric.
        file: what the design is saved as.
        state: what the controls say.
        flows: what is shown of the flows.
        timed: what is shown of the collective, None where nothing is.
    """
    command, python = [how.command], [how.python, *_flow_lines(state, flows)]
    if timed is not None:
        size = state.size.replace(" ", "")
        words = f"railweave collective all-reduce --design {file} --size {quote(size)}"
        words += f" --engine {timed.engine}"
        if timed.before:
            command.append(f"{words} --json")
        if timed.after:
            command.append(f"{words}{_fails(state.out)} --json")
        python += _collective_lines(state, timed)
    command.append("# the flows on equal paths: see the Python")
    return Reproduce("\n".join(command), "\n".join(python))


def _fails(out: Sequence[str]) -> str:
    return "".join(f" --fail {quote(item)}" for item in out)


def _flow_lines(state: State, flows: FlowsView) -> list[str]:
    lines = [
        "",
        "from railweave.design.models import RoutingScheme",
        *(["from railweave.engine.flow import simulate_flow"] if flows.timed else []),
        "from railweave.engine.metrics import uplink_collisions, uplink_spread",
        *(["from railweave.fabric.routing import RoutingSet"] if flows.timed else []),
        "from railweave.workload.flow_patterns import FlowPattern, pattern_flows",
        "",
        f'pattern, size = FlowPattern("{state.pattern}"), {parse_bytes(state.size)}',
        f"flows = pattern_flows(built.fabric, pattern, size, seed={state.seed})",
        "number = flows.stream_connection",
        "# as the design routes them, then with every packet spread over all equal paths",
        "for scheme in (None, RoutingScheme.SPRAY):",
        "    routing = built.routing(scheme).planes[PlaneId.BACKEND]",
        "    paths = routing.paths(",
        "        flows.src, flows.dst, connection=0 if number is None else number,",
        "        size_bytes=flows.stream_bytes,",
        "    )",
        "    flow_bytes = flows.stream_bytes[paths.message] * paths.share",
        "    print(uplink_spread(built.fabric, paths, flow_bytes=flow_bytes))",
        "    print(uplink_collisions(built.fabric, paths))",
    ]
    if flows.timed:
        lines.append(
            "    print(simulate_flow(built.fabric, flows, RoutingSet.of(routing)).makespan_s)"
        )
    return lines


def _collective_lines(state: State, timed: Timed) -> list[str]:
    able = [name for name, can in (("whole", timed.before), ("built", timed.after)) if can]
    if not able:
        return []
    return [
        "",
        "from railweave.design.models import Collective",
        "",
        f"for one in ({', '.join(able)},):",
        f"    job = one.collective(Collective.ALL_REDUCE, {parse_bytes(state.size)}, "
        f'engine="{timed.engine}")',
        "    print(job.time_s, job.busbw_Bps)",
    ]
