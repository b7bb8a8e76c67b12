"""The studio: the workbench in the browser. Nine labs over the public Python API."""

from railweave.studio.lab import Lab, Number, Reproduce, TraceRow
from railweave.studio.settings import StudioSettings

__all__ = ["Lab", "Number", "Reproduce", "StudioSettings", "TraceRow"]
