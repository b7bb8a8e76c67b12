// HPCC: Li et al., "HPCC: High Precision Congestion Control" (SIGCOMM 2019), algorithm 1.
//
// Switches write queue, bytes sent, time and rate into each packet; the sender estimates how full
// the fullest link of the way is (U) and sets its window to W = Wc / (U / eta) + W_ai, or adds
// W_ai alone for up to max_stage round trips while U < eta. Wc moves once a round trip.
// W_ai = W_init (1 - eta) / concurrent_flows, the paper's rule of thumb. T is the base round-trip
// time of the flow's own way (the paper: one for the network).
// Simplified: a window below one packet is kept as one packet paced below the line rate; an
// acknowledgement whose way differs from the last one's only becomes the new reference, so that
// spraying leaves HPCC blind. No reaction to loss of its own.
#pragma once
#include <span>

#include "pkt_cc_util.hpp"

namespace railweave::pkt {

struct HpccParams {
  double eta = 0;
  double max_stage = 0;
  double concurrent_flows = 0;
  double min_rate_Bps = 0;

  static std::span<const CcField<HpccParams>> fields() {
    using P = HpccParams;
    static constexpr CcField<P> all[] = {
        {"eta", &P::eta, 1, 0.01, 1},
        {"max_stage", &P::max_stage, 1, 0, 1e6},
        {"concurrent_flows", &P::concurrent_flows, 1, 1, 1e9},
        {"min_rate_Bps", &P::min_rate_Bps, 1, kAboveZero, kUnbounded},
    };
    return all;
  }
};

struct HpccState {
  struct Hop {
    std::uint64_t time_ps, tx_bytes;
    std::uint32_t queue_bytes, link;
  };
  double utilisation;  // U
  double reference;    // Wc
  std::uint64_t update_psn;
  std::uint32_t stage;
  std::int32_t n_hops;
  Hop hops[kMostHops];
};

struct Hpcc : Reaction<HpccParams, HpccState> {
  using P = HpccParams;
  using S = HpccState;

  static void start(const P&, const CcPath& path, CcState& cc, S& s, std::uint64_t) {
    s.utilisation = 1.0;  // of a line-rate start
    s.reference = path.bdp_bytes();
    cc.rate_Bps = path.line_rate_Bps;
    cc.window_bytes = std::max(s.reference, path.packet_bytes);
  }

  static void on_ack(const P& p, const CcPath& path, CcState& cc, S& s, const CcAck& ack) {
    const int n = std::min(ack.n_hops, kMostHops);
    const bool measured = n > 0 && same_way(s, ack, n) && measure(path, s, ack, n);
    remember(s, ack, n);
    if (!measured) return;
    const double full = path.bdp_bytes();
    const double w_ai = full * (1.0 - p.eta) / p.concurrent_flows;
    const bool shrink = s.utilisation >= p.eta || s.stage >= p.max_stage;
    double window = shrink ? s.reference * p.eta / s.utilisation + w_ai : s.reference + w_ai;
    const double least = std::min(p.min_rate_Bps, path.line_rate_Bps) * path.base_rtt_ps * 1e-12;
    window = std::clamp(window, least, full);
    if (ack.acked_psn > s.update_psn) {
      s.stage = shrink ? 0 : s.stage + 1;
      s.reference = window;
      s.update_psn = ack.next_psn;
    }
    cc.window_bytes = std::max(window, path.packet_bytes);
    cc.rate_Bps = std::min(window / (path.base_rtt_ps * 1e-12), path.line_rate_Bps);
  }

 private:
  static bool same_way(const S& s, const CcAck& ack, int n) {
    if (s.n_hops != n) return false;
    for (int i = 0; i < n; ++i) {
      if (s.hops[i].link != ack.hops[i].link) return false;
    }
    return true;
  }

  // Moves U by what the fullest link shows; false if no link shows anything new.
  static bool measure(const CcPath& path, S& s, const CcAck& ack, int n) {
    const double rtt_s = path.base_rtt_ps * 1e-12;
    double fullest = -1.0, span_s = 0.0;
    for (int i = 0; i < n; ++i) {
      const HopTelemetry& now = ack.hops[i];
      const S::Hop& was = s.hops[i];
      if (now.time_ps <= was.time_ps || now.tx_bytes < was.tx_bytes) continue;
      const double elapsed_s = static_cast<double>(now.time_ps - was.time_ps) * 1e-12;
      const double queue = std::min(now.queue_bytes, was.queue_bytes);
      const double tx_Bps = static_cast<double>(now.tx_bytes - was.tx_bytes) / elapsed_s;
      const double use = queue / (now.rate_Bps * rtt_s) + tx_Bps / now.rate_Bps;
      if (use > fullest) fullest = use, span_s = elapsed_s;
    }
    if (fullest < 0.0) return false;
    const double weight = std::min(span_s, rtt_s) / rtt_s;
    // Never 0: the window divides by it.
    s.utilisation = std::max((1.0 - weight) * s.utilisation + weight * fullest, 1e-6);
    return true;
  }

  static void remember(S& s, const CcAck& ack, int n) {
    s.n_hops = n;
    for (int i = 0; i < n; ++i) {
      const HopTelemetry& hop = ack.hops[i];
      s.hops[i] = {hop.time_ps, hop.tx_bytes, hop.queue_bytes, hop.link};
    }
  }
};

}  // namespace railweave::pkt
