// Hash functions of switch ASICs over the RoCEv2 5-tuple, and how a hash picks an ECMP member.
//
// What is modelled: a switch packs the chosen header fields big-endian, runs a CRC or an XOR fold
// over them, and maps the result to one of k members. Its seed enters twice, as on real ASICs:
//   1. as the initial value of the hash. A CRC is affine-linear, h(x, seed) = h(x, 0) ^ c(seed), so
//      this alone only relabels the members: two tiers with different initial values still split
//      the flows along the same lines, and polarisation would stay.
//   2. in choosing which bits of the hash count. ASICs rotate or select bits by a seed; here it is
//      a multiply-shift by an odd constant derived from the seed, whose high bits pick the member.
// Equal seeds at two tiers therefore polarise in full; different seeds decorrelate.
// What is not modelled: vendor-specific bit orders, flow-label or inner-header hashing, and
// resilient-hashing tables. Every hash stays a function of the tuple's hash value alone, so two
// flows which collide in a 16-bit function collide at every switch.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace railweave {

enum class HashFunction : std::uint8_t { crc16, crc32, xor16 };

// Bits of a field mask, in the order in which the fields are packed.
enum HashField : std::uint32_t {
  kSrcIp = 1,
  kDstIp = 2,
  kProtocol = 4,
  kSrcPort = 8,
  kDstPort = 16,
  kQueuePair = 32,
  kAllFields = 63,
};

namespace detail {

constexpr std::array<std::uint32_t, 256> make_crc32() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1U) ? 0xEDB88320U : 0U);
    table[i] = c;
  }
  return table;
}

constexpr std::array<std::uint16_t, 256> make_crc16() {
  std::array<std::uint16_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i << 8;
    for (int bit = 0; bit < 8; ++bit) c = (c << 1) ^ ((c & 0x8000U) ? 0x1021U : 0U);
    table[i] = static_cast<std::uint16_t>(c);
  }
  return table;
}

inline constexpr auto kCrc32 = make_crc32();
inline constexpr auto kCrc16 = make_crc16();

inline std::uint32_t fold16(std::uint32_t v) { return (v ^ (v >> 16)) & 0xFFFFU; }

}  // namespace detail

// IEEE CRC-32; equals zlib.crc32(data, seed).
inline std::uint32_t crc32(const std::uint8_t* data, std::size_t n, std::uint32_t seed) {
  std::uint32_t c = ~seed;
  for (std::size_t i = 0; i < n; ++i) c = (c >> 8) ^ detail::kCrc32[(c ^ data[i]) & 0xFFU];
  return ~c;
}

// CRC-16/CCITT-FALSE; the seed folded to 16 bits is added to the usual initial value 0xFFFF.
inline std::uint32_t crc16(const std::uint8_t* data, std::size_t n, std::uint32_t seed) {
  std::uint32_t c = 0xFFFFU ^ detail::fold16(seed);
  for (std::size_t i = 0; i < n; ++i)
    c = ((c << 8) ^ detail::kCrc16[((c >> 8) ^ data[i]) & 0xFFU]) & 0xFFFFU;
  return c;
}

// Big-endian 16-bit words XORed together; a last odd byte counts as a high byte.
inline std::uint32_t xor16(const std::uint8_t* data, std::size_t n, std::uint32_t seed) {
  std::uint32_t c = detail::fold16(seed);
  for (std::size_t i = 0; i < n; ++i) c ^= (i & 1U) ? data[i] : std::uint32_t{data[i]} << 8;
  return c;
}

inline std::uint32_t hash_bytes(HashFunction f, const std::uint8_t* data, std::size_t n,
                                std::uint32_t seed) {
  switch (f) {
    case HashFunction::crc16: return crc16(data, n, seed);
    case HashFunction::crc32: return crc32(data, n, seed);
    default: return xor16(data, n, seed);
  }
}

struct FlowTuple {
  std::uint32_t src_ip = 0, dst_ip = 0;
  std::uint16_t src_port = 0, dst_port = 0;
  std::uint8_t protocol = 17;
  std::uint32_t qp = 0;
};

// Packs the fields of the mask into out (16 bytes are enough) and returns how many were written.
inline std::size_t pack_tuple(const FlowTuple& t, std::uint32_t mask, std::uint8_t* out) {
  std::size_t n = 0;
  auto put = [&](std::uint32_t v, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) out[n++] = static_cast<std::uint8_t>(v >> (8 * i));
  };
  if (mask & kSrcIp) put(t.src_ip, 4);
  if (mask & kDstIp) put(t.dst_ip, 4);
  if (mask & kProtocol) put(t.protocol, 1);
  if (mask & kSrcPort) put(t.src_port, 2);
  if (mask & kDstPort) put(t.dst_port, 2);
  if (mask & kQueuePair) put(t.qp, 3);
  return n;
}

inline std::uint32_t hash_tuple(HashFunction f, const FlowTuple& t, std::uint32_t mask,
                                std::uint32_t seed) {
  std::uint8_t bytes[16];
  return hash_bytes(f, bytes, pack_tuple(t, mask, bytes), seed);
}

inline std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// What one device does to the seed-free hash of a flow. Because every function here is affine in
// its seed, a flow is hashed once and each hop only XORs its own constant: same bits, less work.
struct DeviceHash {
  std::uint64_t multiplier = 1;
  std::uint32_t offset = 0;

  std::uint32_t pick(std::uint32_t hash, std::uint32_t members) const {
    const std::uint64_t high = (std::uint64_t{hash ^ offset} * multiplier) >> 32;
    return static_cast<std::uint32_t>((high * members) >> 32);
  }
};

inline DeviceHash device_hash(HashFunction f, std::uint32_t mask, std::uint32_t seed) {
  const FlowTuple zero{};
  DeviceHash d;
  d.offset = hash_tuple(f, zero, mask, seed) ^ hash_tuple(f, zero, mask, 0);
  d.multiplier = splitmix64(seed) | 1U;
  return d;
}

}  // namespace railweave
