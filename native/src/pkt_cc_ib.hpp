// InfiniBand congestion control: InfiniBand Architecture Specification, annex A10 (release 1.2.1
// on), the channel adapter's side.
//
// A BECN raises the index CCTI into the congestion control table by ccti_increase, up to
// ccti_limit; each ccti_timer lowers it by one, down to ccti_min. The table holds the injection
// rate delay: how long to wait after a packet, in times of that packet. It is generated here:
//   delay(i) = ird_step * i, so that the rate is line rate / (1 + ird_step * i).
// Simplified: one index a queue pair (the annex allows one a service level); real tables hold
// 14-bit multipliers with a 2-bit shift, which this linear rule does not round to; the timer is
// off while the index is at its least, and starts with the BECN that raises it.
#pragma once
#include <span>

#include "pkt_cc_util.hpp"

namespace railweave::pkt {

struct IbCcParams {
  double ccti_increase = 0, ccti_limit = 0, ccti_min = 0;
  double ccti_timer_ps = 0;
  double ird_step = 0;

  static std::span<const CcField<IbCcParams>> fields() {
    using P = IbCcParams;
    static constexpr CcField<P> all[] = {
        {"ccti_increase", &P::ccti_increase, 1, 1, 255},
        {"ccti_limit", &P::ccti_limit, 1, 0, 65535},
        {"ccti_min", &P::ccti_min, 1, 0, 65535},
        {"ccti_timer_s", &P::ccti_timer_ps, kPsPerSecond, 1e-9, 1e3},
        {"ird_step", &P::ird_step, 1, 0, 1e6},
    };
    return all;
  }
};

struct IbCcState {
  double index;
};

struct IbCc : Reaction<IbCcParams, IbCcState> {
  using P = IbCcParams;
  using S = IbCcState;

  static void start(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t) {
    set(p, path, cc, s, p.ccti_min);
  }

  static void on_cnp(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t now) {
    set(p, path, cc, s, s.index + p.ccti_increase);
    if (cc.timer_ps == kNever && s.index > p.ccti_min) cc.timer_ps = later(now, p.ccti_timer_ps);
  }

  static void on_timer(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t now) {
    set(p, path, cc, s, s.index - 1);
    cc.timer_ps = s.index > p.ccti_min ? later(now, p.ccti_timer_ps) : kNever;
  }

 private:
  static void set(const P& p, const CcPath& path, CcState& cc, S& s, double index) {
    s.index = std::clamp(index, p.ccti_min, std::max(p.ccti_limit, p.ccti_min));
    cc.rate_Bps = path.line_rate_Bps / (1.0 + p.ird_step * s.index);
  }
};

}  // namespace railweave::pkt
