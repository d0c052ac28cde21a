#include "yonder/fabric/frame_pool.h"

#include <array>
#include <cstdint>
#include <new>
#include <utility>

namespace yonder::fabric {
namespace {

constexpr std::size_t kClassBytes = 64;
constexpr std::size_t kClasses = 32;  // 32 × 64 B = 2 KiB
constexpr std::uint32_t kMaxFree = 256;

struct FreeFrame {
  FreeFrame* next;
};

// Per thread, hence without locks. Nothing destroys it: coroutines may run after the thread's
// destructors have (the main thread's run before those of static objects).
struct FreeLists {
  std::array<FreeFrame*, kClasses> head{};
  std::array<std::uint32_t, kClasses> count{};

  // From here on nothing is kept.
  void close() {
    for (FreeFrame*& first : head)
      while (first != nullptr) ::operator delete(std::exchange(first, first->next));
    count.fill(kMaxFree);
  }
};
constinit thread_local FreeLists t_lists;

// Frees what a thread keeps when it ends.
struct CloseAtExit {
  ~CloseAtExit() { t_lists.close(); }
};
void close_at_exit() {
  thread_local CloseAtExit close;
  (void)close;
}

std::size_t class_of(std::size_t bytes) { return (bytes - 1) / kClassBytes; }

}  // namespace

void* FramePool::allocate(std::size_t bytes) {
  const std::size_t size_class = class_of(bytes);
  if (size_class >= kClasses) return ::operator new(bytes);
  FreeFrame*& head = t_lists.head[size_class];
  if (head == nullptr) {
    close_at_exit();
    return ::operator new((size_class + 1) * kClassBytes);
  }
  --t_lists.count[size_class];
  return std::exchange(head, head->next);
}

void FramePool::release(void* frame, std::size_t bytes) noexcept {
  const std::size_t size_class = class_of(bytes);
  if (size_class >= kClasses || t_lists.count[size_class] == kMaxFree) {
    ::operator delete(frame);
    return;
  }
  ++t_lists.count[size_class];
  t_lists.head[size_class] = new (frame) FreeFrame{t_lists.head[size_class]};
}

}  // namespace yonder::fabric
