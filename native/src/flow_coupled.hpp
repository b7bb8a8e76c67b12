// A coupled task: streams that each send the same number of chunks in lockstep with one another
// (ring, pipelined tree). It is one variable for the solver and a max-plus recursion in time:
//
//   start_i(k) = max(sent_i(k-1), delivered_p(k-lag) for each predecessor p) + delay_i
//   sent_i(k)  = start_i(k) + chunk time_i        delivered_i(k) = sent_i(k) + latency_i
//
// Times are whole multiples of a power of two, so that sums are exact and a state that repeats
// but for a shift repeats for ever: the periodic regime is recognised by equality and skipped.
//
// Chunk times last until others on the links change their rates. Up to then only the end of the
// task matters, and it is found round by round (or in leaps) from a state of all streams at one
// round. At a change the streams are where they are (Front), and go on from there.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "flow_front.hpp"
#include "flow_graph.hpp"
#include "flow_interrupt.hpp"
#include "flow_ring.hpp"
#include "flow_rows.hpp"
#include "flow_solver.hpp"

namespace railweave::flow {

struct CoupledInput {
  std::int32_t task, first_flow, rounds;
  std::span<const double> bytes, latency, delay;  // by stream; delay may be empty
  Rows rows;                                      // links of each stream, weights always given
  std::vector<std::int64_t> pred_ptr;             // by stream
  std::vector<std::int32_t> pred, lag;            // stream indices within the task
};

class Coupled {
 public:
  explicit Coupled(const CoupledInput& in);
  Coupled(const Coupled&) = delete;
  Coupled& operator=(const Coupled&) = delete;

  // Links of the one variable: weight x gives the link's load when the largest chunk's stream
  // sends x bytes a second.
  const std::vector<std::int32_t>& links() const { return var_link_; }
  const std::vector<double>& weights() const { return var_weight_; }

  void start(double at);
  // The rates on that one of its links() may have changed.
  void mark(std::int32_t slot);
  // Finds the chunk times at present rates; true if average_rate() may be another than before.
  // Members of groups from `steady_groups` on send with pauses.
  bool refresh(const Solver& solver, std::int32_t steady_groups);
  // Average rate of the largest chunk's stream at those, infinite where it shares no link.
  double average_rate() const;
  // Has them hold from `at` on.
  void take_rates(double at, Interrupt& interrupt);
  double least_end() const;  // a bound for run(), cheap to have
  // When the last byte leaves if that is not after the horizon, else inf.
  double run(double horizon, Interrupt& interrupt);

  double end() const { return ahead_ ? end_ : kNever; }  // as of the last run
  bool stalled() const { return stalled_; }
  double sent(std::int32_t stream) const { return origin_ + last()[position_[stream]]; }
  double progress(std::int32_t stream, double now) const;  // rounds sent by then, with fraction
  const Rows& stream_rows() const { return rows_; }

  std::int32_t task, first_flow, streams, rounds;

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  double potential(const Solver& solver, std::int32_t slot, std::int32_t steady_groups) const;
  void order_streams(const CoupledInput& in);
  void build_edges(const CoupledInput& in);
  void merge_links(const CoupledInput& in);
  void choose_grid();
  double grid(double x) const;
  double cycle_time();
  void bring_base_to(double at, Interrupt& interrupt);
  bool load_front_at(double at);
  void step_front_to(double at, Interrupt& interrupt);
  void look_ahead(Interrupt& interrupt);

  double* row(std::int32_t age) { return state_.sent.data() + row_offset(state_, age); }
  const double* last() const { return state_.sent.data() + row_offset(state_, 0); }
  std::size_t row_offset(const State& s, std::int32_t age) const {
    return static_cast<std::size_t>((s.head + age) % graph_.depth) *
           static_cast<std::size_t>(streams);
  }
  double latest(const State& s) const;
  void step();
  void step_chain(const double* before, double* next) const;
  void step_single(const double* before, double* next) const;
  void step_general(const double* before, double* next);
  bool repeats(std::int32_t& mismatch, double& shift) const;
  void skip_periods(double horizon);
  bool leap(double horizon);
  std::int32_t inspect_ring(const double* sent);
  void advance_to(double horizon, Interrupt& interrupt);

  double largest_ = 0.0, origin_ = 0.0, quantum_ = 0.0, period_ = 0.0, end_ = kNever;
  std::vector<std::int32_t> position_, stream_at_;  // place in the graph's order, and back
  Graph graph_;
  bool single_ = false, chain_ = false;  // every stream has one predecessor, lag 0 or 1; lag 1
  std::vector<std::int32_t> from_, chain_breaks_;
  std::vector<std::uint8_t> lag_;
  std::vector<double> edge_latency_;     // of the only edge into each stream
  Ring ring_;
  CycleTime cycle_;

  Rows rows_;                         // by stream in the order of the graph
  std::vector<std::int32_t> var_link_, stream_slot_, slot_stream_;
  std::vector<std::int64_t> slot_ptr_;
  std::vector<double> var_weight_, potential_;
  std::vector<std::uint8_t> stale_, shared_, slow_;  // by slot, by slot, by stream
  std::vector<std::int32_t> stale_slots_, slow_streams_;
  std::int64_t sharing_ = 0;          // slots where others are active

  std::vector<double> found_time_, chunk_time_, step_time_, zeros_;  // step: with delay
  std::int32_t slowest_ = 0;
  bool started_ = false, taken_ = false, stalled_ = false, in_front_ = false, ahead_ = false;
  State state_, base_, snapshot_;     // base_: last state all of which is past (if not in_front_)
  Front front_;
  std::int32_t mismatch_ = 0, next_leap_ = 0, leap_wait_ = 1;
  bool ring_stale_ = true;            // its times are not the present ones yet
};

}  // namespace railweave::flow
