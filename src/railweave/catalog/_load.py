"""Reading catalog files and looking parts up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator

from railweave.catalog._errors import CatalogError
from railweave.catalog._inherit import based_on
from railweave.catalog._parts import (
    AnyPart,
    Cable,
    Gpu,
    ModelShape,
    Nic,
    Part,
    Server,
    Switch,
)
from railweave.errors import DesignError, Problem
from railweave.formats.validation import field_error, list_names, nearest, validate
from railweave.formats.yaml_source import YamlDocument, parse_yaml, read_yaml

__all__ = ["Catalog", "CatalogFile", "default_catalog", "load_catalog"]

_DATA_FILES: Final = (
    "gpus.yaml",
    "nics.yaml",
    "servers.yaml",
    "switches.yaml",
    "cables.yaml",
    "models.yaml",
)
_SECTIONS: Final[dict[str, type[Part]]] = {
    "gpus": Gpu,
    "nics": Nic,
    "servers": Server,
    "switches": Switch,
    "cables": Cable,
    "models": ModelShape,
}


class CatalogFile(BaseModel):
    """One catalog file: sources, and parts of each kind under their names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: dict[str, str] = {}
    gpus: dict[str, Gpu] = {}
    nics: dict[str, Nic] = {}
    servers: dict[str, Server] = {}
    switches: dict[str, Switch] = {}
    cables: dict[str, Cable] = {}
    models: dict[str, ModelShape] = {}

    @model_validator(mode="before")
    @classmethod
    def _name_parts(cls, data: object) -> object:
        """Give each part the name it stands under."""
        if not isinstance(data, Mapping):
            return data
        named = dict(data)
        for section in _SECTIONS:
            parts = named.get(section)
            if isinstance(parts, Mapping):
                named[section] = {name: _named(section, name, part) for name, part in parts.items()}
        return named

    @model_validator(mode="after")
    def _check_sources(self, info: ValidationInfo) -> CatalogFile:
        titles = (info.context or {}).get("titles", ())
        for section in _SECTIONS:
            for name, part in getattr(self, section).items():
                named: list[tuple[tuple[str, ...], str | None]] = [(("source",), part.source)]
                named += [
                    (("facts", key, "source"), note.source) for key, note in part.facts.items()
                ]
                for path, source in named:
                    inherited = part.like is not None and source in titles
                    if source and source not in self.sources and not inherited:
                        raise field_error(
                            f"{source!r} is not among this file's sources",
                            allowed=list_names(self.sources) or "an entry under 'sources'",
                            nearest=nearest(source, self.sources),
                            at=(section, name, *path),
                        )
        return self


def _named(section: str, name: str, part: object) -> object:
    if not isinstance(part, Mapping):
        return part
    if part.get("name", name) != name:
        raise field_error(
            f"this part stands under the name {name!r}",
            allowed=f"{name}, or no 'name' at all",
            at=(section, name, "name"),
        )
    return {**part, "name": name}


def _empty() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Catalog:
    """Parts by kind and name; immutable.

    A look-up of a name that is not there raises :class:`CatalogError` with the nearest name.
    """

    _gpus: Mapping[str, Gpu] = field(default_factory=_empty, repr=False)
    _nics: Mapping[str, Nic] = field(default_factory=_empty, repr=False)
    _servers: Mapping[str, Server] = field(default_factory=_empty, repr=False)
    _switches: Mapping[str, Switch] = field(default_factory=_empty, repr=False)
    _cables: Mapping[str, Cable] = field(default_factory=_empty, repr=False)
    _models: Mapping[str, ModelShape] = field(default_factory=_empty, repr=False)

    def gpu(self, name: str) -> Gpu:
        """Return the GPU of this name."""
        return _look_up(self._gpus, name, "gpu", "GPU")

    def nic(self, name: str) -> Nic:
        """Return the network adapter of this name."""
        return _look_up(self._nics, name, "nic", "NIC")

    def server(self, name: str) -> Server:
        """Return the server of this name."""
        return _look_up(self._servers, name, "server", "server")

    def switch(self, name: str) -> Switch:
        """Return the switch of this name."""
        return _look_up(self._switches, name, "switch", "switch")

    def cable(self, name: str) -> Cable:
        """Return the cable or optical link of this name."""
        return _look_up(self._cables, name, "cable", "cable")

    def model(self, name: str) -> ModelShape:
        """Return the shape of the model of this name."""
        return _look_up(self._models, name, "model", "model")

    def gpus(self) -> tuple[Gpu, ...]:
        """Return all GPUs, by name."""
        return _sorted(self._gpus)

    def nics(self) -> tuple[Nic, ...]:
        """Return all network adapters, by name."""
        return _sorted(self._nics)

    def servers(self) -> tuple[Server, ...]:
        """Return all servers, by name."""
        return _sorted(self._servers)

    def switches(self) -> tuple[Switch, ...]:
        """Return all switches, by name."""
        return _sorted(self._switches)

    def cables(self) -> tuple[Cable, ...]:
        """Return all cables and optical links, by name."""
        return _sorted(self._cables)

    def models(self) -> tuple[ModelShape, ...]:
        """Return all model shapes, by name."""
        return _sorted(self._models)

    def parts(self) -> tuple[Part, ...]:
        """Return every part of every kind."""
        return (
            *self.gpus(),
            *self.nics(),
            *self.servers(),
            *self.switches(),
            *self.cables(),
            *self.models(),
        )

    def merged(self, file: CatalogFile) -> Catalog:
        """Return a catalog in which the parts of a file replace those of the same name."""
        return Catalog(
            _gpus=_over(self._gpus, file.gpus),
            _nics=_over(self._nics, file.nics),
            _servers=_over(self._servers, file.servers),
            _switches=_over(self._switches, file.switches),
            _cables=_over(self._cables, file.cables),
            _models=_over(self._models, file.models),
        )


def _look_up(parts: Mapping[str, AnyPart], name: str, path: str, kind: str) -> AnyPart:
    part = parts.get(name)
    if part is None:
        raise CatalogError(
            f"the catalog has no {kind} {name!r}",
            path=path,
            allowed=list_names(sorted(parts)),
            nearest=nearest(name, parts),
        )
    return part


def _sorted(parts: Mapping[str, AnyPart]) -> tuple[AnyPart, ...]:
    return tuple(parts[name] for name in sorted(parts))


def _over(base: Mapping[str, AnyPart], more: Mapping[str, AnyPart]) -> Mapping[str, AnyPart]:
    return MappingProxyType({**base, **more})


def _read(document: YamlDocument, catalog: Catalog) -> CatalogFile:
    """Validate a document and tell every part its sources; a part without one has the file."""
    titles = {title for part in catalog.parts() for title in part._sources.values()}
    file = validate(CatalogFile, document, context={"titles": titles | {document.file}})
    sources = MappingProxyType({"": document.file, **file.sources})
    for section in _SECTIONS:
        for part in getattr(file, section).values():
            part._sources = sources
    return file


def _dangling(catalog: Catalog, file: CatalogFile, document: YamlDocument) -> Iterable[Problem]:
    """Find the names of other parts, in the servers of a file, which the catalog does not have."""
    gpus = [gpu.name for gpu in catalog.gpus()]
    nics = [nic.name for nic in catalog.nics()]
    for name, server in file.servers.items():
        wanted: list[tuple[tuple[str, ...], str, list[str]]] = []
        if server.gpu is not None:
            wanted.append((("gpu",), server.gpu, gpus))
        wanted += [(("nics", role, "nic"), nic.nic, nics) for role, nic in server.nics.items()]
        for path, part, known in wanted:
            if part not in known:
                yield document.problem(
                    ("servers", name, *path),
                    f"the catalog has no {path[-1]} {part!r}",
                    allowed=list_names(known),
                    nearest=nearest(part, known),
                )


def _completed(document: YamlDocument, catalog: Catalog) -> YamlDocument:
    """Write out the parts of a file that are ``like`` one of the catalog."""
    if not isinstance(document.data, dict):
        return document
    problems: list[Problem] = []
    data = dict(document.data)
    for section in _SECTIONS:
        parts, known = data.get(section), getattr(catalog, f"_{section}")
        for name, part in parts.items() if isinstance(parts, dict) else ():
            like = part.get("like") if isinstance(part, dict) else None
            if not isinstance(like, str):
                continue
            if like in known:
                data[section] = {**data[section], name: based_on(known[like], part, document.file)}
            else:
                problems.append(
                    document.problem(
                        (section, name, "like"),
                        f"the catalog has no {like!r} among its {section}",
                        allowed=list_names(sorted(known)),
                        nearest=nearest(like, known),
                    )
                )
    if problems:
        raise DesignError(problems)
    return replace(document, data=data)


def _extended(catalog: Catalog, documents: Iterable[YamlDocument]) -> Catalog:
    read: list[tuple[YamlDocument, CatalogFile]] = []
    for document in documents:
        file = _read(_completed(document, catalog), catalog)
        read.append((document, file))
        catalog = catalog.merged(file)
    problems = [
        problem for document, file in read for problem in _dangling(catalog, file, document)
    ]
    if problems:
        raise DesignError(problems)
    return catalog


@cache
def default_catalog() -> Catalog:
    """Return the catalog that railweave carries; read once."""
    data = resources.files("railweave.catalog") / "data"
    return _extended(
        Catalog(),
        (parse_yaml((data / name).read_text("utf-8"), f"catalog/{name}") for name in _DATA_FILES),
    )


def load_catalog(paths: Sequence[Path] | Path, base: Catalog | None = None) -> Catalog:
    """Read catalog files over a base; later files win, part by part, by name.

    Args:
        paths: YAML files of the same form as railweave's own; see ``docs/reference/catalog.md``.
        base: the catalog they extend; :func:`default_catalog` when not given.

    Raises:
        DesignError: problems in a file, each with its file, line and column.
    """
    files = [paths] if isinstance(paths, Path) else paths
    return _extended(default_catalog() if base is None else base, map(read_yaml, files))
