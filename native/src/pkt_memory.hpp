// Memory of the large arrays: on huge pages where the system offers them, because each packet touches
// a handful of places far apart, and in virtual machines a missed page translation costs more than
// the access itself. Elsewhere it is ordinary memory.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace railweave::pkt {

inline constexpr std::size_t kHugePage = std::size_t{1} << 21;

inline void* take_memory(std::size_t bytes) {
  if (bytes < kHugePage / 2) return ::operator new(bytes, std::align_val_t{64});
  const std::size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* p = std::aligned_alloc(kHugePage, whole);
  if (p == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  ::madvise(p, whole, MADV_HUGEPAGE);  // advice: failing changes nothing
#endif
  return p;
}

inline void give_memory(void* p, std::size_t bytes) {
  if (bytes < kHugePage / 2) ::operator delete(p, std::align_val_t{64});
  else std::free(p);
}

template <class T>
struct HugeAllocator {
  using value_type = T;
  HugeAllocator() = default;
  template <class U>
  HugeAllocator(const HugeAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(take_memory(n * sizeof(T))); }
  void deallocate(T* p, std::size_t n) { give_memory(p, n * sizeof(T)); }
  friend bool operator==(const HugeAllocator&, const HugeAllocator&) { return true; }
};

template <class T>
using Big = std::vector<T, HugeAllocator<T>>;

}  // namespace railweave::pkt
