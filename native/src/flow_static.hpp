// Max-min fair rates of a fixed set of variables, and what a message takes alone.
#pragma once

#include <span>
#include <vector>

#include "flow_interrupt.hpp"
#include "flow_rows.hpp"

namespace railweave::flow {

std::vector<double> max_min_rates(std::span<const double> capacity, const RowsView& rows,
                                  std::span<const double> cap, bool capped,
                                  Interrupt& interrupt);

// Seconds that the busiest link of each message is busy with it; a message's flows are the rows
// message_ptr[m]:message_ptr[m + 1].
std::vector<double> busiest_link_s(std::span<const double> capacity, const RowsView& rows,
                                   std::span<const double> row_bytes,
                                   std::span<const std::int64_t> message_ptr);

}  // namespace railweave::flow
