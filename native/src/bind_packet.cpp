// Python face of the packet engine: arrays in, arrays out, the GIL released while it works.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>

#include "bind_packet_read.hpp"
#include "bind_sim.hpp"
#include "bindings.hpp"
#include "pkt_sim.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace railweave {
namespace {
template <class C, class T>
void array(nb::class_<C>& c, const char* name, std::vector<T> C::* field) {
  c.def_prop_rw(
      name, [field](const C& s) { return give(std::vector<T>(s.*field)); },
      [field](C& s, const In<T>& a) { (s.*field).assign(a.data(), a.data() + a.shape(0)); },
      nb::rv_policy::move);
}

std::vector<double> seconds(const std::vector<pkt::Ps>& times) {
  std::vector<double> out(times.size());
  std::transform(times.begin(), times.end(), out.begin(), pkt::to_seconds);
  return out;
}

class PyPacketSim : public Guarded<pkt::Sim> {
 public:
  PyPacketSim(const In<std::uint8_t>& is_switch, const pkt::LinkInput& links,
              const pkt::Options& options) {
    sim_ = std::make_unique<pkt::Sim>(
        static_cast<std::uint32_t>(is_switch.shape(0)),
        std::vector<std::uint8_t>(is_switch.data(), is_switch.data() + is_switch.shape(0)), links,
        options);
  }

  bool advance(double until_s, std::int64_t max_events) {
    if (!(until_s >= 0.0)) throw std::invalid_argument("until_s must be 0 or more");
    const pkt::Ps until = until_s >= 1.8e7 ? pkt::kNever : static_cast<pkt::Ps>(until_s * 1e12);
    return go_on([&](pkt::Sim& sim, flow::Interrupt& interrupt) {
      return sim.advance(until, max_events, interrupt);
    });
  }
};

template <class T>
void times(nb::class_<PyPacketSim>& c, const char* name, std::vector<T> pkt::Sim::* field) {
  c.def_prop_ro(name, [field](const PyPacketSim& s) { return give(seconds(s.read().*field)); }, nb::rv_policy::move);
}

void bind_inputs(nb::module_& m) {
  nb::class_<pkt::LinkInput> l(m, "PacketLinks");
  l.def(nb::init<>());
  array(l, "source", &pkt::LinkInput::source);
  array(l, "target", &pkt::LinkInput::target);
  array(l, "rate_kbps", &pkt::LinkInput::rate_kbps);
  array(l, "delay_ps", &pkt::LinkInput::delay_ps);
  array(l, "propagation_ps", &pkt::LinkInput::propagation_ps);
  array(l, "response_ps", &pkt::LinkInput::response_ps);
  array(l, "headroom_bytes", &pkt::LinkInput::headroom_bytes);
  array(l, "kmin_bytes", &pkt::LinkInput::kmin_bytes);
  array(l, "kmax_bytes", &pkt::LinkInput::kmax_bytes);
  array(l, "pause_mask", &pkt::LinkInput::pause_mask);
  array(l, "credit_bytes", &pkt::LinkInput::credit_bytes);

  nb::class_<pkt::FlowInput> f(m, "PacketFlows");
  f.def(nb::init<>());
  array(f, "stream", &pkt::FlowInput::stream);
  array(f, "nic", &pkt::FlowInput::nic);
  array(f, "path_ptr", &pkt::FlowInput::path_ptr);
  array(f, "path_link", &pkt::FlowInput::path_link);
  array(f, "message_bytes", &pkt::FlowInput::message_bytes);
  array(f, "payload_bytes", &pkt::FlowInput::payload_bytes);
  array(f, "overhead_bytes", &pkt::FlowInput::overhead_bytes);
  array(f, "tx_pipe", &pkt::FlowInput::tx_pipe);
  array(f, "rx_pipe", &pkt::FlowInput::rx_pipe);
  array(f, "rx_latency_ps", &pkt::FlowInput::rx_latency_ps);
  array(f, "line_rate_Bps", &pkt::FlowInput::line_rate_Bps);
  array(f, "base_rtt_ps", &pkt::FlowInput::base_rtt_ps);
  array(f, "choice", &pkt::FlowInput::choice);
  array(f, "source_nic", &pkt::FlowInput::source_nic);
  array(f, "target_nic", &pkt::FlowInput::target_nic);
  array(f, "table", &pkt::FlowInput::table);
  array(f, "entropy", &pkt::FlowInput::entropy);

  nb::class_<pkt::TaskInput> t(m, "PacketTasks");
  t.def(nb::init<>());
  array(t, "task_stream", &pkt::TaskInput::task_stream);
  array(t, "rounds", &pkt::TaskInput::rounds);
  array(t, "start_ps", &pkt::TaskInput::start_ps);
  array(t, "delay_ps", &pkt::TaskInput::delay_ps);
  array(t, "chunk_delay_ps", &pkt::TaskInput::chunk_delay_ps);
  array(t, "dep_ptr", &pkt::TaskInput::dep_ptr);
  array(t, "dep_task", &pkt::TaskInput::dep_task);
  array(t, "dep_kind", &pkt::TaskInput::dep_kind);
  array(t, "pred_ptr", &pkt::TaskInput::pred_ptr);
  array(t, "pred_stream", &pkt::TaskInput::pred_stream);
  array(t, "pred_lag", &pkt::TaskInput::pred_lag);
}

void bind_epochs(nb::module_& m) {
  nb::class_<pkt::Epoch> e(m, "PacketEpoch");
  e.def(nb::init<>());
  array(e, "flow", &pkt::Epoch::flow);
  array(e, "path_ptr", &pkt::Epoch::path_ptr);
  array(e, "path_link", &pkt::Epoch::path_link);
  array(e, "table_from", &pkt::Epoch::table_from);
  array(e, "table_to", &pkt::Epoch::table_to);
}

void bind_settings(nb::module_& m) {
  using S = pkt::SwitchConfig;
  nb::class_<S>(m, "PacketSwitchConfig")
      .def(nb::init<>())
      .def_rw("cell_bytes", &S::cell_bytes)
      .def_rw("shared_cells", &S::shared_cells)
      .def_rw("headroom_pool_cells", &S::headroom_pool_cells)
      .def_rw("reserved_cells", &S::reserved_cells)
      .def_rw("queue_reserved_cells", &S::queue_reserved_cells)
      .def_rw("pg_limit_cells", &S::pg_limit_cells)
      .def_rw("pg_alpha", &S::pg_alpha)
      .def_rw("queue_alpha", &S::queue_alpha)
      .def_rw("xon_offset_cells", &S::xon_offset_cells)
      .def_rw("lossless", &S::lossless)
      .def_rw("strict", &S::strict)
      .def_rw("ecn", &S::ecn)
      .def_prop_rw(
          "priority_map",
          [](const S& s) { return std::vector<int>(s.priority_map, s.priority_map + pkt::kPriorities); },
          [](S& s, const std::vector<int>& map) {
            if (map.size() != pkt::kPriorities) throw std::invalid_argument("priority_map needs 8 entries");
            for (int i = 0; i < pkt::kPriorities; ++i) s.priority_map[i] = static_cast<std::uint8_t>(map[i] & 7);
          })
      .def_prop_rw(
          "quantum_bytes",
          [](const S& s) { return std::vector<std::uint32_t>(s.quantum_bytes, s.quantum_bytes + pkt::kPriorities); },
          [](S& s, const std::vector<std::uint32_t>& q) {
            if (q.size() != pkt::kPriorities) throw std::invalid_argument("quantum_bytes needs 8 entries");
            std::copy(q.begin(), q.end(), s.quantum_bytes);
          })
      .def_rw("pmax", &S::pmax)
      .def_rw("ecn_weight", &S::ecn_weight)
      .def_rw("shift_ps", &S::shift_ps)
      .def_rw("hold_ps", &S::hold_ps)
      .def_rw("mtu_bytes", &S::mtu_bytes)
      .def_rw("cut_through", &S::cut_through)
      .def_rw("trimming", &S::trimming)
      .def_rw("credits", &S::credits)
      .def_rw("watchdog_detect_ps", &S::watchdog_detect_ps)
      .def_rw("watchdog_restore_ps", &S::watchdog_restore_ps)
      .def_rw("watchdog_forwards", &S::watchdog_forwards);

  using N = pkt::NicConfig;
  nb::class_<N>(m, "PacketNicConfig")
      .def(nb::init<>())
      .def("set_congestion_control",
           [](N& n, const std::string& kind, const std::map<std::string, double>& parameters) {
             n.cc = pkt::make_profile(kind, parameters);
           })
      .def_rw("data_priority", &N::data_priority)
      .def_rw("ack_priority", &N::ack_priority)
      .def_rw("cnp_priority", &N::cnp_priority)
      .def_rw("request_priority", &N::request_priority)
      .def_rw("ecn_capable", &N::ecn_capable)
      .def_rw("sends_cnp", &N::sends_cnp)
      .def_rw("ignores_cnp", &N::ignores_cnp)
      .def_rw("selective_repeat", &N::selective_repeat)
      .def_rw("ack_every", &N::ack_every)
      .def_rw("reorder_packets", &N::reorder_packets)
      .def_rw("reorder_window_packets", &N::reorder_window_packets)
      .def_rw("ack_bytes", &N::ack_bytes)
      .def_rw("cnp_bytes", &N::cnp_bytes)
      .def_rw("cnp_interval_ps", &N::cnp_interval_ps)
      .def_rw("timeout_ps", &N::timeout_ps)
      .def_rw("retries", &N::retries)
      .def_rw("rnr_timer_ps", &N::rnr_timer_ps)
      .def_rw("rnr_retries", &N::rnr_retries)
      .def_rw("max_in_flight_bytes", &N::max_in_flight_bytes)
      .def_rw("receiver_grant_bytes", &N::receiver_grant_bytes)
      .def_rw("receiver_window_bytes", &N::receiver_window_bytes);

  using P = pkt::Pipe;
  nb::class_<P>(m, "PacketPipe")
      .def(nb::init<>())
      .def_prop_rw(
          "rate_kbps", [](const P& p) { return p.num == 0 ? 0 : 8'000'000'000 * std::uint64_t{p.den} / p.num; },
          [](P& p, std::uint64_t kbps) { pkt::set_pipe_rate(p, kbps); })
      .def_rw("buffer_bytes", &P::buffer_bytes)
      .def_rw("xoff_bytes", &P::xoff_bytes)
      .def_rw("xon_bytes", &P::xon_bytes)
      .def_rw("nic_link", &P::nic_link)
      .def_rw("frozen", &P::frozen)
      .def_rw("priority", &P::priority);

  using O = pkt::Options;
  nb::class_<O>(m, "PacketOptions")
      .def(nb::init<>())
      .def_rw("seed", &O::seed)
      .def_rw("flowlet_gap_ps", &O::flowlet_gap_ps)
      .def_rw("spray_paths", &O::spray_paths)
      .def_rw("stuck_ps", &O::stuck_ps);
}

template <class T>
std::vector<T> copied(const In<T>& a) {
  return std::vector<T>(a.data(), a.data() + a.shape(0));
}

void set_faults(PyPacketSim& s, const In<std::uint64_t>& time_ps, const In<std::uint8_t>& kind,
                const In<std::uint32_t>& index, const In<std::uint64_t>& value,
                const std::vector<pkt::Epoch>& epochs) {
  const std::size_t n = time_ps.shape(0);
  if (kind.shape(0) != n || index.shape(0) != n || value.shape(0) != n)
    throw std::invalid_argument("time_ps, kind, index and value differ in length");
  std::vector<pkt::Fault> faults(n);
  for (std::size_t i = 0; i < n; ++i)
    faults[i] = {time_ps.data()[i], static_cast<pkt::FaultKind>(kind.data()[i]), index.data()[i],
                 value.data()[i]};
  s.write().set_faults(std::move(faults), epochs);
}

void watch(PyPacketSim& s, std::uint64_t period_ps, const In<std::uint32_t>& link,
           const In<std::uint32_t>& flow, std::uint32_t trace_limit, std::uint32_t trace_kinds) {
  s.write().watch({period_ps, copied(link), copied(flow), trace_limit, trace_kinds});
}

void bind_records(nb::class_<PyPacketSim>& c) {
  using Py = PyPacketSim;
  const auto table = [&c](const char* name, nb::dict (*read)(const pkt::Sim&)) {
    c.def(name, [read](const Py& s) { return read(s.read()); });
  };
  table("port_samples", read_port_samples);
  table("flow_samples", read_flow_samples);
  table("pauses", read_pauses);
  table("trace", read_trace);
  table("port_counters", read_port_counters);
  table("pause_counters", read_pause_counters);
  table("flow_counters", read_flow_counters);
  table("ledger", read_ledger);
  table("queue_counters", read_queue_counters);
  table("group_counters", read_group_counters);
  table("switch_counters", read_switch_counters);
  table("pipe_counters", read_pipe_counters);
  c.def_prop_ro("trace_lost", [](const Py& s) { return s.read().record.trace_lost; });
}

void bind_sim(nb::module_& m) {
  using Py = PyPacketSim;
  nb::class_<Py> c(m, "PacketSim");
  c.def(nb::init<const In<std::uint8_t>&, const pkt::LinkInput&, const pkt::Options&>(),
        "is_switch"_a, "links"_a, "options"_a)
      .def("add_switch_config", [](Py& s, const pkt::SwitchConfig& k) { return s.write().add_switch_config(k); })
      .def("use_switch_config", [](Py& s, std::uint32_t node, std::uint32_t k) { s.write().use_switch_config(node, k); })
      .def("add_nic_config", [](Py& s, const pkt::NicConfig& k) { return s.write().add_nic_config(k); })
      .def("add_pipe", [](Py& s, const pkt::Pipe& p) { return s.write().add_pipe(p); })
      .def("add_table",
           [](Py& s, const RouteTable& t, const In<std::uint32_t>& seeds) {
             return s.write().add_table(&t, copied(seeds));
           },
           "table"_a, "seeds"_a, nb::keep_alive<1, 2>())
      .def("set_faults", &set_faults, "time_ps"_a, "kind"_a, "index"_a, "value"_a,
           "epochs"_a = std::vector<pkt::Epoch>())
      .def("watch", &watch, "period_ps"_a, "link"_a, "flow"_a, "trace_limit"_a = 0, "trace_kinds"_a = 0xFFFFFFFFU)
      .def("set_work", [](Py& s, const pkt::FlowInput& f, const pkt::TaskInput& t) { s.write().set_work(f, t); })
      .def("advance", &Py::advance, "until_s"_a = std::numeric_limits<double>::infinity(), "max_events"_a = -1)
      .def("set_not_ready", [](Py& s, std::uint32_t flow, bool on) { s.write().set_not_ready(flow, on); },
           "flow"_a, "on"_a)
      .def("freeze_pipe", [](Py& s, std::uint32_t pipe, bool on) { s.write().freeze_pipe(pipe, on); },
           "pipe"_a, "on"_a)
      .def_prop_ro(
          "failed_flows",
          [](const Py& s) { return give(std::vector<std::uint32_t>(s.read().failed_flows)); },
          nb::rv_policy::move)
      .def("audit", [](const Py& s) { s.read().audit(); })
      .def_prop_ro("now_s", [](const Py& s) { return pkt::to_seconds(s.read().now()); })
      .def_prop_ro("events", [](const Py& s) { return s.read().events(); })
      .def_prop_ro(
          "link_bytes",
          [](const Py& s) {
            std::vector<double> out;
            for (const pkt::Port& p : s.read().ports) out.push_back(static_cast<double>(p.tx_bytes));
            return give(std::move(out));
          },
          nb::rv_policy::move)
      .def_prop_ro(
          "flow_sent_bytes",
          [](const Py& s) {
            std::vector<double> out;
            for (const pkt::FlowCounters& f : s.read().record.flows)
              out.push_back(static_cast<double>(f.sent_bytes));
            return give(std::move(out));
          },
          nb::rv_policy::move)
      .def_prop_ro("bytes_sent", [](const Py& s) { return s.read().data.sent_bytes; })
      .def_prop_ro("bytes_delivered", [](const Py& s) { return s.read().data.delivered_bytes; })
      .def_prop_ro("bytes_dropped",
                   [](const Py& s) {
                     std::uint64_t sum = 0;
                     for (std::uint64_t b : s.read().data.dropped_bytes) sum += b;
                     return sum;
                   })
      .def_prop_ro("bytes_in_flight", [](const Py& s) { return s.read().in_flight().data_bytes; })
      .def_prop_ro(
          "cycle", [](const Py& s) { return give(std::vector<std::uint32_t>(s.read().cycle())); },
          nb::rv_policy::move)
      .def_prop_ro("end", [](const Py& s) { return static_cast<int>(s.read().end()); });
  bind_records(c);
  times(c, "task_start_s", &pkt::Sim::task_start);
  times(c, "task_finish_s", &pkt::Sim::task_finish);
  times(c, "stream_start_s", &pkt::Sim::stream_start);
  times(c, "stream_finish_s", &pkt::Sim::stream_finish);
  times(c, "flow_finish_s", &pkt::Sim::flow_finish);
  times(c, "message_start_s", &pkt::Sim::message_start);
  times(c, "message_finish_s", &pkt::Sim::message_finish);
}
}  // namespace

void bind_packet(nb::module_& m) {
  bind_inputs(m);
  bind_epochs(m);
  bind_settings(m);
  bind_sim(m);
  bind_packet_names(m);
}

}  // namespace railweave
