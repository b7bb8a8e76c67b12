"""The JSON Schema (draft 2020-12) of the design file, for editors and other programs.

It is made from the models, so it cannot drift from what the loader accepts: quantities are strings
with a pattern and examples, and the short forms that the loader takes are in it.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from railweave.design import models
from railweave.design.models import Design, LinksPerCable

__all__ = ["design_schema"]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def design_schema() -> dict[str, Any]:
    """Return the schema of a design file as plain data."""
    schema: dict[str, Any] = Design.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    for name, definition in {**definitions, "Design": schema}.items():
        model = getattr(models, name, None)
        if isinstance(model, type) and issubclass(model, BaseModel):
            _write_defaults(model, definition)
    _accept_underscores(definitions[LinksPerCable.__name__])
    referenced: dict[str, Any] = _write_references(schema)
    return {"$schema": DIALECT, **referenced, "title": "railweave design"}


def _write_references(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Turn the place-holders that :class:`~._values.Also` leaves into references."""
    if isinstance(value, list):
        return [_write_references(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"definition"}:
        return {"$ref": f"#/$defs/{value['definition']}"}
    return {key: _write_references(inner) for key, inner in value.items()}


def _write_defaults(model: type[BaseModel], definition: dict[str, Any]) -> None:
    """Write defaults as they stand in a file, quantities with their units."""
    optional = {
        name: field.get_default(call_default_factory=True)
        for name, field in model.model_fields.items()
        if not field.is_required()
    }
    dumped = model.model_construct(**optional).model_dump(
        mode="json", by_alias=True, exclude_unset=True, include=set(optional)
    )
    for name, value in dumped.items():
        entry = definition["properties"][name]
        entry.pop("default", None)
        if value is not None and not isinstance(value, dict):
            entry["default"] = value


def _accept_underscores(definition: dict[str, Any]) -> None:
    """The tier pairs may be written with an underscore as well."""
    properties = definition["properties"]
    for name in list(properties):
        properties[name.replace("-", "_")] = {**properties[name], "deprecated": True}
