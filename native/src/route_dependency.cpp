// Filling the channel dependency graph from next-hop sets and from tables. What d-mod-k adds is in
// route_dependency_dmodk.cpp, the search for a cycle in route_cycle.cpp.
#include "route_dependency.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>

namespace railweave {

LinkDependencies::LinkDependencies(const RouteTable& table) : table_(table) {
  const auto n = table.n_switches();
  const auto links = static_cast<std::int32_t>(table.n_links());
  channel_.assign(links, -1);
  base_.assign(n + 1, 0);
  auto joins = [&](std::int32_t l) {
    return table.link_up(l) && table.switch_of(table.link_src(l)) >= 0 &&
           table.switch_of(table.link_dst(l)) >= 0;
  };
  for (std::int32_t l = 0; l < links; ++l)
    if (joins(l)) ++base_[table.switch_of(table.link_src(l)) + 1];
  std::partial_sum(base_.begin(), base_.end(), base_.begin());
  word_.assign(n + 1, 0);
  for (std::int32_t s = 0; s < n; ++s)
    word_[s + 1] = word_[s] + static_cast<std::size_t>(base_[s + 1] - base_[s] + 63) / 64;
  link_.resize(base_[n]);
  head_.resize(base_[n]);
  used_.assign(base_[n], 0);
  std::vector<std::int32_t> at(base_.begin(), base_.end() - 1);
  for (std::int32_t l = 0; l < links; ++l) {
    if (!joins(l)) continue;
    const auto c = at[table.switch_of(table.link_src(l))]++;
    channel_[l] = c;
    link_[c] = l;
    head_[c] = table.switch_of(table.link_dst(l));
  }
  std::size_t size = 0;
  for (const auto head : head_) {
    row_.push_back(size);
    size += words(head);
  }
  bits_.assign(size, 0);
  stamp_.assign(n, -1);
  read_sources();
}

void LinkDependencies::read_sources() {
  source_.assign(table_.n_switches(), -1);
  for (std::int32_t v = 0; v < table_.n_nodes(); ++v)
    for (std::int32_t p = 0; p < table_.port_count(v); ++p) {
      const auto& port = table_.ports(v)[p];
      if (!port.up) continue;
      auto& here = source_[port.sw];
      here = here == -1 || here == v ? v : -2;
    }
  for (std::int32_t s = 0; s < table_.n_switches(); ++s)
    if (source_[s] != -1) source_sw_.push_back(s);
}

std::vector<LinkDependencies::Kind> LinkDependencies::kinds() const {
  std::map<std::vector<std::int32_t>, std::int32_t> found;
  std::vector<std::int32_t> edges;
  for (std::int32_t v = 0; v < table_.n_nodes(); ++v) {
    if (table_.exit_count(v) == 0) continue;
    edges.clear();
    for (std::int32_t x = 0; x < table_.exit_count(v); ++x) edges.push_back(table_.exits(v)[x].edge);
    const auto [at, fresh] = found.try_emplace(edges, v);
    if (!fresh) at->second = -2;
  }
  std::vector<Kind> kinds;
  for (const auto& [list, only] : found) kinds.push_back({list, only});
  return kinds;
}

// The switches at which traffic enters that an edge switch will deliver: it is as near as any other
// edge switch of the destination, and the sender is not the destination itself.
void LinkDependencies::starts(std::int32_t edge, const std::vector<const Kind*>& kinds,
                              std::vector<std::int32_t>& out) {
  out.clear();
  for (const auto sw : source_sw_) {
    const auto hops = table_.hops(sw, edge);
    if (hops == kFar || sw == table_.edge_switch(edge)) continue;
    const bool sends = std::any_of(kinds.begin(), kinds.end(), [&](const Kind* kind) {
      if (kind->only >= 0 && kind->only == source_[sw]) return false;
      return std::all_of(kind->edges.begin(), kind->edges.end(),
                         [&](std::int32_t other) { return table_.hops(sw, other) >= hops; });
    });
    if (sends) out.push_back(sw);
  }
}

// A next-hop set in channels and as bits over the switch's outgoing channels; worked out once.
std::uint32_t LinkDependencies::set_of(std::int32_t sw, std::int32_t edge) {
  const std::size_t id = *table_.set_id(sw, edge), n = words(sw);
  auto& sets = sets_[sw];
  if (sets.size <= id) {
    sets.size = id + 1;
    sets.members.resize(sets.size);
    sets.masks.resize(sets.size * n, 0);
  }
  if (sets.members[id].empty()) {
    const auto set = table_.next(sw, edge);
    for (std::uint32_t k = 0; k < set.size; ++k) {
      const auto c = channel_[set.first[k].link];
      const auto j = static_cast<std::size_t>(c - base_[sw]);
      sets.members[id].push_back({c, set.first[k].next});
      sets.masks[id * n + j / 64] |= Word{1} << (j % 64);
    }
  }
  return static_cast<std::uint32_t>(id);
}

void LinkDependencies::add_next_hops(const Poll& poll) {
  const auto n = table_.n_switches();
  sets_.assign(n, {});
  const auto all = kinds();
  std::vector<std::vector<const Kind*>> delivered(table_.n_edges());
  for (const auto& kind : all)
    for (const auto edge : kind.edges) delivered[edge].push_back(&kind);
  std::vector<std::int32_t> todo;
  std::vector<std::uint32_t> set(n, 0);
  // The set at a channel's head is mostly the same from one edge switch to the next.
  constexpr std::uint32_t none = UINT32_MAX;
  std::vector<std::uint32_t> waits_for(link_.size(), none);
  std::fill(stamp_.begin(), stamp_.end(), -1);
  for (std::int32_t e = 0; e < table_.n_edges(); ++e) {
    const auto last = table_.edge_switch(e);
    starts(e, delivered[e], todo);
    for (const auto s : todo) {
      stamp_[s] = e;
      set[s] = set_of(s, e);
    }
    while (!todo.empty()) {
      const auto s = todo.back();
      todo.pop_back();
      for (const auto& [c, next] : sets_[s].members[set[s]]) {
        if (next == last) continue;
        if (stamp_[next] != e) {
          stamp_[next] = e;
          set[next] = set_of(next, e);
          todo.push_back(next);
        }
        if (waits_for[c] == set[next]) continue;
        waits_for[c] = set[next];
        const std::size_t width = words(next);
        for (std::size_t w = 0; w < width; ++w) row(c)[w] |= sets_[next].masks[set[next] * width + w];
        note(c, table_.node_of(last));
      }
    }
    if (e % 64 == 0) poll();
  }
  for (const auto& sets : sets_)
    for (const auto& members : sets.members)
      for (const auto& member : members) used_[member.channel] = 1;
  sets_.clear();
}

// Destination by destination: the entries of all switches, then the ways from every sender.
void LinkDependencies::add_entries(const Entries& in, const Poll& poll) {
  std::vector<std::int64_t> first(table_.n_nodes() + 1, 0);
  for (std::int64_t k = 0; k < in.count; ++k) {
    const auto v = in.node[k], d = in.destination[k], l = in.link[k];
    const auto fail = [&](const std::string& what) {
      throw std::invalid_argument("table entry " + std::to_string(k) + ": " + what);
    };
    for (const auto node : {v, d})
      if (node < 0 || node >= table_.n_nodes()) fail("there is no node " + std::to_string(node));
    if (table_.switch_of(v) < 0) fail("node " + std::to_string(v) + " is not a switch");
    if (l < 0 || l >= table_.n_links() || table_.link_src(l) != v)
      fail("link " + std::to_string(l) + " does not leave node " + std::to_string(v));
    ++first[d + 1];
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::int64_t> order(in.count), at(first.begin(), first.end() - 1);
  for (std::int64_t k = 0; k < in.count; ++k) order[at[in.destination[k]]++] = k;
  entry_.assign(table_.n_switches(), -1);
  entry_stamp_.assign(table_.n_switches(), -1);
  std::fill(stamp_.begin(), stamp_.end(), -1);
  for (std::int32_t d = 0; d < table_.n_nodes(); ++d) {
    if (first[d] == first[d + 1]) continue;
    for (auto i = first[d]; i < first[d + 1]; ++i) {
      const auto sw = table_.switch_of(in.node[order[i]]);
      entry_[sw] = in.link[order[i]];
      entry_stamp_[sw] = d;
    }
    for (const auto s : source_sw_)
      if (entry_stamp_[s] == d && source_[s] != d) follow_entries(s, d);
    if (d % 64 == 0) poll();
  }
}

// A packet dies at a switch without an entry, or whose entry names a dead link: it waits for nothing.
void LinkDependencies::follow_entries(std::int32_t sw, std::int32_t destination) {
  const auto channel_of = [&](std::int32_t s) {
    return entry_stamp_[s] == destination ? channel_[entry_[s]] : -1;
  };
  auto c = channel_of(sw);
  while (c >= 0 && stamp_[sw] != destination) {
    stamp_[sw] = destination;
    used_[c] = 1;
    sw = head_[c];
    const auto next = channel_of(sw);
    if (next >= 0) wait(c, next, destination);
    c = next;
  }
}

void LinkDependencies::wait(std::int32_t channel, std::int32_t next, std::int32_t towards) {
  const auto j = static_cast<std::size_t>(next - base_[head_[channel]]);
  row(channel)[j / 64] |= Word{1} << (j % 64);
  note(channel, towards);
}

void LinkDependencies::watch(const std::vector<std::int32_t>& cycle) {
  for (std::size_t k = 0; k < cycle.size(); ++k) watched_.push_back({cycle[k], cycle[(k + 1) % cycle.size()], -1});
}

void LinkDependencies::note(std::int32_t channel, std::int32_t towards) {
  for (auto& w : watched_)
    if (w.towards < 0 && w.a == link_[channel] && waits(w.a, w.b)) w.towards = towards;
}

std::vector<std::int32_t> LinkDependencies::reasons() const {
  std::vector<std::int32_t> towards;
  for (const auto& w : watched_) towards.push_back(w.towards);
  return towards;
}

std::int64_t LinkDependencies::channels() const {
  return std::count(used_.begin(), used_.end(), std::uint8_t{1});
}

std::int64_t LinkDependencies::dependencies() const {
  std::int64_t sum = 0;
  for (const auto w : bits_) sum += std::popcount(w);
  return sum;
}

bool LinkDependencies::waits(std::int32_t a, std::int32_t b) const {
  for (const auto l : {a, b})
    if (l < 0 || l >= table_.n_links()) throw std::invalid_argument("there is no link " + std::to_string(l));
  const auto c = channel_[a], d = channel_[b];
  if (c < 0 || d < 0 || table_.switch_of(table_.link_src(b)) != head_[c]) return false;
  const auto j = static_cast<std::size_t>(d - base_[head_[c]]);
  return (row(c)[j / 64] >> (j % 64) & 1U) != 0;
}

}  // namespace railweave
