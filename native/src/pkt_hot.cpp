// What happens for each packet at each hop: wires, queues, buffer admission, scheduling.
#include <algorithm>
#include <bit>

#include "pkt_sim.hpp"

namespace railweave::pkt {

bool Sim::loop(Ps until, std::int64_t max_events, flow::Interrupt& interrupt) {
  for (; max_events != 0; --max_events) {
    const Event* next = wheel_.peek();
    if (next == nullptr) {
      end_ = find_cycle() ? End::deadlock : End::stuck;
      return true;
    }
    if (next->time_ps > until) {
      now_ = std::max(now_, until);
      return false;
    }
    warm();
    const Event e = *next;
    wheel_.pop();
    now_ = e.time_ps;
    ++events_;
    const std::uint32_t detail = e.tag >> 8;
    switch (static_cast<Ev>(e.tag & 0xFF)) {
      case Ev::arrive: arrive(e.arg, detail); break;
      case Ev::transmit: {
        Port& p = ports[e.arg];
        p.tx_pending = 0;
        kick(e.arg);
        break;
      }
      case Ev::ready:
        if (timed_at_[e.arg] == now_) {
          timed_at_[e.arg] = kNever;
          wake(e.arg);
        }
        break;
      case Ev::pause:
        if (detail >> 4 == flaps_[e.arg])  // else the link went down while it was on its way
          on_pause(e.arg, static_cast<int>(detail & 7), (detail & 8) != 0);
        break;
      case Ev::cc_timer: on_cc_timer(e.arg); break;
      case Ev::retry: on_retry(e.arg); break;
      case Ev::complete: on_complete(e.arg); break;
      case Ev::chunk: on_chunk(e.arg); break;
      case Ev::task: begin_task(e.arg); break;
      case Ev::fault: on_fault(faults_[e.arg]); break;
      case Ev::watchdog: on_watchdog(e.arg, static_cast<int>(detail)); break;
      case Ev::credit: on_credit(e.arg, static_cast<int>(detail)); break;
      case Ev::rx_xon: on_rx_xon(e.arg); break;
      case Ev::sample: sample(); break;
      case Ev::rnr: on_rnr_timer(e.arg); break;
      case Ev::grant: on_grant_due(e.arg); break;
      case Ev::local: on_local(e.arg); break;
      case Ev::sent: on_sent(e.arg); break;
      case Ev::progress:
        if (check_progress()) return true;
        break;
    }
    if (tasks_left_ == 0) {
      end_ = End::finished;
      return true;
    }
    interrupt.tick();
  }
  return false;
}

// Fetches into the caches what the events to come will touch, in three steps, each of which follows
// pointers that the step before has brought: packets, ports and queues; then what lies behind them,
// that is the queues and groups that packets join and the packets at the heads of queues; then the
// groups that these leave.
void Sim::warm() {
  if (const Event* e = wheel_.ahead(kFirst)) warm_first(*e);
  if (const Event* e = wheel_.ahead(kSecond)) warm_second(*e);
  if (const Event* e = wheel_.ahead(kThird)) warm_third(*e);
}

void Sim::warm_first(const Event& e) const {
  const auto kind = static_cast<Ev>(e.tag & 0xFF);
  if (kind == Ev::arrive) {
    __builtin_prefetch(&pool_[e.arg]);
    if (const std::uint32_t out = e.tag >> 8; out < n_links_) __builtin_prefetch(&ports[out]);
  } else if (kind == Ev::transmit) {
    __builtin_prefetch(&ports[e.arg]);
    __builtin_prefetch(&queues[at(e.arg, static_cast<int>(e.tag >> 8))]);
  }
}

void Sim::warm_second(const Event& e) const {
  const auto kind = static_cast<Ev>(e.tag & 0xFF);
  if (kind == Ev::transmit) {
    const Queue& q = queues[at(e.arg, static_cast<int>(e.tag >> 8))];
    if (q.packets != 0) __builtin_prefetch(&pool_[q.head]);
    return;
  }
  if (kind != Ev::arrive) return;
  const Packet& p = pool_[e.arg];
  const std::uint32_t out = e.tag >> 8;
  if (out == kDeliver) {
    __builtin_prefetch(&receivers[p.flow]);
    __builtin_prefetch(&senders[p.flow]);
    __builtin_prefetch(&record.flows[p.flow]);
    return;
  }
  if (out >= n_links_) return;
  if (p.pos != kNone) __builtin_prefetch(&path_[p.pos]);
  const Port& o = ports[out];
  if (o.nonempty == 0 && o.busy_ps <= e.time_ps) return;
  __builtin_prefetch(&queues[at(out, p.priority)]);
  __builtin_prefetch(&groups[at(p.in_link, p.priority)]);
}

void Sim::warm_third(const Event& e) const {
  if (static_cast<Ev>(e.tag & 0xFF) != Ev::transmit) return;
  const Queue& q = queues[at(e.arg, static_cast<int>(e.tag >> 8))];
  if (q.packets == 0) return;
  const Packet& head = pool_[q.head];
  __builtin_prefetch(&groups[at(head.in_link, head.local)]);
  if (head.pos != kNone) __builtin_prefetch(&path_[head.pos]);
}

void Sim::arrive(std::uint32_t packet, std::uint32_t out) {
  if (out == kDeliver) {
    receive(packet);
    return;
  }
  if (out == kChoose) {
    out = choose_link(packet, links_.target[pool_[packet].in_link]);
    if (out == kNone) {
      drop(packet, Drop::no_route, pool_[packet].in_link);
      return;
    }
  }
  const Port& o = ports[out];
  if (o.busy_ps <= now_ && o.nonempty == 0 && (o.flags & kCareful) == 0 &&
      (o.paused == 0 || ((o.paused >> pool_[packet].priority) & 1) == 0)) {
    transmit(out, packet);
    return;
  }
  queue_up(packet, out);
}

void Sim::queue_up(std::uint32_t packet, std::uint32_t out) {
  Port& o = ports[out];
  Packet& p = pool_[packet];
  Switch& sw = switches[o.source_switch];
  const SwitchConfig& c = config(sw);
  p.local = c.priority_map[p.priority];
  p.ready_ps = now_ + c.hold_ps;
  if (p.size > c.mtu_bytes) {
    drop(packet, Drop::mtu, out);
    return;
  }
  if (((o.watched >> p.local) & 1) != 0 && !c.watchdog_forwards) {
    drop(packet, Drop::watchdog, out);
    return;
  }
  p.cells = static_cast<std::uint16_t>((p.size + c.cell_bytes - 1) / c.cell_bytes);
  Queue& q = queues[at(out, p.local)];
  Drop why = Drop::no_buffer;
  if (!admit(sw, c, p, q, why)) {
    if (why == Drop::no_buffer && c.trimming && trim(sw, c, packet, out)) return;
    ++q.dropped;
    drop(packet, why, out);
    return;
  }
  if ((p.flags & kEcnCapable) && ((c.ecn >> p.local) & 1) && q.kmax_bytes != 0) mark(c, q, p);
  put_tail(out, p.local, packet);
  q.cells += p.cells;
  kick(out);
}

std::uint32_t Sim::pg_limit(const Switch& sw, const SwitchConfig& c) const {
  if (c.pg_limit_cells != 0) return c.pg_limit_cells;
  const std::uint32_t left = c.shared_cells > sw.shared_used ? c.shared_cells - sw.shared_used : 0;
  return static_cast<std::uint32_t>(std::min(c.pg_alpha * left, 4e9));
}

// Charges the packet to its ingress group, or says why it cannot be.
bool Sim::admit(Switch& sw, const SwitchConfig& c, const Packet& p, const Queue& q, Drop& why) {
  Group& g = groups[at(p.in_link, p.local)];
  const std::uint32_t n = p.cells;
  const std::uint32_t left = c.shared_cells > sw.shared_used ? c.shared_cells - sw.shared_used : 0;
  const std::uint32_t before = g.cells > c.reserved_cells ? g.cells - c.reserved_cells : 0;
  const std::uint32_t after = g.cells + n > c.reserved_cells ? g.cells + n - c.reserved_cells : 0;
  const bool lossless = ((c.lossless >> p.local) & 1) != 0;
  bool fits = after - before <= left;
  if (lossless) {
    fits = fits && (after == before || after <= pg_limit(sw, c));
  } else if (q.cells + n > c.queue_reserved_cells) {
    fits = fits && q.cells + n - c.queue_reserved_cells <= c.queue_alpha * left;
  }
  if (fits) {
    g.cells += n;
    g.peak_cells = std::max(g.peak_cells, g.cells);
    sw.shared_used += after - before;
    sw.peak_shared = std::max(sw.peak_shared, sw.shared_used);
    return true;
  }
  why = Drop::no_buffer;
  if (!lossless) return false;
  if (g.headroom_cells + n > g.headroom_limit || sw.headroom_used + n > c.headroom_pool_cells) {
    why = Drop::headroom;
    ++g.dropped;
    return false;
  }
  g.headroom_cells += n;
  g.peak_headroom = std::max(g.peak_headroom, g.headroom_cells);
  sw.headroom_used += n;
  sw.peak_headroom = std::max(sw.peak_headroom, sw.headroom_used);
  if (!g.xoff && ((links_.pause_mask[p.in_link] >> p.local) & 1)) {
    g.xoff = 1;
    send_pause(p.in_link, p.local, true);
  }
  return true;
}

void Sim::release(Switch& sw, const Packet& p) {
  const SwitchConfig& c = config(sw);
  Group& g = groups[at(p.in_link, p.local)];
  const std::uint32_t room = std::min<std::uint32_t>(g.headroom_cells, p.cells);
  g.headroom_cells -= room;
  sw.headroom_used -= room;
  const std::uint32_t before = g.cells > c.reserved_cells ? g.cells - c.reserved_cells : 0;
  g.cells -= p.cells - room;
  const std::uint32_t after = g.cells > c.reserved_cells ? g.cells - c.reserved_cells : 0;
  sw.shared_used -= before - after;
  if (g.xoff && g.headroom_cells == 0 &&
      (after == 0 || after + c.xon_offset_cells <= pg_limit(sw, c))) {
    g.xoff = 0;
    send_pause(p.in_link, p.local, false);
  }
  if (c.credits) give_credit(p.in_link, p.local, p.size);
}

// RED-style marking by the queue that the packet finds.
void Sim::mark(const SwitchConfig& c, Queue& q, Packet& p) {
  double x = q.bytes;
  if (c.ecn_weight > 0) {
    if (q.packets == 0) {  // the average decays over the idle time as if small packets had come
      const Ps idle = now_ - q.average_ps;
      double keep = 1 - c.ecn_weight, all = 1;
      for (Ps n = std::min<Ps>(idle / 100'000, 1 << 20); n != 0; n >>= 1, keep *= keep)
        if (n & 1) all *= keep;
      q.average_bytes *= all;
    }
    q.average_bytes += c.ecn_weight * (x - q.average_bytes);
    q.average_ps = now_;
    x = q.average_bytes;
  }
  if (x <= q.kmin_bytes) return;
  if (x <= q.kmax_bytes) {
    const double chance = c.pmax * (x - q.kmin_bytes) / (q.kmax_bytes - q.kmin_bytes);
    if (ecn_random_.unit() >= chance) return;
  }
  p.flags |= kMarked;
  ++q.marked;
  if (record.watched.trace_limit != 0)
    record.note(now_, Trace::mark, p.local, static_cast<std::uint32_t>((&q - queues.data()) % n_links_),
                p.flow, p.psn);
}

// Cuts the payload off a packet that does not fit; its header goes on ahead of the data.
bool Sim::trim(Switch& sw, const SwitchConfig& c, std::uint32_t packet, std::uint32_t out) {
  Packet& p = pool_[packet];
  if (p.kind != Kind::data || (p.flags & kTrimmed)) return false;
  const NicConfig& n = nic(senders[p.flow]);
  const std::uint32_t cut = p.size > kFrameBytes ? p.size - kFrameBytes : 0;
  p.size -= cut;
  p.flags |= kTrimmed;
  p.priority = n.cnp_priority;
  p.local = c.priority_map[p.priority];
  p.cells = static_cast<std::uint16_t>((p.size + c.cell_bytes - 1) / c.cell_bytes);
  data.dropped_bytes[static_cast<int>(Drop::trimmed)] += cut;
  Queue& q = queues[at(out, p.local)];
  Drop why;
  if (!admit(sw, c, p, q, why)) return false;
  record.note(now_, Trace::trimmed, p.local, out, p.flow, p.psn);
  put_tail(out, p.local, packet);
  q.cells += p.cells;
  kick(out);
  return true;
}

void Sim::put_tail(std::uint32_t port, int priority, std::uint32_t packet) {
  Queue& q = queues[at(port, priority)];
  Packet& p = pool_[packet];
  fifo_.push(q, packet);
  q.bytes += p.size;
  q.peak_bytes = std::max(q.peak_bytes, q.bytes);
  ports[port].nonempty |= static_cast<std::uint8_t>(1U << priority);
}

std::uint32_t Sim::take_head(std::uint32_t port, int priority) {
  Queue& q = queues[at(port, priority)];
  const std::uint32_t packet = fifo_.pop(q);
  const Packet& p = pool_[packet];
  q.bytes -= p.size;
  if (q.packets != 0) __builtin_prefetch(&pool_[q.head]);
  Port& o = ports[port];
  const bool flows_wait = (o.flags & kFromHost) && ring_head_[at(port, priority)] != kNone;
  if (q.packets == 0 && !flows_wait) o.nonempty &= static_cast<std::uint8_t>(~(1U << priority));
  return packet;
}

// The class that will probably send next; only a hint of what to fetch.
std::uint32_t Sim::likely_class(const Port& p) {
  return p.nonempty == 0 ? 0 : static_cast<std::uint32_t>(std::countr_zero(p.nonempty));
}

// Something waits at the port, or it may go on: sends now, or as soon as the wire is free.
void Sim::kick(std::uint32_t port) {
  Port& p = ports[port];
  if (p.tx_pending) return;
  if (p.busy_ps > now_) {
    p.tx_pending = 1;
    wheel_.push(p.busy_ps, tag(Ev::transmit, likely_class(p)), port);
    return;
  }
  serve(port);
}

void Sim::serve(std::uint32_t port) {
  Port& p = ports[port];
  const auto ready = [&p] {
    return static_cast<unsigned>(p.nonempty & ~(p.paused & ~p.watched) & ~p.starved) & 0xFFU;
  };
  Ps through = kNever;
  bool sent = false;
  while (unsigned may = ready()) {
    if ((p.flags & kCareful) && p.source_switch != kNone) {
      may &= ~in_pipeline(port, may, through);
      if (may == 0) break;
    }
    const int priority = (may & (may - 1)) == 0 ? std::countr_zero(may)
                                                : choose_priority(p, port, may);
    const Queue& q = queues[at(port, priority)];
    if (q.packets == 0) {  // a host's port: its flows
      if (!send_from(port, priority)) continue;
      sent = true;
      break;
    }
    if (p.flags & kCareful) {
      if (!has_credit(port, priority, pool_[q.head].size)) continue;
    }
    const std::uint32_t packet = take_head(port, priority);
    if (p.source_switch != kNone) {
      queues[at(port, priority)].cells -= pool_[packet].cells;
      release(switches[p.source_switch], pool_[packet]);
    }
    transmit(port, packet);
    sent = true;
    break;
  }
  if (ready() && !p.tx_pending) {
    p.tx_pending = 1;
    wheel_.push(sent ? std::max(p.busy_ps, now_) : through, tag(Ev::transmit, likely_class(p)),
                port);
  }
}

// Those of these classes whose first packet is still in the switch's pipeline, and when the first
// of them is through.
unsigned Sim::in_pipeline(std::uint32_t port, unsigned may, Ps& through) const {
  unsigned held = 0;
  for (int i = 0; i < kPriorities; ++i) {
    if (((may >> i) & 1) == 0) continue;
    const Queue& q = queues[at(port, i)];
    if (q.packets == 0 || pool_[q.head].ready_ps <= now_) continue;
    held |= 1U << i;
    through = std::min(through, pool_[q.head].ready_ps);
  }
  return held;
}

// Strict priorities first, the highest of them; then deficit round robin.
int Sim::choose_priority(Port& p, std::uint32_t port, unsigned ready) {
  if (p.source_switch == kNone) {  // a host: replies first, then its classes in turn
    for (int i = kPriorities - 1; i >= 0; --i)
      if (((ready >> i) & 1) && queues[at(port, i)].packets != 0) return i;
    do p.turn = static_cast<std::uint8_t>((p.turn + 1) % kPriorities);
    while (((ready >> p.turn) & 1) == 0);
    return p.turn;
  }
  const SwitchConfig& c = config(switches[p.source_switch]);
  if (const unsigned strict = ready & c.strict) return std::bit_width(strict) - 1;
  if ((ready & (ready - 1)) == 0) return std::countr_zero(ready);
  for (;;) {
    Queue& q = queues[at(port, p.turn)];
    if ((ready >> p.turn) & 1) {
      const auto size = static_cast<std::int32_t>(pool_[q.head].size);
      if (q.deficit >= size) {
        q.deficit -= size;
        return p.turn;
      }
    } else {
      q.deficit = 0;
    }
    p.turn = static_cast<std::uint8_t>((p.turn + 1) % kPriorities);
    if ((ready >> p.turn) & 1)
      queues[at(port, p.turn)].deficit +=
          static_cast<std::int32_t>(std::max<std::uint32_t>(c.quantum_bytes[p.turn], 64));
  }
}

Ps Sim::wire_ps(Port& p, std::uint32_t bytes) {
  const std::uint64_t total = std::uint64_t{bytes} * p.num;
  if (p.den == 1) return total;
  const std::uint64_t all = total + p.remainder;
  p.remainder = static_cast<std::uint32_t>(all % p.den);
  return all / p.den;
}

// Puts the packet on the wire now. The wire is free.
void Sim::transmit(std::uint32_t port, std::uint32_t packet) {
  Port& p = ports[port];
  Packet& k = pool_[packet];
  const Ps wire = wire_ps(p, k.size);
  p.busy_ps = now_ + wire;
  p.tx_bytes += k.size;
  ++p.tx_packets;
  k.in_link = port;
  if (p.flags & (kDown | kLossy | kCareful)) {
    if (has_credits_) take_credit(port, k.priority, k.size);
    if (p.flags & kDown) {
      p.tx_bytes -= k.size;
      --p.tx_packets;
      return drop(packet, Drop::link_down, port);
    }
    if ((p.flags & kLossy) && loss_random_.next32() < loss_[port]) return drop(packet, Drop::corrupt, port);
  }
  if (k.telemetry != kNone) stamp(k, p, port);
  Ps reach = wire;
  if (p.flags & kCut) {
    const Ps header = std::uint64_t{kHeaderBytes} * p.num / p.den;
    reach = std::min(reach, header);
  }
  std::uint32_t next;
  if (k.pos != kNone) next = path_[k.pos++];
  else next = (p.flags & kToHost) ? kDeliver : kChoose;
  wheel_.push(now_ + reach + p.delay_ps, tag(Ev::arrive, next), packet);
}

void Sim::stamp(Packet& k, const Port& p, std::uint32_t port) {
  if (k.hops >= kMostHops || p.source_switch == kNone) return;
  HopTelemetry& t = telemetry_[static_cast<std::size_t>(k.telemetry) * kMostHops + k.hops++];
  t.time_ps = now_;
  t.tx_bytes = p.tx_bytes;
  t.rate_Bps = 1e12 * p.den / p.num;
  t.queue_bytes = queues[at(port, k.priority)].bytes;
  t.link = port;
}

void Sim::free_packet(std::uint32_t packet) {
  Packet& k = pool_[packet];
  if (k.telemetry != kNone) telemetry_free_.push_back(k.telemetry);
  if (has_credits_) credit_of_freed(k);
  pool_.give(packet);
}

void Sim::drop(std::uint32_t packet, Drop why, std::uint32_t link) {
  Packet& k = pool_[packet];
  Ledger& l = (k.flags & kReply) ? replies : data;
  const int i = static_cast<int>(why);
  ++l.dropped_packets[i];
  l.dropped_bytes[i] += k.size;
  ++record.ports[link].dropped[i];
  record.note(now_, Trace::drop, k.priority, link, k.flow, static_cast<std::uint32_t>(i));
  free_packet(packet);
}

void Sim::consume(std::uint32_t packet) {
  Packet& k = pool_[packet];
  Ledger& l = (k.flags & kReply) ? replies : data;
  ++l.delivered_packets;
  l.delivered_bytes += k.size;
  free_packet(packet);
}

}  // namespace railweave::pkt
