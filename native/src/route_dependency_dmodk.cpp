// The channel dependencies of d-mod-k without tiers, where a choice follows from the destination's
// place alone (Walker::choose_ends and dmodk_member say the same; a test holds the two together).
#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "route_dependency.hpp"

namespace railweave {

// Endpoints whose ports stand at the same switches send alike: one of each sort will do, and a
// second one for what is sent to the first.
std::vector<std::vector<std::int32_t>> LinkDependencies::senders_alike() const {
  std::map<std::vector<std::pair<std::int32_t, bool>>, std::vector<std::int32_t>> sorts;
  std::vector<std::pair<std::int32_t, bool>> place;
  for (std::int32_t v = 0; v < table_.n_nodes(); ++v) {
    place.clear();
    for (std::int32_t p = 0; p < table_.port_count(v); ++p)
      place.emplace_back(table_.ports(v)[p].sw, table_.ports(v)[p].up);
    if (std::none_of(place.begin(), place.end(), [](const auto& port) { return port.second; })) continue;
    auto& alike = sorts[place];
    if (alike.size() < 2) alike.push_back(v);
  }
  std::vector<std::vector<std::int32_t>> out;
  for (auto& [_, alike] : sorts) out.push_back(std::move(alike));
  return out;
}

// Port -1 leaves the port to the scheme.
LinkDependencies::Way LinkDependencies::way(std::int32_t source, std::int32_t destination,
                                            std::int32_t port) const {
  const auto* ports = table_.ports(source);
  const auto* exits = table_.exits(destination);
  const auto n_exits = table_.exit_count(destination);
  const auto near = [&](std::int32_t p) {
    std::uint8_t hops = kFar;
    for (std::int32_t x = 0; ports[p].up && x < n_exits; ++x)
      hops = std::min(hops, table_.hops(ports[p].sw, exits[x].edge));
    return hops;
  };
  const std::int32_t first = port < 0 ? 0 : port, last = port < 0 ? table_.port_count(source) : port + 1;
  std::uint8_t hops = kFar;
  for (auto p = first; p < last; ++p) hops = std::min(hops, near(p));
  if (hops == kFar) return {};
  std::uint32_t n_near = 0, n_equal = 0;
  for (auto p = first; p < last; ++p) n_near += near(p) == hops;
  std::uint32_t skip = exits[0].rank % n_near;
  auto p = first;
  while (near(p) != hops || skip-- > 0) ++p;
  const auto equal = [&](std::int32_t x) { return table_.hops(ports[p].sw, exits[x].edge) == hops; };
  for (std::int32_t x = 0; x < n_exits; ++x) n_equal += equal(x);
  skip = exits[0].rank % n_equal;
  std::int32_t x = 0;
  while (!equal(x) || skip-- > 0) ++x;
  return {ports[p].sw, x, exits[x].rank / std::max(n_near, n_equal)};
}

// One edge switch after another, so that what a switch does on the way there is looked up once.
class LinkDependencies::Destinations {
 public:
  explicit Destinations(LinkDependencies& graph)
      : g_(graph),
        t_(graph.table_),
        senders_(graph.senders_alike()),
        here_(t_.n_switches()),
        waits_for_(g_.link_.size(), -1) {
    g_.sets_.assign(t_.n_switches(), {});
    std::fill(g_.stamp_.begin(), g_.stamp_.end(), -1);
  }

  void run(const Poll& poll) {
    std::vector<std::vector<std::int32_t>> at_edge(t_.n_edges());
    std::vector<std::int32_t> at_several;
    for (std::int32_t d = 0; d < t_.n_nodes(); ++d)
      if (t_.exit_count(d) == 1) at_edge[t_.exits(d)[0].edge].push_back(d);
      else if (t_.exit_count(d) > 1) at_several.push_back(d);
    for (std::int32_t e = 0; e < t_.n_edges(); ++e) {
      for (const auto d : at_edge[e]) add(d);
      poll();
    }
    for (const auto d : at_several) {
      add(d);
      poll();
    }
    g_.sets_.clear();
  }

 private:
  struct Here {  // the next-hop set of a switch towards the edge switch in hand
    const Member* first = nullptr;
    std::uint32_t size = 0;
    std::int32_t edge = -1;
  };
  struct Start {  // where senders with one port enter; the sender, where there is but one
    std::int32_t sw, only;
  };
  struct Stamp {  // ways to one exit by one place meet and are then the same
    std::int32_t exit;
    std::uint32_t place;
    std::int32_t number;
  };

  // Most have one exit, most senders one port: nothing to choose at either end.
  void add(std::int32_t d) {
    stamps_.clear();
    ways_.clear();
    const bool simple = t_.exit_count(d) == 1;
    if (simple) {
      const auto& exit = t_.exits(d)[0];
      const auto stamp = stamp_of({-1, 0, exit.rank});
      for (const auto& start : starts_of(exit.edge))
        if (start.only != d) follow({start.sw, 0, exit.rank}, d, stamp);
    }
    for (const auto& alike : senders_) {
      const auto v = alike.front() == d ? alike.back() : alike.front();
      const auto n_ports = t_.port_count(v);
      if (v == d || (simple && n_ports == 1)) continue;
      for (std::int32_t p = -1; p < (n_ports > 1 ? n_ports : 0); ++p)
        if (const auto way = g_.way(v, d, p); way.sw >= 0) ways_.push_back(way);
    }
    // By exit, so that what here_ holds serves for all ways there.
    std::stable_sort(ways_.begin(), ways_.end(), [](const Way& a, const Way& b) { return a.exit < b.exit; });
    for (const auto& way : ways_) follow(way, d, stamp_of(way));
  }

  const std::vector<Start>& starts_of(std::int32_t edge) {
    if (edge == starts_edge_) return starts_;
    starts_edge_ = edge;
    starts_.clear();
    for (const auto& alike : senders_) {
      const auto sw = t_.ports(alike.front())->sw;
      if (t_.port_count(alike.front()) == 1 && t_.hops(sw, edge) != kFar && sw != t_.edge_switch(edge))
        starts_.push_back({sw, alike.size() > 1 ? -1 : alike.front()});
    }
    return starts_;
  }

  std::int32_t stamp_of(const Way& way) {
    for (const auto& s : stamps_)
      if (s.exit == way.exit && s.place == way.place) return s.number;
    stamps_.push_back({way.exit, way.place, ++last_stamp_});
    return last_stamp_;
  }

  const Member& next(std::int32_t sw, std::int32_t edge, std::uint32_t place) {
    Here& here = here_[sw];
    if (here.edge != edge) {
      const auto& set = g_.sets_[sw].members[g_.set_of(sw, edge)];
      here = {set.data(), static_cast<std::uint32_t>(set.size()), edge};
    }
    return here.first[here.size > 1 ? place % here.size : 0];
  }

  void follow(const Way& way, std::int32_t d, std::int32_t stamp) {
    const auto edge = t_.exits(d)[way.exit].edge;
    const auto last = t_.edge_switch(edge);
    std::int32_t before = -1;
    if (g_.stamp_[way.sw] == stamp) return;
    for (auto sw = way.sw; sw != last;) {
      const auto [c, to] = next(sw, edge, way.place);
      if (before >= 0 && waits_for_[before] != c) {
        waits_for_[before] = c;
        g_.wait(before, c, d);
      }
      if (g_.stamp_[sw] == stamp) return;
      g_.stamp_[sw] = stamp;
      g_.used_[c] = 1;
      before = c;
      sw = to;
    }
  }

  LinkDependencies& g_;
  const RouteTable& t_;
  std::vector<std::vector<std::int32_t>> senders_;
  std::vector<Here> here_;
  std::vector<std::int32_t> waits_for_;  // [channel]: the last it was found to wait for
  std::vector<Start> starts_;
  std::int32_t starts_edge_ = -1;
  std::vector<Way> ways_;
  std::vector<Stamp> stamps_;
  std::int32_t last_stamp_ = -1;
};

void LinkDependencies::add_destinations(const Poll& poll) {
  if (table_.tiered()) throw std::invalid_argument("the graph has tiers: use add_next_hops");
  Destinations(*this).run(poll);
}

}  // namespace railweave
