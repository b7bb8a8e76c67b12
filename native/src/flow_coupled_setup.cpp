// Building a coupled task: the order of its streams, who waits for whom, and the links they load.
#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "flow_coupled.hpp"

namespace railweave::flow {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
}  // namespace

Coupled::Coupled(const CoupledInput& in)
    : task(in.task),
      first_flow(in.first_flow),
      streams(static_cast<std::int32_t>(in.bytes.size())),
      rounds(in.rounds),
      front_(graph_) {
  const auto n = static_cast<std::size_t>(streams);
  graph_.streams = streams;
  graph_.rounds = rounds;
  for (const std::int32_t lag : in.lag) graph_.depth = std::max(graph_.depth, lag + 1);
  for (const double b : in.bytes) largest_ = std::max(largest_, b);
  order_streams(in);
  graph_.delay.assign(n, 0.0);
  if (!in.delay.empty())
    for (std::size_t i = 0; i < n; ++i) graph_.delay[position_[i]] = in.delay[i];
  build_edges(in);
  merge_links(in);
  zeros_.assign(n, 0.0);
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
  graph_.edge_ptr.assign(1, 0);
  std::vector<std::int32_t> from, lag;
  for (std::int32_t p = 0; p < streams; ++p) {
    const std::int32_t i = stream_at_[p];
    for (auto e = in.pred_ptr[i]; e < in.pred_ptr[i + 1]; ++e) {
      graph_.edges.push_back({position_[in.pred[e]], in.lag[e], in.latency[in.pred[e]]});
      from.push_back(graph_.edges.back().from);
      lag.push_back(in.lag[e]);
    }
    graph_.edge_ptr.push_back(static_cast<std::int64_t>(graph_.edges.size()));
  }
  graph_.fill_followers();
  single_ = graph_.depth <= 2 && from.size() == static_cast<std::size_t>(streams);
  for (std::int32_t p = 0; p < streams && single_; ++p) single_ = graph_.edge_ptr[p + 1] == p + 1;
  if (!single_) return;
  ring_ = Ring(from, lag);
  from_ = from;
  lag_.assign(lag.begin(), lag.end());
  chain_ = *std::min_element(lag.begin(), lag.end()) == 1;
  for (std::int32_t p = 0; p < streams; ++p)
    if (from[p] != p - 1) chain_breaks_.push_back(p);
  // Far from a plain ring the fix-ups would cost more than they save.
  if (static_cast<std::int64_t>(chain_breaks_.size()) * 4 > streams + 8) chain_ = false;
}

void Coupled::merge_links(const CoupledInput& in) {
  rows_ = in.rows;
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
  // Which streams cross each link, by their place in the graph.
  const std::size_t slots = var_link_.size();
  slot_ptr_.assign(slots + 1, 0);
  for (const std::int32_t s : stream_slot_) ++slot_ptr_[s + 1];
  for (std::size_t s = 0; s < slots; ++s) slot_ptr_[s + 1] += slot_ptr_[s];
  slot_stream_.resize(stream_slot_.size());
  std::vector<std::int64_t> fill(slot_ptr_.begin(), slot_ptr_.end() - 1);
  for (std::int32_t i = 0; i < streams; ++i)
    for (auto e = rows_.ptr[i]; e < rows_.ptr[i + 1]; ++e)
      slot_stream_[fill[stream_slot_[e]]++] = position_[i];
  potential_.assign(slots, 0.0);
  stale_.assign(slots, 0);
  shared_.assign(slots, 0);
  slow_.assign(static_cast<std::size_t>(streams), 0);
}

void Coupled::start(double at) {
  const auto n = static_cast<std::size_t>(streams);
  origin_ = at;
  base_.round = base_.head = 0;
  // Rounds before the first: nothing to wait for.
  base_.sent.assign(static_cast<std::size_t>(graph_.depth) * n, -kInf);
  state_ = snapshot_ = base_;
  found_time_.assign(n, 0.0);
  chunk_time_.assign(n, 0.0);
  step_time_.assign(n, 0.0);
  started_ = taken_ = in_front_ = ahead_ = false;
  for (std::size_t i = 0; i < n; ++i) {
    slow_[i] = 1;
    slow_streams_.push_back(static_cast<std::int32_t>(i));
  }
  for (std::size_t s = 0; s < var_link_.size(); ++s) mark(static_cast<std::int32_t>(s));
}

}  // namespace railweave::flow
