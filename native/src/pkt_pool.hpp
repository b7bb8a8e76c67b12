// The pool of packets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pkt_memory.hpp"
#include "pkt_types.hpp"

namespace railweave::pkt {

// Packets, in blocks whose addresses stay. The links between them (in a queue, or free) stand apart:
// to append to a queue must not fetch the packet at its tail.
class Pool {
 public:
  Packet& operator[](std::uint32_t i) { return blocks_[i >> kBits][i & kMask]; }
  const Packet& operator[](std::uint32_t i) const { return blocks_[i >> kBits][i & kMask]; }
  std::uint32_t take() {
    if (free_ == kNone) grow();
    const std::uint32_t i = free_;
    free_ = next_[i];
    ++live_;
    return i;
  }
  void give(std::uint32_t i) {
    next_[i] = free_;
    free_ = i;
    --live_;
  }
  std::uint32_t& next(std::uint32_t i) { return next_[i]; }
  std::uint32_t next(std::uint32_t i) const { return next_[i]; }
  std::uint64_t live() const { return live_; }

 private:
  static constexpr std::uint32_t kBits = 15, kMask = (1U << kBits) - 1;  // 2 MiB a block
  void grow() {
    const auto base = static_cast<std::uint32_t>(blocks_.size() << kBits);
    blocks_.emplace_back(1U << kBits);
    next_.resize(std::size_t{base} + kMask + 1);
    for (std::uint32_t i = 0; i <= kMask; ++i) next_[base + i] = i == kMask ? kNone : base + i + 1;
    free_ = base;
  }
  std::vector<Big<Packet>> blocks_;
  Big<std::uint32_t> next_;
  std::uint32_t free_ = kNone;
  std::uint64_t live_ = 0;
};

}  // namespace railweave::pkt
