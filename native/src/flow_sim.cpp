// The event loop: completions and task starts at one instant, then one re-solve.
#include "flow_sim.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace railweave::flow {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
// Instants closer than this, relative to the time passed, are one instant.
constexpr double kInstant = 1e-12;
// Share of the permitted error that one release window may use of a flow's life so far.
constexpr double kWindowShare = 0.5;
constexpr double kUncapped = 1e290;
// Average rates of coupled tasks closer than this (relative) are the same; and turns to get there.
constexpr double kCapStill = 1e-4;
constexpr int kMostTurns = 8;
}  // namespace

void Sim::queue_task(std::int32_t task) {
  state_[task] = State::queued;
  queue_.push_back({std::max(ready_[task], task_not_before_[task]) + task_delay_[task], task});
  std::push_heap(queue_.begin(), queue_.end(), after);
}

void Sim::start_task(std::int32_t task, double at) {
  ++events_;
  state_[task] = State::running;
  task_started_[task] = task_sent_[task] = task_finished_[task] = at;
  const auto begin = flow_ptr_[task], end = flow_ptr_[task + 1];
  flows_left_[task] = static_cast<std::int32_t>(end - begin);
  if (begin == end) {
    task_done(task);
    return;
  }
  if (coupled_of_task_[task] >= 0) {
    start_coupled(task, at);
    return;
  }
  if (exact_of_task_[task] >= 0) {
    start_exact(task, at);
    return;
  }
  const Rows& rows = solver_->rows();
  for (auto f = static_cast<std::int32_t>(begin); f < end; ++f) {
    if (bytes_[f] == 0.0 || rows.ptr[f] == rows.ptr[f + 1]) {
      delivered_at_once_ += bytes_[f];
      flow_sent(f, at);
      continue;
    }
    flow_started_[f] = now_;
    solver_->add(f, bytes_[f]);
    changed_ = true;
  }
}

void Sim::start_coupled(std::int32_t task, double at) {
  Coupled& c = *coupled_[coupled_of_task_[task]];
  c.start(at);
  solver_->set_capacity(links_ + coupled_of_task_[task], kUncapped);
  solver_->add(c.first_flow, -1.0);
  running_coupled_.push_back(coupled_of_task_[task]);
  changed_ = true;
}

void Sim::flow_sent(std::int32_t flow, double at) {
  const std::int32_t task = task_of_[flow];
  flow_finished_[flow] = at + latency_[flow];
  task_sent_[task] = std::max(task_sent_[task], at);
  task_finished_[task] = std::max(task_finished_[task], at + latency_[flow]);
  if (--flows_left_[task] == 0) task_done(task);
}

// The time of delivery is known as soon as the last byte is out, so successors are queued now.
void Sim::task_done(std::int32_t task) {
  state_[task] = State::sent;
  --tasks_left_;
  last_finish_ = std::max(last_finish_, task_finished_[task]);
  for (auto e = succ_ptr_[task]; e < succ_ptr_[task + 1]; ++e) {
    const std::int32_t next = succ_task_[e];
    ready_[next] =
        std::max(ready_[next], succ_kind_[e] == 0 ? task_finished_[task] : task_sent_[task]);
    if (--waits_for_[next] == 0) queue_task(next);
  }
}

void Sim::start_due(double limit) {
  while (!queue_.empty() && queue_.front().at <= limit) {
    std::pop_heap(queue_.begin(), queue_.end(), after);
    const Event e = queue_.back();
    queue_.pop_back();
    if (e.task >= 0) {
      start_task(e.task, e.at);
    } else {
      start_chunk(-1 - e.task, e.at);
    }
  }
}

// Which of the completions after `first` may share its re-solve: each must lie within the window
// as a share of its own flow's life, so that errors do not add up along a chain of short flows.
void Sim::gather_window(double first) {
  const double share = kWindowShare * tolerance_;
  double window = share * first;
  solver_->pop_until(first + window, due_);
  std::sort(due_.begin(), due_.end(), [](const Completion& a, const Completion& b) {
    return a.at != b.at ? a.at < b.at : a.var < b.var;
  });
  std::size_t keep = 0;
  for (; keep < due_.size(); ++keep) {
    const Completion& c = due_[keep];
    const double shorter = std::min(window, share * (c.at - flow_started_[c.var]));
    if (keep > 0 && c.at > first + std::max(shorter, kInstant * first)) break;
    window = shorter;
  }
  for (std::size_t i = keep; i < due_.size(); ++i) solver_->put_back(due_[i]);
  due_.resize(keep);
}

// Ends the flows due at `next`; false if that would take the clock past `until`. With a tolerance
// the whole window is released at its mean instant: what some free too late others free too
// early by the same amount, so the error is of second order. Each flow keeps its own time.
bool Sim::complete_due(double next, double until) {
  window_end_ = next * (1.0 + kInstant);
  if (solver_->next_finish() > window_end_) return true;
  due_.clear();
  double mean = next;
  if (tolerance_ > 0.0) {
    gather_window(next);
    for (const Completion& c : due_) mean += (c.at - next) / static_cast<double>(due_.size());
    if (mean > until) {
      for (const Completion& c : due_) solver_->put_back(c);
      return false;
    }
    window_end_ = std::max(window_end_, due_.back().at);
  } else {
    solver_->pop_until(window_end_, due_);
    for (Completion& c : due_) c.at = next;
  }
  now_ = std::max(now_, mean);
  solver_->set_now(now_);
  for (const Completion& c : due_) {
    solver_->finish(c, now_);
    const double at = std::max(c.at, task_started_[task_of_[c.var]]);
    if (exact_of_task_[task_of_[c.var]] >= 0) {
      chunk_sent(c.var, at);
    } else {
      flow_sent(c.var, at);
    }
    ++events_;
  }
  changed_ = true;
  return true;
}

void Sim::finish_coupled(double limit) {
  std::size_t kept = 0;
  for (const std::int32_t index : running_coupled_) {
    Coupled& c = *coupled_[index];
    if (c.end() > limit) {
      running_coupled_[kept++] = index;
      continue;
    }
    solver_->remove(c.first_flow);
    changed_ = true;
    for (std::int32_t i = 0; i < c.streams; ++i) {
      coupled_delivered_ += bytes_[c.first_flow + i] * c.rounds;
      flow_sent(c.first_flow + i, c.sent(i));
      ++events_;
    }
  }
  running_coupled_.resize(kept);
}

void Sim::mark_coupled() {
  for (const std::int32_t l : solver_->visited()) {
    if (l >= links_) continue;
    for (auto e = link_coupled_ptr_[l]; e < link_coupled_ptr_[l + 1]; ++e)
      if (state_[coupled_[link_coupled_[e].coupled]->task] == State::running)
        coupled_[link_coupled_[e].coupled]->mark(link_coupled_[e].slot);
  }
  solver_->forget_visited();
}

// Caps what coupled tasks load their links with at their average rates, which are less than what
// a chunk gets where streams wait. True if a cap has changed.
bool Sim::cap_coupled() {
  bool changed = false;
  for (const std::int32_t index : running_coupled_) {
    Coupled& c = *coupled_[index];
    if (!c.refresh(*solver_, links_)) continue;
    const double now = solver_->capacity(links_ + index);
    double cap = c.average_rate();
    // Where it is held up by links alone, it needs no cap.
    if (cap >= solver_->rate(c.first_flow) * (1.0 - 1e-9) && now == kUncapped) continue;
    cap = std::min(cap, kUncapped);
    if (std::abs(cap - now) <= kCapStill * now) continue;
    solver_->set_capacity(links_ + index, cap);
    changed = true;
  }
  return changed;
}

// The average rate of a coupled task depends on what others leave it, and the other way round:
// a few turns until both agree.
void Sim::resolve(Interrupt& interrupt) {
  changed_ = false;
  solver_->solve(now_, interrupt);
  if (running_coupled_.empty()) {
    solver_->forget_visited();
    return;
  }
  mark_coupled();
  for (int turn = 0; turn < kMostTurns && cap_coupled(); ++turn) {
    solver_->solve(now_, interrupt);
    mark_coupled();
  }
  for (const std::int32_t index : running_coupled_) {
    coupled_[index]->refresh(*solver_, links_);
    coupled_[index]->take_rates(now_, interrupt);
  }
}

double Sim::next_plain() {
  const double queued = queue_.empty() ? kInf : queue_.front().at;
  return std::min(queued, solver_->next_finish());
}

double Sim::next_event(double horizon, Interrupt& interrupt) {
  double next = next_plain();
  // Those that may end first come first: the others' ends need not be found then.
  std::stable_sort(running_coupled_.begin(), running_coupled_.end(),
                   [this](std::int32_t a, std::int32_t b) {
                     return coupled_[a]->least_end() < coupled_[b]->least_end();
                   });
  for (const std::int32_t index : running_coupled_)
    next = std::min(next, coupled_[index]->run(std::min(horizon, next), interrupt));
  return next;
}

bool Sim::close_run(double until) {
  if (last_finish_ > until) {
    now_ = std::max(now_, until);
    return false;
  }
  now_ = std::max(now_, last_finish_);
  if (!finished_) check_conservation();
  finished_ = true;
  return true;
}

bool Sim::advance(double until, std::int64_t max_events, Interrupt& interrupt) {
  const std::int64_t stop_at = max_events < 0 ? std::numeric_limits<std::int64_t>::max()
                                              : events_ + max_events;
  for (;;) {
    if (changed_) resolve(interrupt);
    if (tasks_left_ == 0) return close_run(until);
    if (events_ >= stop_at) return false;
    interrupt.tick(16);
    const double next = next_event(until, interrupt);
    if (next > until) {
      now_ = std::max(now_, until);
      if (next < kInf || can_go_on()) return false;
    }
    if (next == kInf) throw_stuck();
    if (!complete_due(next, until)) {
      now_ = std::max(now_, until);
      return false;
    }
    now_ = std::max(now_, next);
    solver_->set_now(now_);
    finish_coupled(window_end_);
    start_due(window_end_);
  }
}

}  // namespace railweave::flow
