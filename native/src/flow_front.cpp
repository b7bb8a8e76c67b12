#include "flow_front.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace railweave::flow {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::size_t kTidy = 32;  // history may be so much longer than twice what is needed
}  // namespace

double Front::grid(double x) const {
  return quantum_ > 0.0 && std::isfinite(x) ? std::nearbyint(x / quantum_) * quantum_ : x;
}

void Front::resize() {
  const auto n = static_cast<std::size_t>(graph_.streams);
  count_.resize(n);
  history_.resize(n);
  open_.resize(n);
  since_.resize(n);
  left_.resize(n);
  ends_.resize(n);
  heap_.resize(n);
  root_ = HeapForest::kNone;
}

void Front::load(const State& state, const std::vector<double>& chunk_time) {
  const auto n = static_cast<std::size_t>(graph_.streams);
  const auto when = [&](std::int32_t stream, std::int32_t round) {
    const std::int32_t age = state.round - 1 - round;
    return state.sent[static_cast<std::size_t>((state.head + age) % graph_.depth) * n +
                      static_cast<std::size_t>(stream)];
  };
  const double* latest = state.sent.data() + static_cast<std::size_t>(state.head) * n;
  const double at = state.round > 0 ? *std::max_element(latest, latest + n) : 0.0;
  load(at, std::vector<std::int32_t>(n, state.round), when, chunk_time);
}

std::int32_t Front::needed(std::int32_t stream) const {
  std::int32_t first = count_[stream] - graph_.depth;
  for (const std::int32_t next : graph_.followers(stream))
    first = std::min(first, count_[next] - graph_.depth + 1);
  return std::max(first, 0);
}

// When the stream's chunk of that round starts; NaN while it waits for one that is not sent yet.
double Front::start_of(std::int32_t stream, std::int32_t round) const {
  double at = round > 0 ? history_[stream].sent.back() : 0.0;
  for (const Graph::Edge& e : graph_.into(stream)) {
    const std::int32_t need = round - e.lag;
    if (need < 0) continue;
    const History& h = history_[e.from];
    const auto index = static_cast<std::size_t>(need - h.first);
    if (index >= h.sent.size()) return std::numeric_limits<double>::quiet_NaN();
    at = std::max(at, h.sent[index] + e.latency);
  }
  return at + graph_.delay[stream];
}

void Front::push(std::int32_t stream, double at) {
  ends_[stream] = at;
  heap_.push(root_, stream, ends_.data());
}

void Front::open(std::int32_t stream, double chunk_time) {
  if (open_[stream] != 0 || count_[stream] == graph_.rounds) return;
  const double at = start_of(stream, count_[stream]);
  if (!(at >= 0.0)) return;
  open_[stream] = 1;
  since_[stream] = at;
  left_[stream] = 1.0;
  push(stream, at + chunk_time);
}

void Front::run(double until, const std::vector<double>& chunk_time, Interrupt& interrupt) {
  while (root_ != HeapForest::kNone && ends_[root_] <= until) {
    const std::int32_t i = root_;
    const double at = ends_[i];
    heap_.remove(root_, i, ends_.data());
    open_[i] = 0;
    foremost_ = std::max(foremost_, ++count_[i]);
    History& h = history_[i];
    h.sent.push_back(at);
    open(i, chunk_time[i]);
    for (const std::int32_t next : graph_.followers(i)) open(next, chunk_time[next]);
    const std::int32_t first = std::max(needed(i), h.first);
    if (h.sent.size() > 2 * static_cast<std::size_t>(count_[i] - first) + kTidy) {
      h.sent.erase(h.sent.begin(), h.sent.begin() + (first - h.first));
      h.first = first;
    }
    interrupt.tick(1);
  }
  now_ = std::max(now_, until);
}

void Front::change(double at, const std::vector<double>& before,
                   const std::vector<double>& after) {
  for (std::int32_t i = 0; i < graph_.streams; ++i) {
    if (open_[i] == 0 || before[i] == after[i]) continue;
    heap_.remove(root_, i, ends_.data());
    if (since_[i] < at) {
      if (before[i] < kInf) left_[i] = std::max(0.0, left_[i] - (at - since_[i]) / before[i]);
      since_[i] = at;
    }
    push(i, left_[i] > 0.0 ? grid(since_[i] + left_[i] * after[i]) : since_[i]);
  }
}

void Front::align(State& state, const std::vector<double>& step_time) const {
  const std::int32_t depth = graph_.depth;
  const auto n = static_cast<std::size_t>(graph_.streams);
  // A chunk sent already; before its history begins nobody asks for it.
  const auto known = [&](std::int32_t i, std::int32_t round) {
    const std::int32_t index = round - history_[i].first;
    return index >= 0 ? history_[i].sent[static_cast<std::size_t>(index)] : -kInf;
  };
  const std::int32_t low = count_[static_cast<std::size_t>(hindmost())];
  state.round = low;
  state.head = 0;
  state.sent.assign(static_cast<std::size_t>(depth) * n, -kInf);
  for (std::int32_t age = 0; age < std::min(depth, low); ++age)
    for (std::int32_t i = 0; i < graph_.streams; ++i)
      state.sent[static_cast<std::size_t>(age) * n + i] = known(i, low - 1 - age);
  const std::vector<double> zeros(n, 0.0);
  std::vector<const double*> lagged(static_cast<std::size_t>(depth));  // rows by lag
  const std::int32_t target = std::min(foremost_ + 1, graph_.rounds);
  for (; state.round < target; ++state.round) {
    const auto row = [&](std::int32_t age) {
      return state.sent.data() + static_cast<std::size_t>((state.head + age) % depth) * n;
    };
    double* next = row(depth - 1);
    const double* before = state.round == 0 ? zeros.data() : row(0);
    for (std::int32_t lag = 0; lag < depth; ++lag) lagged[lag] = lag == 0 ? next : row(lag - 1);
    for (std::int32_t i = 0; i < graph_.streams; ++i) {
      if (count_[i] > state.round) {
        next[i] = known(i, state.round);
        continue;
      }
      if (count_[i] == state.round && open_[i] != 0) {
        next[i] = ends_[i];
        continue;
      }
      double start = before[i];
      for (const Graph::Edge& e : graph_.into(i))
        if (e.lag <= state.round) start = std::max(start, lagged[e.lag][e.from] + e.latency);
      next[i] = start + step_time[i];
    }
    state.head = (state.head + depth - 1) % depth;
  }
}

std::int32_t Front::hindmost() const {
  return static_cast<std::int32_t>(std::min_element(count_.begin(), count_.end()) -
                                   count_.begin());
}

double Front::least_end(std::int32_t stream, double chunk_time) const {
  const std::int32_t left = graph_.rounds - count_[stream];
  if (left == 0) return history_[stream].sent.back();
  const double own = chunk_time + graph_.delay[stream];
  return open_[stream] != 0 ? ends_[stream] + (left - 1) * own : now_ + (left - 1) * own;
}

double Front::progress(std::int32_t stream, double chunk_time) const {
  if (open_[stream] == 0) return count_[stream];
  double part = 1.0 - left_[stream];
  if (since_[stream] < now_ && chunk_time > 0.0 && chunk_time < kInf)
    part += (now_ - since_[stream]) / chunk_time;
  return count_[stream] + std::clamp(part, 0.0, 1.0);
}

}  // namespace railweave::flow
