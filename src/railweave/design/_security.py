"""What a design says of who may do what: hosts, storage, RDMA memory, partitions, management."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railweave.design._values import SpecModel


class Security(SpecModel):
    """Who may reach what. A field that is left out is not stated: nothing is taken for met."""

    host_access: Literal["jobs", "containers", "virtual-machines", "bare-metal"] | None = Field(
        None,
        description="What users get of a server; virtual machines have virtual functions of the "
        "NICs, bare metal has root.",
    )
    host_hardening: Literal["none", "baseline", "verified"] | None = Field(
        None, description="Rules that hosts obey: none, a written baseline, or a verified one."
    )
    access_control: Literal["none", "host-firewall", "switch-acl", "microsegmentation"] | None = (
        Field(
            None,
            description="What decides who reaches whom: microsegmentation is rules for single "
            "hosts, kept outside of their operating system (NIC, DPU, switch port).",
        )
    )
    rkey_scope: Literal["connection", "job", "global"] | None = Field(
        None,
        description="What one rkey opens: memory for one connection, a job's registered memory, "
        "or all memory of the server.",
    )
    storage_access: Literal["open", "address", "authenticated"] | None = Field(
        None,
        description="Who may mount or read: everybody on the plane, a list of addresses, or who "
        "proves it.",
    )
    management_access: Literal["out-of-band", "in-band"] | None = Field(
        None, description="How switches and BMCs are reached: a network of their own, or not."
    )
    management_reachable_from: tuple[Literal["backend", "frontend", "storage"], ...] | None = Field(
        None,
        description="Planes with a way into management (route, jump host); [] means that there "
        "is none.",
    )
    default_partition: Literal["full", "limited"] | None = Field(
        None, description="Membership of hosts in InfiniBand's default partition, 0x7fff."
    )
    partition_enforcement: Literal["adapters", "switches"] | None = Field(
        None, description="What drops packets of foreign partitions: the adapters alone, or both."
    )
    subnet_keys: Literal["unset", "set"] | None = Field(
        None,
        description="Whether the subnet manager has set M_Key and SM_Key to values of its own.",
    )
