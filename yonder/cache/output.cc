#include "yonder/cache/output.h"

#include <algorithm>
#include <utility>

namespace yonder::cache {

void Output::grow(std::size_t bytes) {
  constexpr std::size_t kFirst = 2048;
  const std::size_t needed = size() + bytes;
  // Half of it may be sent already: then moving what is left is enough.
  if (needed <= capacity_ / 2) {
    std::memmove(memory_.get(), memory_.get() + begin_, size());
  } else {
    const std::size_t capacity = std::max({kFirst, needed + needed / 4, capacity_ * 2});
    std::unique_ptr<char[]> larger(new char[capacity]);
    if (!empty()) std::memcpy(larger.get(), memory_.get() + begin_, size());
    memory_ = std::move(larger);
    capacity_ = capacity;
  }
  end_ -= begin_;
  begin_ = 0;
}

}  // namespace yonder::cache
