// Next-hop sets of a fabric: for every switch and every edge switch (one with endpoints), which
// outgoing links lie on a best path. Compiled once, walked by every engine.
//
// Tiered graphs use up-down (valley-free) routing: a switch with a way down uses its shortest ways
// down, otherwise the shortest ways up. Where all links join neighbouring tiers that is the same as
// the shortest valley-free paths; where links skip tiers, preferring down keeps a table that knows
// only (switch, destination) free of valleys and loops. Links between switches of one tier carry
// nothing then (`ignored_links` counts them). If any switch has tier -1, the whole graph uses plain
// shortest paths instead.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "route_parallel.hpp"

namespace railweave {

inline constexpr std::uint8_t kFar = 255;  // "no path"; real distances stay below 254

struct RouteGraph {
  std::int32_t n_nodes = 0;
  std::int64_t n_links = 0;
  const std::int32_t* link_src = nullptr;
  const std::int32_t* link_dst = nullptr;
  const std::uint8_t* link_up = nullptr;
  const std::uint8_t* is_switch = nullptr;
  const std::int8_t* tier = nullptr;
};

class RouteTable {
 public:
  struct Member {  // one link of a next-hop set; next is a switch index
    std::int32_t link, next;
  };
  struct Set {
    const Member* first;
    std::uint32_t size;
  };
  struct Port {  // an endpoint's link to an edge switch
    std::int32_t link, sw;
    bool up;
  };
  struct Exit {  // an edge switch which delivers to an endpoint, over one or more links
    std::int32_t edge, first, count;
    std::uint32_t rank;  // place of this endpoint, counting switch by switch as a tree (d-mod-k)
  };

  RouteTable(const RouteGraph& graph, int threads, const Poll& poll);

  std::int32_t n_nodes() const { return n_nodes_; }
  std::int64_t n_links() const { return static_cast<std::int64_t>(link_src_.size()); }
  std::int32_t n_switches() const { return static_cast<std::int32_t>(switch_node_.size()); }
  std::int32_t n_edges() const { return static_cast<std::int32_t>(edge_switch_.size()); }
  int threads() const { return threads_; }
  bool tiered() const { return tiered_; }
  std::int64_t ignored_links() const { return ignored_links_; }
  std::int64_t n_sets() const { return static_cast<std::int64_t>(set_start_.size()) - 1 - n_switches(); }
  std::int64_t memory_bytes() const;

  std::int32_t link_src(std::int32_t l) const { return link_src_[l]; }
  std::int32_t link_dst(std::int32_t l) const { return link_dst_[l]; }
  bool link_up(std::int32_t l) const { return link_up_[l] != 0; }
  std::int32_t switch_of(std::int32_t node) const { return node_switch_[node]; }
  std::int32_t node_of(std::int32_t sw) const { return switch_node_[sw]; }
  std::int32_t edge_of(std::int32_t sw) const { return switch_edge_[sw]; }
  std::int32_t edge_node(std::int32_t edge) const { return switch_node_[edge_switch_[edge]]; }
  std::int32_t edge_switch(std::int32_t edge) const { return edge_switch_[edge]; }
  int tier(std::int32_t sw) const { return tier_[sw]; }

  std::uint8_t hops(std::int32_t sw, std::int32_t edge) const { return best_[row(sw) + edge]; }
  const std::uint16_t* set_id(std::int32_t sw, std::int32_t edge) const {
    return &set_of_[row(sw) + edge];
  }
  Set next(std::int32_t sw, std::int32_t edge) const {
    const std::uint32_t k = set_base_[sw] + *set_id(sw, edge);
    return {members_.data() + set_start_[k], set_start_[k + 1] - set_start_[k]};
  }

  const Port* ports(std::int32_t node) const { return ports_.data() + port_ptr_[node]; }
  std::int32_t port_count(std::int32_t node) const { return port_ptr_[node + 1] - port_ptr_[node]; }
  const Exit* exits(std::int32_t node) const { return exits_.data() + exit_ptr_[node]; }
  std::int32_t exit_count(std::int32_t node) const { return exit_ptr_[node + 1] - exit_ptr_[node]; }
  const Exit& exit_at(std::int32_t index) const { return exits_[index]; }
  std::int32_t exit_index(std::int32_t node) const { return exit_ptr_[node]; }
  std::int32_t deliver_link(std::int32_t i) const { return deliver_[i]; }

  // d-mod-k: what one choice at the tier of this switch divides the destination's place by, and
  // where a link stands among all uplinks of its source (failed ones too, so it is stable).
  std::uint64_t tier_divisor(std::int32_t sw) const { return tier_divisor_[sw]; }
  std::int32_t uplink_rank(std::int32_t link) const { return uplink_rank_[link]; }
  std::int32_t uplink_count(std::int32_t sw) const { return uplink_count_[sw]; }

  int distance(std::int32_t a, std::int32_t b) const;
  double path_count(std::int32_t src, std::int32_t dst) const;
  std::map<int, std::int64_t> hop_histogram(const Poll& poll) const;
  struct Farthest {
    std::int32_t src = -1, dst = -1, hops = -1;
  };
  Farthest farthest(const Poll& poll) const;

 private:
  struct Out {  // a live link to another switch
    std::int32_t link, peer;
  };
  struct SwitchSets {  // what interning one switch yields, before all are joined
    std::vector<std::uint32_t> sizes;
    std::vector<Member> members;
  };
  struct Scratch;

  std::size_t row(std::int32_t sw) const { return static_cast<std::size_t>(sw) * edge_switch_.size(); }

  void read_nodes(const RouteGraph& graph);
  void read_switch_links();
  void order_uplinks(const std::vector<std::vector<Out>>& all);
  void order_as_tree(const std::vector<std::vector<Out>>& all);
  void read_endpoints();
  void add_exits(const std::vector<std::int32_t>& links, std::vector<std::uint32_t>& seen);

  void compile(const Poll& poll);
  void relax_tiered(const Poll& poll);
  void relax_plain(const Poll& poll);
  void down_row(std::int32_t sw);
  void best_row(std::int32_t sw);
  void intern_all(const Poll& poll);
  void intern_switch(std::int32_t sw, Scratch& scratch, SwitchSets& out);
  void member_bits(std::int32_t sw, Scratch& scratch) const;
  int distance_search(std::int32_t a, std::int32_t b) const;
  double edge_paths(std::int32_t sw, std::int32_t edge, std::vector<double>& count) const;

  std::int32_t n_nodes_ = 0;
  int threads_ = 1;
  bool tiered_ = true;
  std::int64_t ignored_links_ = 0;
  std::vector<std::int32_t> link_src_, link_dst_;
  std::vector<std::uint8_t> link_up_;
  std::vector<std::int32_t> node_switch_, switch_node_, switch_edge_, edge_switch_;
  std::vector<std::int8_t> tier_;
  std::vector<std::vector<std::int32_t>> tiers_;  // switch indices, lowest tier first

  std::vector<std::int32_t> out_ptr_;
  std::vector<Out> out_;
  std::vector<std::uint64_t> tier_divisor_;
  std::vector<std::int32_t> uplink_rank_, uplink_count_, tree_place_;

  std::vector<std::int32_t> port_ptr_, exit_ptr_, deliver_;
  std::vector<Port> ports_;
  std::vector<Exit> exits_;

  std::vector<std::uint8_t> down_, best_;  // [switch][edge]; down_ only while compiling
  std::vector<std::uint16_t> set_of_;      // [switch][edge]: number of the set within its switch
  std::vector<std::uint32_t> set_base_, set_start_;
  std::vector<Member> members_;
};

}  // namespace railweave
