// A coupled task: streams that each send the same number of chunks in lockstep with one another
// (ring, pipelined tree). It is one variable for the solver and a max-plus recursion in time:
//
//   start_i(k) = max(sent_i(k-1), delivered_p(k-lag) for each predecessor p) + delay_i
//   sent_i(k)  = start_i(k) + chunk time_i        delivered_i(k) = sent_i(k) + latency_i
//
// Times are whole multiples of a power of two, so that sums are exact and a state that repeats
// but for a shift repeats for ever: the periodic regime is recognised by equality and skipped.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

  // Links of the one variable: weight x gives the link's load when the largest chunk's stream
  // sends x bytes a second.
  const std::vector<std::int32_t>& links() const { return var_link_; }
  const std::vector<double>& weights() const { return var_weight_; }

  void start(double at);
  // Takes over the chunk times that follow from what others leave free from `at` on.
  void set_rates(double at, const Solver& solver, double level, Interrupt& interrupt);
  // Simulates ahead; returns when the last byte leaves if that is not after the horizon, else inf.
  double run(double horizon, Interrupt& interrupt);

  double end() const { return end_; }  // as of the last run
  bool stalled() const { return stalled_; }
  double period() const { return period_; }
  double largest_chunk() const { return largest_; }
  double sent(std::int32_t stream) const { return origin_ + last()[position_[stream]]; }
  double progress(std::int32_t stream, double now) const;  // rounds sent by then, with fraction
  const Rows& stream_rows() const { return rows_; }

  std::int32_t task, first_flow, streams, rounds;
  bool shares_links = false;

 private:
  struct Edge {
    std::int32_t from, lag;
    double latency;
  };
  struct Segment {
    double from;
    std::vector<double> chunk_time;
  };
  struct State {
    std::int32_t round = 0, head = 0;
    std::vector<double> sent;  // `depth_` rows of one round each; row `head` is the latest
  };

  void order_streams(const CoupledInput& in);
  void build_edges(const CoupledInput& in);
  void merge_links(const CoupledInput& in);
  void choose_grid();
  double grid(double x) const;

  double* row(std::int32_t age) { return state_.sent.data() + row_offset(state_, age); }
  const double* last() const { return state_.sent.data() + row_offset(state_, 0); }
  std::size_t row_offset(const State& s, std::int32_t age) const {
    return static_cast<std::size_t>((s.head + age) % depth_) * static_cast<std::size_t>(streams);
  }
  void step();
  void step_chain(const double* before, double* next) const;
  void step_general(const double* before, double* next);
  double send_end(std::int32_t i, double start) const;
  void drop_old_segments();
  void restart_from_base();
  bool repeats(std::int32_t& mismatch, double& shift) const;
  void skip_periods(double horizon);
  bool leap(double horizon, bool commit);
  void advance_to(double horizon, bool commit, Interrupt& interrupt);

  std::int32_t depth_ = 1;            // rounds of history kept: largest lag + 1
  double largest_ = 0.0, origin_ = 0.0, quantum_ = 0.0, period_ = 0.0, end_ = 0.0;
  std::vector<std::int32_t> position_, stream_at_;  // streams in topological order of lag-0 edges
  std::vector<double> delay_, latency_;
  std::vector<std::int64_t> edge_ptr_;
  std::vector<Edge> edges_;
  bool chain_ = false;                // every stream has one predecessor, lag 1
  std::vector<std::int32_t> chain_from_, chain_breaks_;
  std::vector<double> chain_latency_;
  Ring ring_;
  bool ring_stale_ = true;            // its times are not those of the latest segment yet
  std::int32_t next_leap_ = 0, leap_wait_ = 1;  // round at which to look next, and from then on
  Rows rows_;
  std::vector<std::int32_t> var_link_, stream_slot_;
  std::vector<double> var_weight_, potential_;

  std::vector<Segment> segments_;
  std::vector<double> step_time_, zeros_;  // chunk time + delay of the latest segment
  State state_, base_, snapshot_;
  std::int32_t mismatch_ = 0;
  bool steady_ = true;   // only the latest segment matters from here on
  bool stalled_ = false;  // some stream has no rate at all
};

}  // namespace railweave::flow
