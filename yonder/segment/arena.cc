#include "yonder/segment/arena.h"

#include "yonder/base/check.h"
#include "yonder/segment/internal/fault_router.h"

namespace yonder::segment {

namespace {

#if defined(__SANITIZE_THREAD__)
#define YONDER_SEGMENT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define YONDER_SEGMENT_TSAN 1
#endif
#endif

#ifdef YONDER_SEGMENT_TSAN
// ThreadSanitizer lets programs use a few ranges only; this one lies below where
// position-independent programs are loaded.
constexpr std::uintptr_t kDefaultBase = 0x5500'0000'0000;
constexpr std::uint32_t kDefaultSlots = 256;
#else
// 32 TiB: above heaps of non-relocatable programs, far below where the kernel puts
// libraries and stacks (it goes down from 128 TiB), and free under AddressSanitizer.
constexpr std::uintptr_t kDefaultBase = 0x2000'0000'0000;
constexpr std::uint32_t kDefaultSlots = 16 * 1024;
#endif

}  // namespace

Result<std::unique_ptr<Arena>> Arena::reserve(const ArenaOptions& options) {
  const std::uintptr_t base = options.base == 0 ? kDefaultBase : options.base;
  const std::uint32_t slots = options.slots == 0 ? kDefaultSlots : options.slots;
  if (base % kSlotBytes != 0)
    return fail(ErrorCode::kInvalidArgument, "reserve the arena: its base is a multiple of 1 GiB");
  YONDER_TRY(memory,
             os::Mapping::reserve({.bytes = slots * kSlotBytes, .at = reinterpret_cast<void*>(base)}));
  YONDER_TRY_VOID(internal::FaultRouter::open(base, slots));
  return std::unique_ptr<Arena>(new Arena(std::move(memory)));
}

Arena::~Arena() { internal::FaultRouter::close(); }

bool Arena::contains(SlotRange range) const {
  return range.count > 0 && range.first < slots() && range.count <= slots() - range.first;
}

std::size_t Arena::offset_of(SlotRange range) const {
  YONDER_CHECK(contains(range), "slots lie in the arena");
  return std::size_t{range.first} * kSlotBytes;
}

std::byte* Arena::address_of(SlotRange range) const { return memory_.data() + offset_of(range); }

Result<void> Arena::map(SlotRange range, const os::Memfd& file) {
  const std::size_t bytes = std::size_t{range.count} * kSlotBytes;
  YONDER_TRY_VOID(memory_.remap_file(offset_of(range), file.fd(),
                                     {.bytes = bytes, .protection = os::Protection::kReadWrite}));
  // A segment has one owner, and a child would see zeros where pages have not arrived.
  return memory_.keep_from_children(offset_of(range), bytes);
}

Result<os::Mapping> Arena::make_room(SlotRange range) {
  return os::Mapping::reserve({.bytes = std::size_t{range.count} * kSlotBytes, .alignment = kSlotBytes});
}

Result<os::Mapping> Arena::fence(SlotRange range, os::Mapping room) {
  return memory_.move_out(offset_of(range), std::size_t{range.count} * kSlotBytes, std::move(room));
}

void Arena::rehearse_fence(SlotRange range) {
  // They are kept from children already.
  (void)memory_.keep_from_children(offset_of(range), std::size_t{range.count} * kSlotBytes);
  constexpr SlotRange kOne{.first = 0, .count = 1};
  Result<os::Memfd> file = os::Memfd::create({.name = "yonder-rehearsal", .size = os::kPageBytes});
  Result<os::Mapping> stage = make_room(kOne);
  Result<os::Mapping> room = make_room(kOne);
  // Who cannot rehearse is only slower.
  if (!file || !stage || !room) return;
  if (!stage->remap_file(0, file->fd(), {.bytes = kSlotBytes, .protection = os::Protection::kReadWrite}))
    return;
  *const_cast<volatile std::byte*>(stage->data()) = std::byte{1};
  // The hole that is left may be somebody else's from now on: it is not ours to unmap.
  if (stage->move_out(0, kSlotBytes, std::move(*room))) (void)stage->release();
}

Result<void> Arena::keep(SlotRange range) {
  const Result<void> kept = memory_.reserve_hole(offset_of(range), std::size_t{range.count} * kSlotBytes);
  if (!kept && kept.error() == ErrorCode::kAlreadyExists) return {};
  return kept;
}

Result<void> Arena::clear(SlotRange range) {
  return memory_.remap_reserved(offset_of(range), std::size_t{range.count} * kSlotBytes);
}

}  // namespace yonder::segment
