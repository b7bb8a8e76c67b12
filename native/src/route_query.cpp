// Questions about a compiled table: distances, numbers of paths, the diameter.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "route_table.hpp"

namespace railweave {

int RouteTable::distance(std::int32_t a, std::int32_t b) const {
  for (const auto node : {a, b})
    if (node < 0 || node >= n_nodes_ || node_switch_[node] < 0)
      throw std::invalid_argument("node " + std::to_string(node) + " is not a switch");
  const auto sa = node_switch_[a], sb = node_switch_[b];
  if (sa == sb) return 0;
  if (switch_edge_[sb] < 0) return distance_search(sa, sb);
  const int d = hops(sa, switch_edge_[sb]);
  return d == kFar ? -1 : d;
}

// Switches without endpoints have no column in the table; one is worked out here when asked for.
int RouteTable::distance_search(std::int32_t a, std::int32_t b) const {
  constexpr int far = 1 << 29;
  std::vector<int> down(n_switches(), far), best(n_switches(), far);
  down[b] = best[b] = 0;
  auto relax = [&](std::int32_t s, int direction, std::vector<int>& to, const std::vector<int>& from) {
    bool moved = false;
    for (auto i = out_ptr_[s]; i < out_ptr_[s + 1]; ++i) {
      const auto peer = out_[i].peer;
      const int way = !tiered_ ? 0 : tier_[peer] > tier_[s] ? 1 : -1;
      if (way != direction || from[peer] + 1 >= to[s]) continue;
      to[s] = from[peer] + 1;
      moved = true;
    }
    return moved;
  };
  if (!tiered_) {
    for (bool again = true; again;) {
      again = false;
      for (std::int32_t s = 0; s < n_switches(); ++s) again = relax(s, 0, best, best) || again;
    }
    return best[a] >= far ? -1 : best[a];
  }
  for (const auto& tier : tiers_)
    for (const auto s : tier) relax(s, -1, down, down);
  for (auto tier = tiers_.rbegin(); tier != tiers_.rend(); ++tier)
    for (const auto s : *tier) {
      if (down[s] < far) best[s] = down[s];
      else relax(s, 1, best, best);
    }
  return best[a] >= far ? -1 : best[a];
}

// Ways from a switch to an edge switch, over every member link; count is -1 where not known yet.
double RouteTable::edge_paths(std::int32_t sw, std::int32_t edge, std::vector<double>& count) const {
  if (sw == edge_switch_[edge]) return 1.0;
  if (count[sw] >= 0.0) return count[sw];
  const Set set = next(sw, edge);
  double sum = 0.0;
  for (std::uint32_t k = 0; k < set.size; ++k) sum += edge_paths(set.first[k].next, edge, count);
  return count[sw] = sum;
}

// All links count: those of the fabric, parallel ones, and the endpoints' own attachments.
double RouteTable::path_count(std::int32_t src, std::int32_t dst) const {
  for (const auto node : {src, dst})
    if (node < 0 || node >= n_nodes_ || node_switch_[node] >= 0)
      throw std::invalid_argument("node " + std::to_string(node) + " is not an endpoint");
  if (src == dst) return 0.0;
  int best = kFar;
  const Port* p = ports(src);
  const Exit* x = exits(dst);
  for (std::int32_t i = 0; i < port_count(src); ++i)
    for (std::int32_t j = 0; p[i].up && j < exit_count(dst); ++j)
      best = std::min<int>(best, hops(p[i].sw, x[j].edge));
  double total = 0.0;
  if (best == kFar) return total;
  for (std::int32_t j = 0; j < exit_count(dst); ++j) {
    std::vector<double> count(n_switches(), -1.0);
    for (std::int32_t i = 0; i < port_count(src); ++i)
      if (p[i].up && hops(p[i].sw, x[j].edge) == best)
        total += edge_paths(p[i].sw, x[j].edge, count) * x[j].count;
  }
  return total;
}

// Ordered pairs of different edge switches by hops between them; -1 counts those with no path.
std::map<int, std::int64_t> RouteTable::hop_histogram(const Poll& poll) const {
  std::vector<std::int64_t> count(kFar + 1, 0);
  for (std::int32_t a = 0; a < n_edges(); ++a) {
    const std::uint8_t* hops = best_.data() + row(edge_switch_[a]);
    for (std::int32_t b = 0; b < n_edges(); ++b)
      if (a != b) ++count[hops[b]];
    if (a % 256 == 0) poll();
  }
  std::map<int, std::int64_t> histogram;
  if (count[kFar] > 0) histogram[-1] = count[kFar];
  for (int h = 0; h < kFar; ++h)
    if (count[h] > 0) histogram[h] = count[h];
  return histogram;
}

// Endpoints which attach alike are as far from everything, so one of each kind is compared.
RouteTable::Farthest RouteTable::farthest(const Poll& poll) const {
  struct Kind {
    std::int32_t first = -1, second = -1;
  };
  std::map<std::vector<std::int32_t>, Kind> kinds;
  for (std::int32_t v = 0; v < n_nodes_; ++v) {
    if (node_switch_[v] >= 0) continue;
    std::vector<std::int32_t> place;
    for (std::int32_t i = 0; i < port_count(v); ++i)
      if (ports(v)[i].up) place.push_back(ports(v)[i].sw);
    place.push_back(-1);
    for (std::int32_t i = 0; i < exit_count(v); ++i) place.push_back(exits(v)[i].edge);
    if (place.size() == 1) continue;
    Kind& kind = kinds[place];
    if (kind.first < 0) kind.first = v;
    else if (kind.second < 0) kind.second = v;
  }
  std::vector<Kind> order;
  for (const auto& [place, kind] : kinds) order.push_back(kind);
  std::sort(order.begin(), order.end(), [](const Kind& a, const Kind& b) { return a.first < b.first; });
  Farthest found;
  for (const auto& a : order) {
    for (const auto& b : order) {
      const auto dst = a.first == b.first ? a.second : b.first;
      if (dst < 0) continue;
      int best = kFar;
      for (std::int32_t i = 0; i < port_count(a.first); ++i)
        for (std::int32_t j = 0; ports(a.first)[i].up && j < exit_count(dst); ++j)
          best = std::min<int>(best, hops(ports(a.first)[i].sw, exits(dst)[j].edge));
      if (best != kFar && best + 2 > found.hops) found = {a.first, dst, best + 2};
    }
    poll();
  }
  return found;
}

}  // namespace railweave
