#pragma once
// Task<T>: a coroutine that runs when it is awaited and returns a T.
//
//   Task<Result<std::uint64_t>> next_ticket(Endpoint& endpoint, RemoteAddress word) {
//     Result<Completion> old = co_await endpoint.fetch_add(word, 1);
//     if (!old) co_return std::unexpected(old.error());
//     co_return old->value;
//   }
//
// A task starts when awaited (or spawned on a Scheduler) and resumes its awaiter
// directly, without a queue in between. Frames come from a per-thread free list
// (frame_pool.h): in the steady state starting a task allocates nothing.
//
// Our code does not throw; an exception that leaves a task ends the program.
//
// Concurrency: a task runs on the thread that awaits it or polls its queue.
// Lifetime: destroying a task that has not finished destroys its frame; it must
// then not wait for an operation (finish or close first).

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

#include "yonder/fabric/frame_pool.h"

namespace yonder::fabric {

template <typename T>
class Task;

namespace internal {

class TaskPromiseBase {
 public:
  static void* operator new(std::size_t size) { return FramePool::allocate(size); }
  static void operator delete(void* frame, std::size_t size) { FramePool::release(frame, size); }

  std::suspend_always initial_suspend() noexcept { return {}; }

  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <typename Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) noexcept {
      // The frame may be destroyed by whoever is resumed: read it first.
      const std::coroutine_handle<> next = done.promise().continuation_;
      return next ? next : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }
  [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }

  void set_continuation(std::coroutine_handle<> next) { continuation_ = next; }

 private:
  std::coroutine_handle<> continuation_;
};

template <typename T>
class TaskPromise : public TaskPromiseBase {
 public:
  Task<T> get_return_object();
  template <typename U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> : public TaskPromiseBase {
 public:
  Task<void> get_return_object();
  void return_void() {}
  void take() {}
};

}  // namespace internal

template <typename T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::TaskPromise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool done() const { return handle_.done(); }
  // Runs the task until its first suspension without anybody awaiting it.
  void start() { handle_.resume(); }
  // The value; requires done().
  T take() { return handle_.promise().take(); }

  auto operator co_await() && noexcept {
    struct Awaiter {
      Handle handle;
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiter) noexcept {
        handle.promise().set_continuation(waiter);
        return handle;
      }
      T await_resume() { return handle.promise().take(); }
    };
    return Awaiter{handle_};
  }

 private:
  Handle handle_;
};

template <typename T>
Task<T> internal::TaskPromise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<TaskPromise<T>>::from_promise(*this));
}
inline Task<void> internal::TaskPromise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<TaskPromise<void>>::from_promise(*this));
}

}  // namespace yonder::fabric
