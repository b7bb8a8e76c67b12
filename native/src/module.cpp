// The Python module: one line for each unit of the native core.
#include <nanobind/nanobind.h>

#include "bindings.hpp"

NB_MODULE(_native, m) {
  m.doc() = "Native core of railweave: flow solver, routing and path walking.";
  railweave::bind_flow(m);
  railweave::bind_packet(m);
  railweave::bind_packet_cc(m);
  railweave::bind_routing(m);
}
