// Python face of the flow engine: arrays in, arrays out, the GIL released while it works.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>

#include "bind_sim.hpp"
#include "bindings.hpp"
#include "flow_sim.hpp"
#include "flow_static.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace railweave {
namespace {
using OptF64 = std::optional<In<double>>;
using OutF64 = Out<double>;

template <class T>
std::span<const T> view(const In<T>& a) {
  return {a.data(), a.shape(0)};
}
template <class T>
std::span<const T> view(const std::optional<In<T>>& a) {
  return a ? view(*a) : std::span<const T>{};
}

flow::RowsView rows_of(const In<std::int64_t>& ptr, const In<std::int32_t>& link,
                       const OptF64& weight) {
  if (weight && weight->shape(0) != link.shape(0))
    throw std::invalid_argument("row_weight must be as long as row_link");
  return {view(ptr), view(link), view(weight)};
}

class PySim : public Guarded<flow::Sim> {
 public:
  PySim(const In<double>& capacity, const In<std::int64_t>& row_ptr,
        const In<std::int32_t>& row_link, const OptF64& row_weight, const In<double>& flow_bytes,
        const In<double>& flow_latency, const In<std::int64_t>& task_flow_ptr,
        const In<double>& task_start, const In<double>& task_delay,
        const In<std::int64_t>& dep_ptr, const In<std::int32_t>& dep_task,
        const In<std::uint8_t>& dep_kind, const In<std::int32_t>& task_rounds,
        const OptF64& chunk_delay, const std::optional<In<std::int64_t>>& pred_ptr,
        const std::optional<In<std::int32_t>>& pred_flow,
        const std::optional<In<std::int32_t>>& pred_lag, double tolerance,
        std::int64_t exact_chunks) {
    const flow::SimInput in{view(capacity),   rows_of(row_ptr, row_link, row_weight),
                            view(flow_bytes), view(flow_latency),
                            view(task_flow_ptr), view(task_start),
                            view(task_delay), view(dep_ptr),
                            view(dep_task),   view(dep_kind),
                            view(task_rounds), view(chunk_delay),
                            view(pred_ptr),   view(pred_flow),
                            view(pred_lag),   tolerance,
                            exact_chunks};
    nb::gil_scoped_release release;
    sim_ = std::make_unique<flow::Sim>(in);
  }

  bool advance(double until, std::int64_t max_events) {
    if (!(until >= 0.0)) throw std::invalid_argument("until_s must be 0 or more");
    return go_on([&](flow::Sim& sim, flow::Interrupt& interrupt) {
      return sim.advance(until, max_events, interrupt);
    });
  }
};

template <std::vector<double> (flow::Sim::*kGet)() const>
OutF64 array_of(const PySim& s) {
  return give((s.read().*kGet)());
}

void bind_sim(nb::module_& m) {
  nb::class_<PySim>(m, "FlowSim", "Max-min fair, event-driven simulation of a task DAG.")
      .def(nb::init<const In<double>&, const In<std::int64_t>&, const In<std::int32_t>&,
                    const OptF64&, const In<double>&, const In<double>&, const In<std::int64_t>&,
                    const In<double>&, const In<double>&, const In<std::int64_t>&,
                    const In<std::int32_t>&, const In<std::uint8_t>&, const In<std::int32_t>&,
                    const OptF64&, const std::optional<In<std::int64_t>>&,
                    const std::optional<In<std::int32_t>>&,
                    const std::optional<In<std::int32_t>>&, double, std::int64_t>(),
           "capacity_Bps"_a, "row_ptr"_a, "row_link"_a, "row_weight"_a.none(), "flow_bytes"_a,
           "flow_latency_s"_a, "task_flow_ptr"_a, "task_start_s"_a, "task_delay_s"_a, "dep_ptr"_a,
           "dep_task"_a, "dep_kind"_a, "task_rounds"_a, "flow_chunk_delay_s"_a = nb::none(),
           "pred_ptr"_a = nb::none(), "pred_flow"_a = nb::none(), "pred_lag"_a = nb::none(),
           "tolerance"_a = 0.0, "exact_chunks"_a = 0)
      .def("advance", &PySim::advance,
           "until_s"_a = std::numeric_limits<double>::infinity(), "max_events"_a = -1,
           "Runs until the given time; True when every task is delivered.")
      .def_prop_ro("now_s", [](const PySim& s) { return s.read().now(); })
      .def_prop_ro("events", [](const PySim& s) { return s.read().events(); })
      .def_prop_ro("solves", [](const PySim& s) { return s.read().solver().solves; })
      .def_prop_ro("full_solves", [](const PySim& s) { return s.read().solver().full_solves; })
      .def_prop_ro("flows_touched", [](const PySim& s) { return s.read().solver().moved; })
      .def_prop_ro("links_visited", [](const PySim& s) { return s.read().solver().visits; })
      .def_prop_ro("crossings_scanned", [](const PySim& s) { return s.read().solver().scanned; })
      .def_prop_ro("task_start_s", array_of<&flow::Sim::task_started>, nb::rv_policy::reference)
      .def_prop_ro("task_sent_s", array_of<&flow::Sim::task_sent>, nb::rv_policy::reference)
      .def_prop_ro("task_finish_s", array_of<&flow::Sim::task_finished>, nb::rv_policy::reference)
      .def_prop_ro("flow_finish_s", array_of<&flow::Sim::flow_finished>, nb::rv_policy::reference)
      .def_prop_ro("flow_rate_Bps", array_of<&flow::Sim::flow_rates>, nb::rv_policy::reference)
      .def_prop_ro("link_bytes", array_of<&flow::Sim::link_bytes>, nb::rv_policy::reference)
      .def_prop_ro("link_peak_fraction", array_of<&flow::Sim::link_peak>, nb::rv_policy::reference)
      .def_prop_ro("bytes_delivered", [](const PySim& s) { return s.read().bytes_delivered(); })
      .def_prop_ro("bytes_in_flight", [](const PySim& s) { return s.read().bytes_in_flight(); })
      .def_prop_ro("exact_tasks", [](const PySim& s) { return s.read().exact_tasks(); })
      .def_prop_ro("averaged_tasks", [](const PySim& s) { return s.read().averaged_tasks(); })
      .def_prop_ro("bytes_total", [](const PySim& s) { return s.read().bytes_total(); });
}
}  // namespace

void bind_flow(nb::module_& m) {
  m.def(
      "max_min_rates",
      [](const In<double>& capacity, const In<std::int64_t>& row_ptr,
         const In<std::int32_t>& row_link, const OptF64& row_weight, const OptF64& cap) {
        const flow::RowsView rows = rows_of(row_ptr, row_link, row_weight);
        const bool capped = cap.has_value();
        std::vector<double> rates = without_gil([&](flow::Interrupt& interrupt) {
          return flow::max_min_rates(view(capacity), rows, view(cap), capped, interrupt);
        });
        return give(std::move(rates));
      },
      "capacity_Bps"_a, "row_ptr"_a, "row_link"_a, "row_weight"_a.none() = nb::none(),
      "cap_Bps"_a = nb::none(),
      "Weighted max-min fair rates of a fixed set of variables (rows) over links.");
  m.def(
      "busiest_link_s",
      [](const In<double>& capacity, const In<std::int64_t>& row_ptr,
         const In<std::int32_t>& row_link, const OptF64& row_weight, const In<double>& row_bytes,
         const In<std::int64_t>& message_ptr) {
        const flow::RowsView rows = rows_of(row_ptr, row_link, row_weight);
        std::vector<double> seconds = [&] {
          nb::gil_scoped_release release;
          return flow::busiest_link_s(view(capacity), rows, view(row_bytes), view(message_ptr));
        }();
        return give(std::move(seconds));
      },
      "capacity_Bps"_a, "row_ptr"_a, "row_link"_a, "row_weight"_a.none(), "row_bytes"_a,
      "message_ptr"_a,
      "Seconds that the busiest link of each message (its rows together) is busy with it.");
  bind_sim(m);
}
}  // namespace railweave
