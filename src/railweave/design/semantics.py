"""What a design means: checks over more than one field, each problem at its place.

A check is a plain function ``(Context) -> Iterable[Problem]``. All run, so that one reading
shows everything that is wrong. Whether a right design is also wise is said by the findings of
:mod:`railweave.assess`, not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from railweave.design._context import Context
from railweave.design._meaning_congestion import congestion_means_something
from railweave.design._meaning_network import NETWORK_CHECKS
from railweave.design._meaning_security import security_means_something
from railweave.design._meaning_work import WORK_CHECKS
from railweave.design.models import Design
from railweave.errors import DesignError, Problem
from railweave.formats.validation import nearest
from railweave.formats.yaml_source import YamlDocument

if TYPE_CHECKING:
    from railweave.catalog import Catalog
    from railweave.design.loading import LoadedDesign

__all__ = ["CHECKS", "Context", "check_design", "load_catalog"]

Check: TypeAlias = Callable[[Context], Iterable[Problem]]

#: more GPUs than this are refused: the arrays of one fabric would not fit an ordinary machine
MAX_GPUS = 1_048_576


def check_design(loaded: LoadedDesign) -> None:
    """Run every check on a design that is valid field by field.

    Raises:
        DesignError: every problem found, in the file's order.
    """
    context = Context(loaded.design, loaded.document, loaded.catalog, loaded.folder)
    found = {problem: None for check in CHECKS for problem in check(context)}
    if found:
        raise DesignError(sorted(found, key=lambda problem: (problem.line, problem.column)))


def load_catalog(design: Design, document: YamlDocument, folder: Path) -> Catalog:
    """Load the catalog together with the design's own catalog files.

    Raises:
        DesignError: a file is missing (at the place in the design that names it) or bad.
    """
    from railweave.catalog import load_catalog as load

    problems = []
    for number, name in enumerate(design.catalog):
        if not (folder / name).is_file():
            near = nearest(name, _names_beside(folder / name, name))
            problems.append(
                document.problem(("catalog", number), f"there is no file {name!r}", nearest=near)
            )
    if problems:
        raise DesignError(problems)
    return load(tuple(folder / name for name in design.catalog))


def _names_beside(path: Path, name: str) -> list[str]:
    parent = path.parent
    if not parent.is_dir():
        return []
    return [str(Path(name).with_name(entry.name)) for entry in parent.iterdir()]


# ---------------------------------------------------------------- cluster


def server_described_once(context: Context) -> Iterator[Problem]:
    """Each group names a model or describes a server, never both."""
    for number, group in enumerate(context.design.cluster.servers):
        if group.model is not None and group.inline is not None:
            yield context.problem(
                context.group_path(number, "inline"),
                "a server is named by 'model' and described by 'inline' as well",
                allowed="one of model, inline",
            )
        elif group.model is None and group.inline is None:
            yield context.problem(
                context.group_path(number),
                "nothing says what the servers are",
                allowed="model: a catalog name, or inline: {gpus, nics, nic_speed}",
            )


def parts_are_known(context: Context) -> Iterator[Problem]:
    """Every server, GPU, switch and model named is in the catalog."""
    for number, group in enumerate(context.design.cluster.servers):
        if group.model is not None:
            yield from context.unknown("server", group.model, context.group_path(number, "model"))
        if group.inline is not None:
            path = context.group_path(number, "inline", "gpu")
            yield from context.unknown("gpu", group.inline.gpu, path)
    for name, plane in context.planes():
        for _, switch, path in context.switch_fields(name, plane):
            if isinstance(switch, str):
                yield from context.unknown("switch", switch, path)


def counts_agree(context: Context) -> Iterator[Problem]:
    """Server counts, the GPUs wanted and the racks fit together."""
    cluster = context.design.cluster
    open_groups = [i for i, group in enumerate(cluster.servers) if group.count is None]
    if open_groups and cluster.gpus is None:
        for number in open_groups:
            yield context.problem(
                context.group_path(number, "count"),
                "neither the number of servers nor the GPUs wanted are given",
                allowed="count here, or gpus in the cluster",
            )
        return
    if len(open_groups) > 1:
        yield context.problem(
            context.group_path(open_groups[1], "count"),
            "two groups without a count: the GPUs wanted can be shared out in many ways",
            allowed="at most one group without a count",
        )
        return
    yield from _gpus_agree(context, open_groups)
    total = context.total_gpus()
    if total is not None and total > MAX_GPUS:
        yield context.problem(
            ("cluster", "gpus") if cluster.gpus else context.group_path(0, "count"),
            f"{total:,} GPUs are more than one design may have",
            allowed=f"at most {MAX_GPUS:,}",
        )


def _gpus_agree(context: Context, open_groups: Sequence[int]) -> Iterator[Problem]:
    cluster = context.design.cluster
    if cluster.gpus is None:
        return
    known = 0
    for group in cluster.servers:
        facts = context.server(group)
        if facts is None:
            return
        if group.count is not None:
            known += group.count * facts.gpus
    if not open_groups:
        if known != cluster.gpus:
            yield context.problem(
                ("cluster", "gpus"),
                f"{cluster.gpus} GPUs are wanted, but the servers counted have {known}",
                allowed="the same number, or only one of count and gpus",
                nearest=str(known),
            )
        return
    facts = context.server(cluster.servers[open_groups[0]])
    if facts is None:
        return
    rest = cluster.gpus - known
    if rest <= 0 or rest % facts.gpus:
        up = known + max(1, -(-rest // facts.gpus)) * facts.gpus
        counted = f" besides the {known} of the counted groups" if known else ""
        yield context.problem(
            ("cluster", "gpus"),
            f"{cluster.gpus} GPUs{counted} do not make whole servers of {facts.gpus}",
            allowed=f"{known or 'a'} {'plus a ' if known else ''}multiple of {facts.gpus}",
            nearest=str(up),
        )


def racks_suffice(context: Context) -> Iterator[Problem]:
    """The racks there are hold all servers."""
    cluster = context.design.cluster
    servers = context.total_servers()
    if cluster.racks is None or servers is None:
        return
    if cluster.servers_per_rack is None:
        yield context.problem(
            ("cluster", "racks"),
            "racks are counted, but not how many servers stand in one",
            allowed="servers_per_rack as well",
        )
        return
    need = -(-servers // cluster.servers_per_rack)
    if need > cluster.racks:
        yield context.problem(
            ("cluster", "racks"),
            f"{servers} servers at {cluster.servers_per_rack} a rack need {need} racks",
            allowed=f"at least {need}",
            nearest=str(need),
        )


def groups_are_told_apart(context: Context) -> Iterator[Problem]:
    """Server groups have different names, so that servers have."""
    groups = context.design.cluster.servers
    if len(groups) > 1:
        yield from context.repeated(
            [(group.name, context.group_path(i, "name")) for i, group in enumerate(groups)],
            "server group",
        )


def nics_exist(context: Context) -> Iterator[Problem]:
    """Servers have the NICs and the speed asked of them."""
    for number, group in enumerate(context.design.cluster.servers):
        facts = context.server(group, as_built=True)
        if facts is None:
            continue
        if group.nics is not None and group.nics > facts.nics:
            yield context.problem(
                context.group_path(number, "nics"),
                f"{group.nics} back-end NICs are used, but the server has {facts.nics}",
                allowed=f"1 to {facts.nics}",
                nearest=str(facts.nics),
            )
        if facts.nics == 0:
            yield context.problem(
                context.group_path(number, "inline", "nics"),
                "a server without back-end NICs cannot join the back-end",
                allowed="at least 1",
            )
        if group.nic_speed is not None and group.nic_speed > facts.nic_speed_bps:
            yield context.problem(
                context.group_path(number, "nic_speed"),
                f"{context.rate(group.nic_speed)} is more than the NIC has",
                allowed=f"at most {context.rate(facts.nic_speed_bps)}",
                nearest=context.rate(facts.nic_speed_bps),
            )


CLUSTER_CHECKS: tuple[Check, ...] = (
    server_described_once,
    parts_are_known,
    counts_agree,
    racks_suffice,
    groups_are_told_apart,
    nics_exist,
)
CHECKS: tuple[Check, ...] = (
    *CLUSTER_CHECKS,
    *NETWORK_CHECKS,
    congestion_means_something,
    *WORK_CHECKS,
    security_means_something,
)
