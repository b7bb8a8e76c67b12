// Pauses by priority: the frames, what they hold back, how long.
#include <algorithm>

#include "pkt_sim.hpp"

namespace railweave::pkt {

// The destination of `link` tells its source to stop or to go on. The frame waits for the packet
// that the way back is just sending, takes its wire time, and is obeyed after the peer's response.
void Sim::send_pause(std::uint32_t link, int priority, bool on) {
  PortCounters& count = record.ports[link];
  ++(on ? count.pauses_sent : count.resumes_sent)[priority];
  const std::uint32_t back = link ^ 1U;
  Port& r = ports[back];
  if (r.flags & kDown) return;
  Ps shift = 0;
  if (r.source_switch != kNone) shift = config(switches[r.source_switch]).shift_ps;
  const Ps decided = now_ > shift ? now_ - shift : 0;
  const Ps frame = std::uint64_t{kFrameBytes} * r.num / r.den;
  // No packet that was on its way when the decision fell ends later than the longest one would; a
  // packet that began after the decision let the frame go first.
  const Ps longest = std::uint64_t{kMostFrameBytes} * r.num / r.den;
  const Ps begins = std::max(decided, std::min(r.busy_ps, decided + longest));
  if (r.busy_ps > now_) r.busy_ps += frame;
  Ps obeyed = begins + frame + links_.propagation_ps[back] + links_.response_ps[link];
  // Frames of a priority never overtake each other: a pause after its own end would last for ever.
  obeyed = std::max({obeyed, now_, count.pause_due_ps[priority] + 1});
  count.pause_due_ps[priority] = obeyed;
  const std::uint32_t detail = static_cast<std::uint32_t>(priority) | (on ? 8U : 0U) | flaps_[link] << 4;
  wheel_.push(obeyed, tag(Ev::pause, detail), link);
}

void Sim::on_pause(std::uint32_t port, int priority, bool on) {
  Port& p = ports[port];
  const auto bit = static_cast<std::uint8_t>(1U << priority);
  if (on == ((p.paused & bit) != 0) || (on && (p.flags & kDown))) return;
  if (!on) return resume(port, priority);
  PortCounters& count = record.ports[port];
  p.paused |= bit;
  ++count.pauses_felt[priority];
  count.paused_since[priority] = now_;
  record.note(now_, Trace::pause_on, priority, port, kNone);
  watch_pause(port, priority, true);
}

// The pause in force at the port ends.
void Sim::resume(std::uint32_t port, int priority) {
  Port& p = ports[port];
  PortCounters& count = record.ports[port];
  p.paused &= static_cast<std::uint8_t>(~(1U << priority));
  count.paused_ps[priority] += now_ - count.paused_since[priority];
  count.resumed_ps[priority] = now_;
  record.pauses.push_back({count.paused_since[priority], now_, port, static_cast<std::uint8_t>(priority)});
  record.note(now_, Trace::pause_off, priority, port, kNone);
  watch_pause(port, priority, false);
  if (p.nonempty) kick(port);
}

Ps Sim::paused_ps(std::uint32_t port, int priority) const {
  const PortCounters& count = record.ports[port];
  const bool now = ((ports[port].paused >> priority) & 1) != 0;
  return count.paused_ps[priority] + (now ? now_ - count.paused_since[priority] : 0);
}

}  // namespace railweave::pkt
