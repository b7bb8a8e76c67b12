// All congestion control units behind one set of functions: a profile names the algorithm and
// holds its parameters; each call switches on the kind and is otherwise inlined.
#pragma once
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "pkt_cc.hpp"
#include "pkt_cc_cubic.hpp"
#include "pkt_cc_dcqcn.hpp"
#include "pkt_cc_dctcp.hpp"
#include "pkt_cc_hpcc.hpp"
#include "pkt_cc_ib.hpp"
#include "pkt_cc_none.hpp"
#include "pkt_cc_nscc.hpp"
#include "pkt_cc_swift.hpp"
#include "pkt_cc_timely.hpp"

namespace railweave::pkt {

struct CcProfile {
  CcKind kind = CcKind::none;
  NoParams none;  // of receiver_driven as well
  DcqcnParams dcqcn;
  HpccParams hpcc;
  TimelyParams timely;
  SwiftParams swift;
  DctcpParams dctcp;
  CubicParams cubic;
  NsccParams nscc;
  IbCcParams ib_cc;
};

inline constexpr std::string_view kCcNames[] = {"none",  "dcqcn", "hpcc", "timely",
                                                "swift", "dctcp", "cubic", "nscc",
                                                "receiver_driven", "ib_cc"};

// Calls f(unit, parameters) with the unit of the profile's kind.
template <class Profile, class F>
inline decltype(auto) with_unit(Profile& profile, F&& f) {
  switch (profile.kind) {
    case CcKind::dcqcn: return f(Dcqcn{}, profile.dcqcn);
    case CcKind::hpcc: return f(Hpcc{}, profile.hpcc);
    case CcKind::timely: return f(Timely{}, profile.timely);
    case CcKind::swift: return f(Swift{}, profile.swift);
    case CcKind::dctcp: return f(Dctcp{}, profile.dctcp);
    case CcKind::cubic: return f(Cubic{}, profile.cubic);
    case CcKind::nscc: return f(Nscc{}, profile.nscc);
    case CcKind::ib_cc: return f(IbCc{}, profile.ib_cc);
    case CcKind::none:
    case CcKind::receiver_driven: break;
  }
  return f(NoControl{}, profile.none);
}

template <class Unit>
inline typename Unit::State& cc_own(CcState& cc) {
  using S = typename Unit::State;
  static_assert(sizeof(S) <= kCcStateBytes && alignof(S) <= 8);
  static_assert(std::is_trivially_copyable_v<S> && std::is_trivially_destructible_v<S>);
  return *std::launder(reinterpret_cast<S*>(cc.own));
}

// The line rate and an open window unless the algorithm says otherwise; needed before all others.
inline void cc_start(const CcProfile& profile, const CcPath& path, CcState& cc,
                     std::uint64_t now_ps) {
  with_unit(profile, [&](auto unit, const auto& p) {
    using Unit = decltype(unit);
    cc.rate_Bps = path.line_rate_Bps;
    cc.window_bytes = kNoWindow;
    cc.timer_ps = kNever;
    ::new (static_cast<void*>(cc.own)) typename Unit::State{};
    Unit::start(p, path, cc, cc_own<Unit>(cc), now_ps);
  });
}

inline void cc_on_ack(const CcProfile& profile, const CcPath& path, CcState& cc,
                      const CcAck& ack) {
  with_unit(profile, [&](auto unit, const auto& p) {
    using Unit = decltype(unit);
    Unit::on_ack(p, path, cc, cc_own<Unit>(cc), ack);
  });
}

inline void cc_on_cnp(const CcProfile& profile, const CcPath& path, CcState& cc,
                      std::uint64_t now_ps) {
  with_unit(profile, [&](auto unit, const auto& p) {
    using Unit = decltype(unit);
    Unit::on_cnp(p, path, cc, cc_own<Unit>(cc), now_ps);
  });
}

inline void cc_on_loss(const CcProfile& profile, const CcPath& path, CcState& cc,
                       std::uint64_t now_ps, bool timeout) {
  with_unit(profile, [&](auto unit, const auto& p) {
    using Unit = decltype(unit);
    Unit::on_loss(p, path, cc, cc_own<Unit>(cc), now_ps, timeout);
  });
}

inline void cc_on_timer(const CcProfile& profile, const CcPath& path, CcState& cc,
                        std::uint64_t now_ps) {
  with_unit(profile, [&](auto unit, const auto& p) {
    using Unit = decltype(unit);
    cc.timer_ps = kNever;
    Unit::on_timer(p, path, cc, cc_own<Unit>(cc), now_ps);
  });
}

inline void cc_on_sent(const CcProfile& profile, const CcPath& path, CcState& cc,
                       std::uint64_t now_ps, std::uint32_t bytes) {
  with_unit(profile, [&](auto unit, const auto& p) {
    using Unit = decltype(unit);
    Unit::on_sent(p, path, cc, cc_own<Unit>(cc), now_ps, bytes);
  });
}

// In-band telemetry in every packet.
inline bool needs_telemetry(CcKind kind) { return kind == CcKind::hpcc; }

// By default every packet is acknowledged, not every few.
inline bool wants_every_ack(CcKind kind) {
  switch (kind) {
    case CcKind::hpcc:
    case CcKind::timely:
    case CcKind::swift:
    case CcKind::nscc:
    case CcKind::dctcp: return true;
    default: return false;
  }
}

// Receivers answer marks with notification packets (CNP; BECN on InfiniBand).
inline bool uses_cnp(CcKind kind) { return kind == CcKind::dcqcn || kind == CcKind::ib_cc; }

// Reacts to what was sent, so that the engine need not call cc_on_sent for the others.
inline bool counts_sent(CcKind kind) { return kind == CcKind::dcqcn; }

inline CcKind cc_kind(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < std::size(kCcNames); ++i) {
    if (kCcNames[i] == name) return static_cast<CcKind>(i);
    known += (i > 0 ? ", " : "") + std::string(kCcNames[i]);
  }
  throw std::invalid_argument("congestion control '" + std::string(name) +
                              "' is not known; allowed: " + known);
}

// A profile from exactly the algorithm's parameters by name, in SI units.
// Throws std::invalid_argument naming what is unknown, missing or out of range.
inline CcProfile make_profile(std::string_view name,
                              const std::map<std::string, double>& parameters) {
  CcProfile profile;
  profile.kind = cc_kind(name);
  with_unit(profile, [&](auto, auto& params) {
    const std::string where = "congestion control '" + std::string(name) + "': ";
    std::string names, missing;
    std::size_t found = 0;
    for (const auto& field : params.fields()) {
      names += (names.empty() ? "" : ", ") + std::string(field.name);
      const auto given = parameters.find(field.name);
      if (given == parameters.end()) {
        missing += (missing.empty() ? "" : ", ") + std::string(field.name);
        continue;
      }
      ++found;
      const double value = given->second;
      if (!(value >= field.low && value <= field.high)) {
        char range[160];
        if (field.high < kUnbounded) {
          std::snprintf(range, sizeof range, "%g; allowed: %g to %g", value, field.low, field.high);
        } else {
          std::snprintf(range, sizeof range, "%g; allowed: finite and %s%g", value,
                        field.low == kAboveZero ? "above " : "at least ",
                        field.low == kAboveZero ? 0.0 : field.low);
        }
        throw std::invalid_argument(where + field.name + " is " + range);
      }
      params.*field.member = value * field.scale;
    }
    if (!missing.empty()) throw std::invalid_argument(where + "missing parameters: " + missing);
    if (found == parameters.size()) return;
    for (const auto& [key, value] : parameters) {
      bool known = false;
      for (const auto& field : params.fields()) known = known || key == field.name;
      if (!known) {
        throw std::invalid_argument(where + "unknown parameter '" + key + "'; allowed: " +
                                    (names.empty() ? "none" : names));
      }
    }
  });
  return profile;
}

}  // namespace railweave::pkt
