#pragma once
// A place whose object many threads read, write and now and then replace by a new
// one: what stress tests of objects fight over.
//
// Concurrency: any thread. Lifetime: plain.

#include <cstdint>
#include <mutex>
#include <utility>

namespace yonder::testing {

// `Pointer` names an object.
template <typename Pointer>
class SharedCell {
 public:
  struct Content {
    Pointer object;
    std::uint64_t name = 0;  // In the history.
  };
  Content get() const {
    const std::lock_guard lock(mutex_);
    return content_;
  }
  Content exchange(const Content& next) {
    const std::lock_guard lock(mutex_);
    return std::exchange(content_, next);
  }
  // The pointer was corrected; unless the object was replaced meanwhile.
  void correct(const Content& corrected) {
    const std::lock_guard lock(mutex_);
    if (content_.name == corrected.name) content_ = corrected;
  }

 private:
  mutable std::mutex mutex_;
  Content content_;
};

}  // namespace yonder::testing
