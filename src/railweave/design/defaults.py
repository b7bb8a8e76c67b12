"""The whole design with every default written out, as a design file again."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import TYPE_CHECKING, Any

from railweave.design._context import Context
from railweave.design._meaning_network import CONGESTION_OF, SCHEMES_OF, SHARED_FIELDS
from railweave.design._meaning_work import COLLECTIVE_FIELDS, MODEL_FIELDS
from railweave.design.models import (
    ALGORITHMS,
    CongestionName,
    Job,
    Plane,
    RoutingScheme,
    Topology,
    Transport,
)

if TYPE_CHECKING:
    from railweave.design.loading import LoadedDesign

__all__ = ["default_congestion", "default_scheme", "resolved", "resolved_yaml", "worked_out"]


def default_scheme(transport: Transport) -> RoutingScheme:
    """Return the routing scheme used where a plane names none."""
    ecmp = RoutingScheme.ECMP
    return ecmp if ecmp in SCHEMES_OF[transport] else RoutingScheme.DESTINATION


def schemes_of(transport: Transport) -> tuple[RoutingScheme, ...]:
    """Return the routing schemes that exist on a transport."""
    return SCHEMES_OF[transport]


def default_congestion(transport: Transport) -> CongestionName:
    """Return the congestion profile used where a plane names none."""
    wanted = (CongestionName.PFC_DCQCN, CongestionName.CUBIC, CongestionName.CREDITS)
    return next(name for name in wanted if name in CONGESTION_OF[transport])


def resolved(loaded: LoadedDesign) -> dict[str, Any]:
    """Return the design as plain data with every default, quantities as texts with units.

    Fields which mean nothing where they stand (a shared plane's topology, a collective's
    parallelism) are left out. Read again, it gives an equal :class:`~.models.Design`.
    """
    design = loaded.design
    data = design.model_dump(mode="json", by_alias=True)
    for name in data["planes"]:
        plane: Plane | None = getattr(design.planes, name)
        if plane is not None and plane.shares is not None:
            data["planes"][name] = {
                key: value for key, value in data["planes"][name].items() if key in SHARED_FIELDS
            }
    for job, entry in zip(design.jobs, data["jobs"], strict=True):
        for strange in (
            ("model", *MODEL_FIELDS) if job.collective else ("collective", *COLLECTIVE_FIELDS)
        ):
            del entry[strange]
    return data


def worked_out(loaded: LoadedDesign) -> dict[str, str]:
    """Return what the fields that are left empty come to, as far as the design alone decides.

    Keys are field paths; values are written as in a file.
    """
    context = Context(loaded.design, loaded.document, loaded.catalog, loaded.folder)
    found: dict[str, str] = {}
    counts = context.counts() or ()
    for number, (count, group) in enumerate(
        zip(counts, loaded.design.cluster.servers, strict=False)
    ):
        facts = context.server(group)
        empty = {"count": str(count)}
        if facts is not None:
            empty |= {"nics": str(facts.nics), "nic_speed": context.rate(facts.nic_speed_bps)}
        for field, value in empty.items():
            if getattr(group, field) is None:
                found[f"cluster.servers[{number}].{field}"] = value
    total = context.total_gpus()
    if loaded.design.cluster.gpus is None and total is not None:
        found["cluster.gpus"] = str(total)
    for name, plane in context.own_planes():
        found |= {f"planes.{name.value}.{key}": value for key, value in _of_plane(plane).items()}
    for number, job in enumerate(loaded.design.jobs):
        found |= {f"jobs[{number}].{key}": value for key, value in _of_job(job, total).items()}
    return found


def _of_plane(plane: Plane) -> dict[str, str]:
    transport = plane.transport or Transport.TCP
    found = {}
    if plane.transport is None:
        found["transport"] = transport.value
    if plane.topology is None:
        found["topology"] = Topology.LEAF_SPINE.value
    if plane.routing.scheme is None:
        found["routing.scheme"] = default_scheme(transport).value
    if plane.congestion is None:
        found["congestion"] = default_congestion(transport).value
    elif plane.congestion.scheme is None:
        found["congestion.scheme"] = default_congestion(transport).value
    return found


def _of_job(job: Job, total: int | None) -> dict[str, str]:
    if job.collective is not None:
        return {} if job.algorithm else {"algorithm": ALGORITHMS[job.collective][0].value}
    ranks, degrees = (total if job.ranks == "all" else job.ranks), job.parallelism
    if degrees is not None and degrees.data is None and ranks is not None:
        return {"parallelism.data": str(ranks // (degrees.tensor * degrees.pipeline))}
    return {}


def resolved_yaml(loaded: LoadedDesign, more: Mapping[str, str] | None = None) -> str:
    """Write :func:`resolved` as YAML; what is worked out stands in a comment beside its field.

    Args:
        loaded: the design.
        more: further worked-out values by field path, such as those that sizing finds.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    notes = {**worked_out(loaded), **(more or {})}

    def commented(value: Any, path: str) -> Any:  # noqa: ANN401 - any YAML value
        if isinstance(value, dict):
            mapping = CommentedMap()
            for key, inner in value.items():
                at = f"{path}.{key}" if path else str(key)
                mapping[key] = commented(inner, at)
                if at in notes:
                    mapping.yaml_add_eol_comment(f"worked out: {notes[at]}", key)
            return mapping
        if isinstance(value, list):
            sequence = CommentedSeq(
                commented(inner, f"{path}[{number}]") for number, inner in enumerate(value)
            )
            if not any(isinstance(inner, dict) for inner in value):
                sequence.fa.set_flow_style()
            return sequence
        return value

    yaml = YAML()
    yaml.width = 100
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.representer.add_representer(
        type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    text = StringIO()
    yaml.dump(commented(resolved(loaded), ""), text)
    return text.getvalue()
