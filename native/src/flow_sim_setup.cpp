// Building a simulation from its arrays, and reading its state.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "flow_sim.hpp"

namespace railweave::flow {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kUncapped = 1e290;

void need(bool ok, const std::string& what) {
  if (!ok) throw std::invalid_argument(what);
}

void check_ptr(std::span<const std::int64_t> ptr, std::size_t rows, std::size_t end,
               const std::string& name) {
  need(ptr.size() == rows + 1, name + " must have one entry more than it has rows");
  need(ptr.front() == 0 && ptr.back() == static_cast<std::int64_t>(end),
       name + " must run from 0 to the number of entries");
  for (std::size_t i = 0; i < rows; ++i)
    need(ptr[i] <= ptr[i + 1], name + " falls at row " + std::to_string(i));
}

void check_values(std::span<const double> values, std::size_t n, const std::string& name) {
  need(values.size() == n, name + " must have " + std::to_string(n) + " entries");
  for (std::size_t i = 0; i < n; ++i)
    need(values[i] >= 0.0 && values[i] < kInf,
         name + "[" + std::to_string(i) + "] must be finite and 0 or more");
}

void check_input(const SimInput& in) {
  const std::size_t flows = in.flow_bytes.size(), tasks = in.task_start.size();
  check_capacity(in.capacity);
  check_rows(in.rows, static_cast<std::int64_t>(flows),
             static_cast<std::int64_t>(in.capacity.size()));
  check_values(in.flow_bytes, flows, "flow_bytes");
  check_values(in.flow_latency, flows, "flow_latency_s");
  check_ptr(in.task_flow_ptr, tasks, flows, "task_flow_ptr");
  check_values(in.task_start, tasks, "task_start_s");
  check_values(in.task_delay, tasks, "task_delay_s");
  check_ptr(in.dep_ptr, tasks, in.dep_task.size(), "dep_ptr");
  need(in.dep_kind.size() == in.dep_task.size(), "dep_kind must be as long as dep_task");
  for (const std::int32_t t : in.dep_task)
    need(t >= 0 && static_cast<std::size_t>(t) < tasks,
         "dep_task names task " + std::to_string(t) + ", which does not exist");
  for (const std::uint8_t k : in.dep_kind) need(k <= 1, "dep_kind must be 0 or 1");
  need(in.task_rounds.size() == tasks, "task_rounds must have one entry a task");
  for (const std::int32_t r : in.task_rounds) need(r >= 1, "task_rounds must be 1 or more");
  if (!in.chunk_delay.empty()) check_values(in.chunk_delay, flows, "flow_chunk_delay_s");
  need(in.exact_chunks >= 0, "exact_chunks must be 0 or more");
  need(in.tolerance >= 0.0 && in.tolerance < 1.0, "tolerance must be in [0, 1)");
  if (in.pred_ptr.empty()) return;
  check_ptr(in.pred_ptr, flows, in.pred_flow.size(), "pred_ptr");
  need(in.pred_lag.size() == in.pred_flow.size(), "pred_lag must be as long as pred_flow");
  for (const std::int32_t lag : in.pred_lag) need(lag >= 0, "pred_lag must be 0 or more");
}
}  // namespace

Sim::Sim(const SimInput& in)
    : links_(static_cast<std::int32_t>(in.capacity.size())),
      flows_(static_cast<std::int32_t>(in.flow_bytes.size())),
      tasks_(static_cast<std::int32_t>(in.task_start.size())),
      tolerance_(in.tolerance) {
  check_input(in);
  copy_tasks(in);
  build_coupled(in);
  build_solver(in);
  build_successors(in);
  for (std::int32_t t = 0; t < tasks_; ++t)
    if (waits_for_[t] == 0) queue_task(t);
}

void Sim::copy_tasks(const SimInput& in) {
  const auto flows = static_cast<std::size_t>(flows_), tasks = static_cast<std::size_t>(tasks_);
  capacity_.assign(in.capacity.begin(), in.capacity.end());
  // An endless link still has to count its bytes; a huge one does the same and never binds.
  for (double& c : capacity_) c = std::min(c, kUncapped);
  bytes_.assign(in.flow_bytes.begin(), in.flow_bytes.end());
  latency_.assign(in.flow_latency.begin(), in.flow_latency.end());
  flow_ptr_.assign(in.task_flow_ptr.begin(), in.task_flow_ptr.end());
  task_not_before_.assign(in.task_start.begin(), in.task_start.end());
  task_delay_.assign(in.task_delay.begin(), in.task_delay.end());
  rounds_.assign(in.task_rounds.begin(), in.task_rounds.end());
  task_of_.resize(flows);
  for (std::int32_t t = 0; t < tasks_; ++t)
    for (auto f = flow_ptr_[t]; f < flow_ptr_[t + 1]; ++f) {
      task_of_[f] = t;
      bytes_total_ += bytes_[f] * rounds_[t];
    }
  state_.assign(tasks, State::waiting);
  flows_left_.assign(tasks, 0);
  ready_.assign(tasks, 0.0);
  flow_started_.assign(flows, 0.0);
  task_started_.assign(tasks, kNaN);
  task_sent_.assign(tasks, kNaN);
  task_finished_.assign(tasks, kNaN);
  flow_finished_.assign(flows, kNaN);
  coupled_of_task_.assign(tasks, -1);
  exact_of_task_.assign(tasks, -1);
  tasks_left_ = tasks_;
  queue_.reserve(tasks);
}

// Which tasks have a flow on a link that another flow crosses too.
std::vector<std::uint8_t> Sim::tasks_sharing_links(const SimInput& in) const {
  constexpr std::int32_t kNone = -1, kShared = -2;
  std::vector<std::int32_t> user(static_cast<std::size_t>(links_), kNone);
  for (std::int32_t f = 0; f < flows_; ++f)
    for (auto e = in.rows.ptr[f]; e < in.rows.ptr[f + 1]; ++e) {
      std::int32_t& u = user[in.rows.link[e]];
      u = u == kNone || u == f ? f : kShared;
    }
  std::vector<std::uint8_t> out(static_cast<std::size_t>(tasks_), 0);
  for (std::int32_t f = 0; f < flows_; ++f)
    for (auto e = in.rows.ptr[f]; e < in.rows.ptr[f + 1]; ++e)
      if (user[in.rows.link[e]] == kShared && capacity_[in.rows.link[e]] < kUncapped)
        out[task_of_[f]] = 1;
  return out;
}

void Sim::build_coupled(const SimInput& in) {
  const std::vector<std::uint8_t> shares = tasks_sharing_links(in);
  std::vector<std::int32_t> coupled;
  double chunks = 0.0;
  for (std::int32_t t = 0; t < tasks_; ++t) {
    const auto begin = flow_ptr_[t], end = flow_ptr_[t + 1];
    bool waits = !in.pred_ptr.empty() && in.pred_ptr[begin] < in.pred_ptr[end];
    for (auto f = begin; f < end && !in.chunk_delay.empty(); ++f)
      waits = waits || in.chunk_delay[f] > 0.0;
    if (begin == end || (rounds_[t] == 1 && !waits)) continue;
    coupled.push_back(t);
    if (shares[t] != 0 && rounds_[t] > 1)
      chunks += static_cast<double>(rounds_[t]) * static_cast<double>(end - begin);
  }
  const bool exact = chunks <= static_cast<double>(in.exact_chunks);
  for (const std::int32_t t : coupled) {
    // One round costs no more chunk by chunk than as plain flows.
    const bool by_chunk = rounds_[t] == 1 || (exact && shares[t] != 0);
    add_coupled(in, t, by_chunk);
    if (!by_chunk && shares[t] != 0) ++averaged_;
  }
}

void Sim::add_coupled(const SimInput& in, std::int32_t t, bool exact) {
  const auto begin = flow_ptr_[t], end = flow_ptr_[t + 1], n = end - begin;
  CoupledInput c{t, static_cast<std::int32_t>(begin), rounds_[t],
                 in.flow_bytes.subspan(begin, n), in.flow_latency.subspan(begin, n), {}, {},
                 {0}, {}, {}};
  if (!in.chunk_delay.empty()) c.delay = in.chunk_delay.subspan(begin, n);
  RowBuilder rows(capacity_, in.rows.ptr[end] - in.rows.ptr[begin], true);
  for (auto f = begin; f < end; ++f) {
    for (auto e = in.rows.ptr[f]; e < in.rows.ptr[f + 1]; ++e)
      rows.add(in.rows.link[e], in.rows.weight.empty() ? 1.0 : in.rows.weight[e]);
    rows.end_row();
    for (auto e = in.pred_ptr.empty() ? 0 : in.pred_ptr[f];
         !in.pred_ptr.empty() && e < in.pred_ptr[f + 1]; ++e) {
      need(in.pred_flow[e] >= begin && in.pred_flow[e] < end,
           "flow " + std::to_string(f) + ": predecessor " + std::to_string(in.pred_flow[e]) +
               " is not in the same task");
      c.pred.push_back(static_cast<std::int32_t>(in.pred_flow[e] - begin));
      c.lag.push_back(in.pred_lag[e]);
    }
    c.pred_ptr.push_back(static_cast<std::int64_t>(c.pred.size()));
  }
  c.rows = rows.finish();
  // Built in any case: it refuses chunks that wait for themselves.
  auto made = std::make_unique<Coupled>(c);
  if (exact) {
    exact_of_task_[t] = static_cast<std::int32_t>(exact_.size());
    exact_.push_back(std::make_unique<ExactTask>(ExactTask::Input{
        t, c.first_flow, c.rounds, c.latency, c.delay, c.pred_ptr, c.pred, c.lag}));
    return;
  }
  coupled_of_task_[t] = static_cast<std::int32_t>(coupled_.size());
  coupled_.push_back(std::move(made));
}

// One variable a flow; a coupled task is the variable of its first flow, with a private link that
// can cap its rate.
void Sim::build_solver(const SimInput& in) {
  std::vector<double> capacity = capacity_;
  capacity.resize(capacity.size() + coupled_.size(), kUncapped);
  RowBuilder rows(capacity, static_cast<std::int64_t>(in.rows.link.size()), !coupled_.empty());
  for (std::int32_t f = 0; f < flows_; ++f) {
    const std::int32_t index = coupled_of_task_[task_of_[f]];
    if (index < 0) {
      for (auto e = in.rows.ptr[f]; e < in.rows.ptr[f + 1]; ++e)
        rows.add(in.rows.link[e], in.rows.weight.empty() ? 1.0 : in.rows.weight[e]);
    } else if (f == coupled_[index]->first_flow) {
      const Coupled& c = *coupled_[index];
      for (std::size_t i = 0; i < c.links().size(); ++i) rows.add(c.links()[i], c.weights()[i]);
      rows.add(links_ + index, 1.0);
    }
    rows.end_row();
  }
  solver_ = std::make_unique<Solver>(rows.finish(), std::move(capacity));
  if (coupled_.empty()) return;
  solver_->remember_visited();
  link_coupled_ptr_.assign(static_cast<std::size_t>(links_) + 1, 0);
  for (const auto& c : coupled_)
    for (const std::int32_t l : c->links()) ++link_coupled_ptr_[l + 1];
  for (std::int32_t l = 0; l < links_; ++l) link_coupled_ptr_[l + 1] += link_coupled_ptr_[l];
  link_coupled_.resize(static_cast<std::size_t>(link_coupled_ptr_.back()));
  std::vector<std::int64_t> fill(link_coupled_ptr_.begin(), link_coupled_ptr_.end() - 1);
  for (std::size_t i = 0; i < coupled_.size(); ++i)
    for (std::size_t s = 0; s < coupled_[i]->links().size(); ++s)
      link_coupled_[fill[coupled_[i]->links()[s]]++] = {static_cast<std::int32_t>(i),
                                                        static_cast<std::int32_t>(s)};
}

void Sim::build_successors(const SimInput& in) {
  const auto tasks = static_cast<std::size_t>(tasks_);
  succ_ptr_.assign(tasks + 1, 0);
  waits_for_.assign(tasks, 0);
  for (const std::int32_t t : in.dep_task) ++succ_ptr_[t + 1];
  for (std::size_t t = 0; t < tasks; ++t) succ_ptr_[t + 1] += succ_ptr_[t];
  succ_task_.resize(in.dep_task.size());
  succ_kind_.resize(in.dep_task.size());
  std::vector<std::int64_t> fill(succ_ptr_.begin(), succ_ptr_.end() - 1);
  for (std::int32_t t = 0; t < tasks_; ++t)
    for (auto e = in.dep_ptr[t]; e < in.dep_ptr[t + 1]; ++e) {
      const std::int64_t at = fill[in.dep_task[e]]++;
      succ_task_[at] = t;
      succ_kind_[at] = in.dep_kind[e];
      ++waits_for_[t];
    }
}

bool Sim::can_go_on() const {
  for (const std::int32_t index : running_coupled_)
    if (!coupled_[index]->stalled()) return true;
  return false;
}

void Sim::throw_stuck() const {
  for (std::int32_t t = 0; t < tasks_; ++t) {
    if (state_[t] != State::running) continue;
    for (auto f = static_cast<std::int32_t>(flow_ptr_[t]); f < flow_ptr_[t + 1]; ++f) {
      const std::int32_t link = solver_->stuck_link(f);
      if (link >= 0)
        throw std::runtime_error("task " + std::to_string(t) + " can not progress: its flow " +
                                 std::to_string(f) + " crosses link " + std::to_string(link) +
                                 ", which has no capacity");
    }
  }
  for (std::int32_t t = 0; t < tasks_; ++t)
    if (state_[t] == State::waiting)
      throw std::runtime_error("task " + std::to_string(t) + " can never start: " +
                               std::to_string(waits_for_[t]) +
                               " of its dependencies wait for it in turn or are stuck");
  throw std::runtime_error("nothing can happen any more, yet tasks are left");
}

std::vector<double> Sim::until_now(const std::vector<double>& times) const {
  std::vector<double> out = times;
  const double limit = now_ * (1.0 + 1e-12);
  for (double& t : out)
    if (t > limit) t = kNaN;
  return out;
}

std::vector<double> Sim::flow_rates() const {
  std::vector<double> out(static_cast<std::size_t>(flows_), 0.0);
  for (std::int32_t f = 0; f < flows_; ++f) out[f] = solver_->rate(f);
  return out;
}

double Sim::flow_progress(std::int32_t flow) const {
  const std::int32_t task = task_of_[flow];
  if (state_[task] == State::sent) return bytes_[flow] * rounds_[task];
  if (state_[task] != State::running) return 0.0;
  const std::int32_t index = coupled_of_task_[task];
  if (index >= 0)
    return bytes_[flow] * coupled_[index]->progress(flow - coupled_[index]->first_flow, now_);
  const double sending = solver_->active(flow) ? bytes_[flow] - solver_->remaining(flow, now_) : 0.0;
  if (exact_of_task_[task] < 0) return solver_->active(flow) ? sending : bytes_[flow];
  const ExactTask& e = *exact_[exact_of_task_[task]];
  return bytes_[flow] * e.rounds_sent(flow - e.first_flow) + sending;
}

double Sim::bytes_in_flight() const {
  double sum = 0.0;
  for (std::int32_t t = 0; t < tasks_; ++t) {
    if (state_[t] == State::sent) continue;
    const std::int32_t index = coupled_of_task_[t];
    for (auto f = static_cast<std::int32_t>(flow_ptr_[t]); f < flow_ptr_[t + 1]; ++f) {
      if (state_[t] != State::running) {
        sum += bytes_[f] * rounds_[t];
      } else if (exact_of_task_[t] >= 0) {
        const ExactTask& e = *exact_[exact_of_task_[t]];
        // An open chunk on the wire is part of the rounds not sent.
        sum += bytes_[f] * (e.rounds - e.rounds_sent(f - e.first_flow));
        if (solver_->active(f)) sum += solver_->remaining(f, now_) - bytes_[f];
      } else if (index >= 0) {
        const Coupled& c = *coupled_[index];
        sum += bytes_[f] * (c.rounds - c.progress(f - c.first_flow, now_));
      } else if (solver_->active(f)) {
        sum += solver_->remaining(f, now_);
      }
    }
  }
  return sum;
}

double Sim::bytes_delivered() const {
  double sum = solver_->served(now_) + delivered_at_once_ + coupled_delivered_;
  for (const std::int32_t index : running_coupled_) {
    const Coupled& c = *coupled_[index];
    for (std::int32_t i = 0; i < c.streams; ++i)
      sum += bytes_[c.first_flow + i] * c.progress(i, now_);
  }
  return sum;
}

void Sim::check_conservation() const {
  const double sum = bytes_delivered() + bytes_in_flight();
  if (std::abs(sum - bytes_total_) > 1e-9 * bytes_total_)
    throw std::runtime_error("bytes are not conserved: " + std::to_string(sum) +
                             " delivered and in flight of " + std::to_string(bytes_total_));
}

std::vector<double> Sim::link_bytes() const {
  std::vector<double> out(static_cast<std::size_t>(links_), 0.0);
  const Rows& rows = solver_->rows();
  for (std::int32_t f = 0; f < flows_; ++f) {
    const double sent = flow_progress(f);
    const std::int32_t index = coupled_of_task_[task_of_[f]];
    const Rows& r = index < 0 ? rows : coupled_[index]->stream_rows();
    const std::int32_t v = index < 0 ? f : f - coupled_[index]->first_flow;
    for (auto e = r.ptr[v]; e < r.ptr[v + 1]; ++e)
      out[r.link[e]] += sent * (r.weight.empty() ? 1.0 : r.weight[e]);
  }
  return out;
}

std::vector<double> Sim::link_peak() const {
  return {solver_->peak().begin(), solver_->peak().begin() + links_};
}

}  // namespace railweave::flow
