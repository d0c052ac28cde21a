#pragma once
// Hazard slots: readers say what they are using with one plain store, and whoever
// wants to take it away asks the slots first.
//
// A reader writes the value it is about to use (a pointer, a page number) into a
// slot of its own and then checks that the value is still current. A reclaimer
// first makes values unreachable, a whole batch of them, then issues ONE heavy
// barrier, then looks at all slots and leaves alone what they show. The barrier
// is what lets readers do without a fence: os::Membarrier costs 0.5 to 13 µs per
// batch, a fence in the reader 4 ns per access.
//
//   reader:    auto guard = thread.publish(page);      if (current(page)) use(page);
//   reclaimer: unlink(batch);  in_use.refresh(domain); for (p : batch) if (!in_use.contains(p)) free(p);
//
// States × operations of a slot:
//   slot    publish(v)          guard ends        scan
//   0       v                   cannot be         shows nothing
//   v       uses another slot   0                 shows v
//
// The argument is the store-buffer litmus, for one value v:
//   reader                                reclaimer
//   R1 slot = v                           W1 source = other   (v is unreachable)
//   R2 light fence                        W2 heavy barrier
//   R3 if (source still says v) use v     W3 if (slot != v) reclaim v
// Wrong would be: R3 still sees v and W3 does not see the slot.
// I1  Fallback mode: R2 and W2 are both full fences. One comes first in their
//     single order. R2 first: W3 sees R1 (or a later value of the slot, I3).
//     W2 first: R3 sees W1. Either way not both are missed.
// I2  Asymmetric mode: R2 only stops the compiler. W2 makes every running thread
//     execute a full fence between call and return, at some point of its program
//     order; a thread that is not running was switched out by the kernel, which is
//     one too. Is that point behind R1, then R1 is visible to W3. Is it before R1,
//     then R3 comes after it and sees W1. So it is I1 with the fence at an
//     arbitrary place of the reader.
// I3  A slot whose use has ended was cleared with release, and every publish is a
//     release too, so a scan (acquire) that reads any later value of the slot
//     happens after that use: what is reclaimed is not being read any more.
// I4  Registration needs no order of its own: all records exist from the start and
//     every scan reads all of them.
//
// Concurrency: a HazardThread and its guards belong to one thread; registering,
// scanning and the barrier are for any thread.
// Lifetime: domain > threads > guards; each destructor checks that.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/base/result.h"
#include "yonder/sync/atomics.h"

namespace yonder::sync {

// Something a slot can hold; 0 means "nothing".
using HazardValue = std::uintptr_t;

inline HazardValue hazard_value(const void* pointer) { return reinterpret_cast<HazardValue>(pointer); }

template <typename Atomics>
class HazardThread;

template <typename Atomics = StdAtomics>
class HazardDomain {
 public:
  // How many guards one thread can have at a time: one cache line of slots.
  static constexpr std::size_t kSlotsPerThread = 8;
  using Slot = typename Atomics::template Atomic<HazardValue>;

  // `heavy_barrier` makes every thread that may register execute a full memory
  // barrier between its call and its return (os::Membarrier::issue). Empty:
  // fallback mode, in which readers fence themselves.
  explicit HazardDomain(std::size_t max_threads, std::move_only_function<void()> heavy_barrier = {})
      : max_threads_(max_threads),
        heavy_barrier_(std::move(heavy_barrier)),
        records_(std::make_unique<Record[]>(max_threads)) {
    YONDER_CHECK(max_threads != 0, "a hazard domain has room for a thread");
  }
  HazardDomain(const HazardDomain&) = delete;
  HazardDomain& operator=(const HazardDomain&) = delete;
  ~HazardDomain() {
    for (const Record& record : records())
      YONDER_CHECK(!record.owned.load(std::memory_order_acquire),
                   "threads unregister before their domain goes");
  }

  // Gives the calling thread its slots until the handle goes.
  // Errors: kResourceExhausted (max_threads are registered).
  Result<HazardThread<Atomics>> register_thread() {
    for (Record& record : records()) {
      // acquire: pairs with the release in ~HazardThread; its slots are ours.
      if (!record.owned.exchange(true, std::memory_order_acquire))
        return HazardThread<Atomics>(&record, asymmetric());
    }
    return fail(ErrorCode::kResourceExhausted, "hazard slots: too many threads",
                static_cast<std::int64_t>(max_threads_));
  }

  // W2 of the argument. Serialise calls: the barrier object need not be thread-safe.
  void barrier() {
    if (asymmetric())
      heavy_barrier_();
    else
      Atomics::full_fence();
  }

  // W3, for one value. Means something only after barrier(), itself after the
  // value was made unreachable.
  bool protects(HazardValue value) const {
    for (const Record& record : records())
      for (const auto& slot : record.slots)
        if (slot.load(std::memory_order_acquire) == value) return true;  // I3
    return false;
  }

  // W3, for a batch: writes all values in use to the front of `out`, in no order
  // and perhaps repeated, and returns that part. Requires max_values() of room (checked).
  std::span<HazardValue> scan(std::span<HazardValue> out) const {
    YONDER_CHECK(out.size() >= max_values(), "room for every slot");
    std::size_t count = 0;
    for (const Record& record : records())
      for (const auto& slot : record.slots)
        if (const HazardValue value = slot.load(std::memory_order_acquire); value != 0)
          out[count++] = value;  // I3
    return out.first(count);
  }

  std::size_t max_values() const { return max_threads_ * kSlotsPerThread; }
  bool asymmetric() const { return static_cast<bool>(heavy_barrier_); }

 private:
  friend class HazardThread<Atomics>;

  struct alignas(kNoSharingBytes) Record {
    // Written by the owner, read by scans: a line of its own.
    std::array<Slot, kSlotsPerThread> slots{};
    alignas(kCacheLineBytes) typename Atomics::template Atomic<bool> owned{false};
  };

  std::span<Record> records() { return {records_.get(), max_threads_}; }
  std::span<const Record> records() const { return {records_.get(), max_threads_}; }

  const std::size_t max_threads_;
  std::move_only_function<void()> heavy_barrier_;
  const std::unique_ptr<Record[]> records_;
};

// The calling thread's slots. Move-only.
template <typename Atomics = StdAtomics>
class HazardThread {
  using Domain = HazardDomain<Atomics>;
  using Record = typename Domain::Record;

 public:
  // Keeps one value from being reclaimed. Guards nest and may end in any order.
  class Guard {
   public:
    Guard() = default;
    Guard(Guard&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
    Guard& operator=(Guard&& other) noexcept {
      if (this != &other) {
        reset();
        slot_ = std::exchange(other.slot_, nullptr);
      }
      return *this;
    }
    ~Guard() { reset(); }
    explicit operator bool() const { return slot_ != nullptr; }

    // Ends the protection.
    void reset() {
      if (slot_ == nullptr) return;
      slot_->store(0, std::memory_order_release);  // I3: pairs with the scans.
      slot_ = nullptr;
    }

   private:
    friend class HazardThread;
    explicit Guard(typename Domain::Slot* slot) : slot_(slot) {}
    typename Domain::Slot* slot_ = nullptr;
  };

  HazardThread(HazardThread&& other) noexcept
      : record_(std::exchange(other.record_, nullptr)), asymmetric_(other.asymmetric_) {}
  HazardThread& operator=(HazardThread&&) = delete;
  ~HazardThread() {
    if (record_ == nullptr) return;
    for (const auto& slot : record_->slots)
      YONDER_CHECK(slot.load(std::memory_order_relaxed) == 0, "guards end before their thread unregisters");
    record_->owned.store(false, std::memory_order_release);  // Pairs with register_thread().
  }

  // R1 and R2: shows `value` (not 0) to scans. Afterwards the caller must check
  // that the value is still reachable, and use it only then. An empty guard if
  // all kSlotsPerThread slots are in use.
  [[nodiscard]] Guard publish(HazardValue value) {
    YONDER_DCHECK(value != 0, "0 means nothing");
    // relaxed: our own slots, which nobody else changes. The first is nearly always free.
    for (auto& slot : record_->slots) {
      if (slot.load(std::memory_order_relaxed) != 0) [[unlikely]]
        continue;
      slot.store(value, std::memory_order_release);  // I3
      light_fence();
      return Guard(&slot);
    }
    return {};
  }

  // The slots themselves, for a caller whose fast path does R1 by itself: a free slot is 0; it is
  // stored to with release, ended by a store of 0 with release, and R2 must follow (a compiler
  // fence does if the domain is asymmetric). The same thread may publish() meanwhile.
  std::span<typename Domain::Slot, Domain::kSlotsPerThread> slots() { return record_->slots; }

  // R1 to R3 for a pointer that readers load from `source`: protects what it
  // points to. The guard is empty, and the pointer null, if `source` is null,
  // changed meanwhile (try again), or no slot is free.
  template <typename T>
  struct Protected {
    Guard guard;
    T* pointer = nullptr;
    explicit operator bool() const { return pointer != nullptr; }
  };
  template <typename T>
  [[nodiscard]] Protected<T> try_protect(const typename Atomics::template Atomic<T*>& source) {
    T* const pointer = source.load(std::memory_order_relaxed);  // Only a guess: R3 decides.
    if (pointer == nullptr) return {};
    Guard guard = publish(hazard_value(pointer));
    // acquire: pairs with the release that published the object; its bytes are there.
    if (!guard || source.load(std::memory_order_acquire) != pointer) return {};
    return {.guard = std::move(guard), .pointer = pointer};
  }

 private:
  friend class HazardDomain<Atomics>;
  HazardThread(Record* record, bool asymmetric) : record_(record), asymmetric_(asymmetric) {}

  void light_fence() const {
    if (asymmetric_) [[likely]]
      Atomics::compiler_fence();  // I2
    else
      Atomics::full_fence();  // I1
  }

  Record* record_;
  bool asymmetric_;
};

}  // namespace yonder::sync
