// Packet spraying: every equal-cost path carries a share, split equally at each hop.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "route_walk.hpp"

namespace railweave {

namespace {

struct Share {
  std::int32_t link;
  double weight;
};

// The split between two switches depends on them alone, so it is worked out once for a pair.
class SprayCache {
 public:
  explicit SprayCache(const RouteTable& table) : table_(table), inflow_(table.n_switches(), 0.0) {}

  // Shares of a unit entering at sw, nearest links first. Valid until the next call.
  std::pair<const Share*, std::size_t> shares(std::int32_t sw, std::int32_t edge) {
    if (pool_.size() > kMaxPool) {
      pool_.clear();
      known_.clear();
    }
    const auto key = static_cast<std::uint64_t>(sw) << 32 | static_cast<std::uint32_t>(edge);
    const auto [at, fresh] = known_.try_emplace(key);
    if (fresh) {
      const auto begin = pool_.size();
      spread(sw, edge);
      at->second = {begin, pool_.size() - begin};
    }
    return {pool_.data() + at->second.first, at->second.second};
  }

 private:
  static constexpr std::size_t kMaxPool = std::size_t{1} << 23;  // 128 MiB of shares

  // Every member is one hop nearer, so whole rings of switches are done one after another and each
  // has all its inflow before it is split.
  void spread(std::int32_t sw, std::int32_t edge) {
    ring_.assign(1, sw);
    inflow_[sw] = 1.0;
    for (int hops = table_.hops(sw, edge); hops > 0; --hops) {
      next_ring_.clear();
      for (const auto s : ring_) {
        const auto set = table_.next(s, edge);
        const double part = inflow_[s] / set.size;
        inflow_[s] = 0.0;
        for (std::uint32_t k = 0; k < set.size; ++k) {
          const auto& m = set.first[k];
          pool_.push_back({m.link, part});
          if (inflow_[m.next] == 0.0) next_ring_.push_back(m.next);
          inflow_[m.next] += part;
        }
      }
      ring_.swap(next_ring_);
    }
    for (const auto s : ring_) inflow_[s] = 0.0;
  }

  const RouteTable& table_;
  std::vector<double> inflow_;
  std::vector<std::int32_t> ring_, next_ring_;
  std::vector<Share> pool_;
  std::unordered_map<std::uint64_t, std::pair<std::size_t, std::size_t>> known_;
};

// Joins links which several port and exit pairs have in common, keeping the first one's place.
void merge_shares(std::vector<Share>& shares, std::vector<std::int32_t>& place) {
  std::size_t kept = 0;
  for (const auto share : shares) {
    if (place[share.link] < 0) {
      place[share.link] = static_cast<std::int32_t>(kept);
      shares[kept++] = share;
    } else {
      shares[place[share.link]].weight += share.weight;
    }
  }
  shares.resize(kept);
  for (const auto& s : shares) place[s.link] = -1;
}

}  // namespace

WalkOutput Walker::run_spray(const Poll& poll) const {
  SprayCache cache(table_);
  std::vector<Share> all, flow;
  std::vector<std::int32_t> place(table_.n_links(), -1);
  Buffer<std::int64_t> ptr(in_.flows + 1);
  Buffer<std::uint8_t> status(in_.flows);
  ptr.data[0] = 0;
  Choices c;
  for (std::int64_t i = 0; i < in_.flows; ++i) {
    if (i % 1024 == 0) poll();
    const auto src = in_.src[i];
    const bool self = src == in_.dst[i];
    if (!self) near_ports(i, c);
    status.data[i] = self || !c.ports.empty() ? kOk : kUnreachable;
    flow.clear();
    for (std::size_t p = 0; !self && p < c.ports.size(); ++p) {
      const auto& port = table_.ports(src)[c.ports[p]];
      const double at_port = 1.0 / static_cast<double>(c.ports.size());
      near_exits(i, c.ports[p], c);
      flow.push_back({port.link, at_port});
      for (const auto x : c.exits) {
        const auto& exit = table_.exit_at(x);
        const double part = at_port / static_cast<double>(c.exits.size());
        const auto [shares, n] = cache.shares(port.sw, exit.edge);
        for (std::size_t k = 0; k < n; ++k) flow.push_back({shares[k].link, shares[k].weight * part});
        for (std::int32_t k = 0; k < exit.count; ++k)
          flow.push_back({table_.deliver_link(exit.first + k), part / exit.count});
      }
    }
    if (!self && (c.ports.size() > 1 || c.exits.size() > 1)) merge_shares(flow, place);
    if (status.data[i] == kOk && has_prefix(i)) all.push_back({in_.prefix[i], 1.0});
    all.insert(all.end(), flow.begin(), flow.end());
    if (status.data[i] == kOk && has_suffix(i)) all.push_back({in_.suffix[i], 1.0});
    ptr.data[i + 1] = static_cast<std::int64_t>(all.size());
  }
  Buffer<std::int32_t> link(static_cast<std::int64_t>(all.size()));
  Buffer<double> weight(static_cast<std::int64_t>(all.size()));
  for (std::size_t k = 0; k < all.size(); ++k) {
    link.data[k] = all[k].link;
    weight.data[k] = all[k].weight;
  }
  return {std::move(ptr), std::move(link), std::move(weight), std::move(status)};
}

}  // namespace railweave
