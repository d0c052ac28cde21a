#include <bit>
#include <cerrno>

#include "yonder/base/check.h"
#include "yonder/fabric/verbs/internal/bounce_pool.h"

namespace yonder::fabric::verbs {

Result<ibv_mr*> register_with_nic(const Device& device, std::byte* data, std::size_t bytes,
                                  std::uint64_t address, unsigned access) {
  ibv_mr* registration = device.library().reg_mr(device.pd(), data, bytes, address, access);
  if (registration != nullptr) return registration;
  switch (errno) {
    case ENOMEM:
      return fail(
          ErrorCode::kResourceExhausted,
          "ibv_reg_mr: the limit on locked memory (ulimit -l, RLIMIT_MEMLOCK) or the memory is exhausted",
          ENOMEM);
    case EPERM:
      return fail(ErrorCode::kPermissionDenied,
                  "ibv_reg_mr: this process may lock no memory at all (ulimit -l, RLIMIT_MEMLOCK)", EPERM);
    case ENOSPC:
    case EAGAIN:
      return fail(ErrorCode::kResourceExhausted, "ibv_reg_mr: the device holds no more regions", errno);
    case EOPNOTSUPP:
      return fail(ErrorCode::kUnsupported, "ibv_reg_mr: the device does not know this kind of registration",
                  errno);
    default:
      return fail_errno("ibv_reg_mr");
  }
}

BouncePool::BouncePool(std::shared_ptr<Device> device, std::size_t limit_bytes)
    : device_(std::move(device)), max_slabs_(limit_bytes / kMaxBytes) {}

BouncePool::~BouncePool() {
  YONDER_CHECK(taken_ == 0, "all bounce blocks come back before their pool goes");
  for (const Slab& slab : slabs_) device_->library().dereg_mr(slab.registration);
}

Result<Block> BouncePool::take(std::size_t bytes) {
  YONDER_CHECK(bytes <= kMaxBytes, "larger transfers are registered for themselves");
  const std::size_t rounded = std::bit_ceil(std::max(bytes, kMinBytes));
  const auto size_class = static_cast<std::size_t>(std::countr_zero(rounded / kMinBytes));
  const std::scoped_lock lock(mutex_);
  if (free_[size_class].empty()) YONDER_TRY_VOID(grow(size_class));
  const Block block = free_[size_class].back();
  free_[size_class].pop_back();
  ++taken_;
  return block;
}

void BouncePool::give(Block block) {
  const std::scoped_lock lock(mutex_);
  free_[block.size_class].push_back(block);  // Never grows: grow() reserved it.
  --taken_;
}

Result<void> BouncePool::grow(std::size_t size_class) {
  if (slabs_.size() >= max_slabs_) {
    return fail(ErrorCode::kResourceExhausted, "transfer from unregistered memory: the bounce pool is in use",
                static_cast<std::int64_t>(slabs_.size()));
  }
  YONDER_TRY(memory, os::Mapping::anonymous({.bytes = kMaxBytes}));
  YONDER_TRY(registration,
             register_with_nic(*device_, memory.data(), kMaxBytes,
                               reinterpret_cast<std::uint64_t>(memory.data()), IBV_ACCESS_LOCAL_WRITE));
  const std::size_t block_bytes = kMinBytes << size_class;
  const std::size_t count = kMaxBytes / block_bytes;
  std::vector<Block>& list = free_[size_class];
  list.reserve(list.capacity() + count);
  for (std::size_t i = count; i-- > 0;) {
    list.push_back({.data = memory.data() + i * block_bytes,
                    .lkey = registration->lkey,
                    .size_class = static_cast<std::uint8_t>(size_class)});
  }
  slabs_.push_back({std::move(memory), registration});
  return {};
}

}  // namespace yonder::fabric::verbs
