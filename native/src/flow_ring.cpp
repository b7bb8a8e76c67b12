#include "flow_ring.hpp"

#include <algorithm>
#include <limits>

namespace railweave::flow {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::int32_t kMemory = 1 << 21;  // doubles of history
}  // namespace

Ring::Ring(const std::vector<std::int32_t>& from, const std::vector<std::int32_t>& lag) {
  const auto n = static_cast<std::int32_t>(from.size());
  std::vector<std::int32_t> to(from.size(), -1);
  std::int32_t first = -1;
  for (std::int32_t i = 0; i < n; ++i) {
    if (lag[i] > 1 || to[from[i]] >= 0) return;
    to[from[i]] = i;
    if (lag[i] == 1) first = i;
  }
  if (first < 0) return;
  std::vector<std::int32_t> order;
  order.reserve(from.size());
  for (std::int32_t i = first; order.empty() || i != first; i = to[i]) order.push_back(i);
  if (static_cast<std::int32_t>(order.size()) != n) return;
  hops_ = n;
  order_ = std::move(order);
  hop_.resize(from.size());
  for (std::int32_t c = 0; c < n; ++c) hop_[order_[c]] = c;
  lag_.resize(from.size());
  lags_.resize(from.size());
  std::int32_t sum = 0, run = 0;
  for (std::int32_t c = 0; c < n; ++c) {
    lag_[c] = lag[order_[c]];
    lags_[c] = sum += lag_[c];
    run = lag_[c] == 0 ? run + 1 : 1;
    hops_a_round_ = std::max(hops_a_round_, run);
  }
  tokens_ = sum;
  last_.resize(static_cast<std::size_t>(tokens_) + 1);
  for (std::int32_t c = 0; c < n; ++c) last_[lags_[c]] = c;
}

void Ring::set_times(const std::vector<double>& time, const std::vector<double>& latency) {
  const auto n = static_cast<std::size_t>(hops_);
  time_.resize(n);
  path_.resize(n);
  by_time_.resize(n);
  lap_ = 0.0;
  for (std::size_t c = 0; c < n; ++c) {
    time_[c] = time[order_[c]];
    path_[c] = lap_ += latency[order_[c]] + time_[c];
    by_time_[c] = static_cast<std::int32_t>(c);
  }
  std::sort(by_time_.begin(), by_time_.end(), [this](std::int32_t a, std::int32_t b) {
    return time_[a] != time_[b] ? time_[a] < time_[b] : a < b;
  });
}

std::int32_t Ring::inspect(const double* sent) {
  const auto n = static_cast<std::size_t>(hops_);
  gap_.resize(n);
  // How long after its last chunk each hop would send the next one, were it not to wait for it.
  for (std::size_t c = 0; c < n; ++c) {
    const std::size_t before = c == 0 ? n - 1 : c - 1;
    const double hop = c == 0 ? path_[0] : path_[c] - path_[before];
    gap_[c] = sent[order_[before]] + hop - sent[order_[c]];
    if (lag_[c] == 0) gap_[c] += std::max(gap_[before], time_[before]);
  }
  // The largest number of hops, from the fastest on, that fulfil the condition at the head.
  std::size_t fine = 0;
  double low = kInf;
  for (std::size_t i = 0; i < n;) {
    const double time = time_[by_time_[i]];
    for (; i < n && time_[by_time_[i]] == time; ++i) low = std::min(low, gap_[by_time_[i]]);
    if (low < time) break;
    fine = i;
  }
  slow_.assign(by_time_.begin() + static_cast<std::ptrdiff_t>(fine), by_time_.end());
  std::sort(slow_.begin(), slow_.end());
  slow_before_.assign(n, -1);
  for (std::size_t s = 0; s < slow_.size(); ++s)
    slow_before_[slow_[s]] = static_cast<std::int32_t>(s);
  for (std::size_t c = 1; c < n; ++c)
    if (slow_before_[c] < 0) slow_before_[c] = slow_before_[c - 1];
  for (std::size_t c = 0; c < n && slow_before_[c] < 0; ++c)
    slow_before_[c] = static_cast<std::int32_t>(slow_.size()) - 1;  // round the end of the ring
  return static_cast<std::int32_t>(slow_.size());
}

std::int32_t Ring::reach() const {
  if (slow_.empty()) return std::numeric_limits<std::int32_t>::max();
  return std::max(1, kMemory / static_cast<std::int32_t>(slow_.size()));
}

// The chunk that the hop sends `rounds` (1 or more) after the state: which hop had sent it then.
Ring::Source Ring::source(std::int32_t hop, std::int32_t rounds) const {
  const std::int32_t back = lags_[hop] - rounds - 1;  // laps of tokens_, counted from lags 1
  const std::int32_t laps = back >= 0 ? 0 : (back + 1) / tokens_ - 1;
  const std::int32_t from = last_[back - laps * tokens_ + 1];
  return {from, path_[hop] - path_[from] - laps * lap_};
}

// History of the slow hops, one row a round, for each of the rounds.
void Ring::look(const double* sent, std::int32_t rounds) {
  const std::size_t m = slow_.size();
  if (m == 0) return;
  history_.resize(m * static_cast<std::size_t>(rounds));
  struct Way {
    std::int32_t lags;
    double path, time;
  };
  std::vector<Way> way(m);
  for (std::size_t s = 0; s < m; ++s) {
    const std::size_t before = s == 0 ? m - 1 : s - 1;
    const std::int32_t hop = slow_[s], from = slow_[before];
    way[s] = {lags_[hop] - lags_[from] + (s == 0 ? tokens_ : 0),
              path_[hop] - path_[from] + (s == 0 ? lap_ : 0.0), time_[hop]};
  }
  for (std::int32_t k = 1; k <= rounds; ++k) {
    double* now = history_.data() + static_cast<std::size_t>(k - 1) * m;
    for (std::size_t s = 0; s < m; ++s) {
      double end;  // were it not to wait for the chunk before
      if (way[s].lags < k) {
        const std::size_t before = s == 0 ? m - 1 : s - 1;
        end = history_[static_cast<std::size_t>(k - 1 - way[s].lags) * m + before] + way[s].path;
      } else {
        const Source from = source(slow_[s], k);
        end = sent[order_[from.hop]] + from.path;
      }
      const double own = k > 1 ? (now - m)[s] : sent[order_[slow_[s]]];
      now[s] = std::max(end, own + way[s].time);
    }
  }
}

double Ring::at_hop(const double* sent, std::int32_t hop, std::int32_t rounds) const {
  const std::int32_t s = slow_before_[hop];
  if (s >= 0) {
    const std::int32_t from = slow_[s];
    const std::int32_t lags = lags_[hop] - lags_[from] + (from > hop ? tokens_ : 0);
    if (lags < rounds)
      return history_[static_cast<std::size_t>(rounds - 1 - lags) * slow_.size() +
                      static_cast<std::size_t>(s)] +
             path_[hop] - path_[from] + (from > hop ? lap_ : 0.0);
  }
  const Source from = source(hop, rounds);
  return sent[order_[from.hop]] + from.path;
}

double Ring::sends(const double* sent, std::int32_t stream, std::int32_t round) const {
  return round == 0 ? sent[stream] : at_hop(sent, hop_[stream], round);
}

void Ring::jump(double* sent, std::int32_t rounds) {
  if (rounds <= 0) return;
  look(sent, rounds);
  next_.resize(static_cast<std::size_t>(hops_));
  for (std::int32_t c = 0; c < hops_; ++c) next_[c] = at_hop(sent, c, rounds);
  for (std::int32_t c = 0; c < hops_; ++c) sent[order_[c]] = next_[c];
}

}  // namespace railweave::flow
