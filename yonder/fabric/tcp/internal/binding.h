#pragma once
// A binding: the memory a region's key stands for, until it is rebound or revoked.
//
// Every touch of the memory happens while a Touch is held, and a Touch is held
// only across a bounded piece of work (what one receive brought, at most a few
// hundred KiB of copies), never across a wait. So revocation is quick: it marks
// the binding dead and waits for the work that runs at this moment. What a
// half-done request keeps afterwards is a reference to the binding, not to its
// memory; its next touch fails.
//
//   state    | touch, new request | touch, request under way | retire  | kill
//   ---------+--------------------+--------------------------+---------+------
//   live     | granted            | granted                  | retired | dead
//   retired  | refused            | granted                  | retired | dead
//   dead     | refused            | refused                  | dead    | dead
//
// I1  After kill() returned no Touch is held and none will be granted.
// I2  After retire() no new request starts; await_idle() sees when the last one
//     that started before has ended. (rebind: a request sees the old or the new
//     memory, never both.)
//
// Concurrency: any thread. Lifetime: shared; the memory must stay mapped until
// kill() returned.

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "yonder/base/time.h"
#include "yonder/fabric/types.h"

namespace yonder::fabric::tcp {

class Binding {
 public:
  // Permission to use the memory now. Move-only; short.
  class [[nodiscard]] Touch {
   public:
    Touch() = default;
    Touch(Touch&& other) noexcept : binding_(std::exchange(other.binding_, nullptr)) {}
    Touch& operator=(Touch&& other) noexcept {
      end();
      binding_ = std::exchange(other.binding_, nullptr);
      return *this;
    }
    ~Touch() { end(); }
    void end() {
      // release: pairs with the acquire in kill(); our accesses are over.
      if (binding_ != nullptr)
        std::exchange(binding_, nullptr)->state_.fetch_sub(1, std::memory_order_release);
    }
    explicit operator bool() const { return binding_ != nullptr; }

   private:
    friend class Binding;
    explicit Touch(Binding* binding) : binding_(binding) {}
    Binding* binding_ = nullptr;
  };

  Binding(std::span<std::byte> memory, Rights rights, TenantId tenant)
      : memory_(memory), rights_(rights), tenant_(tenant) {}
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

  Touch touch_for_new_request() { return touch(kRetired | kDead); }
  Touch touch_again() { return touch(kDead); }

  // Brackets a request that needs several touches. begin while holding a Touch.
  void begin_request() { requests_.fetch_add(1, std::memory_order_relaxed); }
  // release: pairs with the acquire in is_idle().
  void end_request() { requests_.fetch_sub(1, std::memory_order_release); }

  void retire() { state_.fetch_or(kRetired, std::memory_order_acq_rel); }
  // Waits, for at most `grace`, until no request is under way. Requires retire().
  void await_idle(Duration grace) const;
  // Takes the memory away: invariant I1. Waits for at most one copy per thread.
  void kill();

  std::span<std::byte> memory() const { return memory_; }
  Rights rights() const { return rights_; }
  TenantId tenant() const { return tenant_; }

 private:
  static constexpr std::uint64_t kRetired = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kDead = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kTouches = kRetired - 1;

  Touch touch(std::uint64_t refused_in) {
    // All changes of state_ are read-modify-writes of one word: either we see the
    // mark, or its setter sees our count. acquire: pairs with the release of the
    // thread that published the binding's memory.
    if ((state_.fetch_add(1, std::memory_order_acq_rel) & refused_in) == 0) return Touch(this);
    state_.fetch_sub(1, std::memory_order_release);
    return Touch();
  }
  bool is_idle() const {
    // Touches first: a request that begins does so while it holds one.
    return (state_.load(std::memory_order_acquire) & kTouches) == 0 &&
           requests_.load(std::memory_order_acquire) == 0;
  }

  const std::span<std::byte> memory_;
  const Rights rights_;
  const TenantId tenant_;
  std::atomic<std::uint64_t> state_{0};
  std::atomic<std::uint64_t> requests_{0};
};

}  // namespace yonder::fabric::tcp
