// The pause watchdog of a switch. A priority that is paused without a break for the detection time
// is in a storm: its queue is emptied and stays closed (or sends in spite of the pause) until the
// pause has been away for the restoration time. One event at most waits for each port and priority.
#include <algorithm>

#include "pkt_sim.hpp"

namespace railweave::pkt {

// A pause has begun or ended at the port: makes sure that an event waits for what may come of it.
void Sim::watch_pause(std::uint32_t port, int priority, bool on) {
  const Port& p = ports[port];
  if (p.source_switch == kNone) return;
  const bool storm = ((p.watched >> priority) & 1) != 0;
  const SwitchConfig& c = config(switches[p.source_switch]);
  if (record.ports[port].watch_pending[priority] || on == storm) return;
  const Ps wait = on ? c.watchdog_detect_ps : c.watchdog_restore_ps;
  if (on && wait == 0) return;
  record.ports[port].watch_pending[priority] = 1;
  wheel_.push(now_ + wait, tag(Ev::watchdog, static_cast<std::uint32_t>(priority)), port);
}

void Sim::on_watchdog(std::uint32_t port, int priority) {
  Port& p = ports[port];
  PortCounters& count = record.ports[port];
  const SwitchConfig& c = config(switches[p.source_switch]);
  const auto bit = static_cast<std::uint8_t>(1U << priority);
  const bool paused = (p.paused & bit) != 0, storm = (p.watched & bit) != 0;
  count.watch_pending[priority] = 0;
  if (paused == storm) return;  // the next pause, or its end, sets the clock anew
  if (!storm && c.watchdog_detect_ps == 0) return;  // switched off meanwhile
  const Ps due = storm ? count.resumed_ps[priority] + c.watchdog_restore_ps
                       : count.paused_since[priority] + c.watchdog_detect_ps;
  if (due > now_) {
    count.watch_pending[priority] = 1;
    wheel_.push(due, tag(Ev::watchdog, static_cast<std::uint32_t>(priority)), port);
    return;
  }
  p.watched ^= bit;
  refresh_careful(port);
  ++(storm ? count.restores : count.storms)[priority];
  record.note(now_, Trace::watchdog, priority, port, kNone, storm ? 0 : 1);
  if (!storm && !c.watchdog_forwards) drop_queue(port, priority, Drop::watchdog);
  else kick(port);
}

// Throws away all that waits in a switch's queue.
void Sim::drop_queue(std::uint32_t port, int priority, Drop why) {
  const Port& p = ports[port];
  Queue& q = queues[at(port, priority)];
  while (q.packets != 0) {
    const std::uint32_t packet = take_head(port, priority);
    Packet& k = pool_[packet];
    ++q.dropped;
    if (p.source_switch != kNone) {
      q.cells -= k.cells;
      release(switches[p.source_switch], k);  // gives its credits back too
    }
    k.in_link = kNone;
    drop(packet, why, port);
  }
}

// Whether packets may pass by the port's queues when it is idle.
void Sim::refresh_careful(std::uint32_t port) {
  Port& p = ports[port];
  bool careful = links_.credit_bytes[port] != 0 || p.watched != 0;
  if (p.source_switch != kNone) {
    const SwitchConfig& c = config(switches[p.source_switch]);
    careful = careful || c.ecn_weight != 0 || c.credits || c.hold_ps != 0 || longest_bytes_ > c.mtu_bytes;
    for (int i = 0; i < kPriorities; ++i)
      careful = careful || (((priorities_used_ >> i) & 1) && c.priority_map[i] != i);
  }
  p.flags = static_cast<std::uint8_t>(careful ? p.flags | kCareful : p.flags & ~kCareful);
}

}  // namespace railweave::pkt
