#pragma once
// DeterministicScheduler: runs lock-free code under one seed.
//
// The threads of a test are real, but only one of them runs at a time: before
// every atomic operation it hands over to a thread that the seed picks. The same
// seed gives the same run, so a failure can be repeated. SimAtomics plugs into
// the algorithms of yonder/sync in place of StdAtomics.
//
// It also models what the processor may do: a store goes into a buffer of its
// thread first and reaches memory at a step the seed picks. Buffered stores to
// different words may reach memory in another order (as on ARM), except that a
// release store waits for all stores before it; loads are done in program order.
// An atomic read-modify-write and a full fence empty the thread's buffer first.
// So missing fences and missing releases are found; missing acquires are not.
//
// Concurrency: run() from one thread. Inside the bodies only the scheduled thread
// runs. Lifetime: as with std::atomic, no thread uses a SimAtomic that is gone.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

namespace yonder::testing {

class DeterministicScheduler {
 public:
  explicit DeterministicScheduler(std::uint64_t seed);
  ~DeterministicScheduler();

  // Runs each body in a thread of its own until all have ended, and then empties
  // all store buffers.
  void run(std::vector<std::function<void()>> bodies);

  // How many times a thread could have been switched; for reports.
  std::uint64_t steps() const;

  // For code under test. Outside a run they do nothing.
  // A point where the seed may pick another thread, and buffered stores may land.
  static void step();
  // Empties the buffer of the calling thread: a full fence.
  static void drain_own();
  // Empties the buffers of all threads: what membarrier does.
  static void drain_all();

  // The memory behind a SimAtomic. Outside a run stores are immediate.
  using Cell = std::uint64_t;
  static void store(Cell& cell, std::uint64_t value, bool release);
  static std::uint64_t load(const Cell& cell);
  // Drops buffered stores to a cell that is going away.
  static void forget(const Cell& cell);

 private:
  class State;
  std::unique_ptr<State> state_;
};

// std::atomic as far as our algorithms use it, for values of up to 8 bytes.
template <typename T>
class SimAtomic {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));

 public:
  SimAtomic() : SimAtomic(T{}) {}
  SimAtomic(T value) : cell_(to_word(value)) {}  // NOLINT(google-explicit-constructor): as std::atomic.
  ~SimAtomic() { DeterministicScheduler::forget(cell_); }
  SimAtomic(const SimAtomic&) = delete;
  SimAtomic& operator=(const SimAtomic&) = delete;

  T load(std::memory_order = std::memory_order_seq_cst) const {
    DeterministicScheduler::step();
    return from_word(DeterministicScheduler::load(cell_));
  }

  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    DeterministicScheduler::step();
    DeterministicScheduler::store(cell_, to_word(value), order != std::memory_order_relaxed);
    if (order == std::memory_order_seq_cst) DeterministicScheduler::drain_own();
  }

  T exchange(T value, std::memory_order = std::memory_order_seq_cst) {
    return modify([&](T) { return value; });
  }

  T fetch_add(T amount, std::memory_order = std::memory_order_seq_cst) {
    return modify([&](T old) { return static_cast<T>(old + amount); });
  }

  bool compare_exchange_strong(T& expected, T desired, std::memory_order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst) {
    const T old = modify([&](T now) { return to_word(now) == to_word(expected) ? desired : now; });
    const bool equal = to_word(old) == to_word(expected);
    expected = old;
    return equal;
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success = std::memory_order_seq_cst,
                             std::memory_order failure = std::memory_order_seq_cst) {
    return compare_exchange_strong(expected, desired, success, failure);
  }

 private:
  template <typename Change>
  T modify(Change change) {
    DeterministicScheduler::step();
    DeterministicScheduler::drain_own();
    const T old = from_word(cell_);
    cell_ = to_word(change(old));
    return old;
  }

  static std::uint64_t to_word(T value) {
    std::uint64_t word = 0;
    __builtin_memcpy(&word, &value, sizeof value);
    return word;
  }
  static T from_word(std::uint64_t word) {
    T value;
    __builtin_memcpy(&value, &word, sizeof value);
    return value;
  }

  DeterministicScheduler::Cell cell_;
};

// The policy for yonder::sync's templates.
struct SimAtomics {
  template <typename T>
  using Atomic = SimAtomic<T>;
  static void compiler_fence() {}  // The model's stores and loads are in program order already.
  static void full_fence() {
    DeterministicScheduler::step();
    DeterministicScheduler::drain_own();
  }
};

// A plain value whose reads and writes the model can delay like any store: use it
// as the payload, so that a missing release shows up as an old payload.
class SimPayload {
 public:
  SimPayload() = default;
  explicit SimPayload(std::uint64_t value) : value_(value) {}
  SimPayload(const SimPayload& other) : value_(other.get()) {}
  SimPayload& operator=(const SimPayload& other) {
    value_.store(other.get(), std::memory_order_relaxed);
    return *this;
  }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  SimAtomic<std::uint64_t> value_{0};
};

}  // namespace yonder::testing
