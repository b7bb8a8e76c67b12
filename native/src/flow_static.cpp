#include "flow_static.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "flow_solver.hpp"

namespace railweave::flow {

// A cap is a link of its own that only its variable crosses.
std::vector<double> max_min_rates(std::span<const double> capacity, const RowsView& rows,
                                  std::span<const double> cap, bool capped,
                                  Interrupt& interrupt) {
  if (rows.ptr.empty()) throw std::invalid_argument("row_ptr must not be empty");
  const auto variables = static_cast<std::int64_t>(rows.ptr.size()) - 1;
  const auto links = static_cast<std::int64_t>(capacity.size());
  check_capacity(capacity);
  check_rows(rows, variables, links);
  if (capped && static_cast<std::int64_t>(cap.size()) != variables)
    throw std::invalid_argument("cap_Bps must have one entry a row");
  std::vector<double> limits(capacity.begin(), capacity.end());
  for (std::int64_t v = 0; capped && v < variables; ++v) {
    if (!(cap[v] >= 0.0))
      throw std::invalid_argument("cap_Bps[" + std::to_string(v) + "] must be 0 or more");
    limits.push_back(cap[v]);
  }
  RowBuilder builder(limits, static_cast<std::int64_t>(rows.link.size()) + variables, false);
  for (std::int64_t v = 0; v < variables; ++v) {
    for (auto e = rows.ptr[v]; e < rows.ptr[v + 1]; ++e)
      builder.add(rows.link[e], rows.weight.empty() ? 1.0 : rows.weight[e]);
    if (capped) builder.add(static_cast<std::int32_t>(links + v), 1.0);
    builder.end_row();
  }
  Rows built = builder.finish();
  const std::vector<std::int64_t> ptr = built.ptr;
  Solver solver(std::move(built), std::move(limits));
  for (std::int64_t v = 0; v < variables; ++v)
    if (ptr[v] < ptr[v + 1]) solver.add(static_cast<std::int32_t>(v), 1.0);
  solver.solve(0.0, interrupt);
  std::vector<double> rates(static_cast<std::size_t>(variables),
                            std::numeric_limits<double>::infinity());
  for (std::int64_t v = 0; v < variables; ++v)
    if (ptr[v] < ptr[v + 1]) rates[v] = solver.rate(static_cast<std::int32_t>(v));
  return rates;
}

std::vector<double> busiest_link_s(std::span<const double> capacity, const RowsView& rows,
                                   std::span<const double> row_bytes,
                                   std::span<const std::int64_t> message_ptr) {
  if (message_ptr.empty()) throw std::invalid_argument("message_ptr must not be empty");
  const auto variables = static_cast<std::int64_t>(row_bytes.size());
  check_rows(rows, variables, static_cast<std::int64_t>(capacity.size()));
  for (std::size_t m = 1; m < message_ptr.size(); ++m)
    if (message_ptr[m] < message_ptr[m - 1] || message_ptr[m] > variables || message_ptr[0] != 0)
      throw std::invalid_argument("message_ptr must rise from 0 within the rows");
  std::vector<double> load(capacity.size(), 0.0), out;
  out.reserve(message_ptr.size() - 1);
  for (std::size_t m = 0; m + 1 < message_ptr.size(); ++m) {
    double longest = 0.0;
    for (auto f = message_ptr[m]; f < message_ptr[m + 1]; ++f) {
      double worst = 0.0;
      for (auto e = rows.ptr[f]; e < rows.ptr[f + 1]; ++e) {
        const double weight = rows.weight.empty() ? 1.0 : rows.weight[e];
        worst = std::max(worst, weight / capacity[rows.link[e]]);
        load[rows.link[e]] += row_bytes[f] * weight;
      }
      if (row_bytes[f] > 0.0) longest = std::max(longest, row_bytes[f] * worst);
    }
    const auto first = rows.ptr[message_ptr[m]], last = rows.ptr[message_ptr[m + 1]];
    for (auto e = first; e < last; ++e) {
      const auto link = static_cast<std::size_t>(rows.link[e]);
      if (load[link] > 0.0) longest = std::max(longest, load[link] / capacity[link]);
      load[link] = 0.0;
    }
    out.push_back(longest);
  }
  return out;
}

}  // namespace railweave::flow
