#include "yonder/heap/internal/paging_forks.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <thread>
#include <utility>

namespace yonder::heap::internal {
namespace {

// Programs expect their own descriptors to be small numbers.
constexpr int kHighDescriptor = 500;

os::Fd moved_high(int fd) {
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, kHighDescriptor);
  if (high < 0) return os::Fd(fd);
  ::close(fd);
  return os::Fd(high);
}

bool has_ended(const os::Fd& fd) {
  pollfd look{.fd = fd.get(), .events = POLLIN, .revents = 0};
  return ::poll(&look, 1, 0) == 1;  // Nobody writes: readable is the end.
}

}  // namespace

void PagingForks::enter() {
  for (;;) {
    // seq_cst: pairs with begin(). Either it sees us inside, or we see it closed.
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (!closed_.load(std::memory_order_seq_cst)) return;
    inside_.fetch_sub(1, std::memory_order_release);
    while (closed_.load(std::memory_order_relaxed)) std::this_thread::yield();
  }
}

void PagingForks::begin() {
  lock_.lock();
  holds_ = true;
  closed_.store(true, std::memory_order_seq_cst);
  // Bounded by the patience of the faults that are being served.
  while (inside_.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  ours_ = moved_high(ends[0]);
  theirs_ = moved_high(ends[1]);
}

void PagingForks::in_parent() {
  theirs_.reset();
  bool kept = false;
  for (os::Fd& child : children_) {
    if (!ours_.valid() || child.valid()) continue;
    child = std::exchange(ours_, os::Fd());
    kept = true;
  }
  if (!kept) has_unknown_child_.store(true, std::memory_order_relaxed);
  ours_.reset();
  closed_.store(false, std::memory_order_release);
  lock_.unlock();
}

void PagingForks::in_child() {
  ours_.reset();
  // Never closed by us: it says that we live. A second fork makes its own.
  (void)theirs_.release();
  is_child_.store(true, std::memory_order_relaxed);
  for (os::Fd& child : children_) child.reset();
  closed_.store(false, std::memory_order_release);
  lock_.unlock();
}

bool PagingForks::has_children() {
  bool alive = has_unknown_child_.load(std::memory_order_relaxed);
  for (os::Fd& child : children_) {
    if (child.valid() && has_ended(child)) child.reset();
    alive |= child.valid();
  }
  return alive;
}

}  // namespace yonder::heap::internal
