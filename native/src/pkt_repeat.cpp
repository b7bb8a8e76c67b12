// Selective repeat: receivers keep what comes before its turn, senders fill holes only.
//
// Each reply carries the next packet expected and the packet it answers; a packet before its turn
// is answered at once. So the sender learns what has arrived, one packet at a time, and takes a
// hole for lost when a packet sent `reorder_packets` or more after it has arrived, when a switch
// has trimmed it, or when the retry timer fires (then all that is out counts as lost). A packet sent
// again counts as lost again when so many packets sent after it have been answered.
#include <algorithm>

#include "pkt_sim.hpp"

namespace railweave::pkt {

// Wire bytes of the packets from..to - 1.
std::uint64_t Sim::bytes_between(const Sender& s, std::uint32_t from, std::uint32_t to) const {
  const std::uint64_t all = std::uint64_t{to - from} * s.full_bytes;
  if (s.full_bytes == s.last_bytes) return all;
  const std::uint64_t ends = to / s.packets_a_message - from / s.packets_a_message;
  return all - ends * (s.full_bytes - s.last_bytes);
}

Holes& Sim::holes_of(std::uint32_t flow) {
  Sender& s = senders[flow];
  if (s.holes == kNone) {
    s.holes = static_cast<std::uint32_t>(holes_.size());
    holes_.emplace_back();
    holes_.back().scan = holes_.back().high = s.acked;
  }
  Holes& h = holes_[s.holes];
  const std::uint32_t span = s.next - s.acked;
  h.arrived.fit(s.acked, span);
  h.lost.fit(s.acked, span);
  h.again.fit(s.acked, span);
  return h;
}

// All before `to` has arrived: forgets what was known of it one by one. Returns the bytes among it
// whose arrival is news.
std::uint64_t Sim::forget_arrived(std::uint32_t flow, std::uint32_t from, std::uint32_t to) {
  const Sender& s = senders[flow];
  Holes& h = holes_[s.holes];
  std::uint64_t news = bytes_between(s, from, to);
  if (h.arrived_bytes == 0 && h.lost_bytes == 0 && h.n_again == 0) return news;
  for (std::uint32_t psn = from; psn != to; ++psn) {
    const std::uint32_t size = packet_bytes(s, psn);
    if (h.arrived.test(psn)) {
      h.arrived.clear(psn);
      h.arrived_bytes -= size;
      news -= size;
    }
    if (h.lost.test(psn)) {
      h.lost.clear(psn);
      h.lost_bytes -= size;
    }
    if (h.again.test(psn)) {
      h.again.clear(psn);
      --h.n_again;
    }
  }
  return news;
}

// One packet beyond the first hole has arrived; returns its bytes if that is news.
std::uint64_t Sim::note_arrived(std::uint32_t flow, std::uint32_t psn) {
  const Sender& s = senders[flow];
  if (psn == kNone || psn < s.acked || psn >= s.next) return 0;
  Holes& h = holes_of(flow);
  if (h.arrived.test(psn)) return 0;
  const std::uint32_t size = packet_bytes(s, psn);
  h.arrived.set(psn);
  h.arrived_bytes += size;
  h.high = std::max(h.high, psn + 1);
  if (h.lost.test(psn)) {
    h.lost.clear(psn);
    h.lost_bytes -= size;
  }
  return size;
}

void Sim::find_lost(std::uint32_t flow, Ps answered_sent_ps) {
  Sender& s = senders[flow];
  Holes& h = holes_of(flow);
  const std::uint32_t far = std::max<std::uint32_t>(1, nic(s).reorder_packets);
  h.scan = std::max(h.scan, s.acked);
  for (; h.scan + far < h.high; ++h.scan)
    if (!h.arrived.test(h.scan) && !h.lost.test(h.scan) && !h.again.test(h.scan)) lose(flow, h.scan);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < h.resent.size(); ++i) {
    Holes::Resent r = h.resent[i];
    if (r.psn < s.acked || h.arrived.test(r.psn) || h.lost.test(r.psn)) continue;
    if (answered_sent_ps > r.sent_ps && ++r.overtaken >= far) {
      lose(flow, r.psn);
      continue;
    }
    h.resent[kept++] = r;
  }
  h.resent.resize(kept);
  tidy_queue(s, h);
}

void Sim::lose(std::uint32_t flow, std::uint32_t psn) {
  Sender& s = senders[flow];
  Holes& h = holes_[s.holes];
  h.lost.set(psn);
  h.lost_bytes += packet_bytes(s, psn);
  h.queue.push_back(psn);
  s.flags |= kResend;
  cc_on_loss(nic(s).cc, cc_path_[flow], cc[flow], now_, false);
}

// Nothing of what is out will be answered: all of it is to be sent again, the oldest first.
void Sim::lose_all(std::uint32_t flow) {
  Sender& s = senders[flow];
  Holes& h = holes_of(flow);
  h.queue.clear();
  h.resent.clear();
  for (std::uint32_t psn = s.acked; psn != s.next; ++psn) {
    if (h.arrived.test(psn)) continue;
    if (!h.lost.test(psn)) {
      h.lost.set(psn);
      h.lost_bytes += packet_bytes(s, psn);
    }
    h.queue.push_back(psn);
  }
  tidy_queue(s, h);
}

// The first of the queue is a hole, or there is none.
void Sim::tidy_queue(Sender& s, Holes& h) {
  while (!h.queue.empty() && (h.queue.front() < s.acked || !h.lost.test(h.queue.front())))
    h.queue.pop_front();
  s.flags = static_cast<std::uint8_t>(h.queue.empty() ? s.flags & ~kResend : s.flags | kResend);
}

std::uint32_t Sim::next_psn(const Sender& s) const {
  return (s.flags & kResend) ? holes_[s.holes].queue.front() : s.next;
}

// The hole that is filled now.
std::uint32_t Sim::take_hole(std::uint32_t flow) {
  Sender& s = senders[flow];
  Holes& h = holes_of(flow);
  const std::uint32_t psn = h.queue.front();
  h.queue.pop_front();
  h.lost.clear(psn);
  h.lost_bytes -= packet_bytes(s, psn);
  if (!h.again.test(psn)) {
    h.again.set(psn);
    ++h.n_again;
  }
  h.resent.push_back({psn, 0, now_});
  tidy_queue(s, h);
  return psn;
}

// The receiver's side: a packet before its turn goes to memory and is remembered.
void Sim::on_early(std::uint32_t packet, Receiver& r) {
  Packet& p = pool_[packet];
  const std::uint32_t flow = p.flow;
  FlowCounters& count = record.flows[flow];
  const std::uint32_t window = nic(senders[flow]).reorder_window_packets;
  ++count.out_of_order;
  if (p.psn - r.expected >= window) {
    ++count.discarded;
    return drop(packet, Drop::out_of_order, p.in_link);
  }
  if (r.early == kNone) {
    r.early = static_cast<std::uint32_t>(early_.size());
    early_.emplace_back();
  }
  Early& e = early_[r.early];
  e.here.fit(r.expected, window);
  if (e.here.test(p.psn)) {
    ++count.duplicates;
    acknowledge(flow, p);
    return drop(packet, Drop::duplicate, p.in_link);
  }
  Ps done;
  if (!into_memory(packet, r, done)) return drop(packet, Drop::rx_overflow, p.in_link);
  e.here.set(p.psn);
  ++e.count;
  ++r.unanswered;
  if (p.flags & kMarked) ++r.marked;
  acknowledge(flow, p);
  consume(packet);
}

// Those whose turn has come now.
void Sim::take_early(Receiver& r) {
  Early& e = early_[r.early];
  for (; e.here.test(r.expected); ++r.expected, --e.count) e.here.clear(r.expected);
}

}  // namespace railweave::pkt
