#include "flow_rows.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace railweave::flow {

RowBuilder::RowBuilder(std::span<const double> capacity, std::int64_t nnz_hint,
                       bool force_weights)
    : capacity_(capacity), seen_(capacity.size(), -1), weighted_(force_weights) {
  rows_.link.reserve(static_cast<std::size_t>(nnz_hint));
  if (weighted_) rows_.weight.reserve(static_cast<std::size_t>(nnz_hint));
}

void RowBuilder::add(std::int32_t link, double weight) {
  if (weight == 0.0 || std::isinf(capacity_[link])) return;
  const bool again = seen_[link] >= rows_.ptr.back();
  if ((again || weight != 1.0) && !weighted_) {
    weighted_ = true;
    rows_.weight.assign(rows_.link.size(), 1.0);
  }
  if (again) {
    rows_.weight[seen_[link]] += weight;
    return;
  }
  seen_[link] = static_cast<std::int64_t>(rows_.link.size());
  rows_.link.push_back(link);
  if (weighted_) rows_.weight.push_back(weight);
}

void RowBuilder::end_row() { rows_.ptr.push_back(static_cast<std::int64_t>(rows_.link.size())); }

Rows RowBuilder::finish() {
  if (rows_.link.size() >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw std::invalid_argument("more than 2^31 link crossings");
  return std::move(rows_);
}

void check_capacity(std::span<const double> capacity) {
  for (std::size_t l = 0; l < capacity.size(); ++l)
    if (!(capacity[l] >= 0.0))
      throw std::invalid_argument("capacity_Bps[" + std::to_string(l) + "] is " +
                                  std::to_string(capacity[l]) + "; it must be 0 or more");
}

void check_rows(const RowsView& rows, std::int64_t variables, std::int64_t links) {
  const auto nnz = static_cast<std::int64_t>(rows.link.size());
  if (static_cast<std::int64_t>(rows.ptr.size()) != variables + 1)
    throw std::invalid_argument("row_ptr must have one entry more than there are rows");
  if (rows.ptr.front() != 0 || rows.ptr.back() != nnz)
    throw std::invalid_argument("row_ptr must run from 0 to len(row_link)");
  for (std::int64_t v = 0; v < variables; ++v)
    if (rows.ptr[v] > rows.ptr[v + 1])
      throw std::invalid_argument("row_ptr falls at row " + std::to_string(v));
  for (std::int64_t i = 0; i < nnz; ++i)
    if (rows.link[i] < 0 || rows.link[i] >= links)
      throw std::invalid_argument("row_link[" + std::to_string(i) + "] is " +
                                  std::to_string(rows.link[i]) + "; there are " +
                                  std::to_string(links) + " links");
  if (rows.weight.empty()) return;
  if (rows.weight.size() != rows.link.size())
    throw std::invalid_argument("row_weight must be as long as row_link");
  for (std::int64_t i = 0; i < nnz; ++i)
    if (!(rows.weight[i] >= 0.0) || std::isinf(rows.weight[i]))
      throw std::invalid_argument("row_weight[" + std::to_string(i) +
                                  "] must be finite and 0 or more");
}

}  // namespace railweave::flow
