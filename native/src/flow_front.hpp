// Where each stream of a coupled task stands at one moment, and on from there chunk by chunk: what
// a change of rates needs, as streams may be as many rounds apart as there are streams.
#pragma once

#include <cstdint>
#include <vector>

#include "flow_graph.hpp"
#include "flow_heap.hpp"
#include "flow_interrupt.hpp"

namespace railweave::flow {

// All streams at the same round: when each sent its chunk of that round and of some before.
struct State {
  std::int32_t round = 0, head = 0;
  std::vector<double> sent;  // `depth` rows of one round each; row `head` is the latest
};

class Front {
 public:
  explicit Front(const Graph& graph) : graph_(graph) {}

  // From all streams at one round, with every chunk of it sent by now.
  void load(const State& state, const std::vector<double>& chunk_time);
  // From where all streams are at that moment: `count` chunks sent by each, the last ones at
  // `when(stream, round)`.
  template <class When>
  void load(double at, const std::vector<std::int32_t>& count, When&& when,
            const std::vector<double>& chunk_time);
  // Sends every chunk that ends by then.
  void run(double until, const std::vector<double>& chunk_time, Interrupt& interrupt);
  // Other chunk times from `at` on, to which it has run; chunks under way go on where they are.
  void change(double at, const std::vector<double>& before, const std::vector<double>& after);
  // Runs all streams on to the round after the foremost one's, so that no chunk under way is left;
  // times are chunk time and delay.
  void align(State& state, const std::vector<double>& step_time) const;

  // No stream can have sent its last chunk before this.
  double least_end(std::int32_t stream, double chunk_time) const;
  double progress(std::int32_t stream, double chunk_time) const;  // rounds sent, with fraction
  double now() const { return now_; }
  std::int32_t foremost() const { return foremost_; }
  std::int32_t hindmost() const;
  std::int32_t rounds_sent(std::int32_t stream) const { return count_[stream]; }
  void set_quantum(double quantum) { quantum_ = quantum; }

  // First round of a stream for whose time somebody may still ask.
  std::int32_t needed(std::int32_t stream) const;

 private:
  void resize();
  // Times at which a stream sent its latest chunks.
  struct History {
    std::vector<double> sent;
    std::int32_t first = 0;  // round of sent[0]
  };

  double start_of(std::int32_t stream, std::int32_t round) const;
  void open(std::int32_t stream, double chunk_time);
  void push(std::int32_t stream, double at);
  double grid(double x) const;

  const Graph& graph_;
  double now_ = 0.0, quantum_ = 0.0;
  std::int32_t foremost_ = 0;
  std::vector<std::int32_t> count_;  // chunks sent
  std::vector<History> history_;
  // Of the open chunk: when it starts (or was last seen), what part is left then, when it ends.
  std::vector<std::uint8_t> open_;
  std::vector<double> since_, left_, ends_;
  HeapForest heap_;
  std::int32_t root_ = HeapForest::kNone;
};

template <class When>
void Front::load(double at, const std::vector<std::int32_t>& count, When&& when,
                 const std::vector<double>& chunk_time) {
  resize();
  now_ = at;
  count_ = count;
  foremost_ = 0;
  for (std::int32_t i = 0; i < graph_.streams; ++i) {
    foremost_ = count_[i] > foremost_ ? count_[i] : foremost_;
    History& h = history_[i];
    h.first = needed(i);
    h.sent.clear();
    for (std::int32_t round = h.first; round < count_[i]; ++round)
      h.sent.push_back(when(i, round));
    open_[i] = 0;
  }
  for (std::int32_t i = 0; i < graph_.streams; ++i) open(i, chunk_time[i]);
}

}  // namespace railweave::flow
