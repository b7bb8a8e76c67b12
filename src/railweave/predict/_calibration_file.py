"""Calibrations as YAML or JSON documents, and the one that railweave carries."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from railweave.errors import InputError
from railweave.formats.validation import validate
from railweave.formats.yaml_source import parse_yaml
from railweave.predict._nccl_parameters import PARAMETERS, Calibration
from railweave.provenance import Certainty

__all__ = ["calibration_json", "calibration_yaml", "default_calibration", "parse_calibration"]

_Positive = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    value: _Positive
    points: Annotated[int, Field(ge=0)] = 0
    meaning: str = ""
    unit: str = ""


class _Document(BaseModel):
    """A calibration as written; ``kind`` says what the file is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["railweave-collective-calibration"]
    version: Literal[1] = 1
    name: str
    source: str = ""
    certainty: Certainty = Certainty.ESTIMATED
    points: Annotated[int, Field(ge=0)] = 0
    systems: Annotated[int, Field(ge=0)] = 0
    parameters: dict[str, _Value]
    spread: dict[str, _Positive] = {}


def _plain(calibration: Calibration) -> dict[str, object]:
    """Return a calibration as plain data, floats to six digits."""
    meanings = {spec.name: spec for spec in PARAMETERS}
    return {
        "kind": "railweave-collective-calibration",
        "version": 1,
        "name": calibration.name,
        "source": calibration.source,
        "certainty": calibration.certainty.value,
        "points": calibration.points,
        "systems": calibration.systems,
        "parameters": {
            name: {
                "value": float(f"{value:.6g}"),
                "points": calibration.informed.get(name, 0),
                "meaning": meanings[name].meaning,
                "unit": meanings[name].unit,
            }
            for name, value in calibration.values.items()
        },
        "spread": {key: float(f"{value:.4g}") for key, value in calibration.spread.items()},
    }


def calibration_json(calibration: Calibration) -> str:
    """Return a calibration as a JSON document."""
    return json.dumps(_plain(calibration), indent=2, ensure_ascii=False) + "\n"


def calibration_yaml(calibration: Calibration) -> str:
    """Return a calibration as a YAML document, which :func:`parse_calibration` reads."""
    plain = _plain(calibration)
    lines = []
    for key, value in plain.items():
        if not value or not isinstance(value, dict):
            lines.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
            continue
        lines.append(f"{key}:")
        lines += [
            f"  {json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}"
            for name, entry in value.items()
        ]
    return "\n".join(lines) + "\n"


def parse_calibration(text: str, file: str = "<calibration>") -> Calibration:
    """Read a calibration from YAML or JSON (which is YAML).

    Raises:
        DesignError: problems in the document, each at its line and column.
        InputError: a parameter is missing or unknown.
    """
    document = parse_yaml(text, file)
    data = validate(_Document, document)
    try:
        return Calibration(
            name=data.name,
            values=MappingProxyType({name: each.value for name, each in data.parameters.items()}),
            source=data.source,
            certainty=data.certainty,
            informed=MappingProxyType(
                {name: each.points for name, each in data.parameters.items()}
            ),
            spread=MappingProxyType(dict(data.spread)),
            points=data.points,
            systems=data.systems,
        )
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


@cache
def default_calibration() -> Calibration:
    """Return the calibration fitted to the published tables; read once."""
    text = (resources.files("railweave.predict") / "data" / "calibration.yaml").read_text("utf-8")
    return parse_calibration(text, "predict/calibration.yaml")
