"""The lossless intent in one place: classes, PFC, ECN, headroom, thresholds, congestion control."""

from railweave.qos._algorithms import (
    PROFILE_NAMES,
    CongestionControl,
    Dcqcn,
    ReceiverDriven,
    algorithm,
)
from railweave.qos._asics import ASICS, PAUSE_QUANTA, Asic, asic_named, asic_of
from railweave.qos._classes import (
    CLASSES,
    CNP_DSCP,
    ROCE_DSCP,
    TrafficClasses,
    class_findings,
    classes_named,
)
from railweave.qos._ecn import (
    DEFAULT_RTT_S,
    ECN_PROFILES,
    EcnProfile,
    EcnThresholds,
    ecn_ceiling_bytes,
    ecn_profile,
    ecn_rule,
)
from railweave.qos._findings import switch_findings
from railweave.qos._headroom import DEFAULT_MTU_BYTES, Headroom, headroom
from railweave.qos._nic import NicQos, Retry, nic_qos
from railweave.qos._policies import EcnOfPort, HeadroomOfPort, PauseResponse, PortCounts
from railweave.qos._switch import SwitchQos, Watchdog, classes_of, scheme_of, switch_qos

__all__ = [
    "ASICS",
    "CLASSES",
    "CNP_DSCP",
    "DEFAULT_MTU_BYTES",
    "DEFAULT_RTT_S",
    "ECN_PROFILES",
    "PAUSE_QUANTA",
    "PROFILE_NAMES",
    "ROCE_DSCP",
    "Asic",
    "CongestionControl",
    "Dcqcn",
    "EcnOfPort",
    "EcnProfile",
    "EcnThresholds",
    "Headroom",
    "HeadroomOfPort",
    "NicQos",
    "PauseResponse",
    "PortCounts",
    "ReceiverDriven",
    "Retry",
    "SwitchQos",
    "TrafficClasses",
    "Watchdog",
    "algorithm",
    "asic_named",
    "asic_of",
    "class_findings",
    "classes_named",
    "classes_of",
    "ecn_ceiling_bytes",
    "ecn_profile",
    "ecn_rule",
    "headroom",
    "nic_qos",
    "scheme_of",
    "switch_findings",
    "switch_qos",
]
