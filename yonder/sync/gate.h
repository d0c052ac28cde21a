#pragma once
// Gate: how a service stops. Work passes through the gate; closing it refuses
// new work, and the closer waits until the work inside has left.
//
//   if (auto pass = gate_.try_enter()) serve(request); else reply(kStopping);
//   …
//   gate_.close();
//   YONDER_TRY_VOID(gate_.wait_empty(deadline));   // now nothing runs
//
// States × operations (C: closed bit, n: passes out):
//   state        try_enter   leave              close            wait_empty
//   open, n      n+1         n-1                C; n=0: drained  waits
//   closed, n>1  refused     n-1                no effect        waits
//   closed, 1    refused     0, drained         no effect        waits
//   closed, 0    refused     cannot happen      no effect        waits for drained, returns
//
// I1  Once closed the count only falls, so exactly one operation sees it become
//     (closed, 0), and that one sets drained_ under the mutex.
// I2  wait_empty() returns only after that operation has let go of the mutex;
//     so a gate may be destroyed as soon as wait_empty() returned.
//
// Concurrency: any thread; try_enter and leave are one locked instruction each.
// Lifetime: the destructor checks that no pass is out.

#include <atomic>
#include <cstdint>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/sync/mutex.h"

namespace yonder::sync {

class Gate {
 public:
  // Held while inside; leaves in the destructor. Move-only.
  class Pass {
   public:
    Pass() = default;
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      if (this != &other) {
        leave();
        gate_ = std::exchange(other.gate_, nullptr);
      }
      return *this;
    }
    ~Pass() { leave(); }
    explicit operator bool() const { return gate_ != nullptr; }
    void leave() {
      if (gate_ != nullptr) std::exchange(gate_, nullptr)->leave();
    }

   private:
    friend class Gate;
    explicit Pass(Gate* gate) : gate_(gate) {}
    Gate* gate_ = nullptr;
  };

  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  // Requires that no pass is out (checked).
  ~Gate();

  // An empty Pass if the gate is closed.
  [[nodiscard]] Pass try_enter();
  // Refuses new passes from now on. Repeating it does nothing.
  void close();
  bool is_closed() const { return (state_.load(std::memory_order_acquire) & kClosed) != 0; }
  // How many are inside; for reports.
  std::uint64_t inside() const { return state_.load(std::memory_order_relaxed) & ~kClosed; }

  // Waits until the gate is closed and empty. Everything done under a pass
  // happens before the return. Requires a deadline that is set.
  // Errors: kDeadlineExceeded (detail: how many are still inside).
  Result<void> wait_empty(Deadline deadline);

 private:
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;
  void leave();
  void set_drained();

  std::atomic<std::uint64_t> state_{0};  // kClosed | count
  Mutex mutex_;
  Condition drained_changed_;
  bool drained_ YONDER_GUARDED_BY(mutex_) = false;
};

}  // namespace yonder::sync
