"""Records that the report's tests share; each is made once."""

from __future__ import annotations

import pytest

import railweave
from railweave.report.html import render_html
from railweave.report.record import RunRecord

RICH = """\
railweave: 1
name: <all of it> & more
description: Everything that a design may state.
seed: 3
cluster:
  servers: {model: hgx-h100-8gpu-roce, count: 4}
  storage_servers: {count: 2, write_bandwidth: 40 Gb/s}
planes:
  backend:
    transport: rocev2
    topology: rail-optimized
    switch: {radix: 16, speed: 400 Gb/s, power: 600 W}
    scalable_unit: 2
    mtu: 4096 B
    routing: {scheme: e-ecmp, queue_pairs: 4}
    isolation: vrf
  frontend:
    {transport: ethernet, topology: leaf-spine, switch: sn4700, encryption_required: true,
     encryption: macsec}
  storage: {shares: frontend}
  management: {transport: ethernet, topology: star, switch: sn2201, speed: 1 Gb/s}
jobs:
  - {name: gradients, collective: all-reduce, size: 16 MiB, tenant: research}
  - {name: training, model: llama3-8b, ranks: 16, parallelism: {tensor: 8}, tenant: product}
background: [{name: users, plane: frontend, load: 0.2, duration: 1 ms}]
storage_traffic: [{name: data, ingest: 1 GB/s, checkpoint_size: 8 GB, duration: 5 ms}]
stragglers: [{gpu: 5, delay: 7 us}]
facility: {rack_power: 41 kW, cooling: liquid, power: 2 MW}
tenants: [{name: research}, {name: product, planes: [backend, storage]}]
objectives: {survive_switches: 1, survive_links: 2, min_bandwidth: 0.6, availability: 0.999}
software: {firmware: "28.39", driver: "550.1", nccl: "2.27.3", nos: "Cumulus 5"}
services: [{kind: scheduler}, {kind: monitoring, instances: 2}]
"""


@pytest.fixture(scope="session")
def rich() -> RunRecord:
    return railweave.parse(RICH, "rich.yaml").build().run()


@pytest.fixture(scope="session")
def rich_page(rich: RunRecord) -> str:
    return render_html(rich)
