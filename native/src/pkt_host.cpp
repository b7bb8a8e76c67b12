// The sending adapter: which queue pair sends next, how fast, and what it puts on the wire.
#include <algorithm>

#include "pkt_sim.hpp"

namespace railweave::pkt {

std::uint32_t Sim::packet_bytes(const Sender& s, std::uint32_t psn) const {
  const bool last = s.packets_a_message == 1 || (psn + 1) % s.packets_a_message == 0;
  return last ? s.last_bytes : s.full_bytes;
}

bool Sim::may_send(const Sender& s) const {
  if (s.flags & (kFailed | kHeld)) return false;
  const bool again = (s.flags & kResend) != 0;
  if (!again && (s.next >= s.posted || s.next >= s.granted || too_far(s))) return false;
  // With a full window it still sends if nothing that is out calls for an answer.
  return !window_full(s) || s.asked <= s.acked;
}

// Selective repeat: what the receiver would not keep because it is too far ahead of its turn.
bool Sim::too_far(const Sender& s) const {
  const NicConfig& n = nic(s);
  return n.selective_repeat && s.next - s.acked >= n.reorder_window_packets;
}

bool Sim::window_full(const Sender& s) const {
  const double window =
      std::min(cc[&s - senders.data()].window_bytes, nic(s).max_in_flight_bytes);
  return s.in_flight_bytes != 0 && s.in_flight_bytes + s.full_bytes > window;
}

void Sim::ring_push(std::uint32_t port, int priority, std::uint32_t flow) {
  Sender& s = senders[flow];
  s.flags |= kInRing;
  s.ring_next = kNone;
  const std::size_t i = at(port, priority);
  if (ring_head_[i] == kNone) ring_head_[i] = flow;
  else senders[ring_tail_[i]].ring_next = flow;
  ring_tail_[i] = flow;
  ports[port].nonempty |= static_cast<std::uint8_t>(1U << priority);
}

// The flow may have become able to send: lines it up at its port, now or when its pacing allows.
void Sim::wake(std::uint32_t flow) {
  Sender& s = senders[flow];
  if ((s.flags & (kInRing | kInPipe)) || !may_send(s)) return;
  if (s.next_ps > now_) {
    if (timed_at_[flow] <= s.next_ps) return;
    timed_at_[flow] = s.next_ps;
    wheel_.push(s.next_ps, tag(Ev::ready), flow);
    return;
  }
  ring_push(s.port, nic(s).data_priority, flow);
  kick(s.port);
}

// The first flow of the ring sends one packet; false if it turns out that it may not.
bool Sim::send_from(std::uint32_t port, int priority) {
  const std::size_t i = at(port, priority);
  const std::uint32_t flow = ring_head_[i];
  Sender& s = senders[flow];
  Port& p = ports[port];
  if (s.port == port && may_send(s) && (p.flags & kCareful) &&
      !has_credit(port, priority, packet_bytes(s, next_psn(s))))
    return false;  // stays first in line
  ring_head_[i] = s.ring_next;
  s.flags &= static_cast<std::uint8_t>(~kInRing);
  if (ring_head_[i] == kNone && queues[i].packets == 0)
    p.nonempty &= static_cast<std::uint8_t>(~(1U << priority));
  if (s.port != port) {  // moved to another port meanwhile
    wake(flow);
    return false;
  }
  if (!may_send(s)) return false;
  if (s.tx_pipe != kNone && pipes[s.tx_pipe].busy_ps > now_) {
    line_up(flow);
    return false;
  }
  send_packet(flow, port);
  if ((s.flags & kInRing) || !may_send(s)) return true;
  if (s.tx_pipe != kNone && pipes[s.tx_pipe].busy_ps > p.busy_ps && s.next_ps <= p.busy_ps) {
    line_up(flow);
    return true;
  }
  if (s.next_ps > now_ && s.next_ps > p.busy_ps) wake(flow);
  else ring_push(port, priority, flow);
  return true;
}

void Sim::send_packet(std::uint32_t flow, std::uint32_t port) {
  Sender& s = senders[flow];
  const NicConfig& n = nic(s);
  const std::uint32_t id = pool_.take();
  Packet& k = pool_[id];
  const bool again = (s.flags & kResend) != 0;
  k.sent_ps = now_;
  k.flow = flow;
  k.psn = again ? take_hole(flow) : s.next++;
  k.size = packet_bytes(s, k.psn);
  k.kind = Kind::data;
  k.priority = k.local = n.data_priority;
  k.flags = n.ecn_capable ? kEcnCapable : 0;
  k.hops = 0;
  k.telemetry = kNone;
  k.pos = s.path + 1;
  if (needs_telemetry(n.cc.kind)) k.telemetry = take_telemetry();
  if (s.choice != Choice::path) choose_entropy(flow, k);
  s.in_flight_bytes += k.size;
  const std::uint32_t after = k.psn + 1;
  if (k.psn == s.reached) {
    s.reached = after;
  } else {
    k.flags |= kAgain;
    ++record.flows[flow].retransmitted;
    record.note(now_, Trace::retransmit, k.priority, port, flow, k.psn);
  }
  const bool message_ends =
      after == s.message_end || (after < s.reached && after % s.packets_a_message == 0);
  if (again || message_ends || after % n.ack_every == 0 || after == s.granted ||
      window_full(s) || too_far(s)) {
    k.flags |= kAskAck;
    s.asked = std::max(s.asked, after);
  }
  ++record.flows[flow].sent;
  record.flows[flow].sent_bytes += k.size;
  ++data.sent_packets;
  data.sent_bytes += k.size;
  if (counts_sent(n.cc.kind)) {
    cc_on_sent(n.cc, cc_path_[flow], cc[flow], now_, k.size);
    if (cc[flow].timer_ps < cc_timer_at_[flow]) after_cc(flow);
  }
  if (s.pace_ps != 0) {
    const Ps pace = k.size == s.full_bytes
                        ? s.pace_ps
                        : static_cast<Ps>(k.size * 1e12 / cc[flow].rate_Bps);
    const Ps lag = now_ > pace ? now_ - pace : 0;
    s.next_ps = std::max(s.next_ps, lag) + pace;
  }
  if (s.tx_pipe != kNone) {  // the adapter has read one packet ahead
    Pipe& pipe = pipes[s.tx_pipe];
    const Ps one = std::uint64_t{k.size} * pipe.num / pipe.den;
    pipe.busy_ps = std::max(pipe.busy_ps, now_ > one ? now_ - one : 0) + one;
    pipe.bytes += k.size;
  }
  arm_retry(flow);
  const bool last = after == s.message_end && after == s.reached && !again;
  transmit(port, id);
  if (!last) return;
  s.message_end += s.packets_a_message;
  if (waits_for_sent_[s.stream]) wheel_.push(ports[port].busy_ps, tag(Ev::sent), flow);
  else on_sent(flow);
}

// The last byte of a message has left.
void Sim::on_sent(std::uint32_t flow) {
  ++messages_sent_[flow];
  chunk_sent(senders[flow].stream);
}

std::uint32_t Sim::take_telemetry() {
  if (telemetry_free_.empty()) {
    const auto base = static_cast<std::uint32_t>(telemetry_.size() / kMostHops);
    telemetry_.resize(telemetry_.size() + 256 * kMostHops);
    for (std::uint32_t i = 256; i-- > 0;) telemetry_free_.push_back(base + i);
  }
  const std::uint32_t t = telemetry_free_.back();
  telemetry_free_.pop_back();
  return t;
}

// First message of a queue pair: its congestion control begins.
void Sim::begin(std::uint32_t flow) {
  Sender& s = senders[flow];
  s.flags |= kBegun;
  cc_start(nic(s).cc, cc_path_[flow], cc[flow], now_);
  after_cc(flow);
}

void Sim::set_pace(std::uint32_t flow) {
  Sender& s = senders[flow];
  const double rate = cc[flow].rate_Bps;
  const Ps old = s.pace_ps;
  s.pace_ps = rate >= cc_path_[flow].line_rate_Bps * (1 - 1e-9)
                  ? 0
                  : static_cast<Ps>(std::min(s.full_bytes * 1e12 / rate, 9e18));
  if (timed_at_[flow] != kNever && s.pace_ps < old) {  // it waits by an old, slower pace
    const Ps early = old - s.pace_ps;
    s.next_ps = s.next_ps > now_ + early ? s.next_ps - early : now_;
    timed_at_[flow] = kNever;  // the event that is out means nothing now; wake() makes a new one
  }
}

// The congestion control has spoken: takes over its rate, window and timer.
void Sim::after_cc(std::uint32_t flow) {
  set_pace(flow);
  const Ps timer = cc[flow].timer_ps;
  if (timer < cc_timer_at_[flow]) {
    cc_timer_at_[flow] = timer;
    wheel_.push(std::max(timer, now_), tag(Ev::cc_timer), flow);
  }
}

// The application hands over one more message of the flow's stream.
void Sim::post(std::uint32_t flow) {
  Sender& s = senders[flow];
  s.posted += s.packets_a_message;
  if (!(s.flags & kBegun)) begin(flow);
  if (nic(s).receiver_grant_bytes != 0) request_grant(flow);
  else s.granted = s.posted;
  wake(flow);
}

}  // namespace railweave::pkt
