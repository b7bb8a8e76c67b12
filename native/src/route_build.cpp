// Reading the graph: switches, their live links in a stable order, and how endpoints attach.
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "route_table.hpp"

namespace railweave {

namespace {

// Links by source node, in order of link id.
struct LinksBySource {
  std::vector<std::int64_t> ptr;
  std::vector<std::int32_t> link;

  LinksBySource(std::int32_t n, const std::vector<std::int32_t>& key) : ptr(n + 1, 0), link(key.size()) {
    for (const auto v : key) ++ptr[v + 1];
    for (std::int32_t v = 0; v < n; ++v) ptr[v + 1] += ptr[v];
    std::vector<std::int64_t> at(ptr.begin(), ptr.end() - 1);
    for (std::size_t l = 0; l < key.size(); ++l) link[at[key[l]]++] = static_cast<std::int32_t>(l);
  }
};

}  // namespace

RouteTable::RouteTable(const RouteGraph& graph, int threads, const Poll& poll)
    : n_nodes_(graph.n_nodes), threads_(threads < 1 ? 1 : threads) {
  read_nodes(graph);
  read_switch_links();
  read_endpoints();
  compile(poll);
}

void RouteTable::read_nodes(const RouteGraph& graph) {
  if (graph.n_links > INT32_MAX) throw std::invalid_argument("more than 2^31 links");
  link_src_.assign(graph.link_src, graph.link_src + graph.n_links);
  link_dst_.assign(graph.link_dst, graph.link_dst + graph.n_links);
  link_up_.assign(graph.link_up, graph.link_up + graph.n_links);
  for (std::size_t l = 0; l < link_src_.size(); ++l)
    for (const auto node : {link_src_[l], link_dst_[l]})
      if (node < 0 || node >= n_nodes_)
        throw std::invalid_argument("link " + std::to_string(l) + " names node " +
                                    std::to_string(node) + ", but there are " +
                                    std::to_string(n_nodes_) + " nodes");
  node_switch_.assign(n_nodes_, -1);
  for (std::int32_t v = 0; v < n_nodes_; ++v) {
    if (!graph.is_switch[v]) continue;
    node_switch_[v] = n_switches();
    switch_node_.push_back(v);
    tier_.push_back(graph.tier[v]);
    if (graph.tier[v] < 0) tiered_ = false;
  }
  if (!tiered_) return;
  std::map<int, std::vector<std::int32_t>> by_tier;
  for (std::int32_t s = 0; s < n_switches(); ++s) by_tier[tier_[s]].push_back(s);
  for (auto& [tier, switches] : by_tier) tiers_.push_back(std::move(switches));
}

// Members of a set keep the order made here: first one link to each peer in order of its node,
// then the second of each parallel bundle, and so on. Switches of one tier thus agree on which
// member leads where whatever order the links were listed in, which d-mod-k and pins rely on.
void RouteTable::read_switch_links() {
  const LinksBySource by_source(n_nodes_, link_src_);
  std::vector<std::vector<Out>> all(n_switches());
  struct Key {
    std::int32_t peer, link, ordinal;
  };
  std::vector<Key> keys;
  for (std::int32_t s = 0; s < n_switches(); ++s) {
    keys.clear();
    for (auto i = by_source.ptr[switch_node_[s]]; i < by_source.ptr[switch_node_[s] + 1]; ++i) {
      const auto l = by_source.link[i];
      const auto peer = node_switch_[link_dst_[l]];
      if (peer < 0 || peer == s) continue;
      if (tiered_ && tier_[peer] == tier_[s]) ++ignored_links_;
      else keys.push_back({peer, l, 0});
    }
    std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) {
      return a.peer != b.peer ? a.peer < b.peer : a.link < b.link;
    });
    for (std::size_t i = 1; i < keys.size(); ++i)
      if (keys[i].peer == keys[i - 1].peer) keys[i].ordinal = keys[i - 1].ordinal + 1;
    std::stable_sort(keys.begin(), keys.end(),
                     [](const Key& a, const Key& b) { return a.ordinal < b.ordinal; });
    for (const auto& k : keys) all[s].push_back({k.link, k.peer});
  }
  order_uplinks(all);
  order_as_tree(all);
  out_ptr_.assign(1, 0);
  for (const auto& outs : all) {
    for (const auto& o : outs)
      if (link_up_[o.link]) out_.push_back(o);
    out_ptr_.push_back(static_cast<std::int32_t>(out_.size()));
  }
}

void RouteTable::order_uplinks(const std::vector<std::vector<Out>>& all) {
  uplink_rank_.assign(link_src_.size(), -1);
  uplink_count_.assign(n_switches(), 0);
  tier_divisor_.assign(n_switches(), 1);
  if (!tiered_) return;
  std::uint64_t divisor = 1;
  for (const auto& switches : tiers_) {
    std::int32_t most = 0;
    for (const auto s : switches) {
      for (const auto& o : all[s])
        if (tier_[o.peer] > tier_[s]) uplink_rank_[o.link] = uplink_count_[s]++;
      most = std::max(most, uplink_count_[s]);
      tier_divisor_[s] = divisor;
    }
    // Beyond 2^32 every quotient is zero anyway; stopping there avoids overflow.
    if (most > 1 && divisor < (std::uint64_t{1} << 32)) divisor *= static_cast<std::uint64_t>(most);
  }
}

// Switches of a tier in the order of the tree: those with the same first parent are neighbours.
// A rail-optimised pod holds leaves that are far apart by number; counted by number, the
// destinations of one pod would leave most uplinks of every other pod unused.
void RouteTable::order_as_tree(const std::vector<std::vector<Out>>& all) {
  tree_place_.resize(n_switches());
  std::iota(tree_place_.begin(), tree_place_.end(), 0);
  if (!tiered_) return;
  std::vector<std::int32_t> parent(n_switches(), -1);
  for (auto tier = tiers_.rbegin(); tier != tiers_.rend(); ++tier) {
    auto order = *tier;
    for (const auto s : order)
      for (const auto& o : all[s])
        if (tier_[o.peer] > tier_[s] && (parent[s] < 0 || tree_place_[o.peer] < parent[s]))
          parent[s] = tree_place_[o.peer];
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return parent[a] < parent[b]; });
    for (std::size_t k = 0; k < order.size(); ++k)
      tree_place_[order[k]] = static_cast<std::int32_t>(k);
  }
}

void RouteTable::read_endpoints() {
  switch_edge_.assign(n_switches(), -1);
  for (std::size_t l = 0; l < link_src_.size(); ++l) {
    const auto a = node_switch_[link_src_[l]], b = node_switch_[link_dst_[l]];
    if ((a < 0) != (b < 0)) switch_edge_[a < 0 ? b : a] = 0;
  }
  for (std::int32_t s = 0; s < n_switches(); ++s) {
    if (switch_edge_[s] < 0) continue;
    switch_edge_[s] = n_edges();
    edge_switch_.push_back(s);
  }
  const LinksBySource outgoing(n_nodes_, link_src_), incoming(n_nodes_, link_dst_);
  std::vector<std::uint32_t> seen(n_edges() + 1, 0);
  std::vector<std::int32_t> links;
  port_ptr_.assign(1, 0);
  exit_ptr_.assign(1, 0);
  for (std::int32_t v = 0; v < n_nodes_; ++v) {
    if (node_switch_[v] < 0) {
      for (auto i = outgoing.ptr[v]; i < outgoing.ptr[v + 1]; ++i) {
        const auto l = outgoing.link[i];
        const auto sw = node_switch_[link_dst_[l]];
        if (sw >= 0) ports_.push_back({l, sw, link_up_[l] != 0});
      }
      links.clear();
      for (auto i = incoming.ptr[v]; i < incoming.ptr[v + 1]; ++i)
        if (node_switch_[link_src_[incoming.link[i]]] >= 0) links.push_back(incoming.link[i]);
      add_exits(links, seen);
    }
    port_ptr_.push_back(static_cast<std::int32_t>(ports_.size()));
    exit_ptr_.push_back(static_cast<std::int32_t>(exits_.size()));
  }
  std::vector<std::int32_t> order(n_edges());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const auto s = edge_switch_[a], t = edge_switch_[b];
    return tier_[s] != tier_[t] ? tier_[s] < tier_[t] : tree_place_[s] < tree_place_[t];
  });
  std::vector<std::uint32_t> before(n_edges(), 0);
  std::uint32_t count = 0;
  for (const auto e : order) {
    before[e] = count;
    count += seen[e + 1];
  }
  for (auto& exit : exits_) exit.rank += before[exit.edge];
}

// Ranks count dead attachments too, so a failure does not renumber the other destinations.
void RouteTable::add_exits(const std::vector<std::int32_t>& links,
                           std::vector<std::uint32_t>& seen) {
  std::vector<std::pair<std::int32_t, std::int32_t>> by_edge;
  for (const auto l : links) by_edge.emplace_back(switch_edge_[node_switch_[link_src_[l]]], l);
  std::sort(by_edge.begin(), by_edge.end());
  for (std::size_t i = 0; i < by_edge.size();) {
    Exit exit{by_edge[i].first, static_cast<std::int32_t>(deliver_.size()), 0,
              seen[by_edge[i].first + 1]++};
    for (; i < by_edge.size() && by_edge[i].first == exit.edge; ++i) {
      if (!link_up_[by_edge[i].second]) continue;
      deliver_.push_back(by_edge[i].second);
      ++exit.count;
    }
    if (exit.count > 0) exits_.push_back(exit);
  }
}

std::int64_t RouteTable::memory_bytes() const {
  auto bytes = [](const auto& v) {
    return static_cast<std::int64_t>(v.capacity() * sizeof(v[0]));
  };
  std::int64_t tiers = 0;
  for (const auto& t : tiers_) tiers += bytes(t);
  return tiers + bytes(link_src_) + bytes(link_dst_) + bytes(link_up_) + bytes(node_switch_) +
         bytes(switch_node_) + bytes(switch_edge_) + bytes(edge_switch_) + bytes(tier_) +
         bytes(out_ptr_) + bytes(out_) + bytes(tier_divisor_) + bytes(uplink_rank_) +
         bytes(uplink_count_) + bytes(tree_place_) + bytes(port_ptr_) + bytes(exit_ptr_) + bytes(deliver_) +
         bytes(ports_) + bytes(exits_) + bytes(down_) + bytes(best_) + bytes(set_of_) +
         bytes(set_base_) + bytes(set_start_) + bytes(members_);
}

}  // namespace railweave
