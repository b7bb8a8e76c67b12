// What a packet simulation has written down, as columns.
#pragma once
#include <nanobind/nanobind.h>

#include "pkt_sim.hpp"

namespace railweave {
nanobind::dict read_port_samples(const pkt::Sim& s);
nanobind::dict read_flow_samples(const pkt::Sim& s);
nanobind::dict read_pauses(const pkt::Sim& s);
nanobind::dict read_trace(const pkt::Sim& s);
nanobind::dict read_port_counters(const pkt::Sim& s);
nanobind::dict read_pause_counters(const pkt::Sim& s);
nanobind::dict read_flow_counters(const pkt::Sim& s);
nanobind::dict read_ledger(const pkt::Sim& s);
nanobind::dict read_queue_counters(const pkt::Sim& s);
nanobind::dict read_group_counters(const pkt::Sim& s);
nanobind::dict read_switch_counters(const pkt::Sim& s);
nanobind::dict read_pipe_counters(const pkt::Sim& s);
void bind_packet_names(nanobind::module_& m);
}  // namespace railweave
