// Walking flows over a compiled table: one path a flow, or all equal-cost paths with their shares.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "route_hash.hpp"
#include "route_table.hpp"

namespace railweave {

enum class Scheme : std::uint8_t { ecmp, dmodk, table, adaptive, spray, pinned };

enum WalkStatus : std::uint8_t { kOk = 0, kUnreachable = 1, kNoEntry = 2, kLoop = 3 };

// Null means "not given". Arrays are one entry a flow unless said otherwise.
struct WalkInput {
  std::int64_t flows = 0;
  Scheme scheme = Scheme::ecmp;
  HashFunction function = HashFunction::crc32;
  std::uint32_t mask = kAllFields & ~std::uint32_t{kQueuePair};
  std::uint8_t protocol = 17;
  const std::int32_t *src = nullptr, *dst = nullptr;
  const std::uint32_t *src_ip = nullptr, *dst_ip = nullptr, *qp = nullptr;
  const std::uint16_t *src_port = nullptr, *dst_port = nullptr;
  const std::uint32_t* seeds = nullptr;  // one a node
  const double *size_bytes = nullptr, *capacity_bps = nullptr;  // capacity: one a link
  const std::int32_t *prefix = nullptr, *suffix = nullptr, *port_choice = nullptr, *pin = nullptr;
  const std::int64_t* table_ptr = nullptr;  // one a node and one more
  const std::int32_t *table_dst = nullptr, *table_link = nullptr;
};

// Plain buffers, so that NumPy can take them over without a copy.
template <class T>
struct Buffer {
  T* data = nullptr;
  std::int64_t size = 0;

  explicit Buffer(std::int64_t n = 0) : data(n > 0 ? new T[n] : nullptr), size(n) {}
  Buffer(Buffer&& o) noexcept : data(o.data), size(o.size) { o.data = nullptr; }
  Buffer& operator=(Buffer&& o) noexcept {
    std::swap(data, o.data);
    std::swap(size, o.size);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { delete[] data; }
  T* release() {
    T* d = data;
    data = nullptr;
    return d;
  }
};

struct WalkOutput {
  Buffer<std::int64_t> ptr;
  Buffer<std::int32_t> link;
  Buffer<double> weight;  // spray only
  Buffer<std::uint8_t> status;
};

// Where a flow enters and leaves the switches.
struct Ends {
  std::int32_t port_link = -1;  // -1: no way
  std::int32_t sw = -1;
  std::int32_t exit = -1;  // index of the destination's RouteTable::Exit
  std::uint32_t hash = 0;
  std::uint32_t place = 0;  // d-mod-k: destination's place among the endpoints of the port taken
  std::uint8_t hops = kFar;
  std::uint8_t status = kUnreachable;
};

// All ports and exits of a flow which are equally near; kept between flows to save allocations.
struct Choices {
  std::uint8_t hops = kFar;
  std::vector<std::int32_t> ports;  // places in the source's port list
  std::vector<std::int32_t> exits;  // for the port taken: exit indices
};

class Walker {
 public:
  Walker(const RouteTable& table, const WalkInput& in);
  WalkOutput run(const Poll& poll) const;

 private:
  WalkOutput run_hashed(const Poll& poll) const;
  WalkOutput run_adaptive(const Poll& poll) const;
  WalkOutput run_table(const Poll& poll) const;
  WalkOutput run_spray(const Poll& poll) const;

  void check_flows(std::int64_t first, std::int64_t last) const;
  std::uint32_t flow_hash(std::int64_t i) const;
  void near_ports(std::int64_t i, Choices& c) const;
  void near_exits(std::int64_t i, std::int32_t port, Choices& c) const;
  Ends choose_ends(std::int64_t i, Choices& c) const;
  std::vector<Ends> all_ends(const Poll& poll) const;
  WalkOutput allot(const std::vector<Ends>& ends) const;
  template <class Pick>
  void walk_range(const std::vector<Ends>& ends, WalkOutput& out, std::int64_t first,
                  std::int64_t last, Pick pick) const;
  template <class Pick>
  void walk_all(const std::vector<Ends>& ends, WalkOutput& out, const Poll& poll, Pick pick) const;
  bool mirrors(const Ends& e, const RouteTable::Member& down) const;
  bool own_way(const Ends& e, std::int32_t sw) const;
  std::uint32_t dmodk_member(const Ends& e, std::int32_t sw, RouteTable::Set set) const;
  std::int32_t table_entry(std::int32_t node, std::int32_t dst) const;
  std::uint8_t follow_table(std::int64_t i, std::vector<std::int32_t>& path) const;
  bool has_prefix(std::int64_t i) const { return in_.prefix && in_.prefix[i] >= 0; }
  bool has_suffix(std::int64_t i) const { return in_.suffix && in_.suffix[i] >= 0; }
  const DeviceHash& device(std::int32_t node) const { return devices_[node]; }

  const RouteTable& table_;
  const WalkInput& in_;
  std::vector<DeviceHash> devices_;         // one a node
  std::vector<DeviceHash> switch_devices_;  // the same by switch index: dense, for the hot loop
};

}  // namespace railweave
