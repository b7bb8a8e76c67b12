"""What the fields of jobs, traffic and surroundings do."""

from __future__ import annotations

from _effect import ALL_PLANES, DROP, HOT_RACK, JOB, Effect, choices, other

_JOBS = [
    Effect("Job.name", "roce", {f"{JOB}.name": "gradients"}, "labels"),
    Effect("Job.collective", "roce", {f"{JOB}.collective": "all-gather"}, "traffic"),
    *choices(
        "Job.collective",
        "roce",
        f"{JOB}.collective",
        "traffic",
        {
            "all-reduce": "all-gather",
            "all-gather": "all-reduce",
            "reduce-scatter": "broadcast",
            "broadcast": "reduce",
            "reduce": "all-to-all",
            "all-to-all": "send-recv",
            "send-recv": "all-reduce",
        },
    ),
    Effect("Job.size", "roce", {f"{JOB}.size": "32 MiB"}, "time"),
    Effect("Job.algorithm", "roce", {f"{JOB}.algorithm": "tree"}, "traffic"),
    *choices(
        "Job.algorithm",
        "roce",
        f"{JOB}.algorithm",
        "traffic",
        other(("ring", "tree", "halving-doubling", "hierarchical")),
    ),
    *choices(
        "Job.algorithm", "pairs", f"{JOB}.algorithm", "traffic", other(("direct", "rail-aligned"))
    ),
    Effect("Job.channels", "roce", {f"{JOB}.channels": 1}, "traffic"),
    Effect("Job.iterations", "roce", {f"{JOB}.iterations": 3}, "time"),
    Effect("Job.model", "training", {f"{JOB}.model": "llama3-70b"}, "time"),
    Effect("Job.parallelism", "training", {f"{JOB}.parallelism": DROP}, "traffic"),
    Effect("Parallelism.data", "training", {f"{JOB}.parallelism.data": 4}, "accepts"),
    Effect("Parallelism.tensor", "training", {f"{JOB}.parallelism.tensor": 2}, "traffic"),
    Effect("Parallelism.pipeline", "training", {f"{JOB}.parallelism.pipeline": 4}, "traffic"),
    Effect(
        "Parallelism.expert",
        "training",
        {f"{JOB}.parallelism.expert": 4},
        "traffic",
        {f"{JOB}.model": "mixtral-8x7b"},
    ),
    Effect("Parallelism.context", "training", {f"{JOB}.parallelism.context": 2}, "traffic"),
    Effect("Job.sequence", "training", {f"{JOB}.sequence": 4096}, "traffic"),
    Effect("Job.zero", "training", {f"{JOB}.zero": 3}, "traffic"),
    Effect("Job.interleave", "training", {f"{JOB}.interleave": 4}, "traffic"),
    Effect("Job.sequence_parallel", "training", {f"{JOB}.sequence_parallel": False}, "time"),
    *choices(
        "Job.sequence_parallel",
        "training",
        f"{JOB}.sequence_parallel",
        "time",
        {"true": False, "false": True},
    ),
    Effect("Job.precision", "training", {f"{JOB}.precision": "fp8"}, "time"),
    *choices("Job.precision", "training", f"{JOB}.precision", "time", other(("bf16", "fp8"))),
    Effect("Job.recompute", "training", {f"{JOB}.recompute": "full"}, "traffic"),
    *choices(
        "Job.recompute",
        "training",
        f"{JOB}.recompute",
        "traffic",
        {"none": "full", "selective": "full", "full": "none"},
    ),
    Effect("Job.micro_batches", "training", {f"{JOB}.micro_batches": 4}, "time"),
    Effect("Job.micro_batch", "training", {f"{JOB}.micro_batch": 2}, "time"),
    Effect("Job.ranks", "roce", {f"{JOB}.ranks": 32}, "traffic"),
    Effect(
        "Job.placement",
        "roce",
        {f"{JOB}.placement": list(range(8, 24))},
        "traffic",
        {f"{JOB}.ranks": 16},
    ),
    *choices(
        "Job.placement",
        "roce",
        f"{JOB}.placement",
        "traffic",
        {
            "packed": "spread",
            "spread": "packed",
            "rail-aligned": "packed",
            "random": "packed",
            "fragments": "spread",
            "optimized": "spread",
        },
        before={f"{JOB}.ranks": 16, f"{JOB}.collective": "send-recv"},
    ),
    Effect("Job.start", "roce", {f"{JOB}.start": "3 ms"}, "time"),
    Effect("Job.tenant", "tenants", {f"{JOB}.tenant": "green"}, "findings"),
]

_OTHER = [
    Effect("BackgroundTraffic.name", "frontend", {"background.0.name": "users"}, "labels"),
    Effect("BackgroundTraffic.plane", "four-planes", {"background.0.plane": "backend"}, "time"),
    *choices(
        "BackgroundTraffic.plane", "four-planes", "background.0.plane", "time", other(ALL_PLANES)
    ),
    Effect("BackgroundTraffic.load", "frontend", {"background.0.load": 0.6}, "traffic"),
    Effect("BackgroundTraffic.sizes", "frontend", {"background.0.sizes": "64 KiB"}, "traffic"),
    *choices(
        "BackgroundTraffic.sizes",
        "frontend",
        "background.0.sizes",
        "traffic",
        other(("web-search", "data-mining")),
    ),
    Effect("BackgroundTraffic.duration", "frontend", {"background.0.duration": "4 ms"}, "traffic"),
    Effect("BackgroundTraffic.start", "frontend", {"background.0.start": "5 ms"}, "traffic"),
    Effect("StorageTraffic.name", "four-planes", {"storage_traffic.0.name": "lake"}, "labels"),
    Effect(
        "StorageTraffic.ingest", "four-planes", {"storage_traffic.0.ingest": "2 GB/s"}, "traffic"
    ),
    Effect(
        "StorageTraffic.checkpoint_size",
        "four-planes",
        {"storage_traffic.0.checkpoint_size": "2 GB"},
        "traffic",
    ),
    Effect(
        "StorageTraffic.checkpoint_period",
        "four-planes",
        {"storage_traffic.0.checkpoint_period": "10 ms"},
        "storage",
    ),
    Effect("StorageTraffic.start", "four-planes", {"storage_traffic.0.start": "1 ms"}, "traffic"),
    Effect(
        "StorageTraffic.duration", "four-planes", {"storage_traffic.0.duration": "10 ms"}, "traffic"
    ),
    Effect(
        "Straggler.gpu",
        "roce",
        {"stragglers.0.gpu": 5},
        "traffic",
        {"stragglers": [{"gpu": 3, "delay": "1 ms"}]},
    ),
    Effect(
        "Straggler.delay",
        "roce",
        {"stragglers.0.delay": "2 ms"},
        "time",
        {"stragglers": [{"gpu": 3, "delay": "1 ms"}]},
    ),
    Effect("Facility.rack_power", "roce", {"facility.rack_power": "9 kW"}, "findings"),
    Effect("Facility.cooling", "roce", {"facility.cooling": "liquid"}, "findings", HOT_RACK),
    *choices(
        "Facility.cooling",
        "roce",
        "facility.cooling",
        "findings",
        other(("air", "liquid")),
        before=HOT_RACK,
    ),
    Effect("Facility.racks_per_row", "roce", {"facility.racks_per_row": 2}, "lengths"),
    Effect("Facility.rack_pitch", "roce", {"facility.rack_pitch": "1.2 m"}, "lengths"),
    Effect(
        "Facility.row_pitch",
        "roce",
        {"facility.row_pitch": "6 m"},
        "lengths",
        {"facility.racks_per_row": 2},
    ),
    Effect("Facility.cable_slack", "roce", {"facility.cable_slack": "5 m"}, "lengths"),
    Effect("Facility.power", "roce", {"facility.power": "1 kW"}, "findings"),
    Effect("Tenant.name", "tenants", {"tenants.1.name": "red"}, "findings"),
    Effect("Tenant.planes", "tenants", {"tenants.1.planes": ["frontend"]}, "findings"),
    *(
        Effect(
            f"Tenant.planes={name}",
            "tenants",
            {"tenants.0.planes": [name], "tenants.1.planes": [name]},
            "findings",
            {"tenants.0.planes": [other], "tenants.1.planes": [other]},
        )
        for name, other in other(ALL_PLANES).items()
    ),
    Effect(
        "Objectives.survive_switches",
        "roce",
        {"objectives.survive_switches": 1},
        "findings",
        {"objectives.min_bandwidth": 1.0},
    ),
    Effect(
        "Objectives.survive_links",
        "roce",
        {"objectives.survive_links": 1},
        "findings",
        {"objectives.min_bandwidth": 1.0},
    ),
    Effect(
        "Objectives.min_bandwidth",
        "roce",
        {"objectives.min_bandwidth": 1.0},
        "findings",
        {"objectives.survive_switches": 1},
    ),
    Effect("Objectives.availability", "roce", {"objectives.availability": 1.0}, "findings"),
    Effect(
        "Software.firmware",
        "catalog",
        {"software.firmware": "32.41.1000"},
        "findings",
        {"software.firmware": "28.39.1002"},
    ),
    Effect(
        "Software.driver",
        "catalog",
        {"software.driver": "550.54"},
        "findings",
        {"cluster.servers.model": "dgx-b200", "software.driver": "580.65"},
    ),
    Effect("Software.nccl", "roce", {"software.nccl": "2.10.3"}, "findings"),
    Effect("Software.nos", "catalog", {"software.nos": "EOS"}, "findings"),
    Effect(
        "Service.kind",
        "infiniband",
        {"services.0.kind": "monitoring"},
        "findings",
        {"services": [{"kind": "scheduler", "plane": "backend"}]},
    ),
    *choices(
        "Service.kind",
        "infiniband",
        "services.0.kind",
        "findings",
        other(("scheduler", "monitoring", "subnet-manager")),
        before={"services": [{"kind": "scheduler", "plane": "backend"}]},
    ),
    Effect(
        "Service.plane",
        "four-planes",
        {"services.0.plane": "backend"},
        "findings",
        {"services": [{"kind": "scheduler", "plane": "management"}]},
    ),
    *choices(
        "Service.plane",
        "four-planes",
        "services.0.plane",
        "findings",
        other(ALL_PLANES),
        before={"services": [{"kind": "scheduler"}]},
    ),
    Effect(
        "Service.instances",
        "infiniband",
        {"services.0.instances": 2},
        "findings",
        {"services": [{"kind": "subnet-manager", "plane": "backend", "instances": 1}]},
    ),
]

#: all entries of this file
WORK_EFFECTS = (
    *_JOBS,
    *_OTHER,
)
