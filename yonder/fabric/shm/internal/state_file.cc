#include "yonder/fabric/shm/internal/state_file.h"

#include "yonder/base/check.h"
#include "yonder/fabric/shm/internal/received_file.h"
#include "yonder/os/memfd.h"

namespace yonder::fabric::shm {

Result<StateView> StateView::map(os::Fd fd) {
  YONDER_TRY(mapping, map_received(std::move(fd), {.bytes = kStateFileBytes}));
  return StateView(std::move(mapping));
}

const NoticeLine& StateView::line(std::uint32_t index) const {
  YONDER_DCHECK(index < kNoticeLines, "a notice line that was checked on arrival");
  return reinterpret_cast<const NoticeLine*>(mapping_.data())[index];
}

const std::atomic<std::uint64_t>& StateView::region(std::uint32_t slot) const {
  YONDER_DCHECK(slot < kRegionSlots, "a region slot that was checked on arrival");
  return reinterpret_cast<const std::atomic<std::uint64_t>*>(mapping_.data() + kRegionWordsAt)[slot];
}

Result<std::unique_ptr<StateFile>> StateFile::create() {
  YONDER_TRY(file, os::Memfd::create({.name = "yonder-shm-state", .size = kStateFileBytes}));
  YONDER_TRY(mapping, os::Mapping::of_file(
                          file.fd(), {.bytes = kStateFileBytes, .protection = os::Protection::kReadWrite}));
  // After our own writable mapping exists: from here on nobody gets another.
  YONDER_TRY_VOID(file.seal(os::kSealShrink | os::kSealGrow | os::kSealFutureWrite | os::kSealSeal));
  YONDER_TRY(read_only, file.fd().reopen_read_only());
  return std::unique_ptr<StateFile>(new StateFile(std::move(read_only), std::move(mapping)));
}

NoticeLine& StateFile::line(std::uint32_t index) {
  YONDER_CHECK(index < kNoticeLines, "a notice line we allocated");
  return reinterpret_cast<NoticeLine*>(mapping_.data())[index];
}

std::atomic<std::uint64_t>& StateFile::region(std::uint32_t slot) {
  YONDER_CHECK(slot < kRegionSlots, "a region slot we allocated");
  return reinterpret_cast<std::atomic<std::uint64_t>*>(mapping_.data() + kRegionWordsAt)[slot];
}

Result<std::uint32_t> StateFile::take_line() {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < kNoticeLines; ++i) {
    if (taken_[i]) continue;
    taken_[i] = true;
    line(i).sleeping.store(0, std::memory_order_relaxed);
    line(i).available.store(0, std::memory_order_relaxed);
    return i;
  }
  return fail(ErrorCode::kResourceExhausted, "create queue: 1,023 queues per shm fabric", kNoticeLines);
}

void StateFile::give_line(std::uint32_t index) {
  const std::lock_guard lock(mutex_);
  taken_[index] = false;
}

}  // namespace yonder::fabric::shm
