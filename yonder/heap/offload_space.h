#pragma once
// OffloadSpace: far memory on which functions can run where it is (Atlas, section 4.3).
//
//   auto space = far::OffloadSpace::create({.node = "tcp://node-1:7400", .bytes = Bytes(8_GiB),
//                                           .budget = Bytes(1_GiB)}).value();
//   std::span<std::uint64_t> column = space->make_array<std::uint64_t>(rows).value();
//   column[7] = 3;                                            // ordinary memory, paged
//   Result<std::uint64_t> sum = space->call<std::uint64_t>(
//       {"df.sum", 1}, SumOf{column.data(), rows}, {{far::reads(column)}}, 100ms);
//
// It is a paged space (paged_space.h) whose memory has the same address here and in the
// process on the node in which functions run: ordinary objects with ordinary pointers work on
// both sides. What may be in it: remotable.h. The far side is an extent of a node, always.
//
// A call names the function, its version, and the *ranges* it will touch: those it reads and
// those it writes. Pages of ranges are lent for the time of the call (PagedSpace::lend): what
// is dirty here goes there first; an access here that the function could see, or that could
// see it, waits until the call is over. What the function touches outside its ranges is in
// whatever state the node has it, and what it writes there may be lost: it harms nobody but
// this program. Where ranges end inside a page, their pages count as a whole.
//
// After call() has returned, whatever it returned, the function does not run any more:
//   a result, or an error of the function   the ranges have what it has written
//   kConnectionLost, kDeadlineExceeded,     before it returns, the time that the function had
//   kServerReplaced                         has passed, and the node has ended it if it is
//                                           alive; ranges lent for writing have the old bytes,
//                                           the function's, or some of both
// A node that is gone takes the far pages with it, as with any paged space.
//
//   state of a page | access here            | call that reads it | call that writes it
//   ----------------+------------------------+--------------------+---------------------
//   not lent        | as in a paged space    | lent for reading   | lent for writing
//   lent to read    | reads; a write waits   | shared             | waits
//   lent to write   | waits                  | waits              | waits
//
// Concurrency: any thread; `lines` calls are under way at a time, others wait. Allocation
// takes a lock.
// Lifetime: nobody touches the memory, and no call runs, when the space is destroyed; objects
// and the extent end with it. A child made by fork has no memory there.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/heap/paged_arena.h"
#include "yonder/heap/paged_space.h"
#include "yonder/heap/remotable.h"

namespace yonder::heap {

struct OffloadSpaceOptions {
  std::string node;                            // Where yonderd listens; it has --functions.
  Bytes bytes{0};                              // Of all objects together; whole pages.
  Bytes budget{0};                             // Of local memory; at least PagedSpace::kMinBudgetPages pages.
  std::uint32_t lines = 2;                     // Calls under way at a time.
  Duration timeout = std::chrono::seconds(5);  // Of one transfer.
  Duration patience = std::chrono::seconds(30);  // Of a fault with a node that is away.
};

struct FunctionId {
  std::string_view name;  // "LIBRARY.FUNCTION"
  std::uint32_t version = 0;
};

using LentRange = PagedSpace::LendRange;
// What a function will read, and what it may write: an object, or a span of them.
template <typename T>
LentRange reads(std::span<T> objects) {
  return {.bytes = std::as_bytes(objects), .access = PagedSpace::Access::kRead};
}
template <typename T>
LentRange writes(std::span<T> objects) {
  return {.bytes = std::as_bytes(objects), .access = PagedSpace::Access::kWrite};
}
template <Remotable T>
LentRange reads(const T* object) {
  return reads(std::span(object, 1));
}
template <Remotable T>
LentRange writes(const T* object) {
  return writes(std::span(object, 1));
}

struct OffloadStats {
  std::uint64_t calls = 0;
  std::uint64_t failed = 0;
  PagedSpaceStats pages;
};

// The bytes that a function returned, as an R. kCorrupt: another length than an R's.
template <typename R>
Result<R> result_from_bytes(std::span<const std::byte> bytes) {
  if constexpr (std::is_void_v<R>) {
    return {};
  } else {
    static_assert(std::is_trivially_copyable_v<R>, "results travel as bytes");
    if (bytes.size() != sizeof(R))
      return fail(ErrorCode::kCorrupt, "offload: a result of another length",
                  static_cast<std::int64_t>(bytes.size()));
    R result;
    std::memcpy(&result, bytes.data(), sizeof(R));
    return result;
  }
}

class OffloadSpace {
 public:
  // Errors: kInvalidArgument (sizes, no node), kOutOfMemory, those of PagedSpace::create and
  // of reaching the node. That the node has functions shows at the first call.
  static Result<std::unique_ptr<OffloadSpace>> create(const OffloadSpaceOptions& options);
  ~OffloadSpace();
  OffloadSpace(const OffloadSpace&) = delete;
  OffloadSpace& operator=(const OffloadSpace&) = delete;

  // kOutOfMemory: the space is full.
  template <Remotable T, typename... Args>
  Result<T*> make(Args&&... args) {
    YONDER_TRY(room, allocate(sizeof(T), alignof(T)));
    return new (room) T{std::forward<Args>(args)...};
  }
  // Zeroed.
  template <Remotable T>
    requires std::is_trivially_default_constructible_v<T>
  Result<std::span<T>> make_array(std::size_t count) {
    if (count > memory().size() / sizeof(T)) return fail(ErrorCode::kOutOfMemory, "offload space");
    YONDER_TRY(room, allocate(count * sizeof(T), alignof(T)));
    return std::span<T>(static_cast<T*>(room), count);
  }
  // Requires something that make() or make_array() gave, and no call that has it.
  void free(const void* object);

  // Runs the function on the node and returns its result, any bytes. It has `time` to run;
  // waiting for what is lent to others counts, too.
  // Errors: kUnknownFunction, kFunctionVersion, kFunctionFailed, kFunctionCrashed,
  // kFunctionMemory, kFunctionForbidden, kFunctionDeadline; those of
  // client::OffloadSession::call and of PagedSpace::lend.
  Result<std::vector<std::byte>> call_raw(const FunctionId& function, std::span<const std::byte> arguments,
                                          std::span<const LentRange> ranges, Duration time);
  // The same with values. kCorrupt: the result has another length than an R. As a coroutine:
  // offload_line.h.
  template <typename R, typename A>
  Result<R> call(const FunctionId& function, const A& arguments, std::initializer_list<LentRange> ranges,
                 Duration time) {
    return call<R>(function, arguments, std::span(ranges.begin(), ranges.size()), time);
  }
  template <typename R, typename A>
  Result<R> call(const FunctionId& function, const A& arguments, std::span<const LentRange> ranges,
                 Duration time) {
    static_assert(std::is_trivially_copyable_v<A>, "arguments travel as bytes");
    YONDER_TRY(bytes, call_raw(function, std::as_bytes(std::span(&arguments, 1)), ranges, time));
    return result_from_bytes<R>(bytes);
  }

  std::span<std::byte> memory() const;
  bool contains(const void* address) const;
  PagedSpace& pages();
  OffloadStats stats() const;

 private:
  friend class OffloadLine;
  class Parts;
  // How much later than asked for the node may end a function.
  static constexpr Duration kNodeLag = std::chrono::seconds(1);

  // One call, in the statistics.
  class CallCount {
   public:
    explicit CallCount(OffloadSpace& space);
    std::unexpected<Error> failed(const Error& error) const;

   private:
    OffloadSpace& space_;
  };

  explicit OffloadSpace(std::unique_ptr<Parts> parts);
  // Zeroed.
  Result<void*> allocate(std::size_t bytes, std::size_t alignment);
  const OffloadSpaceOptions& options() const;
  const std::string& extent() const;
  fabric::Fabric& fabric();

  const std::unique_ptr<Parts> parts_;
};

}  // namespace yonder::heap
