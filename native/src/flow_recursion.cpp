// The max-plus recursion of a coupled task, round by round, and the jump over its periodic regime.
#include <algorithm>
#include <cmath>
#include <limits>

#include "flow_coupled.hpp"

namespace railweave::flow {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::int32_t kLook = 16;
}  // namespace

double Coupled::latest(const State& s) const {
  const double* sent = s.sent.data() + row_offset(s, 0);
  return *std::max_element(sent, sent + streams);
}

void Coupled::step_general(const double* before, double* next) {
  const double* time = step_time_.data();
  for (std::int32_t i = 0; i < streams; ++i) {
    double start = before[i];
    for (const Graph::Edge& edge : graph_.into(i)) {
      if (edge.lag > state_.round) continue;
      // The round being computed has age -1: a lag of 0 reads from it.
      const double* from = edge.lag == 0 ? next : row(edge.lag - 1);
      start = std::max(start, from[edge.from] + edge.latency);
    }
    next[i] = start + time[i];
  }
}

// A ring: neighbours in memory, two at a time in a vector register; the few seams are redone.
void Coupled::step_chain(const double* before, double* next) const {
  const double* latency = edge_latency_.data();
  const double* time = step_time_.data();
  for (std::int32_t i = 1; i < streams; ++i) {
    const double arrived = before[i - 1] + latency[i];
    next[i] = (before[i] > arrived ? before[i] : arrived) + time[i];
  }
  for (const std::int32_t i : chain_breaks_)
    next[i] = std::max(before[i], before[from_[i]] + latency[i]) + time[i];
}

void Coupled::step_single(const double* before, double* next) const {
  const double* time = step_time_.data();
  for (std::int32_t i = 0; i < streams; ++i) {
    const double arrived = (lag_[i] != 0 ? before : next)[from_[i]] + edge_latency_[i];
    next[i] = std::max(before[i], arrived) + time[i];
  }
}

void Coupled::step() {
  const double* before = state_.round == 0 ? zeros_.data() : row(0);
  double* next = row(graph_.depth - 1);
  if (chain_ && state_.round > 0) {
    step_chain(before, next);
  } else if (single_ && state_.round > 0) {
    step_single(before, next);
  } else {
    step_general(before, next);
  }
  state_.head = (state_.head + graph_.depth - 1) % graph_.depth;
  ++state_.round;
}

// Is the present state the snapshot's, all times later by the same shift? Looks first where the
// last comparison failed: mostly it fails there again, at the cost of one look.
bool Coupled::repeats(std::int32_t& mismatch, double& shift) const {
  const std::size_t n = static_cast<std::size_t>(streams);
  const double* now = last();
  const double* then = snapshot_.sent.data() + row_offset(snapshot_, 0);
  shift = now[0] - then[0];
  if (now[mismatch] - then[mismatch] != shift) return false;
  const std::int32_t deep = std::max(1, graph_.depth - 1);
  for (std::int32_t age = 0; age < deep; ++age) {
    const double* a = state_.sent.data() + row_offset(state_, age);
    const double* b = snapshot_.sent.data() + row_offset(snapshot_, age);
    for (std::size_t i = 0; i < n; ++i)
      if (a[i] - b[i] != shift) {
        mismatch = static_cast<std::int32_t>(i);
        return false;
      }
  }
  return true;
}

void Coupled::skip_periods(double horizon) {
  const std::int32_t length = state_.round - snapshot_.round;
  double shift = 0.0;
  if (length <= 0 || snapshot_.round < graph_.depth || !repeats(mismatch_, shift)) return;
  std::int64_t times = (rounds - state_.round) / length;
  if (horizon < kInf && shift > 0.0) {
    const double high = *std::max_element(last(), last() + streams);
    times = std::min(times, static_cast<std::int64_t>(std::max(0.0, (horizon - high) / shift)));
  }
  if (times <= 0) return;
  const double add = shift * static_cast<double>(times);
  for (double& t : state_.sent) t += add;
  state_.round += static_cast<std::int32_t>(times * length);
  snapshot_ = state_;
}

std::int32_t Coupled::inspect_ring(const double* sent) {
  if (ring_stale_) ring_.set_times(step_time_, edge_latency_);
  ring_stale_ = false;
  return ring_.inspect(sent);
}

// A ring whose chunks no longer hold each other up, but at a few streams, goes on in one step: to
// the last round that is over for every stream by the horizon.
bool Coupled::leap(double horizon) {
  if (!ring_.usable() || state_.round == 0 || state_.round < next_leap_) return false;
  const std::int32_t followed = inspect_ring(row(0));
  std::int32_t count = std::min(rounds - state_.round, ring_.reach());
  if (static_cast<std::int64_t>(followed) * 4 > streams) count = 0;
  if (horizon < kInf && count > 0) {
    const std::vector<double> before(row(0), row(0) + streams);
    const auto fits = [&](std::int32_t by) {
      std::copy(before.begin(), before.end(), row(0));
      ring_.jump(row(0), by);
      return latest(state_) <= horizon;
    };
    std::int32_t low = 0, high = count + 1;  // low fits, high does not
    if (fits(count)) low = count;
    while (high - low > 1 && low < count) {
      const std::int32_t middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
    if (low < count) fits(low);
    count = low;
  } else {
    ring_.jump(row(0), count);
  }
  if (count == 0) {
    next_leap_ = state_.round + leap_wait_;
    leap_wait_ *= 2;
    return false;
  }
  state_.round += count;
  snapshot_ = state_;
  return true;
}

// Rounds forward until all are done, or until one is not over for every stream by the horizon;
// the base becomes the one before.
void Coupled::advance_to(double horizon, Interrupt& interrupt) {
  const bool commit = horizon < kInf;
  snapshot_ = state_;
  mismatch_ = 0;
  next_leap_ = 0;
  leap_wait_ = kLook;
  for (;;) {
    if (commit) {
      if (state_.round > 0 && latest(state_) > horizon) return;
      base_ = state_;
    }
    if (state_.round >= rounds) return;
    if (commit || state_.round % kLook == 0) {
      interrupt.tick(streams / 4 + 1);
      if (leap(horizon)) continue;
      skip_periods(horizon);
      if (state_.round >= rounds) continue;
      if (state_.round >= 2 * snapshot_.round + graph_.depth) snapshot_ = state_;
    }
    step();
  }
}

}  // namespace railweave::flow
