// Failure: a queue pair whose retries are used up stops. Its stream can then deliver no more than
// what has arrived, which may hold up streams coupled to it and tasks that wait. A run goes on as
// long as anything else can be delivered.
#include <algorithm>

#include "pkt_sim.hpp"

namespace railweave::pkt {

void Sim::fail(std::uint32_t flow) {
  Sender& s = senders[flow];
  if (s.flags & kFailed) return;
  s.flags |= kFailed;
  retry_deadline_[flow] = kNever;
  failed_flows.push_back(flow);
  record.note(now_, Trace::failed, 0, kNone, flow, s.acked);
  give_up_grants(flow);
  if (task_dead_.empty()) {
    task_dead_.assign(tasks_.rounds.size(), 0);
    task_open_.assign(tasks_.rounds.size(), 0);
    stream_limit_.assign(stream_task_.size(), kNone);
  }
  limit_streams(stream_task_[s.stream]);
}

// How many chunks each stream of the task can still deliver, now that queue pairs have failed.
void Sim::limit_streams(std::uint32_t task) {
  if (task_dead_[task] == 2) return;
  const std::uint32_t rounds = tasks_.rounds[task];
  const std::uint64_t first = tasks_.task_stream[task], last = tasks_.task_stream[task + 1];
  for (std::uint64_t s = first; s < last; ++s) stream_limit_[s] = rounds;
  std::vector<std::uint32_t> work, sendable(last - first, rounds);
  for (const std::uint32_t f : failed_flows) {
    const std::uint32_t s = senders[f].stream;
    if (stream_task_[s] != task) continue;
    const std::uint32_t arrived = receivers[f].message_end / senders[f].packets_a_message - 1;
    stream_limit_[s] = std::min(stream_limit_[s], arrived);
    sendable[s - first] = std::min(sendable[s - first], messages_sent_[f]);
    work.push_back(s);
  }
  while (!work.empty()) {
    const std::uint32_t p = work.back();
    work.pop_back();
    for (std::uint64_t i = stream_succ_ptr_[p]; i < stream_succ_ptr_[p + 1]; ++i) {
      const std::uint32_t s = stream_succ_[i];
      std::uint32_t most = rounds;
      for (std::uint64_t j = tasks_.pred_ptr[s]; j < tasks_.pred_ptr[s + 1]; ++j)
        most = std::min(most, stream_limit_[tasks_.pred_stream[j]] + tasks_.pred_lag[j]);
      sendable[s - first] = std::min(sendable[s - first], most);
      if (most >= stream_limit_[s]) continue;
      stream_limit_[s] = most;
      work.push_back(s);
    }
  }
  std::uint32_t open = 0;
  bool short_of = false, all_sent = true;
  for (std::uint64_t s = first; s < last; ++s) {
    short_of = short_of || stream_limit_[s] < rounds;
    all_sent = all_sent && sendable[s - first] == rounds;
    open += chunks_delivered_[s] < stream_limit_[s];
  }
  if (!short_of) return;  // all has arrived: only the answers were lost
  task_dead_[task] = 1;
  task_open_[task] = open;
  for (std::uint64_t i = succ_ptr_[task]; i < succ_ptr_[task + 1]; ++i)
    if (succ_kind_[i] == 0 || !all_sent) strand(succ_task_[i]);
  if (open != 0) return;
  task_dead_[task] = 2;
  --tasks_left_;
}

// The task will never begin, and so none that waits for it.
void Sim::strand(std::uint32_t task) {
  std::vector<std::uint32_t> work{task};
  while (!work.empty()) {
    const std::uint32_t t = work.back();
    work.pop_back();
    if (task_dead_[t] != 0 || task_waits_[t] == 0) continue;
    task_dead_[t] = 2;
    --tasks_left_;
    for (std::uint64_t i = succ_ptr_[t]; i < succ_ptr_[t + 1]; ++i) work.push_back(succ_task_[i]);
  }
}

// The stream of a failed task has delivered all that it can.
void Sim::ended_short(std::uint32_t stream) {
  const std::uint32_t task = stream_task_[stream];
  if (task_dead_[task] != 1 || --task_open_[task] != 0) return;
  task_dead_[task] = 2;
  --tasks_left_;
}

}  // namespace railweave::pkt
