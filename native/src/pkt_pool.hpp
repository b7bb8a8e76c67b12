// The pool of packets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pkt_memory.hpp"
#include "pkt_types.hpp"

namespace railweave::pkt {

// Packets, in blocks whose addresses stay; the free ones are on a stack.
class Pool {
 public:
  Packet& operator[](std::uint32_t i) { return blocks_[i >> kBits][i & kMask]; }
  const Packet& operator[](std::uint32_t i) const { return blocks_[i >> kBits][i & kMask]; }
  std::uint32_t take() {
    if (free_.empty()) grow();
    const std::uint32_t i = free_.back();
    free_.pop_back();
    return i;
  }
  void give(std::uint32_t i) { free_.push_back(i); }
  std::uint64_t live() const { return (blocks_.size() << kBits) - free_.size(); }

 private:
  static constexpr std::uint32_t kBits = 15, kMask = (1U << kBits) - 1;  // 2 MiB a block
  void grow() {
    const auto base = static_cast<std::uint32_t>(blocks_.size() << kBits);
    blocks_.emplace_back(1U << kBits);
    for (std::uint32_t i = kMask + 1; i-- > 0;) free_.push_back(base + i);
  }
  std::vector<Big<Packet>> blocks_;
  Big<std::uint32_t> free_;
};

}  // namespace railweave::pkt
