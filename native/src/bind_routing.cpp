// Python's view of routing: RouteTable, hash functions and the count of flows on links.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "route_dependency.hpp"
#include "route_walk.hpp"

namespace nb = nanobind;

namespace railweave {

namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Maybe = std::optional<Array<T>>;
template <class T>
using NewArray = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

// Runs without the GIL; taking it for a moment lets Python see Ctrl-C.
void poll_signals() {
  const nb::gil_scoped_acquire hold;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

template <class T>
NewArray<T> give(Buffer<T>&& buffer) {
  const auto n = static_cast<std::size_t>(buffer.size);
  T* data = n > 0 ? buffer.release() : new T[1];
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return NewArray<T>(data, {n}, owner);
}

void need_length(const char* name, std::size_t got, std::int64_t wanted) {
  if (static_cast<std::int64_t>(got) != wanted)
    throw std::invalid_argument(std::string(name) + " has " + std::to_string(got) + " entries, expected " +
                                std::to_string(wanted));
}

template <class T>
const T* data_of(const char* name, const Maybe<T>& array, std::int64_t wanted) {
  if (!array) return nullptr;
  need_length(name, array->size(), wanted);
  return array->data();
}

HashFunction parse_function(const std::string& name) {
  if (name == "crc16") return HashFunction::crc16;
  if (name == "crc32") return HashFunction::crc32;
  if (name == "xor") return HashFunction::xor16;
  throw std::invalid_argument("unknown hash function '" + name + "': crc16, crc32 or xor");
}

Scheme parse_scheme(const std::string& name) {
  if (name == "ecmp") return Scheme::ecmp;
  if (name == "dmodk") return Scheme::dmodk;
  if (name == "table") return Scheme::table;
  if (name == "adaptive") return Scheme::adaptive;
  if (name == "spray") return Scheme::spray;
  if (name == "pinned") return Scheme::pinned;
  throw std::invalid_argument("unknown scheme '" + name +
                              "': ecmp, dmodk, table, adaptive, spray or pinned");
}

void need_fields(const WalkInput& in) {
  if (in.mask > kAllFields) throw std::invalid_argument("field_mask has unknown bits");
  const std::pair<HashField, const void*> needs[] = {{kSrcIp, in.src_ip},
                                                     {kDstIp, in.dst_ip},
                                                     {kSrcPort, in.src_port},
                                                     {kDstPort, in.dst_port},
                                                     {kQueuePair, in.qp}};
  const char* names[] = {"src_ip", "dst_ip", "src_port", "dst_port", "qp"};
  if (in.flows == 0 || in.scheme == Scheme::dmodk || in.scheme == Scheme::pinned || in.scheme == Scheme::spray)
    return;
  for (int k = 0; k < 5; ++k)
    if ((in.mask & needs[k].first) && needs[k].second == nullptr)
      throw std::invalid_argument(std::string("field_mask includes ") + names[k] + ", which is not given");
}

void need_table(const RouteTable& t, const WalkInput& in, std::size_t entries) {
  if (!in.table_ptr || !in.table_dst || !in.table_link)
    throw std::invalid_argument("scheme 'table' needs table_ptr, table_dst and table_link");
  const std::int32_t n = t.n_nodes();
  if (in.table_ptr[0] != 0 || in.table_ptr[n] != static_cast<std::int64_t>(entries))
    throw std::invalid_argument("table_ptr must run from 0 to the number of table entries");
  for (std::int32_t v = 0; v < n; ++v)
    if (in.table_ptr[v + 1] < in.table_ptr[v]) throw std::invalid_argument("table_ptr must not fall");
  for (std::int32_t v = 0; v < n; ++v)
    for (auto k = in.table_ptr[v]; k < in.table_ptr[v + 1]; ++k) {
      if (k > in.table_ptr[v] && in.table_dst[k] <= in.table_dst[k - 1])
        throw std::invalid_argument("table_dst must rise within each node");
      const auto l = in.table_link[k];
      if (l >= t.n_links() || (l >= 0 && t.link_src(l) != v))
        throw std::invalid_argument("table entry " + std::to_string(k) + ": link " + std::to_string(l) +
                                    " does not leave node " + std::to_string(v));
    }
}

void need_sizes(const RouteTable& t, const WalkInput& in) {
  if (!in.size_bytes || !in.capacity_bps)
    throw std::invalid_argument("scheme 'adaptive' needs size_bytes and capacity_bps");
  for (std::int64_t l = 0; l < t.n_links(); ++l)
    if (!(in.capacity_bps[l] > 0.0)) throw std::invalid_argument("capacity_bps must be positive");
  for (std::int64_t i = 0; i < in.flows; ++i)
    if (!(in.size_bytes[i] >= 0.0)) throw std::invalid_argument("size_bytes must not be negative");
}

nb::tuple walk(const RouteTable& table, Array<std::int32_t> src, Array<std::int32_t> dst,
               const std::string& scheme, const std::string& hash_function, std::uint32_t field_mask,
               Maybe<std::uint32_t> src_ip, Maybe<std::uint32_t> dst_ip, Maybe<std::uint16_t> src_port,
               Maybe<std::uint16_t> dst_port, int protocol, Maybe<std::uint32_t> qp,
               Array<std::uint32_t> seeds, Maybe<double> size_bytes, Maybe<double> capacity_bps,
               Maybe<std::int32_t> prefix_link, Maybe<std::int32_t> suffix_link,
               Maybe<std::int32_t> port_choice, Maybe<std::int32_t> pin, Maybe<std::int64_t> table_ptr,
               Maybe<std::int32_t> table_dst, Maybe<std::int32_t> table_link) {
  WalkInput in;
  const auto m = static_cast<std::int64_t>(src.size());
  in.flows = m;
  in.scheme = parse_scheme(scheme);
  in.function = parse_function(hash_function);
  in.mask = field_mask;
  if (protocol < 0 || protocol > 255) throw std::invalid_argument("protocol must be 0 to 255");
  in.protocol = static_cast<std::uint8_t>(protocol);
  need_length("dst", dst.size(), m);
  need_length("seeds", seeds.size(), table.n_nodes());
  in.src = src.data();
  in.dst = dst.data();
  in.seeds = seeds.data();
  in.src_ip = data_of("src_ip", src_ip, m);
  in.dst_ip = data_of("dst_ip", dst_ip, m);
  in.src_port = data_of("src_port", src_port, m);
  in.dst_port = data_of("dst_port", dst_port, m);
  in.qp = data_of("qp", qp, m);
  in.size_bytes = data_of("size_bytes", size_bytes, m);
  in.capacity_bps = data_of("capacity_bps", capacity_bps, table.n_links());
  in.prefix = data_of("prefix_link", prefix_link, m);
  in.suffix = data_of("suffix_link", suffix_link, m);
  in.port_choice = data_of("port_choice", port_choice, m);
  in.pin = data_of("pin", pin, m);
  in.table_ptr = data_of("table_ptr", table_ptr, table.n_nodes() + std::int64_t{1});
  const std::size_t entries = table_dst ? table_dst->size() : 0;
  in.table_dst = data_of("table_dst", table_dst, static_cast<std::int64_t>(entries));
  in.table_link = data_of("table_link", table_link, static_cast<std::int64_t>(entries));
  need_fields(in);
  if (in.scheme == Scheme::table) need_table(table, in, entries);
  if (in.scheme == Scheme::adaptive) need_sizes(table, in);
  if (in.scheme == Scheme::pinned && !in.pin) throw std::invalid_argument("scheme 'pinned' needs pin");
  WalkOutput out;
  {
    const nb::gil_scoped_release free;
    out = Walker(table, in).run(poll_signals);
  }
  nb::object weight = nb::none();
  if (in.scheme == Scheme::spray) weight = nb::cast(give(std::move(out.weight)));
  return nb::make_tuple(give(std::move(out.ptr)), give(std::move(out.link)), weight,
                        give(std::move(out.status)));
}

void make_table(RouteTable* self, std::int32_t n_nodes, Array<std::int32_t> link_src,
                Array<std::int32_t> link_dst, Array<bool> link_up, Array<std::uint8_t> is_switch,
                Array<std::int8_t> tier, int threads) {
  RouteGraph g;
  if (n_nodes < 0) throw std::invalid_argument("n_nodes must not be negative");
  g.n_nodes = n_nodes;
  g.n_links = static_cast<std::int64_t>(link_src.size());
  need_length("link_dst", link_dst.size(), g.n_links);
  need_length("link_up", link_up.size(), g.n_links);
  need_length("is_switch", is_switch.size(), n_nodes);
  need_length("tier", tier.size(), n_nodes);
  g.link_src = link_src.data();
  g.link_dst = link_dst.data();
  g.link_up = reinterpret_cast<const std::uint8_t*>(link_up.data());
  g.is_switch = is_switch.data();
  g.tier = tier.data();
  const nb::gil_scoped_release free;
  new (self) RouteTable(g, threads, poll_signals);
}

RouteTable::Set next_set(const RouteTable& t, std::int32_t sw, std::int32_t dst_edge) {
  for (const auto v : {sw, dst_edge})
    if (v < 0 || v >= t.n_nodes() || t.switch_of(v) < 0)
      throw std::invalid_argument("node " + std::to_string(v) + " is not a switch");
  const auto edge = t.edge_of(t.switch_of(dst_edge));
  if (edge < 0) throw std::invalid_argument("switch " + std::to_string(dst_edge) + " has no endpoints");
  return t.next(t.switch_of(sw), edge);
}

NewArray<std::int32_t> next_hops(const RouteTable& t, std::int32_t sw, std::int32_t dst_edge) {
  const auto set = next_set(t, sw, dst_edge);
  Buffer<std::int32_t> out(set.size);
  for (std::uint32_t k = 0; k < set.size; ++k) out.data[k] = t.node_of(set.first[k].next);
  return give(std::move(out));
}

NewArray<std::int32_t> next_links(const RouteTable& t, std::int32_t sw, std::int32_t dst_edge) {
  const auto set = next_set(t, sw, dst_edge);
  Buffer<std::int32_t> out(set.size);
  for (std::uint32_t k = 0; k < set.size; ++k) out.data[k] = set.first[k].link;
  return give(std::move(out));
}

NewArray<std::int32_t> edge_switches(const RouteTable& t) {
  Buffer<std::int32_t> out(t.n_edges());
  for (std::int32_t e = 0; e < t.n_edges(); ++e) out.data[e] = t.edge_node(e);
  return give(std::move(out));
}

NewArray<std::int64_t> count_by_link(Array<std::int64_t> ptr, Array<std::int32_t> link, std::int64_t n_links) {
  if (n_links < 0) throw std::invalid_argument("n_links must not be negative");
  if (ptr.size() == 0 || ptr.data()[ptr.size() - 1] != static_cast<std::int64_t>(link.size()))
    throw std::invalid_argument("ptr must end at the number of links listed");
  Buffer<std::int64_t> out(n_links);
  for (std::int64_t l = 0; l < n_links; ++l) out.data[l] = 0;
  for (std::size_t i = 0; i < link.size(); ++i) {
    const auto l = link.data()[i];
    if (l < 0 || l >= n_links) throw std::invalid_argument("there is no link " + std::to_string(l));
    ++out.data[l];
  }
  return give(std::move(out));
}

FlowTuple make_tuple_fields(std::uint32_t src_ip, std::uint32_t dst_ip, int protocol, int src_port,
                            int dst_port, std::uint32_t qp) {
  if (protocol < 0 || protocol > 255) throw std::invalid_argument("protocol must be 0 to 255");
  for (const int port : {src_port, dst_port})
    if (port < 0 || port > 65535) throw std::invalid_argument("a port must be 0 to 65535");
  if (qp >= (1U << 24)) throw std::invalid_argument("qp must fit in 24 bits");
  FlowTuple t;
  t.src_ip = src_ip;
  t.dst_ip = dst_ip;
  t.protocol = static_cast<std::uint8_t>(protocol);
  t.src_port = static_cast<std::uint16_t>(src_port);
  t.dst_port = static_cast<std::uint16_t>(dst_port);
  t.qp = qp;
  return t;
}

void bind_hashes(nb::module_& m) {
  using namespace nb::literals;
  m.attr("FIELD_SRC_IP") = static_cast<int>(kSrcIp);
  m.attr("FIELD_DST_IP") = static_cast<int>(kDstIp);
  m.attr("FIELD_PROTOCOL") = static_cast<int>(kProtocol);
  m.attr("FIELD_SRC_PORT") = static_cast<int>(kSrcPort);
  m.attr("FIELD_DST_PORT") = static_cast<int>(kDstPort);
  m.attr("FIELD_QP") = static_cast<int>(kQueuePair);
  m.def(
      "hash_bytes",
      [](const std::string& function, nb::bytes data, std::uint32_t seed) {
        return hash_bytes(parse_function(function), reinterpret_cast<const std::uint8_t*>(data.c_str()),
                          data.size(), seed);
      },
      "function"_a, "data"_a, "seed"_a = 0);
  m.def(
      "hash_tuple",
      [](const std::string& function, std::uint32_t src_ip, std::uint32_t dst_ip, int protocol, int src_port,
         int dst_port, std::uint32_t qp, std::uint32_t field_mask, std::uint32_t seed) {
        if (field_mask > kAllFields) throw std::invalid_argument("field_mask has unknown bits");
        const auto t = make_tuple_fields(src_ip, dst_ip, protocol, src_port, dst_port, qp);
        return hash_tuple(parse_function(function), t, field_mask, seed);
      },
      "function"_a, "src_ip"_a, "dst_ip"_a, "protocol"_a, "src_port"_a, "dst_port"_a, "qp"_a = 0,
      "field_mask"_a = 31, "seed"_a = 0);
  m.def(
      "pick_member",
      [](std::uint32_t hash, std::uint32_t seed, std::uint32_t members) {
        if (members == 0) throw std::invalid_argument("members must be positive");
        DeviceHash d;
        d.multiplier = splitmix64(seed) | 1U;
        return d.pick(hash, members);
      },
      "hash"_a, "seed"_a, "members"_a);
  m.def("count_by_link", &count_by_link, "ptr"_a, "link"_a, "n_links"_a);
}

NewArray<std::int32_t> give_copy(const std::vector<std::int32_t>& values) {
  Buffer<std::int32_t> out(static_cast<std::int64_t>(values.size()));
  std::copy(values.begin(), values.end(), out.data);
  return give(std::move(out));
}

void add_entries(LinkDependencies& d, Array<std::int32_t> node, Array<std::int32_t> destination,
                 Array<std::int32_t> link) {
  LinkDependencies::Entries entries;
  entries.count = static_cast<std::int64_t>(node.size());
  need_length("destination", destination.size(), entries.count);
  need_length("link", link.size(), entries.count);
  entries.node = node.data();
  entries.destination = destination.data();
  entries.link = link.data();
  const nb::gil_scoped_release free;
  d.add_entries(entries, poll_signals);
}

nb::tuple shortest_cycle(const LinkDependencies& d, std::int64_t max_steps) {
  LinkDependencies::Cycle cycle;
  {
    const nb::gil_scoped_release free;
    cycle = d.shortest_cycle(max_steps, poll_signals);
  }
  return nb::make_tuple(give_copy(cycle.links), cycle.shortest);
}

void bind_dependencies(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<LinkDependencies>(m, "LinkDependencies")
      .def(nb::init<const RouteTable&>(), "table"_a, nb::keep_alive<1, 2>())
      .def("add_next_hops",
           [](LinkDependencies& d) {
             const nb::gil_scoped_release free;
             d.add_next_hops(poll_signals);
           })
      .def("add_entries", &add_entries, "node"_a, "destination"_a, "link"_a)
      .def("add_destinations",
           [](LinkDependencies& d) {
             const nb::gil_scoped_release free;
             d.add_destinations(poll_signals);
           })
      .def("waits", &LinkDependencies::waits, "a"_a, "b"_a)
      .def("watch",
           [](LinkDependencies& d, Array<std::int32_t> cycle) {
             d.watch({cycle.data(), cycle.data() + cycle.size()});
           },
           "cycle"_a)
      .def_prop_ro("reasons", [](const LinkDependencies& d) { return give_copy(d.reasons()); }, nb::rv_policy::move)
      .def("shortest_cycle", &shortest_cycle, "max_steps"_a = std::int64_t{1} << 30)
      .def_prop_ro("channels", &LinkDependencies::channels)
      .def_prop_ro("dependencies", &LinkDependencies::dependencies);
}

}  // namespace

void bind_routing(nb::module_& m) {
  using namespace nb::literals;
  bind_hashes(m);
  bind_dependencies(m);
  nb::class_<RouteTable>(m, "RouteTable")
      .def("__init__", &make_table, "n_nodes"_a, "link_src"_a, "link_dst"_a, "link_up"_a, "is_switch"_a,
           "tier"_a, "threads"_a = 1)
      .def("next_hops", &next_hops, "switch"_a, "dst_edge"_a)
      .def("next_links", &next_links, "switch"_a, "dst_edge"_a)
      .def("distance", &RouteTable::distance, "a"_a, "b"_a)
      .def("path_count", &RouteTable::path_count, "src"_a, "dst"_a)
      .def("farthest",
           [](const RouteTable& t) {
             RouteTable::Farthest f;
             {
               const nb::gil_scoped_release free;
               f = t.farthest(poll_signals);
             }
             return std::make_tuple(f.src, f.dst, f.hops);
           })
      .def("hop_histogram",
           [](const RouteTable& t) {
             const nb::gil_scoped_release free;
             return t.hop_histogram(poll_signals);
           })
      .def("walk", &walk, "src"_a, "dst"_a, nb::kw_only(), "scheme"_a = "ecmp", "hash_function"_a = "crc32",
           "field_mask"_a = 31, "src_ip"_a = nb::none(), "dst_ip"_a = nb::none(), "src_port"_a = nb::none(),
           "dst_port"_a = nb::none(), "protocol"_a = 17, "qp"_a = nb::none(), "seeds"_a,
           "size_bytes"_a = nb::none(), "capacity_bps"_a = nb::none(), "prefix_link"_a = nb::none(),
           "suffix_link"_a = nb::none(), "port_choice"_a = nb::none(), "pin"_a = nb::none(),
           "table_ptr"_a = nb::none(), "table_dst"_a = nb::none(), "table_link"_a = nb::none())
      .def_prop_ro("edge_switches", &edge_switches, nb::rv_policy::move)
      .def_prop_ro("n_nodes", &RouteTable::n_nodes)
      .def_prop_ro("n_links", &RouteTable::n_links)
      .def_prop_ro("n_sets", &RouteTable::n_sets)
      .def_prop_ro("tiered", &RouteTable::tiered)
      .def_prop_ro("ignored_links", &RouteTable::ignored_links)
      .def_prop_ro("memory_bytes", &RouteTable::memory_bytes);
}

}  // namespace railweave
