// Event queue: a ring of short time slots, and a heap for what lies beyond the ring.
//
// Nearly all events of a packet simulation lie within a few microseconds, so each goes into the
// slot of its time in constant time; a slot is sorted when it comes up, and holds few. Events of
// one time come in the order in which they were scheduled, unless one waited in the heap: then the
// order is another one, but always the same. Slots hold their events in chunks of one pool, as
// neighbours in memory: no allocation for an event, and few cache lines to fetch.
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
  explicit Wheel(int shift = 9) : shift_(shift), slots_(kSlots), used_(kSlots / 64, 0) {}

  bool empty() const { return size() == 0; }
  std::uint64_t size() const {
    return ready_.size() - at_ + coming_.size() + waiting_ + far_.size();
  }

  void push(std::uint64_t time, std::uint32_t tag, std::uint32_t arg) {
    place(time >> shift_, {time, arg, tag});
  }

  // The next event, left in place; null if there is none. Valid until the next push.
  const Event* peek() {
    if (at_ == ready_.size() && !refill()) return nullptr;
    return &ready_[at_];
  }
  void pop() { ++at_; }

  // True once after a new batch has come up: time to fetch what it and the next one will touch.
  bool turned() {
    const bool yes = turned_;
    turned_ = false;
    return yes;
  }
  const std::vector<Event>& ready() const { return ready_; }
  const std::vector<Event>& coming() const { return coming_; }

  template <class F>
  void each(F&& visit) const {  // all pending events, in no particular order
    for (std::size_t i = at_; i < ready_.size(); ++i) visit(ready_[i]);
    for (const Event& e : coming_) visit(e);
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
    if (slot <= slot_) insert(ready_, at_, e);
    else if (slot <= next_slot_) insert(coming_, 0, e);
    else if (slot < slot_ + kSlots) push_slot(slot & (kSlots - 1), e);
    else far_.push({e, far_count_++});
  }

  static void insert(std::vector<Event>& batch, std::size_t first, const Event& e) {
    batch.push_back(e);
    std::size_t i = batch.size() - 1;
    for (; i > first && batch[i - 1].time_ps > e.time_ps; --i) batch[i] = batch[i - 1];
    batch[i] = e;
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

  // The batch that was coming is up now; the next one is sorted out.
  bool refill() {
    if (++batches_ == kBatchesATuning) tune();
    if (at_ < ready_.size()) {  // tuning has put events there
      turned_ = true;
      return true;
    }
    do {
      ready_.clear();
      at_ = 0;
      if (!coming_.empty()) {
        ready_.swap(coming_);
        slot_ = next_slot_;
      } else if (waiting_ == 0) {
        if (far_.empty()) return false;
        slot_ = next_slot_ = (far_.top().event.time_ps >> shift_) - 1;
      }
      pull_far();
      if (waiting_ != 0) {
        next_slot_ = next_used(slot_);
        take(next_slot_ & (kSlots - 1));
      }
    } while (ready_.empty());
    turned_ = true;
    return true;
  }

  // Slots so long that one to two dozen events fall into each: fewer leave no time to fetch what they
  // will touch, more take long to sort and push each other out of the caches.
  void tune() {
    const std::uint64_t mean = taken_ / batches_;
    batches_ = taken_ = 0;
    int shift = shift_;
    while (shift > 4 && mean >> (shift_ - shift) > 36) --shift;
    if (mean < 6 && shift < 16) ++shift;
    if (shift != shift_) rebuild(shift);
  }

  void rebuild(int shift) {
    std::vector<Event> all(ready_.begin() + static_cast<std::ptrdiff_t>(at_), ready_.end());
    const std::uint64_t now = ready_.empty() ? 0 : ready_[at_ == 0 ? 0 : at_ - 1].time_ps;
    all.insert(all.end(), coming_.begin(), coming_.end());
    coming_.clear();
    for (std::uint64_t slot = next_slot_ + 1; waiting_ != 0; ++slot) {  // in the order of time
      take(slot & (kSlots - 1));
      all.insert(all.end(), coming_.begin(), coming_.end());
      coming_.clear();
    }
    for (; !far_.empty(); far_.pop()) all.push_back(far_.top().event);
    taken_ = 0;
    ready_.clear();
    at_ = 0;
    shift_ = shift;
    slot_ = next_slot_ = now >> shift;
    for (const Event& e : all) place(e.time_ps >> shift_, e);
  }

  void take(std::uint64_t index) {
    const Slot slot = slots_[index];
    slots_[index] = {};
    used_[index >> 6] &= ~(1ULL << (index & 63));
    order_.clear();
    for (std::uint32_t c = slot.chunk; c != kNil; c = chunks_[c].next) order_.push_back(c);
    for (std::size_t i = order_.size(); i-- > 0;) {  // the oldest chunk is the last of the chain
      Chunk& chunk = chunks_[order_[i]];
      const std::uint32_t count = i == 0 ? slot.count : kInChunk;
      for (std::uint32_t k = 0; k < count; ++k) coming_.push_back(chunk.event[k]);
      chunk.next = free_;
      free_ = order_[i];
    }
    waiting_ -= coming_.size();
    taken_ += coming_.size();
    if (waiting_ != 0)
      if (const Slot& after = slots_[next_used(index) & (kSlots - 1)]; after.chunk != kNil) {
        __builtin_prefetch(&chunks_[after.chunk]);
        __builtin_prefetch(reinterpret_cast<const char*>(&chunks_[after.chunk]) + 64);
      }
    if (coming_.size() > 64) {
      std::stable_sort(coming_.begin(), coming_.end(),
                       [](const Event& a, const Event& b) { return a.time_ps < b.time_ps; });
      return;
    }
    for (std::size_t i = 1; i < coming_.size(); ++i) {
      const Event e = coming_[i];
      std::size_t k = i;
      for (; k > 0 && coming_[k - 1].time_ps > e.time_ps; --k) coming_[k] = coming_[k - 1];
      coming_[k] = e;
    }
  }

  int shift_;
  std::uint64_t slot_ = 0;       // up to it all events are in ready_
  std::uint64_t next_slot_ = 0;  // after that and up to it all are in coming_
  std::uint64_t waiting_ = 0;    // events in slots
  static constexpr std::uint64_t kBatchesATuning = 1024;
  std::uint64_t batches_ = 0, taken_ = 0;
  bool turned_ = false;
  std::vector<Event> ready_, coming_;
  std::size_t at_ = 0;
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> used_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> order_;
  std::uint32_t free_ = kNil;
  std::priority_queue<Far> far_;
  std::uint64_t far_count_ = 0;
};

}  // namespace railweave::pkt
