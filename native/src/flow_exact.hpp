// A coupled task simulated chunk by chunk: each stream is a variable of the solver while it sends.
// Exact where streams share links with others or with one another, at the cost of two events a
// chunk. This holds which chunk of which stream may start, and when; the solver holds the rest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace railweave::flow {

class ExactTask {
 public:
  struct Edge {
    std::int32_t stream, lag;
  };
  struct Input {
    std::int32_t task, first_flow, rounds;
    std::span<const double> latency, delay;  // by stream; delay may be empty
    std::span<const std::int64_t> pred_ptr;  // by stream
    std::span<const std::int32_t> pred, lag;
  };
  explicit ExactTask(const Input& in);

  void start(double at);
  // When the next chunk of the stream may start; NaN if it waits for a chunk still to be sent, or
  // if none is left, or if one is open (announced and not yet sent) already. Opens the chunk.
  double open(std::int32_t stream);
  void sent(std::int32_t stream, double at);  // closes the open chunk
  std::int32_t rounds_sent(std::int32_t stream) const { return count_[stream]; }
  // Streams that may have been waiting for a chunk of this one.
  std::span<const std::int32_t> followers(std::int32_t stream) const {
    return {next_.data() + next_ptr_[stream], next_.data() + next_ptr_[stream + 1]};
  }

  std::int32_t task, first_flow, streams, rounds;

 private:
  double sent_at(std::int32_t stream, std::int32_t round) const {
    return sent_[static_cast<std::size_t>(stream) * static_cast<std::size_t>(rounds) +
                 static_cast<std::size_t>(round)];
  }

  std::vector<double> latency_, delay_;
  std::vector<std::int64_t> pred_ptr_, next_ptr_;
  std::vector<Edge> pred_;
  std::vector<std::int32_t> next_;
  double origin_ = 0.0;
  std::vector<double> sent_;  // by stream and round
  std::vector<std::int32_t> count_;
  std::vector<std::uint8_t> open_;
};

}  // namespace railweave::flow
