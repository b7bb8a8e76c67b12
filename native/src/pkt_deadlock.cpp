// Can the run go on? And if not, which ports wait for each other.
//
// A queue that is paused, or out of credit, waits for the buffer group at the head of its link; that
// group waits for the queues in which its packets stand. A cycle of such queues never moves again.
#include <algorithm>

#include "pkt_sim.hpp"

namespace railweave::pkt {

bool Sim::blocked(std::size_t queue) const {
  const Port& p = ports[queue % n_links_];
  const auto bit = static_cast<unsigned>(1U << (queue / n_links_));
  return (p.nonempty & ((p.paused & ~p.watched) | p.starved) & bit) != 0;
}

bool Sim::find_cycle() {
  std::vector<std::vector<std::uint32_t>> next(queues.size());
  for (std::uint32_t m = 0; m < queues.size(); ++m) {
    const Queue& q = queues[m];
    if (ports[m % n_links_].source_switch == kNone || !blocked(m)) continue;
    fifo_.each(q, [&](std::uint32_t id) {
      const Packet& k = pool_[id];
      const auto from = at(k.in_link, k.local);
      if (blocked(from) && (next[from].empty() || next[from].back() != m)) next[from].push_back(m);
    });
  }
  enum : std::uint8_t { fresh, open, closed };
  std::vector<std::uint8_t> state(queues.size(), fresh);
  std::vector<std::size_t> way, tried;
  for (std::size_t start = 0; start < queues.size(); ++start) {
    if (state[start] != fresh || next[start].empty()) continue;
    way.assign(1, start);
    tried.assign(1, 0);
    state[start] = open;
    while (!way.empty()) {
      const std::size_t q = way.back();
      if (tried.back() == next[q].size()) {
        state[q] = closed;
        way.pop_back();
        tried.pop_back();
        continue;
      }
      const std::size_t to = next[q][tried.back()++];
      if (state[to] == open) {
        cycle_.clear();
        for (auto i = std::find(way.begin(), way.end(), to); i != way.end(); ++i)
          cycle_.push_back(static_cast<std::uint32_t>(*i % n_links_));
        std::rotate(cycle_.begin(), std::min_element(cycle_.begin(), cycle_.end()), cycle_.end());
        return true;
      }
      if (state[to] != fresh) continue;
      state[to] = open;
      way.push_back(to);
      tried.push_back(0);
    }
  }
  return false;
}

// Looks whether anything was sent since the last look, or whether something will yet happen that
// may set packets in motion. True if the run is over.
bool Sim::check_progress() {
  std::uint64_t moved = 0;
  for (const Port& p : ports) moved += p.tx_packets;
  Ps soonest = now_;
  Ps retry = kNever;  // the next; until then nothing moves by itself
  // A receiver that is never ready may be asked for ever: packets move then, but nothing else does.
  const bool refused =
      std::any_of(receivers.begin(), receivers.end(), [](const Receiver& r) { return r.not_ready != 0; });
  if (moved == moved_ || refused) {
    soonest = kNever;
    wheel_.each([&](const Event& e) {
      switch (static_cast<Ev>(e.tag & 0xFF)) {
        case Ev::cc_timer:
        case Ev::sample:
        case Ev::progress: break;
        case Ev::retry: if (retry_deadline_[e.arg] != kNever) retry = std::min(retry, e.time_ps); break;
        case Ev::rnr:
          if (!receivers[e.arg].not_ready || nic(senders[e.arg]).rnr_retries != kRnrForEver)
            soonest = std::min(soonest, e.time_ps);
          break;
        default: soonest = std::min(soonest, e.time_ps);
      }
    });
    if (soonest == kNever) {
      if (find_cycle()) {
        end_ = End::deadlock;
        return true;
      }
      if (retry == kNever) {
        end_ = End::stuck;
        return true;
      }
      soonest = retry;
    }
    if (moved != moved_) soonest = now_;
  }
  moved_ = moved;
  wheel_.push(soonest + options_.stuck_ps, tag(Ev::progress), 0);
  return false;
}

}  // namespace railweave::pkt
