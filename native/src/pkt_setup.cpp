// From the input arrays to the state of a run.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "pkt_sim.hpp"

namespace railweave::pkt {

Sim::Sim(std::uint32_t n_nodes, std::vector<std::uint8_t> is_switch, LinkInput links,
         Options options)
    : n_nodes_(n_nodes),
      n_links_(static_cast<std::uint32_t>(links.source.size())),
      links_(std::move(links)),
      options_(options),
      node_switch_(n_nodes, kNone) {
  if (n_links_ >= kChoose) throw std::invalid_argument("too many links for the packet engine");
  for (std::uint32_t v = 0; v < n_nodes; ++v) {
    if (!is_switch[v]) continue;
    node_switch_[v] = static_cast<std::uint32_t>(switches.size());
    switches.push_back({});
    switches.back().node = v;
  }
  configs_.push_back({});
  configs_[0].shared_cells = kNone / 2;  // a hub without limits, until settings are given
  ports.resize(n_links_);
  queues.resize(static_cast<std::size_t>(n_links_) * kPriorities, Queue{});
  groups.resize(static_cast<std::size_t>(n_links_) * kPriorities, Group{});
  record.ports.resize(n_links_);
  loss_.resize(n_links_, 0);
  flaps_.resize(n_links_, 0);
  ring_head_.assign(queues.size(), kNone);
  ring_tail_.assign(queues.size(), kNone);
  for (std::uint32_t l = 0; l < n_links_; ++l) {
    Port& p = ports[l];
    p = {};
    p.delay_ps = links_.delay_ps[l];
    p.source_switch = node_switch_[links_.source[l]];
    p.head_switch = node_switch_[links_.target[l]];
    if (p.source_switch == kNone) p.flags |= kFromHost;
    if (p.head_switch == kNone) p.flags |= kToHost;
    p.num = p.den = 1;
    set_rate(l, links_.rate_kbps[l]);
    for (int q = 0; q < kPriorities; ++q) {
      queues[at(l, q)].kmin_bytes = links_.kmin_bytes[l];
      queues[at(l, q)].kmax_bytes = links_.kmax_bytes[l];
    }
  }
  node_out_ptr_.assign(n_nodes_ + 1, 0);
  for (std::uint32_t v : links_.source) ++node_out_ptr_[v + 1];
  for (std::uint32_t v = 0; v < n_nodes_; ++v) node_out_ptr_[v + 1] += node_out_ptr_[v];
  node_out_.resize(n_links_);
  std::vector<std::uint32_t> fill(node_out_ptr_.begin(), node_out_ptr_.end() - 1);
  for (std::uint32_t l = 0; l < n_links_; ++l) node_out_[fill[links_.source[l]]++] = l;
  const std::uint64_t seed = options_.seed;
  ecn_random_.state = splitmix64(seed ^ 0x65636E);
  loss_random_.state = splitmix64(seed ^ 0x6C6F7373);
  spray_random_.state = splitmix64(seed ^ 0x7370726179);
}

std::uint32_t Sim::add_switch_config(const SwitchConfig& c) {
  if (c.cell_bytes == 0) throw std::invalid_argument("cell_bytes must be at least 1");
  configs_.push_back(c);
  if (c.credits) {  // the sender's credits say what fits, so admission never refuses or pauses
    if (c.trimming) throw std::invalid_argument("a switch with credits cannot trim: it never drops");
    for (int i = 0; i < kPriorities; ++i)
      if (c.priority_map[i] != i)
        throw std::invalid_argument("a switch with credits needs the identity as priority_map");
    configs_.back().lossless = 0xFF;
    configs_.back().reserved_cells = kNone / 2;
  }
  return static_cast<std::uint32_t>(configs_.size() - 1);
}

void Sim::use_switch_config(std::uint32_t node, std::uint32_t number) {
  const std::uint32_t s = node < n_nodes_ ? node_switch_[node] : kNone;
  if (s == kNone) throw std::invalid_argument("settings for a node that is no switch");
  if (number >= configs_.size()) throw std::invalid_argument("there are no such settings");
  switches[s].config = number;
}

std::uint32_t Sim::add_nic_config(const NicConfig& c) {
  if (c.ack_every == 0) throw std::invalid_argument("ack_every must be at least 1");
  for (const int p : {c.data_priority, c.ack_priority, c.cnp_priority, c.request_priority})
    priorities_used_ |= static_cast<std::uint8_t>(1U << p);
  nics_.push_back(c);
  return static_cast<std::uint32_t>(nics_.size() - 1);
}

std::uint32_t Sim::add_pipe(const Pipe& p) {
  pipes.push_back(p);
  return static_cast<std::uint32_t>(pipes.size() - 1);
}

std::uint32_t Sim::add_table(const RouteTable* table, std::vector<std::uint32_t> seeds) {
  if (static_cast<std::uint32_t>(table->n_nodes()) != n_nodes_ || table->n_links() != n_links_)
    throw std::invalid_argument("a routing table of another network");
  if (seeds.size() != n_nodes_) throw std::invalid_argument("seeds must have an entry for each node");
  Table t{table, {}};
  for (std::uint32_t seed : seeds) t.devices.push_back(device_hash(HashFunction::crc32, kAllFields, seed));
  tables_.push_back(std::move(t));
  table_now_.push_back(static_cast<std::uint32_t>(table_now_.size()));
  return static_cast<std::uint32_t>(tables_.size() - 1);
}

void Sim::set_work(FlowInput flows, TaskInput tasks) {
  flows_ = std::move(flows);
  tasks_ = std::move(tasks);
  const std::size_t n = flows_.stream.size();
  senders.assign(n, Sender{});
  receivers.assign(n, Receiver{});
  cc.assign(n, CcState{});
  cc_path_.assign(n, CcPath{});
  record.flows.resize(n);
  retry_deadline_.assign(n, kNever);
  cc_timer_at_.assign(n, kNever);
  timed_at_.assign(n, kNever);
  retry_armed_.assign(n, 0);
  retries_used_.assign(n, 0);
  in_vain_.assign(n, 0);
  rnr_used_.assign(n, 0);
  messages_sent_.assign(n, 0);
  flow_finish.assign(n, kNever);
  for (std::size_t f = 0; f < n; ++f) {
    Sender& s = senders[f];
    Receiver& r = receivers[f];
    const std::uint64_t bytes = flows_.message_bytes[f];
    const std::uint64_t payload = flows_.payload_bytes[f];
    const std::uint64_t packets = std::max<std::uint64_t>(1, (bytes + payload - 1) / payload);
    if (packets >= kNone) throw std::invalid_argument("a message of too many packets");
    s.packets_a_message = static_cast<std::uint32_t>(packets);
    s.full_bytes = static_cast<std::uint32_t>(payload + flows_.overhead_bytes[f]);
    s.last_bytes = static_cast<std::uint32_t>(bytes - (packets - 1) * payload + flows_.overhead_bytes[f]);
    if (packets == 1) s.full_bytes = s.last_bytes;
    longest_bytes_ = std::max({longest_bytes_, s.full_bytes, s.last_bytes});
    s.stream = flows_.stream[f];
    s.nic = static_cast<std::uint16_t>(flows_.nic[f]);
    s.message_end = r.message_end = s.packets_a_message;
    s.tx_pipe = flows_.tx_pipe[f];
    s.choice = static_cast<Choice>(flows_.choice[f]);
    s.entropy = flows_.entropy[f];
    r.rx_pipe = flows_.rx_pipe[f];
    r.latency_ps = flows_.rx_latency_ps[f];
    cc_path_[f] = {flows_.line_rate_Bps[f], flows_.base_rtt_ps[f], static_cast<double>(s.full_bytes)};
    cc[f].rate_Bps = flows_.line_rate_Bps[f];
  }
  set_ways();
  set_graph();
  check_choices();
}

// Lays out the way of each flow and of its replies: the same links backwards.
void Sim::set_ways() {
  path_.clear();
  path_.reserve(2 * (flows_.path_link.size() + senders.size()));
  for (std::size_t f = 0; f < senders.size(); ++f) {
    const std::uint64_t first = flows_.path_ptr[f], last = flows_.path_ptr[f + 1];
    if (first == last) throw std::invalid_argument("a flow without links");
    senders[f].path = static_cast<std::uint32_t>(path_.size());
    for (std::uint64_t i = first; i < last; ++i) path_.push_back(flows_.path_link[i]);
    path_.push_back(kDeliver);
    senders[f].back = static_cast<std::uint32_t>(path_.size());
    for (std::uint64_t i = last; i-- > first;) path_.push_back(flows_.path_link[i] ^ 1U);
    path_.push_back(kDeliver);
    senders[f].port = flows_.path_link[first];
    cc_path_[f].hops = static_cast<int>(last - first) - 1;
    receivers[f].node = links_.target[flows_.path_link[last - 1]];
  }
}

// Turns what a thing waits for into what it wakes.
void Sim::set_graph() {
  const std::size_t tasks = tasks_.rounds.size();
  const std::size_t streams = tasks_.chunk_delay_ps.size();
  task_start.assign(tasks, kNever);
  task_finish.assign(tasks, kNever);
  stream_start.assign(streams, kNever);
  stream_finish.assign(streams, kNever);
  task_waits_.assign(tasks, 0);
  task_undelivered_.assign(tasks, 0);
  task_unsent_.assign(tasks, 0);
  chunks_posted_.assign(streams, 0);
  chunks_sent_.assign(streams, 0);
  chunks_delivered_.assign(streams, 0);
  chunk_pending_.assign(streams, 0);
  stream_task_.assign(streams, 0);
  for (std::uint32_t t = 0; t < tasks; ++t)
    for (std::uint64_t s = tasks_.task_stream[t]; s < tasks_.task_stream[t + 1]; ++s)
      stream_task_[s] = t;
  stream_flow_.assign(streams + 1, 0);
  for (std::uint32_t s : flows_.stream) ++stream_flow_[s + 1];
  for (std::size_t s = 0; s < streams; ++s) stream_flow_[s + 1] += stream_flow_[s];
  succ_ptr_.assign(tasks + 1, 0);
  for (std::uint32_t d : tasks_.dep_task) ++succ_ptr_[d + 1];
  for (std::size_t t = 0; t < tasks; ++t) succ_ptr_[t + 1] += succ_ptr_[t];
  succ_task_.assign(tasks_.dep_task.size(), 0);
  succ_kind_.assign(tasks_.dep_task.size(), 0);
  std::vector<std::uint64_t> fill(succ_ptr_.begin(), succ_ptr_.end());
  for (std::uint32_t t = 0; t < tasks; ++t)
    for (std::uint64_t i = tasks_.dep_ptr[t]; i < tasks_.dep_ptr[t + 1]; ++i, ++task_waits_[t]) {
      const std::uint64_t k = fill[tasks_.dep_task[i]]++;
      succ_task_[k] = t;
      succ_kind_[k] = tasks_.dep_kind[i];
    }
  stream_succ_ptr_.assign(streams + 1, 0);
  for (std::uint32_t q : tasks_.pred_stream) ++stream_succ_ptr_[q + 1];
  for (std::size_t s = 0; s < streams; ++s) stream_succ_ptr_[s + 1] += stream_succ_ptr_[s];
  stream_succ_.assign(tasks_.pred_stream.size(), 0);
  fill.assign(stream_succ_ptr_.begin(), stream_succ_ptr_.end());
  for (std::uint32_t s = 0; s < streams; ++s)
    for (std::uint64_t i = tasks_.pred_ptr[s]; i < tasks_.pred_ptr[s + 1]; ++i)
      stream_succ_[fill[tasks_.pred_stream[i]]++] = s;
  waits_for_sent_.assign(streams, 0);
  for (std::size_t s = 0; s < streams; ++s) {
    const std::uint32_t t = stream_task_[s];
    bool waits = tasks_.rounds[t] > 1;
    for (std::uint64_t i = succ_ptr_[t]; i < succ_ptr_[t + 1]; ++i) waits = waits || succ_kind_[i] == 1;
    waits_for_sent_[s] = waits;
  }
  for (std::size_t f = 0; f < senders.size(); ++f) {
    const std::uint64_t rounds = tasks_.rounds[stream_task_[senders[f].stream]];
    if (rounds * senders[f].packets_a_message >= kNone)
      throw std::invalid_argument("flow " + std::to_string(f) + " would send 2^32 packets or more");
  }
  message_first.assign(streams + 1, 0);
  for (std::size_t s = 0; s < streams; ++s)
    message_first[s + 1] = message_first[s] + tasks_.rounds[stream_task_[s]];
  constexpr std::uint64_t kMostMessages = 4'000'000;
  if (message_first.back() <= kMostMessages) {
    message_start.assign(message_first.back(), kNever);
    message_finish.assign(message_first.back(), kNever);
  }
}

void Sim::set_faults(std::vector<Fault> faults, std::vector<Epoch> epochs) {
  faults_ = std::move(faults);
  epochs_ = std::move(epochs);
  check_faults();
}

// Slots of the event wheel so long that about a dozen events fall into each.
void Sim::begin_run() {
  check_faults();  // again: settings may have been given after them
  begun_ = true;
  double hosts = 0;
  for (const Port& p : ports) hosts += (p.flags & kFromHost) ? 1 : 0;
  int shift = 15;  // 33 ns
  while (shift > 10 && hosts > (64 << (15 - shift))) --shift;
  wheel_ = Wheel(shift);
  wheel_.look(kFirst);
  for (std::uint32_t v = 0; v < n_nodes_; ++v)
    if (node_switch_[v] != kNone) use_config(v);
  for (std::uint32_t i = 0; i < faults_.size(); ++i)
    wheel_.push(faults_[i].time_ps, tag(Ev::fault), i);
  set_credits();
  if (options_.stuck_ps != 0) wheel_.push(options_.stuck_ps, tag(Ev::progress), 0);
  if (record.watched.period_ps != 0) {
    wheel_.push(0, tag(Ev::sample), 0);
    ++idle_events_;
  }
  start_tasks();
}

bool Sim::advance(Ps until, std::int64_t max_events, flow::Interrupt& interrupt) {
  if (!begun_) begin_run();
  if (end_ != End::running) return true;
  if (tasks_left_ == 0) {
    end_ = End::finished;
    return true;
  }
  const bool over = loop(until, max_events, interrupt);
  if (over && end_ == End::finished && !failed_flows.empty()) end_ = End::failed;
  if (over) audit();
  return over;
}

std::uint64_t Sim::data_hops() const {
  std::uint64_t packets = 0;
  for (const Port& p : ports) packets += p.tx_packets;
  return packets;
}

}  // namespace railweave::pkt
