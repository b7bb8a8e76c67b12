// Each unit of the core binds itself; module.cpp calls them in turn.
#pragma once
#include <nanobind/nanobind.h>

namespace railweave {
void bind_flow(nanobind::module_& m);
void bind_packet(nanobind::module_& m);
void bind_packet_cc(nanobind::module_& m);
void bind_routing(nanobind::module_& m);
}  // namespace railweave
