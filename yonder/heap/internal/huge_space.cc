#include "yonder/heap/internal/huge_space.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/heap/huge.h"

namespace yonder::heap::internal {
namespace {

constexpr Bytes kMinLocal = Bytes(PagedSpace::kMinBudgetPages * kPageBytes);
// Without HeapOptions::huge_local: as `yonder run` does.
constexpr std::uint64_t kLocalShare = 4;
// What "for ever" is to a fault, which cannot go on without its page.
constexpr Duration kForEver = std::chrono::hours(24 * 365);

std::size_t pages_for(std::size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes; }

Bytes local_of(const HeapOptions& options) {
  if (options.huge_local.count() != 0) return options.huge_local;
  return std::max(Bytes(options.huge.count() / kLocalShare), kMinLocal);
}

HugeSpace& huge_space() {
  YONDER_CHECK(g_huge != nullptr && g_huge->is_of_this_process(),
               "a huge far object is used without its heap (or in a forked child)");
  return *g_huge;
}

}  // namespace

Result<std::unique_ptr<HugeSpace>> HugeSpace::create(const HeapOptions& options) {
  const Bytes bytes(pages_for(options.huge.count()) * kPageBytes);
  YONDER_TRY(store, SlotStore::open({.node = options.node,
                                     .link = options.link,
                                     .bytes = bytes,
                                     .lanes = options.lanes,
                                     .timeout = options.timeout}));
  YONDER_TRY(pages, PagedSpace::create({.bytes = bytes,
                                        .budget = local_of(options),
                                        .patience = options.wait_for_node ? kForEver : options.timeout},
                                       std::move(store)));
  return std::unique_ptr<HugeSpace>(new HugeSpace(std::move(pages)));
}

HugeSpace::HugeSpace(std::unique_ptr<PagedSpace> pages)
    : process_(::getpid()), pages_(std::move(pages)), runs_(pages_->memory().size() / kPageBytes) {}

HugeSpace::~HugeSpace() {
  if (!is_of_this_process()) {
    (void)pages_.release();  // Its threads and connections are the parent's.
    return;
  }
  YONDER_CHECK(runs_.free_pages() == pages_->memory().size() / kPageBytes,
               "huge far objects are gone before their heap");
}

bool HugeSpace::is_of_this_process() const { return ::getpid() == process_; }

Result<std::byte*> HugeSpace::allocate(std::size_t bytes) {
  const auto first = runs_.take(pages_for(bytes));
  if (!first)
    return fail(ErrorCode::kOutOfMemory, "far heap: no room for a huge object",
                static_cast<std::int64_t>(bytes));
  return pages_->memory().data() + *first * kPageBytes;
}

void HugeSpace::free(std::byte* memory, std::size_t bytes) {
  const std::size_t pages = pages_for(bytes);
  pages_->discard({memory, pages * kPageBytes});  // First: the next owner expects zeros.
  runs_.give(static_cast<std::size_t>(memory - pages_->memory().data()) / kPageBytes, pages);
}

// ---------------------------------------------------------------- what huge.h calls

Result<std::byte*> allocate_huge(std::size_t bytes) {
  if (g_huge == nullptr)
    return fail(ErrorCode::kOutOfMemory, "far heap: it has no memory for huge objects (HeapOptions::huge)");
  return huge_space().allocate(bytes);
}
void free_huge(std::byte* memory, std::size_t bytes) { huge_space().free(memory, bytes); }
Result<PagedSpace::Pin> pin_huge(std::span<const std::byte> bytes) {
  return huge_space().pages().pin(bytes, PagedSpace::Access::kWrite);
}

}  // namespace yonder::heap::internal
