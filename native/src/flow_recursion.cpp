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

// When a chunk that starts then has been sent, through every change of rate on its way.
double Coupled::send_end(std::int32_t i, double start) const {
  std::size_t j = segments_.size() - 1;
  while (j > 0 && segments_[j].from > start) --j;
  double left = 1.0;
  for (; j + 1 < segments_.size(); ++j) {
    const double time = segments_[j].chunk_time[i], until = segments_[j + 1].from;
    if (start + left * time <= until) return grid(start + left * time);
    if (time < kInf) left -= (until - start) / time;
    start = until;
  }
  return grid(start + std::max(0.0, left) * segments_.back().chunk_time[i]);
}

void Coupled::step_general(const double* before, double* next) {
  const double changed = segments_.back().from;
  const bool mixed = !steady_;
  const double* time = segments_.back().chunk_time.data();
  for (std::int32_t i = 0; i < streams; ++i) {
    double start = before[i];
    for (auto e = edge_ptr_[i]; e < edge_ptr_[i + 1]; ++e) {
      const Edge& edge = edges_[e];
      if (edge.lag > state_.round) continue;
      // The round being computed has age -1: a lag of 0 reads from it.
      const double* from = edge.lag == 0 ? next : row(edge.lag - 1);
      start = std::max(start, from[edge.from] + edge.latency);
    }
    start += delay_[i];
    next[i] = mixed && start < changed ? send_end(i, start) : start + time[i];
  }
}

// A ring: neighbours in memory, two at a time in a vector register; the few seams are redone.
void Coupled::step_chain(const double* before, double* next) const {
  const double* latency = chain_latency_.data();
  const double* time = step_time_.data();
  for (std::int32_t i = 1; i < streams; ++i) {
    const double arrived = before[i - 1] + latency[i];
    next[i] = (before[i] > arrived ? before[i] : arrived) + time[i];
  }
  for (const std::int32_t i : chain_breaks_)
    next[i] = std::max(before[i], before[chain_from_[i]] + latency[i]) + time[i];
}

void Coupled::step() {
  const double* before = state_.round == 0 ? zeros_.data() : row(0);
  double* next = row(depth_ - 1);
  if (chain_ && steady_ && state_.round > 0) {
    step_chain(before, next);
  } else {
    step_general(before, next);
  }
  state_.head = (state_.head + depth_ - 1) % depth_;
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
  const std::int32_t deep = std::max(1, depth_ - 1);
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
  if (length <= 0 || snapshot_.round < depth_ || !repeats(mismatch_, shift)) return;
  period_ = shift / length;
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

// A ring whose chunks no longer hold each other up, but at a few streams, goes on in one step: to
// the end, or when committing to the last round that is over for every stream by the horizon.
bool Coupled::leap(double horizon, bool commit) {
  constexpr std::int32_t kNear = 64;  // rounds at a time where streams have to be followed
  if (!ring_.usable() || state_.round == 0 || state_.round < next_leap_) return false;
  if (ring_stale_) {
    std::vector<double> latency(static_cast<std::size_t>(streams));
    for (std::int32_t i = 0; i < streams; ++i) latency[i] = edges_[i].latency;
    ring_.set_times(step_time_, latency);
    ring_stale_ = false;
  }
  const std::int32_t followed = ring_.inspect(row(0));
  std::int32_t count = std::min(rounds - state_.round, ring_.reach());
  if (horizon < kInf && followed > 0) count = std::min(count, kNear);
  if (static_cast<std::int64_t>(followed) * 4 > streams) count = 0;
  if (commit && horizon < kInf) {
    const std::vector<double> before(row(0), row(0) + streams);
    const auto fits = [&](std::int32_t by) {
      std::copy(before.begin(), before.end(), row(0));
      ring_.jump(row(0), by);
      return *std::max_element(row(0), row(0) + streams) <= horizon;
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

// Rounds forward until all are done or every stream is past the horizon; when committing, the
// base becomes the last round that was over for every stream by then.
void Coupled::advance_to(double horizon, bool commit, Interrupt& interrupt) {
  const std::int32_t first = state_.round;
  const double from = first > 0 ? *std::max_element(last(), last() + streams) : 0.0;
  while (state_.round < rounds) {
    if (commit || state_.round % kLook == 0) {
      if (state_.round > 0 && horizon < kInf) {
        const auto [low, high] = std::minmax_element(last(), last() + streams);
        if (commit && *high > horizon) break;
        if (!commit && *low > horizon && state_.round - first >= kLook) break;
      }
      if (commit) base_ = state_;
      if (!steady_ && *std::min_element(last(), last() + streams) >= segments_.back().from) {
        steady_ = true;  // no chunk starts under earlier rates any more
        snapshot_ = state_;
      }
      if (steady_) {
        interrupt.tick(streams / 4 + 1);
        if (leap(horizon, commit)) continue;
        skip_periods(horizon);
        if (state_.round >= rounds) break;
        if (state_.round >= 2 * snapshot_.round + depth_) snapshot_ = state_;
      }
      interrupt.tick(streams / 4 + 1);
    }
    step();
  }
  if (state_.round > first && period_ <= 0.0)
    period_ = (*std::max_element(last(), last() + streams) - from) / (state_.round - first);
}

}  // namespace railweave::flow
