// The incremental solve: visit dirty links from low to high level until none is left.
#include <algorithm>
#include <bit>
#include <cmath>

#include "flow_solver.hpp"

namespace railweave::flow {
namespace {
// Two levels closer than this are the same level: a variable is not moved between them.
constexpr double kSame = 1e-12;
// A level that moved by less than this has not moved: rounding must not travel round the network.
constexpr double kStill = 1e-14;
// Quarters of the number of links: so many visits within one solve, then the order is renewed.
constexpr std::int64_t kResort = 2;
}  // namespace

void Solver::mark(std::int32_t link) {
  dirty_[static_cast<std::size_t>(link) >> 6] |= std::uint64_t{1} << (link & 63);
  low_ = std::min(low_, rank_[link]);
  high_ = std::max(high_, rank_[link]);
}

// The dirty link of lowest rank; -1 when none is left.
std::int32_t Solver::next_dirty() {
  for (;;) {
    for (; low_ <= high_; ++low_) {
      const std::int32_t link = order_[low_];
      std::uint64_t& word = dirty_[static_cast<std::size_t>(link) >> 6];
      const std::uint64_t bit = std::uint64_t{1} << (link & 63);
      if ((word & bit) == 0) continue;
      word &= ~bit;
      return link;
    }
    high_ = -1;
    // Whole rows of bits are marked without a look at ranks: some may lie below the sweep.
    low_ = links_;
    for (std::size_t w = first_word_; w < last_word_; ++w)
      for (std::uint64_t left = dirty_[w]; left != 0; left &= left - 1) {
        const std::int32_t rank = rank_[w * 64 + static_cast<std::size_t>(std::countr_zero(left))];
        low_ = std::min(low_, rank);
        high_ = std::max(high_, rank);
      }
    if (high_ < 0) return -1;
  }
}

void Solver::clear_dirty() {
  std::fill(dirty_.begin(), dirty_.end(), 0);
  low_ = links_;
  high_ = -1;
}

// Marks what has to be visited when the link's level has changed: the links that its members
// cross, but for those that are known to have room.
void Solver::mark_downstream(std::int32_t link) {
  // Walking reads each crossing of the link to find its own members, then their rows.
  const auto reach = static_cast<std::int64_t>(reach_[link].size());
  const std::int64_t walk = pushing_ ? 4 * reach : count_[link] + 8 * std::int64_t{group_count_[link]};
  if (use_adjacent_ && walk > static_cast<std::int64_t>(last_word_ - first_word_)) {
    const std::uint64_t* row = adjacent_.data() + static_cast<std::size_t>(link) * words_;
    const std::uint64_t* heed = heedful_.data();
    const std::uint64_t any = pushing_ ? 0 : ~std::uint64_t{0};
    std::uint64_t* dirty = dirty_.data();
    for (std::size_t i = first_word_, n = last_word_; i < n; ++i)
      dirty[i] |= row[i] & (heed[i] | any);
    high_ = static_cast<std::int32_t>(order_.size()) - 1;
    return;
  }
  if (pushing_) {
    for (const Crossed& to : reach_[link])
      if (remember_ || own_weight_[to.link] > 0.0) mark(to.link);
    return;
  }
  const std::int64_t begin = slice_[link], end = begin + count_[link];
  for (std::int64_t e = begin; e < end; ++e) {
    if (slot_[begin + entry_slot_[e]].group != link) continue;
    const std::int32_t var = crossing_var_[entry_crossing_[e]];
    for (auto i = rows_.ptr[var]; i < rows_.ptr[var + 1]; ++i)
      if (rows_.link[i] != link) mark(rows_.link[i]);
  }
}

// The level x at which sum of w * min(x, present rate) over the crossings fills the link; the own
// group counts as unbounded. Newton on a concave function from the left: finite and monotone.
double Solver::water_level(std::int32_t link, double start) const {
  const Slot* slot = slot_.data() + slice_[link];
  const double* weights = weighted_ ? slot_weight_.data() + slice_[link] : nullptr;
  const auto weight = [=](std::int32_t i) { return weights ? weights[i] : slot[i].count; };
  const std::int32_t n = slots_[link];
  double total = 0.0;
  for (std::int32_t i = 0; i < n; ++i) total += weight(i);
  double x = std::max(start, capacity_[link] / total);
  for (;;) {
    double sum = 0.0, open = 0.0;
    for (std::int32_t i = 0; i < n; ++i) {
      const double v = level_[slot[i].group];
      const bool free = slot[i].group == link || v > x;
      sum += free ? 0.0 : weight(i) * v;
      open += free ? weight(i) : 0.0;
    }
    if (open == 0.0) return x;
    const double next = (capacity_[link] - sum) / open;
    if (!(next > x * (1.0 + 1e-15))) return x;
    x = next;
  }
}

double Solver::open_level(std::int32_t link, std::int32_t var, double own,
                          std::int32_t groups) const {
  const Slot* slot = slot_.data() + slice_[link];
  const double* weights = weighted_ ? slot_weight_.data() + slice_[link] : nullptr;
  const std::int32_t n = count_[link] > 1 ? slots_[link] : 0, mine = group_[var];
  const auto weight = [=](std::int32_t i) {
    if (slot[i].group >= groups) return 0.0;
    const double all = weights ? weights[i] : slot[i].count;
    return slot[i].group == mine ? std::max(0.0, all - own) : all;
  };
  double total = own;
  for (std::int32_t i = 0; i < n; ++i) total += weight(i);
  double x = capacity_[link] / total;
  for (;;) {
    double sum = 0.0, open = own;
    for (std::int32_t i = 0; i < n; ++i) {
      const double v = level_[slot[i].group];
      const bool free = slot[i].group == link || v > x;
      sum += free ? 0.0 : weight(i) * v;
      open += free ? weight(i) : 0.0;
    }
    const double next = (capacity_[link] - sum) / open;
    if (!(next > x * (1.0 + 1e-15))) return x;
    x = next;
  }
}

// Moves every crossing that is faster than the link's new level into the link's own group.
void Solver::take_faster(std::int32_t link, double level) {
  const std::int64_t begin = slice_[link], end = begin + count_[link];
  const double bar = level * (1.0 + kSame);
  taken_.clear();
  for (std::int64_t e = begin; e < end; ++e) {
    const std::int32_t group = slot_[begin + entry_slot_[e]].group;
    if (group != link && level_[group] > bar)
      taken_.push_back(crossing_var_[entry_crossing_[e]]);
  }
  for (const std::int32_t var : taken_) {
    const double left = leave(var);
    join(var, link, left);
    relabel(var, link);
    mark_row(var);
  }
}

void Solver::set_level(std::int32_t link, double level) {
  advance(link);
  push(link, level);
  level_[link] = level;
  mark_downstream(link);
}

// Takes over what is faster than the link can bear, if anything is. True if the level is found.
bool Solver::take_over(std::int32_t link, double level) {
  const double old = level_[link], weight = own_weight_[link];
  level = water_level(link, level);
  const std::int32_t before = group_count_[link];
  take_faster(link, level);
  const bool took = group_count_[link] != before;
  if (!took && weight == 0.0) return false;
  use_[link] = capacity_[link];
  if (took || std::abs(level - old) > kStill * old) set_level(link, level);
  return true;
}

void Solver::visit(std::int32_t link) {
  ++visits;
  if (slots_[link] > 2 * slots_used_[link] + 8) rebuild_slots(link);
  if (!is_touched_[link]) {
    is_touched_[link] = 1;
    touched_.push_back(link);
  }
  if (count_[link] == 0) {
    use_[link] = 0.0;
    load_.sum[link] = load_.low[link] = load_.top[link] = 0.0;
    return;
  }
  const double old = level_[link], weight = own_weight_[link], capacity = capacity_[link];
  double level = 0.0;
  const auto over = [&] {
    level = weight > 0.0 ? (capacity - load_.sum[link] - load_.low[link]) / weight : 0.0;
    return weight > 0.0 ? load_.top[link] > level * (1.0 + kSame)
                        : load_.sum[link] > capacity * (1.0 + kSame);
  };
  if (!pushing_ || ++age_[link] > kMostAge) add_up(link);
  // Nothing may be taken over on the strength of a bound, nor of a sum that is a little off.
  bool too_much = over();
  const bool close = weight == 0.0 && load_.sum[link] > capacity * (1.0 - kSame);
  if (age_[link] > 0 && (too_much || close)) {
    add_up(link);
    too_much = over();
  }
  if (too_much && take_over(link, level)) return;
  use_[link] = load_.of(link) + weight * level;
  if (weight == 0.0 || std::abs(level - old) <= kStill * old) return;
  set_level(link, level);
}

void Solver::relax(Interrupt& interrupt) {
  // Label correction ends quickly; should ties ever make it wander, filling from scratch is safe.
  const std::int64_t limit = visits + 64 * static_cast<std::int64_t>(links_) + 1024;
  std::int64_t resort = visits + kResort * static_cast<std::int64_t>(order_.size()) / 4;
  for (std::int32_t link = next_dirty(); link >= 0; link = next_dirty()) {
    visit(link);
    interrupt.tick();
    if (visits > resort) {  // many changes at once: levels have moved past one another
      rekey();
      rank_again();
      resort = visits + kResort * static_cast<std::int64_t>(order_.size()) / 4;
    }
    if (visits > limit) {
      fill_all(interrupt);
      return;
    }
  }
}

void Solver::rekey() {
  for (const std::int32_t l : touched_) key_[l] = group_count_[l] > 0 ? level_[l] : load_.top[l];
}

void Solver::settle() {
  unsorted_ += static_cast<std::int64_t>(touched_.size());
  rekey();
  for (const std::int32_t l : touched_) {
    is_touched_[l] = 0;
    refresh_finish(l);
    if (capacity_[l] > 0.0) peak_[l] = std::max(peak_[l], use_[l] / capacity_[l]);
    set_watch(l);
  }
  for (const std::int32_t l : peaking_) {
    if (own_weight_[l] == 0.0 && capacity_[l] > 0.0)
      peak_[l] = std::max(peak_[l], load_.of(l) / capacity_[l]);
    set_watch(l);
  }
  peaking_.clear();
  if (remember_) visited_.insert(visited_.end(), touched_.begin(), touched_.end());
  touched_.clear();
}

void Solver::solve(double now, Interrupt& interrupt) {
  now_ = std::max(now_, now);
  ++solves;
  if (!ranked_ || (changes_ >= 32 && changes_ * 8 >= active_)) {
    fill_all(interrupt);
  } else {
    if (unsorted_ * 16 >= static_cast<std::int64_t>(order_.size())) rank_again();
    choose_way();
    relax(interrupt);
  }
  changes_ = 0;
  settle();
}

}  // namespace railweave::flow
