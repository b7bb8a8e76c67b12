#include <algorithm>
#include <cmath>

#include "flow_graph.hpp"

namespace railweave::flow {

void Graph::fill_followers() {
  const auto n = static_cast<std::size_t>(streams);
  next_ptr.assign(n + 1, 0);
  for (const Edge& e : edges) ++next_ptr[e.from + 1];
  for (std::size_t i = 0; i < n; ++i) next_ptr[i + 1] += next_ptr[i];
  next.resize(edges.size());
  std::vector<std::int64_t> fill(next_ptr.begin(), next_ptr.end() - 1);
  for (std::int32_t i = 0; i < streams; ++i)
    for (const Edge& e : into(i)) next[fill[e.from]++] = i;
}

// Peels off streams that wait for none left; what remains waits in circles.
bool CycleTime::has_circles(const Graph& graph) {
  const auto n = static_cast<std::size_t>(graph.streams);
  std::vector<std::int64_t> waits(n);
  order_.clear();
  for (std::int32_t i = 0; i < graph.streams; ++i) {
    for (const Graph::Edge& e : graph.into(i)) waits[i] += e.from != i ? 1 : 0;
    if (waits[i] == 0) order_.push_back(i);
  }
  for (std::size_t head = 0; head < order_.size(); ++head)
    for (const std::int32_t next : graph.followers(order_[head]))
      if (next != order_[head] && --waits[next] == 0) order_.push_back(next);
  if (order_.size() < n) return true;
  for (std::int32_t i = 0; i < graph.streams; ++i)
    for (const Graph::Edge& e : graph.into(i))
      if (e.from == i) return true;  // an edge to itself, with its latency
  return false;
}

// The largest mean over the circles that the policy forms, and a stream on that circle.
double CycleTime::best_circle(const Graph& graph, const std::vector<double>& chunk_time,
                              std::int32_t& root) {
  double best = 0.0;
  mark_.assign(static_cast<std::size_t>(graph.streams), -1);
  for (std::int32_t first = 0; first < graph.streams; ++first) {
    std::int32_t at = first;
    while (mark_[at] < 0) {
      mark_[at] = first;
      at = policy_[at] < 0 ? at : graph.edges[policy_[at]].from;
    }
    if (mark_[at] != first) continue;
    double length = 0.0;
    std::int64_t lags = 0;
    const std::int32_t start = at;
    do {
      length += chunk_time[at] + graph.delay[at];
      if (policy_[at] < 0) {
        ++lags;
        break;
      }
      const Graph::Edge& e = graph.edges[policy_[at]];
      length += e.latency;
      lags += e.lag;
      at = e.from;
    } while (at != start);
    const double mean = length / static_cast<double>(std::max<std::int64_t>(1, lags));
    if (mean > best || first == 0) best = mean, root = start;
  }
  return best;
}

bool CycleTime::improve(const Graph& graph, const std::vector<double>& chunk_time, double mean,
                        std::int32_t root) {
  // Values of all that reach the root by the policy, from the root on.
  const auto n = static_cast<std::size_t>(graph.streams);
  mark_.assign(n, 0);
  order_.assign(1, root);
  mark_[root] = 1;
  value_[root] = 0.0;
  for (std::size_t head = 0; head < order_.size(); ++head)
    for (const std::int32_t i : graph.followers(order_[head])) {
      if (mark_[i] != 0 || policy_[i] < 0) continue;
      const Graph::Edge& e = graph.edges[policy_[i]];
      if (e.from != order_[head]) continue;
      mark_[i] = 1;
      value_[i] = value_[e.from] + chunk_time[i] + graph.delay[i] + e.latency - mean * e.lag;
      order_.push_back(i);
    }
  bool better = false;
  for (std::int32_t i = 0; i < graph.streams; ++i) {
    const double own = chunk_time[i] + graph.delay[i];
    for (auto k = graph.edge_ptr[i]; k < graph.edge_ptr[i + 1]; ++k) {
      const Graph::Edge& e = graph.edges[k];
      const double value = value_[e.from] + own + e.latency - mean * e.lag;
      if (value <= value_[i] + 1e-9 * mean || policy_[i] == k) continue;
      value_[i] = value;
      policy_[i] = k;
      better = true;
    }
    if (policy_[i] >= 0 && own > mean * (1.0 + 1e-9)) policy_[i] = -1, better = true;
  }
  return better;
}

double CycleTime::of(const Graph& graph, const std::vector<double>& chunk_time) {
  constexpr int kMost = 64;
  double longest = 0.0;
  for (std::int32_t i = 0; i < graph.streams; ++i)
    longest = std::max(longest, chunk_time[i] + graph.delay[i]);
  if (circles_ < 0) {
    circles_ = has_circles(graph) ? 1 : 0;
    policy_.assign(static_cast<std::size_t>(graph.streams), -1);
    value_.assign(policy_.size(), 0.0);
    for (std::int32_t i = 0; i < graph.streams; ++i)
      if (graph.edge_ptr[i] < graph.edge_ptr[i + 1]) policy_[i] = graph.edge_ptr[i];
  }
  if (circles_ == 0 || !std::isfinite(longest)) return longest;
  double best = longest;
  for (int i = 0; i < kMost; ++i) {
    std::int32_t root = 0;
    const double mean = best_circle(graph, chunk_time, root);
    best = std::max(best, mean);
    if (!improve(graph, chunk_time, mean, root)) break;
  }
  return best;
}

}  // namespace railweave::flow
