// Paths chosen packet by packet: spraying, flowlets, recycled entropies, adaptive routing.
//
// A sender gives every packet an entropy (on the wire: its UDP source port or flow label), and each
// switch picks a member of its next-hop set by a hash of that entropy with its own seed. Replies
// carry the flow's constant entropy. Three schemes differ from plain hashing:
//   round robin  the entropy counts up and is read as a number in mixed radix, one digit a choice, so
//                that a flow visits all its paths equally often (a hash would only do so on average);
//   recycle      entropies that an acknowledgement brings back unmarked are used again, once for each
//                packet that it acknowledges (the recycling of REPS); others are fresh;
//   adaptive     a switch takes the member whose waiting bytes drain first, and breaks ties by hash.
// Where a receiver hangs on several edge switches, any of the nearest may deliver. Every choice
// brings the packet nearer to some of them, so there are no loops. Only adaptive switches see that
// a link of theirs is down; the others send into it until a reroute replaces the table.
#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "pkt_sim.hpp"

namespace railweave::pkt {

namespace {

std::uint32_t mixed(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(splitmix64(std::uint64_t{a} << 32 | b) >> 32);
}

// How one switch chooses among equals for one packet.
struct Chooser {
  const DeviceHash& device;
  Packet& packet;
  Choice choice;
  std::uint32_t hash;

  std::uint32_t pick(std::uint32_t n) const {
    if (n == 1) return 0;
    if (choice != Choice::spray_round_robin || (packet.flags & kReply)) return device.pick(hash, n);
    const std::uint32_t digit = (packet.entropy + device.offset) % n;
    packet.entropy /= n;  // what is left is for the choices further on
    return digit;
  }
  // A second choice of the same switch, which must not follow from the first.
  std::uint32_t pick_exit(std::uint32_t n) const {
    if (n == 1 || choice == Choice::spray_round_robin) return pick(n);
    DeviceHash other = device;
    other.multiplier = splitmix64(other.multiplier) | 1U;
    return other.pick(hash, n);
  }
};

}  // namespace

void Sim::check_choices() {
  bool any = false;
  for (std::size_t f = 0; f < senders.size(); ++f) {
    const std::string which = "flow " + std::to_string(f);
    if (flows_.choice[f] > static_cast<std::uint8_t>(Choice::adaptive))
      throw std::invalid_argument(which + ": choice must be 0 to 5");
    if (senders[f].choice == Choice::path) continue;
    any = true;
    if (flows_.table[f] >= tables_.size())
      throw std::invalid_argument(which + " chooses its path by table " +
                                  std::to_string(flows_.table[f]) + ", which was not added");
    for (const std::uint32_t node : {flows_.source_nic[f], flows_.target_nic[f]})
      if (node >= n_nodes_ || node_switch_[node] != kNone)
        throw std::invalid_argument(which + ": source_nic and target_nic must be hosts");
  }
  if (any) sprays_.assign(senders.size(), Spray{});
}

// The ways on from one switch: the nearest exits of the destination and how the table gets there.
struct Sim::Ways {
  const RouteTable& table;
  std::int32_t sw;
  const RouteTable::Exit* exits;
  std::int32_t n_exits;
  std::uint8_t near = kFar;
  std::uint32_t ties = 0;  // exits that are equally near

  Ways(const RouteTable& t, std::int32_t from, std::int32_t target)
      : table(t), sw(from), exits(t.exits(target)), n_exits(t.exit_count(target)) {
    for (std::int32_t x = 0; x < n_exits; ++x) {
      const std::uint8_t hops = table.hops(sw, exits[x].edge);
      if (hops > near || hops == kFar) continue;
      ties = hops < near ? 1 : ties + 1;
      near = hops;
    }
  }
  const RouteTable::Exit& exit(std::uint32_t nth) const {
    for (std::int32_t x = 0;; ++x)
      if (table.hops(sw, exits[x].edge) == near && nth-- == 0) return exits[x];
  }
  std::uint32_t size(const RouteTable::Exit& e) const {
    return near == 0 ? static_cast<std::uint32_t>(e.count) : table.next(sw, e.edge).size;
  }
  std::uint32_t link(const RouteTable::Exit& e, std::uint32_t i) const {
    const std::int32_t l = near == 0 ? table.deliver_link(e.first + static_cast<std::int32_t>(i))
                                     : table.next(sw, e.edge).first[i].link;
    return static_cast<std::uint32_t>(l);
  }
};

// The link that the packet takes out of this switch; kNone if there is none.
std::uint32_t Sim::choose_link(std::uint32_t packet, std::uint32_t node) {
  Packet& k = pool_[packet];
  const std::uint32_t flow = k.flow;
  const Table& by = tables_[table_now_[flows_.table[flow]]];
  const std::int32_t sw = by.table->switch_of(static_cast<std::int32_t>(node));
  if (sw < 0) return kNone;
  const bool reply = (k.flags & kReply) != 0;
  const bool back = reply && k.kind != Kind::request;
  const Ways ways(*by.table, sw, static_cast<std::int32_t>(back ? flows_.source_nic[flow] : flows_.target_nic[flow]));
  if (ways.ties == 0) return kNone;
  const Sender& s = senders[flow];
  const Chooser chooser{by.devices[node], k, s.choice, reply ? s.entropy : k.entropy};
  if (s.choice == Choice::adaptive && !reply) {
    find_shortest(ways, k.priority);
    return ties_.empty() ? kNone : ties_[chooser.pick(static_cast<std::uint32_t>(ties_.size()))];
  }
  const RouteTable::Exit& e = ways.exit(chooser.pick_exit(ways.ties));
  return ways.link(e, chooser.pick(ways.size(e)));
}

// The live members with the least to drain go into `ties_`.
void Sim::find_shortest(const Ways& ways, int priority) {
  Ps least = kNever;
  ties_.clear();
  for (std::uint32_t x = 0; x < ways.ties; ++x) {
    const RouteTable::Exit& e = ways.exit(x);
    for (std::uint32_t i = 0, n = ways.size(e); i < n; ++i) {
      const std::uint32_t l = ways.link(e, i);
      if (ports[l].flags & kDown) continue;
      const Ps drain = drain_ps(l, priority);
      if (drain > least) continue;
      if (drain < least) ties_.clear();
      least = drain;
      ties_.push_back(l);
    }
  }
}

// How long what waits at the port takes to go out. Other classes count unless they are paused.
Ps Sim::drain_ps(std::uint32_t port, int priority) const {
  const Port& p = ports[port];
  std::uint64_t bytes = 0;
  for (unsigned waits = p.nonempty & (~p.paused | 1U << priority) & 0xFFU; waits; waits &= waits - 1)
    bytes += queues[at(port, std::countr_zero(waits))].bytes;
  return (p.busy_ps > now_ ? p.busy_ps - now_ : 0) + bytes * p.num / p.den;
}

// A packet of a flow without a fixed path gets its entropy as it leaves the NIC.
void Sim::choose_entropy(std::uint32_t flow, Packet& k) {
  const Sender& s = senders[flow];
  Spray& y = sprays_[flow];
  const std::uint32_t paths = options_.spray_paths;
  const auto fresh = [&] {
    const std::uint32_t drawn = spray_random_.next32();
    if (paths == 0) return drawn;
    return mixed(s.entropy, static_cast<std::uint32_t>(std::uint64_t{drawn} * paths >> 32));
  };
  k.pos = kNone;
  switch (s.choice) {
    case Choice::spray_random: k.entropy = fresh(); break;
    case Choice::spray_round_robin:
      k.entropy = s.entropy + (paths == 0 ? y.count : y.count % paths);
      ++y.count;
      break;
    case Choice::recycle:
      if (y.n_kept == 0) {
        k.entropy = fresh();
        break;
      }
      k.entropy = y.kept[y.first].entropy;
      if (--y.kept[y.first].uses == 0) {
        y.first = (y.first + 1) % Spray::kKept;
        --y.n_kept;
      }
      break;
    case Choice::flowlet:
      if (y.last_ps == kNever) y.entropy = s.entropy;
      else if (now_ - y.last_ps > options_.flowlet_gap_ps) y.entropy = fresh();
      y.last_ps = now_;
      k.entropy = y.entropy;
      break;
    default: k.entropy = mixed(s.entropy, k.psn); break;  // adaptive: for ties alone
  }
}

// An acknowledgement has brought an entropy back: a path without congestion is used again.
void Sim::recycle(std::uint32_t flow, const Packet& ack) {
  if ((ack.flags & kMarked) || ack.count == 0) return;
  Spray& y = sprays_[flow];
  if (y.n_kept == Spray::kKept) {  // the oldest makes room
    y.first = (y.first + 1) % Spray::kKept;
    --y.n_kept;
  }
  y.kept[(y.first + y.n_kept++) % Spray::kKept] = {ack.entropy, ack.count};
}

}  // namespace railweave::pkt
