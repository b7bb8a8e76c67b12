// Compiling next-hop sets. Distances are rows of bytes over all edge switches, so the inner loops
// run 16 destinations to a vector instruction; sets are found from one bit a link and destination.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "route_table.hpp"

namespace railweave {

namespace {

// One hop further, saturating: far stays far.
inline std::uint8_t step(std::uint8_t d) {
  return static_cast<std::uint8_t>((d < kFar - 1 ? d : kFar - 1) + 1);
}

void relax_row(std::uint8_t* __restrict to, const std::uint8_t* __restrict from, std::size_t n) {
  for (std::size_t d = 0; d < n; ++d) {
    const std::uint8_t v = step(from[d]);
    to[d] = v < to[d] ? v : to[d];
  }
}

void mark_row(std::uint8_t* __restrict plane, const std::uint8_t* __restrict target,
              const std::uint8_t* __restrict from, std::uint8_t bit, std::size_t n) {
  for (std::size_t d = 0; d < n; ++d)
    plane[d] = static_cast<std::uint8_t>(plane[d] | (step(from[d]) == target[d] ? bit : 0));
}

}  // namespace

struct RouteTable::Scratch {
  std::size_t words = 0;  // 64-bit words which hold one bit for each outgoing link
  std::vector<std::uint8_t> planes, down_target, up_target;
  std::vector<std::uint64_t> keys;
  std::vector<std::int32_t> slots, shown_by;
};

void RouteTable::compile(const Poll& poll) {
  // 65,535 destinations keep a set number in 16 bits, as a switch has at most one set for each.
  if (n_edges() > 65535) throw std::invalid_argument("more than 65535 edge switches");
  best_.assign(static_cast<std::size_t>(n_switches()) * edge_switch_.size(), kFar);
  if (tiered_) relax_tiered(poll);
  else relax_plain(poll);
  intern_all(poll);
  std::vector<std::uint8_t>().swap(down_);
}

void RouteTable::relax_tiered(const Poll& poll) {
  down_.assign(best_.size(), kFar);
  for (const auto& tier : tiers_)
    parallel_items(tier.size(), threads_, poll, [&](std::size_t i) { down_row(tier[i]); });
  for (auto tier = tiers_.rbegin(); tier != tiers_.rend(); ++tier)
    parallel_items(tier->size(), threads_, poll, [&](std::size_t i) { best_row((*tier)[i]); });
}

void RouteTable::down_row(std::int32_t sw) {
  std::uint8_t* to = down_.data() + row(sw);
  if (switch_edge_[sw] >= 0) to[switch_edge_[sw]] = 0;
  for (auto i = out_ptr_[sw]; i < out_ptr_[sw + 1]; ++i)
    if (tier_[out_[i].peer] < tier_[sw])
      relax_row(to, down_.data() + row(out_[i].peer), edge_switch_.size());
}

void RouteTable::best_row(std::int32_t sw) {
  std::uint8_t* to = best_.data() + row(sw);
  const std::uint8_t* down = down_.data() + row(sw);
  for (auto i = out_ptr_[sw]; i < out_ptr_[sw + 1]; ++i)
    if (tier_[out_[i].peer] > tier_[sw])
      relax_row(to, best_.data() + row(out_[i].peer), edge_switch_.size());
  for (std::size_t d = 0; d < edge_switch_.size(); ++d) to[d] = down[d] != kFar ? down[d] : to[d];
}

// Bellman-Ford on rows; only rows whose peers changed are relaxed again.
void RouteTable::relax_plain(const Poll& poll) {
  const std::size_t n = edge_switch_.size();
  for (std::size_t e = 0; e < n; ++e) best_[row(edge_switch_[e]) + e] = 0;
  std::vector<std::uint8_t> changed(n_switches(), 1), before(n);
  for (bool again = true; again;) {
    again = false;
    for (std::int32_t s = 0; s < n_switches(); ++s) {
      std::uint8_t* to = best_.data() + row(s);
      std::copy(to, to + n, before.begin());
      for (auto i = out_ptr_[s]; i < out_ptr_[s + 1]; ++i)
        if (changed[out_[i].peer]) relax_row(to, best_.data() + row(out_[i].peer), n);
      // A mark lasts one whole round: those before s saw it already, or will in the next round.
      const bool moved = n > 0 && std::memcmp(before.data(), to, n) != 0;
      if (moved) changed[s] = 2;
      again = again || moved;
    }
    for (auto& c : changed) c = static_cast<std::uint8_t>(c == 2 ? 1 : 0);
    poll();
  }
  if (std::find(best_.begin(), best_.end(), kFar - 1) != best_.end())
    throw std::invalid_argument("the graph has shortest paths of more than 253 switch hops");
}

// One bit for each outgoing link and destination: is the link on a best path there?
void RouteTable::member_bits(std::int32_t sw, Scratch& s) const {
  const std::size_t n = edge_switch_.size();
  const auto degree = static_cast<std::size_t>(out_ptr_[sw + 1] - out_ptr_[sw]);
  const std::uint8_t* best = best_.data() + row(sw);
  s.words = (degree + 63) / 64;
  s.planes.assign(s.words * 8 * n, 0);
  s.down_target.resize(n);
  s.up_target.resize(n);
  // Zero is never one step from anywhere, so it marks "no link of this direction is wanted".
  for (std::size_t d = 0; d < n; ++d) {
    const std::uint8_t down = tiered_ ? down_[row(sw) + d] : kFar;
    s.down_target[d] = down == kFar ? 0 : down;
    s.up_target[d] = down == kFar && best[d] != kFar ? best[d] : 0;
  }
  for (std::size_t j = 0; j < degree; ++j) {
    const auto peer = out_[out_ptr_[sw] + j].peer;
    const bool down = tiered_ && tier_[peer] < tier_[sw];
    mark_row(s.planes.data() + (j / 8) * n, down ? s.down_target.data() : s.up_target.data(),
             (down ? down_.data() : best_.data()) + row(peer),
             static_cast<std::uint8_t>(1U << (j % 8)), n);
  }
  s.keys.assign(s.words * n, 0);
  for (std::size_t p = 0; p < (degree + 7) / 8; ++p)
    for (std::size_t d = 0; d < n; ++d)
      s.keys[d * s.words + p / 8] |= std::uint64_t{s.planes[p * n + d]} << (8 * (p % 8));
}

// Numbers the different bit patterns of one switch. The pattern itself is the key, compared in
// full, so equal numbers mean equal sets; number 0 is the empty set.
void RouteTable::intern_switch(std::int32_t sw, Scratch& s, SwitchSets& out) {
  member_bits(sw, s);
  const std::size_t n = edge_switch_.size(), words = s.words;
  std::uint16_t* ids = set_of_.data() + row(sw);
  out.sizes.assign(1, 0);
  if (words == 0 || n == 0) return;
  std::size_t slots = 16;
  while (slots < 2 * n) slots *= 2;
  s.slots.assign(slots, 0);
  s.shown_by.assign(1, -1);  // for each set, the first destination which has it
  auto key = [&](std::size_t d) { return s.keys.data() + d * words; };
  auto equal = [&](std::size_t a, std::size_t b) { return std::equal(key(a), key(a) + words, key(b)); };
  for (std::size_t d = 0; d < n; ++d) {
    if (d > 0 && equal(d, d - 1)) {
      ids[d] = ids[d - 1];
      continue;
    }
    std::uint64_t h = 0, any = 0;
    for (std::size_t w = 0; w < words; ++w) {
      any |= key(d)[w];
      h = (h ^ key(d)[w]) * 0x9E3779B97F4A7C15ULL;
      h ^= h >> 32;
    }
    if (any == 0) continue;
    std::size_t at = h & (slots - 1);
    while (s.slots[at] != 0 && !equal(s.shown_by[s.slots[at]], d)) at = (at + 1) & (slots - 1);
    if (s.slots[at] == 0) {
      s.slots[at] = static_cast<std::int32_t>(s.shown_by.size());
      s.shown_by.push_back(static_cast<std::int32_t>(d));
    }
    ids[d] = static_cast<std::uint16_t>(s.slots[at]);
  }
  for (std::size_t k = 1; k < s.shown_by.size(); ++k) {
    const auto before = out.members.size();
    for (auto i = out_ptr_[sw]; i < out_ptr_[sw + 1]; ++i) {
      const auto j = static_cast<std::size_t>(i - out_ptr_[sw]);
      if (key(s.shown_by[k])[j / 64] >> (j % 64) & 1U) out.members.push_back({out_[i].link, out_[i].peer});
    }
    out.sizes.push_back(static_cast<std::uint32_t>(out.members.size() - before));
  }
}

void RouteTable::intern_all(const Poll& poll) {
  set_of_.assign(best_.size(), 0);
  std::vector<SwitchSets> sets(n_switches());
  constexpr std::int32_t block = 16;
  parallel_items((n_switches() + block - 1) / block, threads_, poll, [&](std::size_t b) {
    Scratch scratch;
    const auto first = static_cast<std::int32_t>(b) * block;
    for (auto s = first; s < std::min(first + block, n_switches()); ++s)
      intern_switch(s, scratch, sets[s]);
  });
  std::size_t n_sets = 0, n_members = 0;
  for (const auto& s : sets) {
    n_sets += s.sizes.size();
    n_members += s.members.size();
  }
  if (n_members > UINT32_MAX) throw std::invalid_argument("next-hop sets with more than 2^32 members");
  set_start_.reserve(n_sets + 1);
  members_.reserve(n_members);
  set_start_.push_back(0);
  for (auto& s : sets) {
    set_base_.push_back(static_cast<std::uint32_t>(set_start_.size() - 1));
    for (const auto size : s.sizes) set_start_.push_back(set_start_.back() + size);
    members_.insert(members_.end(), s.members.begin(), s.members.end());
    s = SwitchSets{};
  }
}

}  // namespace railweave
