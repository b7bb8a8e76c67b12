// Samples and traces.
#include "pkt_sim.hpp"

namespace railweave::pkt {

void Sim::watch(const WatchList& list) { record.watched = list; }
void Sim::sample() {}

}  // namespace railweave::pkt
