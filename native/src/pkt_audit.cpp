// The count of every byte: what was sent is delivered, dropped or under way, buffers hold what
// their counters say, and no credit is lost. Holds between any two events.
#include <stdexcept>
#include <string>

#include "pkt_sim.hpp"

namespace railweave::pkt {

Sim::Flight Sim::in_flight() const {
  Flight f;
  const auto add = [&](const Packet& p) {
    ((p.flags & kReply) ? f.reply_packets : f.data_packets) += 1;
    ((p.flags & kReply) ? f.reply_bytes : f.data_bytes) += p.size;
  };
  for (const Queue& q : queues)
    fifo_.each(q, [&](std::uint32_t id) { add(pool_[id]); });
  wheel_.each([&](const Event& e) {
    if (static_cast<Ev>(e.tag & 0xFF) == Ev::arrive) add(pool_[e.arg]);
  });
  return f;
}

void Sim::audit() const {
  const Flight f = in_flight();
  const auto check = [](const Ledger& l, std::uint64_t packets, std::uint64_t bytes, const char* of) {
    std::uint64_t p = l.delivered_packets + packets, b = l.delivered_bytes + bytes;
    for (int i = 0; i < kDropKinds; ++i) {
      p += l.dropped_packets[i];
      b += l.dropped_bytes[i];
    }
    if (p == l.sent_packets && b == l.sent_bytes) return;
    throw std::runtime_error(std::string(of) + ": " + std::to_string(l.sent_packets) +
                             " packets were sent, " + std::to_string(p) + " are accounted for (" +
                             std::to_string(l.sent_bytes) + " and " + std::to_string(b) + " bytes)");
  };
  check(data, f.data_packets, f.data_bytes, "data");
  check(replies, f.reply_packets, f.reply_bytes, "replies");
  if (pool_.live() != f.data_packets + f.reply_packets)
    throw std::runtime_error("packets are alive that are in no queue and on no wire");
  audit_queues();
  audit_buffers();
  if (has_credits_) audit_credits();
}

namespace {
[[noreturn]] void astray(const char* what, std::size_t place, std::uint64_t counted, std::uint64_t kept) {
  throw std::runtime_error(std::string(what) + " " + std::to_string(place) + ": " +
                           std::to_string(counted) + " counted, " + std::to_string(kept) + " kept");
}
}  // namespace

void Sim::audit_queues() const {
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const Queue& q = queues[i];
    const Port& p = ports[i % n_links_];
    std::uint64_t bytes = 0, cells = 0;
    fifo_.each(q, [&](std::uint32_t id) {
      bytes += pool_[id].size;
      cells += pool_[id].cells;
    });
    if (bytes != q.bytes) astray("bytes of queue", i, bytes, q.bytes);
    if (p.source_switch != kNone && cells != q.cells) astray("cells of queue", i, cells, q.cells);
    const bool waits = q.packets != 0 || ring_head_[i] != kNone;
    if (waits != (((p.nonempty >> (i / n_links_)) & 1) != 0))
      astray("packets of a port that seems empty, or the reverse, at queue", i, q.packets, waits);
  }
}

// Ingress groups hold the packets that came over their link; the pools hold the groups.
void Sim::audit_buffers() const {
  std::vector<std::uint64_t> cells(groups.size(), 0);
  for (std::size_t i = 0; i < queues.size(); ++i) {
    if (ports[i % n_links_].source_switch == kNone) continue;
    fifo_.each(queues[i], [&](std::uint32_t id) {
      cells[at(pool_[id].in_link, pool_[id].local)] += pool_[id].cells;
    });
  }
  std::vector<std::uint64_t> shared(switches.size(), 0), headroom(switches.size(), 0);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Group& g = groups[i];
    if (cells[i] != std::uint64_t{g.cells} + g.headroom_cells)
      astray("cells of group", i, cells[i], std::uint64_t{g.cells} + g.headroom_cells);
    const std::uint32_t head = ports[i % n_links_].head_switch;
    if (head == kNone) continue;
    const std::uint32_t own = config(switches[head]).reserved_cells;
    shared[head] += g.cells > own ? g.cells - own : 0;
    headroom[head] += g.headroom_cells;
  }
  for (std::size_t s = 0; s < switches.size(); ++s) {
    if (shared[s] != switches[s].shared_used)
      astray("shared cells of switch", s, shared[s], switches[s].shared_used);
    if (headroom[s] != switches[s].headroom_used)
      astray("headroom cells of switch", s, headroom[s], switches[s].headroom_used);
  }
}

// A lane's buffer is free at the sender, on the wire, occupied, or on its way back as credit.
void Sim::audit_credits() const {
  std::vector<std::uint64_t> used(groups.size(), 0);
  for (std::size_t i = 0; i < queues.size(); ++i) {
    if (ports[i % n_links_].source_switch == kNone) continue;
    fifo_.each(queues[i], [&](std::uint32_t id) {
      used[at(pool_[id].in_link, pool_[id].priority)] += pool_[id].size;
    });
  }
  wheel_.each([&](const Event& e) {
    if (static_cast<Ev>(e.tag & 0xFF) != Ev::arrive) return;
    used[at(pool_[e.arg].in_link, pool_[e.arg].priority)] += pool_[e.arg].size;
  });
  for (const HeldCredits& h : held_credits_)
    for (std::size_t i = h.first; i < h.queue.size(); ++i)
      used[at(h.queue[i].link, h.queue[i].lane)] += h.queue[i].bytes;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::uint32_t whole = links_.credit_bytes[i % n_links_];
    if (whole == 0) continue;
    std::uint64_t owed = 0;
    const CreditLane& c = credit_lanes_[i];
    for (std::size_t k = c.first; k < c.way.size(); ++k) owed += c.way[k].bytes;
    if (owed != groups[i].owed_bytes) astray("credits on their way of lane", i, owed, groups[i].owed_bytes);
    if (credit_[i] + used[i] + owed != whole)
      astray("credits of lane", i, credit_[i] + used[i] + owed, whole);
  }
}

}  // namespace railweave::pkt
