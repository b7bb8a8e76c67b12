// Schemes whose choice depends on the flow alone: hashed, destination-based and pinned paths.
#include "route_walk.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace railweave {

namespace {

constexpr std::int64_t kChunk = 16384;  // flows between two looks for Ctrl-C
constexpr int kBatch = 32;              // flows walked side by side, to overlap cache misses

std::size_t chunks(std::int64_t flows) { return static_cast<std::size_t>((flows + kChunk - 1) / kChunk); }

}  // namespace

Walker::Walker(const RouteTable& table, const WalkInput& in) : table_(table), in_(in) {
  devices_.reserve(table.n_nodes());
  // Fabrics often use one seed for all nodes, or one a tier; working each out once is enough.
  for (std::int32_t v = 0; v < table.n_nodes(); ++v) {
    if (v > 0 && in.seeds[v] == in.seeds[v - 1]) devices_.push_back(devices_.back());
    else devices_.push_back(device_hash(in.function, in.mask, in.seeds[v]));
  }
  for (std::int32_t s = 0; s < table.n_switches(); ++s) switch_devices_.push_back(devices_[table.node_of(s)]);
}

WalkOutput Walker::run(const Poll& poll) const {
  for (std::size_t c = 0; c < chunks(in_.flows); ++c)
    check_flows(static_cast<std::int64_t>(c) * kChunk,
                std::min(in_.flows, static_cast<std::int64_t>(c + 1) * kChunk));
  switch (in_.scheme) {
    case Scheme::table: return run_table(poll);
    case Scheme::spray: return run_spray(poll);
    case Scheme::adaptive: return run_adaptive(poll);
    default: return run_hashed(poll);
  }
}

void Walker::check_flows(std::int64_t first, std::int64_t last) const {
  auto fail = [](std::int64_t i, const std::string& what) {
    throw std::invalid_argument("flow " + std::to_string(i) + ": " + what);
  };
  for (auto i = first; i < last; ++i) {
    for (const auto v : {in_.src[i], in_.dst[i]}) {
      if (v < 0 || v >= table_.n_nodes()) fail(i, "there is no node " + std::to_string(v));
      if (table_.switch_of(v) >= 0)
        fail(i, "node " + std::to_string(v) + " is a switch; flows run between endpoints");
    }
    if (in_.port_choice && in_.port_choice[i] >= 0 && in_.port_choice[i] >= table_.port_count(in_.src[i]))
      fail(i, "port " + std::to_string(in_.port_choice[i]) + " of node " + std::to_string(in_.src[i]) +
                  " does not exist; it has " + std::to_string(table_.port_count(in_.src[i])));
    if (in_.pin && in_.pin[i] < 0) fail(i, "a pin must be 0 or more");
    for (const auto* extra : {in_.prefix, in_.suffix})
      if (extra && extra[i] >= table_.n_links())
        fail(i, "there is no link " + std::to_string(extra[i]));
  }
}

std::uint32_t Walker::flow_hash(std::int64_t i) const {
  FlowTuple t;
  if (in_.src_ip) t.src_ip = in_.src_ip[i];
  if (in_.dst_ip) t.dst_ip = in_.dst_ip[i];
  if (in_.src_port) t.src_port = in_.src_port[i];
  if (in_.dst_port) t.dst_port = in_.dst_port[i];
  if (in_.qp) t.qp = in_.qp[i];
  t.protocol = in_.protocol;
  return hash_tuple(in_.function, t, in_.mask, 0);
}

// The live ports of the source which reach the destination in the fewest hops.
void Walker::near_ports(std::int64_t i, Choices& c) const {
  const auto src = in_.src[i], dst = in_.dst[i];
  const RouteTable::Port* ports = table_.ports(src);
  const RouteTable::Exit* exits = table_.exits(dst);
  const std::int32_t n_exits = table_.exit_count(dst);
  const std::int32_t fixed = in_.port_choice ? in_.port_choice[i] : -1;
  const std::int32_t first = fixed >= 0 ? fixed : 0;
  const std::int32_t last = fixed >= 0 ? fixed + 1 : table_.port_count(src);
  c.hops = kFar;
  c.ports.clear();
  for (auto p = first; p < last; ++p) {
    if (!ports[p].up) continue;
    std::uint8_t near = kFar;
    for (std::int32_t x = 0; x < n_exits; ++x) near = std::min(near, table_.hops(ports[p].sw, exits[x].edge));
    if (near == kFar || near > c.hops) continue;
    if (near < c.hops) c.ports.clear();
    c.hops = near;
    c.ports.push_back(p);
  }
}

void Walker::near_exits(std::int64_t i, std::int32_t port, Choices& c) const {
  const auto dst = in_.dst[i];
  const auto sw = table_.ports(in_.src[i])[port].sw;
  c.exits.clear();
  for (std::int32_t x = 0; x < table_.exit_count(dst); ++x)
    if (table_.hops(sw, table_.exits(dst)[x].edge) == c.hops) c.exits.push_back(table_.exit_index(dst) + x);
}

// A host hashes over its ports. Which of several far edge switches delivers is decided further on,
// by another device: a hash of its own, lest it correlate with the first switch's choice.
Ends Walker::choose_ends(std::int64_t i, Choices& c) const {
  Ends e;
  if (in_.scheme != Scheme::dmodk && in_.scheme != Scheme::pinned) e.hash = flow_hash(i);
  if (in_.src[i] == in_.dst[i]) {
    e.status = kOk;
    return e;
  }
  near_ports(i, c);
  if (c.ports.empty()) return e;
  const auto n_ports = static_cast<std::uint32_t>(c.ports.size());
  const auto node = in_.src[i];
  const std::uint32_t rank = table_.exits(in_.dst[i])[0].rank;
  std::uint32_t port = 0, exit = 0;
  if (in_.scheme == Scheme::dmodk) port = rank % n_ports;
  else if (in_.scheme == Scheme::pinned) port = static_cast<std::uint32_t>(in_.pin[i]) % n_ports;
  else if (n_ports > 1) port = device(node).pick(e.hash, n_ports);
  near_exits(i, c.ports[port], c);
  const auto n_exits = static_cast<std::uint32_t>(c.exits.size());
  if (in_.scheme == Scheme::dmodk) exit = rank % n_exits;
  else if (in_.scheme == Scheme::pinned) exit = static_cast<std::uint32_t>(in_.pin[i]) % n_exits;
  else if (n_exits > 1) {
    DeviceHash other = device(node);
    other.multiplier = splitmix64(other.multiplier) | 1U;
    exit = other.pick(e.hash, n_exits);
  }
  e.exit = c.exits[exit];
  // Destinations which share port and leaf get neighbouring places, as if they were alone there.
  e.place = table_.exit_at(e.exit).rank / std::max(n_ports, n_exits);
  const auto& taken = table_.ports(node)[c.ports[port]];
  e.port_link = taken.link;
  e.sw = taken.sw;
  e.hops = c.hops;
  e.status = kOk;
  return e;
}

std::vector<Ends> Walker::all_ends(const Poll& poll) const {
  std::vector<Ends> ends(in_.flows);
  parallel_items(chunks(in_.flows), table_.threads(), poll, [&](std::size_t c) {
    Choices choices;
    const auto first = static_cast<std::int64_t>(c) * kChunk;
    for (auto i = first; i < std::min(first + kChunk, in_.flows); ++i) ends[i] = choose_ends(i, choices);
  });
  return ends;
}

// Lengths follow from the ends alone, so that paths are written straight to their final place.
WalkOutput Walker::allot(const std::vector<Ends>& ends) const {
  WalkOutput out{Buffer<std::int64_t>(in_.flows + 1), Buffer<std::int32_t>(), Buffer<double>(),
                 Buffer<std::uint8_t>(in_.flows)};
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < in_.flows; ++i) {
    out.ptr.data[i] = total;
    out.status.data[i] = ends[i].status;
    if (ends[i].status != kOk) continue;
    total += has_prefix(i) + has_suffix(i);
    if (ends[i].port_link >= 0) total += 2 + ends[i].hops;
  }
  out.ptr.data[in_.flows] = total;
  out.link = Buffer<std::int32_t>(total);
  return out;
}

// A batch advances hop by hop together: the table rows of 32 flows are fetched while the others
// are worked on, as one flow alone would wait for memory at every hop.
template <class Pick>
void Walker::walk_range(const std::vector<Ends>& ends, WalkOutput& out, std::int64_t first,
                        std::int64_t last, Pick pick) const {
  struct Walk {
    std::int64_t flow;
    std::int32_t sw, target, edge;
    std::int32_t* to;
  };
  Walk batch[kBatch];
  for (auto i = first; i < last;) {
    int n = 0;
    for (; i < last && n < kBatch; ++i) {
      const Ends& e = ends[i];
      if (e.status != kOk) continue;
      std::int32_t* to = out.link.data + out.ptr.data[i];
      if (has_prefix(i)) *to++ = in_.prefix[i];
      if (e.port_link < 0) {
        if (has_suffix(i)) *to = in_.suffix[i];
        continue;
      }
      *to++ = e.port_link;
      const auto edge = table_.exit_at(e.exit).edge;
      batch[n++] = {i, e.sw, table_.edge_switch(edge), edge, to};
      __builtin_prefetch(table_.set_id(e.sw, edge));
    }
    while (n > 0) {
      int kept = 0;
      for (int b = 0; b < n; ++b) {
        Walk w = batch[b];
        const Ends& e = ends[w.flow];
        if (w.sw == w.target) {
          const auto& exit = table_.exit_at(e.exit);
          const auto count = static_cast<std::uint32_t>(exit.count);
          const auto k = count > 1 ? pick(w.flow, e, w.sw, RouteTable::Set{nullptr, count}) : 0;
          *w.to++ = table_.deliver_link(exit.first + static_cast<std::int32_t>(k));
          if (has_suffix(w.flow)) *w.to = in_.suffix[w.flow];
          continue;
        }
        const auto set = table_.next(w.sw, w.edge);
        const auto& member = set.first[set.size > 1 ? pick(w.flow, e, w.sw, set) : 0];
        *w.to++ = member.link;
        w.sw = member.next;
        __builtin_prefetch(table_.set_id(w.sw, w.edge));
        batch[kept++] = w;
      }
      n = kept;
    }
  }
}

template <class Pick>
void Walker::walk_all(const std::vector<Ends>& ends, WalkOutput& out, const Poll& poll, Pick pick) const {
  parallel_items(chunks(in_.flows), table_.threads(), poll, [&](std::size_t c) {
    const auto first = static_cast<std::int64_t>(c) * kChunk;
    walk_range(ends, out, first, std::min(first + kChunk, in_.flows), pick);
  });
}

// Whether the destination's own traffic would leave the switch below by this link, backwards.
bool Walker::mirrors(const Ends& e, const RouteTable::Member& down) const {
  const auto link = down.link, back = link ^ 1, child = down.next;
  if (back >= table_.n_links() || table_.link_src(back) != table_.link_dst(link)) return false;
  const auto up = static_cast<std::uint64_t>(std::max(1, table_.uplink_count(child)));
  const auto wanted = e.place / table_.tier_divisor(child) % up;
  return table_.uplink_rank(back) == static_cast<std::int64_t>(wanted);
}

// Whether the destination's own traffic would come up through this switch.
bool Walker::own_way(const Ends& e, std::int32_t sw) const {
  const auto edge = table_.exit_at(e.exit).edge;
  if (sw == table_.edge_switch(edge)) return true;
  const auto set = table_.next(sw, edge);
  for (std::uint32_t k = 0; k < set.size; ++k)
    if (mirrors(e, set.first[k]) && own_way(e, set.first[k].next)) return true;
  return false;
}

// Destination-based: going up, the destination's place divided by what lower tiers choose among;
// going down, the mirror of the way the destination's own traffic would come up, so that parallel
// links and the destinations behind them pair off.
std::uint32_t Walker::dmodk_member(const Ends& e, std::int32_t sw, RouteTable::Set set) const {
  if (set.first == nullptr || !table_.tiered()) return e.place % set.size;
  const auto peer = set.first[0].next;
  if (table_.tier(peer) > table_.tier(sw))
    return static_cast<std::uint32_t>(e.place / table_.tier_divisor(sw) % set.size);
  // A switch may have links to several children which all match (a core with two links to a pod):
  // the destination's traffic comes up through one of them.
  std::uint32_t match = set.size;
  for (std::uint32_t k = 0; k < set.size; ++k) {
    if (!mirrors(e, set.first[k])) continue;
    if (own_way(e, set.first[k].next)) return k;
    if (match == set.size) match = k;
  }
  if (match < set.size) return match;
  return static_cast<std::uint32_t>(e.place / table_.tier_divisor(peer) % set.size);
}

WalkOutput Walker::run_hashed(const Poll& poll) const {
  const auto ends = all_ends(poll);
  WalkOutput out = allot(ends);
  using Set = RouteTable::Set;
  if (in_.scheme == Scheme::ecmp)
    walk_all(ends, out, poll, [&](std::int64_t, const Ends& e, std::int32_t sw, Set set) {
      return switch_devices_[sw].pick(e.hash, set.size);
    });
  else if (in_.scheme == Scheme::pinned)
    walk_all(ends, out, poll, [&](std::int64_t i, const Ends&, std::int32_t, Set set) {
      return static_cast<std::uint32_t>(in_.pin[i]) % set.size;
    });
  else
    walk_all(ends, out, poll, [&](std::int64_t, const Ends& e, std::int32_t sw, Set set) {
      return dmodk_member(e, sw, set);
    });
  return out;
}

}  // namespace railweave
