#include "yonder/remote/buffer_pool.h"

#include "yonder/base/check.h"

namespace yonder::remote {

Result<std::unique_ptr<BufferPool>> BufferPool::create(fabric::Fabric& fabric,
                                                       const BufferPoolOptions& options) {
  if (options.buffers == 0 || options.buffer_bytes == 0) {
    return fail(ErrorCode::kInvalidArgument, "a pool of no buffers, or of empty ones");
  }
  // Populated: a first touch in the middle of a request would cost microseconds.
  YONDER_TRY(memory, os::Mapping::anonymous(
                         {.bytes = std::size_t{options.buffers} * options.buffer_bytes, .populate = true}));
  YONDER_TRY(region, fabric.register_memory({.memory = memory.bytes()}));
  return std::unique_ptr<BufferPool>(new BufferPool(std::move(memory), std::move(region), options));
}

BufferPool::BufferPool(os::Mapping memory, fabric::Region region, const BufferPoolOptions& options)
    : buffer_bytes_(options.buffer_bytes),
      buffers_(options.buffers),
      memory_(std::move(memory)),
      region_(std::move(region)),
      key_(region_.local_key()) {
  free_.reserve(buffers_);
  for (std::size_t i = buffers_; i-- > 0;) free_.push_back(memory_.data() + i * buffer_bytes_);
}

BufferPool::~BufferPool() { YONDER_CHECK(free_.size() == buffers_, "a pool outlives its buffers"); }

}  // namespace yonder::remote
