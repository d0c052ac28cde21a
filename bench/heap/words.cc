#include "bench/heap/words.h"

#include <algorithm>

namespace yonder::bench::heap {

void Words::fill(std::span<char> page) {
  std::size_t at = 0;
  while (at + kMaxWordBytes + 1 <= page.size()) {
    // The word of a rank: its letters follow from the rank alone.
    std::uint64_t state = ranks_.next(random_);
    std::uint64_t letters = splitmix64(state);
    const std::size_t length = 3 + letters % (kMaxWordBytes - 2);
    for (std::size_t i = 0; i < length; ++i) {
      letters /= 26;
      page[at++] = static_cast<char>('a' + letters % 26);
    }
    page[at++] = ' ';
  }
  std::fill(page.begin() + static_cast<std::ptrdiff_t>(at), page.end(), ' ');
}

}  // namespace yonder::bench::heap
