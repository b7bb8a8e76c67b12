// DCQCN: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015), and the
// variant of adapter firmware (its published parameter list, names rpg_* and dce_tcp_*).
//
// Two things differ between them and are parameters here:
// - alpha_on_cnp 1 (paper): a CNP cuts the rate by alpha/2, then alpha = (1-g) alpha + g; without
//   CNP alpha = (1-g) alpha after each alpha period. 0 (firmware): alpha moves once a period, up
//   if a CNP came within it, down if not.
// - rate_decrease_period: the firmware cuts at most once in it; a CNP that comes sooner cuts when
//   it ends. 0 (paper): every CNP cuts.
// The target follows the rate at a cut always (clamp_target 1), or only if the rate had risen
// since the last one, by the byte counter, or by the timer with clamp_target_after_timer.
// Increase: F rounds of fast recovery, then additive, then hyper increase once both timer and byte
// counter have passed F. With the byte counter off (0) it counts as one round behind the timer,
// as in the common simulators.
// Simplified: hyper increase adds one fixed step each round; the firmware's rate on first CNP
// (default off) and its alpha-to-rate shift (default: alpha/2) are left out; a rate within 2^-16
// of the line rate is the line rate. No timer runs at line rate; alpha decays when it is needed.
#pragma once
#include <span>

#include "pkt_cc_util.hpp"

namespace railweave::pkt {

struct DcqcnParams {
  double g = 0;
  double alpha_period_ps = 0;
  double initial_alpha = 0;
  double alpha_on_cnp = 0;
  double min_decrease_fraction = 0;  // one cut leaves at least this much of the rate
  double rate_decrease_period_ps = 0;
  double min_rate_Bps = 0;
  double clamp_target = 0;
  double clamp_target_after_timer = 0;
  double time_reset_ps = 0;
  double byte_reset_bytes = 0;
  double fast_recovery_rounds = 0;
  double rate_ai_Bps = 0;
  double rate_hai_Bps = 0;

  static std::span<const CcField<DcqcnParams>> fields() {
    using P = DcqcnParams;
    static constexpr CcField<P> all[] = {
        {"g", &P::g, 1, 0, 1},
        {"alpha_period_s", &P::alpha_period_ps, kPsPerSecond, 1e-9, 1e3},
        {"initial_alpha", &P::initial_alpha, 1, 0, 1},
        {"alpha_on_cnp", &P::alpha_on_cnp, 1, 0, 1},
        {"min_decrease_fraction", &P::min_decrease_fraction, 1, 0, 1},
        {"rate_decrease_period_s", &P::rate_decrease_period_ps, kPsPerSecond, 0, 1e3},
        {"min_rate_Bps", &P::min_rate_Bps, 1, kAboveZero, kUnbounded},
        {"clamp_target", &P::clamp_target, 1, 0, 1},
        {"clamp_target_after_timer", &P::clamp_target_after_timer, 1, 0, 1},
        {"time_reset_s", &P::time_reset_ps, kPsPerSecond, 1e-9, 1e3},
        {"byte_reset_bytes", &P::byte_reset_bytes, 1, 0, kUnbounded},
        {"fast_recovery_rounds", &P::fast_recovery_rounds, 1, 0, 1e6},
        {"rate_ai_Bps", &P::rate_ai_Bps, 1, 0, kUnbounded},
        {"rate_hai_Bps", &P::rate_hai_Bps, 1, 0, kUnbounded},
    };
    return all;
  }
};

struct DcqcnState {
  double target_Bps;
  double alpha;
  double bytes;                  // sent since the last round of the byte counter
  std::uint64_t alpha_epoch_ps;  // alpha is right up to here
  std::uint64_t cut_allowed_ps;  // no cut before
  std::uint64_t increase_ps;     // next round of the timer; kNever at line rate
  std::uint64_t cut_ps;          // of a CNP that has to wait; kNever: none
  double timer_rounds, byte_rounds;
  enum Rise : std::uint8_t { none, by_bytes, by_timer } last_rise;  // since the last cut
  bool congested;                // a CNP has come once
  bool cnp_in_period;
};

struct Dcqcn : Reaction<DcqcnParams, DcqcnState> {
  using P = DcqcnParams;
  using S = DcqcnState;

  static void start(const P&, const CcPath& path, CcState& cc, S& s, std::uint64_t now) {
    cc.rate_Bps = s.target_Bps = path.line_rate_Bps;
    s.cut_allowed_ps = now;
    s.increase_ps = s.cut_ps = kNever;
  }

  static void on_cnp(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t now) {
    settle_alpha(p, s, now);
    if (now >= s.cut_allowed_ps) {
      cut(p, path, cc, s, now);
    } else {
      s.cut_ps = s.cut_allowed_ps;
    }
    if (p.alpha_on_cnp != 0) {
      s.alpha += p.g * (1.0 - s.alpha);
      s.alpha_epoch_ps = now;
    } else {
      s.cnp_in_period = true;
    }
    arm(cc, s);
  }

  static void on_timer(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t now) {
    if (s.cut_ps <= now) {
      settle_alpha(p, s, now);
      cut(p, path, cc, s, now);
    } else if (s.increase_ps <= now) {
      s.increase_ps = later(s.increase_ps, p.time_reset_ps);
      if (s.increase_ps <= now) s.increase_ps = later(now, p.time_reset_ps);
      s.timer_rounds += 1;
      s.last_rise = S::by_timer;
      increase(p, path, cc, s);
    }
    arm(cc, s);
  }

  static void on_sent(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t,
                      std::uint32_t bytes) {
    if (s.increase_ps == kNever || p.byte_reset_bytes == 0) return;  // nothing to recover
    s.bytes += bytes;
    if (s.bytes < p.byte_reset_bytes) return;
    s.bytes -= p.byte_reset_bytes;
    if (s.bytes >= p.byte_reset_bytes) s.bytes = 0;  // smaller than a packet: one round each
    s.byte_rounds += 1;
    s.last_rise = S::by_bytes;
    increase(p, path, cc, s);
    arm(cc, s);
  }

 private:
  // Whole alpha periods that have passed: only the first can hold a CNP.
  static void settle_alpha(const P& p, S& s, std::uint64_t now) {
    if (!s.congested) {
      s.congested = true;
      s.alpha = p.initial_alpha;
      s.alpha_epoch_ps = now;
      return;
    }
    const auto period = static_cast<std::uint64_t>(p.alpha_period_ps);
    std::uint64_t periods = (now - s.alpha_epoch_ps) / period;
    if (periods == 0) return;
    s.alpha_epoch_ps += periods * period;
    if (s.cnp_in_period) {
      s.alpha += p.g * (1.0 - s.alpha);
      s.cnp_in_period = false;
      --periods;
    }
    s.alpha *= power(1.0 - p.g, periods);
  }

  static void cut(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t now) {
    const bool follow = p.clamp_target != 0 || s.last_rise == S::by_bytes ||
                        (s.last_rise == S::by_timer && p.clamp_target_after_timer != 0);
    if (follow) s.target_Bps = cc.rate_Bps;
    const double keep = std::max(1.0 - s.alpha / 2.0, p.min_decrease_fraction);
    const double floor = std::min(p.min_rate_Bps, path.line_rate_Bps);
    cc.rate_Bps = std::max(cc.rate_Bps * keep, floor);
    s.timer_rounds = s.byte_rounds = s.bytes = 0;
    s.last_rise = S::none;
    s.cut_ps = kNever;
    s.cut_allowed_ps = p.rate_decrease_period_ps > 0 ? later(now, p.rate_decrease_period_ps) : now;
    const bool whole = cc.rate_Bps >= path.line_rate_Bps;  // alpha 0: nothing was cut
    s.increase_ps = whole ? kNever : later(now, p.time_reset_ps);
  }

  static void increase(const P& p, const CcPath& path, CcState& cc, S& s) {
    const double by_time = s.timer_rounds;
    const double by_bytes = p.byte_reset_bytes > 0 ? s.byte_rounds : by_time - 1;
    const double line = path.line_rate_Bps;
    if (std::max(by_time, by_bytes) > p.fast_recovery_rounds) {
      const bool hyper = std::min(by_time, by_bytes) > p.fast_recovery_rounds;
      s.target_Bps = std::min(s.target_Bps + (hyper ? p.rate_hai_Bps : p.rate_ai_Bps), line);
    }
    cc.rate_Bps = (s.target_Bps + cc.rate_Bps) / 2.0;
    if (cc.rate_Bps >= line * (1.0 - 1.0 / 65536)) {
      cc.rate_Bps = s.target_Bps = line;
      s.increase_ps = kNever;
    }
  }

  static void arm(CcState& cc, const S& s) { cc.timer_ps = std::min(s.increase_ps, s.cut_ps); }
};

}  // namespace railweave::pkt
