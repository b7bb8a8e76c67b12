// Receiver-driven sending (clear-to-send): a sender asks when a message is posted, and the receiving
// adapter grants a few packets at a time, in turn over those that ask, so that no more than its
// window is on the way to it. Requests and grants travel as packets and may be lost; the sender's
// retry timer repeats the request, which the receiver always answers with what it has granted.
// When a queue pair fails its receiver takes back what it had granted, which a real one learns later.
#include <algorithm>

#include "pkt_sim.hpp"

namespace railweave::pkt {

void Sim::request_grant(std::uint32_t flow) { send_request(flow, false); }

void Sim::send_request(std::uint32_t flow, bool again) {
  const Sender& s = senders[flow];
  const NicConfig& n = nic(s);
  const std::uint32_t id = reply_to(flow, Kind::request, n.ack_bytes, n.request_priority);
  Packet& k = pool_[id];
  k.psn = s.posted;
  if (again) k.flags |= kAgain;
  arm_retry(flow);
  send_reply(id, flow);
}

void Sim::on_request(std::uint32_t flow, const Packet& p) {
  if (grants_.empty()) {
    grants_.resize(senders.size());
    grant_nodes_.resize(n_nodes_);
  }
  if (senders[flow].flags & kFailed) return;
  GrantFlow& g = grants_[flow];
  g.wanted = std::max(g.wanted, p.psn);
  const std::uint32_t node = receivers[flow].node;
  const std::uint32_t before = g.granted;
  if (g.granted < g.wanted && !g.in_line) {
    g.in_line = true;
    grant_nodes_[node].line.push_back(flow);
  }
  on_grant_due(node);
  if ((p.flags & kAgain) && g.granted == before) send_grant(flow);
}

// Grants while the node's window has room; one grant may exceed it if nothing else is on the way.
void Sim::on_grant_due(std::uint32_t node) {
  GrantNode& at_node = grant_nodes_[node];
  while (!at_node.line.empty()) {
    const std::uint32_t flow = at_node.line.front();
    const Sender& s = senders[flow];
    const NicConfig& n = nic(s);
    GrantFlow& g = grants_[flow];
    if ((s.flags & kFailed) || g.granted >= g.wanted) {
      g.in_line = false;
      at_node.line.pop_front();
      continue;
    }
    const std::uint32_t most = std::max<std::uint32_t>(1, n.receiver_grant_bytes / s.full_bytes);
    const std::uint32_t to = g.granted + std::min(most, g.wanted - g.granted);
    const std::uint64_t bytes = bytes_between(s, g.granted, to);
    if (at_node.out_bytes != 0 && at_node.out_bytes + bytes > n.receiver_window_bytes) return;
    at_node.line.pop_front();
    g.granted = to;
    at_node.out_bytes += bytes;
    g.in_line = g.granted < g.wanted;
    if (g.in_line) at_node.line.push_back(flow);
    send_grant(flow);
  }
}

void Sim::send_grant(std::uint32_t flow) {
  const NicConfig& n = nic(senders[flow]);
  const std::uint32_t id = reply_to(flow, Kind::grant, n.ack_bytes, n.request_priority);
  pool_[id].psn = grants_[flow].granted;
  send_reply(id, flow);
}

void Sim::granted_arrived(std::uint32_t flow, std::uint32_t from, std::uint32_t to) {
  GrantNode& at_node = grant_nodes_[receivers[flow].node];
  at_node.out_bytes -= bytes_between(senders[flow], from, to);
  if (!at_node.line.empty()) on_grant_due(receivers[flow].node);
}

void Sim::give_up_grants(std::uint32_t flow) {
  if (grants_.empty() || nic(senders[flow]).receiver_grant_bytes == 0) return;
  const Receiver& r = receivers[flow];
  GrantNode& at_node = grant_nodes_[r.node];
  at_node.out_bytes -= bytes_between(senders[flow], r.expected, grants_[flow].granted);
  grants_[flow].wanted = grants_[flow].granted = r.expected;
  on_grant_due(r.node);
}

}  // namespace railweave::pkt
