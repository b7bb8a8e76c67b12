// What each link carries for other groups: kept up by pushing every change of a level to the links
// that the group's members cross, and added up afresh now and then.
#include <algorithm>
#include <limits>

#include "flow_solver.hpp"

namespace railweave::flow {
namespace {
// So close to its capacity an unsaturated link is looked at: far beyond what rounding could hide.
constexpr double kNearlyFull = 1.0 - 1e-9;
// More changes than this in one solve are many.
constexpr std::int64_t kManyChanges = 64;

struct Scan {
  double sum, top;
};

// The own group is excluded by its level being 0 during the scan. A fixed number of lanes keeps
// the order of additions, and with it every bit of the sum, the same on every machine.
template <bool kWeighted>
Scan scan_slots(const Slot* slot, const double* weights, std::int64_t n, const double* level) {
  const auto weight = [=](std::int64_t i) {
    return kWeighted ? weights[i] : static_cast<double>(slot[i].count);
  };
  double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0, m0 = 0.0, m1 = 0.0, m2 = 0.0, m3 = 0.0;
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const double a = level[slot[i].group], b = level[slot[i + 1].group];
    const double c = level[slot[i + 2].group], d = level[slot[i + 3].group];
    s0 += weight(i) * a;
    s1 += weight(i + 1) * b;
    s2 += weight(i + 2) * c;
    s3 += weight(i + 3) * d;
    m0 = a > m0 ? a : m0;
    m1 = b > m1 ? b : m1;
    m2 = c > m2 ? c : m2;
    m3 = d > m3 ? d : m3;
  }
  for (; i < n; ++i) {
    const double a = level[slot[i].group];
    s0 += weight(i) * a;
    m0 = a > m0 ? a : m0;
  }
  return {(s0 + s1) + (s2 + s3), std::max(std::max(m0, m1), std::max(m2, m3))};
}

// True if the load of one of the links has risen above what is watched for.
template <bool kRise>
bool push_to(const std::vector<Crossed>& reach, double more, double level, Loads& loads) {
  double *sum = loads.sum.data(), *low = loads.low.data(), *top = loads.top.data();
  const double* watch = loads.watch.data();
  bool seen = false;
  for (const Crossed& to : reach) {
    const double part = to.weight * more, before = sum[to.link], after = before + part;
    low[to.link] += part - (after - before);
    sum[to.link] = after;
    if (!kRise) continue;
    seen |= after > watch[to.link];
    if (level > top[to.link]) top[to.link] = level;
  }
  return seen;
}
}  // namespace

void Solver::enter_reach(std::int32_t link, std::int32_t slot) {
  const std::int64_t at = slice_[link] + slot;
  const std::int32_t group = slot_[at].group;
  if (!pushing_ || group == link || group == links_) return;
  slot_place_[at] = static_cast<std::int32_t>(reach_[group].size());
  reach_[group].push_back({link, slot, weighted_ ? slot_weight_[at] : slot_[at].count});
}

void Solver::update_reach(std::int32_t link, std::int32_t slot) {
  const std::int64_t at = slice_[link] + slot;
  const std::int32_t group = slot_[at].group;
  if (!pushing_ || group == link || group == links_) return;
  reach_[group][slot_place_[at]].weight = weighted_ ? slot_weight_[at] : slot_[at].count;
}

void Solver::leave_reach(std::int32_t link, std::int32_t slot) {
  const std::int64_t at = slice_[link] + slot;
  const std::int32_t group = slot_[at].group;
  if (!pushing_ || group == link || group == links_) return;
  std::vector<Crossed>& r = reach_[group];
  const Crossed last = r.back();
  r[slot_place_[at]] = last;
  slot_place_[slice_[last.link] + last.slot] = slot_place_[at];
  r.pop_back();
}

void Solver::stop_pushing() {
  if (!pushing_) return;
  pushing_ = false;
  pulled_ = 0;
  for (const std::int32_t group : order_) reach_[group].clear();
}

void Solver::start_pushing() {
  pushing_ = true;
  for (const std::int32_t link : order_) {
    for (std::int32_t s = 0; s < slots_[link]; ++s)
      if (slot_[slice_[link] + s].count > 0) enter_reach(link, s);
    add_up(link);
  }
}

// Which of the two costs less: with many changes a solve, keeping up who crosses what costs more
// than adding up afresh; with few it is found out once adding up has cost as much as that would.
void Solver::choose_way() {
  if (changes_ > kManyChanges) {
    stop_pushing();
  } else if (!pushing_ && pulled_ > static_cast<std::int64_t>(rows_.link.size())) {
    start_pushing();
  }
}

void Solver::add_load(std::int32_t link, std::int32_t group, double weight) {
  if (group == links_) {
    age_[link] = kMostAge;  // not placed yet: only a look at all crossings tells
  } else if (pushing_) {
    load_.add(link, weight * level_[group]);
    load_.top[link] = std::max(load_.top[link], level_[group]);
  }
}

void Solver::add_up(std::int32_t link) {
  scanned += slots_[link];
  pulled_ += slots_[link];
  age_[link] = 0;
  const double own = level_[link];
  level_[link] = 0.0;
  const Slot* slots = slot_.data() + slice_[link];
  const Scan scan =
      weighted_ ? scan_slots<true>(slots, slot_weight_.data() + slice_[link], slots_[link],
                                   level_.data())
                : scan_slots<false>(slots, nullptr, slots_[link], level_.data());
  level_[link] = own;
  load_.sum[link] = scan.sum;
  load_.low[link] = 0.0;
  load_.top[link] = scan.top;
}

// Has all links that the group's members cross know of its new level.
void Solver::push(std::int32_t group, double level) {
  if (!pushing_) return;
  const std::vector<Crossed>& r = reach_[group];
  const double more = level - level_[group];
  const bool seen = more > 0.0 ? push_to<true>(r, more, level, load_)
                               : push_to<false>(r, more, level, load_);
  if (!seen) return;
  for (const Crossed& to : r) {
    const std::int32_t l = to.link;
    if (load_.sum[l] <= load_.watch[l]) continue;
    load_.watch[l] = capacity_[l] * kNearlyFull;
    if (load_.sum[l] > load_.watch[l]) mark(l);
    peaking_.push_back(l);
  }
}

// From here on an unsaturated link matters only if it fills up, or is fuller than ever before.
void Solver::set_watch(std::int32_t link) {
  if (own_weight_[link] > 0.0 || remember_) return;
  load_.watch[link] = capacity_[link] * std::min(peak_[link], kNearlyFull);
}

void Solver::remember_visited() {
  remember_ = true;
  std::fill(heedful_.begin(), heedful_.end(), ~std::uint64_t{0});
  std::fill(load_.watch.begin(), load_.watch.end(), std::numeric_limits<double>::infinity());
}

}  // namespace railweave::flow
