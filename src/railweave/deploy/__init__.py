"""Files that other systems are set up with: topology for schedulers."""

from railweave.deploy.schedulers import (
    SchedulerView,
    Unit,
    kueue_objects,
    node_labels,
    scheduler_view,
    slurm_block,
    slurm_tree,
    slurm_yaml,
)

__all__ = [
    "SchedulerView",
    "Unit",
    "kueue_objects",
    "node_labels",
    "scheduler_view",
    "slurm_block",
    "slurm_tree",
    "slurm_yaml",
]
