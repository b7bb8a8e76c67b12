// Lets long native loops notice Ctrl-C without paying for a clock read on every step.
#pragma once

#include <chrono>
#include <stdexcept>

namespace railweave::flow {

// Thrown through the engine when the caller asked to stop; the binding turns it into the
// Python exception that is already set.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

class Interrupt {
 public:
  using Check = bool (*)();  // true: stop
  explicit Interrupt(Check check = nullptr) : check_(check), last_(Clock::now()) {}

  void tick(int cost = 1) {
    budget_ -= cost;
    if (budget_ <= 0) look();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void look() {
    budget_ = kEvery;
    const auto now = Clock::now();
    if (check_ == nullptr || now - last_ < std::chrono::milliseconds(20)) return;
    last_ = now;
    if (check_()) throw Interrupted();
  }

  static constexpr int kEvery = 4096;
  Check check_;
  Clock::time_point last_;
  int budget_ = kEvery;
};

}  // namespace railweave::flow
