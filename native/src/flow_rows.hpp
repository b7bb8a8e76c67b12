// Rows of the constraint matrix: the links each variable crosses, and with what weight.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace railweave::flow {

struct Rows {
  std::vector<std::int64_t> ptr{0};
  std::vector<std::int32_t> link;
  std::vector<double> weight;  // empty when every weight is 1

  std::int32_t count() const { return static_cast<std::int32_t>(ptr.size() - 1); }
};

// What the caller hands over: CSR as it came, weights may be absent (all 1).
struct RowsView {
  std::span<const std::int64_t> ptr;
  std::span<const std::int32_t> link;
  std::span<const double> weight;
};

// Appends rows with duplicate links merged and links that can never bind (weight 0, infinite
// capacity) left out. Keeps the weights only if one of them differs from 1.
class RowBuilder {
 public:
  RowBuilder(std::span<const double> capacity, std::int64_t nnz_hint, bool force_weights);
  void add(std::int32_t link, double weight);
  void end_row();
  Rows finish();

 private:
  std::span<const double> capacity_;
  std::vector<std::int64_t> seen_;  // link -> its index in the row being built
  Rows rows_;
  bool weighted_;
};

void check_rows(const RowsView& rows, std::int64_t variables, std::int64_t links);
void check_capacity(std::span<const double> capacity);

}  // namespace railweave::flow
