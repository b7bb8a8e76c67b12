"""Experiments: small canonical runs of the packet engine, each with a claim and its numbers."""

from railweave.experiments._model import Chart, Experiment, Outcome

__all__ = ["Chart", "Experiment", "Outcome"]
