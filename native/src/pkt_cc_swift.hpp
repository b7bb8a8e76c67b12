// Swift: Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
// Datacenter" (SIGCOMM 2020), algorithm 1 and section 3.5.
//
// The window (in packets) grows by ai a round trip while the delay is below the target and shrinks
// by beta times the excess, at most once a round trip and by at most max_mdf. The target is
// base + hops * hop + flow scaling, which falls with 1 / sqrt(window) from fs_range at fs_min_cwnd
// to 0 at fs_max_cwnd. Below one packet the window is one packet paced at window / rtt.
// Simplified: the fabric's delay alone (the paper keeps a second window for the end host), taken as
// the whole round trip.
#pragma once
#include <span>

#include "pkt_cc_util.hpp"

namespace railweave::pkt {

struct SwiftParams {
  double base_target_ps = 0, hop_target_ps = 0;
  double fs_range_ps = 0, fs_min_cwnd_packets = 0, fs_max_cwnd_packets = 0;
  double ai_packets = 0, beta = 0, max_mdf = 0;
  double min_cwnd_packets = 0, max_cwnd_packets = 0;
  double initial_window_bdp = 0;
  double retransmit_reset = 0;  // timeouts in a row that drop the window to the least

  static std::span<const CcField<SwiftParams>> fields() {
    using P = SwiftParams;
    static constexpr CcField<P> all[] = {
        {"base_target_s", &P::base_target_ps, kPsPerSecond, 1e-9, 1e3},
        {"hop_target_s", &P::hop_target_ps, kPsPerSecond, 0, 1e3},
        {"fs_range_s", &P::fs_range_ps, kPsPerSecond, 0, 1e3},
        {"fs_min_cwnd_packets", &P::fs_min_cwnd_packets, 1, 1e-6, kUnbounded},
        {"fs_max_cwnd_packets", &P::fs_max_cwnd_packets, 1, 1e-6, kUnbounded},
        {"ai_packets", &P::ai_packets, 1, 0, kUnbounded},
        {"beta", &P::beta, 1, 0, 1},
        {"max_mdf", &P::max_mdf, 1, 0, 0.999},
        {"min_cwnd_packets", &P::min_cwnd_packets, 1, 1e-6, 1},
        {"max_cwnd_packets", &P::max_cwnd_packets, 1, 1, kUnbounded},
        {"initial_window_bdp", &P::initial_window_bdp, 1, 0, kUnbounded},
        {"retransmit_reset", &P::retransmit_reset, 1, 1, 1e6},
    };
    return all;
  }
};

struct SwiftState {
  double cwnd;  // packets
  double rtt_ps;
  std::uint64_t cut_allowed_ps;
  std::uint32_t timeouts;
};

struct Swift : Reaction<SwiftParams, SwiftState> {
  using P = SwiftParams;
  using S = SwiftState;

  static void start(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t now) {
    s.cwnd = p.initial_window_bdp * path.bdp_bytes() / path.packet_bytes;
    s.rtt_ps = path.base_rtt_ps;
    s.cut_allowed_ps = now;
    apply(p, path, cc, s);
  }

  static void on_ack(const P& p, const CcPath& path, CcState& cc, S& s, const CcAck& ack) {
    const double delay = static_cast<double>(ack.rtt_ps);
    const double target = target_ps(p, s.cwnd, ack.n_hops > 0 ? ack.n_hops : path.hops);
    if (delay > 0) s.rtt_ps = delay;
    s.timeouts = 0;
    if (delay < target) {
      if (uses_window(ack, s.cwnd * path.packet_bytes)) {
        s.cwnd += p.ai_packets * ack.acked_packets / std::max(s.cwnd, 1.0);
      }
    } else {
      shrink(s, ack.now_ps, std::max(1.0 - p.beta * (delay - target) / delay, 1.0 - p.max_mdf));
    }
    apply(p, path, cc, s);
  }

  static void on_loss(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t now,
                      bool timeout) {
    if (timeout) ++s.timeouts;
    if (timeout && s.timeouts >= p.retransmit_reset) {
      s.cwnd = p.min_cwnd_packets;
    } else {
      shrink(s, now, 1.0 - p.max_mdf);
    }
    apply(p, path, cc, s);
  }

 private:
  static double target_ps(const P& p, double cwnd, int hops) {
    const double fixed = p.base_target_ps + hops * p.hop_target_ps;
    const double at_min = 1.0 / std::sqrt(p.fs_min_cwnd_packets);
    const double at_max = 1.0 / std::sqrt(p.fs_max_cwnd_packets);
    if (!(at_min > at_max)) return fixed;
    const double share = (1.0 / std::sqrt(cwnd) - at_max) / (at_min - at_max);
    return fixed + p.fs_range_ps * std::clamp(share, 0.0, 1.0);
  }

  static void shrink(S& s, std::uint64_t now, double factor) {
    if (now < s.cut_allowed_ps || factor >= 1.0) return;
    s.cwnd *= factor;
    s.cut_allowed_ps = later(now, s.rtt_ps);
  }

  static void apply(const P& p, const CcPath& path, CcState& cc, S& s) {
    s.cwnd = std::clamp(s.cwnd, p.min_cwnd_packets, p.max_cwnd_packets);
    cc.window_bytes = std::max(s.cwnd, 1.0) * path.packet_bytes;
    const double paced = s.cwnd * path.packet_bytes / (s.rtt_ps * 1e-12);
    cc.rate_Bps = s.cwnd < 1.0 ? std::min(paced, path.line_rate_Bps) : path.line_rate_Bps;
  }
};

}  // namespace railweave::pkt
