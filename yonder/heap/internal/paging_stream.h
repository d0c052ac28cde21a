#pragma once
// FaultStreams: which of a thread's page faults follow each other.
//
// A fault at the page that a stream expected makes its window twice as large, up to a
// limit: the pages brought ahead were all used, or the fault would have come earlier. Any
// other fault starts a stream of one page in the place of the oldest one. So a random
// pattern never brings a page that was not asked for, and a scan reaches the full window
// after as many faults as the window has bits.
//
// Concurrency: one thread; each has its own. Constant initialisation and no destructor:
// usable in a signal handler as a thread_local.

#include <array>
#include <cstddef>
#include <cstdint>

namespace yonder::heap::internal {

class FaultStreams {
 public:
  // How many pages to bring for a fault at `page`, from there on: 1 to `limit`.
  std::size_t pages_for(std::uintptr_t page, std::size_t limit) {
    for (Stream& stream : streams_) {
      if (stream.window == 0 || stream.expected != page) continue;
      stream.window = static_cast<std::uint32_t>(stream.window * 2 < limit ? stream.window * 2 : limit);
      stream.expected = page + stream.window;
      return stream.window;
    }
    streams_[oldest_] = {.expected = page + 1, .window = 1};
    oldest_ = (oldest_ + 1) % streams_.size();
    return 1;
  }

  // Fewer than pages_for() said were brought for the fault at `page`.
  void brought(std::uintptr_t page, std::size_t wanted, std::size_t count) {
    for (Stream& stream : streams_) {
      if (stream.window != 0 && stream.expected == page + wanted) stream.expected = page + count;
    }
  }

 private:
  struct Stream {
    std::uintptr_t expected = 0;
    std::uint32_t window = 0;  // 0: none.
  };
  std::array<Stream, 4> streams_{};
  std::size_t oldest_ = 0;
};

}  // namespace yonder::heap::internal
