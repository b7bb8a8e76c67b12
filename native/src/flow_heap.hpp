// Many pairing heaps over one set of items, threaded through the items themselves: a flow sits
// in the heap of its bottleneck link, and moving it elsewhere allocates nothing.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace railweave::flow {

class HeapForest {
 public:
  void resize(std::size_t items) {
    child_.assign(items, kNone);
    next_.assign(items, kNone);
    prev_.assign(items, kNone);
  }

  static constexpr std::int32_t kNone = -1;

  void push(std::int32_t& root, std::int32_t item, const double* key) {
    child_[item] = next_[item] = prev_[item] = kNone;
    root = root == kNone ? item : meld(root, item, key);
  }

  void remove(std::int32_t& root, std::int32_t item, const double* key) {
    const std::int32_t rest = merge_children(child_[item], key);
    if (item == root) {
      root = rest;
      return;
    }
    unlink(item);
    if (rest != kNone) root = meld(root, rest, key);
  }

 private:
  std::int32_t meld(std::int32_t a, std::int32_t b, const double* key) {
    if (key[b] < key[a]) std::swap(a, b);
    const std::int32_t first = child_[a];
    next_[b] = first;
    prev_[b] = a;
    if (first != kNone) prev_[first] = b;
    child_[a] = b;
    next_[a] = prev_[a] = kNone;
    return a;
  }

  void unlink(std::int32_t item) {
    const std::int32_t before = prev_[item], after = next_[item];
    if (child_[before] == item) {
      child_[before] = after;
    } else {
      next_[before] = after;
    }
    if (after != kNone) prev_[after] = before;
  }

  // Two passes: meld neighbours pairwise onto a reversed list, then meld that list into one.
  std::int32_t merge_children(std::int32_t first, const double* key) {
    std::int32_t list = kNone;
    while (first != kNone) {
      const std::int32_t a = first, b = next_[a];
      if (b == kNone) {
        next_[a] = list;
        list = a;
        break;
      }
      first = next_[b];
      const std::int32_t pair = meld(a, b, key);
      next_[pair] = list;
      list = pair;
    }
    std::int32_t root = kNone;
    while (list != kNone) {
      const std::int32_t item = list;
      list = next_[item];
      next_[item] = prev_[item] = kNone;
      root = root == kNone ? item : meld(root, item, key);
    }
    return root;
  }

  std::vector<std::int32_t> child_, next_, prev_;  // prev of a first child is its parent
};

}  // namespace railweave::flow
