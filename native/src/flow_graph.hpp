// Who waits for whom in a coupled task. Streams are numbered in an order in which every
// predecessor of lag 0 comes before its successors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace railweave::flow {

struct Graph {
  struct Edge {
    std::int32_t from, lag;
    double latency;  // of the stream it comes from
  };

  std::int32_t streams = 0, rounds = 0, depth = 1;  // depth: largest lag + 1
  std::vector<double> delay;                        // before each chunk, by stream
  std::vector<std::int64_t> edge_ptr, next_ptr;
  std::vector<Edge> edges;
  std::vector<std::int32_t> next;  // followers: streams with an edge from this one

  std::span<const Edge> into(std::int32_t stream) const {
    return {edges.data() + edge_ptr[stream], edges.data() + edge_ptr[stream + 1]};
  }
  std::span<const std::int32_t> followers(std::int32_t stream) const {
    return {next.data() + next_ptr[stream], next.data() + next_ptr[stream + 1]};
  }
  void fill_followers();
};

// Time a round takes in the long run: the largest mean (chunk time, delay and latency by lag) over
// the circles of waits, each stream's wait for its own last chunk being one. Howard's policy
// iteration; exact for one circle, and never above the true value.
class CycleTime {
 public:
  double of(const Graph& graph, const std::vector<double>& chunk_time);

 private:
  bool has_circles(const Graph& graph);
  double best_circle(const Graph& graph, const std::vector<double>& chunk_time,
                     std::int32_t& root);
  bool improve(const Graph& graph, const std::vector<double>& chunk_time, double mean,
               std::int32_t root);

  int circles_ = -1;                  // are there any but the streams themselves; -1 not known
  std::vector<std::int64_t> policy_;  // by stream: the edge it waits on most, -1 itself
  std::vector<double> value_;
  std::vector<std::int32_t> mark_, order_;
};

}  // namespace railweave::flow
