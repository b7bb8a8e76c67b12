// Congestion control of one sending queue pair: the interface, and the list of those there are.
//
// Every algorithm is one small unit (pkt_cc_<name>.hpp): a Params struct of plain doubles, a State
// struct of at most kCcStateBytes, and the static functions of `Reaction` below. It sees what an
// adapter sees, sets `rate_Bps`, `window_bytes` and `timer_ps`, and knows nothing of the engine.
// Arithmetic is + - * / and square roots only, so that results are the same on every machine.
#pragma once
#include <cstdint>
#include <limits>

namespace railweave::pkt {

inline constexpr double kNoWindow = std::numeric_limits<double>::infinity();
inline constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
inline constexpr int kCcStateBytes = 224;
inline constexpr int kMostHops = 8;  // of telemetry that a packet collects

// What holds for a queue pair throughout its life.
struct CcPath {
  double line_rate_Bps = 0;    // of the sending port, wire bytes
  double base_rtt_ps = 0;      // without queues: full packet out, ACK back
  double packet_bytes = 0;     // wire bytes of a full packet
  int hops = 0;                // switches on the way, as a packet's TTL tells (Swift)
  double bdp_bytes() const { return line_rate_Bps * base_rtt_ps * 1e-12; }
};

// What one switch wrote into a packet as it left (in-band telemetry, HPCC).
struct HopTelemetry {
  std::uint64_t time_ps = 0;    // of the departure
  std::uint64_t tx_bytes = 0;   // all that the port has sent so far
  double rate_Bps = 0;          // of the port
  std::uint32_t queue_bytes = 0;
  std::uint32_t link = 0;       // tells a change of path
};

// One acknowledgement as the sender's adapter sees it.
struct CcAck {
  std::uint64_t now_ps = 0;
  std::uint64_t rtt_ps = 0;            // of the packet that called for it
  std::uint64_t acked_psn = 0;         // all before it have arrived
  std::uint64_t next_psn = 0;          // the next new one to be sent
  std::uint32_t acked_bytes = 0;       // wire bytes newly acknowledged
  std::uint32_t acked_packets = 0;
  std::uint32_t marked_packets = 0;    // of them with CE
  double in_flight_bytes = 0;          // sent and not acknowledged, after this one
  const HopTelemetry* hops = nullptr;  // along the packet's way, n_hops of them
  int n_hops = 0;
};

// What the adapter holds for the algorithm; the first three are what it obeys.
struct CcState {
  double rate_Bps = 0;               // pacing, wire bytes; the line rate at first
  double window_bytes = kNoWindow;   // most that may be in flight
  std::uint64_t timer_ps = kNever;   // when on_timer is wanted next (absolute); kNever: not
  alignas(8) unsigned char own[kCcStateBytes] = {};
};

// A unit derives from this and hides what it reacts to. `P` are its parameters, `S` its state.
template <class P, class S>
struct Reaction {
  using Params = P;
  using State = S;
  static void start(const P&, const CcPath&, CcState&, S&, std::uint64_t /*now_ps*/) {}
  static void on_ack(const P&, const CcPath&, CcState&, S&, const CcAck&) {}
  // A congestion notification (CNP, or BECN on InfiniBand) has arrived.
  static void on_cnp(const P&, const CcPath&, CcState&, S&, std::uint64_t /*now_ps*/) {}
  // Loss: a sequence NAK or a hole that will be filled (timeout false), or the retry timer.
  static void on_loss(const P&, const CcPath&, CcState&, S&, std::uint64_t /*now_ps*/,
                      bool /*timeout*/) {}
  // `timer_ps` has come (it is kNever again on entry); may be called late, never early.
  static void on_timer(const P&, const CcPath&, CcState&, S&, std::uint64_t /*now_ps*/) {}
  static void on_sent(const P&, const CcPath&, CcState&, S&, std::uint64_t /*now_ps*/,
                      std::uint32_t /*bytes*/) {}
};

enum class CcKind : std::uint8_t {
  none, dcqcn, hpcc, timely, swift, dctcp, cubic, nscc, receiver_driven, ib_cc
};

}  // namespace railweave::pkt
