// The receiving adapter: order, memory, congestion notifications, acknowledgements.
#include <algorithm>

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

// Moves the packet towards memory; false if the adapter has no room left for it.
bool Sim::into_memory(std::uint32_t packet, Receiver& r, Ps& done) {
  done = now_;
  if (r.rx_pipe == kNone) return true;
  Pipe& pipe = pipes[r.rx_pipe];
  const std::uint32_t size = pool_[packet].size;
  std::uint64_t waiting = pipe.frozen_bytes;
  if (!pipe.frozen)
    waiting = pipe.busy_ps > now_ ? (pipe.busy_ps - now_) * pipe.den / pipe.num : 0;
  if (waiting + size > pipe.buffer_bytes) {
    ++pipe.dropped;
    return false;
  }
  waiting += size;
  pipe.peak_bytes = std::max(pipe.peak_bytes, static_cast<std::uint32_t>(waiting));
  pipe.bytes += size;
  if (pipe.frozen) {
    pipe.frozen_bytes += size;
    done = kNever;
  } else {
    pipe.busy_ps = std::max(pipe.busy_ps, now_) + std::uint64_t{size} * pipe.num / pipe.den;
    done = pipe.busy_ps;
  }
  if (waiting > pipe.xoff_bytes && !pipe.xoff && pipe.nic_link != kNone) {
    pipe.xoff = 1;
    send_pause(pipe.nic_link, pool_[packet].priority, true);
    pipe.priority = pool_[packet].priority;
    if (!pipe.frozen) on_rx_xon(r.rx_pipe);
  }
  return true;
}

// The adapter's buffer may have drained below the level at which it lets the switch go on.
void Sim::on_rx_xon(std::uint32_t number) {
  Pipe& pipe = pipes[number];
  pipe.xon_pending = 0;
  if (!pipe.xoff || pipe.frozen) return;
  const Ps tail = std::uint64_t{pipe.xon_bytes} * pipe.num / pipe.den;
  if (pipe.busy_ps > now_ + tail) {
    pipe.xon_pending = 1;
    wheel_.push(pipe.busy_ps - tail, tag(Ev::rx_xon), number);
    return;
  }
  pipe.xoff = 0;
  send_pause(pipe.nic_link, pipe.priority, false);
}

void Sim::on_data(std::uint32_t packet) {
  Packet& p = pool_[packet];
  const std::uint32_t flow = p.flow;
  Receiver& r = receivers[flow];
  const NicConfig& n = nic(senders[flow]);
  FlowCounters& count = record.flows[flow];
  if (p.flags & kMarked) {
    ++r.marked;
    ++count.marked;
    if (n.sends_cnp && uses_cnp(n.cc.kind) && now_ >= r.next_cnp_ps) {
      r.next_cnp_ps = now_ + n.cnp_interval_ps;
      ++count.cnp_sent;
      record.note(now_, Trace::cnp_sent, n.cnp_priority, kNone, flow);
      send_reply(reply_to(flow, Kind::cnp, n.cnp_bytes, n.cnp_priority), flow);
    }
  }
  if (p.flags & kTrimmed) return on_trimmed(packet);
  Ps done;
  if (!into_memory(packet, r, done)) return drop(packet, Drop::rx_overflow, p.in_link);
  if (p.psn != r.expected) return on_gap(packet);
  ++r.expected;
  ++r.unanswered;
  const bool ask = (p.flags & kAskAck) != 0;
  progress(flow, r, done);
  if (ask) acknowledge(flow, p);
  consume(packet);
}

// Takes over what has arrived in order: whole messages go to memory and complete there.
void Sim::progress(std::uint32_t flow, Receiver& r, Ps done) {
  r.nak_sent = 0;
  while (r.expected >= r.message_end) {
    r.message_end += senders[flow].packets_a_message;
    if (done == kNever) {
      held_[r.rx_pipe].push_back(flow);
      continue;
    }
    wheel_.push(done + r.latency_ps, tag(Ev::complete), flow);
  }
}

void Sim::on_complete(std::uint32_t flow) {
  Receiver& r = receivers[flow];
  ++r.delivered;
  if (r.delivered == tasks_.rounds[stream_task_[senders[flow].stream]]) flow_finish[flow] = now_;
  chunk_delivered(senders[flow].stream);
}

// Answers all that has arrived since the last answer.
void Sim::acknowledge(std::uint32_t flow, Packet& p) {
  Receiver& r = receivers[flow];
  const NicConfig& n = nic(senders[flow]);
  const std::uint32_t id = reply_to(flow, Kind::ack, n.ack_bytes, n.ack_priority);
  Packet& k = pool_[id];
  k.sent_ps = p.sent_ps;
  k.echo = p.psn;
  k.entropy = p.entropy;
  k.marked = static_cast<std::uint16_t>(std::min<std::uint32_t>(r.marked, 0xFFFF));
  k.count = static_cast<std::uint16_t>(std::min<std::uint32_t>(r.unanswered, 0xFFFF));
  if (p.flags & kMarked) k.flags |= kMarked;
  std::swap(k.telemetry, p.telemetry);  // echoed to the sender
  k.hops = k.telemetry != kNone ? p.hops : 0;
  r.marked = r.unanswered = 0;
  ++record.flows[flow].acks_sent;
  send_reply(id, flow);
}

// A packet out of its turn: go-back-N throws it away and asks for the one it waits for.
void Sim::on_gap(std::uint32_t packet) {
  Packet& p = pool_[packet];
  const std::uint32_t flow = p.flow;
  Receiver& r = receivers[flow];
  const NicConfig& n = nic(senders[flow]);
  if (p.psn < r.expected) {
    ++record.flows[flow].duplicates;
    if (p.flags & kAskAck) acknowledge(flow, p);
    return drop(packet, Drop::duplicate, p.in_link);
  }
  ++record.flows[flow].out_of_order;
  if (!r.nak_sent) {
    r.nak_sent = 1;
    ++record.flows[flow].naks_sent;
    record.note(now_, Trace::nak, n.ack_priority, kNone, flow, r.expected);
    send_reply(reply_to(flow, Kind::nak, n.ack_bytes, n.ack_priority), flow);
  }
  drop(packet, Drop::out_of_order, p.in_link);
}

void Sim::on_trimmed(std::uint32_t packet) {
  Packet& p = pool_[packet];
  ++record.flows[p.flow].trimmed;
  on_gap(packet);
}

void Sim::request_grant(std::uint32_t flow) { senders[flow].granted = senders[flow].posted; }
void Sim::on_request(std::uint32_t packet) { consume(packet); }
void Sim::on_grant_due(std::uint32_t) {}

}  // namespace railweave::pkt
