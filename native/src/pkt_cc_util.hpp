// What the congestion control units share: named parameters, time and small arithmetic.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "pkt_cc.hpp"

namespace railweave::pkt {

inline constexpr double kPsPerSecond = 1e12;
inline constexpr double kUnbounded = std::numeric_limits<double>::max();
inline constexpr double kAboveZero = std::numeric_limits<double>::min();

// A parameter under its public name; `scale` turns the public unit into the one kept inside.
template <class P>
struct CcField {
  const char* name;
  double P::*member;
  double scale;
  double low, high;  // of the public value, both allowed
};

// A moment that much later: never the present one, never beyond what can be counted.
inline std::uint64_t later(std::uint64_t now_ps, double delay_ps) {
  const double bounded = std::clamp(delay_ps, 1.0, 4e18);
  return now_ps + static_cast<std::uint64_t>(bounded);
}

// base^n by squaring: the same on every machine.
inline double power(double base, std::uint64_t n) {
  double result = 1.0;
  for (; n > 0 && result > 0.0; n >>= 1, base *= base) {
    if (n & 1) result *= base;
  }
  return result;
}

// Cube root of x >= 0 by Newton's method from a power of two; exact cubes come out exactly or
// within one unit in the last place.
inline double cube_root(double x) {
  if (!(x > 0.0)) return 0.0;
  int exponent = 0;
  std::frexp(x, &exponent);
  double y = std::ldexp(1.0, exponent >= 0 ? (exponent + 2) / 3 : -(-exponent / 3));
  for (int round = 0; round < 8; ++round) y = (2.0 * y + x / (y * y)) / 3.0;
  return y;
}

// A window that is not used says nothing about the network: it may grow only while at least half
// of it is in flight (RFC 7661, and what Linux does in slow start).
inline bool uses_window(const CcAck& ack, double window_bytes) {
  return 2.0 * (ack.in_flight_bytes + ack.acked_bytes) >= window_bytes;
}

// "Once a window": after a reaction, waits until all that had been sent by the next
// acknowledgement has arrived.
struct OncePerWindow {
  std::uint64_t end_psn = 0;
  bool open = false;     // a reaction took place and its window has not passed
  bool end_known = false;

  void react() { open = true, end_known = false; }
  void react(std::uint64_t next_psn) { open = end_known = true, end_psn = next_psn; }
  void see(const CcAck& ack) {
    if (!open) return;
    if (!end_known) {
      end_psn = ack.next_psn, end_known = true;
    } else if (ack.acked_psn >= end_psn) {
      open = false;
    }
  }
};

}  // namespace railweave::pkt
