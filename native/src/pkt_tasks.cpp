// The task graph: what may be sent when. Chunks of a stream go out one after another; a chunk also
// waits for chunks of its predecessor streams. Tasks wait for tasks.
#include <algorithm>

#include "pkt_sim.hpp"

namespace railweave::pkt {

void Sim::start_tasks() {
  const std::size_t n = tasks_.rounds.size();
  tasks_left_ = static_cast<std::uint32_t>(n);
  for (std::uint32_t t = 0; t < n; ++t)
    if (task_waits_[t] == 0) release_task(t, 0);
}

void Sim::release_task(std::uint32_t task, Ps when) {
  wheel_.push(std::max(when, tasks_.start_ps[task]) + tasks_.delay_ps[task], tag(Ev::task), task);
}

void Sim::begin_task(std::uint32_t task) {
  task_start[task] = now_;
  const auto first = static_cast<std::uint32_t>(tasks_.task_stream[task]);
  const auto last = static_cast<std::uint32_t>(tasks_.task_stream[task + 1]);
  task_undelivered_[task] = task_unsent_[task] = last - first;
  if (first == last || tasks_.rounds[task] == 0) {
    task_undelivered_[task] = task_unsent_[task] = 0;
    task_over(task, 1);
    task_over(task, 0);
    return;
  }
  for (std::uint32_t s = first; s < last; ++s) try_chunk(s);
}

// Plans the stream's next chunk if all that it waits for has happened.
void Sim::try_chunk(std::uint32_t stream) {
  const std::uint32_t task = stream_task_[stream];
  const std::uint32_t k = chunks_posted_[stream];
  if (chunk_pending_[stream] || task_start[task] == kNever || k >= tasks_.rounds[task]) return;
  if (k > chunks_sent_[stream]) return;
  for (std::uint64_t i = tasks_.pred_ptr[stream]; i < tasks_.pred_ptr[stream + 1]; ++i) {
    const std::uint32_t lag = tasks_.pred_lag[i];
    if (k >= lag && chunks_delivered_[tasks_.pred_stream[i]] < k - lag + 1) return;
  }
  chunk_pending_[stream] = 1;
  const Ps delay = tasks_.chunk_delay_ps[stream];
  if (delay == 0) on_chunk(stream);
  else wheel_.push(now_ + delay, tag(Ev::chunk), stream);
}

void Sim::on_chunk(std::uint32_t stream) {
  chunk_pending_[stream] = 0;
  const std::uint32_t k = chunks_posted_[stream]++;
  if (k == 0) stream_start[stream] = now_;
  if (!message_start.empty()) message_start[message_first[stream] + k] = now_;
  const auto first = static_cast<std::uint32_t>(stream_flow_[stream]);
  const auto last = static_cast<std::uint32_t>(stream_flow_[stream + 1]);
  if (first == last) {  // nothing to send over: it is there already
    wheel_.push(now_ + 1, tag(Ev::local), stream);
    return;
  }
  record.note(now_, Trace::message_posted, 0, kNone, first, k);
  for (std::uint32_t f = first; f < last; ++f) post(f);
}

void Sim::on_local(std::uint32_t stream) {
  const std::uint32_t sent = ++chunks_sent_[stream];
  const std::uint32_t task = stream_task_[stream];
  if (sent == tasks_.rounds[task] && --task_unsent_[task] == 0) task_over(task, 1);
  deliver_chunks(stream, sent);
  try_chunk(stream);
}

void Sim::chunk_sent(std::uint32_t stream) {
  std::uint32_t least = kNone;
  for (std::uint64_t f = stream_flow_[stream]; f < stream_flow_[stream + 1]; ++f)
    least = std::min(least, messages_sent_[f]);
  if (least == chunks_sent_[stream]) return;
  chunks_sent_[stream] = least;
  const std::uint32_t task = stream_task_[stream];
  if (least < tasks_.rounds[task]) return try_chunk(stream);
  if (--task_unsent_[task] == 0) task_over(task, 1);
}

void Sim::chunk_delivered(std::uint32_t stream) {
  std::uint32_t least = kNone;
  for (std::uint64_t f = stream_flow_[stream]; f < stream_flow_[stream + 1]; ++f)
    least = std::min(least, receivers[f].delivered);
  deliver_chunks(stream, least);
}

void Sim::deliver_chunks(std::uint32_t stream, std::uint32_t least) {
  if (least == chunks_delivered_[stream]) return;
  if (!message_finish.empty())
    for (std::uint32_t k = chunks_delivered_[stream]; k < least; ++k)
      message_finish[message_first[stream] + k] = now_;
  const std::uint32_t before = chunks_delivered_[stream];
  chunks_delivered_[stream] = least;
  record.note(now_, Trace::message_done, 0, kNone, static_cast<std::uint32_t>(stream_flow_[stream]),
              least);
  const std::uint32_t task = stream_task_[stream];
  for (std::uint64_t i = stream_succ_ptr_[stream]; i < stream_succ_ptr_[stream + 1]; ++i)
    try_chunk(stream_succ_[i]);
  if (least == tasks_.rounds[task]) stream_finish[stream] = now_;
  if (!stream_limit_.empty() && before < stream_limit_[stream] && least >= stream_limit_[stream])
    ended_short(stream);
  if (least < tasks_.rounds[task]) return;
  if (--task_undelivered_[task] == 0) task_over(task, 0);
}

// All of a task is sent (kind 1) or delivered (kind 0): tells those who wait for that.
void Sim::task_over(std::uint32_t task, int kind) {
  if (kind == 0) {
    task_finish[task] = now_;
    --tasks_left_;
  }
  for (std::uint64_t i = succ_ptr_[task]; i < succ_ptr_[task + 1]; ++i)
    if (succ_kind_[i] == kind && --task_waits_[succ_task_[i]] == 0) release_task(succ_task_[i], now_);
}

}  // namespace railweave::pkt
