#include "flow_exact.hpp"

#include <algorithm>
#include <limits>

#include "flow_sim.hpp"

namespace railweave::flow {

ExactTask::ExactTask(const Input& in)
    : task(in.task),
      first_flow(in.first_flow),
      streams(static_cast<std::int32_t>(in.latency.size())),
      rounds(in.rounds),
      latency_(in.latency.begin(), in.latency.end()),
      delay_(in.delay.begin(), in.delay.end()),
      pred_ptr_(in.pred_ptr.begin(), in.pred_ptr.end()) {
  const auto n = static_cast<std::size_t>(streams);
  delay_.resize(n, 0.0);
  next_ptr_.assign(n + 1, 0);
  for (std::size_t e = 0; e < in.pred.size(); ++e) {
    pred_.push_back({in.pred[e], in.lag[e]});
    ++next_ptr_[in.pred[e] + 1];
  }
  for (std::size_t i = 0; i < n; ++i) next_ptr_[i + 1] += next_ptr_[i];
  next_.resize(in.pred.size());
  std::vector<std::int64_t> fill(next_ptr_.begin(), next_ptr_.end() - 1);
  for (std::size_t i = 0; i < n; ++i)
    for (auto e = pred_ptr_[i]; e < pred_ptr_[i + 1]; ++e)
      next_[fill[pred_[e].stream]++] = static_cast<std::int32_t>(i);
  count_.assign(n, 0);
  open_.assign(n, 0);
}

void ExactTask::start(double at) {
  origin_ = at;
  sent_.resize(static_cast<std::size_t>(streams) * static_cast<std::size_t>(rounds));
}

double ExactTask::open(std::int32_t stream) {
  constexpr double kNot = std::numeric_limits<double>::quiet_NaN();
  const std::int32_t round = count_[stream];
  if (open_[stream] != 0 || round == rounds) return kNot;
  double at = round > 0 ? sent_at(stream, round - 1) : origin_;
  for (auto e = pred_ptr_[stream]; e < pred_ptr_[stream + 1]; ++e) {
    const Edge& edge = pred_[e];
    const std::int32_t need = round - edge.lag;
    if (need < 0) continue;
    if (count_[edge.stream] <= need) return kNot;
    at = std::max(at, sent_at(edge.stream, need) + latency_[edge.stream]);
  }
  open_[stream] = 1;
  return at + delay_[stream];
}

void ExactTask::sent(std::int32_t stream, double at) {
  open_[stream] = 0;
  sent_[static_cast<std::size_t>(stream) * static_cast<std::size_t>(rounds) +
        static_cast<std::size_t>(count_[stream]++)] = at;
}

void Sim::start_exact(std::int32_t task, double at) {
  ExactTask& e = *exact_[exact_of_task_[task]];
  e.start(at);
  for (std::int32_t i = 0; i < e.streams; ++i) open_chunk(e, i);
}

void Sim::open_chunk(ExactTask& e, std::int32_t stream) {
  const double at = e.open(stream);
  if (!(at >= 0.0)) return;
  queue_.push_back({at, -1 - (e.first_flow + stream)});
  std::push_heap(queue_.begin(), queue_.end(), after);
}

void Sim::start_chunk(std::int32_t flow, double at) {
  const Rows& rows = solver_->rows();
  if (bytes_[flow] == 0.0 || rows.ptr[flow] == rows.ptr[flow + 1]) {
    delivered_at_once_ += bytes_[flow];
    chunk_sent(flow, at);
    return;
  }
  flow_started_[flow] = now_;
  solver_->add(flow, bytes_[flow]);
  changed_ = true;
}

void Sim::chunk_sent(std::int32_t flow, double at) {
  ExactTask& e = *exact_[exact_of_task_[task_of_[flow]]];
  const std::int32_t stream = flow - e.first_flow;
  e.sent(stream, at);
  if (e.rounds_sent(stream) == e.rounds) {
    flow_sent(flow, at);
  } else {
    open_chunk(e, stream);
  }
  for (const std::int32_t next : e.followers(stream)) open_chunk(e, next);
}

}  // namespace railweave::flow
