#pragma once
// PageDropper: takes pages out of the address space, many at a time.
//
// Each madvise() interrupts the other cores that run this process (10 to 13 µs here), and
// the pages that leave together are scattered. process_madvise() on ourselves takes a
// vector of ranges and, from Linux 6.16 on, interrupts once for all of them; before 6.14
// it refuses, and every run of pages is dropped by its own call.
//
// Concurrency: any thread; usable in a signal handler.

#include <sys/uio.h>

#include <atomic>
#include <span>

namespace yonder::heap::internal {

class PageDropper {
 public:
  // The pages read as missing afterwards. Ranges are whole pages of private memory.
  void drop(std::span<const iovec> ranges);

 private:
  std::atomic<bool> has_vector_{true};
};

}  // namespace yonder::heap::internal
