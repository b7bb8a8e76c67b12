"""What a design says of congestion in one plane: scheme, thresholds of switches, habits of NICs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from railweave.design._values import (
    Duration,
    Fraction,
    Size,
    SpecModel,
    Truth,
    choose,
    is_mapping,
    is_number,
    is_text,
)
from railweave.formats.quantity import SizeBytes

__all__ = ["CongestionName", "CongestionProfile", "CongestionSpec", "EcnSpec", "WatchdogSpec"]


class CongestionProfile(StrEnum):
    """Published parameter sets of congestion control."""

    DCQCN_FIRMWARE = "dcqcn-firmware"
    DCQCN_PAPER = "dcqcn-paper"
    DCQCN_SIMULATOR = "dcqcn-simulator"
    RECEIVER_DRIVEN = "receiver-driven"
    HPCC = "hpcc"
    TIMELY = "timely"
    SWIFT = "swift"
    NSCC = "nscc"
    CUBIC = "cubic"
    DCTCP = "dctcp"
    IB_CC = "ib-cc"


class CongestionName(StrEnum):
    """Congestion scheme: which mechanisms hold the senders back. ``pfc+…`` is lossless."""

    NONE = "none"
    CREDITS = "credits"
    CREDITS_CC = "credits+cc"
    PFC = "pfc"
    DCQCN = "dcqcn"
    PFC_DCQCN = "pfc+dcqcn"
    RECEIVER_DRIVEN = "pfc+receiver-driven"
    HPCC = "hpcc"
    PFC_HPCC = "pfc+hpcc"
    TIMELY = "timely"
    PFC_TIMELY = "pfc+timely"
    SWIFT = "swift"
    PFC_SWIFT = "pfc+swift"
    NSCC = "nscc"
    CUBIC = "cubic"
    DCTCP = "dctcp"

    @property
    def pfc(self) -> bool:
        """Whether PFC guards the data's priority."""
        return self.value.split("+")[0] == "pfc"

    @property
    def control(self) -> str:
        """What the senders do beside it; empty where they do nothing."""
        name = self.value.split("+")[-1]
        return "" if name in {"none", "pfc", "credits"} else name

    @property
    def marks(self) -> bool:
        """Whether senders react to ECN marks; in other schemes switches do not mark."""
        return self.control in {"dcqcn", "dctcp", "nscc", "cc"}

    @property
    def notifies(self) -> bool:
        """Whether receivers tell of marks in packets of their own (CNP, or BECN on InfiniBand)."""
        return self.control in {"dcqcn", "cc"}

    @property
    def profiles(self) -> tuple[CongestionProfile, ...]:
        """Parameter sets of the senders' congestion control, the default first."""
        named = "ib-cc" if self.control == "cc" else self.control
        if named == "dcqcn":
            return tuple(p for p in CongestionProfile if p.value.startswith("dcqcn-"))
        return (CongestionProfile(named),) if named else ()


class EcnSpec(SpecModel):
    """Thresholds at which switches mark packets, by the length of the egress queue."""

    kmin: SizeBytes = Field(description="No marks below.")
    kmax: SizeBytes = Field(description="All packets are marked above.")
    pmax: Annotated[float, Field(gt=0.0, le=1.0, strict=True, allow_inf_nan=False)] = Field(
        1.0, description="Probability of a mark just below kmax."
    )
    weight: Annotated[Fraction, Field(lt=1.0)] = Field(
        0.0, description="Of the newest sample in the averaged queue; 0: the queue as it is."
    )


class WatchdogSpec(SpecModel):
    """PFC watchdog: what a switch does with a queue that stays paused. Defaults are SONiC's."""

    detect: Duration = Field(0.2, description="Paused for this long counts as a storm.")
    restore: Duration = Field(0.2, description="Without pauses for this long it is over.")
    poll: Duration = Field(0.2, description="Time between two looks.")
    action: Literal["drop", "forward"] = Field(
        "drop", description="What becomes of the queue's packets during a storm."
    )


EcnChoice: TypeAlias = Literal[
    "rule", "off", "cumulus", "cisco", "sonic", "tomahawk5", "juniper", "paper", "simulator"
]


def _starts_with_digit(value: object) -> bool:
    return isinstance(value, str) and value.strip()[:1].isdigit()


def _is_rule(value: object) -> bool:
    return value == "rule"


Alpha: TypeAlias = Annotated[float, Field(gt=0.0, le=128.0, strict=True, allow_inf_nan=False)]
Exponent: TypeAlias = Annotated[int, Field(ge=1, le=31, strict=True)]
Retries: TypeAlias = Annotated[int, Field(ge=0, le=7, strict=True)]
Packets: TypeAlias = Annotated[int, Field(ge=0, le=65_536, strict=True)]
AckPackets: TypeAlias = Annotated[int, Field(ge=1, le=1024, strict=True)]


class CongestionSpec(SpecModel):
    """Congestion of one plane. A plain string is short for the scheme alone."""

    scheme: CongestionName | None = Field(
        None, description="Default: credits, pfc+dcqcn or cubic, by transport."
    )
    profile: CongestionProfile | None = Field(
        None, description="Parameter set of the senders' congestion control; default: the scheme's."
    )
    classes: Literal["roce", "class-selector", "sonic-default"] = Field(
        "roce", description="How switches map DSCP to priority and queue (Ethernet)."
    )
    ecn: Annotated[
        EcnChoice | EcnSpec,
        choose(
            "rule, off, the name of a set of thresholds, or {kmin, kmax}",
            (is_text, EcnChoice),
            (is_mapping, EcnSpec),
        ),
    ] = Field("rule", description="When switches mark packets.")
    rtt: Duration = Field(8e-6, description="Round trip without queues, for ecn: rule.")
    headroom: Annotated[
        Literal["rule"] | Size,
        choose(
            "rule, or a size such as '280 KiB'",
            (_is_rule, Literal["rule"]),
            (_starts_with_digit, Size),
        ),
    ] = Field("rule", description="Room for what arrives after a pause, a lossless group and port.")
    pfc_threshold: Annotated[
        Alpha | Size,
        choose(
            "alpha, a number such as 1, or a size such as '1 MB'",
            (is_number, Alpha),
            (_starts_with_digit, Size),
        ),
    ] = Field(
        1.0, description="A lossless group pauses above alpha × free shared buffer, or this size."
    )
    xon_offset: Size | None = Field(
        None, description="How far below it a paused group resumes; default: the ASIC's, or 2 MTU."
    )
    watchdog: Annotated[
        Literal["off"] | WatchdogSpec,
        choose(
            "off, or {detect, restore, poll, action}",
            (is_text, Literal["off"]),
            (is_mapping, WatchdogSpec),
        ),
    ] = Field(WatchdogSpec(), description="PFC watchdog of the switches.")
    trimming: Truth = Field(
        False, description="Full queues pass on a packet's header instead of dropping all of it."
    )
    cut_through: Truth | None = Field(
        None, description="Switches send on before a packet is in; default: the ASIC's."
    )
    selective_repeat: Truth | None = Field(
        None, description="Senders repeat lost packets only; default: TCP and nscc."
    )
    reorder_packets: Packets | None = Field(
        None,
        description="How far a packet may be overtaken and not count as lost; default: 0 or 128.",
    )
    ack_every: AckPackets | None = Field(
        None, description="Packets for one ACK; default: 16, 2 on TCP, 1 where ACKs carry the rate."
    )
    cnp_interval: Duration | None = Field(
        None, description="Least time between two CNPs of a queue pair; default: the profile's."
    )
    timeout: Exponent = Field(20, description="Retry timer: 4.096 us × 2 to this power (verbs).")
    retries: Retries = Field(7, description="Retries before a message fails.")
    rnr_timer: Duration = Field(640e-6, description="Wait when the receiver is not ready.")
    rnr_retries: Retries = Field(7, description="Such waits before a message fails; 7: no end.")
    receive_buffer: Size | None = Field(
        None, description="Of a NIC's port; default: 2 MiB, or as much as a pause needs."
    )
