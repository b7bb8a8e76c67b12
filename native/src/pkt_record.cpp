// Samples: what the watched ports and queue pairs hold at the end of each period.
#include <stdexcept>

#include "pkt_sim.hpp"

namespace railweave::pkt {

void Sim::watch(const WatchList& list) {
  for (const std::uint32_t l : list.link)
    if (l >= n_links_) throw std::invalid_argument("link to watch " + std::to_string(l) + " does not exist");
  for (const std::uint32_t f : list.flow)
    if (f >= senders.size()) throw std::invalid_argument("flow to watch " + std::to_string(f) + " does not exist");
  if (begun_) throw std::invalid_argument("watch() must be called before the run begins");
  record.watched = list;
}

// Looks and changes nothing. A run in which nothing else is left to happen gets no more samples.
void Sim::sample() {
  --idle_events_;
  sample_ports();
  sample_flows();
  if (only_watched()) return;
  wheel_.push(now_ + record.watched.period_ps, tag(Ev::sample), 0);
  ++idle_events_;
}

void Sim::sample_ports() {
  for (const std::uint32_t l : record.watched.link) {
    const Port& p = ports[l];
    PortSample s{};
    s.time_ps = now_;
    s.link = l;
    const std::uint32_t cell = p.head_switch == kNone ? 0 : config(switches[p.head_switch]).cell_bytes;
    for (int q = 0; q < kPriorities; ++q) {
      const Queue& queue = queues[at(l, q)];
      const Group& group = groups[at(l, q)];
      s.queue_bytes += queue.bytes;
      s.marked += queue.marked;
      s.group_bytes += group.cells * cell;
      s.headroom_bytes += group.headroom_cells * cell;
    }
    const std::uint32_t sw = p.source_switch != kNone ? p.source_switch : p.head_switch;
    if (sw != kNone) s.shared_bytes = switches[sw].shared_used * config(switches[sw]).cell_bytes;
    for (const std::uint32_t n : record.ports[l].dropped) s.dropped += n;
    s.tx_bytes = p.tx_bytes;
    s.paused = p.paused;
    record.port_samples.push_back(s);
  }
}

void Sim::sample_flows() {
  for (const std::uint32_t f : record.watched.flow) {
    const Sender& s = senders[f];
    record.flow_samples.push_back({now_, f, cc[f].rate_Bps, cc[f].window_bytes, s.in_flight_bytes,
                                   s.acked, s.next});
  }
}

}  // namespace railweave::pkt
