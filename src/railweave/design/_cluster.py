"""What a design says of its servers and how they stand in racks."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from railweave.design._values import (
    Also,
    Few,
    FewOrNone,
    Positive,
    Power,
    Some,
    SpecModel,
    Speed,
    Text,
    not_empty,
    one_or_many,
)


class InlineServer(SpecModel):
    """A server described in the design itself, where the catalog has none like it."""

    gpus: Few = Field(description="GPUs in one server.")
    gpu: Text = Field("h100", description="Catalog name of the GPU: power, FLOP/s, memory.")
    scale_up_bandwidth: Speed | None = Field(
        None, description="NVLink/xGMI bandwidth of one GPU, one way; none means PCIe only."
    )
    nics: FewOrNone = Field(description="Back-end NICs in one server.")
    nic_speed: Speed = Field(description="Speed of one back-end NIC, all its ports together.")
    pcie_bandwidth: Speed | None = Field(
        None, description="Usable PCIe bandwidth between a GPU and its NIC, one way."
    )
    frontend_nics: Annotated[int, Field(ge=0, le=1024, strict=True)] = Field(
        2, description="Front-end ports in one server."
    )
    frontend_speed: Speed = Field(200e9, description="Speed of one front-end port.")
    power: Power = Field(10_200.0, description="Highest power draw of one server.")


class ServerGroup(SpecModel):
    """Servers of one kind."""

    model: Text | None = Field(None, description="Catalog name of the server.")
    inline: InlineServer | None = Field(None, description="A server described here instead.")
    count: Positive | None = Field(
        None, description="How many; left out where the cluster states its GPUs instead."
    )
    nics: Few | None = Field(None, description="Back-end NICs used, where not all are.")
    nic_speed: Speed | None = Field(None, description="Back-end NIC speed, where it differs.")
    name: str = Field(
        "node",
        pattern=r"^[a-z][a-z0-9-]*$",
        max_length=32,
        description="Prefix of their names; groups in a list need different ones.",
    )


class StorageServers(SpecModel):
    """Servers that hold datasets and checkpoints; they attach to the storage plane."""

    count: Some = Field(description="How many storage servers.")
    ports: Few = Field(2, description="Ports of each into the storage plane.")
    speed: Speed = Field(200e9, description="Speed of one such port.")
    write_bandwidth: Speed | None = Field(
        None, description="What one storage server can write; none means its ports bind."
    )
    read_bandwidth: Speed | None = Field(
        None, description="What one storage server can read; none means its ports bind."
    )


class Cluster(SpecModel):
    """The servers and how they stand in racks."""

    servers: Annotated[
        tuple[ServerGroup, ...],
        AfterValidator(not_empty),
        BeforeValidator(one_or_many),
        Also({"definition": "ServerGroup"}),
    ] = Field(description="One group, or a list of groups.")
    gpus: Positive | None = Field(
        None, description="Requirement: GPUs wanted; railweave works out how many servers."
    )
    servers_per_rack: Positive | None = Field(None, description="Servers in one rack.")
    racks: Positive | None = Field(None, description="Racks there are; checked against the need.")
    storage_servers: StorageServers | None = Field(None, description="Storage servers, if any.")
