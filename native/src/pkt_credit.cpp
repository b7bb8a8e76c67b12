// InfiniBand's credits. The receiver of a link tells its sender how much of each virtual lane's
// buffer is free; the sender sends a packet only with credit for all of it.
//
// What is freed travels back at once (after the packet on the way back, a small frame's wire time
// and the propagation), but costs no event: it is written down with its time of arrival, and the
// sender looks when it runs short. Only a sender that is out of credit gets an event, one at most
// for each link and lane. The wire time that the updates take from the data is left out.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "pkt_sim.hpp"

namespace railweave::pkt {

void Sim::set_credits() {
  std::uint32_t longest = 0;  // of those that credits hold back: not so inside a scale-up domain
  for (std::size_t f = 0; f < senders.size(); ++f) {
    const std::uint32_t first = flows_.path_link[flows_.path_ptr[f]];
    const std::uint32_t last = flows_.path_link[flows_.path_ptr[f + 1] - 1];
    if (links_.credit_bytes[first] != 0 || links_.credit_bytes[last] != 0)
      longest = std::max({longest, senders[f].full_bytes, senders[f].last_bytes});
  }
  for (std::uint32_t l = 0; l < n_links_; ++l) {
    const Port& p = ports[l];
    const bool given = links_.credit_bytes[l] != 0;
    const bool wanted = p.head_switch != kNone && config(switches[p.head_switch]).credits;
    if (given && links_.credit_bytes[l] < longest)
      throw std::invalid_argument("link " + std::to_string(l) + ": a packet of " +
                                  std::to_string(longest) + " bytes never fits into " +
                                  std::to_string(links_.credit_bytes[l]) +
                                  " bytes of credit; give its receiver more room (receive_buffer of an "
                                  "adapter, buffer of a switch) or lower the MTU");
    if (p.head_switch != kNone && given != wanted)
      throw std::invalid_argument("link " + std::to_string(l) + ": credit_bytes is " +
                                  std::to_string(links_.credit_bytes[l]) + ", but its switch has credits " +
                                  (wanted ? "on" : "off") + "; set both or neither");
    has_credits_ = has_credits_ || given;
  }
  if (!has_credits_) return;
  credit_.resize(queues.size());
  credit_lanes_.resize(queues.size());
  held_credits_.resize(pipes.size());
  for (std::uint32_t l = 0; l < n_links_; ++l) {
    for (int i = 0; i < kPriorities; ++i) credit_[at(l, i)] = links_.credit_bytes[l];
    refresh_careful(l);
  }
}

// Takes over what has come back by now.
void Sim::collect_credit(std::uint32_t port, int lane) {
  CreditLane& c = credit_lanes_[at(port, lane)];
  Group& g = groups[at(port, lane)];
  while (c.first < c.way.size() && c.way[c.first].at_ps <= now_) {
    credit_[at(port, lane)] += c.way[c.first].bytes;
    g.owed_bytes -= c.way[c.first].bytes;
    ++c.first;
  }
  if (2 * c.first >= c.way.size()) {
    c.way.erase(c.way.begin(), c.way.begin() + static_cast<std::ptrdiff_t>(c.first));
    c.first = 0;
  }
}

// May a packet of this size go? If not, the lane sleeps until enough has come back.
bool Sim::has_credit(std::uint32_t port, int priority, std::uint32_t bytes) {
  if (links_.credit_bytes[port] == 0) return true;
  std::uint64_t& credit = credit_[at(port, priority)];
  if (credit >= bytes) return true;
  collect_credit(port, priority);
  if (credit >= bytes) return true;
  ports[port].starved |= static_cast<std::uint8_t>(1U << priority);
  record.ports[port].starved_since[priority] = now_;
  const CreditLane& c = credit_lanes_[at(port, priority)];
  std::uint64_t sum = credit;
  for (std::size_t i = c.first; i < c.way.size(); ++i) {
    sum += c.way[i].bytes;
    if (sum < bytes) continue;
    groups[at(port, priority)].credit_pending = 1;
    wheel_.push(c.way[i].at_ps, tag(Ev::credit, static_cast<std::uint32_t>(priority)), port);
    break;
  }
  return false;
}

void Sim::take_credit(std::uint32_t port, int lane, std::uint32_t bytes) {
  if (links_.credit_bytes[port] != 0) credit_[at(port, lane)] -= bytes;
}

// The destination of `link` has freed so much of the lane's buffer.
void Sim::give_credit(std::uint32_t link, int priority, std::uint32_t bytes) {
  const Port& r = ports[link ^ 1U];
  const Ps frame = std::uint64_t{kFrameBytes} * r.num / r.den;
  Ps at_ps = std::max(now_, r.busy_ps) + frame + links_.propagation_ps[link ^ 1U];
  CreditLane& c = credit_lanes_[at(link, priority)];
  if (c.first < c.way.size()) at_ps = std::max(at_ps, c.way.back().at_ps);
  c.way.push_back({at_ps, bytes});
  Group& g = groups[at(link, priority)];
  g.owed_bytes += bytes;
  if (((ports[link].starved >> priority) & 1) && !g.credit_pending) {
    g.credit_pending = 1;
    wheel_.push(at_ps, tag(Ev::credit, static_cast<std::uint32_t>(priority)), link);
  }
}

// Credit has come for a lane that waits; or (detail 8) a receiving pipe has moved a packet on.
void Sim::on_credit(std::uint32_t port, int priority) {
  if (priority & 8) return on_held_credit(port);
  groups[at(port, priority)].credit_pending = 0;
  const auto bit = static_cast<std::uint8_t>(1U << priority);
  if (!(ports[port].starved & bit)) return;
  record.ports[port].wait_ps[priority] = wait_ps(port, priority);
  ports[port].starved &= static_cast<std::uint8_t>(~bit);
  kick(port);
}

Ps Sim::wait_ps(std::uint32_t port, int lane) const {
  const PortCounters& count = record.ports[port];
  const bool now = ((ports[port].starved >> lane) & 1) != 0;
  return count.wait_ps[lane] + (now ? now_ - count.starved_since[lane] : 0);
}

// A packet is gone: lost on the link, refused, or consumed. Its buffer at the end of the link is
// free, at a host as soon as its pipe into memory has taken it.
void Sim::credit_of_freed(const Packet& k) {
  if (k.in_link == kNone || links_.credit_bytes[k.in_link] == 0) return;
  const bool host = (ports[k.in_link].flags & (kToHost | kDown)) == kToHost;
  const std::uint32_t pipe = host && k.kind == Kind::data ? receivers[k.flow].rx_pipe : kNone;
  if (pipe == kNone || (!pipes[pipe].frozen && pipes[pipe].busy_ps <= now_))
    return give_credit(k.in_link, k.priority, k.size);
  HeldCredits& h = held_credits_[pipe];
  const Ps done = pipes[pipe].frozen ? kNever : pipes[pipe].busy_ps;
  h.queue.push_back({done, k.in_link, k.size, k.priority});
  if (h.pending || pipes[pipe].frozen) return;
  h.pending = 1;
  wheel_.push(h.queue[h.first].done_ps, tag(Ev::credit, 8), pipe);
}

void Sim::on_held_credit(std::uint32_t pipe) {
  HeldCredits& h = held_credits_[pipe];
  h.pending = 0;
  if (pipes[pipe].frozen) return;
  for (; h.first < h.queue.size() && h.queue[h.first].done_ps <= now_; ++h.first)
    give_credit(h.queue[h.first].link, h.queue[h.first].lane, h.queue[h.first].bytes);
  if (2 * h.first >= h.queue.size()) {
    h.queue.erase(h.queue.begin(), h.queue.begin() + static_cast<std::ptrdiff_t>(h.first));
    h.first = 0;
  }
  if (h.queue.empty()) return;
  h.pending = 1;
  wheel_.push(h.queue[h.first].done_ps, tag(Ev::credit, 8), pipe);
}

void Sim::thaw_credits(std::uint32_t pipe) {
  if (!has_credits_) return;
  HeldCredits& h = held_credits_[pipe];
  Ps t = now_;
  for (std::size_t i = h.first; i < h.queue.size(); ++i) {
    t += std::uint64_t{h.queue[i].bytes} * pipes[pipe].num / pipes[pipe].den;
    h.queue[i].done_ps = t;
  }
  if (h.pending || h.first == h.queue.size()) return;
  h.pending = 1;
  wheel_.push(h.queue[h.first].done_ps, tag(Ev::credit, 8), pipe);
}

}  // namespace railweave::pkt
