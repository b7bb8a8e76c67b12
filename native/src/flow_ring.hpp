// A ring of streams far ahead in one go.
//
// Follow the chunks round the ring instead of the streams through their rounds. Where the chunks
// come at intervals no shorter than a stream's chunk time, none waits for the one before it, and
// the stream is a plain delay. Intervals do not shrink on such streams, and one that leaves a
// slower stream is at least that stream's chunk time. So if at some round every stream with chunk
// time up to T sees its next chunk at least T after its last, that holds for ever: only the
// slower streams, mostly few or none, have to be followed round by round.
#pragma once

#include <cstdint>
#include <vector>

namespace railweave::flow {

class Ring {
 public:
  // Predecessor and lag of each stream. Not a ring (usable() is false) unless one cycle holds them
  // all and every lag is 0 or 1, one of them 1.
  Ring() = default;
  Ring(const std::vector<std::int32_t>& from, const std::vector<std::int32_t>& lag);

  bool usable() const { return !order_.empty(); }
  std::int32_t tokens() const { return tokens_; }  // sum of lags: chunks on their way
  // Most hops that one chunk takes within one round.
  std::int32_t hops_a_round() const { return hops_a_round_; }

  // Chunk time with delay, and latency from the predecessor, by stream.
  void set_times(const std::vector<double>& time, const std::vector<double>& latency);
  // Which streams have to be followed, given when each has sent its chunk of the present round.
  // Returns how many; jumps are right from this state on.
  std::int32_t inspect(const double* sent);
  // Rounds that a jump can go at most, by the memory it would take.
  std::int32_t reach() const;
  // Moves `sent`, the state inspected, on by so many rounds.
  void jump(double* sent, std::int32_t rounds);
  // Looks so many rounds beyond `sent`, the state inspected, which has to stay as it is; then
  // tells when a stream sends its chunk of one of them (1 the first).
  void look(const double* sent, std::int32_t rounds);
  double sends(const double* sent, std::int32_t stream, std::int32_t round) const;

 private:
  struct Source {
    std::int32_t hop;
    double path;  // from leaving that hop to leaving this one
  };
  Source source(std::int32_t hop, std::int32_t rounds) const;
  double at_hop(const double* sent, std::int32_t hop, std::int32_t rounds) const;

  std::int32_t hops_ = 0, tokens_ = 0, hops_a_round_ = 1;
  std::vector<std::int32_t> order_, hop_;  // hop -> stream, and back
  std::vector<std::int32_t> lag_, lags_;   // of a hop, and summed up from hop 0
  std::vector<std::int32_t> last_;         // sum of lags -> last hop with it
  std::vector<double> time_, path_;        // by hop; path_: times and latencies summed from hop 0
  double lap_ = 0.0;
  std::vector<std::int32_t> by_time_;      // hops by chunk time

  std::vector<std::int32_t> slow_;         // hops to be followed, in order
  std::vector<std::int32_t> slow_before_;  // hop -> index of the last slow one up to it, -1 none
  std::vector<double> gap_, history_, next_;
};

}  // namespace railweave::flow
