"""Jobs to traffic: placement, groups, collectives, storage and background flows."""

from railweave.workload._builder import TrafficBuilder, merge_traffic
from railweave.workload._communicator import Communicator
from railweave.workload._traffic import DELIVERED, SENT, Traffic
from railweave.workload.background import (
    SIZE_TABLES,
    SizeTable,
    background_traffic,
    poisson_flows,
)
from railweave.workload.by_plane import PlaneBytes, bytes_by_plane
from railweave.workload.collectives import (
    CollectiveOptions,
    append_collective,
    collective_traffic,
    default_algorithm,
    require_algorithm,
)
from railweave.workload.groups import (
    ByteShares,
    Degrees,
    GroupKind,
    byte_shares,
    message_reach,
    parallel_groups,
    resolve_degrees,
)
from railweave.workload.jobs import (
    JobPlan,
    Workload,
    design_workload,
    group_shares,
    job_sends,
    job_traffic,
    network_plane,
    place_jobs,
    plan_job,
    with_stragglers,
)
from railweave.workload.placement import (
    LeafGroups,
    OptimizedPlacement,
    leaf_groups,
    optimized_placement,
    place,
)
from railweave.workload.storage import (
    CheckpointCost,
    burst_times,
    checkpoint_cost,
    ingest_rate_bps,
    storage_traffic,
    write_floor_s,
)
from railweave.workload.training import StepVolume, TrainingStep, append_step, step_volume
from railweave.workload.volume import (
    CollectiveVolume,
    bus_factor,
    collective_volume,
    minimum_bytes,
)

__all__ = [
    "DELIVERED",
    "SENT",
    "SIZE_TABLES",
    "ByteShares",
    "CheckpointCost",
    "CollectiveOptions",
    "CollectiveVolume",
    "Communicator",
    "Degrees",
    "GroupKind",
    "JobPlan",
    "LeafGroups",
    "OptimizedPlacement",
    "PlaneBytes",
    "SizeTable",
    "StepVolume",
    "Traffic",
    "TrafficBuilder",
    "TrainingStep",
    "Workload",
    "append_collective",
    "append_step",
    "background_traffic",
    "burst_times",
    "bus_factor",
    "byte_shares",
    "bytes_by_plane",
    "checkpoint_cost",
    "collective_traffic",
    "collective_volume",
    "default_algorithm",
    "design_workload",
    "group_shares",
    "ingest_rate_bps",
    "job_sends",
    "job_traffic",
    "leaf_groups",
    "merge_traffic",
    "message_reach",
    "minimum_bytes",
    "network_plane",
    "optimized_placement",
    "parallel_groups",
    "place",
    "place_jobs",
    "plan_job",
    "poisson_flows",
    "require_algorithm",
    "resolve_degrees",
    "step_volume",
    "storage_traffic",
    "with_stragglers",
    "write_floor_s",
]
