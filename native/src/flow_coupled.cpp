#include "flow_coupled.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace railweave::flow {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::int32_t kLook = 16;  // rounds until a first look for a leap
}  // namespace

Coupled::Coupled(const CoupledInput& in)
    : task(in.task),
      first_flow(in.first_flow),
      streams(static_cast<std::int32_t>(in.bytes.size())),
      rounds(in.rounds),
      rows_(in.rows) {
  const auto n = static_cast<std::size_t>(streams);
  for (const std::int32_t lag : in.lag) depth_ = std::max(depth_, lag + 1);
  for (const double b : in.bytes) largest_ = std::max(largest_, b);
  order_streams(in);
  delay_.assign(n, 0.0);
  latency_.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    latency_[position_[i]] = in.latency[i];
    if (!in.delay.empty()) delay_[position_[i]] = in.delay[i];
  }
  build_edges(in);
  merge_links(in);
  zeros_.assign(n, 0.0);
  step_time_.assign(n, 0.0);
}

// Streams are kept in an order in which every lag-0 predecessor comes before its successors.
void Coupled::order_streams(const CoupledInput& in) {
  const auto n = static_cast<std::size_t>(streams);
  std::vector<std::int32_t> waits(n, 0), first(n + 1, 0), after;
  for (std::size_t i = 0; i < n; ++i)
    for (auto e = in.pred_ptr[i]; e < in.pred_ptr[i + 1]; ++e)
      if (in.lag[e] == 0) ++waits[i], ++first[in.pred[e] + 1];
  for (std::size_t i = 0; i < n; ++i) first[i + 1] += first[i];
  after.resize(static_cast<std::size_t>(first[n]));
  std::vector<std::int32_t> fill(first.begin(), first.end() - 1);
  for (std::size_t i = 0; i < n; ++i)
    for (auto e = in.pred_ptr[i]; e < in.pred_ptr[i + 1]; ++e)
      if (in.lag[e] == 0) after[fill[in.pred[e]]++] = static_cast<std::int32_t>(i);
  stream_at_.clear();
  stream_at_.reserve(n);
  for (std::size_t i = 0; i < n; ++i)
    if (waits[i] == 0) stream_at_.push_back(static_cast<std::int32_t>(i));
  for (std::size_t head = 0; head < stream_at_.size(); ++head) {
    const std::int32_t i = stream_at_[head];
    for (std::int32_t e = first[i]; e < first[i + 1]; ++e)
      if (--waits[after[e]] == 0) stream_at_.push_back(after[e]);
  }
  if (stream_at_.size() != n)
    throw std::invalid_argument("task " + std::to_string(task) +
                                ": predecessors with lag 0 form a cycle");
  position_.resize(n);
  for (std::size_t p = 0; p < n; ++p) position_[stream_at_[p]] = static_cast<std::int32_t>(p);
}

void Coupled::build_edges(const CoupledInput& in) {
  edge_ptr_.assign(1, 0);
  chain_ = true;
  for (std::int32_t p = 0; p < streams; ++p) {
    const std::int32_t i = stream_at_[p];
    for (auto e = in.pred_ptr[i]; e < in.pred_ptr[i + 1]; ++e)
      edges_.push_back({position_[in.pred[e]], in.lag[e], in.latency[in.pred[e]]});
    edge_ptr_.push_back(static_cast<std::int64_t>(edges_.size()));
    chain_ = chain_ && edge_ptr_[p + 1] - edge_ptr_[p] == 1 && edges_.back().lag == 1;
  }
  std::vector<std::int32_t> from(edges_.size()), lag(edges_.size());
  for (std::size_t e = 0; e < edges_.size(); ++e) from[e] = edges_[e].from, lag[e] = edges_[e].lag;
  bool single = edges_.size() == static_cast<std::size_t>(streams);
  for (std::int32_t p = 0; p < streams && single; ++p) single = edge_ptr_[p + 1] == p + 1;
  if (single) ring_ = Ring(from, lag);
  if (!chain_) return;
  chain_from_.resize(edges_.size());
  chain_latency_.resize(edges_.size());
  for (std::int32_t p = 0; p < streams; ++p) {
    chain_from_[p] = edges_[p].from;
    if (chain_from_[p] != p - 1) chain_breaks_.push_back(p);
  }
  // Far from a plain ring the fix-ups would cost more than they save.
  if (static_cast<std::int64_t>(chain_breaks_.size()) * 4 > streams + 8) chain_ = false;
}

void Coupled::merge_links(const CoupledInput& in) {
  std::int32_t high = -1;
  for (const std::int32_t l : rows_.link) high = std::max(high, l);
  std::vector<std::int32_t> slot(static_cast<std::size_t>(high + 1), -1);
  stream_slot_.resize(rows_.link.size());
  for (std::int32_t i = 0; i < streams; ++i) {
    const double share = largest_ > 0.0 ? in.bytes[i] / largest_ : 0.0;
    for (auto e = rows_.ptr[i]; e < rows_.ptr[i + 1]; ++e) {
      std::int32_t& s = slot[rows_.link[e]];
      if (s < 0) {
        s = static_cast<std::int32_t>(var_link_.size());
        var_link_.push_back(rows_.link[e]);
        var_weight_.push_back(0.0);
      }
      stream_slot_[e] = s;
      var_weight_[s] += share * rows_.weight[e];
    }
  }
  potential_.resize(var_link_.size());
}

void Coupled::start(double at) {
  origin_ = at;
  const std::size_t size = static_cast<std::size_t>(depth_) * static_cast<std::size_t>(streams);
  state_.round = state_.head = 0;
  state_.sent.assign(size, -kInf);  // rounds before the first: nothing to wait for
  base_ = snapshot_ = state_;
  segments_.clear();
}

double Coupled::grid(double x) const {
  return quantum_ > 0.0 && std::isfinite(x) ? std::nearbyint(x / quantum_) * quantum_ : x;
}

// A grid fine enough that every time of the run is an exact double. Chosen once, by the first
// rates: later rates only make the run a little coarser or finer than the optimum.
void Coupled::choose_grid() {
  double longest = 0.0;
  const std::vector<double>& t = segments_.front().chunk_time;
  for (std::int32_t i = 0; i < streams; ++i)
    if (std::isfinite(t[i])) longest = std::max(longest, t[i] + latency_[i] + delay_[i]);
  if (longest <= 0.0) return;
  int exponent = 0;
  // As many hops as a chunk can have on its way from the first round to the last.
  const double hops = static_cast<double>(rounds) * ring_.hops_a_round() + streams;
  std::frexp(longest * hops, &exponent);
  quantum_ = std::ldexp(1.0, exponent - 52);
  for (std::int32_t i = 0; i < streams; ++i) delay_[i] = grid(delay_[i]);
  for (Edge& e : edges_) e.latency = grid(e.latency);
  if (chain_)
    for (std::int32_t i = 0; i < streams; ++i) chain_latency_[i] = edges_[i].latency;
}

void Coupled::set_rates(double at, const Solver& solver, double level, Interrupt& interrupt) {
  shares_links = false;
  for (std::size_t s = 0; s < var_link_.size(); ++s) {
    const std::int32_t l = var_link_[s];
    const bool alone = solver.active_on(l) <= 1;
    shares_links = shares_links || !alone;
    const double others = alone ? 0.0 : solver.use(l) - level * var_weight_[s];
    potential_[s] = var_weight_[s] > 0.0
                        ? std::max(level, (solver.capacity(l) - others) / var_weight_[s])
                        : kInf;
  }
  Segment seg{segments_.empty() ? -kInf : at - origin_, {}};
  seg.chunk_time.resize(static_cast<std::size_t>(streams));
  for (std::int32_t p = 0; p < streams; ++p) {
    const std::int32_t i = stream_at_[p];
    double rate = kInf;
    for (auto e = rows_.ptr[i]; e < rows_.ptr[i + 1]; ++e)
      rate = std::min(rate, potential_[stream_slot_[e]]);
    seg.chunk_time[p] = largest_ > 0.0 ? largest_ / rate : 0.0;
  }
  if (segments_.empty()) {
    segments_.push_back(std::move(seg));
    choose_grid();
  } else {
    bool same = true;
    const std::vector<double>& old = segments_.back().chunk_time;
    for (std::int32_t p = 0; p < streams && same; ++p)
      same = grid(seg.chunk_time[p]) == old[p] ||
             std::abs(seg.chunk_time[p] - old[p]) <= 1e-12 * old[p];
    if (same) return;
    // Commit to what is past, forget what was simulated beyond it.
    restart_from_base();
    if (!stalled_) advance_to(at - origin_, true, interrupt);
    segments_.push_back(std::move(seg));
    drop_old_segments();
  }
  end_ = kInf;
  stalled_ = false;
  for (double& t : segments_.back().chunk_time) {
    t = grid(t);
    stalled_ = stalled_ || t == kInf;
  }
  for (std::int32_t p = 0; p < streams; ++p)
    step_time_[p] = segments_.back().chunk_time[p] + delay_[p];
  period_ = 0.0;
  ring_stale_ = true;
  restart_from_base();
}

void Coupled::restart_from_base() {
  state_ = base_;
  snapshot_ = state_;
  mismatch_ = 0;
  next_leap_ = 0;
  leap_wait_ = kLook;
  steady_ = segments_.size() == 1;
}

void Coupled::drop_old_segments() {
  if (base_.round == 0) return;
  const double* sent = base_.sent.data() + row_offset(base_, 0);
  const double low = *std::min_element(sent, sent + streams);
  std::size_t drop = 0;
  while (drop + 1 < segments_.size() && segments_[drop + 1].from <= low) ++drop;
  segments_.erase(segments_.begin(), segments_.begin() + static_cast<std::ptrdiff_t>(drop));
}

double Coupled::run(double horizon, Interrupt& interrupt) {
  end_ = kInf;
  if (stalled_) return kInf;
  advance_to(horizon - origin_, false, interrupt);
  if (state_.round < rounds) return kInf;
  end_ = origin_ + *std::max_element(last(), last() + streams);
  return end_ <= horizon ? end_ : kInf;
}

double Coupled::progress(std::int32_t stream, double now) const {
  const std::int32_t p = position_[stream];
  const double t = now - origin_;
  const double from = base_.round > 0 ? base_.sent[row_offset(base_, 0) + p] : 0.0;
  if (state_.round <= base_.round || t <= from) return base_.round;
  const double to = last()[p];
  if (t >= to) return state_.round;
  return base_.round + (state_.round - base_.round) * ((t - from) / (to - from));
}

}  // namespace railweave::flow
