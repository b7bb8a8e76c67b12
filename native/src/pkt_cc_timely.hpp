// TIMELY: Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter" (SIGCOMM 2015),
// algorithm 1.
//
// One step for each segment acknowledged: below T_low add delta, above T_high cut by
// beta (1 - T_high / rtt), between them follow the smoothed gradient of the round-trip time:
// falling adds delta (5 delta after five such steps), rising cuts by beta times the gradient,
// which is in units of min_rtt.
// Simplified: the round-trip time is that of the packet that called for the acknowledgement, so it
// holds no serialisation of a whole segment. No reaction to loss of its own.
#pragma once
#include <span>

#include "pkt_cc_util.hpp"

namespace railweave::pkt {

struct TimelyParams {
  double ewma_weight = 0;  // alpha of the paper
  double beta = 0;
  double rate_ai_Bps = 0;  // delta
  double t_low_ps = 0, t_high_ps = 0, min_rtt_ps = 0;
  double hyper_steps = 0;       // falling steps before hyper increase
  double hyper_multiplier = 0;  // N
  double segment_bytes = 0;
  double min_rate_Bps = 0;

  static std::span<const CcField<TimelyParams>> fields() {
    using P = TimelyParams;
    static constexpr CcField<P> all[] = {
        {"ewma_weight", &P::ewma_weight, 1, 0, 1},
        {"beta", &P::beta, 1, 0, 1},
        {"rate_ai_Bps", &P::rate_ai_Bps, 1, 0, kUnbounded},
        {"t_low_s", &P::t_low_ps, kPsPerSecond, 0, 1e3},
        {"t_high_s", &P::t_high_ps, kPsPerSecond, 1e-9, 1e3},
        {"min_rtt_s", &P::min_rtt_ps, kPsPerSecond, 1e-9, 1e3},
        {"hyper_steps", &P::hyper_steps, 1, 1, 1e6},
        {"hyper_multiplier", &P::hyper_multiplier, 1, 1, 1e6},
        {"segment_bytes", &P::segment_bytes, 1, 1, kUnbounded},
        {"min_rate_Bps", &P::min_rate_Bps, 1, kAboveZero, kUnbounded},
    };
    return all;
  }
};

struct TimelyState {
  double rtt_ps, difference_ps, bytes;
  std::uint32_t falling;  // steps in a row
  bool known;             // rtt_ps holds a sample
};

struct Timely : Reaction<TimelyParams, TimelyState> {
  using P = TimelyParams;
  using S = TimelyState;

  static void start(const P&, const CcPath& path, CcState& cc, S&, std::uint64_t) {
    cc.rate_Bps = path.line_rate_Bps;
  }

  static void on_ack(const P& p, const CcPath& path, CcState& cc, S& s, const CcAck& ack) {
    s.bytes += ack.acked_bytes;
    if (s.bytes < p.segment_bytes) return;
    s.bytes = 0;
    const double rtt = static_cast<double>(ack.rtt_ps);
    const double risen = s.known ? rtt - s.rtt_ps : 0.0;
    s.known = true;
    s.rtt_ps = rtt;
    s.difference_ps += p.ewma_weight * (risen - s.difference_ps);
    const double rate = next_rate(p, cc.rate_Bps, rtt, s);
    const double line = path.line_rate_Bps;
    cc.rate_Bps = std::clamp(rate, std::min(p.min_rate_Bps, line), line);
  }

 private:
  static double next_rate(const P& p, double rate, double rtt, S& s) {
    const double gradient = s.difference_ps / p.min_rtt_ps;
    const bool hold = rtt < p.t_low_ps || rtt > p.t_high_ps;
    s.falling = !hold && gradient <= 0 ? s.falling + 1 : 0;
    if (rtt < p.t_low_ps) return rate + p.rate_ai_Bps;
    if (rtt > p.t_high_ps) return rate * (1.0 - p.beta * (1.0 - p.t_high_ps / rtt));
    if (gradient > 0) return rate * (1.0 - p.beta * std::min(gradient, 1.0));
    return rate + (s.falling >= p.hyper_steps ? p.hyper_multiplier : 1.0) * p.rate_ai_Bps;
  }
};

}  // namespace railweave::pkt
