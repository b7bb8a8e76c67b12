// What holds a port back: pauses by priority, their watchdog, and InfiniBand's credits.
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
  Ps begins = decided;
  if (r.busy_ps > decided) {
    // Where the way back began its present packet only after the decision, the frame went before it.
    const Ps longest = std::uint64_t{kMostFrameBytes} * r.num / r.den;
    begins = r.busy_ps > now_ ? std::min(r.busy_ps, decided + longest) : decided;
    if (r.busy_ps > now_) r.busy_ps += frame;
  }
  const Ps obeyed = begins + frame + links_.propagation_ps[back] + links_.response_ps[link];
  wheel_.push(std::max(obeyed, now_), tag(Ev::pause, static_cast<std::uint32_t>(priority) | (on ? 8U : 0U)),
              link);
}

void Sim::on_pause(std::uint32_t port, int priority, bool on) {
  Port& p = ports[port];
  const auto bit = static_cast<std::uint8_t>(1U << priority);
  PortCounters& count = record.ports[port];
  if (on == ((p.paused & bit) != 0)) return;
  if (on) {
    p.paused |= bit;
    ++count.pauses_felt[priority];
    count.paused_since[priority] = now_;
    record.note(now_, Trace::pause_on, priority, port, kNone);
    if (p.source_switch != kNone) {
      const Ps detect = config(switches[p.source_switch]).watchdog_detect_ps;
      if (detect != 0) wheel_.push(now_ + detect, tag(Ev::watchdog, static_cast<std::uint32_t>(priority)), port);
    }
    return;
  }
  p.paused &= static_cast<std::uint8_t>(~bit);
  count.paused_ps[priority] += now_ - count.paused_since[priority];
  record.pauses.push_back({count.paused_since[priority], now_, port, static_cast<std::uint8_t>(priority)});
  record.note(now_, Trace::pause_off, priority, port, kNone);
  if (p.nonempty) kick(port);
}

void Sim::on_watchdog(std::uint32_t, int) {}

bool Sim::has_credit(std::uint32_t, int, std::uint32_t) { return true; }
void Sim::give_credit(std::uint32_t, int, std::uint32_t) {}
void Sim::on_credit(std::uint32_t, int) {}

}  // namespace railweave::pkt
