// What selective repeat and receiver-driven senders remember beyond the plain queue pair. Kept
// apart from it, because most queue pairs never need it.
#pragma once
#include <bit>
#include <cstdint>
#include <deque>
#include <vector>

namespace railweave::pkt {

// A bit for each packet of a moving window of sequence numbers.
class SeqBits {
 public:
  // Makes room for numbers from..from + span, which then are told apart.
  void fit(std::uint32_t from, std::uint32_t span) {
    const std::uint32_t have = static_cast<std::uint32_t>(words_.size() * 64);
    if (span <= have) return;
    const std::uint32_t room = std::bit_ceil(span < 64 ? 64U : span);
    std::vector<std::uint64_t> old(room / 64, 0);
    old.swap(words_);
    const std::uint32_t old_mask = mask_;
    mask_ = room - 1;
    for (std::uint32_t i = 0; i < have; ++i) {
      const std::uint32_t psn = from + i, at = psn & old_mask;
      if ((old[at >> 6] >> (at & 63)) & 1) set(psn);
    }
  }
  bool test(std::uint32_t psn) const {
    const std::uint32_t at = psn & mask_;
    return !words_.empty() && ((words_[at >> 6] >> (at & 63)) & 1) != 0;
  }
  void set(std::uint32_t psn) { words_[(psn & mask_) >> 6] |= 1ULL << (psn & mask_ & 63); }
  void clear(std::uint32_t psn) {
    if (!words_.empty()) words_[(psn & mask_) >> 6] &= ~(1ULL << (psn & mask_ & 63));
  }

 private:
  std::vector<std::uint64_t> words_;
  std::uint32_t mask_ = 0;
};

// The receiver's: packets that came before their turn.
struct Early {
  SeqBits here;
  std::uint32_t count = 0;
};

// The sender's: what has arrived beyond the first hole, and which holes are to be filled.
struct Holes {
  struct Resent {
    std::uint32_t psn;
    std::uint32_t overtaken;  // packets sent later that have been acknowledged
    std::uint64_t sent_ps;
  };
  SeqBits arrived, lost, again;      // again: sent more than once
  std::uint64_t arrived_bytes = 0;   // beyond the first hole
  std::uint64_t lost_bytes = 0;      // lost and not sent again yet
  std::uint32_t n_again = 0;
  std::uint32_t high = 0;            // highest PSN that has arrived, and one
  std::uint32_t scan = 0;            // holes before it have been judged
  std::deque<std::uint32_t> queue;   // to be sent again; counts only while its bit in `lost` is set
  std::vector<Resent> resent;        // sent again and not acknowledged
};

// Receiver-driven: what a sender has asked for and been granted, in packets since the start.
struct GrantFlow {
  std::uint32_t wanted = 0, granted = 0;
  bool in_line = false;
};
struct GrantNode {
  std::uint64_t out_bytes = 0;      // granted and not arrived
  std::deque<std::uint32_t> line;   // flows that want more, in turn
};

// Messages that are complete at the adapter but not yet in memory.
struct Landing {
  std::uint64_t mark;      // bytes that the pipe has taken up to its end
  std::uint64_t done_ps;   // when the pipe has moved it; kNever: the pipe is stuck
};

// Flows that wait for the pipe their data is read over.
struct TxLine {
  std::deque<std::uint32_t> flows;
  bool pending = false;    // an event waits
};

}  // namespace railweave::pkt
