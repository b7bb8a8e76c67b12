// The packets of a queue, in their order.
//
// The first one's number lies in the queue's own record, those behind it in lines of the size of a
// cache line, chained: to append and to take touch a place near the one touched the last time. A
// chain through the packets, or through an array beside them, would fetch a far one at each step.
#pragma once
#include <cstdint>

#include "pkt_memory.hpp"
#include "pkt_types.hpp"

namespace railweave::pkt {

class Fifo {
 public:
  void push(Queue& q, std::uint32_t packet) {
    if (q.packets++ == 0) {
      q.head = packet;
      return;
    }
    if (q.packets == 2) {
      q.from = q.to = take() * kSpan;
    } else if (q.to % kSpan == kInLine) {
      const std::uint32_t line = take();
      lines_[q.to / kSpan].place[kInLine] = line;
      q.to = line * kSpan;
    }
    lines_[q.to / kSpan].place[q.to % kSpan] = packet;
    ++q.to;
  }

  std::uint32_t pop(Queue& q) {
    const std::uint32_t packet = q.head;
    if (--q.packets == 0) return packet;
    if (q.from % kSpan == kInLine) {
      const std::uint32_t line = q.from / kSpan;
      q.from = lines_[line].place[kInLine] * kSpan;
      give(line);
    }
    q.head = lines_[q.from / kSpan].place[q.from % kSpan];
    ++q.from;
    if (q.packets == 1) give(q.from / kSpan);
    return packet;
  }

  template <class F>
  void each(const Queue& q, F&& visit) const {
    if (q.packets == 0) return;
    visit(q.head);
    std::uint32_t at = q.from;
    for (std::uint32_t left = q.packets - 1; left != 0; --left, ++at) {
      if (at % kSpan == kInLine) at = lines_[at / kSpan].place[kInLine] * kSpan;
      visit(lines_[at / kSpan].place[at % kSpan]);
    }
  }

 private:
  static constexpr std::uint32_t kSpan = 16, kInLine = 15;  // the last place holds the next line
  struct alignas(64) Line {
    std::uint32_t place[kSpan];
  };

  std::uint32_t take() {
    if (free_ == kNone) {
      lines_.emplace_back();
      return static_cast<std::uint32_t>(lines_.size() - 1);
    }
    const std::uint32_t line = free_;
    free_ = lines_[line].place[kInLine];
    return line;
  }
  void give(std::uint32_t line) {
    lines_[line].place[kInLine] = free_;
    free_ = line;
  }

  Big<Line> lines_;
  std::uint32_t free_ = kNone;
};

}  // namespace railweave::pkt
