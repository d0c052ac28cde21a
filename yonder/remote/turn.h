#pragma once
// Turn: a lock for the coroutines of one thread. Who finds it taken suspends, and they
// get it in the order in which they came.
//
//   const Turn::Guard guard = co_await turn.take();
//
// There is no deadline: a holder must end by its own (every request of ours has one).
//
// Concurrency: one thread. Lifetime: outlives guards and those who wait.

#include <coroutine>
#include <utility>

#include "yonder/base/check.h"

namespace yonder::remote {

class Turn {
 public:
  Turn() = default;
  ~Turn() { YONDER_CHECK(!taken_, "a turn outlives its holders"); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  class [[nodiscard]] Guard {
   public:
    explicit Guard(Turn& turn) : turn_(&turn) {}
    Guard(Guard&& other) noexcept : turn_(std::exchange(other.turn_, nullptr)) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard() {
      if (turn_ != nullptr) turn_->pass_on();
    }

   private:
    Turn* turn_;
  };

  class [[nodiscard]] Awaiter {
   public:
    explicit Awaiter(Turn& turn) : turn_(turn) {}
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;
    // A coroutine that is destroyed while it waits leaves the line.
    ~Awaiter() {
      if (is_in_line_) turn_.drop(*this);
    }
    bool await_ready() {
      if (turn_.taken_) return false;
      return turn_.taken_ = true;
    }
    void await_suspend(std::coroutine_handle<> waiter) {
      waiter_ = waiter;
      (turn_.last_ == nullptr ? turn_.first_ : turn_.last_->next_) = this;
      turn_.last_ = this;
      is_in_line_ = true;
    }
    Guard await_resume() { return Guard(turn_); }

   private:
    friend class Turn;
    Turn& turn_;
    std::coroutine_handle<> waiter_;
    Awaiter* next_ = nullptr;
    bool is_in_line_ = false;
  };

  Awaiter take() { return Awaiter(*this); }

 private:
  // The next in line is resumed from here: what it does happens inside the end of the
  // one before. Lines are as long as a program has coroutines on one object: short.
  void pass_on() {
    Awaiter* const next = first_;
    if (next == nullptr) {
      taken_ = false;
      return;
    }
    first_ = next->next_;
    if (first_ == nullptr) last_ = nullptr;
    next->is_in_line_ = false;
    next->waiter_.resume();
  }

  void drop(Awaiter& waiter) {
    Awaiter* before = nullptr;
    for (Awaiter* at = first_; at != &waiter; at = at->next_) before = at;
    (before == nullptr ? first_ : before->next_) = waiter.next_;
    if (last_ == &waiter) last_ = before;
  }

  bool taken_ = false;
  Awaiter* first_ = nullptr;
  Awaiter* last_ = nullptr;
};

}  // namespace yonder::remote
