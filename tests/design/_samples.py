"""Designs that are right, used by several tests here."""

from __future__ import annotations

SUPERPOD = """\
railweave: 1
name: superpod-h100-4su
cluster:
  servers: {model: dgx-h100, count: 127}
planes:
  backend: {transport: infiniband, topology: rail-optimized, switch: qm9700, extra_hosts: {ufm: 4}}
  frontend:   {transport: ethernet, topology: leaf-spine, switch: sn4700, oversubscription: 2}
  storage:    {shares: frontend}
  management: {transport: ethernet, topology: star, speed: 1 Gb/s}
jobs:
  - {name: gradients, collective: all-reduce, size: 1 GiB, ranks: all, algorithm: ring}
"""

EVERYTHING = """\
railweave: 1
name: everything
description: Every form of every field that has more than one.
seed: 3
cluster:
  gpus: 96
  servers:
    - {model: dgx-h100, count: 4, name: old}
    - name: new
      inline: {gpus: 8, nics: 8, nic_speed: 400 Gb/s, scale_up_bandwidth: 450 GB/s, gpu: h200}
  servers_per_rack: 4
  racks: 5
  storage_servers: {count: 4, write_bandwidth: 10 GB/s}
planes:
  backend:
    transport: rocev2
    topology: rail-optimized
    switch: {leaf: sn5600, spine: {radix: 64, speed: 800 Gb/s, max_breakout: 2}}
    oversubscription: {leaf: "1.85:1", spine: 1}
    spare_ports: {leaf: 2}
    links_per_cable: {leaf-spine: 2}
    mtu: 4096 B
    routing: {scheme: e-ecmp, queue_pairs: 4, fields: [src-ip, dst-ip, dst-port]}
    congestion:
      profile: dcqcn-paper
      ecn: {kmin: 100 kB, kmax: 400 kB}
      headroom: 300 KiB
      pfc_threshold: 2
      watchdog: off
    isolation: vrf
    encryption: macsec
    encryption_required: true
  frontend: {transport: ethernet, switch: sn4700, routing: ecmp, spare_ports: 1, dual_tor: true}
  storage: {shares: frontend, isolation: vlan}
  management: {transport: tcp, topology: star, speed: 1 Gb/s}
jobs:
  - {name: sum, collective: all-reduce, size: 1 GiB, ranks: 4, placement: [0, 8, 16, 24]}
  - {name: train, model: llama3-8b, parallelism: {tensor: 8}, tenant: research}
background:
  - {name: web, load: 0.2, duration: 5 ms}
  - {name: copies, load: 0.1, sizes: 64 KiB, duration: 5 ms, plane: management}
storage_traffic:
  - {name: data, ingest: 1 GB/s, checkpoint_size: 1 TB}
stragglers:
  - {gpu: 5, delay: 10 us}
facility: {rack_power: 44 kW, cooling: liquid}
tenants:
  - {name: research, planes: [backend, storage]}
objectives: {survive_switches: 1, min_bandwidth: 0.7, availability: 0.999}
software: {nccl: 2.27.3, nos: SONiC}
services:
  - {kind: scheduler}
  - {kind: monitoring, instances: 2}
security:
  host_access: containers
  access_control: microsegmentation
  rkey_scope: job
  management_reachable_from: [frontend]
"""
