// Event-driven simulation of a task DAG over max-min fair flows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flow_coupled.hpp"
#include "flow_exact.hpp"
#include "flow_interrupt.hpp"
#include "flow_rows.hpp"
#include "flow_solver.hpp"

namespace railweave::flow {

struct SimInput {
  std::span<const double> capacity;
  RowsView rows;
  std::span<const double> flow_bytes, flow_latency;
  std::span<const std::int64_t> task_flow_ptr;
  std::span<const double> task_start, task_delay;
  std::span<const std::int64_t> dep_ptr;
  std::span<const std::int32_t> dep_task;
  std::span<const std::uint8_t> dep_kind;
  std::span<const std::int32_t> task_rounds;
  std::span<const double> chunk_delay;  // empty: none
  std::span<const std::int64_t> pred_ptr;
  std::span<const std::int32_t> pred_flow, pred_lag;
  double tolerance = 0.0;
  // Coupled tasks that share links are simulated chunk by chunk if they have no more chunks than
  // this in all; otherwise, and where they share none, each is one variable.
  std::int64_t exact_chunks = 0;
};

class Sim {
 public:
  explicit Sim(const SimInput& in);

  bool advance(double until, std::int64_t max_events, Interrupt& interrupt);

  double now() const { return now_; }
  std::int64_t events() const { return events_; }
  const Solver& solver() const { return *solver_; }

  std::vector<double> task_started() const { return until_now(task_started_); }
  std::vector<double> task_sent() const { return until_now(task_sent_); }
  std::vector<double> task_finished() const { return until_now(task_finished_); }
  std::vector<double> flow_finished() const { return until_now(flow_finished_); }
  std::vector<double> flow_rates() const;
  std::vector<double> link_bytes() const;
  std::vector<double> link_peak() const;
  double bytes_delivered() const;
  double bytes_in_flight() const;
  double bytes_total() const { return bytes_total_; }
  std::int64_t exact_tasks() const { return static_cast<std::int64_t>(exact_.size()); }
  std::int64_t averaged_tasks() const { return averaged_; }  // coupled, share links, not exact

 private:
  enum class State : std::uint8_t { waiting, queued, running, sent };
  struct Event {
    double at;
    std::int32_t task;  // a task starts, or, below 0, a chunk of flow -1 - task
  };
  static bool after(const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.task > b.task;
  }

  void copy_tasks(const SimInput& in);
  void build_solver(const SimInput& in);
  void build_coupled(const SimInput& in);
  void add_coupled(const SimInput& in, std::int32_t task, bool exact);
  std::vector<std::uint8_t> tasks_sharing_links(const SimInput& in) const;
  void build_successors(const SimInput& in);

  void queue_task(std::int32_t task);
  void start_task(std::int32_t task, double at);
  void start_coupled(std::int32_t task, double at);
  void start_exact(std::int32_t task, double at);
  void open_chunk(ExactTask& e, std::int32_t stream);
  void start_chunk(std::int32_t flow, double at);
  void chunk_sent(std::int32_t flow, double at);
  void flow_sent(std::int32_t flow, double at);
  void task_done(std::int32_t task);
  void start_due(double limit);
  bool complete_due(double next, double until);
  void gather_window(double first);
  void resolve(Interrupt& interrupt);
  void finish_coupled(double limit);
  double next_plain();
  void mark_coupled();
  bool cap_coupled();
  bool can_go_on() const;
  double next_event(double horizon, Interrupt& interrupt);
  bool close_run(double until);
  void check_conservation() const;
  [[noreturn]] void throw_stuck() const;
  std::vector<double> until_now(const std::vector<double>& times) const;
  double flow_progress(std::int32_t flow) const;  // bytes sent so far

  std::int32_t links_, flows_, tasks_;
  double tolerance_;
  std::unique_ptr<Solver> solver_;
  std::vector<double> capacity_, bytes_, latency_, task_not_before_, task_delay_;
  std::vector<std::int64_t> flow_ptr_;
  std::vector<std::int32_t> task_of_, rounds_;

  std::vector<std::int64_t> succ_ptr_;
  std::vector<std::int32_t> succ_task_, waits_for_;
  std::vector<std::uint8_t> succ_kind_;

  std::vector<State> state_;
  std::vector<std::int32_t> flows_left_;
  std::vector<double> ready_, flow_started_;
  std::vector<double> task_started_, task_sent_, task_finished_, flow_finished_;
  std::vector<Event> queue_;
  std::vector<Completion> due_;

  std::vector<std::unique_ptr<Coupled>> coupled_;   // coupled tasks that are one variable each
  std::vector<std::int32_t> coupled_of_task_, running_coupled_;
  struct CoupledSlot {
    std::int32_t coupled, slot;
  };
  std::vector<std::int64_t> link_coupled_ptr_;      // links to the coupled tasks that cross them
  std::vector<CoupledSlot> link_coupled_;
  std::vector<std::unique_ptr<ExactTask>> exact_;   // coupled tasks chunk by chunk
  std::vector<std::int32_t> exact_of_task_;
  std::int64_t averaged_ = 0;

  double now_ = 0.0, last_finish_ = 0.0, bytes_total_ = 0.0, delivered_at_once_ = 0.0;
  double coupled_delivered_ = 0.0, window_end_ = 0.0;
  std::int64_t events_ = 0, tasks_left_ = 0;
  bool changed_ = false, finished_ = false;
};

}  // namespace railweave::flow
