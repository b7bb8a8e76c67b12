// Reading side of the packet engine: every table is a dictionary of NumPy columns of one length.
#include "bind_packet_read.hpp"

#include <nanobind/ndarray.h>

#include <string>
#include <type_traits>
#include <vector>

namespace nb = nanobind;

namespace railweave {
namespace {
using namespace pkt;
using U8 = std::uint8_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

constexpr const char* kDropNames[] = {
    "no_buffer", "headroom", "link_down", "corrupt", "mtu", "watchdog", "no_route", "trimmed",
    "rx_overflow", "reboot", "out_of_order", "duplicate", "late", "not_ready"};
static_assert(std::size(kDropNames) == kDropKinds);
static_assert(kDropKinds <= std::extent_v<decltype(PortCounters::dropped)>);

constexpr const char* kTraceNames[] = {
    "pause_on", "pause_off", "mark", "cnp_sent", "cnp_handled", "drop", "nak", "timeout",
    "retransmit", "fault", "watchdog", "message_posted", "message_done", "failed", "trimmed"};
static_assert(std::size(kTraceNames) == static_cast<std::size_t>(Trace::kinds));

constexpr const char* kFaultNames[] = {
    "link_down", "link_up", "link_rate", "link_loss", "switch_config", "pause_mask", "reroute",
    "freeze", "pipe_rate", "nic_config", "not_ready", "chunk_delay", "flush"};
static_assert(std::size(kFaultNames) == static_cast<std::size_t>(FaultKind::kinds));

constexpr const char* kChoiceNames[] = {"path", "spray_random", "spray_round_robin",
                                        "recycle", "flowlet", "adaptive"};

class Table {
 public:
  explicit Table(std::size_t rows) : rows_(rows) {}

  // Adds a column whose entry i is value(i).
  template <class T, class F>
  Table& add(const std::string& name, F value) {
    auto* keep = new std::vector<T>(rows_);
    nb::capsule owner(keep, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    for (std::size_t i = 0; i < rows_; ++i) (*keep)[i] = static_cast<T>(value(i));
    columns_[name.c_str()] = nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(keep->data(), {rows_}, owner));
    return *this;
  }
  nb::dict columns() const { return columns_; }

 private:
  std::size_t rows_;
  nb::dict columns_;
};

U32 cell_at_head(const Sim& s, U32 link) {
  const U32 sw = s.ports[link].head_switch;
  return sw == kNone ? 0 : s.config_of(sw).cell_bytes;
}

nb::tuple names(const char* const* first, std::size_t n) {
  nb::list all;
  for (std::size_t i = 0; i < n; ++i) all.append(first[i]);
  return nb::tuple(all);
}
}  // namespace

nb::dict read_port_samples(const Sim& s) {
  const auto& r = s.record.port_samples;
  return Table(r.size())
      .add<double>("time_s", [&](auto i) { return to_seconds(r[i].time_ps); })
      .add<U32>("link", [&](auto i) { return r[i].link; })
      .add<U32>("queue_bytes", [&](auto i) { return r[i].queue_bytes; })
      .add<U32>("group_bytes", [&](auto i) { return r[i].group_bytes; })
      .add<U32>("headroom_bytes", [&](auto i) { return r[i].headroom_bytes; })
      .add<U32>("shared_bytes", [&](auto i) { return r[i].shared_bytes; })
      .add<U64>("tx_bytes", [&](auto i) { return r[i].tx_bytes; })
      .add<U64>("marked", [&](auto i) { return r[i].marked; })
      .add<U64>("dropped", [&](auto i) { return r[i].dropped; })
      .add<U8>("paused", [&](auto i) { return r[i].paused; })
      .columns();
}

nb::dict read_flow_samples(const Sim& s) {
  const auto& r = s.record.flow_samples;
  return Table(r.size())
      .add<double>("time_s", [&](auto i) { return to_seconds(r[i].time_ps); })
      .add<U32>("flow", [&](auto i) { return r[i].flow; })
      .add<double>("rate_Bps", [&](auto i) { return r[i].rate_Bps; })
      .add<double>("window_bytes", [&](auto i) { return r[i].window_bytes; })
      .add<double>("in_flight_bytes", [&](auto i) { return r[i].in_flight_bytes; })
      .add<U32>("acked_packets", [&](auto i) { return r[i].acked; })
      .add<U32>("next_packet", [&](auto i) { return r[i].next; })
      .columns();
}

// Those over, and those still in force, which end now.
nb::dict read_pauses(const Sim& s) {
  std::vector<PauseEntry> r = s.record.pauses;
  for (U32 l = 0; l < s.ports.size(); ++l)
    for (int q = 0; q < kPriorities; ++q)
      if ((s.ports[l].paused >> q) & 1)
        r.push_back({s.record.ports[l].paused_since[q], s.now(), l, static_cast<U8>(q)});
  const std::size_t over = s.record.pauses.size();
  return Table(r.size())
      .add<double>("from_s", [&](auto i) { return to_seconds(r[i].from_ps); })
      .add<double>("until_s", [&](auto i) { return to_seconds(r[i].until_ps); })
      .add<U32>("link", [&](auto i) { return r[i].link; })
      .add<U8>("priority", [&](auto i) { return r[i].priority; })
      .add<U8>("in_force", [&](auto i) { return i >= over; })
      .columns();
}

nb::dict read_trace(const Sim& s) {
  const auto& r = s.record.trace;
  return Table(r.size())
      .add<double>("time_s", [&](auto i) { return to_seconds(r[i].time_ps); })
      .add<U8>("kind", [&](auto i) { return r[i].kind; })
      .add<U8>("priority", [&](auto i) { return r[i].priority; })
      .add<U32>("link", [&](auto i) { return r[i].link; })
      .add<U32>("flow", [&](auto i) { return r[i].flow; })
      .add<U32>("value", [&](auto i) { return r[i].value; })
      .columns();
}

nb::dict read_port_counters(const Sim& s) {
  const auto& c = s.record.ports;
  Table t(s.ports.size());
  t.add<U32>("link", [](auto i) { return i; })
      .add<U64>("tx_bytes", [&](auto i) { return s.ports[i].tx_bytes; })
      .add<U32>("tx_packets", [&](auto i) { return s.ports[i].tx_packets; })
      .add<U8>("down", [&](auto i) { return (s.ports[i].flags & kDown) != 0; })
      .add<U32>("downs", [&](auto i) { return c[i].downs; });
  for (int k = 0; k < kDropKinds; ++k)
    t.add<U32>(std::string("dropped_") + kDropNames[k], [&](auto i) { return c[i].dropped[k]; });
  return t.columns();
}

nb::dict read_pause_counters(const Sim& s) {
  const std::size_t n = s.ports.size();
  const auto& c = s.record.ports;
  const auto column = [n, &c](auto field) {
    return [n, &c, field](std::size_t i) { return (c[i % n].*field)[i / n]; };
  };
  return Table(n * kPriorities)
      .add<U8>("priority", [n](auto i) { return i / n; })
      .add<U32>("link", [n](auto i) { return i % n; })
      .add<U32>("pauses_sent", column(&PortCounters::pauses_sent))
      .add<U32>("resumes_sent", column(&PortCounters::resumes_sent))
      .add<U32>("pauses_felt", column(&PortCounters::pauses_felt))
      .add<double>("paused_s",
                   [&](auto i) { return to_seconds(s.paused_ps(static_cast<U32>(i % n), static_cast<int>(i / n))); })
      .add<double>("credit_wait_s",
                   [&](auto i) { return to_seconds(s.wait_ps(static_cast<U32>(i % n), static_cast<int>(i / n))); })
      .add<U32>("storms", column(&PortCounters::storms))
      .add<U32>("restores", column(&PortCounters::restores))
      .columns();
}

nb::dict read_flow_counters(const Sim& s) {
  const auto& c = s.record.flows;
  const auto column = [&c](auto field) { return [&c, field](std::size_t i) { return c[i].*field; }; };
  using F = FlowCounters;
  return Table(c.size())
      .add<U32>("flow", [](auto i) { return i; })
      .add<U32>("stream", [&](auto i) { return s.senders[i].stream; })
      .add<U32>("sent", column(&F::sent))
      .add<U64>("sent_bytes", column(&F::sent_bytes))
      .add<U32>("retransmitted", column(&F::retransmitted))
      .add<U32>("acked_packets", [&](auto i) { return s.senders[i].acked; })
      .add<U32>("expected_packet", [&](auto i) { return s.receivers[i].expected; })
      .add<U32>("messages_delivered", [&](auto i) { return s.receivers[i].delivered; })
      .add<U32>("marked", column(&F::marked))
      .add<U32>("cnp_sent", column(&F::cnp_sent))
      .add<U32>("cnp_handled", column(&F::cnp_handled))
      .add<U32>("cnp_ignored", column(&F::cnp_ignored))
      .add<U32>("acks_sent", column(&F::acks_sent))
      .add<U32>("naks_sent", column(&F::naks_sent))
      .add<U32>("naks_received", column(&F::naks_received))
      .add<U32>("rnr_naks", column(&F::rnr_naks))
      .add<U32>("timeouts", column(&F::timeouts))
      .add<U32>("out_of_order", column(&F::out_of_order))
      .add<U32>("duplicates", column(&F::duplicates))
      .add<U32>("trimmed", column(&F::trimmed))
      .add<U32>("discarded", column(&F::discarded))
      .add<U8>("failed", [&](auto i) { return (s.senders[i].flags & kFailed) != 0; })
      .columns();
}

// Two rows: data, and what receivers reply.
nb::dict read_ledger(const Sim& s) {
  const Sim::Flight flight = s.in_flight();
  const Ledger* of[] = {&s.data, &s.replies};
  Table t(2);
  t.add<U8>("reply", [](auto i) { return i; })
      .add<U64>("sent_packets", [&](auto i) { return of[i]->sent_packets; })
      .add<U64>("sent_bytes", [&](auto i) { return of[i]->sent_bytes; })
      .add<U64>("delivered_packets", [&](auto i) { return of[i]->delivered_packets; })
      .add<U64>("delivered_bytes", [&](auto i) { return of[i]->delivered_bytes; })
      .add<U64>("in_flight_packets", [&](auto i) { return i ? flight.reply_packets : flight.data_packets; })
      .add<U64>("in_flight_bytes", [&](auto i) { return i ? flight.reply_bytes : flight.data_bytes; });
  for (int k = 0; k < kDropKinds; ++k) {
    const std::string why = kDropNames[k];
    t.add<U64>("dropped_packets_" + why, [&](auto i) { return of[i]->dropped_packets[k]; });
    t.add<U64>("dropped_bytes_" + why, [&](auto i) { return of[i]->dropped_bytes[k]; });
  }
  return t.columns();
}

nb::dict read_queue_counters(const Sim& s) {
  const std::size_t n = s.ports.size();
  return Table(s.queues.size())
      .add<U8>("priority", [n](auto i) { return i / n; })
      .add<U32>("link", [n](auto i) { return i % n; })
      .add<U32>("bytes", [&](auto i) { return s.queues[i].bytes; })
      .add<U32>("packets", [&](auto i) { return s.queues[i].packets; })
      .add<U32>("peak_bytes", [&](auto i) { return s.queues[i].peak_bytes; })
      .add<U32>("marked", [&](auto i) { return s.queues[i].marked; })
      .add<U32>("dropped", [&](auto i) { return s.queues[i].dropped; })
      .columns();
}

nb::dict read_group_counters(const Sim& s) {
  const std::size_t n = s.ports.size();
  const auto bytes = [&](std::size_t i, U32 cells) { return cells * cell_at_head(s, static_cast<U32>(i % n)); };
  return Table(s.groups.size())
      .add<U8>("priority", [n](auto i) { return i / n; })
      .add<U32>("link", [n](auto i) { return i % n; })
      .add<U32>("bytes", [&](auto i) { return bytes(i, s.groups[i].cells); })
      .add<U32>("headroom_bytes", [&](auto i) { return bytes(i, s.groups[i].headroom_cells); })
      .add<U32>("headroom_limit_bytes", [&](auto i) { return bytes(i, s.groups[i].headroom_limit); })
      .add<U32>("peak_bytes", [&](auto i) { return bytes(i, s.groups[i].peak_cells); })
      .add<U32>("peak_headroom_bytes", [&](auto i) { return bytes(i, s.groups[i].peak_headroom); })
      .add<U32>("dropped", [&](auto i) { return s.groups[i].dropped; })
      .add<U8>("xoff", [&](auto i) { return s.groups[i].xoff; })
      .columns();
}

nb::dict read_switch_counters(const Sim& s) {
  const auto bytes = [&](std::size_t i, U32 cells) {
    return U64{cells} * s.config_of(static_cast<U32>(i)).cell_bytes;
  };
  return Table(s.switches.size())
      .add<U32>("node", [&](auto i) { return s.switches[i].node; })
      .add<U64>("shared_bytes", [&](auto i) { return bytes(i, s.switches[i].shared_used); })
      .add<U64>("headroom_bytes", [&](auto i) { return bytes(i, s.switches[i].headroom_used); })
      .add<U64>("peak_shared_bytes", [&](auto i) { return bytes(i, s.switches[i].peak_shared); })
      .add<U64>("peak_headroom_bytes", [&](auto i) { return bytes(i, s.switches[i].peak_headroom); })
      .columns();
}

nb::dict read_pipe_counters(const Sim& s) {
  return Table(s.pipes.size())
      .add<U64>("bytes", [&](auto i) { return s.pipes[i].bytes; })
      .add<U32>("peak_bytes", [&](auto i) { return s.pipes[i].peak_bytes; })
      .add<U32>("dropped", [&](auto i) { return s.pipes[i].dropped; })
      .columns();
}

void bind_packet_names(nb::module_& m) {
  m.attr("PACKET_TRACE_KINDS") = names(kTraceNames, std::size(kTraceNames));
  m.attr("PACKET_DROP_REASONS") = names(kDropNames, std::size(kDropNames));
  m.attr("PACKET_FAULT_KINDS") = names(kFaultNames, std::size(kFaultNames));
  m.attr("PACKET_CHOICES") = names(kChoiceNames, std::size(kChoiceNames));
}

}  // namespace railweave
