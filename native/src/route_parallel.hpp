// Independent work items over a few threads. Items write only to their own places, so the result
// does not depend on the number of threads or on which thread took which item.
#pragma once
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace railweave {

// Called now and then by the thread which entered the core; throws to stop (Ctrl-C).
using Poll = std::function<void()>;

template <class Work>
void parallel_items(std::size_t items, int threads, const Poll& poll, Work&& work) {
  if (threads <= 1 || items <= 1) {
    for (std::size_t i = 0; i < items; ++i) {
      work(i);
      poll();
    }
    return;
  }
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stop{false};
  std::exception_ptr error;
  std::mutex error_lock;
  auto drain = [&](bool polls) {
    try {
      for (std::size_t i; !stop.load() && (i = next.fetch_add(1)) < items;) {
        work(i);
        if (polls) poll();
      }
    } catch (...) {
      const std::lock_guard<std::mutex> hold(error_lock);
      if (!error) error = std::current_exception();
      stop = true;
    }
  };
  std::vector<std::thread> pool;
  const std::size_t wanted = static_cast<std::size_t>(threads) < items ? threads : items;
  for (std::size_t t = 1; t < wanted; ++t) pool.emplace_back(drain, false);
  drain(true);
  for (auto& t : pool) t.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace railweave
