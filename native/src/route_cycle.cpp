// The shortest cycle of a channel dependency graph.
//
// First everything that cannot stand in a cycle is peeled off: channels which nothing waits for, or
// which wait for nothing, again and again. What is left is searched breadth first from each channel
// in turn, never deeper than the best cycle so far; a channel that was searched from is then left
// out, as the shortest cycle through it is known.
#include <algorithm>
#include <bit>

#include "route_dependency.hpp"

namespace railweave {

class LinkDependencies::Search {
 public:
  Search(const LinkDependencies& graph, std::int64_t max_steps, const Poll& poll)
      : g_(graph), poll_(poll), steps_left_(max_steps), n_(static_cast<std::int32_t>(graph.link_.size())) {
    in_ptr_.assign(g_.table_.n_switches() + 1, 0);
    for (const auto head : g_.head_) ++in_ptr_[head + 1];
    for (std::size_t s = 1; s < in_ptr_.size(); ++s) in_ptr_[s] += in_ptr_[s - 1];
    in_.resize(n_);
    std::vector<std::int32_t> at(in_ptr_.begin(), in_ptr_.end() - 1);
    for (std::int32_t c = 0; c < n_; ++c) in_[at[g_.head_[c]]++] = c;
    for (const auto link : g_.link_) source_.push_back(g_.table_.switch_of(g_.table_.link_src(link)));
    left_.assign(g_.word_.back(), 0);
    for (std::int32_t c = 0; c < n_; ++c) left_[word(c)] |= bit(c);
    seen_.assign(left_.size(), 0);
    parent_.assign(n_, -1);
  }

  Cycle run() {
    peel();
    Cycle out;
    std::vector<std::int32_t> start;
    for (std::int32_t c = 0; c < n_; ++c)
      if (has(left_, c)) start.push_back(c);
    if (start.empty()) return out;
    any_cycle(start.front());
    for (const auto c : start) {
      if (best_.size() <= 1) break;
      if (steps_left_ <= 0) {
        out.shortest = false;
        break;
      }
      search_from(c);
      drop(c);
      poll_();
    }
    for (const auto c : best_) out.links.push_back(g_.link_[c]);
    std::rotate(out.links.begin(), std::min_element(out.links.begin(), out.links.end()), out.links.end());
    return out;
  }

 private:
  std::size_t place(std::int32_t c) const { return static_cast<std::size_t>(c - g_.base_[source_[c]]); }
  std::size_t word(std::int32_t c) const { return g_.word_[source_[c]] + place(c) / 64; }
  Word bit(std::int32_t c) const { return Word{1} << (place(c) % 64); }
  bool has(const std::vector<Word>& set, std::int32_t c) const { return (set[word(c)] & bit(c)) != 0; }
  void drop(std::int32_t c) { left_[word(c)] &= ~bit(c); }

  // Calls f with every channel that c waits for and that is still there.
  template <class F>
  void each_next(std::int32_t c, F f) const {
    const auto head = g_.head_[c];
    for (std::size_t w = 0; w < g_.words(head); ++w)
      for (Word rest = g_.row(c)[w] & left_[g_.word_[head] + w]; rest != 0; rest &= rest - 1)
        f(g_.base_[head] + static_cast<std::int32_t>(64 * w) + std::countr_zero(rest));
  }

  template <class F>
  void each_before(std::int32_t c, F f) const {
    const auto sw = source_[c];
    for (auto i = in_ptr_[sw]; i < in_ptr_[sw + 1]; ++i)
      if (has(left_, in_[i]) && (g_.row(in_[i])[place(c) / 64] & bit(c)) != 0) f(in_[i]);
  }

  void peel() {
    std::vector<std::int32_t> count(n_, 0), todo;
    const auto less = [&](std::int32_t d) {
      if (--count[d] == 0) todo.push_back(d);
    };
    for (std::int32_t c = 0; c < n_; ++c) each_next(c, [&](std::int32_t d) { ++count[d]; });
    for (std::int32_t c = 0; c < n_; ++c)
      if (count[c] == 0) todo.push_back(c);
    while (!todo.empty()) {
      const auto c = todo.back();
      todo.pop_back();
      drop(c);
      each_next(c, less);
    }
    poll_();
    std::fill(count.begin(), count.end(), 0);
    for (std::int32_t c = 0; c < n_; ++c) {
      if (!has(left_, c)) continue;
      each_next(c, [&](std::int32_t) { ++count[c]; });
      if (count[c] == 0) todo.push_back(c);
    }
    while (!todo.empty()) {
      const auto c = todo.back();
      todo.pop_back();
      drop(c);
      each_before(c, less);
    }
    poll_();
  }

  // Every channel that is left waits for one that is left, so this walk must come back.
  void any_cycle(std::int32_t c) {
    std::vector<std::int32_t> path, at(n_, -1);
    while (at[c] < 0) {
      at[c] = static_cast<std::int32_t>(path.size());
      path.push_back(c);
      std::int32_t next = -1;
      each_next(c, [&](std::int32_t d) { next = next < 0 ? d : next; });
      c = next;
    }
    best_.assign(path.begin() + at[c], path.end());
  }

  void search_from(std::int32_t first) {
    ring_.assign(1, first);
    seen_words_.clear();
    for (std::size_t length = 1; length < best_.size() && !ring_.empty(); ++length) {
      next_ring_.clear();
      for (const auto c : ring_) {
        const auto head = g_.head_[c];
        steps_left_ -= static_cast<std::int64_t>(g_.words(head));
        for (std::size_t w = 0; w < g_.words(head); ++w) {
          const auto at = g_.word_[head] + w;
          Word fresh = g_.row(c)[w] & left_[at] & ~seen_[at];
          if (fresh == 0) continue;
          seen_[at] |= fresh;
          seen_words_.push_back(at);
          for (; fresh != 0; fresh &= fresh - 1) {
            const auto d = g_.base_[head] + static_cast<std::int32_t>(64 * w) + std::countr_zero(fresh);
            parent_[d] = c;
            next_ring_.push_back(d);
          }
        }
      }
      ring_.swap(next_ring_);
      if (has(seen_, first)) {
        keep(first, length);
        break;
      }
    }
    for (const auto at : seen_words_) seen_[at] = 0;
  }

  void keep(std::int32_t first, std::size_t length) {
    best_.resize(length);
    auto c = parent_[first];
    for (std::size_t k = length; k-- > 1;) {
      best_[k] = c;
      c = parent_[c];
    }
    best_[0] = first;
  }

  const LinkDependencies& g_;
  const Poll& poll_;
  std::int64_t steps_left_;
  std::int32_t n_;
  std::vector<std::int32_t> source_, in_ptr_, in_, parent_, ring_, next_ring_, best_;
  std::vector<std::size_t> seen_words_;
  std::vector<Word> left_, seen_;
};

LinkDependencies::Cycle LinkDependencies::shortest_cycle(std::int64_t max_steps, const Poll& poll) const {
  return Search(*this, max_steps, poll).run();
}

}  // namespace railweave
