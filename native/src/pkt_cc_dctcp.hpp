// DCTCP: Alizadeh et al., "Data Center TCP" (SIGCOMM 2010), RFC 8257.
//
// Once a window of data alpha = (1-g) alpha + g F, F the share of it that came back marked; a mark
// cuts the window by alpha/2, once a window. Otherwise slow start, then one packet a round trip.
// Loss halves (once a window), a timeout leaves one packet.
// Simplified: no growth within the window after a cut; packets are of full size; F counts packets.
#pragma once
#include <span>

#include "pkt_cc_util.hpp"

namespace railweave::pkt {

struct DctcpParams {
  double g = 0;
  double initial_alpha = 0;
  double initial_window_packets = 0;
  double max_window_packets = 0;

  static std::span<const CcField<DctcpParams>> fields() {
    using P = DctcpParams;
    static constexpr CcField<P> all[] = {
        {"g", &P::g, 1, 0, 1},
        {"initial_alpha", &P::initial_alpha, 1, 0, 1},
        {"initial_window_packets", &P::initial_window_packets, 1, 1, kUnbounded},
        {"max_window_packets", &P::max_window_packets, 1, 1, kUnbounded},
    };
    return all;
  }
};

struct DctcpState {
  double threshold_bytes;  // slow start below
  double alpha;
  double packets, marked;  // of the present window of data
  std::uint64_t window_end_psn;
  OncePerWindow cut;
};

struct Dctcp : Reaction<DctcpParams, DctcpState> {
  using P = DctcpParams;
  using S = DctcpState;

  static void start(const P& p, const CcPath& path, CcState& cc, S& s, std::uint64_t) {
    s.alpha = p.initial_alpha;
    s.threshold_bytes = kNoWindow;
    cc.rate_Bps = path.line_rate_Bps;
    cc.window_bytes = p.initial_window_packets * path.packet_bytes;
  }

  static void on_ack(const P& p, const CcPath& path, CcState& cc, S& s, const CcAck& ack) {
    s.cut.see(ack);
    s.packets += ack.acked_packets;
    s.marked += std::min(ack.marked_packets, ack.acked_packets);
    if (ack.acked_psn > s.window_end_psn) close_window(p, s, ack);
    if (ack.marked_packets > 0 && !s.cut.open) {
      shrink(path, cc, s, 1.0 - s.alpha / 2.0);
      s.cut.react(ack.next_psn);
    } else if (!s.cut.open && uses_window(ack, cc.window_bytes)) {
      const double packets = cc.window_bytes / path.packet_bytes;
      const bool slow_start = cc.window_bytes < s.threshold_bytes;
      cc.window_bytes += slow_start ? ack.acked_bytes : ack.acked_bytes / packets;
      cc.window_bytes = std::min(cc.window_bytes, p.max_window_packets * path.packet_bytes);
    }
  }

  static void on_loss(const P&, const CcPath& path, CcState& cc, S& s, std::uint64_t,
                      bool timeout) {
    if (s.cut.open && !timeout) return;
    shrink(path, cc, s, 0.5);
    if (timeout) cc.window_bytes = path.packet_bytes;
    s.cut.react();
    if (timeout) s.cut.open = false;  // slow start begins at once
  }

 private:
  static void close_window(const P& p, S& s, const CcAck& ack) {
    if (s.packets > 0) s.alpha += p.g * (s.marked / s.packets - s.alpha);
    s.packets = s.marked = 0;
    s.window_end_psn = ack.next_psn;
  }

  static void shrink(const CcPath& path, CcState& cc, S& s, double factor) {
    cc.window_bytes = std::max(cc.window_bytes * factor, path.packet_bytes);
    s.threshold_bytes = cc.window_bytes;
  }
};

}  // namespace railweave::pkt
