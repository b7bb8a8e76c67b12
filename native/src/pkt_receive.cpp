// The receiving adapter: order, memory, congestion notifications, acknowledgements.
#include <algorithm>
#include <stdexcept>

#include "pkt_sim.hpp"

namespace railweave::pkt {

// A packet has reached the host at the end of its way.
void Sim::receive(std::uint32_t packet) {
  Packet& p = pool_[packet];
  if (!(p.flags & kReply)) on_data(packet);
  else on_reply(packet);
}

// Queues a reply of the receiver at its NIC. It travels back over the links of the flow's way.
std::uint32_t Sim::reply_to(std::uint32_t flow, Kind kind, std::uint32_t bytes, int priority) {
  const std::uint32_t id = pool_.take();
  Packet& k = pool_[id];
  k.sent_ps = now_;
  k.flow = flow;
  k.psn = receivers[flow].expected;
  k.size = bytes;
  k.kind = kind;
  k.priority = k.local = static_cast<std::uint8_t>(priority);
  k.flags = kReply;
  k.hops = 0;
  k.telemetry = kNone;
  k.entropy = senders[flow].entropy;
  k.echo = kNone;
  k.marked = k.count = 0;
  k.cells = 0;
  k.ready_ps = 0;
  return id;
}

void Sim::send_reply(std::uint32_t packet, std::uint32_t flow) {
  Packet& k = pool_[packet];
  const Sender& s = senders[flow];
  const bool back = k.kind != Kind::request;
  const std::uint32_t first = back ? s.back : s.path;
  k.pos = s.choice == Choice::path ? first + 1 : kNone;
  ++replies.sent_packets;
  replies.sent_bytes += k.size;
  const std::uint32_t port = path_[first];
  put_tail(port, k.priority, packet);
  kick(port);
}

void Sim::on_data(std::uint32_t packet) {
  Packet& p = pool_[packet];
  const std::uint32_t flow = p.flow;
  Receiver& r = receivers[flow];
  const NicConfig& n = nic(senders[flow]);
  FlowCounters& count = record.flows[flow];
  if (senders[flow].flags & kFailed) return drop(packet, Drop::late, p.in_link);
  if (p.flags & kMarked) {
    ++count.marked;
    if (n.sends_cnp && uses_cnp(n.cc.kind) && now_ >= r.next_cnp_ps) {
      r.next_cnp_ps = now_ + n.cnp_interval_ps;
      ++count.cnp_sent;
      record.note(now_, Trace::cnp_sent, n.cnp_priority, kNone, flow);
      send_reply(reply_to(flow, Kind::cnp, n.cnp_bytes, n.cnp_priority), flow);
    }
  }
  if (p.flags & kTrimmed) return on_trimmed(packet);
  if (r.not_ready && refuse(packet, r, n)) return;
  if (p.psn != r.expected) return on_gap(packet);
  Ps done;
  if (!into_memory(packet, r, done)) return drop(packet, Drop::rx_overflow, p.in_link);
  const std::uint32_t before = r.expected++;
  ++r.unanswered;
  if (p.flags & kMarked) ++r.marked;
  bool ask = (p.flags & kAskAck) != 0;
  if (r.early != kNone && early_[r.early].count != 0) {
    take_early(r);
    ask = true;  // the sender waits to hear that this hole is filled
  }
  progress(flow, r, done);
  if (n.receiver_grant_bytes != 0) granted_arrived(flow, before, r.expected);
  if (ask) acknowledge(flow, p);
  consume(packet);
}

// Takes over what has arrived in order: whole messages go to memory and complete there.
void Sim::progress(std::uint32_t flow, Receiver& r, Ps done) {
  r.nak_sent = 0;
  while (r.expected >= r.message_end) {
    r.message_end += senders[flow].packets_a_message;
    land(flow, r, done);
  }
}

void Sim::on_complete(std::uint32_t flow) {
  Receiver& r = receivers[flow];
  if (r.rx_pipe != kNone) {  // not so if the pipe got stuck meanwhile or has changed its speed
    std::vector<Landing>& waiting = landings_[flow];
    if (waiting.empty()) return;
    const Ps done = waiting.front().done_ps;
    if (done == kNever || done + r.latency_ps > now_) return;
    waiting.erase(waiting.begin());
  }
  ++r.delivered;
  if (r.delivered == tasks_.rounds[stream_task_[senders[flow].stream]]) flow_finish[flow] = now_;
  chunk_delivered(senders[flow].stream);
}

// A reply to this packet that answers all that has arrived since the last one.
std::uint32_t Sim::answer(std::uint32_t flow, Kind kind, Packet& p) {
  Receiver& r = receivers[flow];
  const NicConfig& n = nic(senders[flow]);
  const std::uint32_t id = reply_to(flow, kind, n.ack_bytes, n.ack_priority);
  Packet& k = pool_[id];
  k.sent_ps = p.sent_ps;
  k.echo = p.psn;
  k.entropy = p.entropy;
  k.count = static_cast<std::uint16_t>(std::min<std::uint32_t>(r.unanswered, 0xFFFF));
  k.marked = static_cast<std::uint16_t>(std::min<std::uint32_t>(r.marked, k.count));
  if (p.flags & kMarked) k.flags |= kMarked;
  std::swap(k.telemetry, p.telemetry);  // echoed to the sender
  k.hops = k.telemetry != kNone ? p.hops : 0;
  r.marked = r.unanswered = 0;
  return id;
}

void Sim::acknowledge(std::uint32_t flow, Packet& p) {
  ++record.flows[flow].acks_sent;
  send_reply(answer(flow, Kind::ack, p), flow);
}

// A packet out of its turn: go-back-N throws it away and asks for the one it waits for, once; and
// again when what showed the gap comes a second time, as then the sender has gone back in vain.
void Sim::on_gap(std::uint32_t packet) {
  Packet& p = pool_[packet];
  const std::uint32_t flow = p.flow;
  Receiver& r = receivers[flow];
  const NicConfig& n = nic(senders[flow]);
  FlowCounters& count = record.flows[flow];
  if (p.psn < r.expected) {
    ++count.duplicates;
    if (p.flags & kAskAck) acknowledge(flow, p);
    return drop(packet, Drop::duplicate, p.in_link);
  }
  if (n.selective_repeat) return on_early(packet, r);
  ++count.out_of_order;
  if (r.nak_sent == 0 || p.psn <= r.nak_psn) {
    r.nak_sent = 1;
    r.nak_psn = p.psn;
    ++count.naks_sent;
    record.note(now_, Trace::nak, n.ack_priority, kNone, flow, r.expected);
    send_reply(answer(flow, Kind::nak, p), flow);
  } else if (r.nak_sent == 2) {
    r.nak_psn = p.psn;
  }
  drop(packet, Drop::out_of_order, p.in_link);
}

// Its header has come without its payload: the sender is told which packet it was.
void Sim::on_trimmed(std::uint32_t packet) {
  Packet& p = pool_[packet];
  const std::uint32_t flow = p.flow;
  ++record.flows[flow].trimmed;
  if (!nic(senders[flow]).selective_repeat) return on_gap(packet);
  const Receiver& r = receivers[flow];
  const bool here = p.psn < r.expected || (r.early != kNone && p.psn - r.expected < nic(senders[flow]).reorder_window_packets &&
                                           early_[r.early].here.test(p.psn));
  if (!here) {
    ++record.flows[flow].naks_sent;
    record.note(now_, Trace::nak, nic(senders[flow]).ack_priority, kNone, flow, p.psn);
    send_reply(answer(flow, Kind::nak, p), flow);
  }
  consume(packet);
}

void Sim::set_not_ready(std::uint32_t flow, bool on) {
  if (flow >= receivers.size()) throw std::invalid_argument("there is no such flow");
  receivers[flow].not_ready = on;
}

// No receive is posted: refuses what belongs to a message that has not begun. One RNR NAK until
// the sender has come back; what it had on the way is thrown away.
bool Sim::refuse(std::uint32_t packet, Receiver& r, const NicConfig& n) {
  Packet& p = pool_[packet];
  const std::uint32_t ppm = senders[p.flow].packets_a_message;
  const std::uint32_t open_end = r.expected + ppm == r.message_end ? r.expected : r.message_end;
  if (p.psn < open_end) return false;
  if (p.psn != r.expected && !n.selective_repeat) return false;  // on_gap() knows whether to ask
  if (p.psn == r.expected || r.nak_sent == 0 || p.psn <= r.nak_psn) {
    ++record.flows[p.flow].rnr_naks;
    send_reply(answer(p.flow, Kind::rnr, p), p.flow);
  }
  r.nak_sent = 2;  // what follows needs no NAK of its own, until the sender has started again
  r.nak_psn = p.psn;
  drop(packet, Drop::not_ready, p.in_link);
  return true;
}

}  // namespace railweave::pkt
