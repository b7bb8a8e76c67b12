// TCP CUBIC: Ha, Rhee, Xu (2008), RFC 9438.
//
// After a cut the window follows C (t - K)^3 + W_max (packets, seconds), K the time to come back to
// W_max; where a Reno flow would have more, it takes that window (friendliness). Fast convergence
// gives up part of W_max when it shrinks. Slow start first; loss cuts to beta, once a window; a
// timeout leaves one packet and starts slow, after which W_max is the window and K is 0.
// With react_to_marks a CE mark counts as a loss (RFC 3168).
// Simplified: no HyStart++, no spurious-retransmit undo, packets of full size, round-trip time of
// the last acknowledgement. The cube root is Newton's.
#pragma once
#include <span>

#include "pkt_cc_util.hpp"

namespace railweave::pkt {

struct CubicParams {
  double c = 0;
  double beta = 0;
  double fast_convergence = 0;
  double react_to_marks = 0;
  double initial_window_packets = 0;
  double max_window_packets = 0;

  static std::span<const CcField<CubicParams>> fields() {
    using P = CubicParams;
    static constexpr CcField<P> all[] = {
        {"c", &P::c, 1, 1e-9, 1e9},
        {"beta", &P::beta, 1, 0.01, 0.99},
        {"fast_convergence", &P::fast_convergence, 1, 0, 1},
        {"react_to_marks", &P::react_to_marks, 1, 0, 1},
        {"initial_window_packets", &P::initial_window_packets, 1, 1, kUnbounded},
        {"max_window_packets", &P::max_window_packets, 1, 1, kUnbounded},
    };
    return all;
  }
};

struct CubicState {
  double cwnd, threshold, w_max, w_reno, reno_start;  // packets
  double k_s;
  std::uint64_t epoch_ps;  // begin of this growth; kNever: begins with the next acknowledgement
  bool after_timeout;
  OncePerWindow cut;
};

struct Cubic : Reaction<CubicParams, CubicState> {
  using P = CubicParams;
  using S = CubicState;

  static void start(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t) {
    s.cwnd = p.initial_window_packets;
    s.threshold = kNoWindow;
    s.epoch_ps = kNever;
    cc.rate_Bps = path.line_rate_Bps;
    apply(p, path, cc, s);
  }

  static void on_ack(const P& p, const CcPath& path, CcState& cc, S& s, const CcAck& ack) {
    s.cut.see(ack);
    if (ack.marked_packets > 0 && p.react_to_marks != 0 && !s.cut.open) {
      shrink(p, s);
      s.cut.react(ack.next_psn);
    } else if (!s.cut.open && uses_window(ack, s.cwnd * path.packet_bytes)) {
      if (s.cwnd < s.threshold) {
        s.cwnd += ack.acked_packets;
      } else {
        avoid_congestion(p, s, ack);
      }
    }
    apply(p, path, cc, s);
  }

  static void on_loss(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t,
                      bool timeout) {
    if (s.cut.open && !timeout) return;
    shrink(p, s);
    s.cut.react();
    if (timeout) {
      s.cwnd = 1.0;
      s.after_timeout = true;
      s.cut.open = false;  // slow start begins at once
    }
    apply(p, path, cc, s);
  }

 private:
  static void shrink(const P& p, S& s) {
    const bool gives_up = p.fast_convergence != 0 && s.cwnd < s.w_max;
    s.w_max = gives_up ? s.cwnd * (1.0 + p.beta) / 2.0 : s.cwnd;
    s.reno_start = s.cwnd;
    s.cwnd = std::max(s.cwnd * p.beta, 1.0);
    s.threshold = std::max(s.cwnd, 2.0);
    s.epoch_ps = kNever;
  }

  static void begin(const P& p, S& s, std::uint64_t now) {
    s.epoch_ps = now;
    if (s.after_timeout) s.w_max = s.cwnd;
    s.after_timeout = false;
    s.k_s = cube_root(std::max(s.w_max - s.cwnd, 0.0) / p.c);
    s.w_reno = s.cwnd;
  }

  static void avoid_congestion(const P& p, S& s, const CcAck& ack) {
    if (s.epoch_ps == kNever) begin(p, s, ack.now_ps);
    const double t = static_cast<double>(ack.now_ps - s.epoch_ps) * 1e-12;
    const double rtt = static_cast<double>(ack.rtt_ps) * 1e-12;
    // Reno with the same average: 3 (1 - beta) / (1 + beta) a round trip, 1 beyond the old window.
    const double slope = s.w_reno < s.reno_start ? 3.0 * (1.0 - p.beta) / (1.0 + p.beta) : 1.0;
    s.w_reno += slope * ack.acked_packets / s.cwnd;
    if (cubic(p, s, t) < s.w_reno) {
      s.cwnd = std::max(s.cwnd, s.w_reno);
      return;
    }
    const double target = std::clamp(cubic(p, s, t + rtt), s.cwnd, 1.5 * s.cwnd);
    s.cwnd += (target - s.cwnd) / s.cwnd * ack.acked_packets;
  }

  static double cubic(const P& p, const S& s, double t) {
    const double x = t - s.k_s;
    return p.c * x * x * x + s.w_max;
  }

  static void apply(const P& p, const CcPath& path, CcState& cc, S& s) {
    s.cwnd = std::clamp(s.cwnd, 1.0, p.max_window_packets);
    cc.window_bytes = s.cwnd * path.packet_bytes;
  }
};

}  // namespace railweave::pkt
