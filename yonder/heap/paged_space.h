#pragma once
// PagedSpace: a large range of addresses of which only a part is in local memory.
//
//   auto space = PagedSpace::create({.bytes = Bytes(64 << 30), .budget = Bytes(4 << 30)}, std::move(store));
//   char* memory = reinterpret_cast<char*>(space->memory().data());
//   memory[123] = 'x';                        // any access, by any code that knows nothing of this
//
// A page is fresh (zero, and nowhere), resident, or in the SlotStore at the offset that it
// has in the space. Touching one that is not resident raises SIGBUS in the toucher
// (userfaultfd), who brings it, with those that follow if they are part of a stream, and
// goes on: no other thread has to wake up. A background thread keeps the resident pages
// within the budget; if it falls behind, who faults makes room first. Pages that were not
// written since they came are dropped without being written.
//
// System calls: a call that is given memory which is not resident (or, if it writes there,
// which is protected) fails with EFAULT and changes nothing there. pin() what goes to one.
//
// The far side may be away: a fault then waits up to `patience`, trying again, and if that
// was in vain the process gets the SIGBUS, with a line on stderr that says why. A space
// whose memory node is gone for ever cannot go on; it never shows wrong bytes.
//
// Signals: SIGBUS must not be blocked where the space is touched, and stacks must not lie
// in it.
//
// Concurrency: any thread. Lifetime: nobody touches the memory when the space is destroyed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/heap/slot_store.h"
#include "yonder/sync/annotations.h"

namespace yonder::heap {

struct PagedSpaceOptions {
  Bytes bytes{0};      // Whole pages; no more than the store has.
  void* at = nullptr;  // Exactly there, or kAlreadyExists; else wherever there is room.
  Bytes budget{0};     // Of local memory; at least kMinBudgetPages pages.
  // How long a fault waits for the far side, or for room, before the process dies of it.
  Duration patience = std::chrono::seconds(30);
  // How many pages a fault brings at most when it is part of a stream (1: no read-ahead).
  std::uint32_t max_ahead_pages = 32;
  // Memory of this process that counts against the budget, too (asked ten times a second
  // by the background thread). Without: only the space counts. However much it is, a
  // quarter of the budget stays for the space.
  std::function<Bytes()> other_memory;
};

struct PagedSpaceStats {
  std::uint64_t resident_bytes = 0;
  std::uint64_t budget_bytes = 0;
  std::uint64_t faults = 0;
  std::uint64_t write_faults = 0;
  std::uint64_t fetched_pages = 0;
  std::uint64_t ahead_pages = 0;
  std::uint64_t fresh_pages = 0;
  std::uint64_t left_pages = 0;
  std::uint64_t written_pages = 0;
  std::uint64_t rescued_pages = 0;
  std::uint64_t stalls = 0;
  std::uint64_t failures = 0;
};

class PagedSpace {
 public:
  static constexpr std::size_t kMinBudgetPages = 64;
  enum class Access : std::uint8_t { kRead, kWrite };

  // Errors: kInvalidArgument (sizes), kUnsupported (no userfaultfd with SIGBUS and
  // write-protection: Linux 5.11 has both), kPermissionDenied (userfaultfd is forbidden),
  // kOutOfMemory, kAlreadyExists (SIGBUS is taken by another part of Yonder, or the address).
  static Result<std::unique_ptr<PagedSpace>> create(const PagedSpaceOptions& options,
                                                    std::unique_ptr<SlotStore> store);
  ~PagedSpace();
  PagedSpace(const PagedSpace&) = delete;
  PagedSpace& operator=(const PagedSpace&) = delete;

  std::span<std::byte> memory() const { return memory_; }
  bool contains(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
    return at >= begin && at - begin < memory_.size();
  }

  // From now on. Requires at least kMinBudgetPages pages, else kInvalidArgument.
  Result<void> set_budget(Bytes budget);
  Bytes budget() const;

  // The whole pages of the range become fresh: they are zero and cost nothing, neither
  // here nor on the way. Nobody else touches them meanwhile. Requires a range of the space.
  void discard(std::span<std::byte> range);
  // Makes those of its pages resident that are fresh, as far as there is room: many at
  // once cost less than a fault each. Requires a range of the space.
  void populate(std::span<std::byte> range);

  // While it lives the pages are resident, and writable if it was made for writing.
  class Pin {
   public:
    Pin(Pin&& other) noexcept : space_(std::exchange(other.space_, nullptr)), place_(other.place_) {}
    Pin& operator=(Pin&&) = delete;
    ~Pin();

   private:
    friend class PagedSpace;
    Pin(PagedSpace& space, std::size_t place) : space_(&space), place_(place) {}
    PagedSpace* space_;
    std::size_t place_;
  };
  // Whether the calling thread is writing pages to the store. The system calls that it makes
  // with them need no pin: the pages are there, and a pin would keep them from leaving.
  static bool is_sweeping();
  // What one pin should not exceed: a quarter of what may be resident now.
  std::size_t max_pin_bytes() const;
  // Brings the range and keeps it. Errors: kResourceExhausted (more than half of what may
  // be resident, or too many pins), kOutOfBounds (not of the space), kDeadlineExceeded (patience).
  Result<Pin> pin(std::span<const std::byte> range, Access access);

  // Ranges that somebody works on at the far side, in the store: the offload bit. While a lend
  // lives, a page that was lent for reading there is not written here, and one that was lent
  // for writing is not touched: who tries waits for the end of the lend. When lend() returns
  // the store has what the pages contain; when the lend ends, the pages contain what the store
  // has. A page is lent as a whole, with whatever else lies in it.
  struct LendRange {
    std::span<const std::byte> bytes;
    Access access = Access::kRead;
  };
  class Lend {
   public:
    Lend(Lend&& other) noexcept;
    Lend& operator=(Lend&&) = delete;
    ~Lend();

   private:
    friend class PagedSpace;
    explicit Lend(PagedSpace& space) : space_(&space) {}
    PagedSpace* space_;
    std::vector<std::size_t> places_;
  };
  // Waits until nobody else has lent the pages (reading may be shared) or pinned them. The
  // pages must not be discarded before the lend ends; a space that lends must not fork.
  // Errors: kOutOfBounds, kResourceExhausted (more ranges than there are places),
  // kDeadlineExceeded, and those of the store. Requires a deadline that is set.
  Result<Lend> lend(std::span<const LendRange> ranges, Deadline deadline);

  // How large a store must be for a space that may fork: a page has two places in it. In a
  // smaller one, pages that a child may read cannot be written out while it lives.
  static constexpr std::uint64_t store_bytes(std::uint64_t space_bytes) { return 2 * space_bytes; }

  // Around a fork(), by the thread that forks, which touches no far memory in between. The
  // child has the memory as it was at the fork, and may go on using it; what is far it reads
  // from the same store, which the parent leaves as the child needs it until the child has
  // ended or called exec. A child has no budget. If the store is on a node, a child can use
  // only what is resident: it dies of touching anything else. Without prepare_fork() a
  // child has no memory at these addresses at all.
  void prepare_fork() YONDER_NO_THREAD_SAFETY_ANALYSIS;
  void after_fork_in_parent() YONDER_NO_THREAD_SAFETY_ANALYSIS;
  void after_fork_in_child() YONDER_NO_THREAD_SAFETY_ANALYSIS;

  // The process is ending: the far memory is given back to its node. A thread that still
  // touches a page which is not resident sleeps from then on.
  void abandon();

  PagedSpaceStats stats() const;

 private:
  class Parts;
  explicit PagedSpace(std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
  const std::span<std::byte> memory_;
};

}  // namespace yonder::heap
