// Bookkeeping of the solver: who is active, in which group, and when it finishes.
#include "flow_solver.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace railweave::flow {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kEndless = 1e300;
constexpr std::size_t kBlock = 64;
// Adjacency bits cost links^2 / 8 bytes; beyond this many links groups are walked instead.
constexpr std::int32_t kAdjacentLinks = 16384;
}  // namespace

Solver::Solver(Rows rows, std::vector<double> capacity)
    : links_(static_cast<std::int32_t>(capacity.size())),
      weighted_(!rows.weight.empty()),
      rows_(std::move(rows)),
      capacity_(std::move(capacity)) {
  const std::size_t n = static_cast<std::size_t>(links_), nnz = rows_.link.size();
  const std::size_t vars = static_cast<std::size_t>(rows_.count());
  slice_.assign(n + 1, 0);
  for (const std::int32_t l : rows_.link) ++slice_[l + 1];
  for (std::size_t l = 0; l < n; ++l) slice_[l + 1] += slice_[l];
  count_.assign(n, 0);
  entry_crossing_.resize(nnz);
  entry_slot_.resize(nnz);
  slot_.resize(nnz);
  if (weighted_) slot_weight_.resize(nnz);
  slots_.assign(n, 0);
  slots_used_.assign(n, 0);
  latest_slot_.assign(n, 0);
  slot_place_.resize(nnz);
  for (auto* a : {&load_.sum, &load_.low, &load_.watch, &load_.top}) a->assign(n, 0.0);
  age_.assign(n, 0);
  reach_.resize(n + 1);
  slot_of_group_.assign(n + 1, -1);
  crossing_entry_.resize(nnz);
  crossing_var_.resize(nnz);
  for (std::size_t v = 0; v < vars; ++v)
    for (auto i = rows_.ptr[v]; i < rows_.ptr[v + 1]; ++i)
      crossing_var_[i] = static_cast<std::int32_t>(v);

  level_.assign(n + 2, 0.0);
  level_[n] = kEndless;
  for (auto* a : {&clock_, &since_, &use_, &peak_, &free_, &open_weight_, &own_weight_})
    a->assign(n + 1, 0.0);
  finish_.assign((n / kBlock + 1) * kBlock, kInf);
  block_finish_.assign(n / kBlock + 1, kInf);
  block_stale_.assign(n / kBlock + 1, 0);
  group_count_.assign(n + 1, 0);
  sending_.assign(n + 1, 0);
  root_.assign(n + 1, HeapForest::kNone);
  open_.assign(n + 1, 0);
  target_.assign(vars, 0.0);
  group_.assign(vars, -1);
  frozen_.assign(vars, 0);
  heap_.resize(vars);
  rank_.assign(n, 0);
  for (std::int32_t l = 0; l < links_; ++l) {
    if (slice_[l] == slice_[l + 1]) continue;
    rank_[l] = static_cast<std::int32_t>(order_.size());
    order_.push_back(l);
  }
  words_ = n / 64 + 1;
  dirty_.assign(words_, 0);
  heedful_.assign(words_, 0);
  if (!order_.empty()) {  // in order of the links as yet
    first_word_ = static_cast<std::size_t>(order_.front()) / 64;
    last_word_ = static_cast<std::size_t>(order_.back()) / 64 + 1;
  }
  low_ = links_;
  key_.assign(n, 0.0);
  use_adjacent_ = links_ <= kAdjacentLinks;
  if (use_adjacent_) adjacent_.assign(n * words_, 0);
  is_touched_.assign(n, 0);
  touched_.reserve(n);
  taken_.reserve(nnz == 0 ? 0 : 1024);
  fill_heap_.reserve(n);
}

void Solver::attach(std::int32_t var) {
  for (auto i = rows_.ptr[var]; i < rows_.ptr[var + 1]; ++i) {
    const std::int32_t l = rows_.link[i];
    const std::int64_t e = slice_[l] + count_[l]++;
    entry_crossing_[e] = static_cast<std::int32_t>(i);
    crossing_entry_[i] = static_cast<std::int32_t>(e);
    enter_slot(l, links_, e, weight_of(i));
  }
}

void Solver::detach(std::int32_t var) {
  for (auto i = rows_.ptr[var]; i < rows_.ptr[var + 1]; ++i) {
    const std::int32_t l = rows_.link[i];
    leave_slot(l, crossing_entry_[i], weight_of(i));
    const std::int64_t last = slice_[l] + --count_[l], e = crossing_entry_[i];
    if (e == last) continue;
    entry_crossing_[e] = entry_crossing_[last];
    entry_slot_[e] = entry_slot_[last];
    crossing_entry_[entry_crossing_[e]] = static_cast<std::int32_t>(e);
  }
}

void Solver::mark_row(std::int32_t var) {
  for (auto i = rows_.ptr[var]; i < rows_.ptr[var + 1]; ++i) mark(rows_.link[i]);
}

void Solver::add(std::int32_t var, double bytes) {
  attach(var);
  group_[var] = links_;
  target_[var] = bytes < 0.0 ? kInf : bytes;
  mark_row(var);
  ++active_;
  ++changes_;
}

void Solver::remove(std::int32_t var) {
  mark_row(var);
  leave(var);
  detach(var);
  group_[var] = -1;
  --active_;
  ++changes_;
}

void Solver::set_capacity(std::int32_t link, double capacity) {
  if (capacity_[link] == capacity) return;
  capacity_[link] = capacity;
  mark(link);
}

// Brings a group's virtual clock to the present, before its rate or its members change.
void Solver::advance(std::int32_t link) {
  const double elapsed = now_ - since_[link];
  since_[link] = now_;
  if (elapsed <= 0.0 || sending_[link] == 0 || link == links_) return;
  const double bytes = level_[link] * elapsed;
  clock_[link] += bytes;
  // Two-part sum: millions of small additions must not eat into the conservation check.
  const double add = bytes * sending_[link] + served_low_, sum = served_ + add;
  served_low_ = add - (sum - served_);
  served_ = sum;
}

void Solver::join(std::int32_t var, std::int32_t link, double left) {
  advance(link);
  if (group_count_[link] == 0) clock_[link] = 0.0;
  group_[var] = link;
  ++group_count_[link];
  target_[var] = clock_[link] + left;
  if (left < kInf) {
    heap_.push(root_[link], var, target_.data());
    ++sending_[link];
  }
  ++moved;
}

// Takes the variable out of its group; returns the bytes it still has to send.
double Solver::leave(std::int32_t var) {
  const std::int32_t link = group_[var];
  if (link == links_) return target_[var];
  advance(link);
  --group_count_[link];
  if (target_[var] == kInf) return kInf;
  --sending_[link];
  heap_.remove(root_[link], var, target_.data());
  return std::max(0.0, target_[var] - clock_[link]);
}

double Solver::next_finish() {
  double best = kInf;
  for (std::size_t b = 0; b < block_finish_.size(); ++b) {
    if (block_stale_[b]) {
      const double* f = finish_.data() + b * kBlock;
      double low[4] = {kInf, kInf, kInf, kInf};
      for (std::size_t i = 0; i < kBlock; i += 4)
        for (std::size_t j = 0; j < 4; ++j) low[j] = std::min(low[j], f[i + j]);
      block_finish_[b] = std::min(std::min(low[0], low[1]), std::min(low[2], low[3]));
      block_stale_[b] = 0;
    }
    best = std::min(best, block_finish_[b]);
  }
  return best;
}

void Solver::refresh_finish(std::int32_t link) {
  const std::int32_t first = root_[link];
  double at = kInf;
  if (first != HeapForest::kNone && level_[link] > 0.0)
    at = since_[link] + std::max(0.0, target_[first] - clock_[link]) / level_[link];
  finish_[link] = at;
  block_stale_[static_cast<std::size_t>(link) / kBlock] = 1;
}

void Solver::pop_until(double limit, std::vector<Completion>& out) {
  for (std::size_t b = 0; b < block_finish_.size(); ++b) {
    if (block_finish_[b] > limit) continue;
    const std::size_t end = std::min((b + 1) * kBlock, static_cast<std::size_t>(links_));
    for (std::size_t i = b * kBlock; i < end; ++i) {
      const auto link = static_cast<std::int32_t>(i);
      while (finish_[i] <= limit) {
        const std::int32_t var = root_[i];
        out.push_back({finish_[i], var, link});
        heap_.remove(root_[i], var, target_.data());
        refresh_finish(link);
      }
    }
  }
}

void Solver::put_back(const Completion& c) {
  heap_.push(root_[c.group], c.var, target_.data());
  refresh_finish(c.group);
}

void Solver::finish(const Completion& c, double now) {
  now_ = std::max(now_, now);
  advance(c.group);
  // The clock may have run past the target by rounding, or by the release window.
  served_low_ -= clock_[c.group] - target_[c.var];
  --group_count_[c.group];
  --sending_[c.group];
  mark_row(c.var);
  detach(c.var);
  group_[c.var] = -1;
  --active_;
  ++changes_;
}

double Solver::rate(std::int32_t var) const {
  return group_[var] < 0 ? 0.0 : level_[group_[var]];
}

double Solver::remaining(std::int32_t var, double now) const {
  const std::int32_t g = group_[var];
  if (g < 0) return 0.0;
  if (g == links_) return target_[var];
  return std::max(0.0, target_[var] - (clock_[g] + level_[g] * (now - since_[g])));
}

double Solver::served(double now) const {
  double sum = served_ + served_low_;
  for (std::int32_t l = 0; l < links_; ++l)
    if (sending_[l] > 0) sum += level_[l] * (now - since_[l]) * sending_[l];
  return sum;
}

std::int32_t Solver::stuck_link(std::int32_t var) const {
  const std::int32_t g = group_[var];
  return g >= 0 && g < links_ && level_[g] <= 0.0 ? g : -1;
}

}  // namespace railweave::flow
