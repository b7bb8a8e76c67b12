// What changes at a given time: links, switches, settings, receivers.
#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "pkt_sim.hpp"

namespace railweave::pkt {

void set_pipe_rate(Pipe& pipe, std::uint64_t kbps) {
  if (kbps == 0) throw std::invalid_argument("a way into memory needs a rate above 0");
  const std::uint64_t g = std::gcd(std::uint64_t{8'000'000'000}, kbps);
  pipe.num = static_cast<std::uint32_t>(8'000'000'000 / g);
  pipe.den = static_cast<std::uint32_t>(kbps / g);
}

// Sets the link's speed; 0 takes it down.
void Sim::set_rate(std::uint32_t link, std::uint64_t kbps) {
  Port& p = ports[link];
  links_.rate_kbps[link] = kbps;
  if (kbps == 0) {
    p.flags |= kDown;
    return;
  }
  p.flags &= static_cast<std::uint8_t>(~kDown);
  const std::uint64_t g = std::gcd(std::uint64_t{8'000'000'000}, kbps);
  p.num = static_cast<std::uint32_t>(8'000'000'000 / g);
  p.den = static_cast<std::uint32_t>(kbps / g);
  p.remainder = 0;
}

// Derives from a switch's settings what its ports and groups hold.
void Sim::use_config(std::uint32_t node) {
  const SwitchConfig& c = configs_[switches[node_switch_[node]].config];
  bool plain = c.ecn_weight == 0 && !c.credits && longest_bytes_ <= c.mtu_bytes;
  for (int i = 0; i < kPriorities; ++i) plain = plain && c.priority_map[i] == i;
  for (std::uint32_t i = node_out_ptr_[node]; i < node_out_ptr_[node + 1]; ++i) {
    const std::uint32_t out = node_out_[i], in = out ^ 1U;
    Port& p = ports[out];
    p.flags = static_cast<std::uint8_t>(plain ? p.flags & ~kCareful : p.flags | kCareful);
    for (int q = 0; q < kPriorities; ++q)
      groups[at(in, q)].headroom_limit =
          ((c.lossless >> q) & 1) ? links_.headroom_bytes[in] / c.cell_bytes : 0;
  }
  refresh_cut(node);
}

// A cut-through switch reads the header and goes on, unless a way out is faster than the way in.
void Sim::refresh_cut(std::uint32_t node) {
  const bool cut = configs_[switches[node_switch_[node]].config].cut_through != 0;
  std::uint64_t fastest = 0;
  for (std::uint32_t i = node_out_ptr_[node]; i < node_out_ptr_[node + 1]; ++i)
    fastest = std::max(fastest, links_.rate_kbps[node_out_[i]]);
  for (std::uint32_t i = node_out_ptr_[node]; i < node_out_ptr_[node + 1]; ++i) {
    const std::uint32_t in = node_out_[i] ^ 1U;
    Port& p = ports[in];
    const bool yes = cut && links_.rate_kbps[in] >= fastest;
    p.flags = static_cast<std::uint8_t>(yes ? p.flags | kCut : p.flags & ~kCut);
  }
}

void Sim::on_fault(const Fault&) {}

}  // namespace railweave::pkt
