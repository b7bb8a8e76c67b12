// The ways between adapter and memory (PCIe): what is read over them, what is written, and what
// happens when one is too slow or stuck.
#include <algorithm>
#include <stdexcept>

#include "pkt_sim.hpp"

namespace railweave::pkt {

// Moves the packet towards memory; false if the adapter has no room left for it.
bool Sim::into_memory(std::uint32_t packet, Receiver& r, Ps& done) {
  done = now_;
  if (r.rx_pipe == kNone) return true;
  Pipe& pipe = pipes[r.rx_pipe];
  const std::uint32_t size = pool_[packet].size;
  std::uint64_t waiting = pipe.frozen_bytes;
  if (!pipe.frozen)
    waiting = pipe.busy_ps > now_ ? (pipe.busy_ps - now_) * pipe.den / pipe.num : 0;
  // With credits on the link the sender never sends more than there is room for.
  const bool credits = has_credits_ && links_.credit_bytes[pool_[packet].in_link] != 0;
  if (!credits && waiting + size > pipe.buffer_bytes) {
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
  if (credits || waiting <= pipe.xoff_bytes || pipe.nic_link == kNone) return true;
  const std::uint8_t priority = pool_[packet].priority;
  const auto bit = static_cast<std::uint8_t>(1U << priority);
  if ((pipe.xoff & bit) || !(links_.pause_mask[pipe.nic_link] & bit)) return true;
  pipe.xoff |= bit;
  send_pause(pipe.nic_link, priority, true);
  if (!pipe.xon_pending) on_rx_xon(r.rx_pipe);
  return true;
}

// The pipe is free for the next to be read over it; or the adapter's buffer may have drained below
// the level at which it lets the switch go on.
void Sim::on_rx_xon(std::uint32_t number) {
  if (!tx_lines_.empty() && tx_lines_[number].pending) free_tx(number);
  Pipe& pipe = pipes[number];
  pipe.xon_pending = 0;
  if (!pipe.xoff || pipe.frozen) return;
  const Ps tail = std::uint64_t{pipe.xon_bytes} * pipe.num / pipe.den;
  if (pipe.busy_ps > now_ + tail) {
    pipe.xon_pending = 1;
    wheel_.push(pipe.busy_ps - tail, tag(Ev::rx_xon), number);
    return;
  }
  for (int q = 0; q < kPriorities; ++q)
    if ((pipe.xoff >> q) & 1) send_pause(pipe.nic_link, q, false);
  pipe.xoff = 0;
}

// A message is complete at the adapter and will be in memory when the pipe has moved it.
void Sim::land(std::uint32_t flow, Receiver& r, Ps done) {
  if (r.rx_pipe == kNone) {
    wheel_.push(done + r.latency_ps, tag(Ev::complete), flow);
    return;
  }
  if (landings_.empty()) landings_.resize(senders.size());
  landings_[flow].push_back({pipes[r.rx_pipe].bytes, done});
  if (done != kNever) wheel_.push(done + r.latency_ps, tag(Ev::complete), flow);
}

// The pipe is stuck from now on: what it has not moved yet waits.
void Sim::hold_landings(std::uint32_t pipe) {
  if (landings_.empty()) return;
  for (std::uint32_t f = 0; f < receivers.size(); ++f) {
    if (receivers[f].rx_pipe != pipe) continue;
    for (Landing& l : landings_[f])
      if (l.done_ps > now_) l.done_ps = kNever;
  }
}

// The pipe goes on, or at another speed: what it holds will be in memory by what lies before it.
void Sim::go_on_landings(std::uint32_t number) {
  if (landings_.empty()) return;
  const Pipe& pipe = pipes[number];
  const Ps left = pipe.busy_ps > now_ ? pipe.busy_ps - now_ : 0;
  const std::uint64_t all = std::uint64_t{left} * pipe.den / pipe.num;
  for (std::uint32_t f = 0; f < receivers.size(); ++f) {
    if (receivers[f].rx_pipe != number) continue;
    for (Landing& l : landings_[f]) {
      if (l.done_ps <= now_) continue;
      const std::uint64_t behind = pipe.bytes - l.mark;
      const std::uint64_t before = all > behind ? all - behind : 0;
      l.done_ps = now_ + before * pipe.num / pipe.den;
      wheel_.push(l.done_ps + receivers[f].latency_ps, tag(Ev::complete), f);
    }
  }
}

void Sim::freeze_pipe(std::uint32_t pipe, bool on) {
  if (pipe >= pipes.size()) throw std::invalid_argument("there is no such pipe");
  set_frozen(pipe, on);
}

// The flow waits for its turn at the pipe that its data is read over.
void Sim::line_up(std::uint32_t flow) {
  Sender& s = senders[flow];
  if (tx_lines_.empty()) tx_lines_.resize(pipes.size());
  TxLine& line = tx_lines_[s.tx_pipe];
  s.flags |= kInPipe;
  line.flows.push_back(flow);
  if (line.pending) return;
  line.pending = true;
  wheel_.push(std::max(pipes[s.tx_pipe].busy_ps, now_), tag(Ev::rx_xon), s.tx_pipe);
}

// Lets the first in line go to its port, and those after it whose ports are paused as well.
void Sim::free_tx(std::uint32_t number) {
  TxLine& line = tx_lines_[number];
  line.pending = false;
  while (!line.flows.empty() && pipes[number].busy_ps <= now_) {
    const std::uint32_t flow = line.flows.front();
    line.flows.pop_front();
    Sender& s = senders[flow];
    s.flags &= static_cast<std::uint8_t>(~kInPipe);
    wake(flow);
    const bool paused = (ports[s.port].paused >> nic(s).data_priority) & 1;
    if ((s.flags & kInRing) && !paused) break;
  }
  if (line.flows.empty()) return;
  line.pending = true;  // looks again when a packet has gone; at the latest after one packet's time
  const Pipe& pipe = pipes[number];
  const Ps one = std::uint64_t{senders[line.flows.front()].full_bytes} * pipe.num / pipe.den;
  wheel_.push(pipe.busy_ps > now_ ? pipe.busy_ps : now_ + one, tag(Ev::rx_xon), number);
}

}  // namespace railweave::pkt
