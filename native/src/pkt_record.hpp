// What a run writes down as it goes: sampled series, pauses with their length, an event trace.
#pragma once
#include <cstdint>
#include <vector>

namespace railweave::pkt {

struct WatchList {
  std::uint64_t period_ps = 0;              // 0: no samples
  std::vector<std::uint32_t> link;          // ports to sample
  std::vector<std::uint32_t> flow;          // queue pairs to sample
  std::uint32_t trace_limit = 0;            // most trace entries
  std::uint32_t trace_kinds = 0xFFFFFFFFU;  // a bit for each kind that is traced
};

enum class Trace : std::uint8_t {
  pause_on, pause_off, mark, cnp_sent, cnp_handled, drop, nak, timeout, retransmit, fault,
  watchdog, message_posted, message_done, failed, trimmed, kinds
};

struct TraceEntry {
  std::uint64_t time_ps;
  Trace kind;
  std::uint8_t priority;
  std::uint32_t link;   // kNone where it has none
  std::uint32_t flow;
  std::uint32_t value;
};

struct PauseEntry {  // of a port, as its source felt it
  std::uint64_t from_ps, until_ps;  // until: the end of the run where still in force
  std::uint32_t link;
  std::uint8_t priority;
};

struct PortSample {
  std::uint64_t time_ps;
  std::uint32_t link, queue_bytes, group_bytes, headroom_bytes, shared_bytes;  // all priorities
  std::uint64_t tx_bytes, marked, dropped;
  std::uint8_t paused;  // mask
};

struct FlowSample {
  std::uint64_t time_ps;
  std::uint32_t flow;
  double rate_Bps, window_bytes, in_flight_bytes;
  std::uint32_t acked, next;
};

struct PortCounters {  // cold ones, by link; [priority]
  std::uint32_t pauses_sent[8] = {}, resumes_sent[8] = {};  // by the link's destination
  std::uint64_t paused_ps[8] = {};                          // felt by the link's source
  std::uint32_t pauses_felt[8] = {};
  std::uint64_t paused_since[8] = {};
  std::uint32_t storms[8] = {}, restores[8] = {};
  std::uint32_t dropped[16] = {};                           // by reason
  std::uint32_t downs = 0;                                  // times the link went down
  std::uint64_t pause_due_ps[8] = {};   // when the last pause frame sent takes effect
  std::uint64_t resumed_ps[8] = {};     // when the source last went on
  std::uint8_t watch_pending[8] = {};   // a watchdog event waits
  std::uint64_t wait_ps[8] = {};        // something to send and no credit (PortXmitWait)
  std::uint64_t starved_since[8] = {};
};

struct FlowCounters {
  std::uint32_t cnp_sent = 0, cnp_handled = 0, cnp_ignored = 0, marked = 0;
  std::uint32_t naks_sent = 0, naks_received = 0, timeouts = 0, retransmitted = 0;
  std::uint32_t out_of_order = 0, duplicates = 0, rnr_naks = 0, acks_sent = 0, trimmed = 0;
  std::uint32_t sent = 0, discarded = 0;
  std::uint64_t sent_bytes = 0;
};

struct Record {
  WatchList watched;
  std::vector<PortSample> port_samples;
  std::vector<FlowSample> flow_samples;
  std::vector<PauseEntry> pauses;
  std::vector<TraceEntry> trace;
  std::vector<PortCounters> ports;
  std::vector<FlowCounters> flows;
  std::uint64_t trace_lost = 0;

  void note(std::uint64_t time, Trace kind, int priority, std::uint32_t link, std::uint32_t flow,
            std::uint32_t value = 0) {
    if (watched.trace_limit == 0 || ((watched.trace_kinds >> static_cast<int>(kind)) & 1) == 0) return;
    if (trace.size() >= watched.trace_limit) {
      ++trace_lost;
      return;
    }
    trace.push_back({time, kind, static_cast<std::uint8_t>(priority), link, flow, value});
  }
};

}  // namespace railweave::pkt
