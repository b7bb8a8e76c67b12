"""What a job will do on a fabric: collective choice and time, training steps, plans, neighbours."""

from railweave.predict.calibration import calibrate_with, fit, leave_one_system_out, validate
from railweave.predict.collective import (
    Calibration,
    CollectiveChoice,
    ExpectedBusbw,
    NcclAlgorithm,
    NcclProtocol,
    NetworkPart,
    OptionTime,
    choose,
    collective_time_s,
    collective_times_s,
    expected_busbw,
)
from railweave.predict.interference import Interference, compare_placements
from railweave.predict.memory import memory_use, nearest_fit
from railweave.predict.network_part import MeasuredNetwork, measure_network
from railweave.predict.plan import PlanSearch, nearest_plans, refine, search_plans
from railweave.predict.scaling import ScalingCurve, scaling_curve
from railweave.predict.step import (
    Precision,
    Recompute,
    StepEstimate,
    TrainingPlan,
    estimate_step,
    plan_problems,
)
from railweave.predict.system import CollectiveSystem, NetworkClass, system_of
from railweave.predict.timeline import Timeline, step_timeline
from railweave.predict.training_costs import (
    CommunicationCosts,
    costs_of_system,
    costs_on_fabric,
)

__all__ = [
    "Calibration",
    "CollectiveChoice",
    "CollectiveSystem",
    "CommunicationCosts",
    "ExpectedBusbw",
    "Interference",
    "MeasuredNetwork",
    "NcclAlgorithm",
    "NcclProtocol",
    "NetworkClass",
    "NetworkPart",
    "OptionTime",
    "PlanSearch",
    "Precision",
    "Recompute",
    "ScalingCurve",
    "StepEstimate",
    "Timeline",
    "TrainingPlan",
    "calibrate_with",
    "choose",
    "collective_time_s",
    "collective_times_s",
    "compare_placements",
    "costs_of_system",
    "costs_on_fabric",
    "estimate_step",
    "expected_busbw",
    "fit",
    "leave_one_system_out",
    "measure_network",
    "memory_use",
    "nearest_fit",
    "nearest_plans",
    "plan_problems",
    "refine",
    "scaling_curve",
    "search_plans",
    "step_timeline",
    "system_of",
    "validate",
]
