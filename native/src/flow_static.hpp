// Max-min fair rates of a fixed set of variables.
#pragma once

#include <span>
#include <vector>

#include "flow_interrupt.hpp"
#include "flow_rows.hpp"

namespace railweave::flow {

std::vector<double> max_min_rates(std::span<const double> capacity, const RowsView& rows,
                                  std::span<const double> cap, bool capped,
                                  Interrupt& interrupt);

}  // namespace railweave::flow
