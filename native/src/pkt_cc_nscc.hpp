// NSCC, network signal based congestion control: Ultra Ethernet Specification 1.0, section 3.6.13;
// its ancestor is SMaRTT (Bonato et al., 2024).
//
// Four cases of ECN mark and queueing delay (round trip less base) against the target:
//   no mark, below: proportional increase, by how far below; without any queue for a window of
//                   data, fast increase instead;
//   no mark, above: fair increase (a queue that is draining);
//   mark, below:    hold; or fair decrease, SMaRTT's, where `fair_decrease` is not 0;
//   mark, above:    multiplicative decrease by the average delay's excess, once a base round trip.
// Increases are gathered and applied after so many bytes or a period. Quick adapt: once a period,
// after a trim or with a very long delay, the window becomes what was delivered in that period,
// and marks of what was then in flight are ignored.
// Scales: a = BDP / (100 Gb/s * 12 us), b = target / 12 us.
// Simplified: the average delay is a running mean over about one window; no receiver penalty; a
// NAK counts as a trim and a timeout as an inferred loss; an acknowledgement of several packets is
// marked if one of them was.
#pragma once
#include <span>

#include "pkt_cc_util.hpp"

namespace railweave::pkt {

struct NsccParams {
  double target_delay_rtt = 0;  // in base round trips
  double max_window_bdp = 0;
  double gamma = 0, max_md_jump = 0;
  double fair_increase_packets = 0, fair_decrease = 0;
  double fast_increase = 0, eta_packets = 0, alpha = 0;
  double quick_adapt_gate = 0;    // power of two of the window below which it acts
  double quick_adapt_delay = 0;   // in targets; 0: only after a trim
  double adjust_packets = 0, adjust_rtt = 0;
  double clear_delay_ps = 0;      // no queue below

  static std::span<const CcField<NsccParams>> fields() {
    using P = NsccParams;
    static constexpr CcField<P> all[] = {
        {"target_delay_rtt", &P::target_delay_rtt, 1, 1e-3, 1e6},
        {"max_window_bdp", &P::max_window_bdp, 1, 0, 1e6},
        {"gamma", &P::gamma, 1, 0, 1},
        {"max_md_jump", &P::max_md_jump, 1, 0, 1},
        {"fair_increase_packets", &P::fair_increase_packets, 1, 0, 1e9},
        {"fair_decrease", &P::fair_decrease, 1, 0, 1e3},
        {"fast_increase", &P::fast_increase, 1, 0, 1e3},
        {"eta_packets", &P::eta_packets, 1, 0, 1e9},
        {"alpha", &P::alpha, 1, 0, 1e9},
        {"quick_adapt_gate", &P::quick_adapt_gate, 1, 0, 62},
        {"quick_adapt_delay", &P::quick_adapt_delay, 1, 0, 1e9},
        {"adjust_packets", &P::adjust_packets, 1, 0, 1e9},
        {"adjust_rtt", &P::adjust_rtt, 1, 0, 1e6},
        {"clear_delay_s", &P::clear_delay_ps, kPsPerSecond, 0, 1e3},
    };
    return all;
  }
};

struct NsccState {
  double average_ps;          // queueing delay over about a window
  double gathered;            // increase times window, to be applied
  double decrease_bytes;      // SMaRTT's fair decrease, to be applied
  double received_bytes;      // since the last adjustment
  double delivered_bytes;     // in the present quick adapt period
  double clear_bytes;         // without mark or queue in a row
  double ignore_bytes, ignored_bytes;
  double in_flight_bytes;
  std::uint64_t adjust_ps, decrease_ps, adapt_ps;  // last, last, next
  bool fast, adapt_wanted;
};

struct Nscc : Reaction<NsccParams, NsccState> {
  using P = NsccParams;
  using S = NsccState;

  static void start(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t now) {
    cc.rate_Bps = path.line_rate_Bps;
    cc.window_bytes = most(p, path);
    s.adjust_ps = s.decrease_ps = now;
    s.adapt_ps = kNever;
  }

  static void on_ack(const P& p, const CcPath& path, CcState& cc, S& s, const CcAck& ack) {
    const double bytes = ack.acked_bytes;
    const bool marked = ack.marked_packets > 0;
    const double delay = std::max(static_cast<double>(ack.rtt_ps) - path.base_rtt_ps, 0.0);
    const double target = p.target_delay_rtt * path.base_rtt_ps;
    s.in_flight_bytes = ack.in_flight_bytes;
    s.received_bytes += bytes;
    s.delivered_bytes += bytes;
    s.ignored_bytes += bytes;
    s.average_ps += std::min(bytes / cc.window_bytes, 1.0) * (delay - s.average_ps);
    if (quick_adapt(p, path, cc, s, ack.now_ps, marked, delay, false)) return;
    if (!marked && delay >= target) {
      s.gathered += fair_gain(p, path) * bytes;
    } else if (!marked) {
      raise(p, path, cc, s, ack, delay, target);
    } else {
      s.fast = false;
      s.clear_bytes = 0;
      s.decrease_bytes += p.fair_decrease * bytes;
      if (delay >= target) cut(p, path, cc, s, ack.now_ps, target);
    }
    const double period = p.adjust_rtt * path.base_rtt_ps;
    const bool due = static_cast<double>(ack.now_ps - s.adjust_ps) >= period;
    if (due || s.received_bytes > p.adjust_packets * path.packet_bytes) {
      adjust(p, path, cc, s, ack, due);
    }
  }

  static void on_loss(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t now,
                      bool timeout) {
    s.ignored_bytes += path.packet_bytes;
    s.fast = false;
    s.clear_bytes = 0;
    if (!timeout) {
      s.adapt_wanted = true;
      if (quick_adapt(p, path, cc, s, now, true, 0.0, true)) return;
    }
    bound(p, path, cc, cc.window_bytes - path.packet_bytes);
  }

 private:
  static double most(const P& p, const CcPath& path) {
    return std::max(p.max_window_bdp * path.bdp_bytes(), path.packet_bytes);
  }
  static double scale_a(const CcPath& path) { return path.bdp_bytes() / 150000.0; }
  static double fair_gain(const P& p, const CcPath& path) {
    return p.fair_increase_packets * path.packet_bytes * scale_a(path);
  }
  static void bound(const P& p, const CcPath& path, CcState& cc, double window) {
    cc.window_bytes = std::clamp(window, path.packet_bytes, most(p, path));
  }

  static void raise(const P& p, const CcPath& path, CcState& cc, S& s, const CcAck& ack,
                    double delay, double target) {
    const double bytes = ack.acked_bytes;
    s.clear_bytes = delay <= p.clear_delay_ps ? s.clear_bytes + bytes : 0.0;
    s.fast = s.clear_bytes > 0 && (s.fast || s.clear_bytes > cc.window_bytes);
    if (s.fast) {
      if (!uses_window(ack, cc.window_bytes)) return;
      bound(p, path, cc, cc.window_bytes + bytes * p.fast_increase * scale_a(path));
      return;
    }
    // alpha = 4 a b MTU / target, times how far below the target
    const double gain = p.alpha * scale_a(path) * (target / 12e6) * path.packet_bytes / target;
    s.gathered += gain * bytes * (target - delay);
  }

  static void cut(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t now,
                  double target) {
    if (s.average_ps <= target) return;
    if (static_cast<double>(now - s.decrease_ps) <= path.base_rtt_ps) return;
    const double keep = 1.0 - p.gamma * (s.average_ps - target) / s.average_ps;
    bound(p, path, cc, cc.window_bytes * std::max(keep, p.max_md_jump));
    s.decrease_ps = now;
  }

  static void adjust(const P& p, const CcPath& path, CcState& cc, S& s, const CcAck& ack,
                     bool period_over) {
    double window = cc.window_bytes;
    if (uses_window(ack, window)) {
      window += s.gathered / cc.window_bytes;
      if (period_over) window += p.eta_packets * path.packet_bytes * scale_a(path);
    }
    window -= s.decrease_bytes * cc.window_bytes / path.bdp_bytes();
    if (period_over) s.adjust_ps = ack.now_ps;
    bound(p, path, cc, window);
    s.gathered = s.decrease_bytes = s.received_bytes = 0;
  }

  // True if the window was set, or what this answers was in flight when it was.
  static bool quick_adapt(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t now,
                          bool marked, double delay, bool loss) {
    const double target = p.target_delay_rtt * path.base_rtt_ps;
    bool done = false;
    if (s.ignored_bytes < s.ignore_bytes && marked) {
      done = true;
    } else if (s.adapt_ps == kNever || now >= s.adapt_ps) {
      const bool late = p.quick_adapt_delay > 0 && delay > p.quick_adapt_delay * target;
      const double gate = most(p, path) / static_cast<double>(
          std::uint64_t{1} << static_cast<int>(p.quick_adapt_gate));
      if (s.adapt_ps != kNever && (s.adapt_wanted || loss || late) && s.delivered_bytes < gate) {
        bound(p, path, cc, s.delivered_bytes);
        s.ignore_bytes = s.in_flight_bytes;
        s.ignored_bytes = 0;
        s.adapt_wanted = false;
        done = true;
      }
      s.delivered_bytes = 0;
      s.adapt_ps = later(now, path.base_rtt_ps + target);
    }
    if (done) s.gathered = s.decrease_bytes = s.received_bytes = 0;
    return done;
  }
};

}  // namespace railweave::pkt
