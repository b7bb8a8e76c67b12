// The records of the packet engine: what lies in its arrays, and nothing that acts.
//
// A port is a directed link: its egress queues stand at the link's source, its ingress priority
// groups at the link's destination. Link 2k and 2k+1 are the two directions of one cable.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "pkt_cc_all.hpp"

namespace railweave::pkt {

using Ps = std::uint64_t;  // picoseconds since the start

// In seconds; NaN for a time that has not come. Divides, as 10^-12 is no binary number.
inline double to_seconds(Ps time) {
  return time == kNever ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(time) / 1e12;
}

inline constexpr int kPriorities = 8;
inline constexpr std::uint32_t kNone = 0xFFFFFFFFU;
inline constexpr std::uint32_t kFrameBytes = 84;   // the smallest frame, preamble and gap included
inline constexpr std::uint32_t kHeaderBytes = 64;  // what a cut-through switch reads first
inline constexpr std::uint32_t kMostFrameBytes = 9236;  // the longest frame a pause may wait for

enum class Kind : std::uint8_t { data, ack, nak, rnr, cnp, request, grant };

enum PacketFlag : std::uint8_t {
  kMarked = 1,       // congestion experienced
  kTrimmed = 2,      // its payload was cut off on the way
  kAskAck = 4,       // the receiver is to acknowledge at once
  kAgain = 8,        // a retransmission
  kEcnCapable = 16,
  kReply = 32,       // travels from the receiver to the sender
};

struct alignas(64) Packet {
  Ps sent_ps;            // data: when it left its NIC; replies: that of the packet they answer
  std::uint32_t flow;
  std::uint32_t pos;     // where in the path list the link after this one stands
  std::uint32_t psn;     // of data; of replies: the next one expected
  std::uint32_t size;    // wire bytes
  std::uint32_t in_link; // over which it came
  std::uint32_t entropy; // what switches hash where paths are not fixed
  std::uint32_t telemetry;
  std::uint32_t echo;    // replies: PSN they answer
  std::uint16_t marked;  // replies: packets with CE since the last reply
  std::uint16_t count;   // replies: packets they stand for
  std::uint16_t cells;   // buffer cells at the switch it is in
  std::uint8_t local;    // class there: its priority, unless a switch maps it elsewhere
  std::uint8_t spare;
  Kind kind;
  std::uint8_t priority;
  std::uint8_t flags;
  std::uint8_t hops;     // telemetry records taken
  Ps ready_ps;           // in a switch: through the pipeline, may leave
};
static_assert(sizeof(Packet) == 64);

enum PortFlag : std::uint8_t {
  kDown = 1,       // nothing gets across
  kFromHost = 2,   // its source is no switch
  kToHost = 4,     // its destination is no switch
  kCut = 8,        // its destination forwards as soon as it has read the header
  kCareful = 16,   // no shortcut past the queues: credits, a wrong setting, averaged ECN …
  kLossy = 32,     // loses packets at random (loss_threshold)
};

struct alignas(64) Port {
  Ps busy_ps;               // the wire is taken until then
  Ps delay_ps;              // end of the wire time to the MMU (or host) at the destination
  std::uint64_t tx_bytes;
  std::uint32_t tx_packets;
  std::uint32_t num, den;   // picoseconds a byte = num / den
  std::uint32_t remainder;  // of the last division, carried over
  std::uint32_t source_switch, head_switch;  // kNone: a host
  std::uint8_t nonempty, paused, starved;  // a bit for each priority
  std::uint8_t flags;
  std::uint8_t tx_pending;  // a transmit event waits
  std::uint8_t turn;        // deficit round robin: whose turn it is
  std::uint8_t watched;     // priorities whose pause the watchdog ignores
  std::uint8_t spare;
};
static_assert(sizeof(Port) == 64);

struct alignas(64) Queue {  // egress queue of a (port, priority)
  std::uint32_t head;       // the first packet
  std::uint32_t from, to;   // where the ones behind it stand (Fifo)
  std::uint32_t bytes, packets, cells;
  std::int32_t deficit;
  std::uint32_t peak_bytes;
  std::uint32_t marked;     // packets given CE here
  std::uint32_t dropped;    // packets refused
  std::uint32_t kmin_bytes, kmax_bytes;  // 0, 0: no marking
  double average_bytes;     // where marking goes by an average
  Ps average_ps;
};
static_assert(sizeof(Queue) == 64);

struct alignas(32) Group {  // ingress priority group of a (port, priority)
  std::uint32_t cells;      // in its reserve and in the shared pool
  std::uint32_t headroom_cells;
  std::uint32_t headroom_limit;
  std::uint32_t peak_cells, peak_headroom;
  std::uint32_t dropped;
  std::uint32_t owed_bytes;  // credits not yet given back (InfiniBand)
  std::uint8_t xoff;         // a pause is in force
  std::uint8_t credit_pending;
  std::uint16_t spare;
};
static_assert(sizeof(Group) == 32);

// Settings that many switches share; a fault or a wrong setting gives one switch other settings.
struct SwitchConfig {
  std::uint32_t cell_bytes = 256;
  std::uint32_t shared_cells = 0;      // of the pool that all groups share
  std::uint32_t headroom_pool_cells = kNone;
  std::uint32_t reserved_cells = 0;    // of each priority group
  std::uint32_t queue_reserved_cells = 0;
  std::uint32_t pg_limit_cells = 0;    // fixed threshold of a lossless group; 0: dynamic
  double pg_alpha = 1, queue_alpha = 1;
  std::uint32_t xon_offset_cells = 0;
  std::uint8_t lossless = 0;           // a bit for each priority
  std::uint8_t strict = 0;
  std::uint8_t ecn = 0;                // priorities that mark
  std::uint8_t priority_map[kPriorities] = {0, 1, 2, 3, 4, 5, 6, 7};
  std::uint32_t quantum_bytes[kPriorities] = {};
  double pmax = 0;
  double ecn_weight = 0;               // of a new sample in the average; 0: instantaneous
  Ps shift_ps = 0;                     // how long before admission the pause logic saw the packet
  Ps hold_ps = 0;                      // … or how long after admission a packet may leave
  std::uint32_t mtu_bytes = kNone;     // longest frame forwarded
  std::uint8_t cut_through = 1;
  std::uint8_t trimming = 0;
  std::uint8_t credits = 0;            // InfiniBand: link-level credits instead of pauses
  Ps watchdog_detect_ps = 0, watchdog_restore_ps = 0;  // 0: no watchdog
  std::uint8_t watchdog_forwards = 0;  // 1: sends on in spite of the pause; 0: drops
};

struct Switch {
  std::uint32_t config = 0;
  std::uint32_t shared_used = 0, headroom_used = 0;
  std::uint32_t node = 0;
  std::uint32_t peak_shared = 0;
  std::uint32_t peak_headroom = 0;
};

inline constexpr std::uint32_t kRnrForEver = 7;  // as on the wire: an adapter never gives up

// What holds for a class of queue pairs: the adapter's settings and its congestion control.
struct NicConfig {
  CcProfile cc;
  std::uint8_t data_priority = 3, ack_priority = 3, cnp_priority = 6, request_priority = 6;
  std::uint8_t ecn_capable = 1, sends_cnp = 1, ignores_cnp = 0, selective_repeat = 0;
  std::uint32_t ack_every = 16;        // packets an acknowledgement stands for
  std::uint32_t reorder_packets = 0;   // selective repeat: how far overtaken counts as lost
  std::uint32_t reorder_window_packets = 4096;  // … and how far ahead of its turn it is kept
  std::uint32_t ack_bytes = 86, cnp_bytes = 98;
  Ps cnp_interval_ps = 0;
  Ps timeout_ps = 0;                   // 0: no retry timer
  std::uint32_t retries = 7;
  Ps rnr_timer_ps = 0;
  std::uint32_t rnr_retries = kRnrForEver;
  double max_in_flight_bytes = kNoWindow;
  std::uint32_t receiver_grant_bytes = 0;   // receiver-driven: what one grant lets through
  std::uint32_t receiver_window_bytes = 0;  // … and what a receiver lets be on its way in all
};

enum class Choice : std::uint8_t { path, spray_random, spray_round_robin, recycle, flowlet, adaptive };

// What a sender that chooses paths packet by packet remembers.
struct Spray {
  static constexpr std::uint32_t kKept = 8;  // recycled entropies it holds at most
  struct Kept {
    std::uint32_t entropy = 0, uses = 0;
  };
  Kept kept[kKept];
  std::uint32_t first = 0, n_kept = 0;  // a ring
  std::uint32_t count = 0;              // packets, for the round robin
  std::uint32_t entropy = 0;            // of the present flowlet
  Ps last_ps = kNever;                  // when the flow last sent
};

enum FlowFlag : std::uint8_t {
  kInRing = 1,     // waits for its port
  kResend = 2,     // selective repeat: has holes to fill
  kBegun = 4,
  kFailed = 8,
  kHeld = 16,      // waits for the RNR timer
  kInPipe = 32,    // waits for the pipe its data is read over
};

struct alignas(64) Sender {  // sending half of a queue pair
  std::uint32_t posted = 0;    // packets that the application has handed over
  std::uint32_t next = 0;      // PSN to send next
  std::uint32_t acked = 0;     // all before are acknowledged
  std::uint32_t reached = 0;   // highest PSN ever sent, and one
  std::uint32_t granted = 0;   // receiver-driven: packets that may be sent
  std::uint32_t port = 0;      // link that it sends on
  std::uint32_t path = 0, back = 0;  // where in the path list its way out and the replies' stand
  std::uint32_t ring_next = kNone;
  std::uint32_t packets_a_message = 1;
  std::uint32_t full_bytes = 0, last_bytes = 0;  // wire bytes of a packet, of a message's last
  std::uint32_t stream = 0;
  std::uint32_t message = 0;  // of packet `reached`
  std::uint32_t message_end = 0;  // first PSN after that message
  std::uint16_t nic = 0;      // settings
  std::uint8_t flags = 0;
  Choice choice = Choice::path;
  Ps next_ps = 0;             // pacing: not before
  Ps pace_ps = 0;             // of a full packet; 0: the line is the limit
  std::uint32_t tx_pipe = kNone;
  std::uint32_t entropy = 0;
  double in_flight_bytes = 0;
  std::uint32_t asked = 0;      // highest PSN sent that calls for an answer, and one
  std::uint32_t holes = kNone;  // selective repeat: number of its record
};

struct alignas(64) Receiver {  // receiving half
  std::uint32_t expected = 0;
  std::uint32_t unanswered = 0, marked = 0;  // since the last reply
  std::uint32_t delivered = 0;      // messages
  std::uint32_t message_end = 0;    // first PSN after the message being received
  std::uint32_t rx_pipe = kNone;
  std::uint32_t node = 0;
  std::uint8_t nak_sent = 0, not_ready = 0, spare[2] = {};
  Ps next_cnp_ps = 0;
  Ps latency_ps = 0;                // from the NIC into the GPU's memory
  std::uint32_t nak_psn = 0;        // of the packet that showed the gap
  std::uint32_t early = kNone;      // selective repeat: number of its record
};

// A PCIe link (or another way into memory) seen as a server of one rate.
struct Pipe {
  Ps busy_ps = 0;
  std::uint32_t num = 0, den = 1;  // picoseconds a byte
  std::uint32_t buffer_bytes = kNone, xoff_bytes = kNone, xon_bytes = 0;  // of the NIC before it
  std::uint32_t frozen_bytes = 0;
  std::uint32_t nic_link = kNone;  // over which the NIC receives
  std::uint8_t frozen = 0, xoff = 0, xon_pending = 0, priority = 3;
  std::uint64_t bytes = 0;
  std::uint32_t peak_bytes = 0, dropped = 0;
};

void set_pipe_rate(Pipe& pipe, std::uint64_t kbps);

// Credits on their way back to the sender of a (link, virtual lane), in order of arrival.
struct CreditReturn {
  Ps at_ps;
  std::uint32_t bytes;
};
struct CreditLane {
  std::vector<CreditReturn> way;
  std::size_t first = 0;  // the ones before are taken over
};

// Credits that wait until a receiving pipe has moved the packet into memory.
struct HeldCredit {
  Ps done_ps;
  std::uint32_t link;
  std::uint32_t bytes;
  std::uint8_t lane;
};
struct HeldCredits {
  std::vector<HeldCredit> queue;
  std::size_t first = 0;
  std::uint8_t pending = 0;  // an event waits
};

enum class Drop : std::uint8_t {
  no_buffer, headroom, link_down, corrupt, mtu, watchdog, no_route, trimmed, rx_overflow,
  reboot, out_of_order, duplicate, late, not_ready, kinds
};
inline constexpr int kDropKinds = static_cast<int>(Drop::kinds);

struct Ledger {  // of one direction: data, or replies
  std::uint64_t sent_packets = 0, delivered_packets = 0;
  std::uint64_t sent_bytes = 0, delivered_bytes = 0;
  std::uint64_t dropped_packets[kDropKinds] = {}, dropped_bytes[kDropKinds] = {};
};

// A named stream of random numbers (SplitMix64).
struct Random {
  std::uint64_t state = 0;
  std::uint32_t next32() {
    std::uint64_t x = (state += 0x9E3779B97F4A7C15ULL);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return static_cast<std::uint32_t>((x ^ (x >> 31)) >> 32);
  }
  double unit() { return next32() * (1.0 / 4294967296.0); }
};

}  // namespace railweave::pkt
