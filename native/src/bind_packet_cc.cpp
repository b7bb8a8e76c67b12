// A single sender's congestion control, driven by hand: for tests and for showing its reaction.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "pkt_cc_all.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace railweave {
namespace {
using namespace pkt;

using Hop = std::tuple<std::uint64_t, std::uint64_t, double, std::uint32_t, std::uint32_t>;

class CcProbe {
 public:
  CcProbe(const std::string& kind, const std::map<std::string, double>& parameters,
          double line_rate_Bps, double base_rtt_ps, double packet_bytes, int hops)
      : profile_(make_profile(kind, parameters)),
        path_{line_rate_Bps, base_rtt_ps, packet_bytes, hops} {
    for (const double value : {line_rate_Bps, base_rtt_ps, packet_bytes}) {
      if (!(value > 0 && value < 1e18)) {
        throw std::invalid_argument("line_rate_Bps, base_rtt_ps and packet_bytes must be above 0");
      }
    }
    start(0);
  }

  void start(std::uint64_t now) { now_ = now, cc_start(profile_, path_, cc_, now); }
  void ack(std::uint64_t now, std::uint64_t rtt, std::uint64_t acked_psn, std::uint64_t next_psn,
           std::uint32_t acked_bytes, std::uint32_t acked_packets, std::uint32_t marked_packets,
           double in_flight_bytes, const std::vector<Hop>& hops) {
    if (hops.size() > static_cast<std::size_t>(kMostHops)) {
      throw std::invalid_argument("at most " + std::to_string(kMostHops) + " hops, not " +
                                  std::to_string(hops.size()));
    }
    HopTelemetry telemetry[kMostHops];
    for (std::size_t i = 0; i < hops.size(); ++i) {
      const auto& [time, bytes, rate, queue, link] = hops[i];
      telemetry[i] = {time, bytes, rate, queue, link};
    }
    step(now);
    cc_on_ack(profile_, path_, cc_,
              {now, rtt, acked_psn, next_psn, acked_bytes, acked_packets, marked_packets,
               in_flight_bytes, telemetry, static_cast<int>(hops.size())});
  }
  void cnp(std::uint64_t now) { step(now), cc_on_cnp(profile_, path_, cc_, now); }
  void loss(std::uint64_t now, bool timeout) {
    step(now), cc_on_loss(profile_, path_, cc_, now, timeout);
  }
  void timer(std::uint64_t now) { step(now), cc_on_timer(profile_, path_, cc_, now); }
  void sent(std::uint64_t now, std::uint32_t bytes) {
    step(now), cc_on_sent(profile_, path_, cc_, now, bytes);
  }

  double rate_Bps() const { return cc_.rate_Bps; }
  double window_bytes() const { return cc_.window_bytes; }
  nb::object timer_ps() const {
    return cc_.timer_ps == kNever ? nb::none() : nb::object(nb::int_(cc_.timer_ps));
  }

 private:
  void step(std::uint64_t now) {
    if (now < now_) throw std::invalid_argument("now_ps goes back");
    now_ = now;
  }

  CcProfile profile_;
  CcPath path_;
  CcState cc_;
  std::uint64_t now_ = 0;
};
}  // namespace

void bind_packet_cc(nb::module_& m) {
  nb::class_<CcProbe>(m, "CcProbe")
      .def(nb::init<const std::string&, const std::map<std::string, double>&, double, double,
                    double, int>(),
           "kind"_a, "parameters"_a, "line_rate_Bps"_a, "base_rtt_ps"_a, "packet_bytes"_a,
           "hops"_a = 0)
      .def("start", &CcProbe::start, "now_ps"_a)
      .def("ack", &CcProbe::ack, "now_ps"_a, "rtt_ps"_a, "acked_psn"_a, "next_psn"_a,
           "acked_bytes"_a, "acked_packets"_a = 1, "marked_packets"_a = 0,
           "in_flight_bytes"_a = 0.0, "hops"_a = std::vector<Hop>{})
      .def("cnp", &CcProbe::cnp, "now_ps"_a)
      .def("loss", &CcProbe::loss, "now_ps"_a, "timeout"_a = false)
      .def("timer", &CcProbe::timer, "now_ps"_a)
      .def("sent", &CcProbe::sent, "now_ps"_a, "bytes"_a)
      .def_prop_ro("rate_Bps", &CcProbe::rate_Bps)
      .def_prop_ro("window_bytes", &CcProbe::window_bytes)
      .def_prop_ro("timer_ps", &CcProbe::timer_ps);
}

}  // namespace railweave
