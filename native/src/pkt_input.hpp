// What a run of the packet engine is told: links, queue pairs, tasks, faults, options.
#pragma once
#include <cstdint>
#include <vector>

#include "pkt_types.hpp"

namespace railweave::pkt {

// Everything a run is told, one entry a link, flow, stream or task; see bind_packet.cpp.
struct LinkInput {
  std::vector<std::uint32_t> source, target;      // node
  std::vector<std::uint64_t> rate_kbps;           // 0: down
  std::vector<Ps> delay_ps;                       // propagation and the head's forwarding latency
  std::vector<Ps> propagation_ps, response_ps;    // response: its source obeys a pause so late
  std::vector<std::uint32_t> headroom_bytes, kmin_bytes, kmax_bytes;
  std::vector<std::uint8_t> pause_mask;           // priorities its destination may pause
  std::vector<std::uint32_t> credit_bytes;        // of each virtual lane at its destination
};

struct FlowInput {
  std::vector<std::uint32_t> stream, nic;         // settings' number
  std::vector<std::uint64_t> path_ptr;            // into path_link: network links only, in order
  std::vector<std::uint32_t> path_link;
  std::vector<std::uint64_t> message_bytes;       // payload of one chunk's share
  std::vector<std::uint32_t> payload_bytes, overhead_bytes;  // of a full packet
  std::vector<std::uint32_t> tx_pipe, rx_pipe;
  std::vector<Ps> rx_latency_ps;                  // between memory and NIC, of both ends
  std::vector<double> line_rate_Bps, base_rtt_ps;
  std::vector<std::uint8_t> choice;
  std::vector<std::uint32_t> source_nic, target_nic, table;  // where paths are chosen on the way
  std::vector<std::uint32_t> entropy;
};

struct TaskInput {
  std::vector<std::uint64_t> task_stream;
  std::vector<std::uint32_t> rounds;
  std::vector<Ps> start_ps, delay_ps, chunk_delay_ps;  // the last by stream
  std::vector<std::uint64_t> dep_ptr;
  std::vector<std::uint32_t> dep_task;
  std::vector<std::uint8_t> dep_kind;             // 0 delivered, 1 sent
  std::vector<std::uint64_t> pred_ptr;
  std::vector<std::uint32_t> pred_stream, pred_lag;
};

enum class FaultKind : std::uint8_t {
  link_down,      // index: link (both directions)
  link_up,
  link_rate,      // index: link (this direction), value: kb/s
  link_loss,      // index: link (this direction), value: chance × 2^32 that a packet is lost
  switch_config,  // index: node, value: number of the settings
  pause_mask,     // index: link whose destination's pauses change, value: mask
  reroute,        // index: epoch of paths and tables that now hold
  freeze,         // index: receiving pipe, value 1: stuck, 0: goes on
  pipe_rate,      // index: pipe, value: kb/s
  nic_config,     // index: flow, value: number of the settings
  not_ready,      // index: flow, value 1: no receive is posted, 0: posted
  chunk_delay,    // index: stream, value: picoseconds
  flush,          // index: node, all that waits in its queues is lost (a reboot)
  kinds
};
struct Fault {
  Ps time_ps;
  FaultKind kind;
  std::uint32_t index;
  std::uint64_t value;
};

// What a reroute replaces: flows and their new paths; tables by which paths are chosen on the way.
struct Epoch {
  std::vector<std::uint32_t> flow;
  std::vector<std::uint64_t> path_ptr;
  std::vector<std::uint32_t> path_link;
  std::vector<std::uint32_t> table_from, table_to;  // flows given the one now use the other
};

struct Options {
  std::uint64_t seed = 0;
  Ps flowlet_gap_ps = 0;
  std::uint32_t spray_paths = 0;  // different entropies a flow uses; 0: any
  Ps stuck_ps = 0;                // nothing moved for so long and ports are paused: deadlock
};

}  // namespace railweave::pkt
