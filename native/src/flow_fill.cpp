// The full solve: progressive filling of all active variables, link by link in order of level.
#include <algorithm>
#include <numeric>

#include "flow_solver.hpp"

namespace railweave::flow {
namespace {
constexpr auto kLater = [](const std::pair<double, std::int32_t>& a,
                           const std::pair<double, std::int32_t>& b) { return a > b; };
}

// Weight still unfrozen on a link, summed afresh: repeated subtraction would leave rounding.
double Solver::exact_weight(std::int32_t link) const {
  if (!weighted_) return static_cast<double>(open_[link]);
  double sum = 0.0;
  for (std::int64_t e = slice_[link], end = e + count_[link]; e < end; ++e)
    if (frozen_[crossing_var_[entry_crossing_[e]]] != fill_epoch_) sum += rows_.weight[entry_crossing_[e]];
  return sum;
}

// Fixes every open variable of the link at its level and takes their share off their other links.
void Solver::freeze(std::int32_t link, double level) {
  for (std::int64_t e = slice_[link], end = e + count_[link]; e < end; ++e) {
    const std::int32_t var = crossing_var_[entry_crossing_[e]];
    if (frozen_[var] == fill_epoch_) continue;
    frozen_[var] = fill_epoch_;
    if (group_[var] != link) {
      const double left = leave(var);
      join(var, link, left);
    }
    for (auto i = rows_.ptr[var]; i < rows_.ptr[var + 1]; ++i) {
      const std::int32_t l = rows_.link[i];
      const double w = weighted_ ? rows_.weight[i] : 1.0;
      free_[l] -= w * level;
      open_weight_[l] -= w;
      load_.top[l] = level;
      --open_[l];
    }
  }
}

void Solver::fill_all(Interrupt& interrupt) {
  ++full_solves;
  clear_dirty();
  stop_pushing();
  ++fill_epoch_;
  fill_heap_.clear();
  for (std::int32_t l = 0; l < links_; ++l) {
    advance(l);
    load_.top[l] = 0.0;
    free_[l] = capacity_[l];
    open_[l] = count_[l];
    if (count_[l] == 0) continue;
    open_weight_[l] = exact_weight(l);
    fill_heap_.emplace_back(free_[l] / open_weight_[l], l);
  }
  std::make_heap(fill_heap_.begin(), fill_heap_.end(), kLater);
  while (!fill_heap_.empty()) {
    std::pop_heap(fill_heap_.begin(), fill_heap_.end(), kLater);
    const auto [level, l] = fill_heap_.back();
    fill_heap_.pop_back();
    if (open_[l] == 0) continue;
    // Levels only rise while others freeze: a stale key goes back in with its present value.
    const double present = free_[l] / (weighted_ ? open_weight_[l] : open_[l]);
    if (present > level && !fill_heap_.empty() && present > fill_heap_.front().first) {
      fill_heap_.emplace_back(present, l);
      std::push_heap(fill_heap_.begin(), fill_heap_.end(), kLater);
      continue;
    }
    interrupt.tick(open_[l]);
    const double final_level = std::max(0.0, free_[l] / exact_weight(l));
    freeze(l, final_level);
    open_weight_[l] = final_level;  // closed: the slot keeps the level until all are known
  }
  for (std::int32_t l = 0; l < links_; ++l) {
    if (group_count_[l] > 0) level_[l] = open_weight_[l];
    use_[l] = capacity_[l] - free_[l];
    if (!is_touched_[l]) {
      is_touched_[l] = 1;
      touched_.push_back(l);
    }
  }
  for (std::int32_t l = 0; l < links_; ++l) rebuild_slots(l);
  rank_all();
}

// Orders links by level (unsaturated ones by the fastest rate they carry), so that a sweep in rank
// order meets causes before effects.
void Solver::rank_all() {
  ranked_ = true;
  unsorted_ = 0;
  for (const std::int32_t l : order_) key_[l] = group_count_[l] > 0 ? level_[l] : load_.top[l];
  std::sort(order_.begin(), order_.end(), [this](std::int32_t a, std::int32_t b) {
    return key_[a] != key_[b] ? key_[a] < key_[b] : a < b;
  });
  for (std::size_t r = 0; r < order_.size(); ++r) rank_[order_[r]] = static_cast<std::int32_t>(r);
}

// The order is nearly right already: insertion sort, unless that turns out to be untrue.
void Solver::rank_again() {
  unsorted_ = 0;
  const auto n = static_cast<std::int32_t>(order_.size());
  std::int64_t budget = 16 * static_cast<std::int64_t>(n);
  for (std::int32_t r = 1; r < n; ++r) {
    if (budget < 0) {
      std::stable_sort(order_.begin(), order_.end(),
                       [this](std::int32_t a, std::int32_t b) { return key_[a] < key_[b]; });
      break;
    }
    const std::int32_t l = order_[r];
    const double key = key_[l];
    std::int32_t to = r;
    for (; to > 0 && key_[order_[to - 1]] > key; --to) order_[to] = order_[to - 1];
    order_[to] = l;
    budget -= r - to;
  }
  low_ = links_;
  high_ = -1;
  for (std::int32_t r = 0; r < n; ++r) {
    const std::int32_t l = order_[r];
    rank_[l] = r;
    if ((dirty_[static_cast<std::size_t>(l) >> 6] >> (l & 63) & 1) != 0) {
      low_ = std::min(low_, r);
      high_ = r;
    }
  }
}

}  // namespace railweave::flow
