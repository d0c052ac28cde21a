#pragma once
// Batch: many operations in one request (protocol.h, Batch).
//
//   Batch batch(core.max_data(), core.scratch());
//   while (batch.add<AllocRequest>(Item::kAlloc, {.bytes = 7}, sizeof(PointerMessage))) …
//   length = co_await rpc.call_raw(kBatch, batch.request(), batch.answer(), deadline);
//   batch.open(length);
//   while (… next item …) Result<std::span<const std::byte>> answer = batch.next();
//
// Concurrency: the session's thread. Lifetime: lives until its answers are taken;
// spans of next() point into it.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "yonder/base/result.h"
#include "yonder/client/internal/scratch.h"
#include "yonder/node/protocol.h"
#include "yonder/rpc/message.h"

namespace yonder::client::internal {

class Batch {
 public:
  // For messages of `bytes` each way. Requires room for one item.
  Batch(std::size_t bytes, ScratchPool& pool) : request_(pool.take(bytes)), answer_(pool.take(bytes)) {}

  // Adds an operation whose answer has `answer_bytes`. False: it does not fit any more.
  template <rpc::Message Request>
  bool add(node::protocol::Item kind, const Request& request, std::size_t answer_bytes) {
    using node::protocol::ItemHead;
    const std::span<std::byte> room = request_.bytes().subspan(request_bytes_);
    if (count_ == node::protocol::kMaxBatchItems || room.size() < sizeof(ItemHead)) return false;
    if (sizeof(ItemHead) + answer_bytes > answer_.bytes().size() - answer_bytes_) return false;
    const auto length = rpc::encode_message(request, room.subspan(sizeof(ItemHead)));
    if (!length) return false;
    const ItemHead head{.kind = static_cast<std::uint32_t>(kind),
                        .bytes = static_cast<std::uint32_t>(*length)};
    std::memcpy(room.data(), &head, sizeof head);
    request_bytes_ += sizeof head + *length;
    answer_bytes_ += sizeof head + answer_bytes;
    ++count_;
    return true;
  }

  bool empty() const { return count_ == 0; }
  std::span<const std::byte> request() const { return request_.bytes().first(request_bytes_); }
  std::span<std::byte> answer() const { return answer_.bytes().first(answer_bytes_); }

  // The answer has arrived, or an error that is everybody's.
  void open(const Result<std::size_t>& length) {
    outcome_ = outcome_of(length);
    rest_ = length ? answer_.bytes().first(*length) : std::span<std::byte>();
  }
  // What became of the next operation, in the order of add().
  Result<std::span<const std::byte>> next() {
    if (!outcome_) return std::unexpected(outcome_.error());
    node::protocol::ItemHead head;
    if (rest_.size() < sizeof head) return corrupt();
    std::memcpy(&head, rest_.data(), sizeof head);
    if (head.bytes > rest_.size() - sizeof head) return corrupt();
    const std::span<const std::byte> bytes = rest_.subspan(sizeof head, head.bytes);
    rest_ = rest_.subspan(sizeof head + head.bytes);
    if (head.kind != 0) return fail(static_cast<ErrorCode>(head.kind), "operation of a batch");
    return bytes;
  }

 private:
  static std::unexpected<Error> corrupt() { return fail(ErrorCode::kCorrupt, "answer to a batch"); }

  Scratch request_;
  Scratch answer_;
  std::size_t request_bytes_ = 0;
  std::size_t answer_bytes_ = 0;
  std::size_t count_ = 0;
  Result<void> outcome_;
  std::span<const std::byte> rest_;
};

}  // namespace yonder::client::internal
