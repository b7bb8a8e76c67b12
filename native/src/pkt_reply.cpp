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
    case Kind::rnr: on_rnr(flow, p); break;
    case Kind::request: on_request(flow, p); break;
    case Kind::grant: {
      Sender& s = senders[flow];
      retries_used_[flow] = 0;  // the receiver is there, though it may have many to serve
      s.granted = std::max(s.granted, p.psn);
      set_deadline(flow);
      wake(flow);
      break;
    }
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
    case Kind::data: break;
  }
  consume(packet);
}

// Takes over that all before `psn` has arrived; returns the wire bytes of which that is news.
std::uint64_t Sim::settle(std::uint32_t flow, std::uint32_t psn) {
  Sender& s = senders[flow];
  if (psn <= s.acked) return 0;
  const std::uint32_t before = s.acked;
  retries_used_[flow] = rnr_used_[flow] = 0;
  in_vain_[flow] = 0;
  const std::uint64_t news =
      s.holes == kNone ? bytes_between(s, before, psn) : forget_arrived(flow, before, psn);
  s.acked = psn;
  if (s.next < psn) s.next = psn;  // it had gone back in vain
  return news;
}

void Sim::on_ack(std::uint32_t flow, Packet& p) {
  if (senders[flow].flags & kFailed) return;
  take_ack(flow, p);
  after_cc(flow);
  wake(flow);
}

void Sim::take_ack(std::uint32_t flow, Packet& p) {
  Sender& s = senders[flow];
  const NicConfig& n = nic(s);
  std::uint64_t news = settle(flow, p.psn);
  const bool repeats = n.selective_repeat != 0;
  if (repeats && p.kind == Kind::ack) news += note_arrived(flow, p.echo);
  s.in_flight_bytes = flight_of(s);
  if (news != 0) set_deadline(flow);
  if (s.choice == Choice::recycle) recycle(flow, p);
  if (news != 0 || p.count != 0) {
    CcAck a;
    a.now_ps = now_;
    a.rtt_ps = now_ - p.sent_ps;
    a.acked_psn = s.acked;
    a.next_psn = s.reached;
    a.acked_packets = p.count;
    a.acked_bytes = static_cast<std::uint32_t>(news);
    a.marked_packets = p.marked;
    a.in_flight_bytes = s.in_flight_bytes;
    if (p.telemetry != kNone) {
      a.hops = &telemetry_[static_cast<std::size_t>(p.telemetry) * kMostHops];
      a.n_hops = p.hops;
    }
    cc_on_ack(n.cc, cc_path_[flow], cc[flow], a);
  }
  if (repeats && s.holes != kNone) {
    find_lost(flow, p.sent_ps);
    s.in_flight_bytes = flight_of(s);
  }
}

// Wire bytes that are out and have neither arrived nor been given up, as far as the sender knows.
double Sim::flight_of(const Sender& s) const {
  std::uint64_t bytes = bytes_between(s, s.acked, s.next);
  if (s.holes != kNone) bytes -= holes_[s.holes].arrived_bytes + holes_[s.holes].lost_bytes;
  return static_cast<double>(bytes);
}

void Sim::on_nak(std::uint32_t flow, Packet& p) {
  Sender& s = senders[flow];
  ++record.flows[flow].naks_received;
  if (s.flags & kFailed) return;
  if (nic(s).selective_repeat) {  // a trimmed packet, unless it has been sent again since
    if (p.echo >= s.acked && p.echo < s.next) {
      Holes& h = holes_of(flow);
      const auto later = [&](const Holes::Resent& r) { return r.psn == p.echo && r.sent_ps > p.sent_ps; };
      if (!h.arrived.test(p.echo) && !h.lost.test(p.echo) &&
          std::none_of(h.resent.begin(), h.resent.end(), later)) {
        if (!h.again.test(p.echo)) ++h.n_again;
        h.again.set(p.echo);  // from now on it is judged as one sent again
        lose(flow, p.echo);
      }
    }
    return on_ack(flow, p);
  }
  const bool stale = p.psn < s.acked;  // a later answer has overtaken it
  take_ack(flow, p);
  // A receiver that gets nothing of it would ask for ever: then it is up to the retry timer.
  constexpr std::uint8_t kMostInVain = 8;
  if (!stale && s.next != s.acked && in_vain_[flow] < kMostInVain) {
    ++in_vain_[flow];
    return go_back(flow, s.acked, false);
  }
  after_cc(flow);
  wake(flow);
}

void Sim::go_back(std::uint32_t flow, std::uint32_t psn, bool timeout) {
  Sender& s = senders[flow];
  if (nic(s).selective_repeat) {
    lose_all(flow);
  } else {
    s.acked = std::max(s.acked, psn);
    s.next = s.acked;
  }
  s.asked = s.acked;
  s.in_flight_bytes = 0;
  retry_deadline_[flow] = kNever;  // nothing is out; the next packet sets it anew
  cc_on_loss(nic(s).cc, cc_path_[flow], cc[flow], now_, timeout);
  after_cc(flow);
  wake(flow);
}

// No receive was posted: waits, and sends again from there.
void Sim::on_rnr(std::uint32_t flow, const Packet& p) {
  Sender& s = senders[flow];
  const NicConfig& n = nic(s);
  if ((s.flags & (kFailed | kHeld)) || p.psn < s.acked) return;
  settle(flow, p.psn);
  if (n.rnr_retries != kRnrForEver && rnr_used_[flow] >= n.rnr_retries) return fail(flow);
  ++rnr_used_[flow];
  if (n.selective_repeat) {
    lose_all(flow);
  } else {
    s.next = s.acked;
  }
  s.asked = s.acked;
  s.in_flight_bytes = 0;
  s.flags |= kHeld;
  retry_deadline_[flow] = kNever;
  wheel_.push(now_ + n.rnr_timer_ps, tag(Ev::rnr), flow);
}

void Sim::on_rnr_timer(std::uint32_t flow) {
  senders[flow].flags &= static_cast<std::uint8_t>(~kHeld);
  wake(flow);
}

// Something has moved: the retry timer begins again, or rests if nothing is out.
void Sim::set_deadline(std::uint32_t flow) {
  const Sender& s = senders[flow];
  const Ps timeout = nic(s).timeout_ps;
  const bool waits = s.acked != s.next || s.granted < s.posted;
  retry_deadline_[flow] = waits && timeout != 0 ? now_ + timeout : kNever;
  if (waits) arm_retry(flow);
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
  in_vain_[flow] = 0;
  retry_deadline_[flow] = kNever;
  if (s.acked != s.next) go_back(flow, s.acked, true);
  if (s.granted < s.posted) send_request(flow, true);
}

void Sim::on_cc_timer(std::uint32_t flow) {
  if (now_ < cc_timer_at_[flow] || (senders[flow].flags & kFailed)) return;
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

}  // namespace railweave::pkt
