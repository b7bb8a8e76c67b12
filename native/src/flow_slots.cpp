// The crossings of each link, summed by the group of the variable: what a visit has to read.
#include <algorithm>
#include <limits>

#include "flow_solver.hpp"

namespace railweave::flow {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
}  // namespace

std::int32_t Solver::slot_for(std::int32_t link, std::int32_t group) {
  const Slot* slots = slot_.data() + slice_[link];
  const std::int32_t n = slots_[link];
  const std::int32_t nobody = links_ + 1;
  std::int32_t vacant = n;
  std::int32_t& latest = latest_slot_[link];  // many in a row go to the same group
  if (latest < n && slots[latest].group == group) return latest;
  for (std::int32_t s = 0; s < n; ++s) {
    if (slots[s].group == group) return latest = s;
    if (slots[s].group == nobody) vacant = s;
  }
  const std::int64_t at = slice_[link] + vacant;
  slot_[at] = {group, 0};
  if (weighted_) slot_weight_[at] = 0.0;
  if (vacant == n) ++slots_[link];
  ++slots_used_[link];
  set_adjacent(group, link, true);
  enter_reach(link, vacant);
  return latest = vacant;
}

void Solver::set_own_weight(std::int32_t link, double weight) {
  const bool before = own_weight_[link] > 0.0, now = weight > 0.0;
  own_weight_[link] = weight;
  if (before == now || remember_) return;
  const std::uint64_t bit = std::uint64_t{1} << (link & 63);
  std::uint64_t& word = heedful_[static_cast<std::size_t>(link) >> 6];
  word = now ? word | bit : word & ~bit;
  load_.watch[link] = now ? kInf : -kInf;  // until settled
}

void Solver::enter_slot(std::int32_t link, std::int32_t group, std::int64_t entry,
                        double weight) {
  const std::int32_t slot = slot_for(link, group);
  const std::int64_t at = slice_[link] + slot;
  entry_slot_[entry] = slot;
  ++slot_[at].count;
  if (weighted_) slot_weight_[at] += weight;
  if (group == link) {
    set_own_weight(link, weighted_ ? slot_weight_[at] : slot_[at].count);
    return;
  }
  update_reach(link, slot);
  add_load(link, group, weight);
}

void Solver::leave_slot(std::int32_t link, std::int64_t entry, double weight) {
  const std::int32_t slot = entry_slot_[entry];
  const std::int64_t at = slice_[link] + slot;
  const std::int32_t group = slot_[at].group;
  if (group != link) add_load(link, group, -weight);
  if (weighted_) slot_weight_[at] -= weight;
  if (--slot_[at].count == 0) {
    if (weighted_) slot_weight_[at] = 0.0;  // exactly, whatever rounding the weights left
    leave_reach(link, slot);
    set_adjacent(group, link, false);
    slot_[at].group = links_ + 1;
    --slots_used_[link];
    while (slots_[link] > 0 && slot_[slice_[link] + slots_[link] - 1].count == 0) --slots_[link];
    if (group == link) set_own_weight(link, 0.0);
    return;
  }
  if (group == link) {
    set_own_weight(link, weighted_ ? slot_weight_[at] : slot_[at].count);
    return;
  }
  update_reach(link, slot);
}

void Solver::set_adjacent(std::int32_t group, std::int32_t link, bool on) {
  if (!use_adjacent_ || group >= links_ || group == link) return;
  const std::uint64_t bit = std::uint64_t{1} << (link & 63);
  std::uint64_t& word = adjacent_[static_cast<std::size_t>(group) * words_ +
                                  (static_cast<std::size_t>(link) >> 6)];
  word = on ? word | bit : word & ~bit;
}

void Solver::relabel(std::int32_t var, std::int32_t link) {
  for (auto i = rows_.ptr[var]; i < rows_.ptr[var + 1]; ++i) {
    const std::int32_t l = rows_.link[i];
    const double weight = weight_of(i);
    leave_slot(l, crossing_entry_[i], weight);
    enter_slot(l, link, crossing_entry_[i], weight);
  }
}

// All slots of a link afresh, in order of first appearance; closes gaps and clears rounding.
void Solver::rebuild_slots(std::int32_t link) {
  const std::int64_t begin = slice_[link];
  for (std::int32_t s = 0; s < slots_[link]; ++s)
    if (slot_[begin + s].count > 0) {
      leave_reach(link, s);
      set_adjacent(slot_[begin + s].group, link, false);
    }
  std::int32_t n = 0;
  double own = 0.0;
  for (std::int64_t e = begin, end = begin + count_[link]; e < end; ++e) {
    const std::int32_t group = group_[crossing_var_[entry_crossing_[e]]];
    std::int32_t& slot = slot_of_group_[group];
    if (slot < 0) {
      slot = n++;
      slot_[begin + slot] = {group, 0};
      if (weighted_) slot_weight_[begin + slot] = 0.0;
    }
    entry_slot_[e] = slot;
    ++slot_[begin + slot].count;
    if (weighted_) slot_weight_[begin + slot] += weight_of(entry_crossing_[e]);
  }
  slots_[link] = slots_used_[link] = n;
  for (std::int32_t s = 0; s < n; ++s) {
    const Slot& slot = slot_[begin + s];
    slot_of_group_[slot.group] = -1;
    set_adjacent(slot.group, link, true);
    enter_reach(link, s);
    if (slot.group == link) own = weighted_ ? slot_weight_[begin + s] : slot.count;
  }
  set_own_weight(link, own);
}

}  // namespace railweave::flow
