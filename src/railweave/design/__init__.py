"""The declarative spec: models, loading, checks of meaning, JSON Schema, defaults."""

from railweave.design.defaults import resolved, resolved_yaml, worked_out
from railweave.design.loading import LoadedDesign, load_design, named_files, parse_design
from railweave.design.models import Design
from railweave.design.schema import design_schema

__all__ = [
    "Design",
    "LoadedDesign",
    "design_schema",
    "load_design",
    "named_files",
    "parse_design",
    "resolved",
    "resolved_yaml",
    "worked_out",
]
