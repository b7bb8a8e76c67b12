// Event queue: a ring of short time slots, and a heap for what lies beyond the ring.
//
// Nearly all events of a packet simulation lie within a few microseconds, so each goes into the
// slot of its time in constant time; a slot is sorted when it comes up, and holds few. Events of
// one time come in the order in which they were scheduled, unless one waited in the heap: then the
// order is another one, but always the same. Nodes live in one pool: no allocation for an event.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <queue>
#include <vector>

namespace railweave::pkt {

struct Event {
  std::uint64_t time_ps;
  std::uint32_t arg;
  std::uint32_t tag;  // kind in the low byte, a detail above
};

class Wheel {
 public:
  static constexpr int kSlotBits = 13;
  static constexpr std::uint64_t kSlots = 1ULL << kSlotBits;

  // Slots of 2^shift picoseconds.
  explicit Wheel(int shift = 9) : shift_(shift), head_(kSlots, kNil), used_(kSlots / 64, 0) {
    nodes_.reserve(1 << 12);
  }

  bool empty() const { return at_ == ready_.size() && waiting_ == 0 && far_.empty(); }
  std::uint64_t size() const { return ready_.size() - at_ + waiting_ + far_.size(); }

  void push(std::uint64_t time, std::uint32_t tag, std::uint32_t arg) {
    const std::uint64_t slot = time >> shift_;
    if (slot <= slot_) {
      insert_ready({time, arg, tag});
    } else if (slot < slot_ + kSlots) {
      push_slot(slot & (kSlots - 1), {time, arg, tag});
    } else {
      far_.push({{time, arg, tag}, far_count_++});
    }
  }

  // The next event, left in place; null if there is none. Valid until the next push.
  const Event* peek() {
    if (at_ == ready_.size() && !refill()) return nullptr;
    return &ready_[at_];
  }
  void pop() { ++at_; }
  // The event after the one `ahead` places on, if it is already in order: for prefetching.
  const Event* ahead(std::size_t n) const {
    return at_ + n < ready_.size() ? &ready_[at_ + n] : nullptr;
  }

  template <class F>
  void each(F&& visit) const {  // all pending events, in no particular order
    for (std::size_t i = at_; i < ready_.size(); ++i) visit(ready_[i]);
    for (std::uint32_t first : head_)
      for (std::uint32_t n = first; n != kNil; n = nodes_[n].next) visit(nodes_[n].event);
    auto copy = far_;
    for (; !copy.empty(); copy.pop()) visit(copy.top().event);
  }

 private:
  static constexpr std::uint32_t kNil = 0xFFFFFFFFU;
  struct Node {
    Event event;
    std::uint32_t next;
  };
  struct Far {
    Event event;
    std::uint64_t order;
    bool operator<(const Far& o) const {
      return event.time_ps != o.event.time_ps ? event.time_ps > o.event.time_ps : order > o.order;
    }
  };

  void push_slot(std::uint64_t index, const Event& e) {
    std::uint32_t n = free_;
    if (n != kNil) {
      free_ = nodes_[n].next;
    } else {
      n = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({});
    }
    nodes_[n].event = e;
    nodes_[n].next = head_[index];
    head_[index] = n;
    used_[index >> 6] |= 1ULL << (index & 63);
    ++waiting_;
  }

  void insert_ready(const Event& e) {
    ready_.push_back(e);
    std::size_t i = ready_.size() - 1;
    for (; i > at_ && ready_[i - 1].time_ps > e.time_ps; --i) ready_[i] = ready_[i - 1];
    ready_[i] = e;
  }

  std::uint64_t next_used() const {  // the first used slot after slot_
    const std::uint64_t start = (slot_ + 1) & (kSlots - 1);
    std::uint64_t word = start >> 6;
    std::uint64_t bits = used_[word] & (~0ULL << (start & 63));
    for (std::uint64_t i = 0;; ++i) {
      if (bits) {
        const std::uint64_t index = (word << 6) + static_cast<std::uint64_t>(std::countr_zero(bits));
        return slot_ + 1 + ((index - start) & (kSlots - 1));
      }
      word = (word + 1) & (kSlots / 64 - 1);
      bits = used_[word];
    }
  }

  void pull_far() {
    while (!far_.empty() && (far_.top().event.time_ps >> shift_) < slot_ + kSlots) {
      const Event e = far_.top().event;
      far_.pop();
      const std::uint64_t slot = e.time_ps >> shift_;
      if (slot <= slot_) insert_ready(e);
      else push_slot(slot & (kSlots - 1), e);
    }
  }

  bool refill() {
    ready_.clear();
    at_ = 0;
    for (;;) {
      if (waiting_ == 0) {
        if (far_.empty()) return false;
        slot_ = (far_.top().event.time_ps >> shift_) - 1;
        pull_far();
        continue;
      }
      const std::uint64_t next = next_used();
      slot_ = next;
      take(next & (kSlots - 1));
      pull_far();
      return true;
    }
  }

  void take(std::uint64_t index) {
    std::uint32_t n = head_[index];
    head_[index] = kNil;
    used_[index >> 6] &= ~(1ULL << (index & 63));
    while (n != kNil) {
      Node& node = nodes_[n];
      const std::uint32_t next = node.next;
      ready_.push_back(node.event);
      node.next = free_;
      free_ = n;
      n = next;
    }
    waiting_ -= ready_.size();
    std::reverse(ready_.begin(), ready_.end());  // into the order of scheduling
    if (ready_.size() > 32) {
      std::stable_sort(ready_.begin(), ready_.end(),
                       [](const Event& a, const Event& b) { return a.time_ps < b.time_ps; });
      return;
    }
    for (std::size_t i = 1; i < ready_.size(); ++i) {
      const Event e = ready_[i];
      std::size_t k = i;
      for (; k > 0 && ready_[k - 1].time_ps > e.time_ps; --k) ready_[k] = ready_[k - 1];
      ready_[k] = e;
    }
  }

  int shift_;
  std::uint64_t slot_ = 0;     // the one whose events are in ready_
  std::uint64_t waiting_ = 0;  // events in slots
  std::vector<Event> ready_;
  std::size_t at_ = 0;
  std::vector<std::uint32_t> head_;
  std::vector<std::uint64_t> used_;
  std::vector<Node> nodes_;
  std::uint32_t free_ = kNil;
  std::priority_queue<Far> far_;
  std::uint64_t far_count_ = 0;
};

}  // namespace railweave::pkt
