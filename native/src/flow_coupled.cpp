// A coupled task between the solver and its recursion: rates in, chunk times and the end out.
#include "flow_coupled.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace railweave::flow {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
// Of the slowing-down by chance meetings, what is left once streams have found their rhythm, and
// the part of a link's capacity from which on that goes up to all. Fitted to rings simulated chunk
// by chunk (benchmarks/coupled_forms.py), not derived.
constexpr double kMeeting = 2.0 / 3.0;
constexpr double kCrowded = 0.9;
}  // namespace

double Coupled::grid(double x) const {
  return quantum_ > 0.0 && std::isfinite(x) ? std::nearbyint(x / quantum_) * quantum_ : x;
}

// A grid fine enough that every time of the run is an exact double. Chosen once, by the first
// rates: later rates only make the run a little coarser or finer than the optimum.
void Coupled::choose_grid() {
  double longest = 0.0;
  for (std::int32_t i = 0; i < streams; ++i) {
    double latency = 0.0;
    for (const Graph::Edge& e : graph_.into(i)) latency = std::max(latency, e.latency);
    const double hop = found_time_[i] + graph_.delay[i] + latency;
    if (std::isfinite(hop)) longest = std::max(longest, hop);
  }
  if (longest > 0.0) {
    int exponent = 0;
    // As many hops as a chunk can have on its way from the first round to the last.
    const double hops = static_cast<double>(rounds) * ring_.hops_a_round() + streams;
    std::frexp(longest * hops, &exponent);
    quantum_ = std::ldexp(1.0, exponent - 52);
  }
  for (double& d : graph_.delay) d = grid(d);
  for (Graph::Edge& e : graph_.edges) e.latency = grid(e.latency);
  front_.set_quantum(quantum_);
  if (!single_) return;
  edge_latency_.resize(static_cast<std::size_t>(streams));
  for (std::int32_t i = 0; i < streams; ++i) edge_latency_[i] = graph_.edges[i].latency;
}

void Coupled::mark(std::int32_t slot) {
  if (stale_[slot] != 0) return;
  stale_[slot] = 1;
  stale_slots_.push_back(slot);
}

// Rate of the largest chunk's stream on one of the links while it sends. Streams of other coupled
// tasks send with pauses: as they settle into a common rhythm their chunks meet less often than
// chance would have it, until the link fills up and there is no way round each other.
double Coupled::potential(const Solver& solver, std::int32_t slot,
                          std::int32_t steady_groups) const {
  const double weight = var_weight_[slot];
  if (weight <= 0.0) return kInf;
  const std::int32_t link = var_link_[slot];
  const double beside_all = solver.open_level(link, first_flow, weight, solver.links());
  const double beside_steady = solver.open_level(link, first_flow, weight, steady_groups);
  if (beside_all == beside_steady) return beside_all;
  const double own = started_ && period_ > 0.0 ? std::min(largest_ / period_, beside_all)
                                               : beside_all;
  const double used = 1.0 - weight * (beside_all - own) / solver.capacity(link);
  const double full = std::clamp((used - kCrowded) / (1.0 - kCrowded), 0.0, 1.0);
  const double meeting = kMeeting + (1.0 - kMeeting) * full;
  return 1.0 / (meeting / beside_all + (1.0 - meeting) / beside_steady);
}

bool Coupled::refresh(const Solver& solver, std::int32_t steady_groups) {
  const bool shared = sharing_ > 0;
  for (const std::int32_t s : stale_slots_) {
    stale_[s] = 0;
    const std::uint8_t shares = solver.active_on(var_link_[s]) > 1 ? 1 : 0;
    sharing_ += shares - shared_[s];
    shared_[s] = shares;
    const double before = potential_[s];
    potential_[s] = potential(solver, s, steady_groups);
    if (potential_[s] == before) continue;
    for (auto e = slot_ptr_[s]; e < slot_ptr_[s + 1]; ++e) {
      const std::int32_t p = slot_stream_[e];
      if (slow_[p] == 0) slow_streams_.push_back(p);
      slow_[p] = 1;
    }
  }
  stale_slots_.clear();
  bool changed = false;
  for (const std::int32_t p : slow_streams_) {
    slow_[p] = 0;
    const std::int32_t i = stream_at_[p];
    double rate = kInf;
    for (auto e = rows_.ptr[i]; e < rows_.ptr[i + 1]; ++e)
      rate = std::min(rate, potential_[stream_slot_[e]]);
    const double time = grid(largest_ > 0.0 ? largest_ / rate : 0.0);
    const double old = found_time_[p];
    if (started_ && (time == old || std::abs(time - old) <= 1e-12 * old)) continue;
    found_time_[p] = time;
    changed = true;
  }
  slow_streams_.clear();
  if (!started_) {
    choose_grid();
    for (double& t : found_time_) t = grid(t);
    started_ = changed = true;
  }
  if (changed) period_ = cycle_time();
  return changed || shared != (sharing_ > 0);
}

double Coupled::cycle_time() {
  if (!ring_.usable()) return cycle_.of(graph_, found_time_);
  double longest = 0.0, lap = 0.0;
  for (std::int32_t i = 0; i < streams; ++i) {
    const double own = found_time_[i] + graph_.delay[i];
    longest = std::max(longest, own);
    lap += own + edge_latency_[i];
  }
  return std::max(longest, lap / ring_.tokens());
}

double Coupled::average_rate() const {
  return sharing_ > 0 && period_ > 0.0 && period_ < kInf ? largest_ / period_ : kInf;
}

void Coupled::take_rates(double at, Interrupt& interrupt) {
  if (taken_ && chunk_time_ == found_time_) return;
  if (taken_ && at > origin_) {
    bring_base_to(at - origin_, interrupt);
    front_.change(at - origin_, chunk_time_, found_time_);
  }
  chunk_time_ = found_time_;
  taken_ = true;
  stalled_ = false;
  slowest_ = 0;
  for (std::int32_t i = 0; i < streams; ++i) {
    step_time_[i] = chunk_time_[i] + graph_.delay[i];
    stalled_ = stalled_ || chunk_time_[i] == kInf;
    if (step_time_[i] > step_time_[slowest_]) slowest_ = i;
  }
  ring_stale_ = true;
  ahead_ = false;
  end_ = kInf;
}

// Has the streams stand where they are at that moment.
void Coupled::bring_base_to(double at, Interrupt& interrupt) {
  const auto rounds_to = [&](double from) { return period_ > 0.0 ? (at - from) / period_ : kInf; };
  if (in_front_ && !stalled_) {
    // Far ahead it is quicker to go on round by round, if all streams can be brought to one round.
    const std::int32_t spread = front_.foremost() - front_.rounds_sent(front_.hindmost());
    if (rounds_to(front_.now()) > 2.0 * spread + 64.0) {
      front_.align(state_, step_time_);
      if (latest(state_) <= at) {
        base_ = state_;
        in_front_ = false;
      }
    }
  }
  if (!in_front_) {
    if (!stalled_) {
      state_ = base_;
      advance_to(at, interrupt);
    }
    if (!stalled_ && base_.round > 0) {
      if (!load_front_at(at)) step_front_to(at, interrupt);
    } else {
      front_.load(base_, chunk_time_);
    }
    in_front_ = true;
  }
  front_.run(at, chunk_time_, interrupt);
}

// Where a ring could leap from the base, each stream's place at that moment can be told from there.
bool Coupled::load_front_at(double at) {
  if (!ring_.usable()) return false;
  const double* sent = base_.sent.data() + row_offset(base_, 0);
  inspect_ring(sent);
  // No stream can be further ahead of the last than there are chunks on their way.
  const std::int32_t most = std::min(ring_.tokens() + 1, rounds - base_.round);
  if (most > ring_.reach()) return false;
  ring_.look(sent, most);
  std::vector<std::int32_t> count(static_cast<std::size_t>(streams));
  for (std::int32_t i = 0; i < streams; ++i) {
    std::int32_t low = 0, high = most + 1;  // low is sent by then, high is not
    while (high - low > 1) {
      const std::int32_t middle = low + (high - low) / 2;
      (ring_.sends(sent, i, middle) <= at ? low : high) = middle;
    }
    count[i] = base_.round + low;
  }
  const auto when = [&](std::int32_t stream, std::int32_t round) {
    const std::int32_t ahead = round - (base_.round - 1);
    return ahead >= 0 ? ring_.sends(sent, stream, ahead)
                      : base_.sent[row_offset(base_, -ahead) + static_cast<std::size_t>(stream)];
  };
  front_.load(at, count, when, chunk_time_);
  return true;
}

// The same round by round, keeping of each stream what its followers still wait for.
void Coupled::step_front_to(double at, Interrupt& interrupt) {
  const auto depth = static_cast<std::size_t>(graph_.depth), n = static_cast<std::size_t>(streams);
  std::vector<std::vector<double>> kept(n);
  std::vector<std::int32_t> count(n, base_.round);
  std::vector<std::uint8_t> passed(n, 0);
  state_ = base_;
  for (std::int32_t age = std::min(graph_.depth, base_.round) - 1; age >= 0; --age)
    for (std::size_t i = 0; i < n; ++i) kept[i].push_back(row(age)[i]);
  for (std::size_t left = n; left > 0 && state_.round < rounds;) {
    step();
    interrupt.tick(streams / 4 + 1);
    const double* now = row(0);
    for (std::int32_t i = 0; i < streams; ++i) {
      if (passed[i] != 0) continue;
      if (now[i] > at) {
        passed[i] = 1;
        --left;
        continue;
      }
      ++count[i];
      std::vector<double>& k = kept[i];
      k.push_back(now[i]);
      if (k.size() < 4 * depth + 16) continue;
      bool wanted = false;
      for (const std::int32_t next : graph_.followers(i)) wanted = wanted || passed[next] != 0;
      if (!wanted) k.erase(k.begin(), k.end() - static_cast<std::ptrdiff_t>(depth) - 1);
    }
  }
  const auto when = [&](std::int32_t stream, std::int32_t round) {
    const std::vector<double>& k = kept[stream];
    return k[k.size() - static_cast<std::size_t>(count[stream] - round)];
  };
  front_.load(at, count, when, chunk_time_);
}

double Coupled::least_end() const {
  if (stalled_) return kNever;
  if (ahead_) return end_;
  if (!in_front_) return origin_ + (base_.round == 0 ? rounds * step_time_[slowest_] : 0.0);
  const std::int32_t last = front_.hindmost();
  return origin_ + std::max(front_.least_end(slowest_, chunk_time_[slowest_]),
                            front_.least_end(last, chunk_time_[last]));
}

void Coupled::look_ahead(Interrupt& interrupt) {
  if (in_front_) {
    front_.align(state_, step_time_);
  } else {
    state_ = base_;
  }
  advance_to(kInf, interrupt);
  end_ = origin_ + latest(state_);
  ahead_ = true;
}

double Coupled::run(double horizon, Interrupt& interrupt) {
  if (stalled_) return kInf;
  if (!ahead_) {
    if (least_end() * (1.0 - 1e-12) > horizon) return kInf;
    look_ahead(interrupt);
  }
  return end_ <= horizon ? end_ : kInf;
}

double Coupled::progress(std::int32_t stream, double now) const {
  const std::int32_t p = position_[stream];
  const double t = now - origin_;
  double from = 0.0, done = 0.0;
  if (in_front_) {
    from = front_.now();
    done = front_.progress(p, chunk_time_[p]);
  }
  if (stalled_ || t <= from) return done;
  const double to = ahead_ ? last()[p] : from + (rounds - done) * period_;
  if (t >= to) return rounds;
  return done + (rounds - done) * ((t - from) / (to - from));
}

}  // namespace railweave::flow
