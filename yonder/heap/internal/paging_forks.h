#pragma once
// PagingForks: what a paged space does when its process forks.
//
// A child gets a copy of the page words and, from the kernel, of the resident pages. The
// rest it reads from the store, where the parent must therefore leave it as it was. So a
// page has two slots: at a fork, every page that is far is *held*; when the parent writes
// such a page out again it goes to the other slot. If that one is held too (by an earlier
// child that still lives) the page cannot leave until a child is gone, and the budget is
// exceeded if nothing else can leave either.
//
//   event                          held   other held   side
//   -----------------------------  -----  -----------  -------
//   fork, page is far              1      as it was    as it was
//   page leaves dirty, not held    0      as it was    as it was
//   page leaves dirty, held        0      1            other
//   all children are gone          0      0            as it was
//
// Whether a child lives is told by a pipe whose one end only children have: it ends when
// the last of them has ended or called exec.
//
// Between begin() and in_parent() or in_child() nobody is inside the space: entering it
// waits, and who is inside is waited for, so that the words and the store's locks are at
// rest in the child.
//
// Concurrency: enter and leave from any thread, also in a signal handler; the rest by who
// forks, one at a time. Lifetime: outlives all who enter.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "yonder/os/fd.h"
#include "yonder/sync/spin_lock.h"

namespace yonder::heap::internal {

class PagingForks {
 public:
  void enter();
  void leave() { inside_.fetch_sub(1, std::memory_order_release); }

  // Closes the space and waits until nobody is inside.
  void begin() YONDER_ACQUIRE(lock_);
  void in_parent() YONDER_RELEASE(lock_);
  void in_child() YONDER_RELEASE(lock_);

  // Calls `release` if pages are held and no child is left that reads them. No fork
  // begins meanwhile.
  template <typename Release>
  void release_if_alone(Release release) {
    const sync::SpinGuard guard(lock_);
    if (!holds_ || has_children()) return;
    release();
    holds_ = false;
  }
  bool is_child() const { return is_child_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kChildren = 32;

  bool has_children() YONDER_REQUIRES(lock_);

  std::atomic<std::uint32_t> inside_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> is_child_{false};

  // Of the fork that is under way.
  os::Fd ours_;
  os::Fd theirs_;

  sync::SpinLock lock_;
  bool holds_ YONDER_GUARDED_BY(lock_) = false;
  std::array<os::Fd, kChildren> children_ YONDER_GUARDED_BY(lock_);
  // A child that has no pipe, for want of descriptors: it counts as alive for ever.
  std::atomic<bool> has_unknown_child_{false};
};

class InsideSpace {
 public:
  explicit InsideSpace(PagingForks& forks) : forks_(forks) { forks_.enter(); }
  ~InsideSpace() { forks_.leave(); }
  InsideSpace(const InsideSpace&) = delete;
  InsideSpace& operator=(const InsideSpace&) = delete;

 private:
  PagingForks& forks_;
};

}  // namespace yonder::heap::internal
