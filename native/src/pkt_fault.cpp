// What changes at a given time: links, switches, settings, receivers.
//
// A link that is down: what a port sends into it is lost, at the pace of the wire, as a real port
// drains its queues when it has no partner; what still waits when the link comes back goes on its
// way. What was on the wire already arrives (it had left before). Both ends forget their pauses, and
// pause frames under way are void. Cables go down and come up as a whole, the last command counts.
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "pkt_sim.hpp"

namespace railweave::pkt {

namespace {
// Picoseconds a byte at this speed, as a fraction. Its numerator holds 32 bits, so an odd number of
// kilobits a second is rounded up to an even one.
template <class T>
void set_byte_time(T& of, std::uint64_t kbps) {
  kbps += kbps & 1;
  const std::uint64_t g = std::gcd(std::uint64_t{8'000'000'000}, kbps);
  of.num = static_cast<std::uint32_t>(8'000'000'000 / g);
  of.den = static_cast<std::uint32_t>(kbps / g);
}
}  // namespace

void set_pipe_rate(Pipe& pipe, std::uint64_t kbps) {
  if (kbps == 0) throw std::invalid_argument("a way into memory needs a rate above 0");
  set_byte_time(pipe, kbps);
}

// Sets the link's speed; 0 takes it down.
void Sim::set_rate(std::uint32_t link, std::uint64_t kbps) {
  Port& p = ports[link];
  links_.rate_kbps[link] = kbps;
  if (kbps == 0) {
    p.flags |= kDown;
    return;
  }
  p.flags &= static_cast<std::uint8_t>(~kDown);
  set_byte_time(p, kbps);
  p.remainder = 0;
}

// Derives from a switch's settings what its ports and groups hold.
void Sim::use_config(std::uint32_t node) {
  const SwitchConfig& c = configs_[switches[node_switch_[node]].config];
  for (std::uint32_t i = node_out_ptr_[node]; i < node_out_ptr_[node + 1]; ++i) {
    const std::uint32_t out = node_out_[i], in = out ^ 1U;
    refresh_careful(out);
    for (int q = 0; q < kPriorities; ++q)
      groups[at(in, q)].headroom_limit =
          ((c.lossless >> q) & 1) ? links_.headroom_bytes[in] / c.cell_bytes : 0;
  }
  refresh_cut(node);
}

// A cut-through switch reads the header and goes on, unless a way out is faster than the way in.
void Sim::refresh_cut(std::uint32_t node) {
  const bool cut = configs_[switches[node_switch_[node]].config].cut_through != 0;
  std::uint64_t fastest = 0;
  for (std::uint32_t i = node_out_ptr_[node]; i < node_out_ptr_[node + 1]; ++i)
    fastest = std::max(fastest, links_.rate_kbps[node_out_[i]]);
  for (std::uint32_t i = node_out_ptr_[node]; i < node_out_ptr_[node + 1]; ++i) {
    const std::uint32_t in = node_out_[i] ^ 1U;
    Port& p = ports[in];
    const bool yes = cut && links_.rate_kbps[in] >= fastest;
    p.flags = static_cast<std::uint8_t>(yes ? p.flags | kCut : p.flags & ~kCut);
  }
}

void Sim::check_config(std::uint32_t node, std::uint64_t number) const {
  if (node >= n_nodes_ || node_switch_[node] == kNone)
    throw std::invalid_argument("settings for node " + std::to_string(node) + ", which is no switch");
  if (number >= configs_.size())
    throw std::invalid_argument("there are no settings number " + std::to_string(number));
  const SwitchConfig& is = config(switches[node_switch_[node]]);
  const SwitchConfig& will = configs_[number];
  if (is.cell_bytes != will.cell_bytes || is.reserved_cells != will.reserved_cells || is.credits != will.credits)
    throw std::invalid_argument("settings that replace others at run time must keep cell_bytes, "
                                "reserved_cells and credits, by which its buffer is counted");
}

void Sim::check_epoch(const Epoch& e) const {
  if (e.path_ptr.size() != e.flow.size() + 1 || e.path_ptr[0] != 0 || e.path_ptr.back() != e.path_link.size())
    throw std::invalid_argument("path_ptr of a reroute must have an entry more than flow, and run "
                                "from 0 to the number of links");
  for (std::size_t i = 0; i < e.flow.size(); ++i) {
    if (e.flow[i] >= senders.size()) throw std::invalid_argument("a reroute of a flow that there is not");
    if (e.path_ptr[i] >= e.path_ptr[i + 1]) throw std::invalid_argument("a reroute to a path without links");
    const std::uint32_t first = e.path_link[e.path_ptr[i]], last = e.path_link[e.path_ptr[i + 1] - 1];
    for (std::uint64_t j = e.path_ptr[i]; j < e.path_ptr[i + 1]; ++j)
      if (e.path_link[j] >= n_links_) throw std::invalid_argument("a reroute over a link that there is not");
    if (!(ports[first].flags & kFromHost) || links_.target[last] != receivers[e.flow[i]].node)
      throw std::invalid_argument("a reroute must lead from a host to the flow's receiver");
  }
  if (e.table_from.size() != e.table_to.size())
    throw std::invalid_argument("table_from and table_to of a reroute differ in length");
  for (const auto* tables : {&e.table_from, &e.table_to})
    for (const std::uint32_t t : *tables)
      if (t >= tables_.size()) throw std::invalid_argument("a reroute by a table that was not added");
}

void Sim::check_fault(const Fault& f) const {
  struct Limit {
    std::size_t count;
    const char* of;
  };
  const Limit links{n_links_, "link"}, all_pipes{pipes.size(), "pipe"}, flows{senders.size(), "flow"};
  const Limit limits[] = {links, links, links, links, {n_nodes_, "node"}, links,
                          {epochs_.size(), "reroute"}, all_pipes, all_pipes, flows, flows,
                          {tasks_.chunk_delay_ps.size(), "stream"}, {n_nodes_, "node"}};
  if (f.kind >= FaultKind::kinds) throw std::invalid_argument("a fault of unknown kind");
  const Limit& limit = limits[static_cast<int>(f.kind)];
  if (f.index >= limit.count)
    throw std::invalid_argument(std::string("a fault of ") + limit.of + " " + std::to_string(f.index) +
                                "; there are " + std::to_string(limit.count));
  const bool rate = f.kind == FaultKind::link_rate || f.kind == FaultKind::pipe_rate;
  if (rate && (f.value == 0 || f.value > 8'000'000'000))
    throw std::invalid_argument("a rate must be 1 kb/s to 8 Tb/s; take a link down by link_down");
  if (f.kind == FaultKind::link_loss && f.value > 1ULL << 32)
    throw std::invalid_argument("the chance of a loss must be 0 to 2^32");
  if (f.kind == FaultKind::link_up)
    for (const std::uint32_t l : {f.index, f.index ^ 1U})
      if (links_.rate_kbps[l] == 0 && std::none_of(faults_.begin(), faults_.end(), [l](const Fault& other) {
            return other.kind == FaultKind::link_rate && other.index == l;
          }))
        throw std::invalid_argument("link " + std::to_string(l) + " comes up without ever having a rate");
  if (f.kind == FaultKind::switch_config) check_config(f.index, f.value);
  if (f.kind != FaultKind::nic_config) return;
  if (f.value >= nics_.size()) throw std::invalid_argument("there are no such NIC settings");
  const NicConfig& is = nic(senders[f.index]);
  const NicConfig& will = nics_[f.value];
  if (is.selective_repeat != will.selective_repeat || is.receiver_grant_bytes != will.receiver_grant_bytes)
    throw std::invalid_argument("NIC settings that replace others at run time must keep "
                                "selective_repeat and receiver_grant_bytes");
}

void Sim::check_faults() const {
  for (const Epoch& e : epochs_) check_epoch(e);
  for (const Fault& f : faults_) check_fault(f);
}

void Sim::on_fault(const Fault& f) {
  const auto number = static_cast<std::uint32_t>(f.value);
  const bool of_link = f.kind <= FaultKind::link_loss || f.kind == FaultKind::pause_mask;
  const bool of_flow = f.kind == FaultKind::nic_config || f.kind == FaultKind::not_ready;
  record.note(now_, Trace::fault, 0, of_link ? f.index : kNone, of_flow ? f.index : kNone,
              static_cast<std::uint32_t>(&f - faults_.data()));
  switch (f.kind) {
    case FaultKind::link_down: take_down(f.index); break;
    case FaultKind::link_up: bring_up(f.index); break;
    case FaultKind::link_rate: {
      const bool down = (ports[f.index].flags & kDown) != 0;
      set_rate(f.index, f.value);
      if (down) ports[f.index].flags |= kDown;
      for (const std::uint32_t node : {links_.source[f.index], links_.target[f.index]})
        if (node_switch_[node] != kNone) refresh_cut(node);
      break;
    }
    case FaultKind::link_loss: {
      Port& p = ports[f.index];
      loss_[f.index] = static_cast<std::uint32_t>(std::min<std::uint64_t>(f.value, kNone));
      p.flags = static_cast<std::uint8_t>(f.value ? p.flags | kLossy : p.flags & ~kLossy);
      break;
    }
    case FaultKind::switch_config:
      switches[node_switch_[f.index]].config = number;
      use_config(f.index);
      break;
    case FaultKind::pause_mask: links_.pause_mask[f.index] = static_cast<std::uint8_t>(f.value); break;
    case FaultKind::reroute: reroute(epochs_[f.index]); break;
    case FaultKind::freeze: set_frozen(f.index, f.value != 0); break;
    case FaultKind::pipe_rate: change_pipe_rate(f.index, f.value); break;
    case FaultKind::nic_config: change_nic(f.index, number); break;
    case FaultKind::not_ready: set_not_ready(f.index, f.value != 0); break;
    case FaultKind::chunk_delay: tasks_.chunk_delay_ps[f.index] = f.value; break;
    case FaultKind::flush: flush(f.index); break;
    case FaultKind::kinds: break;
  }
}

void Sim::take_down(std::uint32_t link) {
  for (const std::uint32_t l : {link, link ^ 1U}) {
    if (ports[l].flags & kDown) continue;
    ports[l].flags |= kDown;
    ++record.ports[l].downs;
    flaps_[l] = (flaps_[l] + 1) & kFlapMask;
    forget_pauses(l);
    if (ports[l].nonempty) kick(l);
  }
}

void Sim::bring_up(std::uint32_t link) {
  for (const std::uint32_t l : {link, link ^ 1U}) {
    if (!(ports[l].flags & kDown)) continue;
    ports[l].flags &= static_cast<std::uint8_t>(~kDown);
    forget_pauses(l);  // a pause that was decided meanwhile could not be sent
    if (ports[l].nonempty) kick(l);
  }
}

// The source of the link goes on, and the destination knows that it has paused nobody.
void Sim::forget_pauses(std::uint32_t link) {
  for (int q = 0; q < kPriorities; ++q) {
    on_pause(link, q, false);
    groups[at(link, q)].xoff = 0;
  }
  ports[link].watched = 0;
  refresh_careful(link);
  for (Pipe& pipe : pipes)
    if (pipe.nic_link == link) pipe.xoff = 0;
}

void Sim::flush(std::uint32_t node) {
  for (std::uint32_t i = node_out_ptr_[node]; i < node_out_ptr_[node + 1]; ++i)
    for (int q = 0; q < kPriorities; ++q) drop_queue(node_out_[i], q, Drop::reboot);
}

// Gives flows other ways. Packets under way keep theirs, as the old ways stay in the list.
void Sim::reroute(const Epoch& e) {
  ++epoch_;
  if (path_.size() + 2 * (e.path_link.size() + e.flow.size()) >= kNone)
    throw std::length_error("too many paths for the packet engine");
  for (std::size_t i = 0; i < e.flow.size(); ++i) {
    const std::uint32_t flow = e.flow[i];
    Sender& s = senders[flow];
    const std::uint64_t first = e.path_ptr[i], last = e.path_ptr[i + 1];
    s.path = static_cast<std::uint32_t>(path_.size());
    path_.insert(path_.end(), e.path_link.begin() + static_cast<std::ptrdiff_t>(first),
                 e.path_link.begin() + static_cast<std::ptrdiff_t>(last));
    path_.push_back(kDeliver);
    s.back = static_cast<std::uint32_t>(path_.size());
    for (std::uint64_t j = last; j-- > first;) path_.push_back(e.path_link[j] ^ 1U);
    path_.push_back(kDeliver);
    if (s.port == e.path_link[first]) continue;
    leave_ring(flow);
    s.port = e.path_link[first];
    wake(flow);
  }
  for (std::size_t i = 0; i < e.table_from.size(); ++i) table_now_[e.table_from[i]] = e.table_to[i];
}

// Takes the flow out of the line of its port, where it may wait behind a pause.
void Sim::leave_ring(std::uint32_t flow) {
  Sender& s = senders[flow];
  if (!(s.flags & kInRing)) return;
  for (int q = 0; q < kPriorities; ++q) {
    const std::size_t i = at(s.port, q);
    std::uint32_t before = kNone;
    for (std::uint32_t f = ring_head_[i]; f != kNone; before = f, f = senders[f].ring_next) {
      if (f != flow) continue;
      (before == kNone ? ring_head_[i] : senders[before].ring_next) = s.ring_next;
      if (ring_tail_[i] == flow) ring_tail_[i] = before;
      s.flags &= static_cast<std::uint8_t>(~kInRing);
      if (ring_head_[i] == kNone && queues[i].packets == 0)
        ports[s.port].nonempty &= static_cast<std::uint8_t>(~(1U << q));
      return;
    }
  }
}

// A way into memory that is stuck keeps what it holds; messages already complete stay so.
void Sim::set_frozen(std::uint32_t number, bool frozen) {
  Pipe& pipe = pipes[number];
  if ((pipe.frozen != 0) == frozen) return;
  pipe.frozen = frozen ? 1 : 0;
  if (frozen) {
    const Ps left = pipe.busy_ps > now_ ? pipe.busy_ps - now_ : 0;
    pipe.frozen_bytes = static_cast<std::uint32_t>(left * pipe.den / pipe.num);
    pipe.busy_ps = now_;
    hold_landings(number);
    return;
  }
  pipe.busy_ps = now_ + std::uint64_t{pipe.frozen_bytes} * pipe.num / pipe.den;
  pipe.frozen_bytes = 0;
  go_on_landings(number);
  on_rx_xon(number);
  thaw_credits(number);
}

void Sim::change_pipe_rate(std::uint32_t number, std::uint64_t kbps) {
  Pipe& pipe = pipes[number];
  const Ps left = pipe.busy_ps > now_ ? pipe.busy_ps - now_ : 0;
  const std::uint64_t bytes = left * pipe.den / pipe.num;
  set_pipe_rate(pipe, kbps);
  if (left != 0) pipe.busy_ps = now_ + bytes * pipe.num / pipe.den;
  if (!pipe.frozen) go_on_landings(number);
  on_rx_xon(number);
  if (!pipe.frozen) thaw_credits(number);
}

void Sim::change_nic(std::uint32_t flow, std::uint32_t number) {
  Sender& s = senders[flow];
  const bool other = nics_[number].cc.kind != nic(s).cc.kind;
  leave_ring(flow);  // its class may be another one now
  s.nic = static_cast<std::uint16_t>(number);
  if (other) {
    cc[flow] = CcState{};
    cc[flow].rate_Bps = cc_path_[flow].line_rate_Bps;
    if (s.flags & kBegun) begin(flow);
  }
  wake(flow);
}

}  // namespace railweave::pkt
