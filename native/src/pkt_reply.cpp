// What replies and timers do to a sender.
#include <algorithm>

#include "pkt_sim.hpp"

namespace railweave::pkt {

void Sim::on_reply(std::uint32_t packet) {
  Packet& p = pool_[packet];
  const std::uint32_t flow = p.flow;
  switch (p.kind) {
    case Kind::ack: on_ack(flow, p); break;
    case Kind::nak: on_nak(flow, p); break;
    case Kind::cnp:
      if (nic(senders[flow]).ignores_cnp) {
        ++record.flows[flow].cnp_ignored;
      } else {
        ++record.flows[flow].cnp_handled;
        record.note(now_, Trace::cnp_handled, p.priority, kNone, flow);
        cc_on_cnp(nic(senders[flow]).cc, cc_path_[flow], cc[flow], now_);
        after_cc(flow);
        wake(flow);
      }
      break;
    default: break;
  }
  consume(packet);
}

void Sim::on_ack(std::uint32_t flow, Packet& p) {
  Sender& s = senders[flow];
  const std::uint32_t fresh = p.psn > s.acked ? p.psn - s.acked : 0;
  if (fresh != 0) {
    s.acked = p.psn;
    retries_used_[flow] = 0;
    if (s.next < s.acked) s.next = s.acked;
    s.in_flight_bytes = flight_of(s);
    retry_deadline_[flow] = s.acked == s.reached ? kNever : now_ + nic(s).timeout_ps;
  }
  CcAck a;
  a.now_ps = now_;
  a.rtt_ps = now_ - p.sent_ps;
  a.acked_psn = p.psn;
  a.next_psn = s.reached;
  a.acked_packets = p.count;
  a.acked_bytes = p.count * s.full_bytes;
  a.marked_packets = std::min(p.marked, p.count);
  a.in_flight_bytes = s.in_flight_bytes;
  if (p.telemetry != kNone) {
    a.hops = &telemetry_[static_cast<std::size_t>(p.telemetry) * kMostHops];
    a.n_hops = p.hops;
  }
  cc_on_ack(nic(s).cc, cc_path_[flow], cc[flow], a);
  after_cc(flow);
  wake(flow);
}

// Wire bytes that are out: those between the last acknowledged and the next to be sent.
double Sim::flight_of(const Sender& s) const {
  return static_cast<double>(s.next - s.acked) * s.full_bytes;
}

void Sim::on_nak(std::uint32_t flow, Packet& p) {
  ++record.flows[flow].naks_received;
  go_back(flow, p.psn, false);
}

void Sim::go_back(std::uint32_t flow, std::uint32_t psn, bool timeout) {
  Sender& s = senders[flow];
  s.acked = std::max(s.acked, psn);
  s.next = s.acked;
  s.in_flight_bytes = 0;
  cc_on_loss(nic(s).cc, cc_path_[flow], cc[flow], now_, timeout);
  after_cc(flow);
  wake(flow);
}

void Sim::arm_retry(std::uint32_t flow) {
  const Ps timeout = nic(senders[flow]).timeout_ps;
  if (timeout == 0) return;
  if (retry_deadline_[flow] == kNever) retry_deadline_[flow] = now_ + timeout;
  if (!retry_armed_[flow]) {
    retry_armed_[flow] = 1;
    wheel_.push(retry_deadline_[flow], tag(Ev::retry), flow);
  }
}

void Sim::on_retry(std::uint32_t flow) {
  retry_armed_[flow] = 0;
  Sender& s = senders[flow];
  const Ps due = retry_deadline_[flow];
  if (due == kNever || (s.flags & kFailed)) return;
  if (due > now_) {
    retry_armed_[flow] = 1;
    wheel_.push(due, tag(Ev::retry), flow);
    return;
  }
  ++record.flows[flow].timeouts;
  record.note(now_, Trace::timeout, 0, kNone, flow, s.acked);
  if (retries_used_[flow] >= nic(s).retries) return fail(flow);
  ++retries_used_[flow];
  retry_deadline_[flow] = now_ + nic(s).timeout_ps;
  go_back(flow, s.acked, true);
  arm_retry(flow);
}

void Sim::on_cc_timer(std::uint32_t flow) {
  if (now_ < cc_timer_at_[flow]) return;
  cc_timer_at_[flow] = kNever;
  CcState& state = cc[flow];
  if (state.timer_ps > now_) {
    after_cc(flow);
    return;
  }
  state.timer_ps = kNever;
  cc_on_timer(nic(senders[flow]).cc, cc_path_[flow], state, now_);
  after_cc(flow);
  wake(flow);
}

void Sim::fail(std::uint32_t flow) {
  senders[flow].flags |= kFailed;
  retry_deadline_[flow] = kNever;
  record.note(now_, Trace::failed, 0, kNone, flow, senders[flow].acked);
}

void Sim::on_rnr_timer(std::uint32_t flow) {
  senders[flow].flags &= static_cast<std::uint8_t>(~kHeld);
  wake(flow);
}

}  // namespace railweave::pkt
