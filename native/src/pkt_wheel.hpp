// Event queue: a ring of short time slots, and a heap for what lies beyond the ring.
//
// Nearly all events of a packet simulation lie within a few microseconds, so each goes into the
// slot of its time in constant time; a slot, which holds few, is sorted into the line of the next
// events before they come up, so that one can look ahead and fetch what they will touch. Events of
// one time come in the order in which they were scheduled, unless one waited in the heap: then the
// order is another one, but always the same. Slots hold their events in chunks of one pool, as
// neighbours in memory: no allocation for an event, and few cache lines to fetch.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <queue>
#include <vector>

#include "pkt_memory.hpp"

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
  explicit Wheel(int shift = 9) : shift_(shift), slots_(kSlots), used_(kSlots / 64, 0) {}

  bool empty() const { return size() == 0; }
  std::uint64_t size() const { return line_.size() - at_ + waiting_ + far_.size(); }

  void push(std::uint64_t time, std::uint32_t tag, std::uint32_t arg) {
    place(time >> shift_, {time, arg, tag});
  }

  // The next event, left in place; null if there is none. Valid until the next push.
  const Event* peek() {
    if (at_ + look_ >= line_.size()) top_up();
    return at_ == line_.size() ? nullptr : &line_[at_];
  }
  void pop() { ++at_; }

  // The event that comes so many places after the next one, as things stand; null where the line is
  // shorter.
  const Event* ahead(std::size_t places) const {
    return at_ + places < line_.size() ? &line_[at_ + places] : nullptr;
  }
  void look(std::size_t places) { look_ = places; }  // how many places ahead one wants to see

  template <class F>
  void each(F&& visit) const {  // all pending events, in no particular order
    for (std::size_t i = at_; i < line_.size(); ++i) visit(line_[i]);
    for (const Slot& slot : slots_) {
      std::uint32_t count = slot.count;
      for (std::uint32_t c = slot.chunk; c != kNil; c = chunks_[c].next, count = kInChunk)
        for (std::uint32_t i = 0; i < count; ++i) visit(chunks_[c].event[i]);
    }
    auto copy = far_;
    for (; !copy.empty(); copy.pop()) visit(copy.top().event);
  }

 private:
  static constexpr std::uint32_t kNil = 0xFFFFFFFFU;
  static constexpr std::uint32_t kInChunk = 7;
  struct alignas(64) Chunk {
    Event event[kInChunk];
    std::uint32_t next;  // an older one, which is full
  };
  struct Slot {
    std::uint32_t chunk = kNil;  // the newest
    std::uint32_t count = 0;     // events in it
  };
  struct Far {
    Event event;
    std::uint64_t order;
    bool operator<(const Far& o) const {
      return event.time_ps != o.event.time_ps ? event.time_ps > o.event.time_ps : order > o.order;
    }
  };

  void push_slot(std::uint64_t index, const Event& e) {
    Slot& slot = slots_[index];
    if (slot.chunk == kNil || slot.count == kInChunk) {
      std::uint32_t c = free_;
      if (c != kNil) {
        free_ = chunks_[c].next;
      } else {
        c = static_cast<std::uint32_t>(chunks_.size());
        chunks_.emplace_back();
      }
      chunks_[c].next = slot.chunk;
      slot = {c, 0};
      used_[index >> 6] |= 1ULL << (index & 63);
    }
    chunks_[slot.chunk].event[slot.count++] = e;
    ++waiting_;
  }

  void place(std::uint64_t slot, const Event& e) {
    if (slot <= slot_) insert(e);
    else if (slot < slot_ + kSlots) push_slot(slot & (kSlots - 1), e);
    else far_.push({e, far_count_++});
  }

  void insert(const Event& e) {
    line_.push_back(e);
    std::size_t i = line_.size() - 1;
    for (; i > at_ && line_[i - 1].time_ps > e.time_ps; --i) line_[i] = line_[i - 1];
    line_[i] = e;
  }

  std::uint64_t next_used(std::uint64_t from) const {  // the first used slot after this one
    const std::uint64_t start = (from + 1) & (kSlots - 1);
    std::uint64_t word = start >> 6;
    std::uint64_t bits = used_[word] & (~0ULL << (start & 63));
    for (std::uint64_t i = 0;; ++i) {
      if (bits) {
        const std::uint64_t index = (word << 6) + static_cast<std::uint64_t>(std::countr_zero(bits));
        return from + 1 + ((index - start) & (kSlots - 1));
      }
      word = (word + 1) & (kSlots / 64 - 1);
      bits = used_[word];
    }
  }

  void pull_far() {
    while (!far_.empty() && (far_.top().event.time_ps >> shift_) < slot_ + kSlots) {
      const Event e = far_.top().event;
      far_.pop();
      place(e.time_ps >> shift_, e);
    }
  }

  // Sorts further slots into the line until it is as long as one wants to see, or until the next
  // used slot is far off: what is pushed before the line's end has to be sorted into it.
  void top_up() {
    if (at_ > kBehind) {
      line_.erase(line_.begin(), line_.begin() + static_cast<std::ptrdiff_t>(at_));
      at_ = 0;
    }
    while (at_ + look_ >= line_.size()) {
      if (waiting_ == 0) {
        if (at_ != line_.size() || far_.empty()) return;
        slot_ = (far_.top().event.time_ps >> shift_) - 1;
        pull_far();
        continue;
      }
      const std::uint64_t next = next_used(slot_);
      if (at_ != line_.size() && next - slot_ > kNear) return;
      slot_ = next;
      take(slot_ & (kSlots - 1));
      pull_far();
      if (++batches_ == kBatchesATuning) tune();
    }
  }

  // Slots so long that about a dozen events fall into each: fewer make the search for the next slot
  // long, more take long to sort.
  void tune() {
    const std::uint64_t mean = taken_ / batches_;
    batches_ = taken_ = 0;
    int shift = shift_;
    while (shift > 4 && mean >> (shift_ - shift) > 36) --shift;
    if (mean < 6 && shift < 16) ++shift;
    if (shift != shift_) rebuild(shift);
  }

  void rebuild(int shift) {
    const std::size_t kept = line_.size();
    for (std::uint64_t slot = slot_ + 1; waiting_ != 0; ++slot) take(slot & (kSlots - 1));
    for (; !far_.empty(); far_.pop()) line_.push_back(far_.top().event);  // in the order of time
    const std::vector<Event> rest(line_.begin() + static_cast<std::ptrdiff_t>(kept), line_.end());
    line_.resize(kept);
    taken_ = 0;
    slot_ = ((slot_ + 1) << shift_) - 1;  // the last moment that the line covers
    shift_ = shift;
    slot_ >>= shift;
    for (const Event& e : rest) place(e.time_ps >> shift_, e);
  }

  void take(std::uint64_t index) {
    const Slot slot = slots_[index];
    slots_[index] = {};
    used_[index >> 6] &= ~(1ULL << (index & 63));
    order_.clear();
    for (std::uint32_t c = slot.chunk; c != kNil; c = chunks_[c].next) order_.push_back(c);
    const std::size_t first = line_.size();
    for (std::size_t i = order_.size(); i-- > 0;) {  // the oldest chunk is the last of the chain
      Chunk& chunk = chunks_[order_[i]];
      const std::uint32_t count = i == 0 ? slot.count : kInChunk;
      line_.insert(line_.end(), chunk.event, chunk.event + count);
      chunk.next = free_;
      free_ = order_[i];
    }
    const std::size_t count = line_.size() - first;
    waiting_ -= count;
    taken_ += count;
    if (waiting_ != 0)
      if (const Slot& after = slots_[next_used(index) & (kSlots - 1)]; after.chunk != kNil) {
        __builtin_prefetch(&chunks_[after.chunk]);
        __builtin_prefetch(reinterpret_cast<const char*>(&chunks_[after.chunk]) + 64);
      }
    if (count > 64) {
      std::stable_sort(line_.begin() + static_cast<std::ptrdiff_t>(first), line_.end(),
                       [](const Event& a, const Event& b) { return a.time_ps < b.time_ps; });
      return;
    }
    for (std::size_t i = first + 1; i < line_.size(); ++i) {
      const Event e = line_[i];
      std::size_t k = i;
      for (; k > first && line_[k - 1].time_ps > e.time_ps; --k) line_[k] = line_[k - 1];
      line_[k] = e;
    }
  }

  int shift_;
  std::uint64_t slot_ = 0;     // up to it all events are in the line
  std::uint64_t waiting_ = 0;  // events in slots
  static constexpr std::uint64_t kBatchesATuning = 1024;
  static constexpr std::uint64_t kNear = 64;    // slots
  static constexpr std::size_t kBehind = 4096;  // past events kept before they are cut off
  std::uint64_t batches_ = 0, taken_ = 0;
  std::vector<Event> line_;  // sorted; the next one at at_
  std::size_t at_ = 0, look_ = 0;
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> used_;
  Big<Chunk> chunks_;
  std::vector<std::uint32_t> order_;
  std::uint32_t free_ = kNil;
  std::priority_queue<Far> far_;
  std::uint64_t far_count_ = 0;
};

}  // namespace railweave::pkt
