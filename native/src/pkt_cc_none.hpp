// No congestion control (PFC or credits alone), and receiver-driven admission.
//
// receiver_driven: the scheme of the collective library of Gangidi et al., "RDMA over Ethernet for
// Distributed AI Training at Meta Scale" (SIGCOMM 2024): a sender transmits only what its receiver
// has cleared, at line rate. The grants (clear-to-send) are the engine's; so this unit, too, leaves
// the rate at the line rate and the window open.
#pragma once
#include <span>

#include "pkt_cc_util.hpp"

namespace railweave::pkt {

struct NoParams {
  static std::span<const CcField<NoParams>> fields() { return {}; }
};
struct NoState {};

struct NoControl : Reaction<NoParams, NoState> {
  static void start(const NoParams&, const CcPath& path, CcState& cc, NoState&, std::uint64_t) {
    cc.rate_Bps = path.line_rate_Bps;
    cc.window_bytes = kNoWindow;
  }
};

}  // namespace railweave::pkt
