#include "yonder/heap/offload_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "yonder/base/secure_random.h"
#include "yonder/client/offload_session.h"
#include "yonder/fabric/open/open.h"
#include "yonder/heap/slot_store.h"
#include "yonder/os/steady_clock.h"
#include "yonder/sync/mutex.h"

namespace yonder::heap {
namespace {

using client::OffloadSession;

// Where neither programs nor libraries nor stacks are put, in this process or in another.
constexpr std::uintptr_t kFirstAddress = 0x3000'0000'0000;
constexpr std::uintptr_t kLastAddress = 0x5000'0000'0000;
constexpr std::uintptr_t kAddressStep = std::uintptr_t{1} << 30;
constexpr int kAddressAttempts = 16;

Result<void*> random_address(std::size_t bytes) {
  if (bytes >= kLastAddress - kFirstAddress)
    return fail(ErrorCode::kInvalidArgument, "offload space: more than addresses", 0);
  YONDER_TRY(random, secure_random_u64());
  const std::uintptr_t steps = (kLastAddress - kFirstAddress - bytes) / kAddressStep;
  return reinterpret_cast<void*>(kFirstAddress + random % steps * kAddressStep);
}

}  // namespace

class OffloadSpace::Parts {
 public:
  Result<void> open(const OffloadSpaceOptions& given);

  // Takes a connection that no other call uses. Errors: kDeadlineExceeded.
  Result<OffloadSession*> take_line(Deadline deadline);
  void give_line(OffloadSession* line);

  OffloadSpaceOptions options;
  std::string extent;
  std::unique_ptr<fabric::Fabric> fabric;
  std::vector<std::unique_ptr<OffloadSession>> lines;
  std::unique_ptr<PagedSpace> space;
  std::unique_ptr<PagedArena> arena;
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> failed{0};
  sync::Mutex arena_mutex;

  sync::Mutex mutex;
  sync::Condition line_is_free;
  std::vector<OffloadSession*> free_lines YONDER_GUARDED_BY(mutex);

 private:
  Result<void> open_space();
};

// ---------------------------------------------------------------- making one

Result<void> OffloadSpace::Parts::open_space() {
  PagedSpaceOptions paging{.bytes = options.bytes, .budget = options.budget, .patience = options.patience};
  for (int attempt = 0;; ++attempt) {
    YONDER_TRY(address, random_address(options.bytes.count()));
    paging.at = address;
    YONDER_TRY(
        store,
        SlotStore::open(
            {.node = options.node, .name = extent, .bytes = options.bytes, .timeout = options.timeout}));
    auto made = PagedSpace::create(paging, std::move(store));
    // Somebody is there already, or the SIGBUS handler is: the last attempt tells.
    if (!made && made.error() == ErrorCode::kAlreadyExists && attempt < kAddressAttempts) continue;
    if (!made) return std::unexpected(made.error());
    space = *std::move(made);
    return {};
  }
}

Result<void> OffloadSpace::Parts::open(const OffloadSpaceOptions& given) {
  options = given;
  YONDER_TRY(high, secure_random_u64());
  YONDER_TRY(low, secure_random_u64());
  extent = fmt::format("offload-{:016x}{:016x}", high, low);
  YONDER_TRY_VOID(open_space());
  YONDER_TRY(made, PagedArena::create(*space));
  arena = std::move(made);
  YONDER_TRY(opened, fabric::open(options.node));
  fabric = std::move(opened);
  for (std::uint32_t i = 0; i < options.lines; ++i) {
    YONDER_TRY(line, OffloadSession::connect(*fabric, {.address = options.node, .timeout = options.timeout}));
    give_line(line.get());
    lines.push_back(std::move(line));
  }
  return {};
}

Result<std::unique_ptr<OffloadSpace>> OffloadSpace::create(const OffloadSpaceOptions& options) {
  if (options.node.empty() || options.lines == 0)
    return fail(ErrorCode::kInvalidArgument, "offload space: a node, and lines to it");
  if (options.bytes.count() == 0 || options.bytes.count() % kPageBytes != 0)
    return fail(ErrorCode::kInvalidArgument, "offload space: whole pages");
  auto parts = std::make_unique<Parts>();
  YONDER_TRY_VOID(parts->open(options));
  return std::unique_ptr<OffloadSpace>(new OffloadSpace(std::move(parts)));
}

OffloadSpace::OffloadSpace(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
OffloadSpace::~OffloadSpace() = default;

// ---------------------------------------------------------------- objects

// A thread keeps no objects: the arena's caches are one arena's at a time, and a process may
// have several spaces.
Result<void*> OffloadSpace::allocate(std::size_t bytes, std::size_t alignment) {
  sync::LockGuard lock(parts_->arena_mutex);
  void* const object = alignment <= 16 ? parts_->arena->allocate_zeroed(std::max<std::size_t>(bytes, 1))
                                       : parts_->arena->allocate(std::max<std::size_t>(bytes, 1), alignment);
  parts_->arena->forget_thread();
  if (object == nullptr)
    return fail(ErrorCode::kOutOfMemory, "offload space", static_cast<std::int64_t>(bytes));
  if (alignment > 16) std::memset(object, 0, bytes);
  return object;
}

void OffloadSpace::free(const void* object) {
  if (object == nullptr) return;
  sync::LockGuard lock(parts_->arena_mutex);
  parts_->arena->free(const_cast<void*>(object));
  parts_->arena->forget_thread();
}

std::span<std::byte> OffloadSpace::memory() const { return parts_->space->memory(); }
bool OffloadSpace::contains(const void* address) const { return parts_->space->contains(address); }
PagedSpace& OffloadSpace::pages() { return *parts_->space; }
const OffloadSpaceOptions& OffloadSpace::options() const { return parts_->options; }
const std::string& OffloadSpace::extent() const { return parts_->extent; }
fabric::Fabric& OffloadSpace::fabric() { return *parts_->fabric; }

OffloadStats OffloadSpace::stats() const {
  // relaxed: statistics.
  return {.calls = parts_->calls.load(std::memory_order_relaxed),
          .failed = parts_->failed.load(std::memory_order_relaxed),
          .pages = parts_->space->stats()};
}

// ---------------------------------------------------------------- calls

OffloadSpace::CallCount::CallCount(OffloadSpace& space) : space_(space) {
  // relaxed: statistics.
  space_.parts_->calls.fetch_add(1, std::memory_order_relaxed);
}
std::unexpected<Error> OffloadSpace::CallCount::failed(const Error& error) const {
  // relaxed: statistics.
  space_.parts_->failed.fetch_add(1, std::memory_order_relaxed);
  return std::unexpected(error);
}

Result<OffloadSession*> OffloadSpace::Parts::take_line(Deadline deadline) {
  sync::LockGuard lock(mutex);
  while (free_lines.empty()) {
    if (deadline.passed(os::SteadyClock::read()))
      return fail(ErrorCode::kOverloaded, "offload: all lines to the node are busy");
    (void)line_is_free.wait(lock, deadline);
  }
  OffloadSession* const line = free_lines.back();
  free_lines.pop_back();
  return line;
}

void OffloadSpace::Parts::give_line(OffloadSession* line) {
  {
    sync::LockGuard lock(mutex);
    free_lines.push_back(line);
  }
  line_is_free.notify_one();
}

Result<std::vector<std::byte>> OffloadSpace::call_raw(const FunctionId& function,
                                                      std::span<const std::byte> arguments,
                                                      std::span<const LentRange> ranges, Duration time) {
  const CallCount count(*this);
  const Deadline deadline = Deadline::at(os::SteadyClock::read() + time);
  // The line first: who waits for one must not keep others from their pages.
  const auto line = parts_->take_line(deadline);
  if (!line) return count.failed(line.error());
  Result<std::vector<std::byte>> result;
  {
    const auto lend = parts_->space->lend(ranges, deadline);
    if (!lend) {
      parts_->give_line(*line);
      return count.failed(lend.error());
    }
    const Duration left = std::max<Duration>(deadline.instant() - os::SteadyClock::read(), Duration(1));
    result = (*line)->call({.extent = parts_->extent,
                            .address = reinterpret_cast<std::uint64_t>(memory().data()),
                            .function = function.name,
                            .version = function.version,
                            .arguments = arguments,
                            .time = left});
    if (!result && OffloadSession::may_run_on(result.error())) {
      // Until the node has ended it for certain the pages are the function's.
      while (!Deadline::at(deadline.instant() + kNodeLag).passed(os::SteadyClock::read()))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  parts_->give_line(*line);
  if (!result) return count.failed(result.error());
  return result;
}

}  // namespace yonder::heap
