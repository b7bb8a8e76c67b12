// The packet engine: every data packet is queued, marked, scheduled and forwarded on its own.
//
// Files: pkt_hot.cpp is what happens for each packet and hop (ports, queues, buffer admission),
// pkt_pause.cpp pauses, credits and the watchdog, pkt_host.cpp the sending adapter,
// pkt_receive.cpp the receiving one, pkt_reply.cpp what replies do to a sender, pkt_tasks.cpp the
// task graph, pkt_choice.cpp paths chosen packet by packet, pkt_fault.cpp what happens at a given
// time, pkt_record.cpp series and traces, pkt_setup.cpp the arrays, pkt_audit.cpp the count of all
// bytes and the search for a deadlock.
//
// The order of things at a switch. A packet reaches the memory management unit `Port::delay_ps`
// after its wire time (propagation and forwarding latency). There it is admitted to its ingress
// group and joins its egress queue; it leaves the buffer when its transmission begins. Pauses are
// decided at admission but leave as if the decision had been made `SwitchConfig::shift_ps` earlier,
// because real switches admit before most of the forwarding latency has passed. Where pauses are obeyed
// so soon that this cannot be made good, a switch has `hold_ps` instead: packets are admitted early
// and may leave only so much later.
// A port that is free and has nothing waiting takes an arriving packet at once: it then uses no
// buffer, as each queue's reserve would hold it.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flow_interrupt.hpp"
#include "pkt_input.hpp"
#include "pkt_memory.hpp"
#include "pkt_fifo.hpp"
#include "pkt_pool.hpp"
#include "pkt_record.hpp"
#include "pkt_repeat.hpp"
#include "pkt_types.hpp"
#include "pkt_wheel.hpp"
#include "route_hash.hpp"
#include "route_table.hpp"

namespace railweave::pkt {

enum class Ev : std::uint8_t {
  arrive,    // arg packet, detail: link it takes next, kDeliver or kChoose
  transmit,  // arg port, detail the class that will probably send
  ready,     // arg flow: its pacing lets it send
  pause,     // arg port, detail priority | on << 3
  cc_timer,  // arg flow
  retry,     // arg flow: retry timer
  complete,  // arg flow: a message is in memory
  chunk,     // arg stream: its next chunk may be posted
  task,      // arg task: begins
  fault,     // arg number of the fault
  watchdog,  // arg port, detail priority
  credit,    // arg port, detail priority
  rx_xon,    // arg pipe
  sample,
  rnr,       // arg flow: receiver-not-ready timer is over
  grant,     // arg receiving node: look for what may be granted
  progress,  // has anything moved lately?
  local,     // arg stream: a chunk that needs no link is there
  sent,      // arg flow: the last byte of a message has left
};
inline constexpr std::uint32_t kDeliver = 0xFFFFFFU;  // details of `arrive`
inline constexpr std::uint32_t kChoose = 0xFFFFFEU;
inline constexpr std::uint32_t kFlapMask = 0xFFFFF;  // details of `pause`: flaps of the link << 4
inline std::uint32_t tag(Ev kind, std::uint32_t detail = 0) {
  return static_cast<std::uint32_t>(kind) | detail << 8;
}

enum class End : std::uint8_t { running, finished, stuck, deadlock, failed };

class Sim {
 public:
  Sim(std::uint32_t n_nodes, std::vector<std::uint8_t> is_switch, LinkInput links, Options options);

  // Settings; all before the first advance().
  std::uint32_t add_switch_config(const SwitchConfig& c);
  void use_switch_config(std::uint32_t node, std::uint32_t config);
  std::uint32_t add_nic_config(const NicConfig& c);
  std::uint32_t add_pipe(const Pipe& p);
  std::uint32_t add_table(const RouteTable* table, std::vector<std::uint32_t> seeds);
  void set_work(FlowInput flows, TaskInput tasks);
  void set_faults(std::vector<Fault> faults, std::vector<Epoch> epochs);
  void watch(const WatchList& list);

  // Runs to a time or a number of events; true once the run has ended (see end()).
  bool advance(Ps until, std::int64_t max_events, flow::Interrupt& interrupt);

  End end() const { return end_; }
  Ps now() const { return now_; }
  std::uint64_t events() const { return events_; }
  std::uint64_t data_hops() const;
  const std::vector<std::uint32_t>& cycle() const { return cycle_; }

  const SwitchConfig& config_of(std::uint32_t sw) const { return config(switches[sw]); }

  // What the binding reads.
  Big<Port> ports;
  Big<Queue> queues;   // [priority][link]
  Big<Group> groups;   // [priority][link]
  std::vector<Switch> switches;
  Big<Sender> senders;
  Big<Receiver> receivers;
  Big<CcState> cc;
  std::vector<Pipe> pipes;
  Ledger data, replies;
  Record record;
  std::vector<Ps> task_start, task_finish, stream_start, stream_finish, flow_finish;
  std::vector<std::uint64_t> message_first;    // by stream, of its first message below
  std::vector<Ps> message_start, message_finish;
  struct Flight {
    std::uint64_t data_packets = 0, data_bytes = 0, reply_packets = 0, reply_bytes = 0;
  };
  std::vector<std::uint32_t> failed_flows;  // in the order of their failing
  void set_not_ready(std::uint32_t flow, bool on);
  void freeze_pipe(std::uint32_t pipe, bool on);
  Flight in_flight() const;   // counted from queues and wires
  void audit() const;         // throws std::runtime_error if bytes went astray
  // Times so far, what is still in force included.
  Ps paused_ps(std::uint32_t port, int priority) const;
  Ps wait_ps(std::uint32_t port, int lane) const;

 private:
  friend class Audit;
  std::size_t at(std::uint32_t link, int priority) const {
    return static_cast<std::size_t>(priority) * n_links_ + link;
  }
  const SwitchConfig& config(const Switch& s) const { return configs_[s.config]; }
  const NicConfig& nic(const Sender& s) const { return nics_[s.nic]; }

  // pkt_hot.cpp
  bool loop(Ps until, std::int64_t max_events, flow::Interrupt& interrupt);
  void warm();
  void warm_first(const Event& e) const;
  void warm_second(const Event& e) const;
  void warm_third(const Event& e) const;
  static constexpr std::size_t kFirst = 40, kSecond = 16, kThird = 6;  // events ahead
  static std::uint32_t likely_class(const Port& p);
  void arrive(std::uint32_t packet, std::uint32_t out);
  void queue_up(std::uint32_t packet, std::uint32_t out);
  bool admit(Switch& sw, const SwitchConfig& c, const Packet& p, const Queue& q, Drop& why);
  void release(Switch& sw, const Packet& p);
  std::uint32_t pg_limit(const Switch& sw, const SwitchConfig& c) const;
  bool trim(Switch& sw, const SwitchConfig& c, std::uint32_t packet, std::uint32_t out);
  void mark(const SwitchConfig& c, Queue& q, Packet& p);
  void kick(std::uint32_t port);
  void serve(std::uint32_t port);
  unsigned in_pipeline(std::uint32_t port, unsigned may, Ps& through) const;
  int choose_priority(Port& p, std::uint32_t port, unsigned ready);
  std::uint32_t take_head(std::uint32_t port, int priority);
  void put_tail(std::uint32_t port, int priority, std::uint32_t packet);
  void transmit(std::uint32_t port, std::uint32_t packet);
  Ps wire_ps(Port& p, std::uint32_t bytes);
  void drop(std::uint32_t packet, Drop why, std::uint32_t link);
  void consume(std::uint32_t packet);  // has arrived where it was to
  void stamp(Packet& k, const Port& p, std::uint32_t port);
  void free_packet(std::uint32_t packet);

  // pkt_pause.cpp
  void send_pause(std::uint32_t link, int priority, bool on);
  void on_pause(std::uint32_t port, int priority, bool on);
  void on_watchdog(std::uint32_t port, int priority);
  void give_credit(std::uint32_t link, int priority, std::uint32_t bytes);
  void on_credit(std::uint32_t port, int priority);
  bool has_credit(std::uint32_t port, int priority, std::uint32_t bytes);
  void resume(std::uint32_t port, int priority);

  // pkt_watchdog.cpp
  void watch_pause(std::uint32_t port, int priority, bool on);
  void drop_queue(std::uint32_t port, int priority, Drop why);
  void refresh_careful(std::uint32_t port);

  // pkt_credit.cpp
  void set_credits();
  void take_credit(std::uint32_t port, int lane, std::uint32_t bytes);
  void collect_credit(std::uint32_t port, int lane);
  void credit_of_freed(const Packet& k);
  void on_held_credit(std::uint32_t pipe);
  void thaw_credits(std::uint32_t pipe);  // the pipe goes on

  // pkt_host.cpp
  void wake(std::uint32_t flow);  // has something to send, perhaps
  bool may_send(const Sender& s) const;
  bool too_far(const Sender& s) const;
  bool window_full(const Sender& s) const;
  bool send_from(std::uint32_t port, int priority);  // the next flow of its ring sends a packet
  void ring_push(std::uint32_t port, int priority, std::uint32_t flow);
  void begin(std::uint32_t flow);
  void set_pace(std::uint32_t flow);
  void after_cc(std::uint32_t flow);
  std::uint32_t packet_bytes(const Sender& s, std::uint32_t psn) const;
  std::uint32_t reply_to(std::uint32_t flow, Kind kind, std::uint32_t bytes, int priority);
  void send_reply(std::uint32_t packet, std::uint32_t flow);
  void post(std::uint32_t flow);  // one more message
  void send_packet(std::uint32_t flow, std::uint32_t port);
  std::uint32_t take_telemetry();

  // pkt_receive.cpp
  void receive(std::uint32_t packet);
  void on_data(std::uint32_t packet);
  bool into_memory(std::uint32_t packet, Receiver& r, Ps& done);
  void progress(std::uint32_t flow, Receiver& r, Ps done);
  void acknowledge(std::uint32_t flow, Packet& p);
  void on_complete(std::uint32_t flow);
  void on_gap(std::uint32_t packet);
  void on_trimmed(std::uint32_t packet);
  void request_grant(std::uint32_t flow);
  void on_grant_due(std::uint32_t node);
  void on_request(std::uint32_t flow, const Packet& p);
  bool refuse(std::uint32_t packet, Receiver& r, const NicConfig& n);
  std::uint32_t answer(std::uint32_t flow, Kind kind, Packet& p);

  // pkt_pipe.cpp
  void land(std::uint32_t flow, Receiver& r, Ps done);
  void hold_landings(std::uint32_t pipe);                // it is stuck or changes its speed
  void go_on_landings(std::uint32_t pipe);
  void line_up(std::uint32_t flow);
  void free_tx(std::uint32_t pipe);

  // pkt_repeat.cpp
  Holes& holes_of(std::uint32_t flow);
  std::uint64_t bytes_between(const Sender& s, std::uint32_t from, std::uint32_t to) const;
  std::uint64_t forget_arrived(std::uint32_t flow, std::uint32_t from, std::uint32_t to);
  std::uint64_t note_arrived(std::uint32_t flow, std::uint32_t psn);
  void find_lost(std::uint32_t flow, Ps answered_sent_ps);
  void lose(std::uint32_t flow, std::uint32_t psn);
  void lose_all(std::uint32_t flow);
  void tidy_queue(Sender& s, Holes& h);
  std::uint32_t take_hole(std::uint32_t flow);
  std::uint32_t next_psn(const Sender& s) const;
  void on_early(std::uint32_t packet, Receiver& r);
  void take_early(Receiver& r);

  // pkt_grant.cpp
  void send_request(std::uint32_t flow, bool again);
  void send_grant(std::uint32_t flow);
  void granted_arrived(std::uint32_t flow, std::uint32_t from, std::uint32_t to);
  void give_up_grants(std::uint32_t flow);

  // pkt_fail.cpp
  void limit_streams(std::uint32_t task);
  void strand(std::uint32_t task);
  void ended_short(std::uint32_t stream);
  void on_rx_xon(std::uint32_t pipe);

  // pkt_reply.cpp
  void on_reply(std::uint32_t packet);
  void on_ack(std::uint32_t flow, Packet& p);
  void take_ack(std::uint32_t flow, Packet& p);
  void on_nak(std::uint32_t flow, Packet& p);
  void on_rnr(std::uint32_t flow, const Packet& p);
  void on_sent(std::uint32_t flow);
  void set_deadline(std::uint32_t flow);
  std::uint64_t settle(std::uint32_t flow, std::uint32_t psn);
  void go_back(std::uint32_t flow, std::uint32_t psn, bool timeout);
  double flight_of(const Sender& s) const;
  void arm_retry(std::uint32_t flow);
  void on_retry(std::uint32_t flow);
  void on_rnr_timer(std::uint32_t flow);
  void on_cc_timer(std::uint32_t flow);
  void fail(std::uint32_t flow);

  // pkt_setup.cpp
  void set_ways();
  void set_graph();
  void begin_run();

  // pkt_tasks.cpp
  void start_tasks();
  void begin_task(std::uint32_t task);
  void try_chunk(std::uint32_t stream);
  void on_chunk(std::uint32_t stream);
  void chunk_sent(std::uint32_t stream);
  void chunk_delivered(std::uint32_t stream);
  void deliver_chunks(std::uint32_t stream, std::uint32_t least);
  void on_local(std::uint32_t stream);
  void task_over(std::uint32_t task, int kind);
  void release_task(std::uint32_t task, Ps when);

  // pkt_choice.cpp
  std::uint32_t choose_link(std::uint32_t packet, std::uint32_t node);
  void choose_entropy(std::uint32_t flow, Packet& k);
  void recycle(std::uint32_t flow, const Packet& ack);
  void check_choices();
  Ps drain_ps(std::uint32_t port, int priority) const;
  struct Ways;
  void find_shortest(const Ways& ways, int priority);

  // pkt_fault.cpp
  void on_fault(const Fault& f);
  void check_fault(const Fault& f) const;
  void check_config(std::uint32_t node, std::uint64_t number) const;
  void check_epoch(const Epoch& e) const;
  void check_faults() const;
  void take_down(std::uint32_t link);
  void bring_up(std::uint32_t link);
  void forget_pauses(std::uint32_t link);
  void flush(std::uint32_t node);
  void reroute(const Epoch& e);
  void leave_ring(std::uint32_t flow);
  void set_frozen(std::uint32_t pipe, bool frozen);
  void change_pipe_rate(std::uint32_t pipe, std::uint64_t kbps);
  void change_nic(std::uint32_t flow, std::uint32_t number);
  void set_rate(std::uint32_t link, std::uint64_t kbps);
  void use_config(std::uint32_t node);
  void refresh_cut(std::uint32_t node);

  // pkt_record.cpp
  void sample();
  void sample_ports();
  void sample_flows();
  bool only_watched() const { return wheel_.size() <= idle_events_; }

  // pkt_audit.cpp
  void audit_queues() const;
  void audit_buffers() const;
  void audit_credits() const;

  // pkt_deadlock.cpp
  bool blocked(std::size_t queue) const;
  bool find_cycle();
  bool check_progress();

  bool begun_ = false;
  std::uint32_t n_nodes_, n_links_;
  LinkInput links_;
  Options options_;
  Pool pool_;
  Fifo fifo_;
  Wheel wheel_;
  Ps now_ = 0;
  std::uint64_t events_ = 0;
  End end_ = End::running;
  std::vector<std::uint32_t> cycle_;  // of a deadlock: the ports that wait for each other
  std::vector<std::uint32_t> node_switch_;
  std::vector<SwitchConfig> configs_;
  std::vector<NicConfig> nics_;
  std::vector<CcPath> cc_path_;
  std::vector<std::uint32_t> path_;        // links, each way ended by kDeliver
  std::vector<std::uint32_t> ring_head_, ring_tail_;  // [priority][link], of host ports
  std::vector<std::uint32_t> loss_;        // by link: chance × 2^32
  std::vector<std::uint64_t> credit_;      // [priority][link]: bytes that may still be sent
  std::vector<CreditLane> credit_lanes_;   // [priority][link]
  std::vector<HeldCredits> held_credits_;  // by pipe
  bool has_credits_ = false;               // some link has credits
  std::uint64_t moved_ = 0;                // packets sent when progress was last looked at
  std::vector<HopTelemetry> telemetry_;    // kMostHops a record
  std::vector<std::uint32_t> telemetry_free_;
  FlowInput flows_;
  TaskInput tasks_;
  std::vector<Fault> faults_;
  std::vector<Epoch> epochs_;
  std::uint32_t epoch_ = 0;
  std::uint64_t idle_events_ = 0;  // pending ones that only look: they must not keep a run alive

  // Task graph.
  std::vector<std::uint64_t> succ_ptr_, stream_succ_ptr_, stream_flow_;
  std::vector<std::uint32_t> succ_task_, stream_succ_, stream_task_;
  std::vector<std::uint8_t> succ_kind_;
  std::vector<std::uint32_t> task_waits_, task_undelivered_, task_unsent_;
  std::vector<std::uint32_t> chunks_posted_, chunks_sent_, chunks_delivered_;
  std::vector<std::uint8_t> chunk_pending_;
  std::vector<std::uint32_t> messages_sent_;  // by flow
  std::uint32_t tasks_left_ = 0;

  // Retries, by flow.
  std::vector<Ps> retry_deadline_, cc_timer_at_, timed_at_;
  std::vector<std::uint8_t> retry_armed_;
  std::vector<std::uint16_t> retries_used_, rnr_used_;
  std::vector<std::uint8_t> in_vain_;  // goings back for a NAK since anything arrived or timed out
  std::vector<Holes> holes_;   // of the queue pairs that have lost something
  std::vector<Early> early_;   // of those that have received something before its turn
  std::vector<GrantFlow> grants_;       // by flow, where receivers grant
  std::vector<GrantNode> grant_nodes_;  // by node
  std::vector<std::vector<Landing>> landings_;  // by flow, where a pipe leads into memory
  std::vector<TxLine> tx_lines_;        // by pipe
  std::vector<std::uint32_t> stream_limit_;  // chunks that can still be delivered, after a failure
  std::vector<std::uint32_t> task_open_;     // streams of a failed task that still can
  std::vector<std::uint8_t> task_dead_;      // 1: will not finish; 2: and nothing of it goes on
  std::vector<std::uint8_t> waits_for_sent_; // by stream: something waits for its being sent

  // Paths chosen on the way.
  struct Table {
    const RouteTable* table = nullptr;
    std::vector<DeviceHash> devices;  // by node
  };
  std::vector<Table> tables_;
  std::vector<std::uint32_t> table_now_;  // by table: which one has taken its place
  std::vector<std::uint32_t> ties_;       // members that an adaptive switch finds equal
  std::vector<Spray> sprays_;             // by flow, where any chooses its path on the way
  std::vector<std::uint32_t> flaps_;      // by link: how often it went down; pauses sent before are void
  std::vector<std::uint32_t> node_out_ptr_, node_out_;  // links by source node
  std::uint32_t longest_bytes_ = 0;
  std::uint8_t priorities_used_ = 0;  // by any adapter: a bit each
  Random ecn_random_, loss_random_, spray_random_;
};

}  // namespace railweave::pkt
