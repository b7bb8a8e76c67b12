// Schemes which look at more than the flow: the load so far (adaptive) or a loaded forwarding table.
#include <algorithm>
#include <utility>

#include "route_walk.hpp"

namespace railweave {

namespace {

constexpr std::int64_t kPollEvery = 16384;

// Seconds of traffic put on each link so far; picks the least loaded of a few candidates.
class Loads {
 public:
  Loads(std::int64_t n_links, const double* capacity_bps) : seconds_(n_links, 0.0), capacity_(capacity_bps) {}

  // Ties go to the hash, so that equal members fill evenly instead of always from the first. Loads
  // are copied side by side first: the loops over them then have no branches to mispredict.
  template <class LinkOf>
  std::uint32_t least(std::uint32_t n, LinkOf link_of, const DeviceHash& device, std::uint32_t hash) {
    if (n == 1) return 0;
    if (near_.size() < n) near_.resize(n);
    double low = seconds_[link_of(0)];
    for (std::uint32_t k = 0; k < n; ++k) {
      near_[k] = seconds_[link_of(k)];
      low = near_[k] < low ? near_[k] : low;
    }
    std::uint32_t ties = 0;
    for (std::uint32_t k = 0; k < n; ++k) ties += near_[k] == low;
    std::uint32_t skip = ties > 1 ? device.pick(hash, ties) : 0;
    for (std::uint32_t k = 0; k < n; ++k)
      if (near_[k] == low && skip-- == 0) return k;
    return 0;
  }

  void add(std::int32_t link, double bytes) { seconds_[link] += bytes * 8.0 / capacity_[link]; }

 private:
  std::vector<double> seconds_, near_;
  const double* capacity_;
};

// Paths of unknown length, collected in order and handed over at the end.
class PathLog {
 public:
  explicit PathLog(std::int64_t flows) : ptr_(flows + 1), status_(flows) { ptr_.data[0] = 0; }

  std::vector<std::int32_t> links;

  void close(std::int64_t flow, std::uint8_t status) {
    if (status != kOk) links.resize(static_cast<std::size_t>(ptr_.data[flow]));
    status_.data[flow] = status;
    ptr_.data[flow + 1] = static_cast<std::int64_t>(links.size());
  }
  WalkOutput finish() {
    Buffer<std::int32_t> link(static_cast<std::int64_t>(links.size()));
    std::copy(links.begin(), links.end(), link.data);
    return {std::move(ptr_), std::move(link), Buffer<double>(), std::move(status_)};
  }

 private:
  Buffer<std::int64_t> ptr_;
  Buffer<std::uint8_t> status_;
};

// Which of several nearest edge switches delivers stays open until a hop decides it: all members
// towards any of them compete at every switch, as for a prefix which several leaves announce.
class AdaptiveStep {
 public:
  AdaptiveStep(const RouteTable& table, Loads& loads) : table_(table), loads_(loads) {}

  RouteTable::Member next(std::int32_t sw, int hops, const std::vector<std::int32_t>& exits,
                          const DeviceHash& device, std::uint32_t hash) {
    RouteTable::Set set{nullptr, 0};
    if (exits.size() == 1) {
      set = table_.next(sw, table_.exit_at(exits[0]).edge);
    } else {
      open_.clear();
      for (const auto x : exits) {
        const auto edge = table_.exit_at(x).edge;
        if (table_.hops(sw, edge) != hops) continue;
        const auto part = table_.next(sw, edge);
        open_.insert(open_.end(), part.first, part.first + part.size);
      }
      set = {open_.data(), static_cast<std::uint32_t>(open_.size())};
    }
    return set.first[loads_.least(
        set.size, [&](std::uint32_t k) { return set.first[k].link; }, device, hash)];
  }

  std::int32_t deliver(std::int32_t sw, const std::vector<std::int32_t>& exits, const DeviceHash& device,
                       std::uint32_t hash) {
    for (const auto x : exits) {
      const auto& exit = table_.exit_at(x);
      if (table_.edge_switch(exit.edge) != sw) continue;
      auto link_of = [&](std::uint32_t k) { return table_.deliver_link(exit.first + static_cast<std::int32_t>(k)); };
      return link_of(loads_.least(static_cast<std::uint32_t>(exit.count), link_of, device, hash));
    }
    return -1;
  }

 private:
  const RouteTable& table_;
  Loads& loads_;
  std::vector<RouteTable::Member> open_;
};

}  // namespace

WalkOutput Walker::run_adaptive(const Poll& poll) const {
  Loads loads(table_.n_links(), in_.capacity_bps);
  AdaptiveStep step(table_, loads);
  PathLog log(in_.flows);
  Choices c;
  for (std::int64_t i = 0; i < in_.flows; ++i) {
    if (i % kPollEvery == 0) poll();
    const auto src = in_.src[i];
    const bool self = src == in_.dst[i];
    if (!self) near_ports(i, c);
    if (!self && c.ports.empty()) {
      log.close(i, kUnreachable);
      continue;
    }
    const auto begin = log.links.size();
    if (has_prefix(i)) log.links.push_back(in_.prefix[i]);
    if (!self) {
      const std::uint32_t h = flow_hash(i);
      const auto* ports = table_.ports(src);
      const auto p = c.ports[loads.least(
          static_cast<std::uint32_t>(c.ports.size()),
          [&](std::uint32_t k) { return ports[c.ports[k]].link; }, device(src), h)];
      near_exits(i, p, c);
      log.links.push_back(ports[p].link);
      auto sw = ports[p].sw;
      for (int hops = c.hops; hops > 0; --hops) {
        const auto member = step.next(sw, hops, c.exits, switch_devices_[sw], h);
        log.links.push_back(member.link);
        sw = member.next;
      }
      log.links.push_back(step.deliver(sw, c.exits, switch_devices_[sw], h));
    }
    if (has_suffix(i)) log.links.push_back(in_.suffix[i]);
    for (auto k = begin; k < log.links.size(); ++k) loads.add(log.links[k], in_.size_bytes[i]);
    log.close(i, kOk);
  }
  return log.finish();
}

// The outgoing link for an endpoint in a node's part of the loaded table, or -1.
std::int32_t Walker::table_entry(std::int32_t node, std::int32_t dst) const {
  const auto* first = in_.table_dst + in_.table_ptr[node];
  const auto* last = in_.table_dst + in_.table_ptr[node + 1];
  const auto* at = std::lower_bound(first, last, dst);
  return at != last && *at == dst ? in_.table_link[at - in_.table_dst] : -1;
}

// Appends the links to follow from the source's port on; stops at the destination or at a fault.
// An entry that names a dead link is where packets die, hence unreachable.
std::uint8_t Walker::follow_table(std::int64_t i, std::vector<std::int32_t>& path) const {
  const auto src = in_.src[i], dst = in_.dst[i];
  const auto* ports = table_.ports(src);
  const std::int32_t fixed = in_.port_choice ? in_.port_choice[i] : -1;
  std::vector<std::int32_t> usable;
  bool any_up = false;
  for (std::int32_t p = 0; p < table_.port_count(src); ++p) {
    if (!ports[p].up || (fixed >= 0 && p != fixed)) continue;
    any_up = true;
    if (table_entry(table_.node_of(ports[p].sw), dst) >= 0) usable.push_back(p);
  }
  if (usable.empty()) return any_up ? kNoEntry : kUnreachable;
  const auto n = static_cast<std::uint32_t>(usable.size());
  const auto port = usable[n > 1 ? device(src).pick(flow_hash(i), n) : 0];
  path.push_back(ports[port].link);
  // A path which visits every switch and goes on has visited one twice.
  auto node = table_.node_of(ports[port].sw);
  for (std::int32_t hop = 0; hop < table_.n_switches(); ++hop) {
    const auto link = table_entry(node, dst);
    if (link < 0) return kNoEntry;
    if (!table_.link_up(link)) return kUnreachable;
    path.push_back(link);
    node = table_.link_dst(link);
    if (node == dst) return kOk;
    if (table_.switch_of(node) < 0) return kNoEntry;  // another endpoint: it does not forward
  }
  return kLoop;
}

WalkOutput Walker::run_table(const Poll& poll) const {
  PathLog log(in_.flows);
  for (std::int64_t i = 0; i < in_.flows; ++i) {
    if (i % kPollEvery == 0) poll();
    if (has_prefix(i)) log.links.push_back(in_.prefix[i]);
    std::uint8_t status = kOk;
    if (in_.src[i] != in_.dst[i]) status = follow_table(i, log.links);
    if (has_suffix(i)) log.links.push_back(in_.suffix[i]);
    log.close(i, status);
  }
  return log.finish();
}

}  // namespace railweave
