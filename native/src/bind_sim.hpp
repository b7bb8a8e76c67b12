// What the Python faces of the engines share: arrays in and out, work without the GIL, and a guard
// for a simulation that another thread, an error or an interrupt may have left in the middle.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "flow_interrupt.hpp"

namespace railweave {

template <class T>
using In = nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
template <class T>
using Out = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>;

// Hands the values over to Python, which then owns them.
template <class T>
Out<T> give(std::vector<T>&& values) {
  auto* keep = new std::vector<T>(std::move(values));
  nanobind::capsule owner(keep, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Out<T>(keep->data(), {keep->size()}, owner);
}

inline bool signals_pending() {
  nanobind::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

// Runs native work without the GIL; a Ctrl-C noticed inside surfaces as the exception already set.
template <class F>
auto without_gil(F&& work) {
  try {
    nanobind::gil_scoped_release release;
    flow::Interrupt interrupt(signals_pending);
    return work(interrupt);
  } catch (const flow::Interrupted&) {
    throw nanobind::python_error();
  }
}

template <class S>
class Guarded {
 public:
  const S& read() const {
    if (busy_) refuse();
    return *sim_;
  }
  S& write() {
    if (busy_) refuse();
    return *sim_;
  }

 protected:
  // Lets the simulation go on; `work(simulation, interrupt)` says whether it has ended.
  template <class F>
  bool go_on(F&& work) {
    if (busy_.exchange(true)) refuse();
    const Free free{busy_};
    if (broken_)
      throw std::runtime_error("the simulation stopped on an error or an interrupt; build it anew");
    broken_ = true;  // an exception leaves events half done; only a normal return clears this
    const bool done =
        without_gil([&](flow::Interrupt& interrupt) { return work(*sim_, interrupt); });
    broken_ = false;
    return done;
  }

  std::unique_ptr<S> sim_;

 private:
  struct Free {
    std::atomic<bool>& flag;
    ~Free() { flag = false; }
  };
  [[noreturn]] static void refuse() {
    throw std::runtime_error("the simulation is running in another thread");
  }
  std::atomic<bool> busy_{false};
  bool broken_ = false;
};

}  // namespace railweave
