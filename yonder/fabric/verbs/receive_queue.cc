#include "yonder/fabric/verbs/internal/receive_queue.h"

#include <algorithm>

#include "yonder/base/check.h"

namespace yonder::fabric::verbs {

VerbsReceiveQueue::VerbsReceiveQueue(std::shared_ptr<Device> device, const RegionTable& regions,
                                     BouncePool& pool, std::uint32_t capacity)
    : device_(std::move(device)), regions_(regions), pool_(pool), slots_(capacity) {
  free_.reserve(capacity);
  batch_.reserve(capacity);
  for (ReceiveSlot& slot : slots_) {
    slot.shared = this;
    free_.push_back(&slot);
  }
}

Result<std::unique_ptr<ReceiveQueue>> VerbsReceiveQueue::create(std::shared_ptr<Device> device,
                                                                const RegionTable& regions, BouncePool& pool,
                                                                const ReceiveQueueOptions& options) {
  const auto limit = static_cast<std::uint32_t>(std::max(device->attributes().max_srq_wr, 0));
  if (options.capacity == 0 || options.capacity > limit) {
    return fail(ErrorCode::kInvalidArgument, "create a receive queue: capacity", options.capacity);
  }
  std::unique_ptr<VerbsReceiveQueue> queue(
      new VerbsReceiveQueue(std::move(device), regions, pool, options.capacity));
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = options.capacity;
  attributes.attr.max_sge = 1;
  queue->srq_ = queue->device_->library().create_srq(queue->device_->pd(), &attributes);
  if (queue->srq_ == nullptr) return std::unexpected(device_error("ibv_create_srq"));
  return queue;
}

VerbsReceiveQueue::~VerbsReceiveQueue() { close(); }

Result<void> VerbsReceiveQueue::post(std::span<const ReceiveRequest> receives) {
  if (receives.empty()) return {};
  const std::scoped_lock lock(mutex_);
  if (srq_ == nullptr) return fail(ErrorCode::kClosed, "post to a receive queue");
  if (receives.size() > free_.size()) {
    return fail(ErrorCode::kQueueFull, "post to a receive queue", static_cast<std::int64_t>(free_.size()));
  }
  batch_.clear();
  const Result<void> prepared = prepare_all(receives, batch_);
  if (!prepared) {
    for (ReceiveSlot* slot : batch_) {
      slot->release(parts());
      free_.push_back(slot);
    }
    return prepared;
  }
  for (std::size_t i = 0; i + 1 < batch_.size(); ++i) batch_[i]->wr.next = &batch_[i + 1]->wr;
  ibv_recv_wr* bad = nullptr;
  const int error = ::ibv_post_srq_recv(srq_, &batch_.front()->wr, &bad);
  YONDER_CHECK(error == 0, "the shared queue has room for every slot");
  return {};
}

Result<void> VerbsReceiveQueue::prepare_all(std::span<const ReceiveRequest> receives,
                                            std::vector<ReceiveSlot*>& out) {
  for (const ReceiveRequest& receive : receives) {
    ReceiveSlot* slot = free_.back();
    free_.pop_back();
    out.push_back(slot);
    YONDER_TRY_VOID(slot->prepare(parts(), receive, receive.buffer.length, SlotKind::kShared));
  }
  return {};
}

Completion VerbsReceiveQueue::take(ReceiveSlot& slot, const ibv_wc& wc, EndpointId id) {
  const Completion completion = slot.received(wc, id);
  const std::scoped_lock lock(mutex_);
  slot.release(parts());
  free_.push_back(&slot);
  return completion;
}

void VerbsReceiveQueue::post_again(ReceiveSlot& slot) {
  const std::scoped_lock lock(mutex_);
  if (srq_ == nullptr) return;
  slot.wr.next = nullptr;
  ibv_recv_wr* bad = nullptr;
  const int error = ::ibv_post_srq_recv(srq_, &slot.wr, &bad);
  YONDER_CHECK(error == 0, "the shared queue has room for every slot");
}

void VerbsReceiveQueue::close() {
  const std::scoped_lock lock(mutex_);
  if (srq_ == nullptr) return;
  const int error = device_->library().destroy_srq(srq_);
  YONDER_CHECK(error == 0, "endpoints are closed before their receive queue");
  srq_ = nullptr;
  for (ReceiveSlot& slot : slots_) slot.release(parts());
}

}  // namespace yonder::fabric::verbs
